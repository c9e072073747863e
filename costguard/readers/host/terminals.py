"""The sense `terminals`: who typed on a terminal of this machine. An open, idle terminal is no activity, and neither is output.

The access time of a terminal's device moves when a program reads what was typed on it, in steps of 8 s, however its file
system is mounted; its modification time moves with output. Source: Linux, drivers/tty/tty_io.c, tty_update_time(). On older
kernels (seen on 6.1, no more on 6.12) what is read through /dev/tty, as by emacs, moves the access time of that node alone. All
terminals share it, so it counts for those where a program has it open, unless one of their own devices has moved as well.
"""

import os
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from costguard.readers.host.opened import SECONDS, opened
from costguard.readers.host.processes import Process, Processes
from costguard.readers.host.sense import NEVER, Activity, Moment, SensePaths, Sight, all_unknown
from costguard.readers.host.text import PAGE_BYTES, duration, read, several
from costguard.readers.host.users import Users

_Marks = tuple[int, float, float]

_PSEUDO = range(136, 144)
"""Major numbers of the terminals of ssh, tmux and their like."""

_CONSOLE, _FIRST_SERIAL = 4, 64
_NOBODY = frozenset(("agetty", "getty", "mingetty", "login"))
"""Programs that wait on a terminal where nobody is logged in."""

_MULTIPLEXERS = frozenset(("tmux: client", "screen"))
_SHELLS = frozenset(("bash", "zsh", "fish", "sh", "dash", "ksh", "tcsh", "csh")) | _MULTIPLEXERS
_WITH_VALUE = frozenset((b"--init-file", b"--rcfile", b"-o", b"+o", b"-O", b"+O"))
"""Options of shells that take the argument after them."""

_ATIME_STEP_SECONDS = 8.0
"""The kernel moves access times of terminals in steps of this size."""

_JUST_OPENED_SECONDS = 60.0
"""At the very first look so young a terminal counts: whether somebody types there does not show yet."""

_SHARED = "/dev/tty"
"""A program's own terminal, whichever that is."""

_PROCESSES_SEARCHED = 64
"""Processes of one terminal that may have `_SHARED` open."""

_NO_PROCESS = 0, 0  # number and start of a terminal's process, if none is known

_DESCRIPTORS = ("0", "255", "2", "1")  # of a session's first process; 255: where bash keeps its terminal


NO_TERMINAL = Sight(seen="no terminal")
"""What a machine shows where nobody is logged in."""


class _Terminal:
    """One terminal as it was last seen, and since when somebody has been typing on it; moments on the boot clock."""

    __slots__ = ("accessed", "last", "since", "what")

    def __init__(self, accessed: float) -> None:
        self.accessed = accessed
        self.since = self.last = float("-inf")
        self.what = "typed"

    def used(self, at: float, what: str, quiet_for: float) -> None:
        """Note that somebody used it at that moment."""
        if at > self.last:
            if at - self.last > quiet_for:
                self.since = at
            self.last, self.what = at, what


class _Session(NamedTuple):
    """The first process of a session, and its terminal: what was seen of it, where, and its device."""

    process: Process
    terminal: _Terminal
    path: str
    device: os.stat_result


