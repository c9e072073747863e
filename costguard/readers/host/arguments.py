"""Processes that are recognised by their arguments; these are read once and never stored."""

from collections.abc import Callable
from typing import Any

from costguard.readers.host.processes import Process, Processes
from costguard.readers.host.round_robin import round_robin

PYTHONS = ("python", "pt_main_thread")
"""How the names of Python processes begin: PyTorch renames the process that loads it."""

READS = 64
"""Processes read in one look at most; the others wait for the next look."""


class Recognised:
    """What ``judge`` makes of the arguments of each process that ``may`` be of interest; None is forgotten.

    A program whose name begins with one of ``programs`` is read at two looks: at the first one it may be about to become
    another program of that name. Arguments without ``sign`` are not judged. Reading the arguments of a process that
    hangs may hang, so ``may`` should let few through.
    """

    def __init__(
        self,
        may: Callable[[Process, Processes], bool],
        judge: Callable[[list[bytes]], Any],
        programs: tuple[str, ...],
        sign: bytes = b"",
    ) -> None:
        self._may, self._judge = may, judge
        self._programs, self._sign = programs, sign
        self._edition: int | None = None  # of no look yet
        self._waiting: list[Process] = []
        self._again: list[Process] = []
        self._found: dict[int, tuple[Process, Any]] = {}

    @property
    def settled(self) -> bool:
        """Whether the next look has nothing to read unless a process changes."""
        return not (self._again or self._waiting)

    def look(self, processes: Processes) -> list[tuple[Process, Any]]:
        """The recognised processes, each with what it was recognised as."""
        again, self._again = self._again, []
        if again or self._waiting or processes.edition != self._edition:
            changed = processes.changed(self._edition)
            self._edition = processes.edition
            self._found = {pid: one for pid, one in self._found.items() if processes.get(pid) is one[0]}
            self._waiting += [process for process in changed if self._may(process, processes)]
            if len(self._waiting) > READS:
                self._waiting = round_robin(self._waiting, lambda process: process.uid)
            now, self._waiting = self._waiting[:READS], self._waiting[READS:]
            for process in again:
                if processes.get(process.pid) is process:
                    self._read(process, processes)
            for process in now:
                if processes.get(process.pid) is process:
                    empty = self._read(process, processes)
                    if empty or process.name.startswith(self._programs):
                        self._again.append(process)
        return list(self._found.values())

    def _read(self, process: Process, processes: Processes) -> bool:
        """Judge the arguments of one process; true if it has none, as in the moment in which it becomes another program."""
        try:
            words = processes.arguments(process)
            what = self._judge(words.split(b"\0")) if self._sign in words else None
        except (FileNotFoundError, ProcessLookupError, PermissionError):  # it has ended, or is not for this user
            return False
        except OSError:  # this machine is short of memory or files: try again
            self._waiting.append(process)
            return False
        if what is not None:
            self._found[process.pid] = process, what
        else:
            self._found.pop(process.pid, None)
        return not words
