"""Which processes hold a GPU, by the devices that they have open.

Going through a process's open files costs more than the rest of a look, so each look goes through a few processes: young ones
often, and those that have long held no GPU hardly ever. Source: proc_pid_fd(5).
"""

import os
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import NamedTuple

from costguard.monitors import MONITORS
from costguard.readers.host.opened import COST, opened
from costguard.readers.host.processes import KERNEL, Process, Processes
from costguard.readers.host.sense import NEVER, SensePaths

WATCHERS = (
    *MONITORS, "dcgm", "nvidia-device-p", "nvidia-mig-mana", "nvidia-sleep", "nvidia-settings", "gpu-feature-dis", "node_exporter",
    "telegraf", "netdata", "zabbix_agent", "collectd", "google_cloud_op", "otelopscol", "otelcol", "datadog",
    "trace-agent", "process-agent", "wandb-core", "gpu_stat", "btop", "glances", "prometheus",
)  # fmt: skip
"""How the names of programs begin that hold a GPU without working on it; the kernel cuts names at 15 characters."""

LINKS = 128
"""Open files read in one look; a process that was begun is read to its end."""

USERS = 8
"""In one look, so many users have at least one process each gone through, whatever others have open."""

FEW = 6
"""A process with no more open files than this holds no GPU: using one takes a dozen, besides the standard three. Most short-lived
programs have only those three, and the programs of a build two or three pipes more. Linux 6.2 and later tell the count; source:
fs/proc/fd.c (proc_fd_getattr)."""

YOUNGEST, LONGEST = 10.0, 4 * 3600.0
"""Bounds of the seconds between two looks at one process; between them it is the age of the process."""

BORN = 4.0
"""Age in seconds before which no process is looked at: most short-lived ones are gone by then."""

HELD_SECONDS = 30.0
"""Seconds between two looks at whether a process still holds a GPU."""

_DEVICE, _COMPUTE, _CONTROL = "/dev/nvidia", "/dev/nvidia-uvm", "/dev/nvidiactl"


class DeviceHolder(NamedTuple):
    """A process with a GPU open.

    ``computes``: it has opened not only the devices that every monitor opens to ask the driver, but also that of CUDA's memory.
    ``watches``: by its name it is a monitor, which works on no GPU.
    """

    process: Process
    computes: bool
    watches: bool


class GpuHolders:
    """The processes that hold a GPU, found little by little."""

    def __init__(self, place: SensePaths) -> None:
        self._proc = place.proc
        self._edition: int | None = None  # of no look yet
        # by user: when, the youngest first, and which process
        self._due: dict[int, list[tuple[float, int, Process]]] = {}
        self._first = 0  # which user has his turn first
        self._held: dict[int, DeviceHolder] = {}
        self.hidden = False
        """Whether there are processes whose open files are not for this user to see."""
        self.complete = False
        """Whether every process has been looked at once."""

    @property
    def due_at(self) -> float:
        """When the next process is due, on the boot clock."""
        return min([due[0][0] for due in self._due.values()], default=NEVER)

    def look(self, processes: Processes, now: float) -> list[DeviceHolder]:
        """Look through some more processes; who is known to hold a GPU, without this agent's own processes."""
        if processes.edition != self._edition:
            self._meet(processes, now)
            self._edition = processes.edition
        left, turns = LINKS, min(USERS, len(self._users_due(now)))
        self._first += turns
        for turn, process in enumerate(self._in_turn(now), 1):
            if processes.get(process.pid) is process:
                left -= self._inspect(process, now)
            if left <= 0 and turn >= turns:
                break
        self.complete = not self._users_due(now)
        return list(self._held.values())

    def _users_due(self, now: float) -> list[int]:
        """The users who have a process that is due."""
        return [uid for uid, due in self._due.items() if due[0][0] <= now]

    def _in_turn(self, now: float) -> Iterator[Process]:
        """The processes that are due: one of each user, then another one of each, and so on."""
        while users := self._users_due(now):
            first = self._first % len(users)
            for uid in (*users[first:], *users[:first]):
                due = self._due[uid]
                _, _, process = heappop(due)
                if not due:
                    del self._due[uid]
                yield process

    def _meet(self, processes: Processes, now: float) -> None:
        own = self._family(processes)
        for process in processes.changed(self._edition):
            if KERNEL not in (process.parent, process.pid) and not own & {process.pid, process.parent}:
                due = max(now, process.began + BORN)
                heappush(self._due.setdefault(process.uid, []), (due, -process.start, process))
        self._held = {pid: one for pid, one in self._held.items() if processes.get(pid) is one.process}

    def _family(self, processes: Processes) -> set[int]:
        """The agent, which started this process; it and its other children are left out as well."""
        try:
            own = processes.get(int(os.readlink(f"{self._proc}/self")))
        except (OSError, ValueError):
            return set()
        return {own.parent} if own is not None and own.parent > 1 else set()

    def _inspect(self, process: Process, now: float) -> int:
        """Go through the open files of a process; what that cost, in files."""
        targets: list[str] = []
        try:
            if not 0 < os.stat(f"{self._proc}/{process.pid}/fd").st_size <= FEW:
                targets = [target for _, target in opened(self._proc, process.pid)]
        except PermissionError:
            self.hidden = True
        except OSError:  # it has ended
            self._held.pop(process.pid, None)
            return COST
        devices = [target for target in targets if target.startswith(_DEVICE)]
        holds = any(target.removeprefix(_DEVICE)[:1].isdigit() for target in devices)
        computes = any(target.startswith(_COMPUTE) for target in devices)
        controls = any(target.startswith(_CONTROL) for target in devices)
        if holds:
            self._held[process.pid] = DeviceHolder(process, computes or not controls, process.name.startswith(WATCHERS))
        else:
            self._held.pop(process.pid, None)
        age = max(0.0, now - process.began)
        wait = HELD_SECONDS if holds else min(LONGEST, max(YOUNGEST, age))
        heappush(self._due.setdefault(process.uid, []), (now + wait, -process.start, process))
        return len(targets) + COST
