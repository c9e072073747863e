"""Processes as the kernel shows them, and a signal for exactly the one that was seen."""

import errno
import os
import signal
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

PROC = "/proc"
_DEAD = (b"Z", b"X")


class TreeProcess(NamedTuple):
    """One living process. ``born`` is its start in clock ticks since boot: with the number it names a process for good."""

    pid: int
    parent: int
    group: int
    session: int
    born: int
    stopped: bool
    name: str

    @property
    def key(self) -> tuple[int, int]:
        """What no other process has, now or later."""
        return self.pid, self.born


def find(pid: int) -> TreeProcess | None:
    """The process with this number; None when there is none, or only its exit status is left."""
    process, lives = read(pid)
    return process if lives else None


def read(pid: int) -> tuple[TreeProcess | None, bool]:
    """The process with this number, and whether it lives: of one that is dead the exit status may be left. Source: proc_pid_stat(5).

    A process whose main thread has ended looks like one that is dead: what tells them apart is the number of its threads.
    """
    try:
        with open(f"{PROC}/{pid}/stat", "rb", buffering=0) as file:
            before, _, after = file.read(4096).rpartition(b")")
    except OSError:
        return None, False
    fields = after.split()
    if len(fields) < 20:
        return None, False
    dead = fields[0] in _DEAD and int(fields[17]) < 2  # else its other threads go on
    name = before.partition(b"(")[2].decode("utf-8", "replace")
    process = TreeProcess(
        pid, int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]), fields[0] in (b"T", b"t"), name
    )
    return process, not dead


def pids() -> list[int]:
    """The numbers of all processes, in ascending order."""
    return sorted([int(name) for name in os.listdir(PROC) if name.isdigit()])


def children(pid: int) -> list[int]:
    """The numbers of a process's children, dead ones too; empty where the kernel does not list them. Source: proc_pid_children(5)."""
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"{PROC}/{pid}/task"):
            with suppress(OSError), open(f"{PROC}/{pid}/task/{thread}/children", encoding="ascii") as file:
                found += map(int, file.read().split())
    return found


def table() -> dict[int, TreeProcess]:
    """All living processes by number."""
    return {pid: process for pid in pids() if (process := find(pid)) is not None}


def below(
    roots: Iterable[int], processes: Mapping[int, TreeProcess], without: frozenset[int] = frozenset()
) -> set[int]:
    """The numbers of all descendants of these processes, without the branches that begin with those of ``without``."""
    children: dict[int, list[int]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process.pid)
    found: set[int] = set()
    waiting = list(roots)
    while waiting:
        for pid in children.get(waiting.pop(), ()):
            if pid not in found and pid not in without:
                found.add(pid)
                waiting.append(pid)
    return found


def send(process: TreeProcess, number: int) -> str:
    """Signal this process and no other that has its number now: *sent*, *gone*, or *refused* (it became another user's)."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError as error:
        if error.errno != errno.ENOSYS:  # an old or a simulated kernel
            return "gone"
        handle = -1
    try:
        now = find(process.pid)
        if now is None or now.born != process.born:
            return "gone"
        if handle < 0:
            os.kill(process.pid, number)
        else:
            signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return "gone"
    except PermissionError:
        return "refused"
    finally:
        if handle >= 0:
            os.close(handle)
    return "sent"


def named(processes: Iterable[TreeProcess], most: int = 5) -> str:
    """``python 4242, sh 4243 and 3 more``."""
    all_of_them = list(processes)
    shown = ", ".join([f"{process.name} {process.pid}" for process in all_of_them[:most]])
    return shown + (f" and {len(all_of_them) - most} more" if len(all_of_them) > most else "")
