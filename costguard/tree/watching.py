"""The watcher as its parent sees it; one that dies or stands still is started again."""

import errno
import os
import select
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Generic, TypeVar

from costguard.parent import end_with_parent
from costguard.process.command_lines import command_lines
from costguard.process.wire import MalformedError, from_line, to_line
from costguard.tree.begin import NOT_FOUND, RESET
from costguard.tree.jobs import BEAT_SECONDS
from costguard.trust import clean

T = TypeVar("T")

WATCHER_PAUSES_SECONDS = (0.0, 0.2, 1.0, 5.0, 30.0)
"""Before a watcher that died is started again, by its deaths in a row: the first at once, for meanwhile nobody would outlive the launcher."""

SETTLED_SECONDS = 60.0
"""After so long a life a death is the first again."""

SILENT_SECONDS = 6.0
"""Of a watcher that stands still: it says something every `BEAT_SECONDS`."""

STARTS_WITHIN_SECONDS = 30.0
"""For its first word: Python may have to come from a slow disk."""

STOOD_STILL = f"the watcher was silent for {SILENT_SECONDS:g} s: it was killed, and another one is started"

GONE_SECONDS = 1.0
"""From SIGKILL to the end of a watcher that nothing holds up."""

_CHUNK = 65536


class Watching(Generic[T]):
    """The watcher as its parent sees it: a process, a pipe down whose end says that this one is gone, and a pipe up.

    ``program``: which one (`costguard.process.command_lines`), ``kind``: what it says. ``start``: starts it again;
    ``say``: tells people that it stood still.
    """

    def __init__(self, program: str, kind: type[T], start: Callable[[], None], say: Callable[[str], None]) -> None:
        self._program, self._kind, self._restart, self._say = program, kind, start, say
        self.pid = 0
        self.pids: set[int] = set()
        """All that were started and not collected: a killed one may take its time."""
        self.restart_at: float | None = None
        self.deaths = 0
        """In a row."""
        self._down = self.up = -1
        self._unread = b""
        self._started_at = self._turned_at = self._silence = 0.0
        self._spoke = False

    def start(self, lines: Sequence[object]) -> None:
        """Start one. Raises OSError."""
        down, up = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
        self.restart_at = None
        self._started_at = self._turned_at = time.monotonic()
        self._silence, self._spoke = 0.0, False
        argv = command_lines()[self._program]
        environment = clean(os.environ, os.geteuid())[0]
        try:
            self.pid = _spawn(argv, environment, down[0], up[1])
            self.pids.add(self.pid)
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
        self._silence, self._spoke = 0.0, self._spoke or bool(data)
        self._unread += data
        while b"\n" in self._unread:
            line, _, self._unread = self._unread.partition(b"\n")
            if not line:
                continue  # it only says that it lives
            try:
                found.append(from_line(self._kind, line))
            except MalformedError:
                continue
        return found

    def stands_still(self) -> bool:
        """Whether it said nothing for too long, and nothing that it said waits to be read; to be asked every `BEAT_SECONDS` at least.

        Time in which this process itself did not run counts as one beat.
        """
        now = time.monotonic()
        self._silence += min(now - self._turned_at, BEAT_SECONDS)
        self._turned_at = now
        if not self.pid or self._silence < (SILENT_SECONDS if self._spoke else STARTS_WITHIN_SECONDS):
            return False
        waiting = select.poll()
        if self.up >= 0:
            waiting.register(self.up, select.POLLIN)
        return not waiting.poll(0)

    def keep(self, now: float) -> None:
        """Start it again when it is time, or when it stands still, which is said once, where it happens again and again."""
        if self.stands_still():
            self.replace(now)
            if self.deaths == 1:
                self._say(STOOD_STILL)
        if self.restart_at is not None and now >= self.restart_at:
            self._restart()

    def collected(self, pid: int, now: float) -> None:
        """A child of this process ended by itself: where it was the watcher, start another one in a moment."""
        self.pids.discard(pid)
        if pid == self.pid:
            self.died(now)

    def died(self, now: float) -> None:
        """It is no more, or cannot be started: start another one in a moment."""
        self.close()
        if time.monotonic() - self._started_at >= SETTLED_SECONDS:
            self.deaths = 0
        self.restart_at = now + WATCHER_PAUSES_SECONDS[min(self.deaths, len(WATCHER_PAUSES_SECONDS) - 1)]
        self.deaths += 1

    def replace(self, now: float) -> None:
        """Kill it, and start another one in a moment. Nobody waits for its end."""
        self._kill()
        self.died(now)

    def end(self) -> None:
        """Kill it, with its reader; one that hangs in the kernel is not waited for."""
        self._kill()
        until = time.monotonic() + GONE_SECONDS
        while self.pid in self.pids and time.monotonic() < until:
            try:
                if os.waitpid(self.pid, os.WNOHANG)[0]:
                    self.pids.discard(self.pid)
                else:
                    time.sleep(0.001)
            except ChildProcessError:
                self.pids.discard(self.pid)
        self.close()

    def _kill(self) -> None:
        if self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

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


def _spawn(argv: Sequence[str], environment: Mapping[str, str], down: int, up: int) -> int:
    """Start a program in a session of its own, on these two pipes. Raises OSError.

    Not posix_spawn: also one that is stopped while it starts must go on at the end of this process, and for that it asks first.
    """
    if not os.access(argv[0], os.X_OK):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), argv[0])
    pid = os.fork()
    if pid:
        return pid
    try:
        end_with_parent(signal.SIGCONT)  # one that is stopped goes on, and ends the tree
        os.setsid()
        os.dup2(down, 0)
        os.dup2(up, 1)
        for number in RESET:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execve(argv[0], list(argv), environment)  # noqa: S606 - its own program
    finally:
        os._exit(NOT_FOUND)
