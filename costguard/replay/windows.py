"""Where in a recording a window may be clear of a level, or hold more of it than is tolerated.

Both questions are answered for all windows of one length at once, and too generously rather than too narrowly: whoever asks
leaves out what lies between the answers, and asks the engine about the rest.
"""

from array import array
from bisect import bisect_left, bisect_right
from itertools import accumulate, pairwise, repeat
from typing import NamedTuple

from costguard.engine.window import BUCKETS, NEVER

SLACK = 1.0
"""Seconds by which every bound is taken too generously: the engine counts in buckets, and both round."""


class Runs(NamedTuple):
    """Stretches of ticks, each from ``starts[i]`` up to, not with, ``ends[i]``."""

    starts: list[int]
    ends: list[int]

    def at_or_after(self, position: int) -> int | None:
        """The first position in one of the stretches from here on."""
        i = bisect_right(self.ends, position)
        return None if i == len(self.ends) else max(position, self.starts[i])


class Stretches(NamedTuple):
    """Stretches of equal level, loud and quiet in turn. A level holds since the tick before."""

    times: "array[float]"
    edges: list[int]  # the tick at which each begins; the last one is the end of the recording
    begin: list[float]  # the time since which it holds
    loud: list[float]  # the loud seconds before it
    first: int  # the first stretch that is loud: 0 or 1

    def rare(self, window: float, most: float) -> Runs:
        """The quiet ticks at which a window that ends there may hold at most ``most`` loud seconds.

        A window that reaches back before the recording is taken as clear there.
        """
        edges, begin, loud = self.edges, self.begin, self.loud
        window, most = window - SLACK, most + SLACK
        quiet = slice(1 - self.first, -1, 2)
        targets = [before - most for before in loud[quiet]]
        reached = map(bisect_left, repeat(loud), targets)  # the window may begin when all but `most` is over
        clear = [
            begin[j] - loud[j] + target + window if target > 0.0 else -NEVER
            for j, target in zip(reached, targets, strict=True)
        ]
        runs = Runs([], [])
        for i, at in enumerate(clear):
            stretch = 2 * i + 1 - self.first
            if at <= begin[stretch + 1]:
                runs.starts.append(self._sample_before(stretch, at))
                runs.ends.append(edges[stretch + 1])
        return runs

    def full(self, window: float, most: float, lead: float) -> Runs:
        """The ticks at which a window that ends there may hold more than ``most`` loud seconds.

        ``lead``: for how many seconds before the recording its first tick stands.
        """
        edges, begin, loud = self.edges, self.begin, self.loud
        most -= SLACK + (lead if self.first == 0 else 0.0)
        window, most = window * (1 + 1 / BUCKETS) + SLACK, max(0.0, most)
        runs = Runs([], [])
        for i in range(self.first, len(edges) - 1, 2):
            within = loud[i] - self._before(begin[i] - window)
            start = begin[i] + max(0.0, most - within)
            if start > begin[i + 1]:
                continue
            left = loud[i + 1] - most  # the window is full until it begins after so many loud seconds
            j = bisect_left(loud, left)
            end = begin[j] - loud[j] + left + window
            runs.starts.append(self._sample_before(i, start))
            runs.ends.append(max(edges[i + 1], min(edges[min(i + 2, len(edges) - 1)], bisect_right(self.times, end))))
        return runs

    def long(self, least: float) -> Runs:
        """The loud ticks that are ``least`` seconds or more after their stretch began; all of one that begins the recording."""
        edges, begin = self.edges, self.begin
        runs = Runs([], [])
        for i in range(self.first, len(edges) - 1, 2):
            start = begin[i] + least - SLACK if i else begin[i]
            if start <= begin[i + 1]:
                runs.starts.append(self._sample_before(i, start))
                runs.ends.append(edges[i + 1])
        return runs

    def _sample_before(self, stretch: int, moment: float) -> int:
        """The sample of a stretch before the first one that is not before a moment.

        The engine must have been asked before something is decided: what it answers goes by when it was asked last.
        """
        return max(self.edges[stretch], bisect_left(self.times, moment) - 1)

    def _before(self, moment: float) -> float:
        """The loud seconds before a moment."""
        i = bisect_right(self.begin, moment) - 1
        if i < 0:
            return 0.0
        return min(
            self.loud[i] + (moment - self.begin[i]) * (i % 2 == self.first), self.loud[min(i + 1, len(self.loud) - 1)]
        )


def stretches(times: "array[float]", flags: bytes, changes: list[int]) -> Stretches:
    """The stretches of a level of one byte a tick, 1 where it is loud, and of its changes."""
    edges = [0, *changes, len(flags)]
    begin = [times[0], *map(times.__getitem__, [edge - 1 for edge in edges[1:]])]
    first = 1 - flags[0]
    spans = [b - a for a, b in pairwise(begin)]
    spans[1 - first :: 2] = [0.0] * len(spans[1 - first :: 2])
    return Stretches(times, edges, begin, [0.0, *accumulate(spans)], first)
