"""What the thresholds of a policy make of a trace, for all of its ticks at once.

A level is one byte a tick, so that the standard library works on whole columns: `bytes.translate` for thresholds,
integers of a million bits for *any of the GPUs*.
"""

import math
import re
from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import compress, islice, repeat
from operator import gt, sub
from typing import NamedTuple

from costguard.engine.observation import Known, Reading
from costguard.engine.rules import Rules
from costguard.engine.tracks import is_busy
from costguard.replay.prefix_sums import StateTimes
from costguard.replay.trace import SMALL, Codes, Trace
from costguard.replay.windows import Runs, Stretches, stretches

BUSY, UNKNOWN, QUIET = 1, 2, 4
"""The bits of one GPU in one tick."""


_ONLY = {bits: bytes(1 if level & bits else 0 for level in range(256)) for bits in (1, BUSY | UNKNOWN)}
"""What makes 1 of every level that holds one of these bits, and 0 of the others."""

RARE = 8
"""If fewer than one of so many bytes is set, looking for them is faster than going over all of them."""

_SET = re.compile(rb"[^\0]")


class LevelSignal(NamedTuple):
    """One byte a tick; ``changes`` are the positions at which it differs from the tick before."""

    levels: bytes
    changes: list[int]


def changes(*columns: bytes) -> list[int]:
    """The positions at which any of these columns differs from the tick before."""
    differs = 0
    for levels in columns:
        number = int.from_bytes(levels, "little")
        differs |= number ^ (number >> 8)
    size = max(map(len, columns), default=0)
    found = differs.to_bytes(size, "little")
    if size - found.count(0) < size // RARE:
        return [match.start() + 1 for match in _SET.finditer(found, 0, size - 1)]
    return list(compress(range(1, size), found))


def signal(levels: bytes) -> LevelSignal:
    """Find the changes of one column."""
    return LevelSignal(levels, changes(levels))


def either(columns: Sequence[bytes], size: int) -> bytes:
    """The bits of all columns of this size together."""
    joined = 0
    for column in columns:
        joined |= int.from_bytes(column, "little")
    return joined.to_bytes(size, "little")


class Tables:
    """What a threshold makes of every reading; the traces of one file share their readings, and these tables with them."""

    def __init__(self) -> None:
        self._readings: Sequence[Reading] = ()
        self._found: dict[object, bytes] = {}
        self.reach = 0.0
        """The longest time for which a reading is evidence."""

    def use(self, readings: Sequence[Reading]) -> None:
        """The readings that are asked about from now on."""
        if readings is not self._readings:
            self._readings, self._found = readings, {}
            self.reach = max([reading.covers for reading in readings if isinstance(reading, Known)], default=0.0)

    def table(self, key: object, bit: Callable[[Reading], int]) -> bytes:
        """One byte for every reading; equal keys stand for the same question."""
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = bytes(int(bit(reading)) for reading in self._readings).ljust(SMALL, b"\0")
        return found


