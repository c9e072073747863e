"""How many GPUs a machine has, where no column tells them apart: by how many rows come together, again and again."""

from collections import Counter
from collections.abc import Sequence
from itertools import islice, pairwise
from operator import sub

from costguard.replay.formats.overlap import DoubtfulRowsError, day_and_time
from costguard.replay.trace import Steps

MOST_GPUS = 16
"""The most rows in a tick that can be told apart by their place alone."""

TOGETHER = 0.05
"""The rows of one tick are nearer to each other than this share of the step to the next one."""

ONE_LOOK = 2.0
"""Seconds between two rows of one tick at most, where some may be lost."""

NAME_THE_GPU = (
    "write the index of the GPU beside each row, and name its column: --columns timestamp,index,utilization.gpu"
)


def rows_in_a_tick(moments: Sequence[float], found: Steps) -> int:
    """How many rows share a time; 1 where there is no such rhythm. Raises DoubtfulRowsError where it is not plain."""
    least = found.least
    if len(moments) < 2 or 0.0 < found.longest < 4.0 * least:
        return 1  # no rows are nearer to each other than to those of the next tick
    steps = list(map(sub, islice(moments, 1, None), moments))
    far = len(steps) if least <= 0.0 else sum(map((3.9 * least).__le__, steps))  # no tick ends but with such a step
    for count in range(2, MOST_GPUS + 1):
        if far < 0.95 * ((len(moments) - 1) // count):
            continue
        ticks = list(zip(moments[::count], moments[count - 1 :: count], moments[count::count], strict=False))
        if len(ticks) < 3:
            break
        together = [last - first <= 0.2 * (after - first) for first, last, after in ticks]
        if sum(together) >= 0.95 * len(ticks) <= sum([after > first for first, _, after in ticks]):
            return count
    return 1 if least > TOGETHER * found.longest else _usual_tick(moments, steps)


def _usual_tick(moments: Sequence[float], steps: Sequence[float]) -> int:
    """The rows of most ticks, where one that was lost has moved the places of all that follow."""
    wide = sorted(steps)[-1 - len(steps) // (2 * MOST_GPUS)]  # one between two ticks: at least every 16th is
    starts = [i for i, step in enumerate(steps, 1) if not 0.0 <= step <= min(ONE_LOOK, TOGETHER * wide)]
    sizes = Counter(b - a for a, b in pairwise(starts))  # without the first and the last tick, which may be cut
    whole = sizes.total()
    if whole < 3:
        return 1
    (usual, times), *_ = sizes.most_common(1)
    if usual == 1 or times < 0.5 * whole:
        return 1
    if usual <= MOST_GPUS and times >= 0.95 * whole:
        return usual
    odd = next((a for a, b in pairwise(starts) if b - a != usual or usual > MOST_GPUS))
    raise DoubtfulRowsError(
        f"no column tells the GPUs apart, and neither do the rows: {usual} of them usually have the same time, but not from "
        f"{day_and_time(moments[odd])} on",
        NAME_THE_GPU,
    )
