"""What the thresholds of a policy make of a trace, for all of its ticks at once.

A level is one byte a tick, so that the standard library works on whole columns: `bytes.translate` for thresholds,
integers of a million bits for *any of the GPUs*.
"""

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate, compress, pairwise
from typing import NamedTuple

from costguard.engine.observation import Known, Reading
from costguard.engine.rules import Rules
from costguard.engine.tracks import is_loud
from costguard.replay.trace import Codes, Trace

LOUD, UNKNOWN, QUIET = 1, 2, 4
"""The bits of one GPU in one tick."""


class Signal(NamedTuple):
    """One byte a tick; ``changes`` are the positions at which it differs from the tick before."""

    levels: bytes
    changes: list[int]


class Runs(NamedTuple):
    """Stretches of ticks, each from ``starts[i]`` up to, not with, ``ends[i]``."""

    starts: list[int]
    ends: list[int]

    def at_or_after(self, position: int) -> int | None:
        """The first position in one of the stretches from here on."""
        i = bisect_right(self.ends, position)
        return None if i == len(self.ends) else max(position, self.starts[i])


def changes(*columns: bytes) -> list[int]:
    """The positions at which any of these columns differs from the tick before."""
    differs = 0
    for levels in columns:
        number = int.from_bytes(levels, "little")
        differs |= number ^ (number >> 8)
    size = max(map(len, columns), default=0)
    return list(compress(range(1, size), differs.to_bytes(size, "little")))


def signal(levels: bytes) -> Signal:
    """Find the changes of one column."""
    return Signal(levels, changes(levels))


def either(columns: Sequence[bytes]) -> bytes:
    """The bits of all columns together."""
    joined = 0
    for column in columns:
        joined |= int.from_bytes(column, "little")
    return joined.to_bytes(len(columns[0]), "little") if columns else b""


