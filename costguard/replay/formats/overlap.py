"""Two recordings in one: a clock that was set back, the files of two machines joined, rows that nothing tells apart."""

import time
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise

from costguard.engine.observation import Known, Reading

ROWS = 3
"""This many rows of a GPU among other rows of it are no accident."""

LONG = 10
"""Rows of an ordered stretch, in the mean: where it has fewer, the rows were shuffled, and sorting puts them right."""

RARE = 1 / 20
"""Of the times, so many may have two rows of a GPU with other loads: a clock that shows whole seconds shows some twice."""

SAME_LOAD = 0.01
"""Loads that are no further apart are no others."""

HINT = "cut the file there, or name the column with the machine: --machine-column NAME"
HINT_AT_ONCE = (
    "name the column with the machine: --machine-column NAME, or with the GPU: --columns timestamp,index,utilization.gpu; several "
    "readings a second need times with fractions of a second"
)

Row = tuple[float, int]
"""The time and the number of the reading."""


class DoubtfulRowsError(Exception):
    """Rows of which nobody can say what they are of; the message says where, ``hint`` what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def refuse_overlap(rows: Sequence[Row], machine: str) -> None:
    """Raises DoubtfulRowsError when the rows of one GPU, in the order of the file, come again to a time with other readings."""
    stretches = list(_stretches(rows))
    if len(stretches) == 1 or len(rows) < LONG * len(stretches):
        return
    before: list[Row] = []
    for stretch in stretches:
        times = [at for at, _ in before]
        amidst = before[bisect_left(times, stretch[0][0]) : bisect_right(times, stretch[-1][0])]
        strange = len(set(amidst) - set(stretch))  # a stretch that was only copied says nothing else
        if strange >= ROWS and len(stretch) >= ROWS:
            of = f" of {machine}" if machine else ""
            raise DoubtfulRowsError(
                f"the times{of} go back from {day_and_time(before[-1][0])} to {day_and_time(stretch[0][0])}, where there are {strange} other "
                "rows of the same GPU: the clock was set back, or two recordings were joined",
                HINT,
            )
        before = sorted([*before, *stretch])


def day_and_time(at: float) -> str:
    """A date as an error of a recording names it."""
    return time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(at))


def _stretches(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """The rows, cut wherever the time goes back."""
    start = 0
    for i in range(1, len(rows)):
        if rows[i][0] < rows[i - 1][0]:
            yield rows[start:i]
            start = i
    yield rows[start:]


def one_tick_a_time(
    times: "array[float]", columns: "Sequence[array[int]]", readings: Sequence[Reading], missing: int, machine: str
) -> "tuple[array[float], list[array[int]]]":
    """Ticks in order, those of one time as one: of each GPU the higher load. Raises DoubtfulRowsError where such are many."""
    starts = [0, *[i for i, (before, at) in enumerate(pairwise(times), 1) if at != before], len(times)]
    doubled = [(a, b) for a, b in pairwise(starts) if b - a > 1]
    others: set[float] = set()
    for column in columns:
        for a, b in doubled:
            found = {code for code in column[a:b] if code != missing}
            if len(found) > 1:
                column[a], differ = _higher([readings[code] for code in found], list(found))
                if differ:
                    others.add(times[a])
            elif found:
                column[a] = found.pop()
    _refuse_many(sorted(others), [times[a] for a in starts[:-1]], machine)
    return array("d", [times[a] for a in starts[:-1]]), [
        array("L", [column[a] for a in starts[:-1]]) for column in columns
    ]


def _higher(found: Sequence[Reading], codes: Sequence[int]) -> tuple[int, bool]:
    """Which of several readings counts, and whether they say something else."""
    known = sorted(
        (reading.load, code) for reading, code in zip(found, codes, strict=True) if isinstance(reading, Known)
    )
    if not known:
        return codes[0], False
    return known[-1][1], len(known) < len(found) or known[-1][0] - known[0][0] > SAME_LOAD


def _refuse_many(others: Sequence[float], times: Sequence[float], machine: str) -> None:
    if len(others) < ROWS:
        return
    between = bisect_right(times, others[-1]) - bisect_left(times, others[0])
    if len(others) > RARE * between:
        of = f" of {machine}" if machine else ""
        raise DoubtfulRowsError(
            f"{len(others)} times from {day_and_time(others[0])} to {day_and_time(others[-1])}, rows{of} for one GPU have the same "
            "time and different loads: recordings were joined, or no column tells GPUs or machines apart",
            HINT_AT_ONCE,
        )
