"""What a machine did in some days, in a few numbers: for the summary that people get, from what was recorded."""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from costguard.history import query, savings
from costguard.history.query import Event
from costguard.history.story import IncidentSummary, summaries
from costguard.money import Rate

STOPPED = frozenset(("acted", "closed", "accepted", "requested"))
"""Results that count as a stop, as far as recorded."""

TROUBLED = frozenset(("failed", "cannot", "unknown"))
NEARLY = frozenset(("cancelled", "held"))
NAMED = 5
"""How many incidents, and how many people, are named."""


class Summary(NamedTuple):
    """Seconds, counts and money; money is an estimate, None where no price is known.

    ``since``, ``until``: between these dates, whole quarters of an hour, all of it lies: the hours, and by its own date what happened.
    """

    since: float
    until: float
    works: float
    quiet: float
    unknown: float
    off: float  # after an action of this machine
    stops: int
    warnings: int
    would: int  # stops that a dry run only announced
    would_off: float  # seconds for which it stayed up after those
    alarms: int
    hung: int  # messages that a job may hang
    kept_up: int  # and that people or programs kept it up without work of a GPU
    saved: float | None
    would_save: float | None
    uncounted: float  # seconds off, or up after such stops, that the limit on savings kept out of the money
    idle_cost: float | None
    currency: str
    troubles: tuple[str, ...]  # what could not be done, each in words
    nearly: tuple[tuple[float, str], ...]  # countdowns that ended otherwise: date, and why
    holders: tuple[tuple[str, int], ...]  # who held it, and how often


def of(path: str, since: float, now: float, price: Rate | None, limit: float | None = None) -> Summary:
    """Summarize what was recorded from ``since`` on; of each stop that a dry run told at most ``limit`` seconds count as money.

    The last recorded quarter of an hour may still grow: it belongs to the next summary, which begins where this one ends.
    Raises `query.HistoryError` where the history cannot be read.
    """
    since = query.quarter_of(since)
    with query.reading(path) as database:
        _, until = query.quarters_between(database, since, now) or (since, since)
        hours = query.totals(database, since, until)
        events = [event for event in query.events(database, since) if event.wall < until]
        spans = stayed_up(database, events, since, until)
    would_off, counting = sum(span.within for span in spans), sum(span.counting(limit) for span in spans)
    price = price or savings.last_rate(events)
    recent = [event for event in events if event.wall >= since]
    incidents = _ended(events, since)
    off = savings.off_by_day(recent, 0.0).values()  # whole: no summary was sent while it was off
    saved = [day.saved for day in off if day.saved is not None]
    messages = Counter(event.message_kind for event in recent if not _again(event))
    return Summary(
        since, until, *hours, sum(day.seconds for day in off),
        sum(found.result in STOPPED for found in incidents), messages["warning"],
        sum(found.result == "would" for found in incidents), would_off, messages["unknown_alarm"],
        sum(event.facts.get("code") == "suspect_hung" for event in recent if not _again(event)), messages["kept_up"],
        sum(saved) if saved else None,
        price.cost(counting) if price else None, would_off - counting + savings.beyond_limit(recent) if price else 0.0,
        price.cost(hours.quiet) if price else None, price.currency if price else "",
        tuple(found.words for found in incidents if found.result in TROUBLED)[-NAMED:],
        _nearly(incidents), _holders(recent),
    )  # fmt: skip


def _ended(events: Iterable[Event], since: float) -> list[IncidentSummary]:
    """The incidents that came to an end from ``since`` on: one that goes on then is in the next summary, with what it came to."""
    events = list(events)
    before = {found.id: _kind(found) for found in summaries(event for event in events if event.wall < since)}
    return [found for found in summaries(events) if _kind(found) not in {"", before.get(found.id)}]


def _kind(incident: IncidentSummary) -> str:
    """As what an end counts; empty where it has none. That a stop was accepted, and later seen, is one stop."""
    if incident.result in STOPPED:
        return "stopped"
    if incident.result in TROUBLED:
        return "troubled"
    if incident.result in NEARLY:
        return "nearly"
    return "" if incident.result == "open" else incident.result


def _nearly(incidents: Iterable[IncidentSummary]) -> tuple[tuple[float, str], ...]:
    """Countdowns that something ended."""
    found = [(one.opened, one.words) for one in incidents if one.result in NEARLY]
    return tuple(found[-NAMED:])


def _again(event: Event) -> bool:
    """Whether a message is a further try of one that was counted before."""
    return bool(event.facts.get("attempts") or event.facts.get("told_again"))


def _holders(events: Iterable[Event]) -> tuple[tuple[str, int], ...]:
    holds = [event.facts for event in events if event.message_kind == "held" and not _again(event)]
    return tuple(Counter(str(facts.get("owner") or "somebody") for facts in holds).most_common(NAMED))


class Stayed(NamedTuple):
    """Seconds for which it was on after a stop that a dry run only announced: before this stretch of the history, and within it."""

    before: float
    within: float

    def counting(self, limit: float | None) -> float:
        """Those of ``within`` that count as money: only the first ``limit`` seconds of a stop do, ``before`` among them."""
        return self.within if limit is None else min(self.within, max(0.0, limit - self.before))


def stayed_up(database: sqlite3.Connection, events: Iterable[Event], since: float, until: float) -> list[Stayed]:
    """What came of each stop that a dry run only announced, also one of before."""
    stood = query.phase_before(database, since)
    spans = _latched([stood, *events] if stood else events, since, until)
    found = []
    for begun, end in spans:
        begin = max(begun, since)
        before = query.watched(database, begun, begin) if begun < begin else 0.0
        found.append(Stayed(before, query.watched(database, begin, end)))
    return found


def _latched(events: Iterable[Event], since: float, until: float) -> Iterator[tuple[float, float]]:
    """From each stop that a dry run would have made until the end of its latch, or of the record."""
    begun: float | None = None
    for event in events:
        if event.kind != "phase":
            continue
        if begun is not None and event.wall > max(begun, since):
            yield begun, event.wall
        begun = event.wall if event.data.get("to") == "DONE" and event.data.get("done") == "would" else None
    if begun is not None and begun < until:
        yield begun, until
