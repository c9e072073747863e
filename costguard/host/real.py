"""The real machine under the loop: the only select, exec, kill and clock of the guard.

`costguard.host.ports.Host` says what each method means.
"""

import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import FrameType

from costguard.clocks import boot_clock
from costguard.host import files, lock
from costguard.host.children import Children
from costguard.host.clock import Clock
from costguard.host.console import Console, ServiceManager
from costguard.host.control import Control
from costguard.host.poller import READ, Poller
from costguard.host.ports import HostEvent, Signal

NAP_SECONDS = 32.0
"""Longest wait for events. The kernel's timer stops while the machine is suspended, so a longer one would notice a
resume late; one shorter than two ticks would wake the guard for nothing."""

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
_IGNORED = (signal.SIGPIPE, signal.SIGTTOU)  # TTOU: a write to a terminal must not stop a background guard
_MANAGER = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES")


class RealHost:
    """Implements `Host`. To be created in the main thread, by the holder of the runtime directory's lock.

    ``programs`` are the command lines of its children; ``locks`` the descriptors of the locks held, the runtime
    directory's first.
    """

    def __init__(
        self, runtime: str, state_dir: str, start: files.Start, programs: Mapping[str, list[str]], locks: list[int]
    ) -> None:
        self._runtime, self._state_dir, self._start, self._locks = runtime, state_dir, start, locks
        self._console = Console(2, os.environ)
        self._service = ServiceManager(os.environ)
        self._poller = Poller()
        environment = {name: value for name, value in os.environ.items() if name not in _MANAGER}
        self._children = Children(self._poller, programs, environment)
        self._environment = environment
        self._clock = Clock(programs["clock"], self._start_check)
        self._control = Control(self._poller, runtime, boot_clock)
        self.clock, self.say, self.service = self._clock.now, self._console.say, self._service.tell
        self.spawn, self.send, self.kill = self._children.spawn, self._children.send, self._children.kill
        self.unreaped, self.answer = self._children.unreaped, self._control.answer
        self._signals: list[str] = []
        self._child_ended = True
        self._full = not files.keep_room(runtime)
        self._catch_signals()
        self._unreachable = self._control.open()
        if self._unreachable:
            self.say(f"<3>{self._unreachable}")

    def wait(self, until: float) -> Sequence[HostEvent]:
        """Sleep until something happened or the boot clock reads ``until``."""
        events: list[HostEvent] = []
        while True:
            now, expiry = self._clock.check(), self._control.next_expiry()
            if expiry is not None and expiry <= now:
                self._control.expire()
                expiry = self._control.next_expiry()
            nap = min(until - now, NAP_SECONDS, NAP_SECONDS if expiry is None else expiry - now)
            self._poller.poll(max(nap, 0.0), events)
            if self._child_ended:
                self._child_ended = False
                self._children.reap(events)
            if self._signals:
                names, self._signals = self._signals, []
                events.extend(Signal(name) for name in names)
            if events or boot_clock() >= until:
                return events

    def save(self, data: bytes) -> str | None:
        """Replace the state of this boot."""
        return self._replace(files.STATE, files.wrap("boot_id", self._start.boot_id, data))

    def save_commitments(self, data: bytes) -> str | None:
        """Replace the runtime copy of the commitments."""
        return self._replace(files.COMMITMENTS, files.wrap("instance", self._start.instance, data))

    def close(self) -> None:
        """Release everything, waiting for nothing; children see the end of their input."""
        with suppress(OSError):  # no countdown goes on without its guard
            os.unlink(f"{self._runtime}/{files.LOGIN_MESSAGE}")
        self._control.close()
        self._children.close()
        signal.set_wakeup_fd(-1)
        for number in (*_SIGNALS, *_IGNORED):
            signal.signal(number, self._before[number])
        for fd in self._wake:
            self._poller.drop(fd)
            os.close(fd)
        self._service.close()
        self._console.close()
        self._poller.close()
        for fd in self._locks:
            os.close(fd)

    def _replace(self, name: str, data: bytes) -> str | None:
        path = os.path.join(self._runtime, name)
        try:
            try:
                self._full = files.replace(path, data) or self._full
            except FileNotFoundError:
                lock.prepare(self._runtime)
                files.replace(path, data)
        except OSError as error:
            return f"cannot write {path}: {error.strerror or error}"
        if self._full:
            self._full = not files.keep_room(self._runtime)
            if self._full:
                return f"{self._runtime} is full, and saving the state used up its reserve: free some space there"
        self._stay_reachable()
        return None

    def _stay_reachable(self) -> None:
        """Restore lock and socket after the runtime directory was emptied: clients could not find this agent."""
        failure = self._restore() if self._control.lost() else None
        if failure != self._unreachable:
            self._unreachable = failure
            self.say(f"<3>{failure}" if failure else "<5>the control socket is back")

    def _restore(self) -> str | None:
        if not self._locks or not lock.holds(self._locks[0], self._runtime):
            try:
                taken = lock.acquire(self._runtime, self._state_dir)
            except (lock.TakenError, lock.HeldError) as other:
                return f"{self._runtime} was emptied and this agent lost its lock: {other}"
            except lock.UnusableError as unusable:
                return str(unusable)
            for fd in self._locks[:1]:  # of a file that is unlinked now
                os.close(fd)
            self._locks[:1] = [taken]
        return self._control.open()

    def _catch_signals(self) -> None:
        self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._poller.add(self._wake[0], READ, self._woken)
        signal.set_wakeup_fd(self._wake[1], warn_on_full_buffer=False)
        self._before = {number: signal.getsignal(number) for number in (*_SIGNALS, *_IGNORED)}
        for number in _SIGNALS:
            signal.signal(number, self._signalled)
        for number in _IGNORED:
            signal.signal(number, signal.SIG_IGN)

    def _signalled(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGCHLD:
            self._child_ended = True
        else:
            self._signals.append(signal.Signals(number).name[3:])

    def _woken(self, fd: int, _events: list[HostEvent]) -> None:
        try:
            os.read(fd, 4096)
        except BlockingIOError:
            return

    def _start_check(self, argv: list[str]) -> int | None:
        """Start a process with neither input nor output, for the clock."""
        actions = [(os.POSIX_SPAWN_OPEN, fd, "/dev/null", os.O_RDWR, 0) for fd in (0, 1)]
        try:
            return os.posix_spawn(argv[0], argv, self._environment, file_actions=actions, setsid=True)
        except OSError:
            return None
