"""Hours that the machine was off after an action, and money, for each day. From recorded events."""

import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from costguard.history.query import Day, Event, next_midnight
from costguard.money import Rate, rate
from costguard.notify.facts import number


class Off(NamedTuple):
    """One day: seconds off after an action, and what they would have cost, an estimate (None: unknown)."""

    seconds: float
    saved: float | None


class _Stop(NamedTuple):
    """A closed incident: from when to when the machine was off, until when that counts as money, and that money."""

    stopped: float
    started: float
    counted_until: float
    saved: float | None
    price: Rate | None


def last_rate(events: Iterable[Event]) -> Rate | None:
    """The last price in a message of this history; of a task none, whose GPUs need not be all of the machine."""
    found: Rate | None = None
    for event in events:
        facts = event.facts
        known = None if facts.get("task") else rate(facts.get("price_per_hour"), facts.get("currency"), {})
        if known is not None:
            found = known._replace(origin=f"as used on {time.strftime('%Y-%m-%d', time.localtime(event.wall))}")
    return found


def off_by_day(events: Iterable[Event], since: float) -> dict[str, Off]:
    """The time off of every closed incident, split at local midnight.

    Only the first part of each counts as money, up to `saving_limit`: the message has that amount.
    """
    days: dict[str, Off] = {}
    for stopped, started, counted_until, saved, price in _stops(events):
        for day, begin, end in _days(max(stopped, since), started):
            money = None if saved is None or price is None else price.cost(max(0.0, min(end, counted_until) - begin))
            days[day] = _joined(days.get(day), Off(end - begin, money))
    return days


def beyond_limit(events: Iterable[Event]) -> float:
    """Seconds off of closed incidents that `saving_limit` kept out of the money."""
    return sum(stop.started - stop.counted_until for stop in _stops(events))


def _stops(events: Iterable[Event]) -> Iterator[_Stop]:
    for event in events:
        facts = event.facts
        stopped, started, saved = (number(facts.get(name)) for name in ("stopped_wall", "started_wall", "saved"))
        if event.message_kind != "closed" or stopped is None or started is None or not stopped < started:
            continue
        price = rate(facts.get("price_per_hour"), facts.get("currency"), {})
        counted_until = started if saved is None or price is None else min(started, stopped + saved / price.cost(1.0))
        yield _Stop(stopped, started, counted_until, saved, price)


def day_for_programs(day: Day, off: Off | None, price: Rate | None) -> dict[str, object]:
    """A day with its money: seconds as facts, amounts as estimates; null where no price is known."""
    return {
        **day._asdict(),
        "off": off.seconds if off else 0.0,
        "idle_cost": price.estimate(day.quiet) if price else None,
        "saved": saved(off, price),
    }


def saved(off: Off | None, price: Rate | None) -> dict[str, object] | None:
    """What a time off would have cost, as recorded; null when the price was unknown."""
    if off is None or off.saved is None or price is None:
        return None
    return {"amount": round(off.saved, 4), "currency": price.currency, "estimate": True}


def _joined(first: Off | None, second: Off) -> Off:
    """Add two times of one day; unknown money counts as nothing where the other is known."""
    if first is None:
        return second
    known = [money for money in (first.saved, second.saved) if money is not None]
    return Off(first.seconds + second.seconds, sum(known) if known else None)


def _days(begin: float, end: float) -> Iterator[tuple[str, float, float]]:
    while begin < end:
        until = min(end, next_midnight(begin))
        yield time.strftime("%Y-%m-%d", time.localtime(begin)), begin, until
        begin = until
