"""Who belongs to a tree: as the launcher sees it, from which nobody can leave, and as the watcher followed it."""

import os
import resource
import signal
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress

from costguard.background import BACKGROUND, MARKED, mark_on
from costguard.tree import cgroup, processes
from costguard.tree.jobs import Origin
from costguard.tree.processes import TreeProcess

SWEEP_SECONDS = 0.05
"""For so long at once orphans are killed as fast as they come."""

ORPHANS_SECONDS = 0.2
"""For so long somebody who is gone before he can be looked at is looked for again."""

_WATCHES = BACKGROUND >> 1
"""In the marks of a watcher and its reader; no process is born so late."""


def mark_of(process: TreeProcess, *, filler: bool = False) -> int:
    """A number that names one process for good."""
    return _number_of(process.pid, process.born) | (BACKGROUND if filler else 0)


def watcher_mark(launcher: int, born: int) -> int:
    """What the watchers of this launcher bear: a reader that outlives its watcher is no member of the tree."""
    return _number_of(launcher, born) | _WATCHES


def _number_of(pid: int, born: int) -> int:
    return MARKED | (pid & (1 << 22) - 1) << 40 | born & _WATCHES - 1


def put_on(mark: int) -> None:
    """Mark this process and all that it starts; left out where somebody uses that limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_RTTIME)
    if hard == resource.RLIM_INFINITY and (soft == resource.RLIM_INFINITY or soft >= MARKED):
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_RTTIME, (mark, hard))


class OwnTree:
    """The launcher's view: all its descendants, for it is the sub-reaper, but those that were there before and its watcher."""

    def __init__(self, folder: str = "") -> None:
        self.folder = folder
        self._pid = os.getpid()
        own = processes.find(self._pid)
        assert own is not None  # this process
        self._watcher_mark = watcher_mark(own.pid, own.born)
        self._known: dict[tuple[int, int], bool] = {}  # children, and whether a watcher left them
        before = processes.table()
        self.foreign = tuple(sorted(before[pid].key for pid in processes.below([self._pid], before)))
        """Who was there before the command, as a shell leaves its children to what it becomes."""

    def children(self, watchers: Collection[int] = ()) -> list[int]:
        """The launcher's own children as the kernel keeps them, dead ones too: an orphan of the tree is one of them at once."""
        without = {*watchers, *(pid for pid, born in self.foreign if (now := processes.find(pid)) and now.born == born)}
        return [pid for pid in processes.children(self._pid) if pid not in without]

    def members(self, watchers: Collection[int] = ()) -> list[TreeProcess]:
        """Everybody who lives now."""
        known = processes.table()
        foreign = {pid for pid, born in self.foreign if pid in known and known[pid].born == born}
        without = frozenset({*watchers, *foreign, *self._left_by_watchers(known)})
        found = processes.below([self._pid], known, without)
        if self.folder:
            found |= set(cgroup.members(self.folder))
        late = self._orphaned_since(known, watchers)
        known |= late
        found |= set(late).difference(self._left_by_watchers(late))
        return [known[pid] for pid in sorted(found - {self._pid} - without) if pid in known]

    def _orphaned_since(self, known: Mapping[int, TreeProcess], watchers: Collection[int]) -> dict[int, TreeProcess]:
        """Whoever was forked while /proc was read, and has lost its parent since.

        One that is dead by then has perhaps left another: over only when the kernel lists nobody new. Of a chain that is always
        faster the last one stands for it, dead as it is. Nobody else collects them, so none is gone before it is read.
        """
        seen, last = set(known), None
        end = time.monotonic() + ORPHANS_SECONDS
        while new := [pid for pid in self.children(watchers) if pid not in seen]:
            read = [processes.read(pid) for pid in new]
            if living := {process.pid: process for process, lives in read if process is not None and lives}:
                return living
            seen.update(new)
            last = read[-1][0]
            if last is not None and time.monotonic() >= end:
                return {last.pid: last}
        return {}

    def end_readers(self, watchers: Collection[int] = ()) -> None:
        """SIGKILL the readers of watchers that died: one that hangs would not end by itself."""
        known = {pid: one for pid in self.children(watchers) if (one := processes.find(pid)) is not None}
        for pid in self._left_by_watchers(known):
            if pid not in watchers:
                processes.send(known[pid], signal.SIGKILL)

    def _left_by_watchers(self, known: Mapping[int, TreeProcess]) -> list[int]:
        """The reader of a watcher that died: it ends by itself, or hangs in the driver."""
        mine = [process for process in known.values() if process.parent == self._pid]
        self._known = {
            one.key: self._known[one.key]
            if one.key in self._known
            else mark_on(one.pid, processes.PROC) == self._watcher_mark
            for one in mine
        }
        return [one.pid for one in mine if self._known[one.key]]


