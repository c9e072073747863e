"""One of costguard's own programs, driven by a short-lived command: lines in, lines out, a deadline for each.

The resident guard has its children in `costguard.host.children`.
"""

import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Self, TypeVar

from costguard.process.command_lines import command_lines
from costguard.process.wire import from_line, to_line
from costguard.trust import clean

T = TypeVar("T")

KILLED_WITHIN_SECONDS = 2.0
"""How long to wait for a killed program: in a hung driver even SIGKILL may not end it."""


class SilentError(Exception):
    """No line came in time."""


class EndedError(Exception):
    """The program has ended, or closed its output."""


class Child:
    """A program in a session of its own; a context that ends with `close`."""

    def __init__(
        self, program: str, *, environment: Mapping[str, str] | None = None, stderr: int | None = None
    ) -> None:
        """Start it, in this process's environment unless another is given. Raises OSError."""
        self._process = subprocess.Popen(
            command_lines()[program],
            env=clean(os.environ, os.geteuid())[0] if environment is None else environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            bufsize=0,
            start_new_session=True,
        )
        self._unread = b""

        self.pid = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, value: object) -> None:
        """Write a named tuple, or a mapping, as one line. Raises EndedError."""
        assert self._process.stdin is not None  # a pipe was asked for
        try:
            self._process.stdin.write(to_line(value) + b"\n")
        except BrokenPipeError as error:
            raise EndedError from error

    def line(self, until: float) -> bytes:
        """The next line, before the monotonic clock reads ``until``. Raises SilentError and EndedError."""
        output = self._process.stdout
        assert output is not None  # a pipe was asked for
        while b"\n" not in self._unread:
            left = until - time.monotonic()
            if left <= 0 or not select.select([output], [], [], left)[0]:
                raise SilentError
            data = output.read(65536)
            if not data:
                raise EndedError
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def hang_up(self) -> None:
        """Close its input."""
        assert self._process.stdin is not None
        with suppress(OSError):  # unwritten data has no reader any more
            self._process.stdin.close()

    def close(self, seconds: float = KILLED_WITHIN_SECONDS) -> bool:
        """Close its pipes: one that waits for input ends, one that acts goes on. Whether it ended in so many seconds."""
        assert self._process.stdout is not None
        self.hang_up()
        self._process.stdout.close()
        return self.wait(seconds) is not None

    def end(self) -> None:
        """Kill it, and leave its pipes to whoever reads from it."""
        self._process.kill()

    def kill(self, seconds: float = KILLED_WITHIN_SECONDS) -> bool:
        """Kill it; False when it still exists after so many seconds."""
        self._process.kill()
        return self.close(seconds)

    def wait(self, seconds: float) -> int | None:
        """Its exit code; None when it has not ended in so many seconds."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None


def first_answer(program: str, kind: type[T], job: object, seconds: float) -> T:
    """Start a program, give it its job, return its answer, and kill it. Raises SilentError, EndedError and MalformedError."""
    return from_line(kind, first_line(program, [job], seconds))


def first_line(program: str, lines: Sequence[object], seconds: float) -> bytes:
    """Start a program, send it some lines, return the first one that it answers, and kill it. Raises SilentError and EndedError."""
    try:
        child = Child(program, stderr=subprocess.DEVNULL)
    except OSError as error:
        raise EndedError from error
    try:
        for value in lines:
            child.send(value)
        return child.line(time.monotonic() + seconds)
    except OSError as error:
        raise EndedError from error
    finally:
        child.kill()
