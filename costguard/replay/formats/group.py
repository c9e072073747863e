"""From rows to ticks: every GPU of one machine at one time.

`nvidia-smi` writes one row for each GPU, with times some milliseconds apart. A tick ends when a GPU comes again,
or when a row is later than half a step. Where rows come in an unbroken rhythm, whole columns are cut at once.
"""

from array import array
from collections.abc import Sequence
from operator import eq, itemgetter
from typing import TypeAlias

from costguard.engine.observation import Device, Reading, Unknown
from costguard.replay.formats.dst import unfold
from costguard.replay.formats.overlap import one_tick_a_time, refuse_overlap
from costguard.replay.formats.rhythm import rows_in_a_tick
from costguard.replay.formats.values import CellTimes, is_local
from costguard.replay.trace import NO_STEPS, Codes, ReadingCodes, Steps, Trace, steps_of

SAMPLE = 4096
"""Rows from which the rhythm is learnt."""

ENOUGH = 32
"""With fewer rows it is not, as long as there may be more."""

ONE_TICK = 10.0
"""Seconds by which the rows of one tick are less apart, where no second one shows how far apart ticks are."""

Time: TypeAlias = "str | float"
"""A date as a cell has it, or the moment that it stands for."""

NO_ROW = Unknown("no row for this GPU at this time")
NOT_ALL = Unknown("rows are missing at this time, and it is unclear for which GPU")


