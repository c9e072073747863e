"""A child process with a deadline, written once: started with a job, heard as typed answers, ended when it is late.

Whoever has one decides what its answers mean, and what to say when there are none.
"""

from typing import Generic, NamedTuple, TypeVar

from costguard.host.ports import Ended, Host, Line
from costguard.process.wire import MalformedError, from_line, to_line

A = TypeVar("A")

NEVER = float("inf")

NOT_IN_TIME = "it did not answer in time and was killed"


class TaskError(Exception):
    """There is no answer. The words follow what failed: *it ended without …*."""


def how(code: int) -> str:
    """An exit code, or the signal that it stands for."""
    return f"signal {-code}" if code < 0 else f"exit code {code}"


class Task(Generic[A]):
    """At most one process at a time of one program, whose lines are values of type ``answer``."""

    def __init__(self, host: Host, program: str, answer: type[A]) -> None:
        self._host, self._program, self._kind = host, program, answer
        self._child: int | None = None
        self._answered = False
        self.deadline = NEVER
        """When `late` ends it, on the boot clock."""

    @property
    def running(self) -> bool:
        """Whether there is a process."""
        return self._child is not None

    @property
    def hung(self) -> bool:
        """Whether an earlier one cannot be ended, not even by SIGKILL: the next would hang beside it."""
        return self._host.unreaped(self._program) > 0

    def owns(self, child: int) -> bool:
        """Whether this child is the process."""
        return child == self._child

    def start(self, job: NamedTuple, until: float) -> None:
        """Start one, in place of one that runs, with a deadline on the boot clock. Raises SpawnFailed."""
        self.stop()
        self._child = self._host.spawn(self._program, to_line(job))
        self._answered, self.deadline = False, until

    def send(self, line: bytes) -> bool:
        """Say something more to it; False when it is gone or does not listen."""
        return self._child is not None and self._host.send(self._child, line)

    def heard(self, event: Line | Ended) -> A | None:
        """An answer, or None at the end of a process that had given one.

        Raises TaskError: it said what makes no sense, and runs on; or it ended without an answer.
        """
        if isinstance(event, Line):
            try:
                answer = from_line(self._kind, event.data)
            except MalformedError as error:
                raise TaskError(f"it answered with nonsense ({error})") from error
            self._answered = True
            return answer
        self._child, self.deadline = None, NEVER
        if not self._answered:
            raise TaskError(f"it ended without an answer ({how(event.code)})")
        return None

    def only(self, event: Line | Ended) -> A:
        """The answer of a process that has but one: it is ended with it. Raises TaskError."""
        try:
            answer = self.heard(event)
        finally:
            self.stop()
        assert answer is not None  # of one that had answered no end is heard
        return answer

    def late(self, now: float) -> bool:
        """Whether it is past its deadline; then it has been killed."""
        if now < self.deadline:
            return False
        self.stop()
        return True

    def stop(self) -> None:
        """Kill it; nothing is heard of it any more."""
        if self._child is not None:
            self._host.kill(self._child)
        self._child, self.deadline = None, NEVER
