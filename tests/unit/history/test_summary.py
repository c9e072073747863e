"""A stretch of history in a few numbers: what the machine did, what was done to it, and what that saved."""

import json
from pathlib import Path
from typing import Any

import pytest

from costguard.history import store, summary
from costguard.history.query import HistoryError
from costguard.money import Rate
from tests.unit.history.conftest import NOW, batch

HOUR, DAY = 3600.0, 86400.0
START = NOW - 5 * DAY
PRICE = Rate(36.0, "EUR", "as set")


def told(incident: str, wall: float, name: str, **facts: Any) -> list[object]:
    return [incident, wall, "told", json.dumps({"effect": f"m{wall:.0f}", "name": name, "facts": facts})]


def phase(incident: str, wall: float, before: str, after: str, **more: Any) -> list[object]:
    return [incident, wall, "phase", json.dumps({"from": before, "to": after, "action": "stop", **more})]


def hours(begin: float, works: int = 0, quiet: int = 0) -> list[list[object]]:
    """Machine minutes of so many hours of work, then of quiet."""
    minutes = [*range(works * 60), *range(works * 60, (works + quiet) * 60)]
    first = int(begin) // 60 * 60
    return [[first + m * 60, 60.0 if m < works * 60 else 0.0, 0.0 if m < works * 60 else 60.0, 0.0] for m in minutes]