class Grouper:
    """Collects the rows of one machine, in pieces of any size."""

    def __init__(self, name: str, palette: ReadingCodes, moments: CellTimes) -> None:
        self.name = name
        self.keys: dict[str, int] = {}
        self.sorted = True
        self.moments = moments
        self.spread = ONE_TICK  # seconds by which the rows of one tick are less apart
        self._palette = palette
        self._times: array[float] = array("d")
        self._columns: list[array[int]] = []
        self._rhythm: list[str] = []
        self._regular: bool | None = None
        self._local = False  # the times are those of a local clock, which may be set back
        self._dated = False  # the times are moments already
        self._named = True
        self._rest: tuple[Sequence[Time], Sequence[str], Sequence[int]] = ([], [], [])
        self._open: dict[int, int] = {}
        self._open_since = 0.0
        self._open_last = 0.0
        self._learnt: tuple[Sequence[Time], Sequence[float]] = ([], [])  # times of which the moments are known already
        self._sampled: tuple[Sequence[float], Steps] = ([], NO_STEPS)  # the first moments, and their steps
        self._settled: tuple[array[float], list[Codes], Steps] | None = None
        self._unfinished: list[tuple[float, int, int]] = []

    def feed_dated(
        self, moments: Sequence[float], gpus: Sequence[str] | None, codes: Sequence[int], *, local: bool
    ) -> None:
        """As `feed`, where the moments of the cells are known; ``local``: they are those of a local clock."""
        self._dated, self._local = True, local
        if self._regular is None:  # where machines take turns, a few rows come at a time
            times, names, numbers = self._rest
            if times:
                moments, gpus, codes = [*times, *moments], gpus and [*names, *gpus], [*numbers, *codes]  # type: ignore[list-item]  # as the flag says
            if len(moments) < ENOUGH:
                self._named, self._rest = gpus is not None, (moments, gpus or [], codes)
                return
            self._rest = ([], [], [])
        self.feed(moments, gpus, codes)

    def feed(self, times: Sequence[Time], gpus: Sequence[str] | None, codes: Sequence[int]) -> None:
        """More rows, as columns of cells; ``gpus`` is None where no column tells them apart."""
        if not times:
            return
        rest_times, rest_gpus, rest_codes = self._rest
        if self._regular is None:
            self.learn(times[:SAMPLE], gpus)
        if gpus is None:
            gpus = []
        if rest_times:
            times, gpus, codes = [*rest_times, *times], [*rest_gpus, *gpus], [*rest_codes, *codes]
        self._rest = ([], [], [])
        if self._regular and self._cut(times, gpus, codes):
            return
        self._regular = False
        self._row_by_row(times, gpus, codes)

    def _row_by_row(self, times: Sequence[Time], gpus: Sequence[str], codes: Sequence[int]) -> None:
        moments = self._moments(times)
        if self._named:
            self._one_by_one(moments, [self._position(key) for key in gpus], codes)
        else:
            self._by_place(moments, codes)

    def _moments(self, times: Sequence[Time]) -> Sequence[float]:
        """The moments of cells, which may be known already; raises ValueError when one is none."""
        return times if self._dated else self.moments.column(times)  # type: ignore[return-value, arg-type]  # as the flag says

    def _position(self, key: str) -> int:
        known = self.keys.get(key)
        if known is None:
            known = self.keys[key] = len(self._columns)
            self._columns.append(array("L", [self._palette.number(NO_ROW)] * len(self._times)))
        return known

    # -- whole columns ---------------------------------------------------------------------------------------

    def learn(self, times: Sequence[Time], gpus: Sequence[str] | None) -> list[str]:
        """The rhythm: which GPUs come in which order. Also how far apart the rows of one tick may be."""
        self._named = gpus is not None
        moments = self._moments(times)
        self._learnt = (times, moments)
        if isinstance(times[0], str):
            self._local = is_local(times[0])
        if gpus is None:
            self._sampled = (moments, steps_of(moments))
            self._rhythm = [f"gpu{place}" for place in range(rows_in_a_tick(*self._sampled))]
        else:
            seen = dict.fromkeys(gpus[:SAMPLE])
            self._rhythm = list(dict.fromkeys(gpus[: len(seen)]))
        for key in self._rhythm:
            self._position(key)
        count = len(self._rhythm)
        if count > 1:
            same = moments[::count] if gpus is None else [
                m for m, key in zip(moments, gpus, strict=False) if key == self._rhythm[0]
            ]  # fmt: skip
            self.spread = steps_of(same).usual / 2 or ONE_TICK
        self._regular = True
        return self._rhythm

    def _cut(self, times: Sequence[Time], gpus: Sequence[str], codes: Sequence[int]) -> bool:
        """Take the rows column by column; False when they do not keep the rhythm."""
        count = len(self._rhythm)
        if count == 1 and not self._named:
            return self.take([times], [codes])
        whole = len(times) - len(times) % count
        if self._named:
            for place, key in enumerate(self._rhythm):
                column = gpus[place::count]
                if column.count(key) != len(column):
                    return False
        cut = [codes[place:whole:count] for place in range(count)]
        self._moments(times[whole:])  # a wrong one must be told now, with its line
        if not self.take([times[place:whole:count] for place in range(count)], cut):
            return False
        self._rest = ([*times[whole:]], [*gpus[whole:]], [*codes[whole:]])
        return True

    def take(self, rows: Sequence[Sequence[Time]], columns: Sequence[Sequence[int]]) -> bool:
        """Whole ticks: the times and the loads of each GPU; False when they are none. Raises ValueError for a wrong time."""
        first, last = rows[0], rows[-1]
        ends = self._learnt[1] if not self._dated and last == self._learnt[0] else self._moments(last)
        self._learnt = ([], [])
        if len(self._rhythm) > 1 and not (self.spread > 1.0 and _same_second(first, last)):
            apart = [b - a for a, b in zip(self._moments(first), ends, strict=True)]
            if apart and (min(apart) < 0 or max(apart) >= self.spread):
                return False
        for between in rows[1:-1]:
            if not _same_second(between, last):
                self._moments(between)
        self._times.extend(ends)
        for column, new in zip(self._columns, columns, strict=True):
            column.extend(new)
        return True

    # -- row by row ------------------------------------------------------------------------------------------

    def _one_by_one(self, moments: Sequence[float], places: Sequence[int], codes: Sequence[int]) -> None:
        before: tuple[float, int, int] | None = None
        for row in zip(moments, places, codes, strict=True):
            if row == before:  # a line that was written twice is no tick without the other GPUs
                continue
            before = row
            at, place, code = row
            if self._open and (place in self._open or not 0 <= at - self._open_since < self.spread):
                self._close()
            if not self._open:
                self._open_since = at
            self._open[place] = code
            self._open_last = at

    def _by_place(self, moments: Sequence[float], codes: Sequence[int]) -> None:
        count = len(self._rhythm)
        for at, code in zip(moments, codes, strict=True):
            if self._open and (len(self._open) == count or not 0 <= at - self._open_since < self.spread):
                self._close()
            if not self._open:
                self._open_since = at
            self._open[len(self._open)] = code
            self._open_last = at

    def _close(self) -> None:
        if not self._named and len(self._open) < len(self._rhythm):
            self._open = dict.fromkeys(range(len(self._rhythm)), self._palette.number(NOT_ALL))
        self._times.append(self._open_last)
        missing = self._palette.number(NO_ROW)
        for place, column in enumerate(self._columns):
            column.append(self._open.get(place, missing))
        self._open = {}

    def settle(
        self, times: "array[float]", columns: "list[Codes]", steps: Steps, unfinished: list[tuple[float, int, int]]
    ) -> None:
        """All of the ticks at once, in order. Nothing was fed, and nothing will be."""
        self._settled, self._unfinished = (times, columns, steps), unfinished

    # -- the end ---------------------------------------------------------------------------------------------

    def complete(self) -> None:
        """Take in the rows that waited for more; then every GPU has its key."""
        if self._regular is None and self._rest[0]:
            times, gpus, codes = self._rest
            self._rest = ([], [], [])
            self.feed(times, gpus if self._named else None, codes)

    def finish(self, devices: Sequence[Device]) -> Trace:
        """The trace of this machine. A last tick that is not whole is dropped; it was being written."""
        if self._settled is not None:
            return self._trace(devices, *self._settled)
        rest, self._rest = self._rest, ([], [], [])
        if rest[0]:
            self._row_by_row(*rest)
        partial = 0 < len(self._open) < len(self._columns)
        if self._open:
            self._end_last_tick()
        steps = self._steps()
        self.sorted = steps.least >= 0.0
        if not self.sorted and self._local and (unfolded := unfold(self._times)) is not None:
            self._times, self.sorted = unfolded, True
            if partial:
                self._times.pop()
                self._columns = [column[:-1] for column in self._columns]
            steps = self._steps()
        if not self.sorted:
            self._refuse_two_in_one()
            self._sort()
            steps = self._steps()
        if steps.least <= 0.0 < len(self._times) - 1:  # some have the same time
            missing, found = self._palette.number(NO_ROW), self._palette.readings
            self._times, self._columns = one_tick_a_time(self._times, self._columns, found, missing, self.name)
            steps = self._steps()
        return self._trace(
            devices, self._times, [self._palette.pack(column.tolist()) for column in self._columns], steps
        )

    def _trace(self, devices: Sequence[Device], times: "array[float]", columns: Sequence[Codes], steps: Steps) -> Trace:
        kinds, unfinished = self._palette.whole, self._last_rows()
        return Trace(self.name, tuple(devices), times, tuple(columns), kinds, steps, unfinished=unfinished)

    def _end_last_tick(self) -> None:
        """The rows of a tick that is not whole are kept aside, or it counts where it need not be the last one."""
        late = self._times and self._open_last < self._times[-1]  # no end of the recording, but rows out of order
        if len(self._open) == len(self._columns) or not self._times or late or self._steps().least < 0.0:
            self._close()
        elif self._named:
            self._unfinished = [(self._open_last, place, code) for place, code in self._open.items()]
        self._open = {}

    def _steps(self) -> Steps:
        """How far the ticks are apart; most recordings of a fleet are short, and nothing came after what was sampled."""
        moments, steps = self._sampled
        return steps if self._times == moments else steps_of(self._times)

    def _last_rows(self) -> tuple[tuple[float, int, Reading], ...]:
        """The rows of a tick that was being written."""
        readings = self._palette.readings
        return tuple((at, place, readings[code]) for at, place, code in self._unfinished)

    def _refuse_two_in_one(self) -> None:
        """Raises DoubtfulRowsError where the rows of one GPU go through the same time twice."""
        missing = self._palette.number(NO_ROW)
        for column in self._columns:
            rows = [(at, code) for at, code in zip(self._times, column, strict=True) if code != missing]
            refuse_overlap(rows, self.name)

    def _sort(self) -> None:
        """Rows out of order are put in order, then grouped anew."""
        missing = self._palette.number(NO_ROW)
        rows = [
            (at, place, column[tick])
            for tick, at in enumerate(self._times)
            for place, column in enumerate(self._columns)
            if column[tick] != missing
        ]
        rows.sort(key=lambda row: row[0])
        self._times = array("d")
        self._columns = [array("L") for _ in self._columns]
        single = [at for at, place, _ in rows if place == 0]
        self.spread = steps_of(single).usual / 2 or ONE_TICK
        self._one_by_one([row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows])
        if self._open:
            self._close()


_TO_THE_SECOND = itemgetter(slice(19))


def _same_second(first: Sequence[Time], last: Sequence[Time]) -> bool:
    """Whether the texts say so; never for times that are written otherwise."""
    return (
        bool(first)
        and isinstance(first[0], str)
        and first[0][16:17] == ":"
        and all(map(eq, map(_TO_THE_SECOND, first), map(_TO_THE_SECOND, last)))  # type: ignore[arg-type]  # texts, as the first one is
    )
