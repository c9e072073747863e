"""A picture of the load over time, in text, and of the moments at which each policy would have stopped."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from costguard.engine.observation import Known
from costguard.engine.words import date_and_second, duration
from costguard.replay.levels import Levels
from costguard.replay.show import PolicyRun
from costguard.replay.trace import Trace

SPARKS = "▁▂▃▄▅▆▇█"
STOPPED, NOT_SEEN = "■", "·"

WIDTH = 72
"""Marks in a line."""

SLOTS = (60.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0)
"""The lengths of time that one mark may stand for, in seconds."""

LOOKS = 24
"""Samples that are looked at for one mark."""


def picture(levels: Levels, results: Sequence[PolicyRun]) -> Iterator[str]:
    """The load of the busiest GPU over time, and under it where each policy would have stopped."""
    times = levels.times
    span = times[-1] - times[0]
    slot = next((size for size in SLOTS if span / size <= WIDTH * 2), SLOTS[-1])
    loads, count = _loads(levels.trace, slot, results[0].policy.kill_threshold), int(span / slot) + 1
    yield f"load of the busiest GPU, one mark per {duration(slot)} ({NOT_SEEN} unknown, {STOPPED} stopped)"
    for start in range(0, count, WIDTH):
        marks = "".join(loads.get(i, NOT_SEEN) for i in range(start, min(count, start + WIDTH)))
        yield f"  {date_and_second(times[0] + start * slot)[5:16]}  {marks}"
        for result in results:
            stops = {int((stop.wall - times[0]) / slot) - start for stop in result.account.stops}
            if shown := "".join(STOPPED if i in stops else " " for i in range(len(marks))).rstrip():
                yield f"  {'':11}  {shown.ljust(len(marks))}  {result.label if len(results) > 1 else ''}".rstrip()


def _loads(trace: Trace, slot: float, threshold: float) -> dict[int, str]:
    """A mark for every slot for most of which the load was known."""
    seen: dict[int, list[float | None]] = {}
    for first, last, load in _looks(trace, slot, threshold):
        for i in range(first, last + 1):
            seen.setdefault(i, []).append(load)
    marks = {}
    for i, loads in seen.items():
        known = [load for load in loads if load is not None]
        if 2 * len(known) > len(loads):
            marks[i] = SPARKS[min(7, round(sum(known) / len(known) * 7))]
    return marks


def _looks(trace: Trace, slot: float, threshold: float) -> Iterator[tuple[int, int, float | None]]:
    """For some of the samples the slots that they stand for, and the highest load; None where it is unknown.

    As for a policy a GPU that works proves work, and without one a GPU that cannot be read leaves everything open.
    """
    times, step = trace.times, max(1, int(slot / max(trace.interval, 0.001) / LOOKS))
    values = [reading.load if isinstance(reading, Known) else None for reading in trace.readings]
    for before, tick in pairwise([0, *range(0, len(times), step)]):
        seen = [values[column[tick]] for column in trace.codes]
        highest = max([load for load in seen if load is not None], default=None)
        blind = highest is None or (None in seen and highest < threshold)
        end = int((times[tick] - times[0]) / slot)
        whole = times[tick] - times[before] <= 1.5 * trace.interval * step
        start = min(end, int((times[before] - times[0]) / slot) + 1) if whole else end
        yield start, end, None if blind else highest
