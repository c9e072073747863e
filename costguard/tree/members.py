"""Who belongs to a tree: as the launcher sees it, from which nobody can leave, and as the watcher followed it."""

import os
import resource
from collections.abc import Iterable
from contextlib import suppress

from costguard.background import BACKGROUND, MARKED, mark_on
from costguard.tree import group, processes
from costguard.tree.jobs import Origin
from costguard.tree.processes import Process


def mark_of(process: Process, *, filler: bool = False) -> int:
    """A number that names one process for good."""
    return MARKED | (process.pid & (1 << 22) - 1) << 40 | (BACKGROUND if filler else 0) | process.born & BACKGROUND - 1


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
        before = processes.table()
        self.foreign = tuple(sorted(before[pid].key for pid in processes.below([self._pid], before)))
        """Who was there before the command, as a shell leaves its children to what it becomes."""

    def children(self, watcher: int = 0) -> list[int]:
        """The launcher's own children as the kernel keeps them, dead ones too: an orphan of the tree is one of them at once."""
        without = {watcher, *(pid for pid, born in self.foreign if (now := processes.find(pid)) and now.born == born)}
        return [pid for pid in processes.children(self._pid) if pid not in without]

    def members(self, watcher: int = 0) -> list[Process]:
        """Everybody who lives now."""
        known = processes.table()
        foreign = {pid for pid, born in self.foreign if pid in known and known[pid].born == born}
        found = processes.below([self._pid], known, frozenset({watcher, *foreign}))
        if self.folder:
            found |= set(group.members(self.folder))
        for pid in self.children(watcher):  # whoever was forked while /proc was read, and has lost its parent since
            if pid not in known and (process := processes.find(pid)) is not None:
                known[pid] = process
                found.add(pid)
        return [known[pid] for pid in sorted(found - {self._pid}) if pid in known]


class Followed:
    """The watcher's view: descendants of the launcher, remembered while it lives, so that they are known when it is gone."""

    def __init__(self, origin: Origin, *, marks: Iterable[int] = (), folders: Iterable[str] = ()) -> None:
        """``marks``, ``folders``: what members bear, and the control groups they are in; more may come."""
        self._origin = origin
        self.marks, self.folders = {*marks}, {*folders}
        self._own = os.getpid()
        self._foreign = {pid for pid, born in origin.foreign if (now := processes.find(pid)) and now.born == born}
        self._others: set[int] = set()  # numbers of processes that are none of ours
        self._members: dict[int, Process] = {}

    def look(self) -> list[Process]:
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
            if (
                process.parent in self._others or process.parent <= 1
            ):  # else its parent died meanwhile: it has another now
                self._others.add(pid)
        return list(self._members.values())

    def members(self) -> list[Process]:
        """Everybody who lives now, found anew by all that tells: parents, the sessions that members began, the group, the mark."""
        known = processes.table()
        sessions = {process.session for process in self._members.values()} - {self._origin.session}
        found = {pid for pid, old in self._members.items() if pid in known and known[pid].born == old.born}
        found |= {pid for pid, process in known.items() if process.session in sessions}
        found |= {
            pid
            for pid, process in known.items()
            if process.born >= self._origin.born and mark_on(pid, processes.PROC) in self.marks
        }
        for folder in self.folders:
            found |= set(group.members(folder)) & set(known)
        found |= processes.below([*found, *self._roots()], known, self._not_ours())
        found -= {self._own, self._origin.launcher, *processes.below([self._own], known)}
        self._members |= {pid: known[pid] for pid in found}
        return [known[pid] for pid in sorted(found)]

    def _roots(self) -> list[int]:
        launcher = processes.find(self._origin.launcher)
        lives = launcher is not None and launcher.born == self._origin.born
        return [*self._members, *([self._origin.launcher] if lives else [])]

    def _not_ours(self) -> frozenset[int]:
        return frozenset({self._own, *self._foreign})
