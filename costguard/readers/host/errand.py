"""A short-lived process for what may hang or must not run as root. The reader starts it and never waits for it."""

import os
from typing import Generic, TypeVar

from costguard.process import outside
from costguard.process.command_lines import command_lines
from costguard.process.wire import MalformedError, from_line, to_line

ANSWER_BYTES = 1 << 14
"""The longest answer."""

LEAVES_WITHIN_SECONDS = 10.0
"""How long it has after SIGTERM to end what it started; then it is killed."""

UNREAPED_LIMIT = 8
"""With this many that do not end, no further one is started: it would hang too."""

_SIGTERM, _SIGKILL = 15, 9  # signal(7); the module would bring `enum` into a process that stays
_KEPT = ("PATH", "LANG", "TZ")

A = TypeVar("A")

_leaving: dict[int, float] = {}
"""Processes that were told to end and still exist, and when each is killed."""


class ErrandError(Exception):
    """There is no answer, and why."""


def collect(now: float) -> None:
    """Collect the processes that have ended, and kill those that should have."""
    for pid, until in list(_leaving.items()):
        try:
            ended = os.waitpid(pid, os.WNOHANG)[0]
        except ChildProcessError:
            ended = pid
        if ended:
            del _leaving[pid]
        elif now >= until:
            os.kill(pid, _SIGKILL)


def all_left() -> bool:
    """Whether every process has ended, so that `collect` has nothing to do."""
    return not _leaving


class Errand(Generic[A]):
    """One process of a program in `costguard.process.command_lines`, with its ``job``, and ``within`` seconds for an ``answer`` of this type."""

    def __init__(self, program: str, job: object, answer: type[A], now: float, within: float) -> None:
        """Raises ErrandError when it cannot be started."""
        self._type = answer
        collect(now)
        if len(_leaving) >= UNREAPED_LIMIT:
            raise ErrandError("cannot be done: earlier tries hang")
        self._until = now + within
        self._answer = b""
        try:
            argv = outside.command(within + LEAVES_WITHIN_SECONDS) + command_lines()[program]
            self._pid, self._output = _start(argv, to_line(job) + b"\n")
        except OSError as error:
            raise ErrandError(f"cannot be done ({error.strerror})") from error

    def fileno(self) -> int:
        """The descriptor that becomes readable when the answer comes."""
        return self._output

    def look(self, now: float) -> A | None:
        """The answer, None while it is not there yet. Raises ErrandError if none will come. The errand is over with either."""
        try:
            while len(self._answer) <= ANSWER_BYTES and (data := os.read(self._output, ANSWER_BYTES)):
                self._answer += data
        except BlockingIOError:
            if b"\n" not in self._answer:
                if now < self._until:
                    return None
                self.stop(now)
                raise ErrandError("does not end") from None
        self.stop(now)
        try:
            return from_line(self._type, self._answer.partition(b"\n")[0])
        except MalformedError:
            raise ErrandError("ended without an answer") from None

    def stop(self, now: float) -> None:
        """Tell the process to end; its answer is no longer wanted."""
        if self._output >= 0:
            os.close(self._output)
            self._output = -1
            try:  # noqa: SIM105 - contextlib is not loaded in this process
                os.kill(self._pid, _SIGTERM)
            except OSError:
                pass
            _leaving[self._pid] = now + LEAVES_WITHIN_SECONDS
            collect(now)


def _start(argv: list[str], job: bytes) -> tuple[int, int]:
    """Start the process with its job on standard input; its number, and where to read the answer. Raises OSError."""
    given, given_end = os.pipe2(os.O_CLOEXEC)
    answer, answer_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        os.write(given_end, job)  # less than a pipe holds
        os.set_blocking(answer_end, True)
        actions = [(os.POSIX_SPAWN_DUP2, given, 0), (os.POSIX_SPAWN_DUP2, answer_end, 1)]
        return os.posix_spawn(argv[0], argv, _environment(), file_actions=actions), answer
    except OSError:
        os.close(answer)
        raise
    finally:
        for fd in (given, given_end, answer_end):
            os.close(fd)


def _environment() -> dict[str, str]:
    """The variables of this process that it gets: none that may be a secret."""
    return {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith("LC_")}
