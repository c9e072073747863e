"""The report as one page: everything that it shows is in it, it runs nothing, and asks nobody for anything."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import costguard
from costguard.engine.reasons import REASONS
from costguard.engine.wording import TASK, wording_of
from costguard.engine.words import date, duration, percent, several
from costguard.history.query import Day
from costguard.history.savings import Off
from costguard.history.story import IncidentSummary
from costguard.report import style, times
from costguard.report.facts import FRESH_SECONDS, UNPROVEN, ReportFacts
from costguard.report.markup import Child, Element, inline, prose, tag, written
from costguard.report.palette import VARIABLES

WIDE, NARROW = 960.0, 360.0
"""Pixels for which the two pictures of a page are drawn: one of them is shown."""

TITLES = {reason.name: reason.title for reason in REASONS}
LISTED = 200
"""Rows of a table of what happened; `costguard history` has the rest."""

CALLED_OFF = frozenset({"cancelled", "held"})

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""The page's Content-Security-Policy: whatever got into the page, nothing runs and nothing is fetched."""


def page(facts: ReportFacts, pictures: Sequence[str], why_none: str = "") -> str:
    """The page; ``pictures``: the wide and the narrow one as SVG, or none, with the reason."""
    title = f"{_guarded(facts)}: GPU use, stops and cost"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        _meta("viewport", "width=device-width, initial-scale=1"),
        tag("meta", **{"http-equiv": "Content-Security-Policy", "content": POLICY}),
        _meta("color-scheme", "light dark"),
        _meta("referrer", "no-referrer"),
        tag("title", title),
        _style(),
    )
    body = tag("body", tag("main", *_header(facts, title), *_parts(facts, pictures, why_none)))
    return written(tag("html", head, body, lang="en"))


def _guarded(facts: ReportFacts) -> str:
    """What this is the record of: the last task that was guarded, else the machine."""
    machine = facts.machine or "This machine"
    task = next((one.task for one in reversed(facts.incidents) if one.task), "")
    return TASK.name.format(task=task, machine=machine) if task else machine


def _meta(name: str, content: str) -> Element:
    return tag("meta", name_=name, content=content)


def _style() -> Element:
    found = Element("style")
    found.text = style.sheet()  # ours, and without a character that would be escaped
    return found


def _header(facts: ReportFacts, title: str) -> Iterator[Child]:
    yield tag("h1", title)
    where = f" (instance {facts.instance})" if facts.instance and facts.instance != facts.machine else ""
    yield tag(
        "p", f"{_period(facts.since, facts.until)}{where}. All times are in {times.zones(facts.since, facts.until)}."
    )
    yield tag(
        "p", f"Written by costguard {costguard.__version__} from {facts.path} on {date(facts.until)}.", class_="quiet"
    )


def _parts(facts: ReportFacts, pictures: Sequence[str], why_none: str) -> Iterator[Child]:
    if facts.empty:
        yield prose(
            "p",
            "Nothing was recorded in this time. A running agent records every minute: see `costguard status`.",
        )
        return
    yield from _figures(facts)
    yield from _still_billed(facts)
    yield from _picture(facts, pictures, why_none)
    stops = [one for one in facts.incidents if one.result not in CALLED_OFF]
    yield from _incidents("Stops", stops, "No stop was announced or carried out.")
    called_off = [one for one in facts.incidents if one.result in CALLED_OFF]
    yield from _incidents(
        "Warnings that ended without a stop", called_off, "No warning was cancelled, vetoed or postponed."
    )
    yield from _holds(facts)
    yield from _keepers(facts)
    yield from _unknown(facts)
    yield from _days(facts)
    yield from _table_of_loads(facts)


SHOWN_SECONDS = 180.0
"""What is shorter would be shown as no hours at all."""


def _figures(facts: ReportFacts) -> Iterator[Child]:
    sums: list[float] = [sum(column) for column in zip(*(day[1:] for day in facts.days), strict=True)] or [0.0] * 4
    off = sum(part.seconds for part in facts.off.values())
    shown = [
        ("a GPU worked", _hours(sums[0])), ("every GPU was quiet", _hours(sums[1])),
        *([("GPUs were unreadable", _hours(sums[2]))] if sums[2] >= SHOWN_SECONDS else []),
        *([("not recorded", _hours(sums[3] - off))] if sums[3] - off >= SHOWN_SECONDS else []),
        ("off after an action", _hours(off)),
        ("cost of the quiet hours", facts.price.words(sums[1]) if facts.price else "unknown"),
        ("saved", _saved(facts.off.values(), facts)),
    ]  # fmt: skip
    if facts.stayed_up:
        saving = facts.price.words(facts.would_count) if facts.price else "unknown"
        shown += [
            ("up after a stop that a dry run only announced", _hours(facts.stayed_up)),
            ("live mode would have saved", saving),
        ]
    yield tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in shown))
    yield prose("p", "".join(_rule(facts)), class_="quiet")


