"""How long a machine was idle or at work up to any tick, without a sum for every tick."""

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, islice, pairwise
from operator import sub
from typing import NamedTuple

IDLE, WORK, BLIND = 0, 1, 2


class StateTimes(NamedTuple):
    """``machine`` says what it was in every tick; a tick stands for the time since the one before, and for none after a hole."""

    machine: bytes
    times: "array[float]"
    holes: Sequence[int]
    lost: Sequence[float]  # seconds in all of the holes before each
    edges: Sequence[int]  # where the machine became something else
    before: Sequence[float]  # idle seconds before each edge
    work: float  # in seconds

    def idle(self, tick: int) -> float:
        """The idle seconds up to a tick, with those that it stands for."""
        i = bisect_right(self.edges, tick) - 1
        edge = self.edges[i]
        if self.machine[edge] != IDLE:
            return self.before[i]
        return self.before[i] + _between(self.times, self.holes, self.lost, edge, tick)


def state_times(machine: bytes, changes: Sequence[int], times: "array[float]", holes: Sequence[int]) -> StateTimes:
    """Sum up what a machine was in every tick; ``changes`` and ``holes`` are positions."""
    lost = [0.0, *accumulate(times[k] - times[k - 1] for k in holes)]
    edges = [0, *changes]
    if holes:
        stretches = [_between(times, holes, lost, start, end - 1) for start, end in pairwise([*edges, len(times)])]
    else:
        begin = [times[0], *map(times.__getitem__, [edge - 1 for edge in changes]), times[-1]]
        stretches = list(map(sub, islice(begin, 1, None), begin))
    kinds = [machine[edge] for edge in edges]
    idle = [size if kind == IDLE else 0.0 for size, kind in zip(stretches, kinds, strict=True)]
    work = sum([size for size, kind in zip(stretches, kinds, strict=True) if kind == WORK])
    return StateTimes(machine, times, holes, lost, edges, [0.0, *accumulate(idle)], work)


def _between(times: "array[float]", holes: Sequence[int], lost: Sequence[float], edge: int, tick: int) -> float:
    whole = times[tick] - times[edge - 1 if edge else 0]
    return whole - lost[bisect_right(holes, tick)] + lost[bisect_right(holes, edge - 1)] if holes else whole
