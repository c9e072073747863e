"""A replay as people and programs read it: the time line, and the numbers side by side."""

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from costguard.engine.policy import Policy
from costguard.engine.words import date_and_second, duration, several
from costguard.money import Rate, rate
from costguard.replay import fleet
from costguard.replay.prevented import Prevented
from costguard.replay.run import TimelineEntry, Walked
from costguard.replay.summary import HOUR, ReplaySummary, Tally, total
from costguard.replay.trace import Recording, Trace

COLUMNS = 4
"""Policies that are shown side by side; more get a line each."""

Row = tuple[str, "list[str]"]
Prices = dict[str, Rate | None]


class PolicyRun(NamedTuple):
    """One policy on one machine; ``walked`` is None where the decisions were only counted."""

    label: str
    trace: Trace
    policy: Policy
    account: Tally
    walked: Walked | None
    prevented: tuple[Prevented, ...] = ()

    @property
    def machine(self) -> fleet.MachineSummary:
        """What a fleet is summed up from."""
        return fleet.MachineSummary(self.trace.name, self.account.summary, self.account.stops)

    @property
    def decisions(self) -> tuple[TimelineEntry, ...]:
        """The time line."""
        return self.walked.decisions if self.walked is not None else ()


def heading(name: str, recording: Recording) -> Iterator[str]:
    """What was recorded."""
    traces = recording.traces
    spans = [trace.times[-1] - trace.times[0] for trace in traces]
    if len(traces) == 1:
        trace = traces[0]
        ends = (trace.times[0], trace.times[-1])
        zones = " and ".join(dict.fromkeys(time.strftime("%Z", time.localtime(wall)) for wall in ends))
        yield (
            f"{name}: {several(len(trace.devices), 'GPU')}, {several(recording.rows, 'row')}, "
            f"{date_and_second(ends[0])} to {date_and_second(ends[1])} ({duration(spans[0])}), "
            f"a sample every {step(trace.interval)}; times are local, {zones}"
        )
    else:
        yield f"{name}: {several(len(traces), 'machine')}, {several(recording.rows, 'row')}, {sum(spans) / 3600:.0f} machine-hours"


def step(seconds: float) -> str:
    """The time between two samples."""
    return f"{seconds:.4g} s" if seconds < HOUR else duration(seconds)


def line(decision: TimelineEntry, machine: str = "") -> str:
    """One line of the time line."""
    return (
        f"{date_and_second(decision.wall)}  {machine + '  ' if machine else ''}{decision.kind:<9}  {decision.sentence}"
    )


def _hours(value: float) -> str:
    return f"{value:.1f} h" if value < 1000 else f"{value:.0f} h"


def _range(sure: int, in_doubt: int) -> str:
    return f"{sure} to {sure + in_doubt}" if in_doubt else str(sure)


def rate_of(policy: Policy) -> Rate | None:
    """The price of the machine under this policy; None when it names none."""
    return rate(policy.price_per_hour, policy.currency, {})


def _money(hours: float, price: Rate | None) -> str:
    return f", {price.words(hours * HOUR)}" if price else ""


def _per_month(summary: ReplaySummary) -> list[tuple[str, str]]:
    """The mean of several machines: what came of it on one of them in a month."""
    found = fleet.rates(summary)
    if summary.machines < 2 or not found:
        return []

    def until(sure: float, doubt: float) -> str:
        return f"{sure:.2f} to {sure + doubt:.2f}" if doubt else f"{sure:.2f}"

    return [
        ("per machine and month: stops", until(found["stops"], found["in_doubt"])),
        ("  work came back", until(found["back_ever"], found["in_doubt_ever"])),
        ("  hours recovered", _hours(found["recovered"])),
    ]


def fleet_words(results: Sequence[PolicyRun]) -> Iterator[str]:
    """Of several machines: those that are hit most, and the wrong stops, for each policy as far as they are columns."""
    groups: dict[str, list[fleet.MachineSummary]] = {}
    for result in results:
        groups.setdefault(result.label, []).append(result.machine)
    if len(groups) > COLUMNS or len(next(iter(groups.values()), [])) < 2:
        return
    for label, machines in groups.items():
        yield from fleet.words(machines, f" under {label}" if len(groups) > 1 else "")


