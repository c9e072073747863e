"""The action worker: ``python -m costguard.actions.worker``, one job, one JSON object per line.

The job comes on standard input; ``plan`` answers at once, ``act`` plans, says that it is ready and
waits for ``{"go":true}``, ``confirm`` says what became of an attempt, ``hook`` saves work. The end of input before *go*
ends the worker without an effect. After *go* it finishes under its deadline, whoever dies.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from typing import Any

from costguard.actions import hook, marks, proven, record, results
from costguard.actions.base import Action, Context, DryRunError, Host, Outcome, Plan
from costguard.actions.registry import ACTIONS
from costguard.masking import mask
from costguard.programs import die_with_parent

BAD_JOB = 2
"""Exit code for a job that nobody can do."""

_CONFIRM_POLL = 0.1  # seconds between looks at an executor that still runs


def main() -> int:
    """Do one job."""
    die_with_parent()
    line = sys.stdin.buffer.readline()
    if not line.strip():
        return 0
    try:
        job = json.loads(line)
        context = parse(job)
        action = ACTIONS[context.action]
        kind = {"plan": plan, "act": act, "confirm": confirm, "hook": save}[job["job"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        say({"error": f"the job makes no sense: {type(error).__name__}: {mask(str(error))}"})
        return BAD_JOB
    kind(action, context)
    return 0


def parse(job: Mapping[str, Any]) -> Context:
    """Read a job. Raises KeyError, TypeError or ValueError for one that makes no sense."""
    given = job.get("context") or {}
    host = job.get("host") or {}
    return Context(
        action=str(job["action"]),
        mode=str(job.get("mode", "dry-run")),
        incident=str(job.get("incident") or ""),
        attempt=str(job.get("attempt") or ""),
        reason=str(job.get("reason") or ""),
        sentence=str(job.get("sentence") or ""),
        settings=dict(job.get("settings") or {}),
        cloud=dict(job.get("cloud") or {}),
        sink=dict(job.get("sink") or {}),
        heartbeat=dict(job.get("heartbeat") or {}),
        hook=dict(job.get("hook") or {}),
        asks=job.get("asks") is True,
        host=Host.of(host),
        providers=tuple(map(str, job.get("providers") or ())),
        results=str(job.get("results") or ""),
        deadline=float(job.get("deadline") or Context._field_defaults["deadline"]),
        fallback=job.get("fallback") is True,
        idle_seconds=float(given.get("idle_seconds") or 0.0),
        gpus=tuple(map(str, given.get("gpus") or ())),
        instance=str(given.get("instance") or ""),
    )


def plan(action: Action[Any], context: Context) -> None:
    """Look, decide, and say so."""
    decided = marks.check(action.plan(action.facts(context)), context)
    proven.keep(decided, context)
    say({"plan": _as_json(decided)})


def act(action: Action[Any], context: Context) -> None:
    """Plan, let the record leave the machine, save work, wait for *go*, act at most once."""
    decided = record.announce(action.plan(action.facts(context)), context)
    if not context.asks:
        decided = hook.before_action(decided, context)
    proven.keep(decided, context)
    say({"plan": _as_json(decided)})
    if not decided.may_act:
        return
    say({"ready": True})
    if not _go():
        return
    saved = hook.before_action(decided, context) if context.asks else decided
    outcome = perform(action, decided, context)
    lost = [finding.text for finding in saved.findings[len(decided.findings) :]]
    outcome = outcome._replace(detail="; ".join((outcome.detail, *lost)))
    say({"outcome": outcome.as_json})
    record.conclude(outcome, context)


def perform(action: Action[Any], decided: Plan, context: Context) -> Outcome:
    """Act once for this attempt, and leave a record that outlives this process."""
    if not context.live:
        return Outcome("refused", "dry run")
    begun = results.begin(context)
    if not begun.first:
        return Outcome("unknown", "already started; an attempt is never repeated")
    die_with_parent(False)
    # The command may be the end of this machine, which sends SIGTERM to everybody: record the outcome first.
    signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        outcome = action.execute(decided, context)
    except DryRunError:
        outcome = Outcome("refused", "dry run")
    except Exception as error:  # noqa: BLE001 - whatever broke, what became of the attempt must be said and recorded
        outcome = Outcome(
            "unknown", f"costguard itself failed while acting: {type(error).__name__}: {mask(str(error))}"
        )
    trouble = [words for words in (begun.trouble, results.finish(context, outcome)) if words]
    return outcome._replace(detail="; ".join((outcome.detail, *dict.fromkeys(trouble))))


def confirm(action: Action[Any], context: Context) -> None:
    """Say what became of an attempt; wait a part of the time for an executor that still runs."""
    began = time.monotonic()
    record = results.read(context)
    while record and record.outcome is None and record.running and time.monotonic() < began + context.deadline / 2.0:
        time.sleep(_CONFIRM_POLL)
        record = results.read(context)
    context = context._replace(deadline=context.deadline - (time.monotonic() - began))
    if record and record.outcome is None and record.running:
        outcome = Outcome("pending", "the attempt is still being executed")
    elif record and record.outcome is None:
        lost = Outcome("unknown", "the attempt was started and its worker is gone; it is not repeated")
        outcome = action.confirm(context, lost)
    else:
        outcome = action.confirm(context, record.outcome if record else None)
    say({"outcome": outcome.as_json})


def save(_: Action[Any], context: Context) -> None:
    """Run the pre-stop hook: the cloud has announced that it takes the machine away."""
    if context.live:
        say({"outcome": hook.run(context, context.attempt, context.deadline).as_json})
    else:
        say({"outcome": Outcome("refused", "dry run").as_json})


def say(message: Mapping[str, object]) -> None:
    """Write one line; a guard that is gone reads it no more, and that is no error."""
    data = json.dumps(message, separators=(",", ":")).encode() + b"\n"
    try:
        while data:
            data = data[os.write(1, data) :]
    except BrokenPipeError:
        return


def _go() -> bool:
    line = sys.stdin.buffer.readline()
    try:
        message = json.loads(line or b"{}")
    except ValueError:
        return False
    return isinstance(message, dict) and message.get("go") is True


def _as_json(decided: Plan) -> dict[str, object]:
    hidden = {"command", *(name for name in ("receipt", "price") if not getattr(decided, name))}
    kept = {name: value for name, value in decided._asdict().items() if name not in hidden}
    return kept | {"findings": [finding._asdict() for finding in decided.findings]}


if __name__ == "__main__":
    sys.exit(main())
