"""A child process with a deadline: started with a job, its answers typed, killed when it is late.

Its owner decides what the answers mean, and what to report when there are none.
"""

from typing import Generic, NamedTuple, TypeVar

from costguard.host.ports import Ended, Host, Instant, Line, Report
from costguard.process.wire import MalformedError, from_line, to_line

A = TypeVar("A")

NEVER = float("inf")

NOT_IN_TIME = "it did not answer in time and was killed"


class TaskError(Exception):
    """There is no answer. The message says why: *it exited without …*."""


def exit_reason(code: int) -> str:
    """An exit code, or the signal that it stands for."""
    return f"signal {-code}" if code < 0 else f"exit code {code}"


class ChildTask(Generic[A]):
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
        """Whether an earlier one survives SIGKILL: the next would hang beside it."""
        return self._host.unreaped(self._program) > 0

    def owns(self, child: int) -> bool:
        """Whether this child is the process."""
        return child == self._child

    def start(self, job: NamedTuple, until: float) -> None:
        """Start a process, killing one that runs; ``until`` is its deadline on the boot clock. Raises SpawnFailed."""
        self.stop()
        self._child = self._host.spawn(self._program, to_line(job))
        self._answered, self.deadline = False, until

    def send(self, line: bytes) -> bool:
        """Write one more line to the process; False when it is gone or does not read."""
        return self._child is not None and self._host.send(self._child, line)

    def answer(self, event: Line | Ended) -> A | None:
        """The answer in a line, or None at the end of a process that had answered.

        Raises TaskError for a malformed answer (the process runs on), and at the end of one that never answered.
        """
        if isinstance(event, Line):
            try:
                answer = from_line(self._kind, event.data)
            except MalformedError as error:
                raise TaskError(f"it sent a malformed answer ({error})") from error
            self._answered = True
            return answer
        self._child, self.deadline = None, NEVER
        if not self._answered:
            raise TaskError(f"it exited without an answer ({exit_reason(event.code)})")
        return None

    def only_answer(self, event: Line | Ended) -> A:
        """The answer of a process that gives only one, and is killed with it. Raises TaskError."""
        try:
            answer = self.answer(event)
        finally:
            self.stop()
        assert answer is not None  # killed with its answer, so no end of it follows
        return answer

    def late(self, now: float) -> bool:
        """Kill the process when it is past its deadline; whether it was."""
        if now < self.deadline:
            return False
        self.stop()
        return True

    def stop(self) -> None:
        """Kill the process, if there is one; no event of it follows."""
        if self._child is not None:
            self._host.kill(self._child)
        self._child, self.deadline = None, NEVER


class Part(Generic[A]):
    """What the guard does beside watching, by one child process at a time. ``report`` is called with its subject."""

    def __init__(self, host: Host, program: str, answer: type[A], report: Report) -> None:
        self._host, self._report = host, report
        self._task = ChildTask(host, program, answer)

    @property
    def deadline(self) -> float:
        """When `run` must be called next, on the boot clock."""
        return self._task.deadline

    def owns(self, child: int) -> bool:
        """Whether this child is its process."""
        return self._task.owns(child)

    def run(self, now: Instant) -> None:
        """Start what is due, end what is late."""
        raise NotImplementedError

    def take(self, event: Line | Ended, now: Instant) -> None:
        """Handle a line of its process, or the end of it."""
        raise NotImplementedError

    def stop(self) -> None:
        """Kill its process, if one runs."""
        self._task.stop()