def _rule(facts: ReportFacts) -> Iterator[str]:
    """What the amounts rest on, or why there are none."""
    if facts.price is None:
        yield "No price was recorded, so all money is unknown: set price_per_hour, or use --price 2.50."
        return
    yield f"Money is an estimate. Quiet hours: {facts.price.hourly}. "
    yield "Saved: the hours off after an action at the price of then, up to saving_limit. "
    if facts.stayed_up:
        yield "Live mode: the hours for which the machine stayed up after stops that a dry run only announced, at the same price, up to saving_limit of each."


def _saved(parts: Iterable[Off], facts: ReportFacts) -> str:
    found = list(parts)
    if not found:
        return "nothing" if facts.price else "unknown"
    known = [part.saved for part in found if part.saved is not None]
    return f"about {sum(known):.2f} {facts.price.currency}" if known and facts.price else "unknown"


def _hours(seconds: float) -> str:
    return f"{seconds / 3600.0:.1f} h" if seconds >= 180.0 or seconds < 1.0 else duration(seconds)


def _still_billed(facts: ReportFacts) -> Iterator[Child]:
    yield tag("h2", "What is still billed")
    lines = [line for line in (_machines_bill(facts), _last_stops_bill(facts)) if line]
    lines += [f"After a stop: {text}." for text in facts.bills]
    if lines:
        yield tag("ul", *(prose("li", line) for line in lines))
    else:
        yield tag("p", "Unknown: the history says nothing about it.")


def _machines_bill(facts: ReportFacts) -> str:
    if facts.recorded is None:
        return ""
    if facts.until - facts.recorded < FRESH_SECONDS:
        cost = facts.price.source if facts.price else "its price is unknown"
        return f"This machine: it was on at {date(facts.recorded)} ({cost})."
    words = f"Unknown: nothing was recorded after {date(facts.recorded)}."
    return f"{words} Only the cloud can say whether this machine is billed now: `costguard stop --verify RECEIPT`."


def _last_stops_bill(facts: ReportFacts) -> str:
    last = facts.incidents[-1] if facts.incidents else None
    if last is None or last.mode != "live" or last.result not in UNPROVEN:
        return ""
    return f"The last stop did not prove that the bill ended ({last.id}): {last.words}."


def _picture(facts: ReportFacts, pictures: Sequence[str], why_none: str) -> Iterator[Child]:
    yield tag("h2", "Load, threshold and decisions")
    if not pictures:
        yield prose("p", f"There is no picture here: {why_none or 'it was not drawn'}. The tables below say the same.")
        return
    stand_ins = {stand_in: f"var({style.PREFIX}{name})" for name, stand_in in VARIABLES._asdict().items()}
    label = f"Load of each GPU over time, {_period(facts.since, facts.until)}. The tables below say the same in words."
    drawn = [
        inline(svg, stand_ins, class_=which, role="img", aria_label=label)
        for svg, which in zip(pictures, ("wide", "narrow"), strict=False)
    ]
    yield tag("figure", *drawn)


def _table(names: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: int = 0, caption: str = "") -> Element:
    """A table whose last ``numbers`` columns are numbers; on a phone each row stands alone, with the names in it."""
    first = len(names) - numbers
    kinds = ["number" if place >= first else "text" for place in range(len(names))]
    head = tag("tr", *(tag("th", name, scope="col", class_=kind) for name, kind in zip(names, kinds, strict=True)))
    body = [
        tag(
            "tr",
            tag("th", row[0], scope="row"),
            *(
                tag("td", cell, class_=kind, data_name=name)
                for cell, kind, name in list(zip(row, kinds, names, strict=True))[1:]
            ),
        )
        for row in rows
    ]
    title = tag("caption", caption) if caption else None
    table = tag("table", title, tag("thead", head), tag("tbody", *body), class_="stack")
    return tag("div", table, class_="scroll")


def _latest(rows: Sequence[object], count: int) -> str:
    return f"The latest {len(rows)} of {count}." if len(rows) < count else ""


