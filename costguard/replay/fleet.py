"""A replay of many machines: rates per machine and month, the machines with most wrong stops, and when."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from costguard.engine.words import date, duration, several
from costguard.replay.summary import HOUR, ReplaySummary, Stop, total

MONTH = 30 * 24.0
"""Hours."""

SHOWN = 10
"""Machines, and wrong stops, that are shown to people; programs get all of them."""

RATES = ("warnings", "stops", "in_doubt", "back_within_hour", "back_ever", "in_doubt_ever", "recovered")
"""What is given for a machine and month."""


class MachineSummary(NamedTuple):
    """What came of one policy on one machine."""

    name: str
    summary: ReplaySummary
    stops: tuple[Stop, ...]


class Wrong(NamedTuple):
    """A stop after which work came back: where, when, and after how many seconds."""

    machine: str
    at: float
    back: float

    @property
    def after(self) -> float:
        """Seconds from the stop to the first sample with work."""
        return self.back - self.at


def seen_hours(summary: ReplaySummary) -> float:
    """For how long something was recorded: holes dilute no rate."""
    return summary.hours - summary.holes


def rates(summary: ReplaySummary) -> dict[str, float]:
    """The numbers of all machines together for a machine and month; none where nothing was recorded."""
    months = seen_hours(summary) / MONTH
    return {name: getattr(summary, name) / months for name in RATES} if months > 0 else {}


def hit_most(machines: Sequence[MachineSummary]) -> list[MachineSummary]:
    """The machines on which work came back after a stop, or may have; most stops of that kind first."""
    hit = [machine for machine in machines if machine.summary.back_ever or machine.summary.in_doubt]
    return sorted(
        hit, key=lambda made: (-made.summary.back_ever, -made.summary.in_doubt, -made.summary.stops, made.name)
    )


def wrong_stops(machines: Sequence[MachineSummary]) -> list[Wrong]:
    """Every stop after which work came back; the one after which it came soonest is first."""
    found = [
        Wrong(machine.name, stop.wall, stop.back)
        for machine in machines
        for stop in machine.stops
        if stop.back is not None
    ]
    return sorted(found, key=lambda wrong: (wrong.after, wrong.at, wrong.machine))


def facts(machines: Sequence[MachineSummary]) -> dict[str, object]:
    """Everything for programs."""
    summary = total(machine.summary for machine in machines)
    return {
        "machine_months": seen_hours(summary) / MONTH,
        "per_machine_month": rates(summary) or dict.fromkeys(RATES),
        "hit_most": [
            {
                "machine": machine.name,
                "back_ever": machine.summary.back_ever,
                "in_doubt": machine.summary.in_doubt,
                "stops": machine.summary.stops,
            }
            for machine in hit_most(machines)
        ],
        "wrong_stops": [
            {"machine": wrong.machine, "at": wrong.at, "back": wrong.back, "after": wrong.after}
            for wrong in wrong_stops(machines)
        ],
    }


def words(machines: Sequence[MachineSummary], under: str) -> Iterator[str]:
    """The machines that are hit most, and the wrong stops, for people; ``under`` names the policy where there are several."""
    hit, wrong = hit_most(machines), wrong_stops(machines)
    if not hit:
        unseen = total(machine.summary for machine in machines).unseen_within_hour
        but = f"; {several(unseen, 'stop')} cannot be judged, the hour after was not recorded whole" if unseen else ""
        yield f"\nNo stop{under} was followed by work while it was recorded{but}"
        return
    yield f"\nMachines with the most wrong stops{under}{_of(len(hit))}"
    width = max(len(machine.name) for machine in hit[:SHOWN])
    for machine in hit[:SHOWN]:
        summary = machine.summary
        doubt = f", {summary.in_doubt} more in doubt" if summary.in_doubt else ""
        yield (
            f"{machine.name:<{width}}  work came back after {summary.back_ever} of {several(summary.stops, 'stop')}{doubt}, "
            f"in {duration(seen_hours(summary) * HOUR)} of recording"
        )
    if wrong:
        yield f"\nWrong stops{under}, and when work came back{_of(len(wrong), 'soonest first')}"
        width = max(len(stop.machine) for stop in wrong[:SHOWN])
    for stop in wrong[:SHOWN]:
        yield f"{stop.machine:<{width}}  {date(stop.at)}  {duration(stop.after)} later"


def _of(count: int, order: str = "") -> str:
    """``(10 of 2413, soonest first; --json has all)``."""
    cut = f"{SHOWN} of {count}" if count > SHOWN else ""
    remark = ", ".join(filter(None, (cut, order)))
    return f" ({remark}{'; --json has all' if cut else ''})" if remark else ""