class Terminals:
    """See the module."""

    def __init__(self, settings: Mapping[str, Any], place: SensePaths) -> None:
        self._place = place
        self._quiet_for = float(settings["quiet_for"])
        self._count, self._ignore = frozenset(settings["users"]), frozenset(settings["ignore_users"])
        self._names = Users(place)
        self._known: dict[tuple[int, int, int], _Terminal] | None = None  # by process, its start, and device
        self._looked = 0.0
        self._here: int | None = None  # the file system of this machine's own pseudo terminals
        self._edition: int | None = None  # of no look yet
        self._sessions: dict[int, Process] = {}  # the first process of each that has a terminal
        self._shared: dict[str, float] = {}  # when each `_SHARED` was read last, by its path: containers have their own
        self._watched: list[tuple[str, _Marks]] | None = None  # every terminal as it was; None where that is not all
        self._lapses = NEVER  # when the next user stops counting, unless they type
        self._sight = NO_TERMINAL
        self.rests_until = 0.0

    def look(self, now: Moment, processes: Processes) -> Sight:
        """See `costguard.readers.host.sense.Sense`."""
        if processes.edition != self._edition:
            self._sort(processes)
        elif self._nothing_happened(now):
            return self._sight
        if not self._sessions and not processes.unknown and self._here is not None:
            self._known, self._looked = {}, now.boot
            self.rests_until = NEVER
            return NO_TERMINAL
        self.rests_until = 0.0
        self._sight = self._look(now, processes)
        return self._sight

    def _sort(self, processes: Processes) -> None:
        """Find the sessions among the new processes."""
        for process in processes.changed(self._edition):
            if _is_session(process):
                self._sessions[process.pid] = process
        self._sessions = {pid: one for pid, one in self._sessions.items() if processes.get(pid) is one}
        self._edition = processes.edition

    def _nothing_happened(self, now: Moment) -> bool:
        """Whether, since the last look, no terminal was typed on, made anew or given to another user, and nobody stops counting."""
        if not self._watched or now.boot > self._lapses:
            return False
        for path, marks in self._watched:
            try:
                device = os.stat(path)
            except OSError:
                return False
            if _marks(device) != marks:
                return False
        self._looked = now.boot
        return True

    def _look(self, now: Moment, processes: Processes) -> Sight:
        """Look at each terminal."""
        found: dict[tuple[int, int, int], _Terminal] = {}
        active: dict[str, Activity] = {}
        troubles: set[str] = set()
        sessions: list[_Session] = []
        try:
            self._here = os.stat(f"{self._place.dev}/pts").st_dev
        except OSError as error:
            troubles.add(f"{self._place.dev}/pts cannot be read ({error.strerror})")
        if processes.unknown:
            troubles.add(processes.unknown)
        for process in self._sessions.values():
            device = self._device(process)
            if device is None:
                troubles.add(f"{_name(process.terminal)} cannot be read")
            elif device:
                key = (process.pid, process.start, process.terminal)
                found[key] = self._follow(key, device[1], process, now)
                sessions.append(_Session(process, found[key], *device))
        shared = self._follow_shared(sessions, now, processes)
        for one in sessions:
            self._note(active, one.terminal, one.device, one.process, now)
        told = {terminal for _, _, terminal in found}
        for path, device_seen in self._devices() if processes.unknown else ():
            if any(_device_number(terminal) == device_seen.st_rdev for terminal in told):
                continue
            key = (*_NO_PROCESS, device_seen.st_rdev)
            found[key] = self._follow(key, device_seen, None, now)
            self._note(active, found[key], device_seen, None, now, path)
        self._known, self._looked = found, now.boot
        watched = [(self._path(one.process, one.path, one.device), _marks(one.device)) for one in sessions]
        self._watched = [*watched, *shared] if not troubles and len(watched) == len(self._sessions) else None
        self._lapses = min([one.last + self._quiet_for for one in active.values()], default=NEVER)
        count = len(found)
        seen = f"{several(count, 'terminal')}, {'not' if count == 1 else 'none'} used" if count else NO_TERMINAL.seen
        return Sight(tuple(active.values()), all_unknown(troubles), seen)

    def _path(self, process: Process, path: str, device: os.stat_result) -> str:
        """The path to look at next time: by name, which is quicker than through the process, if it is one of this machine's own."""
        return f"{self._place.dev}/{_name(process.terminal)}" if device.st_dev == self._here else path

    def _device(self, process: Process) -> tuple[()] | tuple[str, os.stat_result] | None:
        """The terminal of a session and its path, by the file that its first process has open, wherever that is mounted.

        Empty when the session has ended, or has let go of its terminal; None when it cannot be looked at.
        """
        folder = f"{self._place.proc}/{process.pid}"
        for name in _DESCRIPTORS:
            try:
                device = os.stat(f"{folder}/fd/{name}")
            except PermissionError:  # another user's, and this agent is not root's
                return self._by_name(process) or (() if _has_ended(folder) else None)
            except OSError:
                continue
            if device.st_rdev == _device_number(process.terminal):
                return f"{folder}/fd/{name}", device
        return () if _has_ended(folder) else self._by_name(process)

    def _by_name(self, process: Process) -> tuple[()] | tuple[str, os.stat_result]:
        """The same by this machine's name for the device; empty if it has none."""
        path = f"{self._place.dev}/{_name(process.terminal)}"
        try:
            device = os.stat(path)
        except OSError:
            return ()
        return (path, device) if device.st_rdev == _device_number(process.terminal) else ()

    def _devices(self) -> list[tuple[str, os.stat_result]]:
        """All pseudo terminals, for when the processes do not show which are in use."""
        found = []
        try:
            names = [name for name in os.listdir(f"{self._place.dev}/pts") if name.isdigit()]
        except OSError:
            return []
        for name in names:
            try:
                device = os.stat(f"{self._place.dev}/pts/{name}")
            except OSError:  # closed meanwhile
                continue
            found.append((f"pts/{name}", device))
        return found

    def _follow(
        self, key: tuple[int, int, int], device: os.stat_result, process: Process | None, now: Moment
    ) -> _Terminal:
        """What happened on a terminal since the last look. Except at the very first look, its times only tell that something did."""
        terminal = self._known.get(key) if self._known is not None else None
        if terminal is None:
            terminal = _Terminal(device.st_atime)
            first = self._known is None
            age = max(0.0, now.wall - device.st_atime) if first else 0.0
            # it was only opened, as far as shows
            untouched = abs(device.st_atime - device.st_ctime) < _ATIME_STEP_SECONDS
            typed = first and (age < _JUST_OPENED_SECONDS or not untouched)
            if typed or process is None or self._is_interactive(process):
                terminal.used(now.boot - age, "typed" if typed else "opened a shell", self._quiet_for)
        elif device.st_atime != terminal.accessed:
            terminal.accessed = device.st_atime
            age = min(max(0.0, now.wall - device.st_atime), now.boot - self._looked)
            terminal.used(now.boot - age, "typed", self._quiet_for)
        return terminal

    def _follow_shared(self, sessions: list[_Session], now: Moment, processes: Processes) -> list[tuple[str, _Marks]]:
        """Note who typed for a program that reads `_SHARED`; gives what to look at next time."""
        by_path: dict[str, list[_Session]] = {}
        for one in sessions:
            by_path.setdefault(self._shared_path(one), []).append(one)
        before, self._shared, watched = self._shared, {}, []
        for path, those in by_path.items():
            try:
                device = os.stat(path)
            except OSError:  # this container has none
                continue
            self._shared[path] = device.st_atime
            watched.append((path, _marks(device)))
            age = max(0.0, now.wall - device.st_atime)
            if self._known is not None:
                if before.get(path, device.st_atime) == device.st_atime:
                    continue
                age = min(age, now.boot - self._looked)
            if age <= self._quiet_for:
                self._note_shared(those, now.boot - age, processes)
        return watched

    def _note_shared(self, sessions: list[_Session], at: float, processes: Processes) -> None:
        """Somebody typed at that moment for a program that reads `_SHARED` in one of these sessions."""
        there: dict[int, list[Process]] = {}
        for process in processes.all():
            there.setdefault(process.terminal, []).append(process)
        end = time.thread_time() + SECONDS  # whoever lets it take longer hides nobody
        readers = [one.terminal for one in sessions if self._reads_shared(there.get(one.process.terminal, []), end)]
        if any(terminal.last >= at - _ATIME_STEP_SECONDS for terminal in readers):
            return  # on a newer kernel its own device has told so
        for terminal in readers:
            terminal.used(at, "typed" if len(readers) == 1 else "may have typed", self._quiet_for)

    def _reads_shared(self, there: list[Process], end: float) -> bool:
        """Whether one of these programs has `_SHARED` open; so it counts, too, where the time is over (CPU seconds)."""
        for process in there[:_PROCESSES_SEARCHED]:
            if time.thread_time() > end:
                return True
            try:
                if any(target == _SHARED for _, target in opened(self._place.proc, process.pid)):
                    return True
            except OSError:  # it has ended, or is another user's
                continue
        return False

    def _shared_path(self, session: _Session) -> str:
        """The node of `_SHARED` that the programs of a session see."""
        if session.device.st_dev == self._here or not _is_pseudo(session.process.terminal):
            return f"{self._place.dev}/tty"
        return f"{self._place.proc}/{session.process.pid}/root{_SHARED}"

    def _is_interactive(self, process: Process) -> bool:
        """Whether a person may sit there: a shell, and none that was started to run one command."""
        if process.name not in _SHELLS:
            return False
        try:
            arguments = read(f"{self._place.proc}/{process.pid}/cmdline", PAGE_BYTES).split(b"\0")[1:-1]
        except OSError:
            return True
        if process.name in _MULTIPLEXERS:
            return True
        before = b""
        for argument in arguments:
            if not argument.startswith((b"-", b"+")) and before not in _WITH_VALUE:
                return False  # a script, or the command after -c
            before = argument
        return True

    def _note(
        self,
        active: dict[str, Activity],
        terminal: _Terminal,
        device: os.stat_result,
        process: Process | None,
        now: Moment,
        name: str = "",
    ) -> None:
        """Add what goes on there, if its user counts."""
        if now.boot - terminal.last > self._quiet_for:
            return
        user = self._names.name(device.st_uid)
        if user in self._ignore or (self._count and user not in self._count and not user.startswith("uid ")):
            return
        elsewhere = process is not None and device.st_dev != self._here and _is_pseudo(process.terminal)
        where = name or (_name(process.terminal) if process is not None else "")
        who = f"{user} on {where}{' in a container' if elsewhere else ''}"
        lets_go = f"{duration(self._quiet_for)} without input"
        one = Activity(who, terminal.what, terminal.since, terminal.last, lets_go, user)
        other = active.get(who)
        if other is None or one.last > other.last:
            active[who] = one