class Followed:
    """The watcher's view: descendants of the launcher, remembered while it lives, so that they are known when it is gone."""

    def __init__(self, origin: Origin, *, marks: Iterable[int] = (), folders: Iterable[str] = ()) -> None:
        """``marks``, ``folders``: what members bear, and the control groups they are in; more may come."""
        self._origin = origin
        self.marks, self.folders = {*marks}, {*folders}
        self._own = os.getpid()
        self._foreign = {pid for pid, born in origin.foreign if (now := processes.find(pid)) and now.born == born}
        self._others: set[int] = set()  # numbers of processes that are none of ours
        self._members: dict[int, TreeProcess] = {}
        self._watcher_mark = watcher_mark(origin.launcher, origin.born)
        self._strangers: set[int] = set()  # children of the same parent that are none of ours, or dead
        self._vanished = False  # whether one of them was gone before it was known whose it is

    def look(self) -> list[TreeProcess]:
        """Follow the tree by one step, at the cost of what is new; the members."""
        there = processes.pids()
        self._members = {
            pid: now for pid, old in self._members.items() if (now := processes.find(pid)) and now.born == old.born
        }
        self._others.intersection_update(there)
        known = self._others | self._members.keys()
        new = {pid: process for pid in there if pid not in known and (process := processes.find(pid))}
        for pid in processes.below(self._roots(), new, self._not_ours()):
            self._members[pid] = new.pop(pid)
        for pid, process in new.items():
            # else its parent died meanwhile: it has another now
            if process.parent in self._others or process.parent <= 1:
                self._others.add(pid)
        return list(self._members.values())

    def members(self) -> list[TreeProcess]:
        """Everybody who lives now, found anew by all that tells: parents, the sessions that members began, the group, the mark."""
        known = processes.table()
        sessions = {process.session for process in self._members.values()} - {self._origin.session}
        found = {pid for pid, old in self._members.items() if pid in known and known[pid].born == old.born}
        found |= {pid for pid, process in known.items() if process.session in sessions}
        marks = {
            pid: mark_on(pid, processes.PROC) for pid, process in known.items() if process.born >= self._origin.born
        }
        found |= {pid for pid, mark in marks.items() if mark in self.marks}
        for folder in self.folders:
            found |= set(cgroup.members(folder)) & set(known)
        found |= processes.below([*found, *self._roots()], known, self._not_ours())
        found -= {self._own, self._origin.launcher, *processes.below([self._own], known)}
        found -= {pid for pid, mark in marks.items() if mark == self._watcher_mark}
        orphaned = not found and os.getppid() != self._origin.launcher
        for process in self._orphans() if orphaned else ():
            known[process.pid] = process
            found.add(process.pid)
        self._members |= {pid: known[pid] for pid in found}
        return [known[pid] for pid in sorted(found)]

    def sweep(self) -> None:
        """SIGKILL every orphan of the tree, over and over for a moment: one that forks its successor and exits is gone before /proc is read.

        In a session of the tree's own its whole group is ended, which nobody escapes by forking; a dead member still names it.
        """
        end = time.monotonic() + SWEEP_SECONDS
        while time.monotonic() < end:
            found, dead = self._look_for_orphans()
            for process in (*found, *dead):
                if process.session != self._origin.session and process.group > 1:
                    with suppress(OSError):
                        os.killpg(process.group, signal.SIGKILL)
                processes.send(process, signal.SIGKILL)

    def _orphans(self) -> list[TreeProcess]:
        """Members whose parent is now that of this process, which a dead launcher left to it as well; looked for until one stays to be seen."""
        end = time.monotonic() + ORPHANS_SECONDS
        while True:
            found, dead = self._look_for_orphans()
            if found or not (dead or self._vanished) or time.monotonic() >= end:
                return found

    def _look_for_orphans(self) -> tuple[list[TreeProcess], list[TreeProcess]]:
        """Those that live, and those that died since the last look."""
        listed = processes.children(os.getppid())
        self._strangers.intersection_update(listed)
        self._vanished = False
        found: list[TreeProcess] = []
        dead: list[TreeProcess] = []
        for pid in reversed([pid for pid in listed if pid not in self._strangers]):  # the youngest goes on
            process, lives = processes.read(pid)
            mark = mark_on(pid, processes.PROC)
            if process is None or mark is None:
                self._vanished = True
            elif mark in self.marks and lives:
                found.append(process)
            else:
                self._strangers.add(pid)
                dead += [process] if mark in self.marks else []
        return found, dead

    def _roots(self) -> list[int]:
        launcher = processes.find(self._origin.launcher)
        lives = launcher is not None and launcher.born == self._origin.born
        return [*self._members, *([self._origin.launcher] if lives else [])]

    def _not_ours(self) -> frozenset[int]:
        return frozenset({self._own, *self._foreign})