def _incidents(title: str, incidents: Sequence[IncidentSummary], none: str) -> Iterator[Child]:
    yield tag("h2", title)
    if not incidents:
        yield tag("p", none)
        return
    rows = []
    for one in incidents[: -LISTED - 1 : -1]:
        action = wording_of(one.action).word.removeprefix("the ")
        what = f"{action} (dry run)" if one.mode != "live" else action
        by = f", asked for by {one.owner}" if one.owner else ""
        told = f"{one.delivered} delivered" + (f", {one.undelivered} failed" if one.undelivered else "")
        told += f", {one.in_doubt} perhaps" if one.in_doubt else ""
        told += f"; the warning reached {f'only {one.only}' if one.only else 'nobody'}" if one.unreached else ""
        rows.append(
            (date(one.opened), what, f"{TITLES.get(one.reason, one.reason)}{by}", one.words, one.proof, told, one.id)
        )
    names = ("warned", "action", "why", "outcome", "proof", "messages", "incident")
    yield _table(names, rows, caption=_latest(rows, len(incidents)))
    yield prose("p", "`costguard history INCIDENT` tells one in detail.", class_="quiet")


def _holds(facts: ReportFacts) -> Iterator[Child]:
    yield tag("h2", "Holds")
    if not facts.holds:
        yield tag("p", "Nobody held it.")
        return
    rows = [
        (date(band.begin), "holds now" if band.end >= facts.until else date(band.end), duration(band.end - band.begin), band.words, band.detail or "none given")
        for band in facts.holds[: -LISTED - 1 : -1]
    ]  # fmt: skip
    yield _table(("from", "to", "length", "by", "reason"), rows, caption=_latest(rows, len(facts.holds)))


def _keepers(facts: ReportFacts) -> Iterator[Child]:
    yield tag("h2", "Kept up though its GPUs were idle")
    if not facts.keepers:
        yield tag("p", "No sense kept the machine up when it would have been stopped.")
        return
    rows = [
        (date(one.begun), date(one.ended) if one.ended else "not recorded", duration(one.ended - one.begun) if one.ended else "–", one.words, one.sense, one.by or "–")
        for one in facts.keepers[: -LISTED - 1 : -1]
    ]  # fmt: skip
    names = ("from", "to", "length", "by", "sense", "ended by")
    yield _table(names, rows, caption=_latest(rows, len(facts.keepers)))


def _unknown(facts: ReportFacts) -> Iterator[Child]:
    yield tag("h2", "Unknown times")
    if not facts.unknown:
        yield tag("p", "Every GPU could be read whenever it was looked at.")
        return
    yield tag(
        "p", "A GPU that cannot be read never counts as idle: nothing is stopped meanwhile, and the bill goes on."
    )
    rows = [
        (date(one.begin), date(one.end), facts.labels.get(one.gpu, one.gpu), duration(one.seconds))
        for one in facts.unknown
    ]
    caption = _latest(rows, len(rows) + facts.unknown_left_out)
    yield _table(("from", "to", "GPU", "unknown for"), rows, numbers=1, caption=caption)


def _days(facts: ReportFacts) -> Iterator[Child]:
    yield tag("h2", "Hours of each day")
    names = ["day", "worked", "quiet", "unknown", "not recorded", "off", "cost of quiet hours", "saved"]
    yield _table(
        names, [_day(day, facts.off.get(day.date), facts) for day in reversed(facts.days)], numbers=len(names) - 1
    )


def _day(day: Day, off: Off | None, facts: ReportFacts) -> tuple[str, ...]:
    away = off.seconds if off else 0.0
    hours = (day.works, day.quiet, day.unknown, max(0.0, day.unwatched - away), away)
    cost = facts.price.words(day.quiet) if facts.price else "unknown"
    return (day.date, *map(_hours, hours), cost, _saved([off] if off else [], facts))


def _table_of_loads(facts: ReportFacts) -> Iterator[Child]:
    """The picture for those who do not see it."""
    if not facts.stretches:
        return
    limit = "" if facts.threshold is None else f" A GPU counts as idle below {percent(facts.threshold)}."
    rows = [
        (
            times.period(stretch.begin, stretch.end), _label(span.gpu, facts.labels), _load(span.mean), _load(span.high),
            duration(span.known), duration(span.unknown) if span.unknown else "–",
        )
        for stretch in facts.stretches for span in stretch.gpus
    ]  # fmt: skip
    names = ("time", "GPU", "mean load", "highest", "read for", "unknown for")
    table = _table(names, rows, numbers=4, caption=f"{several(len(rows), 'row')}.{limit}")
    yield tag("details", tag("summary", tag("h2", "The picture as a table")), table)


def _label(gpu: str, labels: Mapping[str, str]) -> str:
    return labels.get(gpu, gpu)


def _load(share: float | None) -> str:
    return "unknown" if share is None else f"{share * 100:.0f} %"


def _period(since: float, until: float) -> str:
    return f"{date(since)} to {date(until)}"
