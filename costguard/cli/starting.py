"""Options of the verbs that start commands, and how their values are read."""

import signal
from collections.abc import Callable
from typing import NamedTuple, NoReturn, TypeVar

import click

from costguard.config import values
from costguard.errors import CostguardError

T = TypeVar("T")

LONGEST_INTERVAL_SECONDS = 3600.0

ANOTHER_PROC = "/proc belongs to another process namespace, or is not mounted, so processes cannot be followed"
ANOTHER_PROC_HINT = "start it with a /proc of its own: `unshare --pid --fork --mount-proc …`, or in a container"

_NO_END = {"SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGCONT", "SIGCHLD", "SIGWINCH", "SIGURG"}


def as_callback(read: Callable[[str], T]) -> Callable[[click.Context, click.Parameter, str | None], T | None]:
    """A click callback from a reader such as those of `costguard.config.values`."""

    def callback(_context: click.Context, _parameter: click.Parameter, value: str | None) -> T | None:
        try:
            return None if value is None else read(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return callback


def become_launcher(job: NamedTuple, program: str, what: str, code: int) -> NoReturn:
    """Become the launcher of a verb; ``what``: what did not happen where that fails. Raises CostguardError with this exit code."""
    from costguard.process.launch import exec_launcher

    try:
        exec_launcher(job, program)
    except OSError as error:
        hint = "check that Python and costguard are still where they were installed, or install again"
        raise CostguardError(f"the launcher could not be started ({error.strerror}); {what}", hint, code) from error


def share(text: object) -> float:
    """Read a share of the load, above 0: ``5%``, ``0.05``."""
    found = values.share(text)
    if found <= 0:
        raise ValueError("it must be greater than 0: no load is below 0")
    return found


def interval_seconds(text: object) -> float:
    """Read the time between two readings: more than 0, at most an hour."""
    found = values.seconds(text)
    if not 0 < found <= LONGEST_INTERVAL_SECONDS:
        raise ValueError(f"{text} is out of range; allowed: more than 0, at most 1h")
    return found


def signal_number(text: object) -> int:
    """``TERM``, ``SIGTERM`` or its number."""
    given = str(text).strip()
    name = given.upper()
    name = name if name.startswith("SIG") else f"SIG{name}"
    for one in signal.Signals:
        if (given == str(one.value) or name == one.name) and one.name not in _NO_END:
            return one.value
    raise ValueError(
        f"{text} is not a signal that ends a process; allowed: TERM, INT, QUIT, HUP, USR1 or another such signal, or its number"
    )
