"""The sense `traffic`: a download, an upload, or disks at work while no GPU works.

A rate counts once two looks in a row see it above its threshold and this machine's own idle level (`rates`), unless it
begins during the system's own upkeep (`upkeep`) or while the pre-stop hook saves work. Sources: proc_vmstat(5) (``pgpgin``, ``pgpgout`` in KiB, ``nr_dirtied`` in
pages: what was written and has not reached the disk yet).
"""

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from costguard.readers.host.culprit import Culprit
from costguard.readers.host.fabric import Fabric
from costguard.readers.host.interfaces import Interfaces
from costguard.readers.host.processes import Processes
from costguard.readers.host.rates import LONGEST, SHORTEST, Counter, Level
from costguard.readers.host.sense import NEVER, NOT_YET, Activity, Moment, SensePaths, Sight
from costguard.readers.host.still import Still
from costguard.readers.host.table import FirstReadable
from costguard.readers.host.text import amount, duration
from costguard.readers.host.upkeep import Upkeep
from costguard.readers.host.users import Users

_WHAT = {
    "received": ("the network", "received more than"),
    "sent": ("the network", "sent more than"),
    "read": ("the disks", "read more than"),
    "written": ("the disks", "wrote more than"),
    "fabric": ("InfiniBand", "moved more than"),
}
_KIB = 1024
_VMSTAT_HEAD_BYTES = 3000
"""Bytes of the file that are read: for each piece the kernel sums up the counters of all processors, and what is needed stands in
the first half."""

QUIET = Sight(seen="network and disks are quiet")
"""What most looks show."""


class _Rates(NamedTuple):
    """One kind of traffic: its rate over the whole time, and the lowest of its parts; None while unknown."""

    rate: float | None = None
    least: float | None = None


