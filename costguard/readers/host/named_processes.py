"""The sense `processes`: programs that the owner has named, while they run."""

from collections.abc import Mapping
from typing import Any

from costguard.readers.host.processes import Processes, runs_still
from costguard.readers.host.sense import Activity, Moment, SensePaths, Sight
from costguard.readers.host.text import printable
from costguard.readers.host.users import Users


class NamedProcesses:
    """See the module."""

    def __init__(self, settings: Mapping[str, Any], place: SensePaths) -> None:
        self._proc, self._users = place.proc, Users(place)
        self._names = tuple(settings["names"])
        self._count = frozenset(settings["users"])

    def look(self, now: Moment, processes: Processes) -> Sight:
        """See `costguard.readers.host.sense.Sense`."""
        found: dict[str, Activity] = {}
        for process in processes.named(*self._names):
            user = self._users.name(process.uid)
            if (self._count and user not in self._count) or not runs_still(self._proc, process):
                continue
            who = f"{printable(process.name)} of {user}"
            began = min(process.began, now.boot)
            since = min(began, found[who].since) if who in found else began
            found[who] = Activity(who, "runs", since, now.boot, "its end", user)
        return Sight(tuple(found.values()), processes.unknown, "none of the named programs runs")
