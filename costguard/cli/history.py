"""``costguard history``: the hours of each day, and every incident."""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from costguard.cli import reach
from costguard.cli.answer import emit
from costguard.cli.examples import examples
from costguard.cli.starting import as_callback
from costguard.config.paths import resolve
from costguard.engine.policy import Policy
from costguard.errors import CostguardError
from costguard.history import FILE
from costguard.money import Rate, given

if TYPE_CHECKING:
    import sqlite3
DEFAULT_SINCE_SECONDS = 14 * 86400.0
HOUR = 3600.0

SINCE = "a duration such as 7d or 12h, or a past date such as 2026-11-21 or 2026-11-21T15:00"
"""What ``--since`` takes."""

AGENT_SECONDS = 2.0
"""How long to wait for the agent, which flushes its history and knows the price."""

_POLL_SECONDS = 0.25  # the agent refuses more frequent requests


def _since(_context: click.Context, _parameter: click.Parameter, value: str | None) -> float | None:
    """A duration (7d, 12h) or a local date (2026-11-21, with or without a time), as a past date."""
    if value is None:
        return None
    now, since = time.time(), None
    with suppress(ValueError, OverflowError, OSError):
        since = datetime.fromisoformat(value.strip()).timestamp()
    if since is None:
        since = now - _ago(value)
    if since > now:
        raise click.BadParameter(f"{value} is in the future; allowed: {SINCE}")
    return since


def _ago(value: str) -> float:
    from costguard.config.values import spoken_seconds

    try:
        return spoken_seconds(value)
    except ValueError as error:
        message = str(error) if value.strip()[:1].isdigit() else f"{value!r} is neither a duration nor a date"
        raise click.BadParameter(f"{message}; allowed: {SINCE}") from None


@click.command(
    epilog=examples(
        "costguard history",
        "costguard history last",
        "costguard history --since 30d --price '2.50 EUR'",
        "costguard history --html report.html",
    )
)
@click.argument("incident", required=False)
@click.option("--since", callback=_since, metavar="WHEN", help="Start: 7d, 12h or 2026-11-21. Default: 14 days.")
@click.option(
    "--price",
    callback=as_callback(given),
    metavar="AMOUNT",
    help="Price of an hour, such as 2.50 or '2.50 EUR'. Default: the agent's price.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--html", metavar="FILE", help="Write a report with a picture as one page to FILE.")
@click.option("--png", metavar="FILE", help="Write the picture alone to FILE.")
@reach.state_dir
def command(
    *,
    incident: str | None,
    since: float | None,
    price: Rate | None,
    as_json: bool,
    html: str | None,
    png: str | None,
    state_dir: str | None,
) -> None:
    """Show the hours of each day and every incident; with INCIDENT (an id, the end of one, or `last`) show that one in detail.

    It works without an agent; a running agent first writes what it has in memory. Exit code 3 when there is no history.
    """
    from costguard.history import query

    path = history_file(state_dir)
    begin = since if since is not None else time.time() - DEFAULT_SINCE_SECONDS
    if html is not None or png is not None:
        if incident is not None or as_json:
            raise click.UsageError("--html and --png write a report of a period: leave out INCIDENT and --json.")
        _write_report(path, begin, price, html, png, state_dir)
        return
    _flush(state_dir)
    with query.reading(path) as database:
        if incident is not None:
            _show_incident(path, database, query.find(database, incident), as_json=as_json)
        else:
            status = _status(state_dir)
            _show_overview(path, database, begin, price or _price_of(status), _saving_limit(status), as_json=as_json)


def _write_report(
    path: str, begin: float, price: Rate | None, html: str | None, png: str | None, state_dir: str | None
) -> None:
    """Write the page, the picture, or both, to files that are checked before anything is read."""
    from costguard.cli import history_report

    for target in (html, png):
        if target is not None:
            history_report.check(target)
    _flush(state_dir)
    status = _status(state_dir)
    settings = history_report.AgentRules(status.get("threshold"), _saving_limit(status))
    if html is not None:
        history_report.write_page(path, html, begin, price or _price_of(status), settings)
    if png is not None:
        history_report.write_picture(path, png, begin, settings.threshold)


