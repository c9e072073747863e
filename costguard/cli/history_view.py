"""The history for people."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from time import localtime, strftime
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from costguard.cli.render import clean, whole
from costguard.engine.reasons import REASONS
from costguard.engine.wording import WORDINGS, wording_of
from costguard.engine.words import date_and_second, duration, percent, several
from costguard.history import UNTOLD_HOLD
from costguard.history.keepers import Keeper
from costguard.history.query import Day, Event, GpuSpan
from costguard.history.savings import Off
from costguard.history.story import Entry, IncidentSummary, deliveries, delivery, lost_rows, message, untold_hold
from costguard.money import Rate

TITLES = {reason.name: reason.title for reason in REASONS}
MESSAGES_SHOWN = 20
"""Of those that belong to no incident."""

COLOURS = {"failed": "red", "unknown": "magenta", "cannot": "red", "acted": "green", "closed": "green", "held": "cyan"}


class Money(NamedTuple):
    """Time off after an action, by day, and the price of an hour (None: unknown).

    ``stayed_up``: seconds after stops that a dry run only announced; of these ``would_count`` count as money.
    """

    off: Mapping[str, Off]
    price: Rate | None
    stayed_up: float = 0.0
    would_count: float = 0.0


NOTHING = Money({}, None)


def overview(
    path: str,
    since: float,
    days: Sequence[Day],
    incidents: Sequence[IncidentSummary],
    messages: Sequence[Event],
    money: Money = NOTHING,
    kept: Sequence[Keeper] = (),
) -> RenderableType:
    """Days with their money, incidents, who kept the machine up, and other messages."""
    parts: list[RenderableType] = [Text(f"{path}, since {_date(since)} (all times {_zone()})", style="dim"), Text()]
    nothing = "No hours were" if incidents or kept or messages else "Nothing was"
    none = f"{nothing} recorded in this time; a running agent records every minute."
    parts += [_days(days, money) if days else Text(none), Text()]
    if days:
        parts += [Text(line, style="dim") for line in _about(money)]
        parts.append(Text())
    if incidents:
        parts += [Text("Incidents", style="bold"), _incidents(incidents), Text()]
        parts.append(Text("costguard history INCIDENT shows one in detail", style="dim"))
    else:
        parts.append(Text("No incident: no stop was announced or carried out."))
    if kept:
        parts += [Text(), Text("Kept up though its GPUs were idle", style="bold"), _keepers(kept)]
    if messages:
        parts += [Text(), Text("Other messages", style="bold"), *_messages(messages)]
    return Group(*parts)


def _about(money: Money) -> Iterator[str]:
    """What the money rests on, or why there is none."""
    if money.price is None:
        yield "The price is unknown: set price_per_hour, or use --price 2.50."
    if money.stayed_up:
        worth = (
            f" {money.price.words(money.would_count)} (an estimate, up to saving_limit of each):"
            if money.price
            else " this:"
        )
        yield f"live mode would have saved{worth} it stayed up for {_hours(money.stayed_up)} after stops that were only announced"
    if money.price is None:
        return
    yield f"idle cost: quiet hours, {clean(money.price.source)}"
    if money.off:
        yield "saved: an estimate for the hours off after an action, up to saving_limit"


def _days(days: Sequence[Day], money: Money) -> Table:
    table = _table("bold")
    table.add_column("day", no_wrap=True)
    names = ["works", "quiet", "unknown", "not watched"]
    names += ["off"] if money.off else []
    names += ["idle cost"] if money.price else []
    names += ["saved"] if money.price and money.off else []
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for day in days:
        table.add_row(day.date, *_cells(day, money.off.get(day.date), money))
    if len(days) > 1:
        sums = Day("total", *(sum(column) for column in zip(*(day[1:] for day in days), strict=True)))
        table.add_row("total", *_cells(sums, _together(money.off.values()), money), style="bold")
    return table


def _cells(day: Day, off: Off | None, money: Money) -> Iterator[str]:
    yield from map(_hours, day[1:])
    if money.off:
        yield _hours(off.seconds if off else 0.0)
    if money.price:
        yield money.price.words(day.quiet) if day.quiet else "–"
        if money.off:
            yield f"about {off.saved:.2f} {money.price.currency}" if off and off.saved is not None else "–"


def _together(parts: Iterable[Off]) -> Off | None:
    found = list(parts)
    known = [off.saved for off in found if off.saved is not None]
    return Off(sum(off.seconds for off in found), sum(known) if known else None) if found else None


def _hours(seconds: float) -> str:
    """``3.2 h``; ``<0.1 h`` below three minutes; a dash for nothing."""
    if seconds < 1.0:
        return "–"
    return f"{seconds / 3600.0:.1f} h" if seconds >= 180.0 else "<0.1 h"


def _incidents(incidents: Sequence[IncidentSummary]) -> Table:
    table = _table(fixed=3)
    for incident in reversed(incidents):
        what = f"{_deed(incident.action)}, {TITLES.get(incident.reason, clean(incident.reason))}"
        outcome = Text(clean(incident.words), style=COLOURS.get(incident.result, ""))
        if lost := incident.undelivered:
            outcome.append(f" ({lost} of {several(incident.delivered + lost, 'message')} reached nobody)", "red")
        table.add_row(date_and_second(incident.opened), clean(incident.id), what, outcome)
    return table


def _deed(action: str) -> str:
    return wording_of(action).word.removeprefix("the ") if action in WORDINGS else clean(action)


def _keepers(kept: Sequence[Keeper]) -> Table:
    table = _table(fixed=2)
    for one in list(reversed(kept))[:20]:
        lasted = "no end recorded yet" if one.ended is None else f"for {duration(one.ended - one.begun)}"
        table.add_row(date_and_second(one.begun), lasted, clean(one.words), clean(one.by))
    return table


def _messages(events: Sequence[Event]) -> Iterator[RenderableType]:
    """The last messages with whom each reached, as with those of an incident; a summary, which nothing else tells, by that alone."""
    table = _table(fixed=1)
    ends = deliveries(events)
    told = {event.data.get("effect") for event in events if event.kind == "told"}
    rows = [
        event for event in events if event.kind not in {"outcome", "delivery"} or event.data.get("effect") not in told
    ]
    for event in reversed(rows[-MESSAGES_SHOWN:]):
        became = [] if event.kind == "delivery" else ends.get(str(event.data.get("effect")), [])
        table.add_row(date_and_second(event.wall), "\n".join([clean(_other(event)), *map(clean, became)]))
    yield table
    if len(rows) > MESSAGES_SHOWN:
        yield Text(f"{len(rows) - MESSAGES_SHOWN} earlier ones: costguard history --json", style="dim")


def _other(event: Event) -> str:
    """One of them in words."""
    if event.kind == "told":
        return message(event)[0].removeprefix("told: ")
    if event.kind == "delivery":
        text = event.data.get("text") or event.data.get("title") or ""
        return ": ".join(filter(None, (delivery(event.data), str(text))))
    if event.kind == UNTOLD_HOLD:
        return untold_hold(event.data)
    if event.kind == "released":
        return f"{event.data.get('owner')} ran `costguard release`"
    if event.kind == "hook":
        how = str(event.data.get("detail") or event.data.get("status"))
        return ": ".join(filter(None, (f"hook {event.data.get('step')}", how)))
    return lost_rows(event.data)


def _lost(head: IncidentSummary) -> str:
    """What people did not get."""
    lost = f", {head.undelivered} failed" if head.undelivered else ""
    lost += f", {head.in_doubt} perhaps" if head.in_doubt else ""
    if not head.unreached:
        return lost
    return f"{lost}; THE WARNING REACHED {f'ONLY {clean(head.only)}' if head.only else 'NOBODY'}, and the countdown went on"


def incident_view(
    path: str, head: IncidentSummary, entries: Sequence[Entry], before: Sequence[GpuSpan], names: Mapping[str, str]
) -> RenderableType:
    """One incident, from its evidence to its end."""
    reason = TITLES.get(head.reason, clean(head.reason))
    mode = "DRY RUN" if head.mode != "live" else "live"
    owner = f" (requested by {clean(head.owner)})" if head.owner else ""
    lines = [
        *([f"task      {clean(head.task)}"] if head.task else []),
        f"machine   {clean(head.machine)}" + (f" ({clean(head.instance)})" if not head.task else ""),
        f"reason    {reason}{owner}; {_deed(head.action)}, {mode}",
        f"opened    {date_and_second(head.opened)}, last entry {date_and_second(head.last)} (all times {_zone()})",
        f"ended     {clean(head.words)}" + (f"; proof: {clean(head.proof)}" if head.proof else ""),
        f"people    {several(head.delivered, 'message')} delivered{_lost(head)}",
        f"source    {path}",
    ]
    parts: list[RenderableType] = [Text(f"Incident {clean(head.id)}", style="bold"), *map(Text, lines), Text()]
    if before:
        parts += [Text("The hour before", style="bold"), _spans(before, names), Text()]
    day = ""
    for entry in entries:
        date = strftime("%Y-%m-%d", localtime(entry.wall))
        if date != day:
            parts.append(Text(date, style="bold"))
            day = date
        heading = Table.grid(padding=(0, 2, 0, 0))
        heading.add_column(no_wrap=True)
        heading.add_column(overflow="fold")
        heading.add_row(strftime("%H:%M:%S", localtime(entry.wall)), Text(clean(entry.title)))
        parts.append(heading)
        parts += [_line(clean(line)) for line in entry.lines]
    return Group(*parts)


COPIED = ("Receipt: ", "To start it again: ")
"""How lines begin with something in them that is copied whole."""


def _line(text: str) -> RenderableType:
    """What stands below a heading."""
    return whole(text, 10) if text.startswith(COPIED) else Padding(Text(text, style="dim"), (0, 0, 0, 10))


def _spans(spans: Sequence[GpuSpan], names: Mapping[str, str]) -> Table:
    table = _table("dim")
    table.add_column("GPU", overflow="fold")
    for name in ("mean load", "highest", "read for", "unknown for"):
        table.add_column(name, justify="right", no_wrap=True)
    for span in spans:
        loads = ["unknown" if load is None else percent(load) for load in (span.mean, span.high)]
        table.add_row(clean(names.get(span.gpu, span.gpu)), *loads, duration(span.known), duration(span.unknown))
    return table


def _table(header: str = "", fixed: int = 0) -> Table:
    """A table whose header has this style; without a header, ``fixed`` columns and one that takes the rest."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=bool(header), header_style=header)
    for _ in range(fixed):
        table.add_column(no_wrap=True)
    if fixed:
        table.add_column(overflow="fold", ratio=1)
    return table


def _date(wall: float) -> str:
    return strftime("%Y-%m-%d %H:%M", localtime(wall))


def _zone() -> str:
    """The time zone of every time on the screen."""
    return f"local, {strftime('%Z')}"
