"""Traffic through the ports of InfiniBand, RoCE and EFA, which no network interface counts.

A driver may ask its card for a counter, so each look reads a few of them. Sources: stable/sysfs-class-infiniband of the kernel's
ABI documentation (data counters count four bytes); hw_counters of the EFA driver.
"""

from typing import NamedTuple

from costguard.files import names_in
from costguard.readers.host.rates import Counter
from costguard.readers.host.sense import SensePaths
from costguard.readers.host.table import FirstReadable
from costguard.readers.host.text import PAGE_BYTES

READS = 4
"""Counters read in one look."""

LONGEST = 1800.0
"""Seconds between two readings of one counter: a machine may have dozens, and a sense may look rarely."""

LIST_SECONDS = 300.0
_WORD = 4
_DATA = ("counters/port_rcv_data", "counters/port_xmit_data")
_BYTES = ("hw_counters/rx_bytes", "hw_counters/tx_bytes", "hw_counters/rdma_read_bytes", "hw_counters/rdma_write_bytes")


class _Count(NamedTuple):
    """One counter of a port: ``size`` bytes each."""

    size: int
    table: FirstReadable
    counter: Counter


class _Rate(NamedTuple):
    """Bytes a second of one counter: at its last reading, and at both of the last two."""

    last: float
    least: float


class Fabric:
    """The busiest counter of all ports. ``above``: bytes a second; a counter that moves more is read at the next look again."""

    def __init__(self, place: SensePaths, above: float) -> None:
        self._root, self._above = f"{place.sys}/class/infiniband", above
        self._list_at = float("-inf")
        self._counters: dict[str, _Count] = {}
        self._rates: dict[str, _Rate] = {}
        self._turn: list[str] = []
        self._hot: list[str] = []  # those that moved more than ``above``, in turn

    @property
    def due_at(self) -> float:
        """No look reads anything before this moment of the boot clock: cards are listed rarely, and most machines have none."""
        return float("-inf") if self._counters else self._list_at

    def look(self, now: float) -> tuple[float | None, float | None]:
        """Bytes a second of the busiest counter, and the most that one counter moved at two readings in a row; None while unknown."""
        if now >= self._list_at:
            self._list_at = now + LIST_SECONDS
            self._list()
        if not self._counters:
            return None, None
        for path in self._next():
            count = self._counters[path]
            if count.counter.due(now):
                self._read(path, count, now)
        rates = self._rates.values()
        return max([one.last for one in rates], default=None), max([one.least for one in rates], default=None)

    def _next(self) -> list[str]:
        """The counters to read in this look: some that moved much, to see whether that was a burst, and others in turn."""
        paths = self._hot[: READS - 1]
        while len(paths) < min(READS, len(self._counters)):
            self._turn = self._turn or list(self._counters)
            path = self._turn.pop()
            if path not in paths:
                paths.append(path)
        return paths

    def _read(self, path: str, count: _Count, now: float) -> None:
        before = self._rates.pop(path, None)
        if path in self._hot:
            self._hot.remove(path)
        try:
            rate = count.counter.rate(int(count.table.read()) * count.size, now)
        except (OSError, ValueError):  # the port is gone, or is not for this user
            return
        if rate is not None:
            self._rates[path] = _Rate(rate, min(rate, before.last) if before is not None else 0.0)
            if rate >= self._above:
                self._hot.append(path)

    def _list(self) -> None:
        found: dict[str, _Count] = {}
        for card in names_in(self._root):
            for port in names_in(f"{self._root}/{card}/ports"):
                folder = f"{self._root}/{card}/ports/{port}"
                names = names_in(f"{folder}/counters")
                data = [name for name in _DATA if name.rpartition("/")[2] in names]
                names = [] if data else names_in(f"{folder}/hw_counters")
                for name in data or [name for name in _BYTES if name.rpartition("/")[2] in names]:
                    path = f"{folder}/{name}"
                    size = _WORD if name in _DATA else 1
                    found[path] = self._counters.get(path) or _Count(
                        size, FirstReadable(path, limit=PAGE_BYTES), Counter(LONGEST)
                    )
        self._counters, self._turn = found, []
        self._hot = [path for path in self._hot if path in found]
        self._rates = {path: rate for path, rate in self._rates.items() if path in found}