def _marks(device: os.stat_result) -> _Marks:
    """What changes when somebody types or the terminal is made anew, but not with output."""
    return device.st_rdev, device.st_atime, device.st_ctime


def _is_session(process: Process) -> bool:
    """Whether it is the first process of a session that has a terminal, and somebody may be there."""
    return process.terminal != 0 and process.pid == process.session and process.name not in _NOBODY


def _has_ended(folder: str) -> bool:
    """Whether a process is gone or a zombie."""
    try:
        return read(f"{folder}/stat", PAGE_BYTES).rpartition(b")")[2].split()[0] in {b"Z", b"X"}
    except (FileNotFoundError, ProcessLookupError, IndexError):
        return True
    except OSError:
        return False


def _split(terminal: int) -> tuple[int, int]:
    """Major and minor number out of what the kernel writes in `stat`."""
    return (terminal >> 8) & 0xFFF, (terminal & 0xFF) | ((terminal >> 12) & 0xFFF00)


def _device_number(terminal: int) -> int:
    return os.makedev(*_split(terminal))


def _is_pseudo(terminal: int) -> bool:
    return _split(terminal)[0] in _PSEUDO


def _name(terminal: int) -> str:
    """Its name below /dev."""
    major, minor = _split(terminal)
    if major in _PSEUDO:
        return f"pts/{minor + ((major - _PSEUDO.start) << 8)}"
    if major == _CONSOLE:
        return f"tty{minor}" if minor < _FIRST_SERIAL else f"ttyS{minor - _FIRST_SERIAL}"
    return f"terminal {major}:{minor}"
