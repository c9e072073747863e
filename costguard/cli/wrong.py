"""Explain wrong usage: what is wrong with the command line, and what to write instead. Imported only then."""

import difflib
import re
from collections.abc import Sequence

import click

from costguard.cli.old_flags import ours
from costguard.errors import CostguardError

_NO_ARGUMENTS: type[Exception] | tuple[()] = getattr(click.exceptions, "NoArgsIsHelpError", ())
"""Older versions of click have none: they print the help and end."""

_MEANT = {
    "start": "run", "watch": "run", "guard": "run", "monitor": "run", "agent": "run", "daemon": "run",
    "info": "status", "show": "status", "ps": "status", "why": "status", "top": "status",
    "log": "history", "logs": "history", "list": "history", "incidents": "history", "savings": "history",
    "check": "doctor", "preflight": "doctor", "diagnose": "doctor", "verify": "doctor", "test": "doctor",
    "snooze": "hold", "pause": "hold", "postpone": "hold", "extend": "hold", "keep": "hold", "veto": "hold",
    "resume": "release", "unhold": "release", "continue": "release",
    "shutdown": "stop", "terminate": "stop", "kill": "stop", "down": "stop", "autostop": "run",
    "policy": "permissions", "iam": "permissions", "init": "config init", "configure": "config init",
    "simulate": "replay", "backtest": "replay", "explain": "status",
    "gpu_sentinel": "run --preset gpu-sentinel", "gpu-sentinel": "run --preset gpu-sentinel", "gpu_idle_timeout": "exec",
    "gpu-idle-timeout": "exec", "gpu_mon": "fill --config", "gpu-mon": "fill --config", "background": "fill", "burn": "stress",
}  # fmt: skip
"""What other tools call our verbs."""


def explain(error: click.UsageError, arguments: Sequence[str]) -> CostguardError | None:
    """The same error, explained, with the next command; None where click's own page is the answer."""
    if isinstance(error, _NO_ARGUMENTS):
        return None
    command = error.ctx.command_path if error.ctx else "costguard"
    if isinstance(error, click.NoSuchOption):
        return _option(error, command, arguments)
    if isinstance(error, click.MissingParameter):
        return _missing(error, command)
    if isinstance(error, click.BadParameter):
        named = _named(error.param, error.ctx) if error.param and error.ctx else "the value"
        return CostguardError(f"{named}: {_plain(error.message)}", f"`{command} --help` shows what is allowed")
    group = error.ctx.command if error.ctx else None
    if isinstance(group, click.Group) and error.ctx is not None:
        return _verb(error.ctx, group, command, arguments)
    return CostguardError(_plain(error.message, command), f"`{command} --help` lists what there is")


def _named(param: click.Parameter, context: click.Context) -> str:
    """A parameter as it is typed, in every spelling."""
    return ", ".join(param.opts) if isinstance(param, click.Option) else param.get_error_hint(context).strip("'")


def _plain(message: str, command: str = "") -> str:
    """A message of click in plain English."""
    message = re.sub(
        r"is not in the range ([\d.]+)<=x<=([\d.]+)", r"is out of range; allowed: \1 to \2", message.rstrip(".")
    )
    message = re.sub(r"is not a valid (float|integer)( range)?", "is not a number", message)
    return re.sub(r"^Got unexpected extra arguments? \((.*)\)$", rf"`{command}` does not take \1", message)


def _option(error: click.NoSuchOption, command: str, arguments: Sequence[str]) -> CostguardError:
    message = f"`{command}` has no option {error.option_name}"
    params = error.ctx.command.params if error.ctx else ()
    if re.match(r"-\d", error.option_name):
        given = next((word for word in arguments if word.startswith(error.option_name)), error.option_name)
        return CostguardError(
            f"`{command}`: {given} begins with a minus, and nothing here is negative",
            f"`{command} --help` shows what is allowed",
        )
    known = [name for param in params for name in param.opts if name[0] == "-"]
    if hint := ours(error.option_name, arguments, command if "--set" in known else "costguard run", known):
        return CostguardError(message, hint)
    close = difflib.get_close_matches(error.option_name, known, 1)
    meant = f"; did you mean {close[0]}?" if close else ""
    more = "; `--set KEY=VALUE` sets any other" if "--set" in known else ""
    return CostguardError(message + meant, f"`{command} --help` lists its options{more}")


def _missing(error: click.MissingParameter, command: str) -> CostguardError:
    param = error.param
    name = (param.opts[0] if isinstance(param, click.Option) else param.human_readable_name) if param else "a value"
    metavar = f" {param.metavar}" if isinstance(param, click.Option) and param.metavar else ""
    example = f"{command} {name}{metavar}" if param else command
    return CostguardError(f"{command} needs {name}", f"`{example}`; `{command} --help` says more")


def _verb(context: click.Context, group: click.Group, command: str, arguments: Sequence[str]) -> CostguardError:
    known = group.list_commands(context)
    verb = next((word for word in arguments if not word.startswith("-") and word != context.info_name), "")
    message = f"there is no `{command} {verb}`"
    meant = _MEANT.get(verb.lower(), "") if context.parent is None else ""
    meant = meant or next(iter(difflib.get_close_matches(verb.lower(), known, 1)), "")
    message += f"; did you mean `{command} {meant}`?" if meant else ""
    return CostguardError(message, f"`{command} --help` lists what there is")
