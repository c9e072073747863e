"""What every configured action would do, and whether it may: asked of the action worker, which has no effect."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from costguard.actions.base import Context
from costguard.actions.job import ActionAnswer
from costguard.agent.preflight import DENIED, UNKNOWN
from costguard.cloud.tags import CHECK_SECONDS
from costguard.doctor.finding import CheckResult, Level
from costguard.engine.words import duration
from costguard.plans import VERDICT_WORDS
from costguard.process.child import first_answer
from costguard.process.wire import MalformedError, build

CLOUD_SECONDS = 20.0
"""For a cloud to be asked; then the worker names what did not answer."""

PLAN_SECONDS = CLOUD_SECONDS + CHECK_SECONDS + 8.0
"""For the whole of a plan: also the start of the worker with the cloud's library, and the question for the tags."""

FRESH_SECONDS = 2 * 86400.0
"""Checks are made daily, and may be spread over half a day: a plan that is older was not confirmed by the last one."""

GOOD = frozenset(("go", "consequences"))

BILL_GOES_ON = "bill_goes_on"
"""The finding of an action after which the machine is billed as before."""

TOLD = frozenset((DENIED, UNKNOWN))
"""Findings that need somebody although the action itself may be carried out."""


class PlanShown(NamedTuple):
    """``findings`` are (code, text, hint); ``seen_by`` is who asked: the agent, or this user; ``at`` a date, None: now."""

    action: str
    verdict: str
    findings: tuple[tuple[str, str, str], ...]
    seen_by: str
    at: float | None = None


class BootTimes(NamedTuple):
    """Dates: now, and when the machine started or woke up (None: nobody says so)."""

    time: float
    started: float | None


def plans(effective: Mapping[str, Any], report: Mapping[str, Any] | None) -> list[PlanShown]:
    """One for each action: the agent's own where one runs, because it acts with its own rights and settings."""
    found = {plan["action"]: plan for plan in (report["plans"] if report else ())}
    policy = effective.get("policy")
    listed = [policy["kill_action"], *policy.get("fallback", ())] if policy else []
    result = []
    for action in dict.fromkeys(listed):
        if action in found:
            findings = tuple((str(c), str(t), str(h)) for c, t, h in found[action]["findings"])
            result.append(PlanShown(action, str(found[action]["verdict"]), findings, "agent", found[action]["at"]))
        elif report is None or action == "end_process":  # which the agent does by itself, with nothing to check
            result.append(_ask(action, effective))
    return result


def _ask(action: str, effective: Mapping[str, Any]) -> PlanShown:
    job = Context.of(effective, action)._replace(deadline=CLOUD_SECONDS, results="")  # a question leaves no file
    who = f"uid {os.geteuid()}"
    said = first_answer("act", [job], PLAN_SECONDS)
    try:
        answer = build(ActionAnswer, said) if said is not None else ActionAnswer(error="the plan took too long")
    except MalformedError as error:
        answer = ActionAnswer(error=f"the worker answered with nonsense ({error})")
    if answer.plan is None:
        words = answer.error or "the worker said nothing"
        return PlanShown(action, "failed", (("failed", words, "look again in a minute"),), who)
    findings = tuple((found.code, found.text, found.hint) for found in answer.plan.findings)
    return PlanShown(action, answer.plan.verdict, findings, who)


def plan_checks(found: Sequence[PlanShown], actions: Sequence[str], now: BootTimes) -> Iterator[CheckResult]:
    """In words, and whether every action that may be used was proven to be possible since the boot.

    What points to another action is passed over, as the engine does it; then another one must pass.
    """
    by_action = {plan.action: plan for plan in found}
    passed = any(plan.verdict in GOOD for plan in found)
    for action in actions:
        plan = by_action.get(action)
        if plan is None:
            hint = "it is checked within a quarter of `cloud.spread` (5m by default); look again then"
            yield CheckResult("bad", f"{action}: whether it may be carried out is not known yet", hint)
            continue
        good = plan.verdict in GOOD
        level: Level = "ok" if good else "warn" if plan.verdict == "another" and passed else "bad"
        seen = "" if plan.seen_by == "agent" else " (as this user sees it; the agent may have other rights)"
        hint = (
            ""
            if good or any(hint for _, _, hint in plan.findings)
            else "it is checked again by itself: `costguard status`"
        )
        yield CheckResult(level, f"{action}: {VERDICT_WORDS.get(plan.verdict, plan.verdict)}{seen}", hint)
        for code, text, hint in plan.findings:
            yield CheckResult("warn" if not good or code in TOLD else "note", text, hint)
        if good:
            yield from _old(plan, now)
    usable = [plan for plan in found if plan.action in actions and plan.verdict in GOOD]
    if usable and all(any(code == BILL_GOES_ON for code, _, _ in plan.findings) for plan in usable):
        text = f"{' and '.join(plan.action for plan in usable)}: the machine stays up, and its bill goes on"
        yield CheckResult(
            "bad", text, "choose a kill_action that ends the bill: `costguard config show` has all of them"
        )
    if not actions:
        yield CheckResult("note", "without rules no action is configured")


def _old(plan: PlanShown, now: BootTimes) -> Iterator[CheckResult]:
    """A plan that passed proves something of this boot, and for some days."""
    if plan.at is None:
        return
    again = "what was checked then may be denied now; `costguard status` shows the troubles of the checks"
    if now.started is None or plan.at < now.started:
        yield CheckResult("bad", f"{plan.action}: its plan passed before the machine started, and not since", again)
    elif now.time - plan.at > FRESH_SECONDS:
        ago = duration(now.time - plan.at)
        yield CheckResult("bad", f"{plan.action}: its plan passed {ago} ago, and no check has passed since", again)