class Levels:
    """The levels of one trace; what several policies have in common is worked out once."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.times = trace.times
        self._gpus: dict[tuple[float, bool], list[Signal]] = {}
        self._any_change: dict[tuple[float, bool], list[int]] = {}
        self._joined: dict[tuple[float, bool, tuple[int, ...]], Signal] = {}
        self._above: dict[tuple[float, bool, tuple[int, ...]], Signal] = {}
        self._means: dict[tuple[int, ...], list[float]] = {}
        self._mean: dict[tuple[float, tuple[int, ...]], Signal] = {}
        self._rare: dict[tuple[object, ...], Runs] = {}
        self.times_spent: dict[tuple[object, ...], tuple[bytes, list[float], float]] = {}
        self._steps: dict[float, list[float]] = {}
        self._holes: dict[float, list[int]] = {}
        self.blind = signal(either([_translate(c, _bits(trace.readings, _unknown_bit)) for c in trace.codes])).levels

    def gpus(self, rules: Rules) -> list[Signal]:
        """LOUD, UNKNOWN or QUIET of every GPU."""
        key = (rules.quiet_threshold, rules.heeds_signs)
        if key not in self._gpus:
            table = _bits(self.trace.readings, lambda reading: _level(reading, rules))
            self._gpus[key] = [signal(_translate(codes, table)) for codes in self.trace.codes]
        return self._gpus[key]

    def any_change(self, rules: Rules) -> list[int]:
        """The positions at which the level of some GPU changes."""
        key = (rules.quiet_threshold, rules.heeds_signs)
        if key not in self._any_change:
            self._any_change[key] = changes(*[found.levels for found in self.gpus(rules)])
        return self._any_change[key]

    def joined(self, rules: Rules, which: tuple[int, ...]) -> Signal:
        """The bits of several GPUs together."""
        key = (rules.quiet_threshold, rules.heeds_signs, which)
        if key not in self._joined:
            columns = self.gpus(rules)
            self._joined[key] = signal(either([columns[i].levels for i in which]))
        return self._joined[key]

    def busy(self, rules: Rules, which: tuple[int, ...]) -> Signal:
        """1 where any of these GPUs is loud."""
        return self._masked(rules, which, LOUD)

    def _masked(self, rules: Rules, which: tuple[int, ...], bit: int) -> Signal:
        key = (rules.quiet_threshold, rules.heeds_signs, (*which, -bit))
        if key not in self._joined:
            table = bytes(1 if level & bit else 0 for level in range(256))
            self._joined[key] = signal(self.joined(rules, which).levels.translate(table))
        return self._joined[key]

    def above(self, rules: Rules, picked: tuple[int, ...]) -> Signal:
        """1 where the load that arms the guard is above its threshold."""
        limit = rules.policy.arm_threshold
        key = (limit, rules.by_mean, picked)
        if key not in self._above:
            if rules.by_mean:
                levels = bytes([mean > limit for mean in self.means(picked)])
            else:
                table = _bits(self.trace.readings, lambda reading: isinstance(reading, Known) and reading.load > limit)
                levels = either([_translate(self.trace.codes[i], table) for i in picked])
            self._above[key] = signal(levels)
        return self._above[key]

    def means(self, picked: tuple[int, ...]) -> list[float]:
        """The mean load of these GPUs in every tick; not a number where one is unknown."""
        if picked not in self._means:
            loads = [reading.load if isinstance(reading, Known) else math.nan for reading in self.trace.readings]
            columns = [list(map(loads.__getitem__, self.trace.codes[i])) for i in picked]
            count = len(picked)
            self._means[picked] = [total / count for total in map(sum, zip(*columns, strict=True))]
        return self._means[picked]

    def mean(self, rules: Rules, picked: tuple[int, ...]) -> Signal:
        """LOUD, QUIET or UNKNOWN of the mean load."""
        key = (rules.quiet_threshold, picked)
        if key not in self._mean:
            limit = rules.quiet_threshold
            levels = [
                QUIET if 0.0 <= mean < limit else UNKNOWN if mean != mean else LOUD  # noqa: PLR0124 - NaN
                for mean in self.means(picked)
            ]
            self._mean[key] = signal(bytes(levels))
        return self._mean[key]

    def holes(self, gap: float) -> list[int]:
        """Positions of the ticks that come later than ``gap`` seconds after the one before."""
        if gap not in self._holes:
            times = self.times
            self._holes[gap] = [k for k in range(1, len(times)) if times[k] - times[k - 1] > gap]
        return self._holes[gap]

    def steps(self, gap: float) -> list[float]:
        """The seconds for which every sample stands: since the one before, or none after a hole."""
        if gap not in self._steps:
            times = self.times
            steps = [b - a for a, b in pairwise(times)]
            self._steps[gap] = [0.0, *(step if step <= gap else 0.0 for step in steps)]
        return self._steps[gap]

    def rare(self, name: tuple[object, ...], levels: bytes, window: float, most: float, bit: int = 1) -> Runs:
        """The runs without ``bit`` in which a window that ends there may hold it for at most ``most`` seconds.

        Never too few of them; a window that reaches back before the recording is taken as clear there.
        """
        key = (*name, window, most, bit)
        if key not in self._rare:
            self._rare[key] = self._find_rare(levels, window, most, bit)
        return self._rare[key]

    def _find_rare(self, levels: bytes, window: float, most: float, bit: int) -> Runs:
        times = self.times
        flags = levels.translate(bytes(1 if level & bit else 0 for level in range(256)))
        edges = [0, *signal(flags).changes, len(flags)]
        begin = [times[max(0, edge - 1)] for edge in edges]  # a level holds since the tick before
        loud = [0.0, *accumulate(
            (begin[i + 1] - begin[i]) * flags[edges[i]] for i in range(len(edges) - 1)
        )]  # fmt: skip
        runs = Runs([], [])
        for i in range(len(edges) - 1):
            if flags[edges[i]]:
                continue
            since = begin[i + 1] - window
            j = bisect_right(begin, since) - 1
            before = loud[j] + (since - begin[j]) * flags[edges[j]] if j >= 0 else 0.0
            if loud[i] - min(before, loud[i]) <= most:
                runs.starts.append(edges[i])
                runs.ends.append(edges[i + 1])
        return runs

    def long(self, name: tuple[object, ...], found: Signal, least: float) -> Runs:
        """The runs of level 1 that last for at least ``least`` seconds, or begin the recording."""
        key = (*name, least)
        if key not in self._rare:
            times, flags = self.times, found.levels
            edges = [0, *found.changes, len(flags)]
            runs = Runs([], [])
            for start, end in pairwise(edges):
                if flags[start] and (start == 0 or times[end - 1] - times[start - 1] >= least):
                    runs.starts.append(start)
                    runs.ends.append(end)
            self._rare[key] = runs
        return self._rare[key]


def first_at(times: "array[float]", moment: float, start: int) -> int:
    """The first position from ``start`` on whose time is not before ``moment``."""
    return bisect_left(times, moment, start)


def _level(reading: Reading, rules: Rules) -> int:
    if not isinstance(reading, Known):
        return UNKNOWN
    return LOUD if is_loud(reading, rules) else QUIET


def _unknown_bit(reading: Reading) -> int:
    return not isinstance(reading, Known)


def _bits(readings: Sequence[Reading], bit: Callable[[Reading], int]) -> bytes:
    return bytes(int(bit(reading)) for reading in readings)


def _translate(codes: Codes, table: bytes) -> bytes:
    if isinstance(codes, bytes):
        return codes.translate(table.ljust(256, b"\0"))
    return bytes(map(table.__getitem__, codes))
