"""What the page says, as values: hours, money, stops, holds, unknown times. Read from the history; nothing is added to it."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from costguard.history import query, savings, summary
from costguard.history.keepers import Keeper, keepers
from costguard.history.query import Day, Event, GpuSpan
from costguard.history.savings import Off
from costguard.history.story import IncidentSummary, summaries
from costguard.money import Rate
from costguard.report import bands, times
from costguard.report.bands import Band

ROWS_MOST = 24
"""Times of the table of loads, where a day is not one of them."""

UNKNOWN_JOINED_SECONDS = 120.0
"""Two unknown times of a GPU with less in between are one."""

UNKNOWN_LISTED = 100

FRESH_SECONDS = 900.0
"""A machine whose last record is younger is on."""

UNPROVEN = frozenset({"requested", "asked", "accepted", "unknown", "failed", "cannot"})
"""Ends of a stop after which the bill may go on."""


class UnknownTime(NamedTuple):
    """One GPU that could not be read; ``seconds`` are those of which that is recorded."""

    gpu: str
    begin: float
    end: float
    seconds: float


class Stretch(NamedTuple):
    """What every GPU did between two dates."""

    begin: float
    end: float
    gpus: tuple[GpuSpan, ...]


class ReportFacts(NamedTuple):
    """Everything. Dates are seconds since the epoch; amounts of money are made of ``price`` and ``off``."""

    path: str
    machine: str
    instance: str
    since: float
    until: float
    days: tuple[Day, ...] = ()
    off: Mapping[str, Off] = {}
    price: Rate | None = None
    incidents: tuple[IncidentSummary, ...] = ()
    holds: tuple[Band, ...] = ()
    keepers: tuple[Keeper, ...] = ()
    unknown: tuple[UnknownTime, ...] = ()
    unknown_left_out: int = 0
    stretches: tuple[Stretch, ...] = ()
    labels: Mapping[str, str] = {}
    threshold: float | None = None
    recorded: float | None = None  # when the last minute was recorded
    stayed_up: float = 0.0  # seconds after stops that a dry run only announced
    would_count: float = 0.0  # those of which the money counts, up to `saving_limit` of each stop
    bills: tuple[str, ...] = ()  # what goes on to be billed after a stop, as the last plan said

    @property
    def empty(self) -> bool:
        """Whether nothing at all was recorded."""
        return not (self.days or self.incidents or self.stretches or self.holds or self.keepers)


def read(
    database: sqlite3.Connection,
    path: str,
    since: float,
    now: float,
    price: Rate | None,
    machine: str = "",
    limit: float | None = None,
) -> ReportFacts:
    """From the history; of each stop that a dry run only announced ``limit`` seconds count as money. Raises sqlite3.Error."""
    found = query.events(database, since - bands.LOOK_BACK_SECONDS)
    recent = query.events(database, since)
    first = query.first(database, since)
    begin = max(since, first) if first else since
    price = price or savings.last_rate(recent)
    last = found[-1] if found else None
    unknown, left_out = _unknown_times(database, begin, now)
    limits = [share for event in found if (share := bands.threshold(event)) is not None]
    recorded = database.execute("SELECT max(minute) + 60 FROM minutes WHERE minute <= ?", (now,)).fetchone()[0]
    holds = [band for band in bands.found(found, begin, now) if band.kind == bands.HOLD]
    spans = summary.stayed_up(database, recent, begin, now)
    kept = tuple(one for one in keepers(found) if one.begun >= begin or (one.ended or 0.0) >= begin)
    return ReportFacts(
        path, machine or (last.machine if last else ""), last.instance if last else "", begin, now,
        tuple(query.days(database, since, now)), savings.off_by_day(recent, since), price, tuple(summaries(recent)),
        tuple(holds), kept, unknown, left_out, tuple(_stretches(database, begin, now)), bands.labels([*query.newest(database, bands.NAMING, 1), *found]),
        limits[-1] if limits else None, bands.number(recorded), sum(span.within for span in spans), sum(span.counting(limit) for span in spans), tuple(_bills(found)),
    )  # fmt: skip


def _stretches(database: sqlite3.Connection, since: float, until: float) -> list[Stretch]:
    step, marks = times.ticks(since, until, ROWS_MOST)
    if step > times.DAY:
        _step, marks = times.ticks(since, until, int((until - since) / times.DAY) + 1)
    ends = [mark for mark in marks if since < mark < until]
    found = []
    for begin, end in zip([since, *ends], [*ends, until], strict=True):
        if spans := query.loads(database, begin, end):
            found.append(Stretch(begin, end, tuple(map(_numbers, spans))))
    return found


def _numbers(span: GpuSpan) -> GpuSpan:
    """The same with None or 0 for values that are not numbers: the file may hold anything."""
    low, mean, high = [bands.number(value) for value in span[3:]]
    return GpuSpan(str(span.gpu), bands.number(span.known) or 0.0, bands.number(span.unknown) or 0.0, low, mean, high)


def _unknown_times(database: sqlite3.Connection, since: float, until: float) -> tuple[tuple[UnknownTime, ...], int]:
    """The latest unknown times, and how many more there are."""
    rows = database.execute(
        "SELECT gpu, minute, unknown FROM minutes WHERE typeof(unknown) = 'real' AND unknown > 0 AND minute >= ? AND minute < ? ORDER BY gpu, minute",
        (since - since % 60.0, until),
    )
    found: list[UnknownTime] = []
    for gpu, minute, seconds in rows:
        begin, end = minute + 60.0 - max(60.0, seconds), min(minute + 60.0, until)
        last = found[-1] if found else None
        if last is not None and last.gpu == gpu and begin - last.end <= UNKNOWN_JOINED_SECONDS:
            found[-1] = last._replace(end=end, seconds=last.seconds + seconds)
        else:
            found.append(UnknownTime(str(gpu), max(since, begin), end, seconds))
    found.sort(key=lambda one: (-one.begin, one.gpu))
    return tuple(found[:UNKNOWN_LISTED]), max(0, len(found) - UNKNOWN_LISTED)


def _bills(events: Iterable[Event]) -> list[str]:
    """What the last plan said about the bill."""
    last: Sequence[Any] = ()
    for event in events:
        findings = event.facts.get("findings")
        if isinstance(findings, list) and findings:
            last = findings
    return [str(row[1]) for row in last if isinstance(row, list) and len(row) > 1 and "bill" in str(row[1])]
