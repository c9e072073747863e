"""The summary, made in the worker from the history: whether it is due, and what stands in it."""

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress

from costguard.history import FILE, summary
from costguard.history.query import HistoryError
from costguard.money import rate
from costguard.notify.job import Draft
from costguard.notify.when import next_due

STAMP = "summary.json"
"""The file in the state directory that says until when people were told."""

LONGEST_SECONDS = 31 * 86400.0
FUTURE_SECONDS = 86400.0
"""A summary covers no more; one that is dated later than now by more was written on a wrong date."""


def due(draft: Draft, now: float) -> Draft | None:
    """The message with its facts, if a summary is due now; None when it is not.

    ``facts`` name the state directory, ``every`` (daily, weekly), and the price.
    """
    state, every = str(draft.facts.get("state") or ""), str(draft.facts.get("every") or "weekly")
    since = told_until(state)
    if since is None or since > now + FUTURE_SECONDS:
        keep(state, now)  # the first one covers what comes from now on
        return None
    if now < next_due(since, every):
        return None
    price = rate(draft.facts.get("price_per_hour"), draft.facts.get("currency"), _mapping(draft.facts.get("price")))
    given = draft.facts.get("saving_limit")
    limit = float(given) if isinstance(given, int | float) else None
    try:
        found = summary.of(os.path.join(state, FILE), max(since, now - LONGEST_SECONDS), now, price, limit)
    except HistoryError as error:
        return draft._replace(facts={**draft.facts, "error": str(error)})
    return draft._replace(facts={**draft.facts, **found._asdict()})


def told_until(state: str) -> float | None:
    """Until when the last summary went; None when there was none."""
    with suppress(OSError, ValueError, AttributeError), open(os.path.join(state, STAMP), encoding="utf-8") as file:
        value = json.load(file).get("told_until")
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
    return None


def keep(state: str, now: float | None = None) -> None:
    """Remember until when people were told; a disk that is full costs a summary that comes again."""
    path = os.path.join(state, STAMP)
    with suppress(OSError):
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            json.dump({"told_until": time.time() if now is None else now}, file)
        os.replace(f"{path}.new", path)


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
