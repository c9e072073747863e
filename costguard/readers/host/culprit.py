"""Which process moves the bytes that keep the machine up: for people, who want to know whom to ask.

Reading this takes milliseconds, so it waits until a rate counts; and it names a process only if that explains much of the rate. The
kernel counts no bytes from the network for a process, but it does count what the process then writes. Source: proc_pid_io(5).
"""

import os
from collections.abc import Iterable

from costguard.readers.host.processes import KERNEL, Processes
from costguard.readers.host.sense import SensePaths
from costguard.readers.host.text import PAGE_BYTES, printable, read
from costguard.readers.host.users import Users

PROCESSES_READ = 400
"""The youngest ones: a process that has just begun to move much is rarely old."""

SHARE = 0.4
"""How much of a rate one process must move to be named."""

_FIELD = {"received": b"wchar: ", "sent": b"rchar: ", "read": b"read_bytes: ", "written": b"write_bytes: "}


class Culprit:
    """What processes had read and written when a rate began to count."""

    def __init__(self, place: SensePaths, users: Users) -> None:
        self._proc, self._users = place.proc, users
        self._noted: dict[str, tuple[float, dict[int, int]]] = {}

    def watch(self, kinds: Iterable[str], now: float, processes: Processes) -> None:
        """Note what each process has moved so far; the next look can then tell who moves most."""
        self._noted = {kind: (now, self._moved(_FIELD[kind], processes)) for kind in kinds if kind in _FIELD}

    @property
    def noted(self) -> Iterable[str]:
        """The kinds of rates for which `found` can name somebody."""
        return self._noted

    def found(self, kind: str, rate: float, now: float, processes: Processes) -> tuple[str, str]:
        """The process that moves most of this rate, and its user; empty if that is unknown."""
        at, before = self._noted.get(kind, (now, {}))
        if now <= at or not before:
            return "", ""
        after = self._moved(_FIELD[kind], processes)
        grown = [((value - before.get(pid, value)) / (now - at), pid) for pid, value in after.items()]
        moved, pid = max(grown, default=(0.0, 0))
        process = processes.get(pid)
        if process is None or moved < SHARE * rate or pid == os.getpid():
            return "", ""
        user = self._users.name(process.uid)
        return f"{printable(process.name)} of {user}", user

    def _moved(self, field: bytes, processes: Processes) -> dict[int, int]:
        found = {}
        youngest = sorted((one for one in processes.all() if one.parent != KERNEL), key=lambda one: -one.start)
        for process in youngest[:PROCESSES_READ]:
            try:
                table = read(f"{self._proc}/{process.pid}/io", PAGE_BYTES)
                found[process.pid] = int(table[table.index(field) + len(field) :].partition(b"\n")[0])
            except (OSError, ValueError):  # it has ended, or is not for this user
                continue
        return found
