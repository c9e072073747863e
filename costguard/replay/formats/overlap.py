"""Two recordings in one: a clock that was set back, or the files of two machines joined."""

import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

ROWS = 3
"""This many rows of a GPU among other rows of it are no accident."""

LONG = 10
"""Rows of an ordered stretch, in the mean: where it has fewer, the rows were shuffled, and sorting puts them right."""

Row = tuple[float, int]
"""The time and the number of the reading."""


class OverlapError(Exception):
    """The rows of one GPU run twice through the same time; the message says where."""


def refuse_overlap(rows: Sequence[Row], machine: str) -> None:
    """Raises OverlapError when the rows of one GPU, in the order of the file, come again to a time with other readings."""
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
            raise OverlapError(
                f"the times{of} go back from {_date(before[-1][0])} to {_date(stretch[0][0])}, where there are {strange} other "
                "rows of the same GPU: the clock was set back, or two recordings were joined"
            )
        before = sorted([*before, *stretch])


def _date(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(at))


def _stretches(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """The rows, cut wherever the time goes back."""
    start = 0
    for i in range(1, len(rows)):
        if rows[i][0] < rows[i - 1][0]:
            yield rows[start:i]
            start = i
    yield rows[start:]
