"""The sense `ssh`: sessions that move bytes though nobody types on a terminal (port forwards, sftp), and remote editors in use.

An open session sends keep-alives, and an open editor its heartbeat, both far below the thresholds. Of an editor, two things
count: what its window sends to the extension host (each change of a file goes there, the output of terminals does not), and the CPU of
what it has started outside of terminals, such as the kernel of a notebook.
Sources: proc_pid_io(5) (``rchar``, ``wchar``: sshd reads and writes its sockets, so they are in), proc_pid_stat(5) (``utime``, ``stime``).
"""

import os
from collections.abc import Mapping
from typing import Any

from costguard.readers.host.editor_window import EditorWindow
from costguard.readers.host.processes import Process, Processes
from costguard.readers.host.rates import LONGEST, Counter, Level
from costguard.readers.host.sense import NEVER, NOT_YET, Activity, Moment, SensePaths, Sight
from costguard.readers.host.table import FirstReadable
from costguard.readers.host.text import PAGE_BYTES, amount, duration, read
from costguard.readers.host.users import Users

DAEMONS = ("sshd", "sshd-session", "dropbear", "tailscaled")
"""A session is a process of one of these names below another one."""

ALONE = ("ssm-session-wor",)
"""Sessions by their name alone: those of a cloud's session manager."""

EDITORS = {
    "/.vscode-server": "VS Code", "/vscode-server/": "VS Code", "/.vscode/cli/": "VS Code", "/.vscode-remote/": "VS Code",
    "/code-server/": "code-server", "/.cursor-server/": "Cursor", "/.kiro-server/": "Kiro", "/.antigravity-": "Antigravity",
    "/.windsurf-server/": "Windsurf", "/.vscodium-server/": "VSCodium", "/.positron-server/": "Positron",
    "/.trae-server/": "Trae", "/JetBrains/RemoteDev/": "JetBrains",
}  # fmt: skip
"""Where the programs of an editor's server lie."""

RUNTIMES = ("node", "MainThread", "node-MainThread", "java")
"""What the programs of an editor are called."""

EXTENSION_HOST = b"--type=extensionHost"
READS = 8
"""Processes measured in one look; more of them take turns, and so do their groups."""

LONGEST_TURN = 3600.0
"""Seconds between two readings of one process: an editor may have hundreds of them."""

KEPT_OPEN = 32
"""So many of their files stay open at most: a user may start any number of processes, and this one may not open any number of files."""

UNCOUNTED_BYTES = 3000.0
"""Bytes a second up to which an extension host is ignored if its window's bytes cannot be counted: it reads and writes even while
nobody is there."""

NO_SESSION = Sight(seen="no SSH session that moves bytes, no editor's server")
"""What most machines show at every look."""

_ROOT = 0
_TICKS = 100.0  # a second
_ROOT_ALONE = "only root can see what other users' SSH sessions and editors do"


class _Meter:
    """One number of one process, as a rate: bytes read or written, or seconds of CPU. ``least``: at both of the last two readings."""

    __slots__ = ("_table", "counter", "least", "path", "pid", "rate")

    def __init__(self, pid: int, path: str) -> None:
        self.pid, self.path = pid, path
        self._table = FirstReadable(path, limit=PAGE_BYTES)
        self.counter = Counter(LONGEST_TURN)
        self.rate: float | None = None
        self.least = 0.0

    def measure(self, now: float, *, keep: bool) -> None:
        """Read the number; with ``keep`` its file stays open. Raises OSError."""
        table = self._table.read()
        if not keep:
            self._table.close()
        before = self.rate
        if self.path.endswith("/io"):
            numbers = [int(line.split()[1]) for line in table.splitlines()[:2]]
            self.rate = self.counter.rate(max(numbers), now)
        else:
            fields = table.rpartition(b")")[2].split()
            self.rate = self.counter.rate((int(fields[11]) + int(fields[12])) / _TICKS, now)
        self.least = min(before or 0.0, self.rate or 0.0)


class _WindowMeter(_Meter):
    """Bytes between a window and its extension host; if they cannot be counted, all that the host reads and writes."""

    __slots__ = ("_said", "_taken", "_window")

    def __init__(self, pid: int, path: str, proc: str) -> None:
        super().__init__(pid, path)
        self._window = EditorWindow(proc, pid)
        self._taken, self._said = self.counter, Counter(LONGEST_TURN)

    def measure(self, now: float, *, keep: bool) -> None:
        moved = self._moved()
        if moved is None:
            self.counter = self._taken
            super().measure(now, keep=keep)
            if self.rate is not None and self.rate < UNCOUNTED_BYTES:
                self.rate = self.least = 0.0
            return
        self._table.close()
        self.counter, before = self._said, self.rate
        self.rate = self.counter.rate(moved, now)
        self.least = min(before or 0.0, self.rate or 0.0)

    def _moved(self) -> int | None:
        try:
            moved = self._window.moved()
        except PermissionError:
            raise
        except OSError:  # it has ended, or there are more connections than the kernel lists at once
            return None
        return moved if self._window.counted else None


