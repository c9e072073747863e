"""The processes of this machine, read once for all senses.

Listing /proc costs more than all senses together, so a look tries the process numbers given out since the last look (the kernel
counts upwards) and lists only now and then. A process is read when it is new, again at the next looks (it may have been about to
become another program), and later in turn with the others.
Sources: proc_pid_stat(5) (``exit_signal`` is -1 of a thread that leads none), proc_loadavg(5) (its last field), proc(5) (``hidepid``).
"""

import errno
import os
from collections.abc import Iterable
from typing import NamedTuple

from costguard.readers.host.round_robin import round_robin
from costguard.readers.host.sense import SensePaths
from costguard.readers.host.table import FirstReadable
from costguard.readers.host.text import PAGE_BYTES, read

LIST_SECONDS = 200.0
"""Seconds from one listing to the next. A process that ended stays in the view for this long at most."""

NUMBERS_TRIED = 48
"""Up to so many new numbers, or as many as there are processes, trying each is cheaper than listing; a look that finds more
of them alive lists all the same."""

NEW_READ = 32
"""New processes that a listing reads, except for the very first one, taking users in turn: where hundreds come and go, most are gone
by the next look."""

STAYED_READ = 256
"""The same for processes that the previous listing had already, which are there to stay."""

ARGUMENTS_KEPT = 64
"""Processes whose arguments are kept until the end of a look; those of a crowd would be megabytes."""

READ_AGAIN = 2
"""Looks in a row at which a new process is read again."""

TURN_SECONDS, IN_TURN = 80.0, 8
"""How often older processes are read again, and how many at once: a hundred take 17 minutes. Several at once cost hardly more than
one, because the processor's caches are warm."""

KERNEL = 2
"""The process number of kthreadd, the parent of all threads of the kernel."""

NAME_LENGTH = 15
"""Characters of a name that the kernel keeps."""

_TICKS = 100.0  # a second; USER_HZ is 100 on every architecture with an NVIDIA driver
_EXIT_SIGNAL, _OF_A_THREAD = 35, [b"-1"]  # the last field of `stat` after the name that is needed
_WANTS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)  # shortages of this machine, which say nothing about a process
_OVERLAP = 2  # numbers tried twice: a number is given out before its process appears


class Process(NamedTuple):
    """One process. ``terminal``: the device number of its terminal, 0 for none. ``start``: clock ticks after boot."""

    pid: int
    parent: int
    session: int
    uid: int
    name: str
    terminal: int
    start: int

    @property
    def began(self) -> float:
        """Its start in seconds after boot."""
        return self.start / _TICKS


