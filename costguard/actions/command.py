"""`command`: the owner's own program, without a shell, at most once, with a deadline."""

import os
import re
import shutil
from collections.abc import Mapping
from typing import NamedTuple

from costguard.actions import effect
from costguard.actions.base import Context
from costguard.engine import time_limits
from costguard.plans import Plan, PlanFinding, Result

DEFAULT_SECONDS = time_limits.ACTION_SECONDS
"""Seconds; ``actions.command.timeout``."""

_BILL = PlanFinding("bill_unknown", "unknown: whether the command ends the bill")

CREDENTIALS = "CREDENTIALS_DIRECTORY"
"""Where systemd lays the agent's own credentials: no business of a program that it starts."""


class CommandFacts(NamedTuple):
    """The arguments with their variables filled in, and where the program is (empty: nowhere)."""

    argv: tuple[str, ...]
    path: str


class Command:
    """Run ``actions.command.run``. Exit code 0 is success."""

    name = "command"

    def facts(self, context: Context) -> CommandFacts:
        """Fill in the variables and find the program, as execution will find it."""
        argv = arguments(context)
        return CommandFacts(argv, (shutil.which(argv[0]) or "") if argv else "")

    def plan(self, facts: CommandFacts) -> Plan:
        """A missing program is found here, not when it is needed."""
        if not facts.argv:
            hint = 'set run = ["/path/to/program", "argument"] under [actions.command]'
            return Plan("command", "refuse", (PlanFinding("command_missing", "no command is configured", hint),))
        if not facts.path:
            text = f"the program {facts.argv[0]!r} does not exist, is not executable or is not in PATH"
            hint = "write its full path in actions.command.run, then run `costguard config check`"
            return Plan("command", "refuse", (PlanFinding("command_not_found", text, hint),))
        return Plan("command", "go", (_BILL,), command=facts.argv)

    def execute(self, plan: Plan, context: Context) -> Result:
        """Run it in its own process group, with the variables of this moment; the whole group is ended at the deadline."""
        limit = min(effect.timeout(context.settings, DEFAULT_SECONDS), context.deadline)
        return effect.run_own(context, "the command", arguments(context), limit, environment(context))

    def confirm(self, context: Context, recorded: Result | None) -> Result:
        """Only its executor knows what the command did."""
        return recorded or Result("unknown", "no record of this attempt; the command is not repeated")


def variables(context: Context) -> dict[str, str]:
    """What a command can ask for, as ``{name}`` in an argument and as ``COSTGUARD_NAME`` in its environment."""
    return {
        "incident": context.incident,
        "reason": context.reason,
        "idle_seconds": f"{context.idle_seconds:.0f}",
        "gpus": ",".join(context.gpus),
        "sentence": context.sentence,
        "instance": context.instance,
        "task": context.task.get("id", ""),
        "task_kind": context.task.get("own_kind", ""),
    }


def arguments(context: Context) -> tuple[str, ...]:
    """The configured arguments; known variables are filled in, in one pass, all other braces stay."""
    run = context.settings.get("run")
    if not isinstance(run, list | tuple):
        return ()
    values = variables(context)
    pattern = re.compile(r"\{(" + "|".join(values) + r")\}")
    # A NUL cannot stand in an argument; the sentence may quote anything.
    return tuple(pattern.sub(lambda name: values[name[1]], str(word)).replace("\0", "") for word in run)


def environment(context: Context) -> Mapping[str, str]:
    """The guard's environment without costguard's own settings and secrets, and the variables."""
    secret = {*context.secret_variables, CREDENTIALS}
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith("COSTGUARD_") and name not in secret
    }
    return kept | {f"COSTGUARD_{name.upper()}": value.replace("\0", "") for name, value in variables(context).items()}
