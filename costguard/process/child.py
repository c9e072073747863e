"""One of costguard's own programs, driven by a short-lived command: lines in, lines out, a deadline for each.

What stays resident has its children in `costguard.host.children`.
"""

import json
import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Self

from costguard.process.command_lines import command_lines
from costguard.process.wire import to_line
from costguard.trust import clean

KILLED_WITHIN_SECONDS = 2.0
"""How long a killed program is waited for: a zombie could stay, and in a sick driver it may not be killable."""


class SilentError(Exception):
    """No line came in time."""


class EndedError(Exception):
    """The program has ended, or closed its output."""


class Child:
    """A program in a session of its own. As a context it is let go of at the end: see `close`."""

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
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def send(self, value: object) -> None:
        """Write a named tuple, or a mapping, as one line. Raises EndedError."""
        try:
            self._input.write(to_line(value) + b"\n")
        except BrokenPipeError as error:
            raise EndedError from error

    def line(self, until: float) -> bytes:
        """The next line, before the monotonic clock reads ``until``. Raises SilentError and EndedError."""
        while b"\n" not in self._rest:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._output], [], [], left)[0]:
                raise SilentError
            data = self._output.read(65536)
            if not data:
                raise EndedError
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def hang_up(self) -> None:
        """Close its input."""
        with suppress(OSError):  # what was still to be written has no reader
            self._input.close()

    def close(self, seconds: float = KILLED_WITHIN_SECONDS) -> bool:
        """Let go of it: the end of its input ends one that waits, one that acts goes on. Whether it ended in so many seconds."""
        self.hang_up()
        self._output.close()
        return self.wait(seconds) is not None

    def kill(self, seconds: float = KILLED_WITHIN_SECONDS) -> bool:
        """End it at once; False when the kernel has not given it back in so many seconds."""
        self._process.kill()
        return self.close(seconds)

    def wait(self, seconds: float) -> int | None:
        """Its exit code; None when it has not ended in so many seconds."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    @property
    def _input(self) -> IO[bytes]:
        assert self._process.stdin is not None  # a pipe was asked for
        return self._process.stdin

    @property
    def _output(self) -> IO[bytes]:
        assert self._process.stdout is not None  # as above
        return self._process.stdout


def first_answer(program: str, lines: Sequence[object], seconds: float) -> dict[str, object] | None:
    """Start a program, send it some lines, and give the first object that it answers. It is killed afterwards.

    Empty when it ends without one, None when it says nothing in time.
    """
    try:
        child = Child(program, stderr=subprocess.DEVNULL)
    except OSError:
        return {}
    try:
        for value in lines:
            child.send(value)
        answer = json.loads(child.line(time.monotonic() + seconds))
    except SilentError:
        return None
    except (EndedError, OSError, ValueError):
        return {}
    finally:
        child.kill()
    return answer if isinstance(answer, dict) else {}
