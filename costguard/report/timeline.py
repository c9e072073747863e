"""What is drawn, as values: the load of each GPU by time, and everything that was decided beside it.

Unknown is time without a number: it is never a load, and what nobody recorded is neither.
"""

import math
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from costguard.history import query
from costguard.history.query import Event
from costguard.history.store import QUARTER
from costguard.report import bands
from costguard.report.bands import Band

MINUTE = 60.0
NOT_WRITTEN_SECONDS = 600.0
"""The last minutes of a picture may lack rows that are still in the guard's memory: up to this they do not count as missing."""

GPUS_DRAWN = 16
"""The most GPUs that are drawn, the latest first: no machine has more, the rest are names of GPUs that were replaced."""

_LOADS = """
SELECT gpu, CAST((minute - :since) / :width AS INTEGER) AS slot, sum(known), sum(unknown), min(low),
    sum(CASE WHEN mean IS NOT NULL THEN known * mean END), sum(CASE WHEN mean IS NOT NULL THEN known END), max(high)
FROM minutes WHERE minute >= :since AND minute < :until GROUP BY gpu, slot ORDER BY gpu, slot
"""

_SHARES = """
SELECT CAST((start - :first) / :step AS INTEGER) AS share, sum(works), sum(quiet), sum(unknown) FROM quarters
WHERE start > :since - :quarter AND start < :until GROUP BY share ORDER BY share
"""


class TimeSlot(NamedTuple):
    """One GPU in one slot: seconds known and unknown; loads from 0 to 1, all None where nothing was read."""

    known: float = 0.0
    unknown: float = 0.0
    low: float | None = None
    mean: float | None = None
    high: float | None = None

    @property
    def unknown_share(self) -> float:
        """The part of the recorded time that is unknown; 0 where nothing was recorded."""
        whole = self.known + self.unknown
        return self.unknown / whole if whole else 0.0

    @property
    def recorded(self) -> bool:
        """Whether anything is known of it, be it that it is unknown."""
        return self.known + self.unknown > 0.0


NOTHING = TimeSlot()


class Share(NamedTuple):
    """The whole machine in some quarters of an hour: seconds in which a GPU worked, all were quiet, one was unknown.

    By what the guard counted as work: load, and every other sign of it.
    """

    begin: float
    end: float
    works: float
    quiet: float
    unknown: float


class Lane(NamedTuple):
    """One GPU: its key, what people call it, and its slots, without a hole, from the beginning to the end."""

    key: str
    label: str
    slots: tuple[TimeSlot, ...]


class Timeline(NamedTuple):
    """Everything that a picture shows, between two dates. ``width``: seconds of a slot."""

    since: float
    until: float
    width: float
    machine: str
    lanes: tuple[Lane, ...] = ()
    shares: tuple[Share, ...] = ()
    left_out: int = 0  # GPUs beyond those that are drawn
    threshold: float | None = None  # the last one that was recorded
    bands: tuple[Band, ...] = ()
    missing: tuple[tuple[float, float], ...] = ()  # nothing was recorded, and nobody knows of an action

    def slot(self, number: int) -> tuple[float, float]:
        """When a slot begins and ends."""
        begin = self.since + number * self.width
        return begin, min(begin + self.width, self.until)


def read(
    database: sqlite3.Connection,
    events: Sequence[Event],
    since: float,
    until: float,
    slots: int,
    machine: str = "",
    pending: Mapping[str, object] | None = None,
) -> Timeline:
    """From the history, in at most so many slots of whole minutes; ``pending``: the facts of a warning that is just being sent.

    Raises sqlite3.Error.
    """
    since = math.floor(since / MINUTE) * MINUTE
    until = max(until, since + MINUTE)
    width = max(1, math.ceil((until - since) / MINUTE / slots)) * MINUTE
    count = math.ceil((until - since) / width)
    found: dict[str, list[TimeSlot]] = {}
    for gpu, slot, *values in database.execute(_LOADS, {"since": since, "until": until, "width": width}):
        if isinstance(gpu, str) and 0 <= slot < count:
            found.setdefault(gpu, [NOTHING] * count)[slot] = _slot(values)
    names = bands.labels([*query.newest(database, bands.NAMING, 1), *events])
    lanes = [Lane(gpu, names.get(gpu, gpu), tuple(_spread(row, width))) for gpu, row in found.items()]
    lanes.sort(key=lambda lane: _by_number(lane.label))
    shown = _latest(lanes)
    covered = _covered(shown, since, width, until)
    drawn = bands.found(events, since, until, covered, pending)
    off = [(band.begin, band.end) for band in drawn if band.kind == bands.OFF]
    missing = _missing(covered, off, until)
    limits = [limit for event in events if event.wall <= until and (limit := bands.threshold(event)) is not None]
    now = bands.number((pending or {}).get("threshold"))
    return Timeline(
        since, until, width, machine, tuple(shown), tuple(_recorded(_shares(database, since, until, width), covered)), len(lanes) - len(shown),
        now if now is not None else limits[-1] if limits else None, tuple(drawn), tuple(missing),
    )  # fmt: skip


