"""What became of the last real message over each channel, from the events of the history."""

import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from costguard.history.query import Event, newest

EVENTS_READ = 5000
"""How many of the newest events are read: months, on a machine that warns a few times a day."""

WORKER_FAILED = "the worker failed: "
"""How the outcome of a message begins whose worker did not live to say what came of each channel."""


class LastDelivery(NamedTuple):
    """The dates of the last message that a channel took, and of the last that it did not take, with ``why`` and its incident."""

    taken: float | None = None
    failed: float | None = None
    why: str = ""
    incident: str = ""

    @property
    def lost(self) -> bool:
        """Whether the last message did not arrive, or not at every address."""
        return self.failed is not None and (self.taken is None or self.failed >= self.taken)

    @property
    def partly(self) -> bool:
        """Whether some of its addresses took the message that others did not take."""
        return self.failed is not None and self.failed == self.taken


def last_deliveries(database: sqlite3.Connection, channels: Sequence[str]) -> dict[str, LastDelivery]:
    """The last deliveries of each of these channels, which are all that there are; tests are in no history."""
    return of_events(newest(database, ("told", "outcome", "delivery"), EVENTS_READ), channels)


def of_events(events: Iterable[Event], channels: Sequence[str]) -> dict[str, LastDelivery]:
    """The same from events in their order."""
    found = dict.fromkeys(channels, LastDelivery())
    messages: set[str] = set()
    for event in events:
        if event.kind == "told":
            messages.add(str(event.data.get("effect")))
            continue
        if event.kind == "outcome" and event.data.get("effect") not in messages:
            continue  # of an action
        read = _of_outcome if event.kind == "outcome" else _of_delivery
        taken, failed = read(event.data, channels)
        for name in channels:
            if name in taken:
                found[name] = found[name]._replace(taken=event.wall)
            if name in failed:
                found[name] = found[name]._replace(failed=event.wall, why=failed[name], incident=event.incident)
    return found


def _of_delivery(data: Mapping[str, Any], _channels: Sequence[str]) -> tuple[Iterable[str], Mapping[str, str]]:
    taken, failed = data.get("reached"), data.get("failed")
    return (
        taken if isinstance(taken, Mapping) else (),
        {str(name): str(why) for name, why in failed.items()} if isinstance(failed, Mapping) else {},
    )


def _of_outcome(data: Mapping[str, Any], channels: Sequence[str]) -> tuple[Iterable[str], Mapping[str, str]]:
    """By channel. Earlier versions kept who took a message, and why others did not, as one text each."""
    if isinstance(data.get("reached"), Mapping) or isinstance(data.get("failed"), Mapping):
        return _of_delivery(data, channels)
    taken, failed = str(data.get("proof") or ""), str(data.get("detail") or "")
    if failed.startswith(WORKER_FAILED):
        return (), dict.fromkeys(channels, failed)
    return _parts(taken, channels), _parts(failed, channels)


def _parts(text: str, channels: Sequence[str]) -> dict[str, str]:
    """The text of each channel in ``NAME: TEXT; NAME: TEXT``; a text may have semicolons of its own."""
    names = "|".join(re.escape(name) for name in channels)
    places = list(re.finditer(rf"(?:^|; )({names})(?=: |; |$)", text)) if names else []
    ends = [*(place.start() for place in places[1:]), len(text)][: len(places)]
    return {place[1]: text[place.end() : end].removeprefix(": ") for place, end in zip(places, ends, strict=True)}
