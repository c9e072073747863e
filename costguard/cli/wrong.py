"""Wrong usage in words: what is wrong with the command line, and what to write instead. Imported only then."""

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
}  # fmt: skip
"""What other tools call it."""

_LATER = {
    "exec": "costguard guards a machine and starts no program yet: start yours beside `costguard run`",
    "fill": "lending idle GPUs is not there yet",
    "install": "the README shows how to install the service: `costguard run` guards until then",
    "uninstall": "the README shows how to remove it",
    "import": "there is no import yet: `costguard config init --preset NAME` starts from the rules of another tool",
    "notify": "there is no such verb yet: `costguard doctor` says whom a warning would reach",
}
"""Verbs that people have read of, and that this version lacks."""


def explain(error: click.UsageError, arguments: Sequence[str]) -> CostguardError | None:
    """The same error in words, with the next command; None where click's own page is the answer."""
    if isinstance(error, _NO_ARGUMENTS):
        return None
    command = error.ctx.command_path if error.ctx else "costguard"
    helping = f"`{command} --help` lists what there is"
    if isinstance(error, click.NoSuchOption):
        return _option(error, command, arguments)
    if isinstance(error, click.MissingParameter):
        return _missing(error, command)
    if isinstance(error, click.BadParameter):
        named = error.param.get_error_hint(error.ctx).strip("'") if error.param and error.ctx else "the value"
        return CostguardError(f"{named}: {_plain(error.message)}", f"`{command} --help` says what is allowed")
    group = error.ctx.command if error.ctx else None
    if isinstance(group, click.Group) and error.ctx is not None:
        return _verb(error.ctx, group, command, arguments)
    return CostguardError(_plain(error.message, command), helping)


def _plain(message: str, command: str = "") -> str:
    """The words of click as people say it."""
    message = re.sub(
        r"is not in the range ([\d.]+)<=x<=([\d.]+)", r"is out of range; allowed: \1 to \2", message.rstrip(".")
    )
    message = re.sub(r"is not a valid (float|integer)( range)?", "is no number", message)
    return re.sub(r"^Got unexpected extra arguments? \((.*)\)$", rf"`{command}` does not take \1", message)


def _option(error: click.NoSuchOption, command: str, arguments: Sequence[str]) -> CostguardError:
    words = f"`{command}` has no option {error.option_name}"
    known = [name for each in (error.ctx.command.params if error.ctx else ()) for name in each.opts if name[0] == "-"]
    if hint := ours(error.option_name, arguments, command if "--set" in known else "costguard run"):
        return CostguardError(words, hint)
    close = difflib.get_close_matches(error.option_name, known, 1)
    meant = f"; did you mean {close[0]}?" if close else ""
    more = "; `--set KEY=VALUE` sets what has none" if "--set" in known else ""
    return CostguardError(words + meant, f"`{command} --help` lists its options{more}")


def _missing(error: click.MissingParameter, command: str) -> CostguardError:
    if command.endswith(" hold"):
        return CostguardError(
            "hold for how long? The time is missing", "such as `costguard hold 2h`, at most 24h by default"
        )
    param = error.param
    name = (param.opts[0] if isinstance(param, click.Option) else param.human_readable_name) if param else "a value"
    metavar = f" {param.metavar}" if isinstance(param, click.Option) and param.metavar else ""
    example = f"{command} {name}{metavar}" if param else command
    return CostguardError(f"{command} needs {name}", f"`{example}`; `{command} --help` says more")


def _verb(context: click.Context, group: click.Group, command: str, arguments: Sequence[str]) -> CostguardError:
    known = group.list_commands(context)
    said = next((each for each in arguments if not each.startswith("-") and each != context.info_name), "")
    helping = f"`{command} --help` lists what there is"
    words = f"there is no `{command} {said}`"
    if context.parent is None and said in _LATER and said not in known:
        return CostguardError(words, _LATER[said])
    meant = _MEANT.get(said.lower(), "") if context.parent is None else ""
    meant = meant or next(iter(difflib.get_close_matches(said.lower(), known, 1)), "")
    return CostguardError(words + (f"; did you mean `{command} {meant}`?" if meant else ""), helping)