class Processes:
    """A view of /proc that is renewed by `look`. A process that has not changed stays the same object."""

    def __init__(self, place: SensePaths) -> None:
        self._proc = place.proc
        self._found: dict[int, Process] = {}
        self._by_name: dict[str, dict[int, Process]] = {}
        self._changed: list[Process] = []  # new or changed at this look
        self._edition_before: int | None = None  # at the look before
        self._young: dict[int, int] = {}  # new processes: at how many more looks each is read again
        self._unread: set[int] = set()  # new at the last listing, and not read then
        self._dead: dict[int, None] = {}  # zombies, in turn: ended, and not reaped by their parents
        self._turn: list[int] = []  # older processes still to be read again in this round
        self._turn_at: float | None = None  # on the boot clock, None before the first look
        self._load = FirstReadable(f"{place.proc}/loadavg", limit=PAGE_BYTES)
        self._last: int | None = None  # the last number given out, if known
        self._last_text = b""  # the same as text
        self._arguments: dict[int, bytes] = {}  # by process number, in this look
        self._tried: int | None = None  # the last number that was tried twice
        self._numbered = True  # whether /proc has the process numbers of this process's own namespace
        self._list_at = 0.0  # on the boot clock
        self._blind = ""  # why a process could not be read at this look, though it is there
        self.edition = 0
        """Grows with each look that finds a process new, changed or gone."""
        self.unknown = ""
        """Why processes cannot be seen, or not all; empty when they can."""

    def look(self, now: float) -> None:
        """Forget what has ended and read what is new. ``now``: on the boot clock."""
        self._changed, self._edition_before = [], self.edition
        self.forget_arguments()
        last_text = self._given_out()
        if self._is_same(now, last_text):
            return
        if self._blind:  # try again what could not be read, with a listing
            self._blind, self._list_at = "", 0.0
        for pid in list(self._young):
            self._young[pid] -= 1
            self._take(pid)
            if pid not in self._found or self._young[pid] <= 0:
                del self._young[pid]
        numbers = self._numbers(last_text)
        new = None if numbers is None or now >= self._list_at else self._there(numbers)
        if new is None:
            self._list_at = now + LIST_SECONDS
            self._list()
        else:
            for pid in new:
                self._take(pid)
        if self._turn_at is None or now >= self._turn_at:
            if self._turn_at is not None:
                self._read_in_turn()
            self._turn_at = now + TURN_SECONDS
        if self._blind:
            self.unknown = f"{self._proc} cannot be read ({self._blind})"

    def _is_same(self, now: float, last_text: bytes) -> bool:
        """Whether there is nothing to do: no number was given out, no process is young, and neither a listing nor a turn is due."""
        if self._young or self._blind or now >= self._list_at or now >= (self._turn_at or 0.0):
            return False
        return self._last is not None and self._last == self._tried and last_text == self._last_text

    def arguments(self, process: Process) -> bytes:
        """The beginning of its arguments, read once in a look, whoever asks. Raises OSError."""
        found = self._arguments.get(process.pid)
        if found is None:
            found = read(f"{self._proc}/{process.pid}/cmdline", PAGE_BYTES)
            if len(self._arguments) < ARGUMENTS_KEPT:
                self._arguments[process.pid] = found
        return found

    def forget_arguments(self) -> None:
        """Keep none: they may hold secrets."""
        self._arguments = {}

    def all(self) -> Iterable[Process]:
        """Every process that could be read."""
        return self._found.values()

    def get(self, pid: int) -> Process | None:
        """One process, None where it has ended."""
        return self._found.get(pid)

    def named(self, *names: str) -> list[Process]:
        """The processes with one of these names; of a longer one the kernel keeps 15 characters."""
        found: dict[int, Process] = {}
        for name in names:
            found |= self._by_name.get(name[:NAME_LENGTH], {})
        return list(found.values())

    def changed(self, edition: int | None) -> Iterable[Process]:
        """Processes that are new or changed since `edition` had this value; all of them if that was before the last look, or None."""
        if edition == self.edition:
            return ()
        return self._changed if edition == self._edition_before else self._found.values()

    def below(self, above: Iterable[Process]) -> list[Process]:
        """These processes and all their descendants, as far as no process between them has ended."""
        found = {process.pid: process for process in above}
        if not found:
            return []
        children: dict[int, list[Process]] = {}
        for process in self._found.values():
            children.setdefault(process.parent, []).append(process)
        waiting = list(found)
        while waiting:
            for process in children.get(waiting.pop(), ()):
                if process.pid not in found:
                    found[process.pid] = process
                    waiting.append(process.pid)
        return list(found.values())

    def _read_in_turn(self) -> None:
        """Read a few older processes again: one may have become another program."""
        if not self._turn:
            self._turn = [pid for pid, process in self._found.items() if not _is_kernels(process)]
        for _ in range(min(IN_TURN, len(self._turn))):
            self._take(self._turn.pop())

    def _numbers(self, last_text: bytes) -> Iterable[int] | None:
        """The numbers given out since the last look and a few before; None if unknown or too many."""
        before, self._last, self._last_text = self._last, _number(last_text), last_text
        if before is None or self._last is None or not 0 <= self._last - before <= max(NUMBERS_TRIED, len(self._found)):
            self._tried = None
            return None
        if before == self._last == self._tried:
            return ()
        self._tried = before
        return range(before - _OVERLAP, self._last + 1)

    def _there(self, numbers: Iterable[int]) -> list[int] | None:
        """The numbers of new processes that exist, which are few where programs come and go; None if they are many."""
        found = [pid for pid in numbers if pid not in self._found and os.access(f"{self._proc}/{pid}", os.F_OK)]
        return found if len(found) <= NUMBERS_TRIED else None

    def _given_out(self) -> bytes:
        """The last number given to a process or thread; empty if /proc belongs to another namespace of process numbers."""
        if not self._numbered:
            return b""
        try:
            table = self._load.read()
        except OSError:
            return b""
        return table[table.rfind(b" ") :]

    def _list(self) -> None:
        """List /proc, and read what is new in it."""
        try:
            pids = {int(name) for name in os.listdir(self._proc) if name.isdigit()}
        except OSError as error:
            self.edition += bool(self._found)
            self._found, self._by_name, self._young, self._turn, self._dead, self._unread = {}, {}, {}, [], {}, set()
            self.unknown = f"{self._proc} cannot be read ({error.strerror})"
            self._list_at, self._last = 0.0, None
            return
        self.unknown = self._hidden(pids)
        for pid in self._found.keys() - pids:
            self._forget(pid)
        self._dead = {pid: None for pid in self._dead if pid in pids}
        new = sorted(pids - self._found.keys() - self._dead.keys())
        unread, self._unread = self._unread, set()
        if self._found and len(new) > NEW_READ:
            everybody, self._list_at = set(new), 0.0
            new = self._chosen(new, unread)
            self._unread = everybody.difference(new)
        for pid in [*new, *list(self._dead)[:IN_TURN]]:  # a zombie's number may be another process's by now
            self._dead.pop(pid, None)
            self._take(pid)
            if self._blind:
                break
            if pid not in self._found:
                self._dead[pid] = None

    def _chosen(self, new: list[int], unread: set[int]) -> list[int]:
        """Which of many new processes are read in this look: no user's crowd keeps another user's from being seen."""
        fair = round_robin(new, self._owner)
        stayed = [pid for pid in fair if pid in unread][:STAYED_READ]
        return stayed + [pid for pid in fair if pid not in unread][:NEW_READ]

    def _owner(self, pid: int) -> int:
        try:
            return os.stat(f"{self._proc}/{pid}").st_uid
        except OSError:  # it has ended, and costs little to be tried
            return -1

    def _hidden(self, pids: set[int]) -> str:
        """Why some processes cannot be seen, in words."""
        try:
            own: int | None = int(os.readlink(f"{self._proc}/self"))
        except (OSError, ValueError):
            own = None
        self._numbered = own == os.getpid()
        if own not in pids:
            return f"{self._proc} does not show costguard's own process, so it is another machine's or container's"
        try:
            read(f"{self._proc}/1/stat", PAGE_BYTES)
        except OSError:
            return f"{self._proc} hides the processes of other users (hidepid)"
        return ""

    def _take(self, pid: int) -> None:
        """Read one process. If it is unchanged, or this machine is too short of resources to read it, the old object stays."""
        before = self._found.get(pid)
        try:
            process = self._read(pid)
        except OSError as error:
            self._blind = error.strerror or "no reason given"
            return
        if process is None:
            self._forget(pid)
        elif process != before:
            self._forget(pid)
            self.edition += 1
            self._found[pid] = self._by_name.setdefault(process.name, {})[pid] = process
            self._changed.append(process)
            if before is None or before.start != process.start:
                self._young[pid] = READ_AGAIN

    def _forget(self, pid: int) -> None:
        process = self._found.pop(pid, None)
        if process is None:
            return
        self.edition += 1
        if process in self._changed:
            self._changed.remove(process)
        same = self._by_name[process.name]
        del same[pid]
        if not same:
            del self._by_name[process.name]

    def _read(self, pid: int) -> Process | None:
        """None if it has ended, or is a thread of another process. Raises OSError if that is unknown."""
        folder = f"{self._proc}/{pid}"
        try:
            head, _, rest = read(f"{folder}/stat", PAGE_BYTES).rpartition(b")")
            fields = rest.split(None, _EXIT_SIGNAL + 1)
            if fields[0] in {b"Z", b"X"} and int(fields[17]) < 2:  # a zombie whose threads have ended, too
                return None
            if fields[_EXIT_SIGNAL : _EXIT_SIGNAL + 1] == _OF_A_THREAD:
                return None
            uid = os.stat(folder).st_uid  # of the folder: its files are root's where the process may not be inspected
            name = head.partition(b"(")[2].decode(errors="replace")
            return Process(pid, int(fields[1]), int(fields[3]), uid, name, int(fields[4]), int(fields[19]))
        except OSError as error:
            if error.errno in _WANTS:
                raise
            return None  # it has ended meanwhile
        except (ValueError, IndexError):
            return None


def _number(text: bytes) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


def runs_still(proc: str, process: Process) -> bool:
    """Whether it is still there: the view may be some looks behind."""
    return os.access(f"{proc}/{process.pid}/stat", os.F_OK)


def _is_kernels(process: Process) -> bool:
    """Whether it is a thread of the kernel, which never becomes anything else."""
    return KERNEL in (process.pid, process.parent)
