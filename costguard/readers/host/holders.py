"""The sense `holders`: processes that hold a GPU, at work or not. Off unless the owner wants it: a forgotten notebook holds one too.

A monitor's handle does not count: of one known by its name, and of any process that has opened only what asking the driver needs.
"""

from collections.abc import Mapping
from typing import Any

from costguard.holders import place as place_of
from costguard.readers.host.gpus import DeviceHolder, GpuHolders
from costguard.readers.host.processes import NAME_LENGTH, Process, Processes
from costguard.readers.host.sense import NOT_YET, Activity, Moment, SensePaths, Sight
from costguard.readers.host.text import PAGE_BYTES, printable, read
from costguard.readers.host.users import Users


class Holders:
    """See the module."""

    def __init__(self, settings: Mapping[str, Any], place: SensePaths) -> None:
        self._proc, self._users, self._gpus = place.proc, Users(place), GpuHolders(place)
        self._count, self._ignore_users = frozenset(settings["users"]), frozenset(settings["ignore_users"])
        self._ignore = frozenset(name[:NAME_LENGTH] for name in settings["ignore"])
        self._places: dict[int, tuple[Process, str]] = {}  # in which container, job or service a process runs

    def look(self, now: Moment, processes: Processes) -> Sight:
        """See `costguard.readers.host.sense.Sense`."""
        found: dict[str, Activity] = {}
        holders = self._gpus.look(processes, now.boot)
        for one in filter(self._counts, holders):
            user = self._users.name(one.process.uid)
            if user in self._ignore_users or (self._count and user not in self._count):
                continue
            where = self._place(one.process)
            who = f"{printable(one.process.name)} of {user}{' in ' if where else ''}{where}"
            began = min(one.process.began, now.boot)
            since = min(began, found[who].since) if who in found else began
            found[who] = Activity(who, "holds a GPU", since, now.boot, "its end", user)
        self._places = {pid: one for pid, one in self._places.items() if processes.get(pid) is one[0]}
        return Sight(tuple(found.values()), self._unknown(processes), "no process holds a GPU, besides monitors")

    def _counts(self, one: DeviceHolder) -> bool:
        return one.computes and not one.watches and one.process.name not in self._ignore

    def _unknown(self, processes: Processes) -> str:
        if processes.unknown:
            return processes.unknown
        if self._gpus.hidden:
            return "only root can see which GPUs other users' processes hold"
        return "" if self._gpus.complete else NOT_YET

    def _place(self, process: Process) -> str:
        known = self._places.get(process.pid)
        if known is None or known[0] is not process:
            try:
                group = read(f"{self._proc}/{process.pid}/cgroup", PAGE_BYTES).decode(errors="replace")
            except OSError:
                return ""
            known = self._places[process.pid] = process, place_of(group)
        return known[1]
