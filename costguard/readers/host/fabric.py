"""What passes the ports of InfiniBand, RoCE and EFA, which no interface of the network counts.

A driver may ask its card for a counter, so each look reads a few of them. Sources: stable/sysfs-class-infiniband of the kernel's
ABI documentation (data counters count four bytes); hw_counters of the EFA driver.
"""

from typing import NamedTuple

from costguard.files import names_in
from costguard.readers.host.rates import Counter
from costguard.readers.host.table import FirstReadable

TYPE_CHECKING = False  # importing typing again costs nothing, but this is how readers are written
if TYPE_CHECKING:
    from costguard.readers.host.sense import Place

READS = 4
"""Counters read in one look."""

LIST_SECONDS = 300.0
_WORD = 4
_DATA = ("counters/port_rcv_data", "counters/port_xmit_data")
_BYTES = ("hw_counters/rx_bytes", "hw_counters/tx_bytes", "hw_counters/rdma_read_bytes", "hw_counters/rdma_write_bytes")


class _Count(NamedTuple):
    """One counter of a port: ``size`` bytes each."""

    size: int
    table: FirstReadable
    counter: Counter


class Fabric:
    """The busiest counter of all ports, in bytes a second."""

    def __init__(self, place: "Place") -> None:
        self._root = f"{place.sys}/class/infiniband"
        self._list_at = float("-inf")
        self._counters: dict[str, _Count] = {}
        self._rates: dict[str, float] = {}
        self._turn: list[str] = []

    @property
    def present(self) -> bool:
        """Whether there is any port."""
        return bool(self._counters)

    def look(self, now: float) -> float | None:
        """Bytes a second of the busiest port, None while nothing is known."""
        if now >= self._list_at:
            self._list_at = now + LIST_SECONDS
            self._list()
        for _ in range(min(READS, len(self._counters))):
            if not self._turn:
                self._turn = list(self._counters)
            path = self._turn.pop()
            count = self._counters[path]
            if count.counter.due(now):
                self._read(path, count, now)
        return max(self._rates.values(), default=None)

    def _read(self, path: str, count: _Count, now: float) -> None:
        try:
            rate = count.counter.rate(int(count.table.read()) * count.size, now)
        except (OSError, ValueError):  # the port is gone, or is not for this user
            rate = None
        if rate is None:
            self._rates.pop(path, None)
        else:
            self._rates[path] = rate

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
                    found[path] = self._counters.get(path) or _Count(size, FirstReadable(path, limit=64), Counter())
        self._counters, self._turn = found, []
        self._rates = {path: rate for path, rate in self._rates.items() if path in found}
