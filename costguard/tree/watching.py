"""The watcher as its parent sees it; one that dies is started again."""

import os
import signal
from collections.abc import Sequence
from typing import Generic, TypeVar

from costguard.process.command_lines import command_lines
from costguard.process.wire import MalformedError, from_line, to_line
from costguard.tree.begin import RESET
from costguard.trust import clean

T = TypeVar("T")

WATCHER_PAUSES_SECONDS = (0.2, 1.0, 5.0, 30.0)
"""Before a watcher that died is started again; the last one for ever."""

_CHUNK = 65536


class Watching(Generic[T]):
    """The watcher as its parent sees it: a process, a pipe down whose end says that this one is gone, and a pipe up.

    ``program``: which one (`costguard.process.command_lines`), ``kind``: what it says.
    """

    def __init__(self, program: str, kind: type[T]) -> None:
        self._program, self._kind = program, kind
        self.pid = 0
        self.restart_at: float | None = None
        self._down = self.up = -1
        self._unread = b""
        self._starts = 0

    def start(self, lines: Sequence[object]) -> None:
        """Start one. Raises OSError."""
        down, up = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
        self.restart_at = None
        self._starts += 1
        argv = command_lines()[self._program]
        actions = [(os.POSIX_SPAWN_DUP2, down[0], 0), (os.POSIX_SPAWN_DUP2, up[1], 1)]
        environment = clean(os.environ, os.geteuid())[0]
        try:
            self.pid = os.posix_spawn(
                argv[0], argv, environment, file_actions=actions, setsid=True, setsigmask=(), setsigdef=RESET
            )
        finally:
            os.close(down[0])
            os.close(up[1])
            self._down, self.up, self._unread = down[1], up[0], b""
        os.set_blocking(self.up, False)
        for line in lines:
            self.write(line)

    def write(self, value: object) -> None:
        """Send one line; one that is dying is started again with all of them."""
        try:
            os.write(self._down, to_line(value) + b"\n")
        except OSError:
            return

    def words(self) -> list[T]:
        """What it said; what makes no sense is dropped, for nothing that it says can be worse than silence."""
        found: list[T] = []
        try:
            data = os.read(self.up, _CHUNK)
        except OSError:
            return found
        if not data:
            self._close_up()
        self._unread += data
        while b"\n" in self._unread:
            line, _, self._unread = self._unread.partition(b"\n")
            try:
                found.append(from_line(self._kind, line))
            except MalformedError:
                continue
        return found

    def died(self, now: float) -> None:
        """It ended by itself: start another one in a moment."""
        self.close()
        self.restart_at = now + WATCHER_PAUSES_SECONDS[min(self._starts, len(WATCHER_PAUSES_SECONDS)) - 1]

    def end(self) -> None:
        """Kill it, with its reader."""
        if self.pid:
            try:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
            except (ProcessLookupError, ChildProcessError):
                pass
        self.close()

    def close(self) -> None:
        """Forget it."""
        self._close_up()
        if self._down >= 0:
            os.close(self._down)
        self.pid, self._down = 0, -1

    def _close_up(self) -> None:
        if self.up >= 0:
            os.close(self.up)
        self.up = -1
