"""The only place where an action starts a program that changes something."""

import os
import tempfile
from collections.abc import Mapping, Sequence

from costguard import programs
from costguard.accounts import Account
from costguard.actions import not_started, own_unit
from costguard.actions.base import Context, DryRunError
from costguard.masking import mask, secrets_of
from costguard.plans import Result

NOT_EXECUTABLE = 126
"""The exit code of a shell that may not execute what it was told to become."""


def run_own(
    context: Context,
    what: str,
    argv: Sequence[str],
    limit: float,
    environ: Mapping[str, str],
    account: Account | None = None,
) -> Result:
    """Run a program of the owner for at most ``limit`` seconds, as ``account`` or as the agent; ``what`` names it.

    Where systemd runs the agent, in a unit of its own: what is forbidden to the agent is not forbidden to it. Exit code 0 is success.
    """
    within, apart = "", True
    try:
        try:
            ended = _apart(context, argv, limit, environ, account)
        except own_unit.NotStartedError as error:
            within = f"; it ran inside the agent's own service, because systemd did not start a separate one: {error}"
            ended = None
        if ended is None:
            apart = False
            ended = run(context, argv, deadline=limit, environ=environ, account=account)
    except OSError as error:
        return Result(
            "failed", f"{what} could not be started: {not_started.explained(argv[0], error, environ, account)}{within}"
        )
    # a shell was to become it
    if apart and ended.code == NOT_EXECUTABLE and (why := not_started.refused(argv[0], account)):
        return Result("failed", f"{what} could not be started: {argv[0]}, run as {not_started.name_of(account)}; {why}")
    output = f"{within}; it said: {ended.output}" if ended.output else within
    if ended.expired:
        return Result("failed", f"{what} was killed after {limit:g} s{output}", "deadline")
    if ended.code == 0:
        return Result("done", f"{what} succeeded{output}", "exit code 0")
    if ended.code is not None and ended.code < 0:
        return Result("failed", f"{what} died of signal {-ended.code}{output}", f"signal {-ended.code}")
    return Result("failed", f"{what} failed with exit code {ended.code}{output}", f"exit code {ended.code}")


def _apart(
    context: Context, argv: Sequence[str], limit: float, environ: Mapping[str, str], account: Account | None
) -> programs.ProgramEnd | None:
    """Run it in a unit of its own; None where the agent is no service of systemd."""
    if not context.live:
        raise DryRunError("dry run")
    tools = own_unit.tools(context.host.procfs)
    if tools is None:
        return None
    folder = context.results if os.path.isdir(context.results) else tempfile.gettempdir()
    ended = own_unit.run(tools, argv, limit, environ, account, folder)
    return _masked(ended, argv)


def timeout(section: Mapping[str, object], default: float) -> float:
    """Seconds that a program of the owner may take, by the option ``timeout`` of its section."""
    seconds = section.get("timeout")
    return float(seconds) if isinstance(seconds, int | float) else default


def run(
    context: Context,
    argv: Sequence[str],
    *,
    deadline: float | None = None,
    environ: Mapping[str, str] | None = None,
    account: Account | None = None,
) -> programs.ProgramEnd:
    """Run the program of an action; its output is masked, because it goes into messages and records.

    Raises DryRunError unless the mode is live, OSError when the program cannot start.
    """
    if not context.live:
        raise DryRunError("dry run")
    ended = programs.run(argv, context.deadline if deadline is None else deadline, environ=environ, account=account)
    return _masked(ended, argv)


def _masked(ended: programs.ProgramEnd, argv: Sequence[str]) -> programs.ProgramEnd:
    return ended._replace(output=mask(ended.output, secrets_of(argv)))
