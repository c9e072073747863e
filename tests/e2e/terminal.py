"""A terminal for tests: what stands on its screen after a program wrote to it."""

import re
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

import pexpect
import pyte

PATIENCE = 60.0


def own_size(environment: Mapping[str, str]) -> dict[str, str]:
    """Without the size of another terminal: the workers of a run inherit what a line editor wrote there."""
    return {name: value for name, value in environment.items() if name not in {"LINES", "COLUMNS"}}


class Terminal:
    """Runs a program on a pseudo terminal and follows its screen."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], *, columns: int = 100, rows: int = 30
    ) -> None:
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.Stream(self.screen)
        self.raw = ""
        self._program = pexpect.spawn(
            command[0],
            list(command[1:]),
            env={"TERM": "xterm-256color", **own_size(environment)},
            dimensions=(rows, columns),
            timeout=PATIENCE,
            encoding="utf-8",
            codec_errors="replace",  # the echo of a key may fall between the bytes of a character
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._program.close(force=True)

    @property
    def text(self) -> str:
        """The screen."""
        return "\n".join(self.screen.display)

    def until(self, pattern: str) -> str:
        """Read until a pattern stands on the screen; gives the screen."""
        end = time.monotonic() + PATIENCE
        while not re.search(pattern, self.text):
            assert time.monotonic() < end, f"{pattern!r} did not come:\n{self.text}"
            try:
                self._take(self._program.read_nonblocking(size=65536, timeout=PATIENCE))
            except (pexpect.EOF, pexpect.TIMEOUT) as error:
                raise AssertionError(f"{pattern!r} did not come:\n{self.text}") from error
        return self.text

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self._program.sendintr()

    def end(self) -> int:
        """Read everything to the end; gives the exit code, or minus the signal."""
        self._take(self._program.read())
        self._program.wait()
        code = self._program.exitstatus
        return int(-self._program.signalstatus if code is None else code)

    def _take(self, text: str) -> None:
        self.raw += text
        self._stream.feed(text)
