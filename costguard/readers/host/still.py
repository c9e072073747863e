"""The quick path for looks at which nothing moves, which nearly all are: the fewer steps, the less a look disturbs the machine's work.

It keeps its own numbers, and hands them to the counters and levels once these are needed again.
"""

from collections.abc import Sequence

from costguard.readers.host.rates import LONGEST, Counter, Level

DISKS = 3
"""The last three numbers: read from disks, written to disks, and written to memory before that."""


class Still:
    """The numbers of interfaces (received and sent alternating) and of the disks; ``levels``: received, sent, read, written."""

    def __init__(self, levels: Sequence[Level]) -> None:
        self._levels = levels
        self._counters: Sequence[Counter] = ()
        self._last: Sequence[int] = ()
        self._at = 0.0
        self._until = float("-inf")
        self._limits: list[float] = []
        self._before: list[float] = []
        self._busiest: list[float] = []
        self._taken = False  # whether there is something that the counters and levels do not have yet

    def begin(self, counters: Sequence[Counter], values: Sequence[int], now: float) -> None:
        """Begin with these numbers, if every level rests."""
        rests = [rest for level in self._levels if (rest := level.rest)]
        if len(rests) < len(self._levels):
            return
        self._counters, self._last, self._at = counters, values, now
        self._limits = [limit for limit, _, _ in rests]
        self._before = [before for _, before, _ in rests]
        self._busiest = [0.0] * len(rests)
        self._until = min([until for _, _, until in rests])

    def goes_on(self, values: Sequence[int], now: float) -> bool:
        """Take these numbers; false, and nothing is taken, if something moves or cannot be told."""
        passed = now - self._at
        if now >= self._until or not 0.0 < passed <= LONGEST or len(values) != len(self._last):
            return False
        grown = [value - last for value, last in zip(values, self._last, strict=True)]
        if min(grown) < 0:
            return False
        out, dirty = grown[-2:]
        moved = sum(grown[:-DISKS:2]), sum(grown[1:-DISKS:2]), grown[-DISKS], max(out, dirty)
        rates = [one / passed for one in moved]
        for rate, limit in zip(rates, self._limits, strict=True):
            if rate >= limit:
                return False
        self._busiest = [
            max(busiest, min(rate, before))
            for rate, before, busiest in zip(rates, self._before, self._busiest, strict=True)
        ]
        self._before, self._last, self._at, self._taken = rates, values, now, True
        return True

    def end(self) -> None:
        """Hand what was taken to the counters and levels."""
        self._until = float("-inf")
        if not self._taken:
            return
        self._taken = False
        for counter, value in zip(self._counters, self._last, strict=True):
            counter.passed_over(value, self._at)
        for level, rate, busiest in zip(self._levels, self._before, self._busiest, strict=True):
            level.rested(rate, busiest)