def _saving_limit(status: Mapping[str, Any]) -> float | None:
    """For how long a stop counts as money: as the running agent has it, else as it is where nobody changes it."""
    configured = status.get("agent", {}).get("configured")
    limit = configured.get("saving_limit") if configured else Policy._field_defaults["saving_limit"]
    return None if limit is None else float(limit)


def history_file(state_dir: str | None) -> str:
    """The file of this user's agent or, when there is none, of the machine's (root's)."""
    own = os.path.join(resolve(state_dir, os.environ).state, FILE)
    machines = os.path.join(resolve(None, os.environ, 0).state, FILE)
    return own if state_dir else nearest(own, machines)


def nearest(own: str, machines: str) -> str:
    """The first of two files that exists, or that only other users may see: reading it reports that."""
    if not os.path.exists(own):
        try:
            os.stat(machines)
        except PermissionError:
            return machines
        except OSError:
            return own
        return machines
    return own


def _flush(state_dir: str | None) -> None:
    """Have the agent, if one runs, write what it has in memory."""
    end = time.monotonic() + AGENT_SECONDS
    with suppress(CostguardError):
        while reach.request(state_dir, {"command": "flush"}, AGENT_SECONDS).get("pending") is True:
            if time.monotonic() >= end:
                return
            time.sleep(_POLL_SECONDS)


def _status(state_dir: str | None) -> Mapping[str, Any]:
    """What the running agent says of itself; empty when none answers."""
    try:
        return reach.status(state_dir, AGENT_SECONDS)
    except CostguardError:
        return {}


def _price_of(status: Mapping[str, Any]) -> Rate | None:
    """The price of the running agent; None when it knows none, or none answers."""
    from costguard.cli.idle_cost import rate_of

    return rate_of(status) if status else None


def _show_overview(
    path: str, database: "sqlite3.Connection", since: float, price: Rate | None, limit: float | None, *, as_json: bool
) -> None:
    from costguard.history import query, savings, summary
    from costguard.history.keepers import keepers
    from costguard.history.story import other_messages, summaries

    now = time.time()
    days = query.days(database, since, now)
    found = query.events(database, since)
    price = price or savings.last_rate(found)
    off = savings.off_by_day(found, since)
    since = max(since, query.first(database, since))
    spans = summary.stayed_up(database, found, since, now)
    stayed, counting = sum(span.within for span in spans), sum(span.counting(limit) for span in spans)
    incidents = summaries(found)
    kept = keepers(found)
    messages = other_messages(found)
    if as_json:
        shown = {
            "file": path, "since": since, "price": price.facts if price else None,
            "days": [savings.day_for_programs(day, off.get(day.date), price) for day in days],
            "stayed_up": stayed, "would_save": price.estimate(counting) if price and stayed else None,
            "incidents": [incident._asdict() for incident in incidents],
            "kept_up": [one._asdict() for one in kept], "messages": [event._asdict() for event in messages],
        }  # fmt: skip
        emit("history", shown)
        return
    from costguard.cli.history_view import Money, overview
    from costguard.cli.render import console, show

    show(console(), overview(path, since, days, incidents, messages, Money(off, price, stayed, counting), kept))


def _show_incident(path: str, database: "sqlite3.Connection", incident: str, *, as_json: bool) -> None:
    from costguard.history import query
    from costguard.history.story import story, summary

    found = query.events(database, 0.0, incident)
    head = summary(found)
    before: Sequence[query.GpuSpan] = query.loads(database, head.opened - HOUR, head.opened)
    if as_json:
        shown = {
            "file": path, "incident": head._asdict(), "hour_before": [span._asdict() for span in before],
            "events": [event._asdict() for event in found],
        }  # fmt: skip
        emit("incident", shown)
        return
    from costguard.cli.history_view import incident_view
    from costguard.cli.render import console, show

    names: dict[str, str] = next(
        (event.data["gpus"] for event in found if isinstance(event.data.get("gpus"), dict)), {}
    )
    show(console(), incident_view(path, head, story(found), before, names))