def _rows(summary: ReplaySummary, price: Rate | None) -> list[tuple[str, str]]:
    share = f" ({summary.share * 100:.0f} % of idle)" if summary.share is not None else ""
    holes = f" ({_hours(summary.holes)} of it gaps)" if summary.holes else ""
    unseen = f" ({summary.unseen_within_hour} unknown)" if summary.unseen_within_hour else ""
    clean, torn = summary.recovered_clean, summary.recovered_interrupted
    return [
        ("recorded", _hours(summary.hours) + holes),
        ("idle", _hours(summary.idle) + _money(summary.idle, price)),
        ("work", _hours(summary.work)),
        ("unknown", _hours(summary.unknown)),
        ("warnings", str(summary.warnings)),
        ("cancelled", str(summary.cancelled) + (f" ({summary.in_doubt} in doubt)" if summary.in_doubt else "")),
        ("stops", _range(summary.stops, summary.in_doubt)),
        ("work came back within an hour", _range(summary.back_within_hour, summary.in_doubt_within_hour) + unseen),
        ("work came back at all", _range(summary.back_ever, summary.in_doubt_ever)),
        ("hours recovered", _hours(summary.recovered) + _money(summary.counted, price) + share),
        ("  clean, nothing came back", _hours(clean) + _money(summary.counted_clean, price)),
        ("  work was interrupted", _hours(torn) + _money(summary.counted_interrupted, price)),
        *_per_month(summary),
    ]


def table(results: Sequence[PolicyRun]) -> Iterator[str]:
    """The numbers, one column for each policy; one line for each when there are many."""
    groups: dict[str, list[ReplaySummary]] = {}
    for result in results:
        groups.setdefault(result.label, []).append(result.account.summary)
    sums = {label: total(group) for label, group in groups.items()}
    prices = {result.label: rate_of(result.policy) for result in results}
    yield from _upright(sums, prices) if len(sums) <= COLUMNS else _flat(sums, prices)
    for source in dict.fromkeys(price.source for price in prices.values() if price):
        yield f"money: {source}"
    yield from _limits(results, sums, prices)


def _limits(results: Sequence[PolicyRun], sums: dict[str, ReplaySummary], prices: Prices) -> Iterator[str]:
    """For how long a stop counts as money at most, where that is less than the hours that are shown."""
    limits = {result.label: result.policy.saving_limit for result in results}
    cut = [
        label for label, summary in sums.items() if prices[label] and 0.0 < summary.counted < summary.recovered - 1e-9
    ]
    for limit in dict.fromkeys(limits[label] for label in cut):
        yield f"money: of each stop at most {duration(limit or 0.0)} count as saved (saving_limit)"


def senses(results: Sequence[PolicyRun]) -> Iterator[str]:
    """What each sense was worth, under each policy; nothing where no sense was recorded."""
    several_policies = len({result.label for result in results}) > 1
    for (label, name), found in _by_sense(results).items():
        stops = found.right + found.wrong
        under = f" under {label}" if several_policies else ""
        if not stops:
            yield f"{name}{under}: prevented no stop"
            continue
        wrong = f", and after {found.wrong} none did ({_hours(found.hours)} more)" if found.wrong else ""
        yield f"{name}{under}: prevented {several(stops, 'stop')}; after {found.right} of them a GPU worked again{wrong}"


def _by_sense(results: Sequence[PolicyRun]) -> dict[tuple[str, str], Prevented]:
    """By policy and sense, over all machines."""
    found: dict[tuple[str, str], Prevented] = {}
    for result in results:
        for one in result.prevented:
            before = found.get((result.label, one.sense), Prevented(one.sense, 0, 0, 0.0))
            sums = (before.right + one.right, before.wrong + one.wrong, before.hours + one.hours)
            found[result.label, one.sense] = Prevented(one.sense, *sums)
    return found


def _upright(sums: dict[str, ReplaySummary], prices: Prices) -> Iterator[str]:
    columns = [[label, *[value for _, value in _rows(summary, prices[label])]] for label, summary in sums.items()]
    names = ["", *[name for name, _ in _rows(next(iter(sums.values())), None)]]
    widths = [max(map(len, column)) for column in columns]
    for position, name in enumerate(names):
        cells = [column[position].rjust(width) for column, width in zip(columns, widths, strict=True)]
        if position or len(sums) > 1:
            yield f"{name:<30}" + "   ".join(cells)


