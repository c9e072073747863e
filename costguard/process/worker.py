"""The main of every short-lived worker: one job line in, answers out, each a typed value."""

import os
import sys
from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

from costguard.process.wire import MalformedError, from_line, to_line

BAD_JOB = 2
"""Exit code for a job that nobody can do."""

FAILED = 1

_answers = 1

J = TypeVar("J")


class WorkerAnswer(Protocol):
    """What a worker says: a named tuple that names an error, empty when there is none."""

    @property
    def error(self) -> str:
        """Words for people."""


class Done(NamedTuple):
    """The answer of a worker that does one thing: done when ``error`` is empty. ``notes`` are for the journal."""

    error: str
    notes: tuple[str, ...] = ()


A = TypeVar("A", bound=WorkerAnswer)


def serve(kind: type[J], do: Callable[[J], A | None], broken: Callable[[str], A]) -> int:
    """Do the one job on standard input and answer; nothing at the end of input, for then the guard is gone. The exit code.

    ``do`` may also `say` its answers itself and give None; ``broken`` makes the answer to a job that makes no sense.
    Whatever else is printed, as a library may do, goes to standard error: it is no answer.
    """
    global _answers  # noqa: PLW0603 - where answers go belongs to the process, as standard output does
    _answers = os.dup(1)
    os.dup2(2, 1)
    line = sys.stdin.buffer.readline()
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


def say(answer: WorkerAnswer) -> None:
    """Write one line; a guard that is gone reads it no more, and that is no error."""
    data = to_line(answer) + b"\n"
    try:
        while data:
            data = data[os.write(_answers, data) :]
    except OSError:
        return