class Traffic:
    """See the module."""

    def __init__(self, settings: Mapping[str, Any], place: SensePaths) -> None:
        self._quiet_for = float(settings["quiet_for"])
        network, disk = float(settings["network"]), float(settings["disk"])
        self._above = {"received": network, "sent": network, "read": disk, "written": disk, "fabric": network}
        self._levels = {kind: Level(above, self._quiet_for) for kind, above in self._above.items()}
        self._words = {kind: self._words_of(kind) for kind in _WHAT}
        self._names: dict[str, tuple[str, str]] = {}  # by kind that counts: the process, and its user
        self._culprit = Culprit(place, Users(place))
        self._interfaces, self._fabric = Interfaces(place), Fabric(place, network)
        self._proc, self._page = place.proc, os.sysconf("SC_PAGE_SIZE")
        self._vmstat = FirstReadable(f"{place.proc}/vmstat", limit=_VMSTAT_HEAD_BYTES)
        self._read, self._dirty, self._out = Counter(), Counter(), Counter()
        self._cards: dict[str, tuple[Counter, Counter]] = {}  # by interface: received and sent
        self._numbers: list[int] = []  # the last readings, in the order of `Still`
        self._upkeep = Upkeep(settings["ignore"], place)
        self._looked = float("-inf")
        self._unknown = NOT_YET
        self._resting = True  # whether nothing counts, and nothing is about to
        self._still = Still([self._levels[kind] for kind in ("received", "sent", "read", "written")])
        self.wakes = NEVER
        """When `between` should be called; a look may come before that."""
        self.rests_until = 0.0

    def look(self, now: Moment, processes: Processes) -> Sight:
        """See `costguard.readers.host.sense.Sense`."""
        if now.boot - self._looked >= SHORTEST and not self._is_still(now, processes):
            self._measure(now, processes)
        levels = () if self._resting else self._levels.items()
        active = [self._activity(kind, level) for kind, level in levels if level.goes_on(now.boot)]
        self.rests_until = 0.0 if active else self._looked + SHORTEST
        return Sight(tuple(active), self._unknown, QUIET.seen) if active or self._unknown else QUIET

    def _is_still(self, moment: Moment, processes: Processes) -> bool:
        """Whether nothing moves, as at the look before, so that the look is over."""
        now = moment.boot
        if not self._resting or now >= self._fabric.due_at or moment.saving or self._upkeep.runs(processes, now):
            return False
        try:
            numbers = self._interfaces.read_again()
            if numbers is None or not self._still.goes_on([*numbers, *self._disk_counters()], now):
                return False
        except (OSError, ValueError):  # the whole look says so
            return False
        self._looked = now
        return True

    def between(self, now: Moment) -> None:
        """Read the counters half-way to the next look, so that a burst that falls into two looks is recognised."""
        self.wakes = float("inf")
        try:
            moved = self._interfaces.read()
            read_in, out, dirty = self._disk_counters()
        except (OSError, ValueError):  # the next look says so
            return
        for name, (received, sent) in moved.items():
            if name in self._cards:
                self._cards[name][0].mark(received, now.boot)
                self._cards[name][1].mark(sent, now.boot)
        for counter, value in ((self._read, read_in), (self._out, out), (self._dirty, dirty)):
            counter.mark(value, now.boot)

    def _measure(self, moment: Moment, processes: Processes) -> None:
        now = moment.boot
        self._still.end()
        began = max(self._looked, now - LONGEST)
        self._looked = now
        may_begin = not self._upkeep.runs(processes, now) and not moment.saving
        troubles: list[str] = []
        self._numbers = []
        rates: dict[str, _Rates] = {"fabric": _Rates(*self._fabric.look(now))}
        rates |= self._network(now, troubles) | self._disks(now, troubles)
        self._unknown = "; ".join(troubles)
        if not troubles and (rates["received"].rate is None or rates["read"].rate is None):
            self._unknown = NOT_YET
        begun, resting = [], True
        for kind, level in self._levels.items():
            rate, least = rates[kind]
            if may_begin and level.rests(rate, now):
                continue
            went_on, resting = level.goes_on(now), False
            if level.take(rate, now, began, may_begin=may_begin, least=least) and not went_on:
                begun.append(kind)
                self._names.pop(kind, None)
        self._resting = resting
        if resting:
            counters = [counter for both in self._cards.values() for counter in both]
            self._still.begin([*counters, self._read, self._out, self._dirty], self._numbers, now)
        doubtful = not resting and any(level.doubtful for level in self._levels.values())
        self.wakes = now + (now - began) / 2.0 if doubtful else float("inf")
        if not (begun or self._culprit.noted):
            return
        for kind in self._culprit.noted:
            self._names[kind] = self._culprit.found(kind, rates[kind].rate or 0.0, now, processes)
        self._culprit.watch(begun, now, processes)

    def _network(self, now: float, troubles: list[str]) -> dict[str, _Rates]:
        try:
            moved = self._interfaces.read()
        except (OSError, ValueError) as error:
            troubles.append(f"the network cannot be seen ({_why(error)})")
            return {"received": _Rates(), "sent": _Rates()}
        if list(moved) != list(self._cards):
            self._cards = {name: self._cards.get(name) or (Counter(), Counter()) for name in moved}
        self._numbers += [number for both in moved.values() for number in both]
        found: dict[str, _Rates] = {}
        for place, kind in enumerate(("received", "sent")):
            counters = [self._cards[name][place] for name in moved]
            rates = [counter.rate(moved[name][place], now) for name, counter in zip(moved, counters, strict=True)]
            found[kind] = _Rates(_sum(rates), _sum([counter.least for counter in counters]))
        return found

    def _disks(self, now: float, troubles: list[str]) -> dict[str, _Rates]:
        try:
            read_in, out, dirty = self._disk_counters()
        except (OSError, ValueError) as error:
            troubles.append(f"the disks cannot be seen ({_why(error)})")
            return {"read": _Rates(), "written": _Rates()}
        self._numbers += [read_in, out, dirty]
        # what is written lies in memory first, and what goes round the memory is never dirty there
        written = [rate for rate in (self._dirty.rate(dirty, now), self._out.rate(out, now)) if rate is not None]
        least = [rate for rate in (self._dirty.least, self._out.least) if rate is not None]
        return {
            "read": _Rates(self._read.rate(read_in, now), self._read.least),
            "written": _Rates(max(written, default=None), max(least, default=None)),
        }

    def _disk_counters(self) -> tuple[int, int, int]:
        """Bytes read from disks, written to them, and written to the memory before them. Raises OSError and ValueError."""
        try:
            return self._counters_in(self._vmstat.read())
        except ValueError:  # they stand further down
            self._vmstat = FirstReadable(f"{self._proc}/vmstat")
            return self._counters_in(self._vmstat.read())

    def _counters_in(self, table: bytes) -> tuple[int, int, int]:
        """Raises ValueError."""
        read_in, out = _value(table, b"pgpgin") * _KIB, _value(table, b"pgpgout") * _KIB
        return read_in, out, _value(table, b"nr_dirtied") * self._page

    def _activity(self, kind: str, level: Level) -> Activity:
        who, user = self._names.get(kind) or ("", "")
        part, what, lets_go = self._words[kind]
        return Activity(who or part, what, level.since, level.last, lets_go, user)

    def _words_of(self, kind: str) -> tuple[str, str, str]:
        """What moves, what it does, and what would let it go."""
        part, verb = _WHAT[kind]
        limit = amount(self._above[kind])
        return part, f"{verb} {limit}", f"{duration(self._quiet_for)} below {limit}"


def _sum(rates: list[float | None]) -> float | None:
    """The sum of those that are known; None if none is."""
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known or not rates else None


def _value(table: bytes, name: bytes) -> int:
    """One line of a table of names and numbers. Raises ValueError."""
    number, end, _ = table.partition(b"\n%s " % name)[2].partition(b"\n")
    if not end:  # it is not there, or not all of it
        raise ValueError(f"no {name.decode()}")
    return int(number)


def _why(error: Exception) -> str:
    return error.strerror or "unreadable" if isinstance(error, OSError) else "an unexpected form"
