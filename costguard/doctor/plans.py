"""Plan every configured action in the action worker; a plan has no effect."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from costguard.actions.base import Context
from costguard.actions.job import ActionAnswer
from costguard.agent.preflight import DENIED, UNKNOWN
from costguard.cloud.tags import CHECK_SECONDS
from costguard.doctor.finding import CheckResult, Level, bad, note
from costguard.engine.wording import wording_of
from costguard.engine.words import duration
from costguard.plans import VERDICT_WORDS
from costguard.process.child import EndedError, SilentError, first_answer
from costguard.process.wire import MalformedError

CLOUD_SECONDS = 20.0
"""Deadline of the cloud; then the worker names what did not answer."""

PLAN_SECONDS = CLOUD_SECONDS + CHECK_SECONDS + 8.0
"""Deadline of a plan, with the start of the worker, the cloud's library and the check of the tags."""

FRESH_SECONDS = 2 * 86400.0
"""Plans are made daily, spread over up to half a day: an older one was not confirmed by the last check."""

GOOD = frozenset(("go", "consequences"))

BILL_GOES_ON = "bill_goes_on"
"""The finding of an action that does not end the bill."""

TOLD = frozenset((DENIED, UNKNOWN))
"""Findings that need a person although the action itself may be carried out."""


class PlanShown(NamedTuple):
    """``findings`` are (code, text, hint); ``seen_by`` is the agent or this user; ``at`` the date of the plan, None: now."""

    action: str
    verdict: str
    findings: tuple[tuple[str, str, str], ...]
    seen_by: str
    at: float | None = None


class BootTimes(NamedTuple):
    """Dates: now, and when the machine started or resumed (None: unknown)."""

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
        elif report is None or action == "end_process":  # which the agent never plans
            result.append(_ask(action, effective))
    return result


def _ask(action: str, effective: Mapping[str, Any]) -> PlanShown:
    job = Context.of(effective, action)._replace(deadline=CLOUD_SECONDS, results="")  # a plan leaves no file
    who = f"uid {os.geteuid()}"
    try:
        answer = first_answer("act", ActionAnswer, job, PLAN_SECONDS)
    except SilentError:
        answer = ActionAnswer(error="the plan took too long")
    except EndedError:
        answer = ActionAnswer()
    except MalformedError as error:
        answer = ActionAnswer(
            error=f"internal error: malformed answer of the action worker ({error}); please report it"
        )
    if answer.plan is None:
        text = answer.error or "the action worker did not answer"
        return PlanShown(action, "failed", (("failed", text, "check again in a minute"),), who)
    findings = tuple((found.code, found.text, found.hint) for found in answer.plan.findings)
    return PlanShown(action, answer.plan.verdict, findings, who)


def plan_checks(found: Sequence[PlanShown], actions: Sequence[str], now: BootTimes) -> Iterator[CheckResult]:
    """Whether every action was proven to be possible since boot.

    An action that points to another one is skipped, as by the engine; then another one must pass.
    """
    by_action = {plan.action: plan for plan in found}
    passed = any(plan.verdict in GOOD for plan in found)
    for action in actions:
        plan, word = by_action.get(action), wording_of(action).word
        if plan is None:
            hint = "it is checked within a quarter of `cloud.spread` (5m by default); check again then"
            yield bad(f"{word}: not checked yet", hint)
            continue
        good = plan.verdict in GOOD
        level: Level = "ok" if good else "warn" if plan.verdict == "another" and passed else "bad"
        seen = "" if plan.seen_by == "agent" else " (checked as this user; the agent may have other rights)"
        hint = (
            ""
            if good or any(hint for _, _, hint in plan.findings)
            else "costguard checks again by itself: see `costguard status`"
        )
        yield CheckResult(level, f"{word}: {VERDICT_WORDS.get(plan.verdict, plan.verdict)}{seen}", hint)
        for code, text, hint in plan.findings:
            yield CheckResult("warn" if not good or code in TOLD else "note", text, hint)
        if good:
            yield from _old(plan, now)
    usable = [plan for plan in found if plan.action in actions and plan.verdict in GOOD]
    if usable and all(any(code == BILL_GOES_ON for code, _, _ in plan.findings) for plan in usable):
        text = f"{' and '.join(plan.action for plan in usable)}: the machine stays up and the bill goes on"
        yield bad(text, "choose a kill_action that ends the bill (docs/actions.md)")
    if not actions:
        yield note("without a valid configuration there is no action")


def _old(plan: PlanShown, now: BootTimes) -> Iterator[CheckResult]:
    """A plan that passed proves something only for this boot, and for some days."""
    if plan.at is None:
        return
    again = "it may be denied now; `costguard status` shows problems of the checks"
    if now.started is None or plan.at < now.started:
        yield bad(f"{plan.action}: its plan passed before the machine started, but not since", again)
    elif now.time - plan.at > FRESH_SECONDS:
        ago = duration(now.time - plan.at)
        yield bad(f"{plan.action}: its plan passed {ago} ago, but not since", again)
