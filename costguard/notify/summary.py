"""Make the summary from the history, in the worker: whether one is due, and its facts."""

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from costguard.history import FILE, query, summary
from costguard.history.query import HistoryError
from costguard.history.store import LONG_KEPT_SECONDS
from costguard.money import rate
from costguard.notify.facts import number
from costguard.notify.job import Draft
from costguard.notify.schedule import next_due

STAMP = "summary.json"
"""The file in the state directory that says up to which date people were told."""

SENDING = "summary-sending.json"
"""The file beside it with the summary that is on its way."""

FIRST_SECONDS = 31 * 86400.0
"""The first summary covers at most so much."""

UNWRITTEN_SECONDS = 4 * 3600.0
"""What the first summary covers if the history has no quarter hour yet."""

DAY_SECONDS = 86400.0

FUTURE_SECONDS = DAY_SECONDS
"""A stamp further in the future than this was written on a wrong date."""


class Stamp(NamedTuple):
    """Two dates: up to when everything was told, as far as it was written by then; and when that summary was made."""

    told_until: float
    made: float


def due(draft: Draft, now: float) -> Draft | None:
    """The message with its facts, if a summary is due now; None when it is not.

    ``facts`` name the state directory, ``every`` (daily, weekly), and the price.
    """
    state, every = str(draft.facts.get("state") or ""), str(draft.facts.get("every") or "weekly")
    last = stamp(state)
    if last is None or max(last) > now + FUTURE_SECONDS:
        keep(state, _beginning(state, now), now)
        return None
    if now < next_due(last.made, every):
        return None
    price = rate(draft.facts.get("price_per_hour"), draft.facts.get("currency"), _mapping(draft.facts.get("price")))
    given = draft.facts.get("saving_limit")
    limit = float(given) if isinstance(given, int | float) else None
    try:
        since = max(last.told_until, now - LONG_KEPT_SECONDS)
        found = summary.of(os.path.join(state, FILE), since, now, price, limit)
    except HistoryError as error:
        return draft._replace(facts={**draft.facts, "error": str(error)})
    return draft._replace(facts={**draft.facts, **found._asdict(), "made": now})


def name_of(draft: Draft, now: float) -> str:
    """The id of a summary, the same at each of its tries."""
    return f"summary-{draft.facts.get('since') or f'unreadable-{now // DAY_SECONDS:.0f}'}"


def begun(draft: Draft, has_takers: Callable[[Draft], bool]) -> Draft:
    """The summary to send: that of an earlier worker, unchanged, if it was killed after a channel had taken it; else this one.

    A new one would repeat those hours for whoever has the earlier one. ``has_takers`` says whether a channel took it.
    """
    path = os.path.join(str(draft.facts.get("state") or ""), SENDING)
    with suppress(OSError, ValueError, TypeError), open(path, encoding="utf-8") as file:
        kept = json.load(file)
        if kept["id"] == draft.id and has_takers(draft):
            return draft._replace(facts={**draft.facts, **kept["facts"]})
    own = {name: value for name, value in draft.facts.items() if name in summary.Summary._fields or name == "made"}
    _write(path, {"id": draft.id, "facts": own})
    return draft


def told(draft: Draft, now: float) -> None:
    """Record that people have this summary: the next one begins where it ended. One without a readable history covers no hours."""
    state, last = str(draft.facts.get("state") or ""), None
    until, made = number(draft.facts.get("until")), number(draft.facts.get("made"))
    if until is None:
        last = stamp(state)
    keep(state, until if until is not None else last.told_until if last else now, now if made is None else made)


def _beginning(state: str, now: float) -> float:
    """The date at which the first summary begins: with the history; or now, if a damaged stamp shows that summaries were sent."""
    if os.path.lexists(os.path.join(state, STAMP)):
        return now
    written = None
    with suppress(HistoryError), query.reading(os.path.join(state, FILE)) as database:
        written = query.quarters_between(database, now - FIRST_SECONDS, now)
    return now - UNWRITTEN_SECONDS if written is None else written[0]


def stamp(state: str) -> Stamp | None:
    """The stamp of the last summary; None if there was none. Earlier versions kept one date."""
    with suppress(OSError, ValueError, AttributeError), open(os.path.join(state, STAMP), encoding="utf-8") as file:
        kept = json.load(file)
        until, made = number(kept.get("told_until")), number(kept.get("made", kept.get("told_until")))
        return None if until is None or made is None else Stamp(until, made)
    return None


def keep(state: str, until: float, made: float) -> None:
    """Record that people were told up to the date ``until``. If that cannot be written, the summary comes again."""
    _write(os.path.join(state, STAMP), {"told_until": query.quarter_of(until), "made": made})
    with suppress(OSError):
        os.unlink(os.path.join(state, SENDING))


def _write(path: str, document: Mapping[str, object]) -> None:
    with suppress(OSError):
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            json.dump(document, file)
        os.replace(f"{path}.new", path)


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
