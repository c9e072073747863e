"""The action worker: ``python -m costguard.actions.worker``, one job, one JSON object per line.

The job comes on standard input; ``plan`` answers at once, ``act`` plans, says that it is ready and
waits for ``{"go":true}``, ``confirm`` says what became of an attempt, ``hook`` saves work. The end of input before *go*
ends the worker without an effect. After *go* it finishes under its deadline, whoever dies.
"""

import signal
import sys
import time
from typing import Any, get_args

from costguard.actions import hook, record, results, shutdown_behaviour, sigterm
from costguard.actions.base import Action, Context, DryRunError
from costguard.actions.cloud import CloudAction
from costguard.actions.command import Command
from costguard.actions.end_process import EndProcess
from costguard.actions.end_task import EndTask
from costguard.actions.job import ActionAnswer, Release
from costguard.actions.reboot import Reboot
from costguard.actions.shutdown import Shutdown
from costguard.cloud import tags
from costguard.cloud.api import Verb
from costguard.masking import mask
from costguard.parent import end_with_parent
from costguard.plans import Plan, Result
from costguard.process.wire import MalformedError, from_line
from costguard.process.worker import next_line, say, serve

_CONFIRM_POLL = 0.1  # seconds between looks at an executor that still runs

_ALL: tuple[Action[Any], ...] = (  # Any: each action has facts of its own kind, which only it reads
    *(CloudAction(name) for name in get_args(Verb)),
    Shutdown(),
    Reboot(),
    Command(),
    EndProcess(),
    EndTask(),
)

ACTIONS = {action.name: action for action in _ALL}


def main() -> int:
    """Do one job."""
    end_with_parent()
    return serve(Context, do, lambda error: ActionAnswer(error=error))


def do(context: Context) -> ActionAnswer | None:
    """What the job asks for."""
    action = ACTIONS.get(context.action)
    if action is None:
        return ActionAnswer(error=f"unknown action {context.action!r}; known: {', '.join(ACTIONS)}")
    {"plan": plan, "act": act, "confirm": confirm, "hook": save}[context.job](action, context)
    return None


def plan(action: Action[Any], context: Context) -> None:
    """Look, decide, and say so."""
    decided = sigterm.announced(action.plan(action.facts(context)), context)
    decided = tags.check(decided, context.access, context.sink, context.heartbeat)
    shutdown_behaviour.keep(decided, context)
    say_plan(decided)


def act(action: Action[Any], context: Context) -> None:
    """Plan, let the record leave the machine, save work, wait for *go*, act at most once."""
    decided = record.announce(sigterm.announced(action.plan(action.facts(context)), context), context)
    if not context.asks:
        decided = hook.before_action(decided, context, lambda: say(ActionAnswer(saving=True)))
    shutdown_behaviour.keep(decided, context)
    say_plan(decided)
    if not decided.may_act:
        return
    say(ActionAnswer(ready=True))
    release = _release()
    if not release.go:
        return
    if release.sentence:
        context = context._replace(sentence=release.sentence, idle_seconds=release.idle_seconds)
    saved = hook.before_action(decided, context) if context.asks else decided
    outcome = sigterm.after(perform(action, decided, context), context)
    lost = [finding.text for finding in saved.findings[len(decided.findings) :]]
    outcome = outcome._replace(detail="; ".join((outcome.detail, *lost)))
    say(ActionAnswer(outcome=outcome))
    record.conclude(outcome, context)


def perform(action: Action[Any], decided: Plan, context: Context) -> Result:
    """Act once for this attempt, and leave a record that outlives this process."""
    if not context.live:
        return Result("refused", "dry run")
    begun = results.begin(context)
    if not begun.first:
        return Result("unknown", "this attempt was started before; it is not repeated")
    end_with_parent(0)
    # The command may be the end of this machine, which sends SIGTERM to everybody: record the outcome first.
    signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        outcome = action.execute(decided, context)
    except DryRunError:
        outcome = Result("refused", "dry run")
    except Exception as error:  # noqa: BLE001 - whatever broke, what became of the attempt must be said and recorded
        outcome = Result(
            "unknown", f"internal error while acting: {type(error).__name__}: {mask(str(error))}; please report it"
        )
    trouble = [message for message in (begun.trouble, results.finish(context, outcome)) if message]
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
        outcome = Result("pending", "the attempt is still in progress")
    elif record and record.outcome is None:
        lost = Result("unknown", "the worker died during the attempt; it is not repeated")
        outcome = action.confirm(context, lost)
    else:
        outcome = action.confirm(context, record.outcome if record else None)
    say(ActionAnswer(outcome=outcome))


def save(_: Action[Any], context: Context) -> None:
    """Run the program of a step beside the guard, `pre_stop` where the cloud has announced that it takes the machine away."""
    if context.live:
        say(ActionAnswer(outcome=hook.run(context, context.attempt, context.deadline)))
    else:
        say(ActionAnswer(outcome=Result("refused", "dry run")))


def say_plan(decided: Plan) -> None:
    """Its command stays in this process: it may hold a secret."""
    say(ActionAnswer(plan=decided._replace(command=())))


def _release() -> Release:
    try:
        return from_line(Release, next_line())
    except MalformedError:  # or the end of input
        return Release(False)


if __name__ == "__main__":
    sys.exit(main())