def _flat(sums: dict[str, ReplaySummary], prices: Prices) -> Iterator[str]:
    head = [
        "policy",
        "idle",
        "stops",
        "back < 1 h",
        "back unknown",
        "ever",
        "recovered",
        "of idle",
        "clean",
        "interrupted",
    ]
    many = any(summary.machines > 1 for summary in sums.values())
    head += ["stops per machine and month", "ever"] if many else []
    head += ["recovered money"] if any(prices.values()) else []
    rows = [head]
    for label, summary in sums.items():
        share = f"{summary.share * 100:.0f} %" if summary.share is not None else ""
        numbers = [
            _range(summary.stops, summary.in_doubt),
            _range(summary.back_within_hour, summary.in_doubt_within_hour),
            str(summary.unseen_within_hour),
            _range(summary.back_ever, summary.in_doubt_ever),
        ]
        hours = [_hours(summary.recovered_clean), _hours(summary.recovered_interrupted)]
        price = prices[label]
        money = [price.words(summary.counted * HOUR) if price else ""] if any(prices.values()) else []
        month = [value for _, value in _per_month(summary)[:2]] or [""] * 2 if many else []
        rows.append([label, _hours(summary.idle), *numbers, _hours(summary.recovered), share, *hours, *month, *money])
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    for row in rows:
        first, *rest = zip(row, widths, strict=True)
        yield (first[0].ljust(first[1]) + "   " + "   ".join(cell.rjust(width) for cell, width in rest)).rstrip()


def as_json(
    names: Sequence[str],
    recording: Recording,
    results: Sequence[PolicyRun],
    notes: Sequence[str],
    *,
    timeline: bool = True,
) -> dict[str, object]:
    """Everything for programs: seconds since the epoch, hours. ``timeline``: with every decision."""
    policies: dict[str, list[PolicyRun]] = {}
    for result in results:
        policies.setdefault(result.label, []).append(result)
    return {
        "file": names[0],
        "files": list(names),
        "rows": recording.rows,
        "machines": [
            {
                "name": trace.name,
                "gpus": [device._asdict() for device in trace.devices],
                "samples": len(trace.times),
                "from": trace.times[0],
                "to": trace.times[-1],
                "interval": trace.interval,
            }
            for trace in recording.traces
        ],
        "notes": list(notes),
        "policies": [
            {
                "policy": label,
                "summary": _numbers(total(result.account.summary for result in group)),
                "money": _amounts(total(result.account.summary for result in group), group[0].policy),
                "fleet": fleet.facts([result.machine for result in group]),
                "senses": [one._asdict() for one in _by_sense(group).values()],
                "machines": [_machine(result, timeline=timeline) for result in group],
            }
            for label, group in policies.items()
        ],
    }


def _amounts(summary: ReplaySummary, policy: Policy) -> dict[str, object] | None:
    """Estimates for the hours of a summary; None where no price is known."""
    if (price := rate_of(policy)) is None:
        return None
    hours = {
        "idle": summary.idle,
        "recovered": summary.counted,
        "recovered_clean": summary.counted_clean,
        "recovered_interrupted": summary.counted_interrupted,
    }
    return {name: round(price.cost(spent * HOUR), 4) for name, spent in hours.items()} | price.facts


def _numbers(summary: ReplaySummary) -> dict[str, object]:
    return {name: value if isinstance(value, int) else round(value, 9) for name, value in summary._asdict().items()} | {
        "share": summary.share
    }


def _machine(result: PolicyRun, *, timeline: bool) -> dict[str, object]:
    decisions = [
        {
            "at": decision.wall,
            "kind": decision.kind,
            "state": decision.state,
            "sentence": decision.sentence,
            "in_doubt": decision.in_doubt,
        }
        for decision in result.decisions
    ]
    walked = result.walked if timeline else None
    stops = [
        {"at": stop.wall, "back": stop.back, "recovered": stop.recovered / HOUR, "seen_for_hour": stop.seen}
        for stop in result.account.stops
    ]
    return {
        "machine": result.trace.name,
        "decisions": decisions if walked else None,
        "stops": stops,
        "steps": walked.steps if walked else None,
    }
