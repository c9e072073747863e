"""What each action would do: asked at the start and daily, sooner where that failed; and which may be carried out."""

from costguard.engine import time_limits
from costguard.engine.effects import Check
from costguard.engine.events import Outcome
from costguard.engine.rules import DAY_SECONDS, is_machine_action
from costguard.engine.state import ACTING, CONFIRMING, DONE, PASSED, UNDATED, Verdict
from costguard.engine.turn import Turn, action_of

PREFLIGHT_EVERY_SECONDS = DAY_SECONDS

ALREADY_ENDED = frozenset({"task_ended", "task_ending"})
"""Findings of a plan that is refused because what it would end has ended, or is being ended: nobody has to do anything."""

SCOPE_SECONDS = 60.0
"""So long the first plan for a task waits for its GPUs to be known."""

REFUSED = frozenset({"refuse", "another"})
"""Verdicts of a plan that must not be carried out."""

REPEATED_STOPS = 2
"""So many own stops within a day, with no work in between, and the next one is a message only."""


def preflight(turn: Turn) -> None:
    """At the start and daily: may every configured action, and what would it do?"""
    plans = turn.core.plans
    if turn.rules.policy.ends_task and not turn.gpus and turn.at < turn.core.clocks.began + SCOPE_SECONDS:
        return  # the scheduler's word is compared with them
    if turn.at < plans.check_at or turn.core.phase in {ACTING, CONFIRMING}:  # a machine that stops can do nothing else
        return
    since = turn.at if plans.checking_since is None else plans.checking_since  # a restart makes nobody wait anew
    passed = {plan.action for plan in plans.verdicts if plan.verdict in PASSED}
    checking = []
    for action in turn.rules.actions:
        if action != "end_process":
            effect_id = turn.serial("c")
            turn.effects.append(Check(effect_id, action, since, known=action in passed, tries=plans.failed_rounds))
            checking.append(f"{effect_id} {action}")
    turn.plans = plans._replace(
        check_at=turn.at + PREFLIGHT_EVERY_SECONDS,
        checking=tuple(checking),
        checking_since=since if checking else None,
        round_failed=False,
    )


def checked(turn: Turn, action: str, event: Outcome) -> None:
    """What became of the check of an action."""
    plans, before = turn.plans, turn.plans.verdict(action)
    checking = tuple(entry for entry in plans.checking if not entry.startswith(event.effect + " "))
    turn.plans = plans._replace(checking=checking, checking_since=plans.checking_since if checking else None)
    if event.status == "failed":
        _check_again(turn, event.at)
        if before:
            return  # a check that failed takes back nothing of what an earlier one found
    elif not checking and not plans.round_failed:
        turn.plans = turn.plans._replace(failed_rounds=0)
    turn.plans = turn.plans.with_verdict(Verdict(action, event.status, event.findings, event.at))
    if event.status == "refuse" and before != "refuse" and not already_ended(turn, action):
        turn.tell("preflight_refused", "critical", action=action, findings=[list(f) for f in event.findings])
    elif event.status in PASSED:
        _passed(turn, action, before)


def _check_again(turn: Turn, at: float) -> None:
    """What could not be checked is checked again, after a pause that grows with each round that failed."""
    plans = turn.plans
    if not plans.round_failed:  # of several actions the first that fails counts
        rounds = plans.failed_rounds + 1
        soon = min(plans.check_at, at + time_limits.pause(rounds))
        turn.plans = plans._replace(failed_rounds=rounds, round_failed=True, check_at=soon)


def _passed(turn: Turn, action: str, before: str) -> None:
    """A plan that passes after it was refused ends *cannot*, unless something else stands in the way."""
    incident = turn.core.incident
    latched = turn.core.phase == DONE and turn.ending.done == "cannot"
    mine = latched and incident is not None and incident.action == action
    refused = before in REFUSED or (incident is not None and incident.requested)  # else it was a third stop
    unlatched = mine and refused and not cannot(turn)
    if before == "refuse" or unlatched:
        turn.tell("preflight_passed", "info", action=action, takes_back="critical")
    if unlatched:
        turn.watch()


def first_link(turn: Turn, start: int = 0) -> int:
    """The first action from there on whose last plan did not point to another one; ``start`` when each did."""
    actions = turn.rules.actions
    return next((i for i in range(start, len(actions)) if turn.core.plans.verdict(actions[i]) != "another"), start)


def cannot(turn: Turn) -> str:
    """Why the action that is next cannot be carried out, as far as is known before trying; empty when it can."""
    action = action_of(turn.core.incident, turn.rules)
    return refusal(turn, action) or third_stop(turn, action)


def refusal(turn: Turn, action: str) -> str:
    """Why the last plan of an action says that it must not be carried out; empty when it may, or none was made."""
    plan = turn.core.plans.last(action)
    if plan is None or plan.verdict not in REFUSED:
        return ""
    return "; ".join(text for _, text, _ in plan.findings) or f"the plan for {action} was refused"


def already_ended(turn: Turn, action: str) -> bool:
    """Whether the last plan of an action found that nothing is left to end."""
    plan = turn.core.plans.last(action)
    return plan is not None and plan.verdict in REFUSED and any(code in ALREADY_ENDED for code, _, _ in plan.findings)


def third_stop(turn: Turn, action: str) -> str:
    """Why this action would be one stop too many (I9); empty when it would not."""
    dates, wall = turn.core.ledger.stops, turn.wall
    # on a date that is known to be wrong nobody can say that a stop was long ago
    recent = [date for date in dates if wall - date < DAY_SECONDS or turn.synced is False or date == UNDATED]
    if is_machine_action(action) and len(recent) >= REPEATED_STOPS:
        return (
            "it was stopped twice within a day with no work in between; to allow a third stop: `sudo costguard release`"
        )
    return ""
