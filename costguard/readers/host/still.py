"""Looks at which nothing moves, as nearly all do, each in as few steps as can be: what it costs the work beside is that its code is cold.

What they saw is kept in numbers of its own, and the counters and levels get it when anything else is to be done with them.
"""

from collections.abc import Sequence

from costguard.readers.host.rates import LONGEST, Counter, Level

DISKS = 3
"""The last of all numbers: read from disks, written to them, and written to the memory before them."""


class Still:
    """The numbers of interfaces, received and sent by turns, and those of the disks; ``levels``: of what is received, sent, read, written."""

    def __init__(self, levels: Sequence[Level]) -> None:
        self._levels = levels
        self._counters: Sequence[Counter] = ()
        self._last: Sequence[int] = ()
        self._at = 0.0
        self._until = float("-inf")
        self._limits: list[float] = []
        self._before: list[float] = []
        self._busiest: list[float] = []
        self._taken = False  # whether there is anything that the counters and levels have not got

    def begin(self, counters: Sequence[Counter], values: Sequence[int], now: float) -> None:
        """From now on nothing moves: these are the numbers."""
        rests = [rest for level in self._levels if (rest := level.rest)]
        if len(rests) < len(self._levels):
            return
        self._counters, self._last, self._at = counters, values, now
        self._limits = [limit for limit, _, _ in rests]
        self._before = [before for _, before, _ in rests]
        self._busiest = [0.0] * len(rests)
        self._until = min([until for _, _, until in rests])

    def goes_on(self, values: Sequence[int], now: float) -> bool:
        """Take the numbers of now; False, and nothing is taken, when something moves, or cannot be said of them."""
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
        """Give counters and levels what was taken."""
        self._until = float("-inf")
        if not self._taken:
            return
        self._taken = False
        for counter, value in zip(self._counters, self._last, strict=True):
            counter.passed_over(value, self._at)
        for level, rate, busiest in zip(self._levels, self._before, self._busiest, strict=True):
            level.rested(rate, busiest)
