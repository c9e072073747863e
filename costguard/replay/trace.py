"""A recording in memory: one column of readings for each GPU, one of times for all."""

import math
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate, islice
from operator import itemgetter, sub
from typing import NamedTuple, TypeAlias

from costguard.engine.observation import Device, Known, Reading, Veto
from costguard.errors import CostguardError

Codes: TypeAlias = "bytes | array[int]"
"""For each tick the position of its reading in `Trace.readings`; bytes while there are at most 256 of them."""

SMALL = 256
FEW = 1000
"""Up to this many steps are sorted one by one."""


class TraceError(CostguardError):
    """A recording that cannot be read; the message names the file and the line."""


class SeenFrom(NamedTuple):
    """What senses saw from a date on."""

    wall: float
    vetoes: tuple[Veto, ...]


class Steps(NamedTuple):
    """How many seconds lie between the times of a recording."""

    usual: float  # the median of those above 0
    least: float = 0.0  # below 0 where times run backwards
    longest: float = 0.0


NO_STEPS = Steps(0.0)


class Trace(NamedTuple):
    """What was recorded of one machine. ``times`` are dates in seconds since the epoch and never run backwards.

    ``codes`` stand in the order of ``devices``; ``vetoes`` is what senses saw, where that was recorded, in the order of time.
    ``unfinished`` are the rows of a last tick that was being written, which is no part of the times: each with its date and the
    position of its GPU.
    """

    name: str
    devices: tuple[Device, ...]
    times: "array[float]"
    codes: tuple[Codes, ...]
    readings: tuple[Reading, ...]
    steps: Steps
    vetoes: "tuple[SeenFrom, ...]" = ()
    unfinished: "tuple[tuple[float, int, Reading], ...]" = ()

    @property
    def interval(self) -> float:
        """The usual step, in seconds; 0 when there is none."""
        return self.steps.usual

    @property
    def gpus(self) -> tuple[str, ...]:
        """The keys of the GPUs."""
        return tuple(device.key for device in self.devices)

    def column(self, gpu: int) -> list[Reading]:
        """The readings of one GPU, tick by tick."""
        return list(map(self.readings.__getitem__, self.codes[gpu]))


class Recording(NamedTuple):
    """A file that was read: its machines, its size in rows, and what had to be assumed."""

    traces: tuple[Trace, ...]
    rows: int
    notes: tuple[str, ...]


class ReadingCodes:
    """Gives every different reading a number."""

    def __init__(self) -> None:
        self.readings: list[Reading] = []
        self._whole: tuple[Reading, ...] = ()
        self._numbers: dict[Reading, int] = {}

    def number(self, reading: Reading) -> int:
        """The number of a reading."""
        known = self._numbers.get(reading)
        if known is None:
            known = self._numbers[reading] = len(self.readings)
            self.readings.append(reading)
        return known

    @property
    def whole(self) -> tuple[Reading, ...]:
        """Every reading; one and the same for all traces until there is a new one."""
        if len(self._whole) != len(self.readings):
            self._whole = tuple(self.readings)
        return self._whole

    def pack(self, numbers: Iterable[int]) -> Codes:
        """Numbers as compactly as they fit."""
        return bytes(numbers) if len(self.readings) <= SMALL else array("L", numbers)


def percent(value: float) -> Reading:
    """A load from per cent; raises ValueError when it is none."""
    if not 0.0 <= value <= 100.0:
        raise ValueError(f"{value:g} is not between 0 and 100")
    return Known(value / 100)


def steps_of(times: Sequence[float]) -> Steps:
    """The steps of a recording."""
    steps = map(sub, islice(times, 1, None), times)
    if len(times) < FEW:
        few = sorted(steps)
        if not few:
            return NO_STEPS
        start = bisect_right(few, 0.0)
        lower, upper = (start + len(few) - 1) // 2, (start + len(few)) // 2
        return Steps(usual(few[lower], few[upper]) if start < len(few) else 0.0, few[0], few[-1])
    each = sorted(Counter(steps).items())  # they are few: sorting every one takes twice as long
    least, longest = each[0][0], each[-1][0]
    ahead = each[bisect_left(each, (math.ulp(0.0), 0)) :]
    until = list(accumulate(map(itemgetter(1), ahead)))
    if not until:
        return Steps(0.0, least, longest)
    lower, upper = bisect_left(until, (until[-1] + 1) // 2), bisect_left(until, until[-1] // 2 + 1)
    return Steps(usual(ahead[lower][0], ahead[upper][0]), least, longest)


def usual(lower: float, upper: float) -> float:
    """The median of steps, to the millisecond, from the two in their middle."""
    found = (lower + upper) / 2
    return round(found, 3) if math.isfinite(found) else 0.0
