"""The sense `cpu`: processors at work above this machine's own idle level.

Off by default: a busy loop looks the same as work. Source: proc_stat(5).
"""

import os
from collections.abc import Mapping
from typing import Any

from costguard.readers.host.processes import Processes
from costguard.readers.host.rates import LONGEST, Counter, Level
from costguard.readers.host.sense import NOT_YET, Activity, Moment, SensePaths, Sight
from costguard.readers.host.text import duration, read
from costguard.readers.host.upkeep import Upkeep

_BUSY = (0, 1, 2, 5, 6)  # user, nice, system, irq, softirq; waiting for a disk or for the host is no work
_LINE = 512  # bytes


class Cpu:
    """See the module."""

    def __init__(self, settings: Mapping[str, Any], place: SensePaths) -> None:
        self._path = f"{place.proc}/stat"
        self._above, self._quiet_for = float(settings["cores"]), float(settings["quiet_for"])
        self._level = Level(self._above, self._quiet_for)
        self._counter = Counter()
        self._upkeep = Upkeep(settings["ignore"], place)
        self._looked = float("-inf")
        self._tick = 1.0 / os.sysconf("SC_CLK_TCK")
        self._unknown = NOT_YET

    def look(self, now: Moment, processes: Processes) -> Sight:
        """See `costguard.readers.host.sense.Sense`."""
        if self._counter.due(now.boot):
            may_begin = not now.saving and not self._upkeep.runs(processes, now.boot)
            self._measure(now.boot, may_begin=may_begin)
        active: tuple[Activity, ...] = ()
        if self._level.goes_on(now.boot):
            limit = f"{self._above:g} cores"
            lets_go = f"{duration(self._quiet_for)} below {limit}"
            active = (
                Activity("the processors", f"used more than {limit}", self._level.since, self._level.last, lets_go),
            )
        return Sight(active, self._unknown, "the processors are idle")

    def _measure(self, now: float, *, may_begin: bool) -> None:
        began, self._looked = max(self._looked, now - LONGEST), now
        try:
            fields = read(self._path, _LINE).partition(b"\n")[0].split()[1:]
            used = sum(int(fields[number]) for number in _BUSY) * self._tick
        except (OSError, ValueError, IndexError) as error:
            why = error.strerror if isinstance(error, OSError) else "an unexpected form"
            self._unknown = f"the processors cannot be seen ({why})"
            return
        rate = self._counter.rate(used, now)
        self._unknown = NOT_YET if rate is None else ""
        self._level.take(rate, now, began, may_begin=may_begin)
