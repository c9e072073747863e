"""The owner's programs at the steps of an incident.

`pre_stop` saves work before this machine ends: before an own action, or when the cloud announces one.
Each runs once for its occasion; `pre_stop` and `undo` that an end of the agent, or of its worker, cut off run once more. What it does never decides whether the machine ends: its failure is told and nothing
more, because the cloud does not wait either.
"""

import os
import time
from collections.abc import Callable, Mapping

from costguard.accounts import Account, NoAccountError, account_of
from costguard.actions import command, effect, results
from costguard.actions.base import Context
from costguard.engine import time_limits
from costguard.engine.pre_stop_hook import HOOK_DONE, HOOK_FAILED
from costguard.plans import Plan, PlanFinding, Result, worst

DEFAULT_SECONDS = time_limits.HOOK_SECONDS
"""Seconds; ``hooks.timeout``."""

REPEATED = {"pre_stop": "work may be unsaved", "undo": "what pre_stop drained may still be drained"}
"""Steps that run once more where an end of the agent cut them off, and what it means where that was cut off too."""

_POLL_SECONDS = 0.1


def before_action(decided: Plan, context: Context, begins: Callable[[], None] = lambda: None) -> Plan:
    """Run it while the worker waits for its moment, after `begins`; the plan finds how it ended, and a failure is a consequence."""
    if not context.live or not decided.may_act or not context.hook.get("pre_stop"):
        return decided
    outcome = run(context, context.incident, effect.timeout(context.hook, DEFAULT_SECONDS), begins)
    if outcome.status != "failed":
        return decided._replace(findings=(*decided.findings, PlanFinding(HOOK_DONE, outcome.detail)))
    hint = "run the program of hooks.pre_stop by hand and see what it says"
    finding = PlanFinding(HOOK_FAILED, f"{outcome.detail}; the action goes on", hint)
    return decided._replace(verdict=worst(decided.verdict, "consequences"), findings=(*decided.findings, finding))


def run(context: Context, occasion: str, within: float, begins: Callable[[], None] = lambda: None) -> Result:
    """Run the program of a step once for this occasion (an incident, an announcement, a boot), for so many seconds at most.

    ``begins`` is called just before it starts. Never raises. An *undo* runs only after the pre-stop hook of its incident has begun.
    """
    step, until = context.step, time.monotonic() + within
    name = f"the {step.replace('_', '-')} hook"
    if step == "undo" and results.read(context._replace(attempt=f"hook-{occasion}")) is None:
        return Result("done", "nothing to undo: the pre-stop hook did not run")
    prefix = "hook" if step == "pre_stop" else step
    mine = context._replace(settings={"run": context.hook.get(step)}, attempt=f"{prefix}-{occasion}")
    repeats = step in REPEATED
    if repeats and (earlier := results.read(mine)) is not None:
        if (ended := _ended(mine, earlier, until)) is not None:
            return ended._replace(detail=f"{name} ran before: {ended.detail}")
        mine = mine._replace(attempt=f"{mine.attempt}-again")  # the agent ended in the middle of it
        within = max(0.0, until - time.monotonic())
    try:
        account = account_of(str(context.hook.get("user") or ""))
    except NoAccountError as error:
        return Result("failed", f"{name} did not run: hooks.user: {error}")
    if not results.begin(mine).first:
        if repeats:
            return Result("failed", f"{name} was cut off twice when the agent ended; {REPEATED[step]}")
        before = _ended(mine, results.read(mine), until)
        if before is None:
            return Result("failed", f"{name} was cut off when the agent ended, and is not run again")
        return before._replace(detail=f"{name} ran before: {before.detail}")
    begins()
    environment = command.environment(mine) if account is None else _of(account, mine)
    outcome = effect.run_own(mine, name, command.arguments(mine), within, environment, account)
    results.finish(mine, outcome)
    return outcome


def _ended(context: Context, record: results.Record | None, until: float) -> Result | None:
    """How an earlier run of the same hook ended, waiting while it goes on; None where it was cut off."""
    while record is not None and record.outcome is None and record.running and time.monotonic() < until:
        time.sleep(_POLL_SECONDS)
        record = results.read(context)
    return record.outcome if record is not None else None


def _of(account: Account, context: Context) -> Mapping[str, str]:
    """What a program of another user gets: nothing of the agent's, which may hold its secrets."""
    kept = {
        name: value for name, value in os.environ.items() if name in {"PATH", "LANG", "TZ"} or name.startswith("LC_")
    }
    own = {name: value for name, value in command.environment(context).items() if name.startswith("COSTGUARD_")}
    return {**kept, **account.variables, **own}
