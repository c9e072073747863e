"""The only place where an action starts a program that changes something."""

from collections.abc import Mapping, Sequence

from costguard import programs
from costguard.actions.base import Context, DryRunError
from costguard.masking import mask, secrets_of
from costguard.plans import Result


def run_own(
    context: Context,
    what: str,
    argv: Sequence[str],
    limit: float,
    environ: Mapping[str, str],
    account: programs.Account | None = None,
) -> Result:
    """Run a program of the owner for at most ``limit`` seconds, as ``account`` or as the agent; ``what`` names it.

    Exit code 0 is success.
    """
    try:
        ended = run(context, argv, deadline=limit, environ=environ, account=account)
    except OSError as error:
        return Result("failed", f"{what} could not be started: {error.strerror}")
    output = f"; it said: {ended.output}" if ended.output else ""
    if ended.expired:
        return Result("failed", f"{what} was killed after {limit:g} s{output}", "deadline")
    if ended.code == 0:
        return Result("done", f"{what} succeeded{output}", "exit code 0")
    if ended.code is not None and ended.code < 0:
        return Result("failed", f"{what} died of signal {-ended.code}{output}", f"signal {-ended.code}")
    return Result("failed", f"{what} failed with exit code {ended.code}{output}", f"exit code {ended.code}")


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
    account: programs.Account | None = None,
) -> programs.ProgramEnd:
    """Run the program of an action; its output is masked, because it goes into messages and records.

    Raises DryRunError unless the mode is live, OSError when the program cannot start.
    """
    if not context.live:
        raise DryRunError("dry run")
    ended = programs.run(argv, context.deadline if deadline is None else deadline, environ=environ, account=account)
    return ended._replace(output=mask(ended.output, secrets_of(argv)))