class Levels:
    """The levels of one trace; what several policies have in common is worked out once."""

    def __init__(self, trace: Trace, tables: Tables | None = None) -> None:
        self.trace = trace
        self.times = trace.times
        self._tables = tables or Tables()
        self._tables.use(trace.readings)
        self.reach = self._tables.reach
        self._gpus: dict[tuple[float, bool], list[LevelSignal]] = {}
        self._any_change: dict[tuple[float, bool], list[int]] = {}
        self._joined: dict[tuple[float, bool, tuple[int, ...]], LevelSignal] = {}
        self._above: dict[tuple[float, bool, tuple[int, ...]], LevelSignal] = {}
        self._means: dict[tuple[int, ...], list[float]] = {}
        self._mean: dict[tuple[float, tuple[int, ...]], LevelSignal] = {}
        self._stretches: dict[tuple[int, int], tuple[LevelSignal, Stretches]] = {}
        self._runs: dict[tuple[object, ...], Runs] = {}
        self.state_times: dict[tuple[object, ...], StateTimes] = {}
        self._holes: dict[float, list[int]] = {}
        self._blind: list[int] | None = None

    @property
    def blind(self) -> list[int]:
        """The positions at which a GPU becomes unknown, or is known again."""
        if self._blind is None:
            table = self._tables.table("unknown", _unknown_bit)
            self._blind = changes(*[_translate(codes, table) for codes in self.trace.codes])
        return self._blind

    def gpus(self, rules: Rules) -> list[LevelSignal]:
        """BUSY, UNKNOWN or QUIET of every GPU."""
        key = (rules.quiet_threshold, rules.heeds_signs)
        if key not in self._gpus:
            table = self._tables.table(("level", *key), lambda reading: _level(reading, rules))
            self._gpus[key] = [signal(_translate(codes, table)) for codes in self.trace.codes]
        return self._gpus[key]

    def any_change(self, rules: Rules) -> list[int]:
        """The positions at which the level of some GPU changes."""
        key = (rules.quiet_threshold, rules.heeds_signs)
        if key not in self._any_change:
            columns = self.gpus(rules)
            one = len(columns) == 1
            self._any_change[key] = columns[0].changes if one else changes(*[found.levels for found in columns])
        return self._any_change[key]

    def joined(self, rules: Rules, which: tuple[int, ...]) -> LevelSignal:
        """The bits of several GPUs together."""
        key = (rules.quiet_threshold, rules.heeds_signs, which)
        if key not in self._joined:
            columns = self.gpus(rules)
            one = len(which) == 1
            self._joined[key] = (
                columns[which[0]] if one else signal(either([columns[i].levels for i in which], len(self.times)))
            )
        return self._joined[key]

    def busy(self, rules: Rules, which: tuple[int, ...]) -> LevelSignal:
        """1 where any of these GPUs is loud."""
        key = (rules.quiet_threshold, rules.heeds_signs, (*which, -BUSY))
        if key not in self._joined:
            found = self.joined(rules, which)
            flags = found.levels.translate(_ONLY[BUSY])
            # loud and quiet, which change together with the flags
            two = len(which) == 1 and UNKNOWN not in found.levels
            self._joined[key] = LevelSignal(flags, found.changes) if two else signal(flags)
        return self._joined[key]

    def above(self, rules: Rules, picked: tuple[int, ...]) -> LevelSignal:
        """1 where the load that arms the guard is above its threshold."""
        key = (rules.policy.arm_threshold, rules.by_mean, picked)
        if key not in self._above:
            self._above[key] = signal(self.raised(rules, picked))
        return self._above[key]

    def raised(self, rules: Rules, picked: tuple[int, ...]) -> bytes:
        """The levels of `above` alone."""
        limit = rules.policy.arm_threshold
        if rules.by_mean:
            return bytes([mean > limit for mean in self.means(picked)])
        table = self._tables.table(
            ("above", limit), lambda reading: isinstance(reading, Known) and reading.load > limit
        )
        columns = [_translate(self.trace.codes[i], table) for i in picked]
        return columns[0] if len(columns) == 1 else either(columns, len(self.times))

    def means(self, picked: tuple[int, ...]) -> list[float]:
        """The mean load of these GPUs in every tick; not a number where one is unknown."""
        if picked not in self._means:
            loads = [reading.load if isinstance(reading, Known) else math.nan for reading in self.trace.readings]
            columns = [list(map(loads.__getitem__, self.trace.codes[i])) for i in picked]
            count = len(picked)
            sums = map(sum, zip(*columns, strict=True)) if picked else ()
            self._means[picked] = [total / count for total in sums] or [math.nan] * len(self.times)
        return self._means[picked]

    def mean(self, rules: Rules, picked: tuple[int, ...]) -> LevelSignal:
        """BUSY, QUIET or UNKNOWN of the mean load."""
        key = (rules.quiet_threshold, picked)
        if key not in self._mean:
            limit = rules.quiet_threshold
            levels = [
                QUIET if 0.0 <= mean < limit else UNKNOWN if mean != mean else BUSY  # noqa: PLR0124 - NaN
                for mean in self.means(picked)
            ]
            self._mean[key] = signal(bytes(levels))
        return self._mean[key]

    def holes(self, gap: float) -> list[int]:
        """Positions of the ticks that come later than ``gap`` seconds after the one before."""
        if gap not in self._holes:
            if self.trace.steps.longest <= gap:  # most recordings have no hole, which is seen faster
                self._holes[gap] = []
            else:
                late = map(gt, map(sub, islice(self.times, 1, None), self.times), repeat(gap))
                self._holes[gap] = list(compress(range(1, len(self.times)), late))
        return self._holes[gap]

    def stretches(self, found: LevelSignal, bit: int = 1) -> Stretches:
        """The stretches in which a signal holds a bit, and does not."""
        key = (id(found), bit)
        if key not in self._stretches:
            flags = found.levels.translate(_ONLY[bit])
            edges = found.changes if bit == 1 and flags == found.levels else changes(flags)
            self._stretches[key] = (found, stretches(self.times, flags, edges))
        return self._stretches[key][1]

    def rare(self, found: LevelSignal, window: float, most: float) -> Runs:
        """Where a window may hold the bit BUSY for at most ``most`` seconds; see `Stretches.rare`."""
        return self._once(("rare", id(found), window, most), lambda: self.stretches(found, BUSY).rare(window, most))

    def full(self, found: LevelSignal, window: float, most: float, lead: float) -> Runs:
        """Where a window may hold the bits BUSY and UNKNOWN for more than ``most`` seconds; see `Stretches.full`."""
        bits = BUSY | UNKNOWN
        key = ("full", id(found), window, most, lead)
        return self._once(key, lambda: self.stretches(found, bits).full(window, most, lead))

    def long(self, found: LevelSignal, least: float) -> Runs:
        """Where the level 1 has lasted for ``least`` seconds or more, or begins the recording; see `Stretches.long`."""
        return self._once(("long", id(found), least), lambda: self.stretches(found).long(least))

    def _once(self, key: tuple[object, ...], find: Callable[[], Runs]) -> Runs:
        if key not in self._runs:
            self._runs[key] = find()
        return self._runs[key]


def first_at(times: "array[float]", moment: float, start: int) -> int:
    """The first position from ``start`` on whose time is not before ``moment``."""
    return bisect_left(times, moment, start)


def _level(reading: Reading, rules: Rules) -> int:
    if not isinstance(reading, Known):
        return UNKNOWN
    return BUSY if is_busy(reading, rules) else QUIET


def _unknown_bit(reading: Reading) -> int:
    return not isinstance(reading, Known)


def _translate(codes: Codes, table: bytes) -> bytes:
    if isinstance(codes, bytes):
        return codes.translate(table[:SMALL])
    return bytes(map(table.__getitem__, codes))