def recorded(tmp_path: Path, machine: list[Any], events: list[Any]) -> str:
    """In a history that goes on: what is left of the last quarter of an hour belongs to the next summary."""
    path = tmp_path / "history.sqlite"
    on = [[int(NOW) // 60 * 60, 0.0, 0.0, 1.0]]
    store.save(batch(path, gpus=[], machine=[*machine, *on], events=events))
    return str(path)


def test_hours_of_work_and_rest_and_what_the_rest_cost(tmp_path: Path) -> None:
    """From the quarters of an hour, with the price of the machine."""
    found = summary.of(recorded(tmp_path, hours(START, 3, 2), []), START - HOUR, NOW, PRICE)
    assert [found.works, found.quiet, found.idle_cost] == pytest.approx([3 * HOUR, 2 * HOUR, 72.0])
    assert found.currency == "EUR"
    assert (found.stops, found.saved, found.would) == (0, None, 0)


def test_a_dry_run_counts_what_it_would_have_saved_until_work_came_back(tmp_path: Path) -> None:
    """Only time that the machine was on: what somebody switched off himself costs nothing."""
    events = [
        told("i1", START + HOUR, "warning", mode="dry-run"),
        phase("i1", START + HOUR, "WATCHING", "WARNING"),
        phase("i1", START + HOUR + 600, "WARNING", "DONE", done="would"),
        phase("i1", START + 3 * HOUR + 600, "DONE", "WATCHING"),
        phase("i2", START + 4 * HOUR, "WATCHING", "WARNING"),
        phase("i2", START + 4 * HOUR + 600, "WARNING", "DONE", done="would"),
    ]
    found = summary.of(recorded(tmp_path, hours(START, 1, 4), events), START - HOUR, NOW, PRICE)
    assert (found.would, found.warnings, found.stops) == (2, 1, 0)
    assert found.would_off == pytest.approx(2 * HOUR + 3000.0, abs=1800.0)  # two hours, then until the record ends
    assert found.would_save == pytest.approx(found.would_off / HOUR * 36.0)
    limited = summary.of(str(tmp_path / "history.sqlite"), START - HOUR, NOW, PRICE, HOUR / 2)
    assert limited.would_off == found.would_off
    assert limited.would_save == pytest.approx(2 * 18.0), "as in live mode"
    assert (found.uncounted, limited.uncounted) == pytest.approx((0.0, found.would_off - HOUR))


def test_what_was_stopped_what_it_saved_and_what_went_wrong(tmp_path: Path) -> None:
    """Closed incidents with their time off; those that failed are named."""
    closed = {
        "stopped_wall": START,
        "started_wall": START + 4 * HOUR,
        "saved": 144.0,
        "price_per_hour": 36.0,
        "currency": "EUR",
    }
    events = [
        phase("i1", START - 900, "WATCHING", "WARNING"),
        phase("i1", START - 60, "WARNING", "ACTING"),
        told("i1", START + 4 * HOUR, "closed", **closed),
        phase("i2", START + 20 * HOUR, "WATCHING", "WARNING"),
        phase("i2", START + 21 * HOUR, "WARNING", "FAILED", detail="the right is missing"),
        told("", START + 30 * HOUR, "unknown_alarm"),
    ]
    found = summary.of(recorded(tmp_path, hours(START + 4 * HOUR, 1, 1), events), START - DAY, NOW, None)
    assert [found.stops, found.off, found.saved] == pytest.approx([1, 4 * HOUR, 144.0])
    assert found.troubles == ("FAILED: the right is missing",)
    assert found.alarms == 1
    assert found.currency == "EUR", "the price that the messages had"


def test_hours_that_the_limit_kept_out_of_the_money_are_known(tmp_path: Path) -> None:
    """Of stops, and of those that were only told; where all counts there are none."""
    facts = {"stopped_wall": START, "price_per_hour": 36.0, "currency": "EUR"}
    events = [
        told("i1", START + 62 * HOUR, "closed", **facts, started_wall=START + 62 * HOUR, saved=24 * 36.0),
        told("i2", START + 63 * HOUR, "closed", **facts, started_wall=START + 5 * HOUR, saved=5 * 36.0),
    ]
    path = recorded(tmp_path, hours(START, 1, 1), events)
    assert summary.of(path, START, NOW, PRICE).uncounted == pytest.approx(38 * HOUR)
    assert summary.of(path, START + 63 * HOUR, NOW, PRICE).uncounted == pytest.approx(0.0)


def test_what_nearly_happened_and_who_held_it(tmp_path: Path) -> None:
    """Countdowns that work or a person ended, each with its date."""
    events = [
        phase("i1", START, "WATCHING", "WARNING"),
        phase("i1", START + 60, "WARNING", "WATCHING"),
        told("i1", START + 60, "cancelled", why="work was seen"),
        told("", START + 70, "held", owner="uid 7", hold="a run"),
        told("", START + 80, "held", owner="uid 7", hold="a run"),
        told("", START + 90, "held", owner="uid 8"),
    ]
    found = summary.of(recorded(tmp_path, hours(START, 1, 0), events), START - HOUR, NOW, PRICE)
    assert found.nearly == ((START, "cancelled: work was seen"),)
    assert found.holders == (("uid 7", 2), ("uid 8", 1))


@pytest.mark.parametrize(
    ("minutes", "counts"),
    [
        ((-5, -4, -3), [(1, 0), (0, 0)]),
        ((-5, -4, 5), [(1, 0), (0, 0)]),  # that it was seen to be off is no second stop
        ((-5, 5, 6), [(0, 0), (1, 0)]),
        ((5, 6, 7), [(0, 0), (1, 0)]),
        ((-5, 5, None), [(0, 0), (1, 0)]),
        ((-5, None, -4), [(0, 1), (0, 0)]),
        ((-5, None, 4), [(0, 0), (0, 1)]),
    ],
)
def test_what_goes_on_while_a_summary_is_made_is_in_the_next(
    tmp_path: Path, minutes: tuple[int, int | None, int | None], counts: list[tuple[int, int]]
) -> None:
    """With what it came to, and once: stops, and warnings that something ended. The hours have the same two ends."""
    warned, asked, ended = minutes
    monday = int(START) // 900 * 900 + 2 * DAY
    events = [phase("i1", monday + warned * 60, "WATCHING", "WARNING")]
    events += [phase("i1", monday + asked * 60, "WARNING", "ACTING")] if asked is not None else []
    if ended is not None and asked is not None:
        events.append(told("i1", monday + ended * 60, "closed"))
    elif ended is not None:
        events.append(phase("i1", monday + ended * 60, "WARNING", "WATCHING"))
    on = hours(monday - DAY, 0, 30)
    path = recorded(tmp_path, on, sorted(events, key=lambda row: float(str(row[1]))))
    before = summary.of(recorded_until(tmp_path, on, events, monday), monday - DAY, monday + 600.0, PRICE)
    after = summary.of(path, before.until, NOW, PRICE)
    assert before.until == monday
    assert [(one.stops, len(one.nearly)) for one in (before, after)] == counts


def recorded_until(tmp_path: Path, machine: list[list[object]], events: list[list[object]], wall: float) -> str:
    """What stood in the history ten minutes after that date."""
    path = tmp_path / "then.sqlite"
    machine = [row for row in machine if float(str(row[0])) <= wall + 540.0]
    store.save(batch(path, gpus=[], machine=machine, events=[row for row in events if float(str(row[1])) < wall + 600]))
    return str(path)


def test_what_lies_outside_does_not_count(tmp_path: Path) -> None:
    """Neither the week before, nor what a wrong clock dated later."""
    events = [
        told("", START - 9 * DAY, "unknown_alarm"),
        told("", NOW + 9 * DAY, "unknown_alarm"),
        told("", NOW - HOUR, "unknown_alarm"),
    ]
    machine = [*hours(START - 9 * DAY, 5, 0), *hours(START, 1, 0)]
    found = summary.of(recorded(tmp_path, machine, events), START - HOUR, NOW, PRICE)
    assert [found.alarms, found.works] == pytest.approx([1, HOUR])


def test_a_machine_without_history_has_no_summary(tmp_path: Path) -> None:
    """It is an error with words, never a week of nothing."""
    with pytest.raises(HistoryError):
        summary.of(str(tmp_path / "none.sqlite"), START, NOW, PRICE)


def test_a_stop_that_was_only_told_counts_on_in_the_next_week(tmp_path: Path) -> None:
    """A machine that nobody uses is told of once, and costs money every week."""
    events = [
        phase("i1", START - 9 * DAY, "WATCHING", "WARNING"),
        phase("i1", START - 9 * DAY + 600, "WARNING", "DONE", done="would"),
    ]
    found = summary.of(recorded(tmp_path, hours(START, 0, 5), events), START, START + 6 * HOUR, PRICE)
    assert found.would_off == pytest.approx(5 * HOUR, abs=1800.0)
    assert found.would_save == pytest.approx(found.would_off / HOUR * 36.0)


@pytest.mark.parametrize(("limit", "weeks"), [(2 * HOUR, [2.0, 0.0]), (8 * HOUR, [5.0, 3.0]), (None, [5.0, 5.0])])
def test_each_stop_saves_once_however_often_it_is_summed_up(
    tmp_path: Path, limit: float | None, weeks: list[float]
) -> None:
    """In live mode the limit counts from the stop, so it does from the one that was only told."""
    events = [
        phase("i1", START, "WATCHING", "WARNING"),
        phase("i1", START, "WARNING", "DONE", done="would"),
    ]
    path = recorded(tmp_path, [*hours(START, 0, 5), *hours(START + 7 * DAY, 0, 5)], events)
    found = [summary.of(path, since, since + 7 * DAY, PRICE, limit) for since in (START, START + 7 * DAY)]
    assert [one.would_save for one in found] == pytest.approx([36.0 * hour for hour in weeks], abs=10.0)
    assert [one.would_off for one in found] == pytest.approx([5 * HOUR] * 2, abs=1800.0)