class _Group:
    """What counts together: all sessions of a user, or one kind of number of an editor."""

    def __init__(self, who: str, what: str, limit: str, above: float, quiet_for: float, user: str) -> None:
        self.who, self.what, self.limit, self.user = who, what, limit, user
        self.above, self.level = above, Level(above, quiet_for)
        self.meters: dict[tuple[int, int], _Meter] = {}
        self.turn: list[_Meter] = []
        self.measured = float("-inf")

    def next(self) -> _Meter:
        """The meter whose turn it is."""
        self.turn = self.turn or list(self.meters.values())
        return self.turn.pop()

    def take(self, now: float) -> None:
        """Take the sum of the last readings of its processes; it counts if they moved as much at the readings before."""
        rates = [meter.rate for meter in self.meters.values() if meter.rate is not None]
        least = sum(meter.least for meter in self.meters.values())
        self.level.take(sum(rates) if rates else None, now, max(self.measured, now - LONGEST), least=least)
        self.measured = now


class Ssh:
    """See the module."""

    def __init__(self, settings: Mapping[str, Any], place: SensePaths) -> None:
        self._proc, self._users = place.proc, Users(place)
        self._quiet_for = float(settings["quiet_for"])
        self._session, self._editor = float(settings["session"]), float(settings["editor"])
        self._cores = float(settings["editor_cores"])
        self._groups: dict[str, _Group] = {}
        # by process: which editor, and whether its extension host
        self._editors: dict[int, tuple[Process, str, bool]] = {}
        self._edition: int | None = None  # of no look yet
        self._looked = False
        self._hidden: set[int] = set()  # processes that this user may not see
        # daemons' processes without a daemon above them: whether each is a session
        self._alone: dict[int, tuple[Process, bool]] = {}
        self._first = 0  # which group has its turn first
        self.rests_until = 0.0

    def look(self, now: Moment, processes: Processes) -> Sight:
        """See `costguard.readers.host.sense.Sense`."""
        if processes.edition != self._edition:
            self._sort(processes)
            self._edition = processes.edition
        self._measure(now.boot)
        active = [self._activity(group) for group in self._groups.values() if group.level.goes_on(now.boot)]
        self._groups = {
            key: group for key, group in self._groups.items() if group.meters or group.level.goes_on(now.boot)
        }
        unknown = processes.unknown or (_ROOT_ALONE if self._hidden else "")
        if not self._looked and not unknown and self._groups:
            unknown = NOT_YET
        self._looked = True
        if not (active or unknown or self._groups):
            self.rests_until = NEVER
            return NO_SESSION
        self.rests_until = 0.0
        seen = "SSH sessions and editors are idle" if self._groups else NO_SESSION.seen
        return Sight(tuple(active), unknown, seen)

    def _activity(self, group: _Group) -> Activity:
        lets_go = f"{duration(self._quiet_for)} below {group.limit}"
        return Activity(group.who, group.what, group.level.since, group.level.last, lets_go, group.user)

    def _measure(self, now: float) -> None:
        """Measure a few processes, and take what that says of their groups."""
        groups = [group for group in self._groups.values() if group.meters]
        keep = sum(len(group.meters) for group in groups) <= KEPT_OPEN
        touched: list[_Group] = []
        again: list[tuple[_Group, _Meter]] = []
        for group in self._next(groups):
            meter = group.next()
            if not meter.counter.due(now):
                continue
            try:
                meter.measure(now, keep=keep)
            except PermissionError:
                self._hidden.add(meter.pid)
                continue
            except (OSError, ValueError, IndexError):  # it has ended
                meter.rate, meter.least = None, 0.0
            if (meter.rate or 0.0) >= group.above > meter.least and len(group.meters) > 1:
                again.append((group, meter))
            if group not in touched:
                touched.append(group)
        for group, meter in again:  # a burst is over at the next look
            group.turn.append(meter)
        for group in touched:
            group.take(now)

    def _next(self, groups: list[_Group]) -> list[_Group]:
        """The meters to read in this look: one of each group, then another one of each, and so on."""
        if not groups:
            return []
        first = self._first = self._first % len(groups)
        self._first += READS
        found: list[_Group] = []
        deepest = max([len(group.meters) for group in groups])
        for depth in range(min(READS, deepest)):
            found += [group for group in (*groups[first:], *groups[:first]) if len(group.meters) > depth]
        return found[:READS]

    def _sort(self, processes: Processes) -> None:
        """Find the sessions and the processes of editors."""
        self._hidden = {pid for pid in self._hidden if processes.get(pid)}
        self._find_editors(processes)
        wanted: dict[str, dict[tuple[int, int], str]] = {}
        for process in self._find_sessions(processes):
            user = self._users.name(_owner(process, processes))
            key = self._group(f"{user} over SSH", "moved bytes", amount(self._session), self._session, user)
            wanted.setdefault(key, {})[process.pid, process.start] = f"{self._proc}/{process.pid}/io"
        for top, editor, host in list(self._editors.values()):
            user = self._users.name(top.uid)
            who = f"{editor} of {user}"
            if host:
                key = self._group(who, "exchanged data with its window", amount(self._editor), self._editor, user)
                wanted.setdefault(key, {})[top.pid, top.start] = f"{self._proc}/{top.pid}/io"
            key = self._group(who, "computed", f"{self._cores:g} cores", self._cores, user)
            wanted.setdefault(key, {})[top.pid, top.start] = f"{self._proc}/{top.pid}/stat"
        tops = [top for top, _, _ in self._editors.values()]
        for process in processes.below(tops):
            if process.terminal == 0 and process.pid not in self._editors:
                key = self._above(process, processes)
                if key:
                    wanted[key][process.pid, process.start] = f"{self._proc}/{process.pid}/stat"
        for key, group in self._groups.items():
            paths = wanted.get(key, {})
            if paths.keys() != group.meters.keys():
                group.meters = {one: group.meters.get(one) or self._meter(one[0], path) for one, path in paths.items()}
                group.turn = []

    def _meter(self, pid: int, path: str) -> _Meter:
        window = path.endswith("/io") and pid in self._editors
        return _WindowMeter(pid, path, self._proc) if window else _Meter(pid, path)

    def _group(self, who: str, what: str, limit: str, above: float, user: str) -> str:
        key = f"{who} {what}"
        if key not in self._groups:
            self._groups[key] = _Group(who, what, limit, above, self._quiet_for, user)
        return key

    def _above(self, process: Process, processes: Processes) -> str:
        """The group of the editor below which a process runs; empty where a terminal is between them."""
        one: Process | None = process
        while one is not None and one.terminal == 0:
            if one.pid in self._editors:
                top, editor, _ = self._editors[one.pid]
                return f"{editor} of {self._users.name(top.uid)} computed"
            one = processes.get(one.parent)
        return ""

    def _find_sessions(self, processes: Processes) -> list[Process]:
        """The process of each session that moves its bytes: the last one of the daemon's, which is its user's."""
        daemons = {process.pid: process for process in processes.named(*DAEMONS)}
        inner = {process.parent for process in daemons.values()}
        found = [one for one in daemons.values() if one.parent in daemons and one.pid not in inner]
        self._alone = {pid: one for pid, one in self._alone.items() if daemons.get(pid) is one[0]}
        left = [one for one in daemons.values() if one.parent not in daemons and one.pid not in inner]
        return found + [one for one in left if self._has_lost_its_daemon(one)] + processes.named(*ALONE)

    def _has_lost_its_daemon(self, process: Process) -> bool:
        """Whether it is root's session, which goes on when the daemon above it is restarted: by its title, "sshd: root@pts/0"."""
        known = self._alone.get(process.pid)
        if known is None:
            try:
                title = read(f"{self._proc}/{process.pid}/cmdline", PAGE_BYTES)
            except OSError:
                return False
            known = process, title.startswith(b"sshd") and b"@" in title
            if known[1] or b"[listener]" in title:  # before somebody has logged in it has another title
                self._alone[process.pid] = known
        return known[1]

    def _find_editors(self, processes: Processes) -> None:
        """Look at the program of each process that is new."""
        for process in processes.changed(self._edition):
            self._judge(process)
        self._editors = {pid: one for pid, one in self._editors.items() if processes.get(pid) is one[0]}

    def _judge(self, process: Process) -> None:
        folder = f"{self._proc}/{process.pid}"
        try:
            program = os.readlink(f"{folder}/exe")
            editor = next((name for part, name in EDITORS.items() if part in program), "")
            if editor:
                host = EXTENSION_HOST in read(f"{folder}/cmdline", PAGE_BYTES).split(b"\0")
                self._editors[process.pid] = process, editor, host
        except PermissionError:
            if process.name in (*DAEMONS, *ALONE, *RUNTIMES):
                self._hidden.add(process.pid)
        except OSError:  # it has ended, or is a thread of the kernel
            return


def _owner(session: Process, processes: Processes) -> int:
    """Whose session it is: that of dropbear stays root's, and what it has started is its user's."""
    below = [one.uid for one in processes.all() if one.parent == session.pid] if session.uid == _ROOT else []
    return max(below, default=session.uid)
