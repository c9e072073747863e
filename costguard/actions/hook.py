"""The owner's program that saves work before this machine ends: before an own action, or when the cloud announces one.

It runs once for an incident. What it does never decides whether the machine ends: its failure is told and nothing
more, because the cloud does not wait either.
"""

from costguard.actions import command, effect, results
from costguard.actions.base import Context
from costguard.engine import deadlines
from costguard.plans import Plan, PlanFinding, Result, worst

DEFAULT_SECONDS = deadlines.HOOK_SECONDS
"""Seconds; ``hooks.timeout``."""


def before_action(decided: Plan, context: Context) -> Plan:
    """Run it while the worker waits for its moment; a failure is a consequence of the plan."""
    if not context.live or not decided.may_act or not context.hook.get("pre_stop"):
        return decided
    outcome = run(context, context.incident, effect.timeout(context.hook, DEFAULT_SECONDS))
    if outcome.status != "failed":
        return decided
    hint = "run the program of hooks.pre_stop by hand and see what it says"
    finding = PlanFinding("hook_failed", f"{outcome.detail}; the action goes on", hint)
    return decided._replace(verdict=worst(decided.verdict, "consequences"), findings=(*decided.findings, finding))


def run(context: Context, occasion: str, within: float) -> Result:
    """Run it once for this occasion, an incident or an announcement, for at most so many seconds. Never raises."""
    mine = context._replace(settings={"run": context.hook.get("pre_stop")}, attempt=f"hook-{occasion}")
    begun = results.begin(mine)
    if not begun.first:
        return Result("done", "the pre-stop hook ran before")
    return effect.run_own(mine, "the pre-stop hook", command.arguments(mine), within, command.environment(mine))