def _shares(database: sqlite3.Connection, since: float, until: float, width: float) -> list[Share]:
    step = math.ceil(width / QUARTER) * QUARTER
    first = math.floor(since / step) * step
    rows = database.execute(_SHARES, {"first": first, "since": since, "until": until, "step": step, "quarter": QUARTER})
    found = []
    for number_, *values in rows:
        works, quiet, unknown = [max(0.0, bands.number(value) or 0.0) for value in values]
        begin = max(since, first + number_ * step)
        found.append(Share(begin, min(until, first + (number_ + 1) * step), works, quiet, unknown))
    return found


def _recorded(shares: Sequence[Share], covered: Sequence[tuple[float, float]]) -> Iterator[Share]:
    """The part of each span in which minutes were recorded; the whole span where no minutes are kept any more."""
    for share in shares:
        parts = [
            (max(begin, share.begin), min(end, share.end))
            for begin, end in covered
            if begin < share.end and end > share.begin
        ]
        for begin, end in parts or [(share.begin, share.end)]:
            part = (end - begin) / (share.end - share.begin)
            yield Share(begin, end, share.works * part, share.quiet * part, share.unknown * part)


def _slot(values: Sequence[object]) -> TimeSlot:
    """A row of the file, which may hold anything; a load that is not a number counts as not read."""
    known, unknown, low, weighted, seconds, high = [bands.number(value) for value in values]
    read_for = max(0.0, known or 0.0)
    if low is None or high is None or weighted is None or not seconds or not read_for:
        return TimeSlot(0.0, max(0.0, unknown or 0.0) + read_for)
    return TimeSlot(read_for, max(0.0, unknown or 0.0), _share(low), _share(weighted / seconds), _share(high))


def _share(load: float) -> float:
    return min(1.0, max(0.0, load))


def _spread(slots: list[TimeSlot], width: float) -> list[TimeSlot]:
    """Spread rows over the slots before them: a row counts in the minute in which it ended, so what is longer than its slot began earlier."""
    found = list(slots)
    for number in range(len(found) - 1, 0, -1):
        whole = found[number].known + found[number].unknown
        if whole > width * 1.001 and not found[number - 1].recorded:
            over = 1.0 - width / whole
            now = found[number]
            found[number - 1] = now._replace(known=now.known * over, unknown=now.unknown * over)
            found[number] = now._replace(known=now.known * (1.0 - over), unknown=now.unknown * (1.0 - over))
    return found


def _latest(lanes: list[Lane]) -> list[Lane]:
    """Of too many lanes those that were recorded last, of these the busiest and those that could not be read: they keep the machine up."""

    def counts(lane: Lane) -> tuple[int, float]:
        ended = max((number for number, slot in enumerate(lane.slots) if slot.recorded), default=0)
        used = sum(slot.known * (slot.mean or 0.0) + slot.unknown for slot in lane.slots)
        return ended, used

    last = sorted(lanes, key=counts, reverse=True)[:GPUS_DRAWN]  # of equal ones the lower number
    return [lane for lane in lanes if lane in last]


def _by_number(label: str) -> tuple[int, str]:
    """``GPU 10`` comes after ``GPU 9``; what has no number, last."""
    number = label.removeprefix("GPU ").partition(" ")[0]
    return (int(number) if label.startswith("GPU ") and number.isdecimal() else 1 << 30), label


def _covered(lanes: Iterable[Lane], since: float, width: float, until: float) -> list[tuple[float, float]]:
    """The times of which anything was recorded."""
    rows = [lane.slots for lane in lanes]
    found: list[tuple[float, float]] = []
    for number in range(len(rows[0]) if rows else 0):
        if any(row[number].recorded for row in rows):
            begin, end = since + number * width, min(since + (number + 1) * width, until)
            if found and begin - found[-1][1] < 1.0:
                found[-1] = (found[-1][0], end)
            else:
                found.append((begin, end))
    return found


def _missing(
    covered: Sequence[tuple[float, float]], off: Sequence[tuple[float, float]], until: float
) -> list[tuple[float, float]]:
    """What lies between, but for the time before the first record, and the last minutes, which are not written yet."""
    if not covered:
        return []
    known = sorted([*covered, *off])
    last = max(end for _begin, end in known)
    if until - last < NOT_WRITTEN_SECONDS:
        until = last
    gaps, at = [], known[0][0]
    for begin, end in [*known, (until, until)]:
        if begin - at >= 1.0:
            gaps.append((at, begin))
        at = max(at, end)
    return gaps
