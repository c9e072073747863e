"""The main function of every short-lived worker: one job line in, answers out, each a typed value."""

import os
from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

from costguard.process.wire import MalformedError, from_line, to_line

BAD_JOB = 2
"""Exit code for a malformed job."""

FAILED = 1

READ_BYTES = 1 << 16

_answers = 1
_unread = b""

J = TypeVar("J")


class WorkerAnswer(Protocol):
    """A named tuple with an ``error`` message for people, empty when there is none."""

    @property
    def error(self) -> str:
        """The message."""


class Done(NamedTuple):
    """The answer of a worker that does one thing: it is done when ``error`` is empty. ``notes`` go to the journal."""

    error: str
    notes: tuple[str, ...] = ()


A = TypeVar("A", bound=WorkerAnswer)


def serve(kind: type[J], do: Callable[[J], A | None], broken: Callable[[str], A]) -> int:
    """Do the one job on standard input, answer, and return the exit code; end of input means that the guard is gone.

    ``do`` may also `say` its answers itself and return None; ``broken`` turns an error message into an answer, for a
    malformed job. Whatever else is printed, as a library may do, goes to standard error.
    """
    global _answers  # noqa: PLW0603 - where answers go belongs to the process, as standard output does
    _answers = os.dup(1)
    os.dup2(2, 1)
    line = next_line()
    if not line.strip():
        return 0
    try:
        job = from_line(kind, line)
    except MalformedError as error:
        say(broken(f"internal error: malformed job ({error}); please report it"))
        return BAD_JOB
    answer = do(job)
    if answer is None:
        return 0
    say(answer)
    return FAILED if answer.error else 0


def next_line() -> bytes:
    """The next line on standard input, without its end; empty when the guard is gone.

    Nothing of Python's own waits for it: a thread that still does so keeps no process from ending.
    """
    global _unread  # noqa: PLW0603 - as standard input, it belongs to the process
    while b"\n" not in _unread:
        data = os.read(0, READ_BYTES)
        if not data:
            break
        _unread += data
    line, _, _unread = _unread.partition(b"\n")
    return line


def say(answer: WorkerAnswer) -> None:
    """Write one answer line. That the guard is gone is no error."""
    data = to_line(answer) + b"\n"
    try:
        while data:
            data = data[os.write(_answers, data) :]
    except OSError:
        return
