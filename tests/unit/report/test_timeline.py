"""What is drawn, against what was recorded."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costguard.history import query, store
from costguard.history.query import Event
from costguard.report import bands, facts, timeline
from costguard.report.timeline import Timeline, TimeSlot
from costguard.testing.simhost import Phase
from tests.unit.report.conftest import Recorded, record

SINCE = 1_790_000_040.0 // 60 * 60


def drawn(rows: Sequence[Sequence[Any]], minutes: int, slots: int) -> Timeline:
    """Of rows of the table of minutes."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(store._TABLES)
        database.executemany("INSERT INTO minutes VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        return timeline.read(database, [], SINCE, SINCE + 60.0 * minutes, slots)


def row(minute: int, known: float, unknown: float, load: float) -> tuple[object, ...]:
    loads = (load / 2.0, load, min(1.0, load * 1.5)) if known else (None, None, None)
    return (SINCE + 60 * minute, "a", known, unknown, *loads)


ROWS = st.dictionaries(
    st.integers(0, 59),
    st.tuples(st.sampled_from([0.0, 20.0, 60.0, 105.0]), st.sampled_from([0.0, 10.0, 60.0]), st.floats(0.0, 1.0)),
    max_size=60,
).map(lambda found: {minute: values for minute, values in found.items() if values[0] + values[1]})


@settings(max_examples=150)
@given(ROWS, st.sampled_from([60, 20, 7]))
def test_unknown_is_no_number_and_nothing_is_lost(rows: dict[int, tuple[float, float, float]], slots: int) -> None:
    """Seconds known and unknown are those of the rows; a load stands only where one was read, and between its extremes."""
    found = drawn([row(minute, *values) for minute, values in rows.items()], 60, slots)
    slots_of = [slot for lane in found.lanes for slot in lane.slots]
    assert sum(slot.known for slot in slots_of) == pytest.approx(sum(known for known, _, _ in rows.values()))
    assert sum(slot.unknown for slot in slots_of) == pytest.approx(sum(unknown for _, unknown, _ in rows.values()))
    for number, slot in enumerate(slots_of):
        assert (slot.mean is None) == (slot.known == 0.0), "nothing read, no load"
        if slot.mean is not None:
            assert slot.low is not None
            assert slot.high is not None
            assert slot.low - 1e-9 <= slot.mean <= slot.high + 1e-9
        begin, end = found.slot(number)
        over = 2 * 60.0 if slot.recorded else 0.0  # time that ended later, in a minute with more than it has
        assert slot.recorded <= any(begin - 1 <= SINCE + 60 * minute < end + over for minute in rows)


def test_time_that_ended_in_the_next_minute_began_in_the_one_before() -> None:
    """The guard looks rarely at a machine that rests: a minute without a row is no hole where the next one has its seconds."""
    found = drawn([row(0, 60.0, 0.0, 0.5), row(2, 105.0, 0.0, 0.5)], 3, 3)
    (lane,) = found.lanes
    assert [round(slot.known) for slot in lane.slots] == [60, 45, 60]
    assert found.missing == ()


def test_what_nobody_recorded_is_neither_unknown_nor_quiet() -> None:
    """A hole between two records is one; what is not written yet is none."""
    rows = [row(minute, 60.0, 0.0, 0.5) for minute in (*range(10), *range(30, 55))]
    found = drawn(rows, 60, 60)
    assert found.missing == ((SINCE + 600.0, SINCE + 1800.0),)
    assert found.lanes[0].slots[15] == TimeSlot()


@pytest.mark.parametrize("value", ["abc", b"\xff", float("inf"), -3.0, 1e300, None])
@pytest.mark.parametrize("place", [2, 3, 4, 5, 6])
def test_a_row_that_is_none_breaks_nothing(value: object, place: int) -> None:
    """SQLite keeps anything in any column: what is no load is not drawn as one."""
    rows = [list(row(minute, 60.0, 0.0, 0.5)) for minute in range(3)]
    rows[1][place] = value if value is not None or place > 3 else 0.0
    for slot in drawn(rows, 3, 3).lanes[0].slots:
        assert slot.mean is None or 0.0 <= slot.mean <= 1.0
        assert slot.known >= 0.0
        assert slot.unknown >= 0.0


def test_gpus_come_by_number_and_the_latest_of_too_many() -> None:
    """GPU 10 after GPU 9; of names that nobody has any more the older ones are left out, and counted."""
    rows = [(SINCE + 60 * (number // 4), f"k{number:02}", 60.0, 0.0, 0.1, 0.1, 0.1) for number in range(20)]
    found = drawn(rows, 10, 10)
    assert len(found.lanes) == timeline.GPUS_DRAWN
    assert found.left_out == 4
    assert found.lanes[0].key == "k04"
    assert sorted(["GPU 10 (x)", "GPU 9 (x)", "b"], key=timeline._by_number) == ["GPU 9 (x)", "GPU 10 (x)", "b"]


def test_of_sixty_four_the_busiest_are_drawn() -> None:
    """One that works, or cannot be read, keeps the machine up: it is in the picture, whatever its number; of equal ones the first are."""
    rows: list[Sequence[Any]] = []
    for gpu in range(64):
        seen: Sequence[Any] = {40: (60.0, 0.0, 0.5, 0.9, 0.95), 50: (0.0, 60.0, None, None, None)}.get(
            gpu, (60.0, 0.0, 0.0, 0.0, 0.0)
        )
        rows += [(SINCE + 60 * n, f"k{gpu:02}", *seen) for n in range(10)]
    found = drawn(rows, 10, 10)
    assert found.left_out == 64 - timeline.GPUS_DRAWN
    assert [lane.key for lane in found.lanes] == [
        *(f"k{gpu:02}" for gpu in range(timeline.GPUS_DRAWN - 2)),
        "k40",
        "k50",
    ]


def test_the_machine_is_shown_only_while_it_was_recorded() -> None:
    """Its row is made of quarters of an hour: what nobody looked at in one of them was not quiet."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(store._TABLES)
        database.executemany(
            "INSERT INTO minutes VALUES (?, ?, ?, ?, ?, ?, ?)", [row(n, 60.0, 0.0, 0.0) for n in range(5)]
        )
        quarter = SINCE // store.QUARTER * store.QUARTER
        rows = [(quarter, 0.0, 60.0, 0.0), (quarter + store.QUARTER, 0.0, 240.0, 0.0)]
        database.executemany("INSERT INTO quarters VALUES (?, ?, ?, ?)", rows)
        found = timeline.read(database, [], SINCE, SINCE + 3600.0, 60)
    assert found.missing
    assert max(share.end for share in found.shares) == SINCE + 300.0


def test_a_gpu_that_always_works_has_its_name(tmp_path: Path) -> None:
    """No phase ends, so none tells it: in the first hours, and when all that named it was days ago."""
    found = record(tmp_path, 2, [Phase(9e9, 0.9)], 4 * 86400.0, interval=120.0)
    for until in (found.since + 7200.0, found.until):
        since = until - 3600.0
        with query.reading(found.path) as database:
            drawn = timeline.read(database, query.events(database, since), since, until, 60)
            listed = facts.read(database, found.path, since, until, None)
        assert [lane.label for lane in drawn.lanes] == [f"GPU {n} (NVIDIA H100 80GB HBM3)" for n in (0, 1)]
        assert list(listed.labels.values()) == [lane.label for lane in drawn.lanes]


def test_a_day_of_the_real_guard(day: Recorded) -> None:
    """Names, threshold, what was unknown, and each decision in its time."""
    found = day.timeline()
    assert [lane.label for lane in found.lanes] == [f"GPU {number} (NVIDIA H100 80GB HBM3)" for number in range(4)]
    assert found.threshold == 0.05
    with query.reading(day.path) as database:
        counted = database.execute("SELECT sum(works), sum(quiet), sum(unknown) FROM quarters").fetchone()
    assert [sum(share[place] for share in found.shares) for place in (2, 3, 4)] == pytest.approx(list(counted))
    assert all(before.end <= after.begin for before, after in pairwise(found.shares))
    unknown = [sum(slot.unknown for slot in lane.slots) for lane in found.lanes]
    assert unknown[2] == pytest.approx(2400.0, abs=60.0)
    assert unknown[0] == unknown[1] == unknown[3] == 0.0
    kinds = [band.kind for band in found.bands]
    assert bands.COUNTDOWN in kinds
    assert bands.ACTED in kinds
    hold = next(band for band in found.bands if band.kind == bands.HOLD)
    assert hold.begin - day.since == pytest.approx(10000.0, abs=2.0)
    assert hold.words == "uid 4242"
    assert all(band.begin <= band.end <= found.until for band in found.bands)


def event(wall: float, kind: str, incident: str = "i1", **data: object) -> Event:
    return Event(incident, wall, kind, "i", "box", data)


def told(wall: float, name: str, **facts: object) -> Event:
    return event(wall, "told", name=name, facts=facts)


def test_a_phase_ends_with_the_record_of_it() -> None:
    """A machine that went off while it was being stopped was not being stopped all night."""
    events = [event(100.0, "phase", to="CONFIRMING", action="stop")]
    (band,) = bands.found(events, 0.0, 90000.0, [(0.0, 300.0), (50000.0, 90000.0)])
    assert (band.kind, band.begin, band.end) == (bands.REQUESTED, 100.0, 300.0 + bands.SEEN_AGAIN_SECONDS)


def test_a_phase_that_began_before_goes_on() -> None:
    """Of the time before nothing is asked: it is not drawn."""
    events = [event(100.0, "phase", to="DONE", action="stop", done="would")]
    (band,) = bands.found(events, 5000.0, 9000.0, [(5000.0, 9000.0)])
    assert (band.begin, band.end) == (5000.0, 9000.0)
    assert bands.found(events, 5000.0, 9000.0, [(7000.0, 9000.0)])[0].end == 5000.0 + bands.SEEN_AGAIN_SECONDS


@pytest.mark.parametrize(
    ("done", "kind"),
    [("acted", bands.ACTED), ("would", bands.WOULD), ("cannot", bands.STUCK), ("unknown", bands.STUCK)],
)
def test_what_was_done_is_told_apart(done: str, kind: str) -> None:
    """A dry run did nothing; of what cannot be done, or nobody knows of, the bill may go on."""
    (band,) = bands.found([event(100.0, "phase", to="DONE", action="stop", done=done)], 0.0, 400.0, [(0.0, 400.0)])
    assert band.kind == kind


def test_a_countdown_says_when_it_ends_while_it_runs_and_what_became_of_it_later() -> None:
    """Its date is the one of the message."""
    events = [
        event(100.0, "phase", to="WARNING", action="stop"),
        told(100.0, "warning", due_wall=700.0, mode="live", action="stop"),
    ]
    (band,) = bands.found(events, 0.0, 400.0, [(0.0, 400.0)])
    assert band.due == 700.0
    assert band.words.startswith("stop at ")
    (band,) = bands.found([*events, event(300.0, "phase", to="WATCHING")], 0.0, 400.0, [(0.0, 400.0)])
    assert (band.end, band.due, band.words) == (300.0, None, "stop called off")


def test_a_countdown_is_drawn_for_as_long_as_it_had_its_guard() -> None:
    """It ended with the guard, and began anew with the next warning; so it does not read as one that went on."""
    events = [
        event(100.0, "phase", to="WARNING", action="stop"), told(100.0, "warning", due_wall=700.0, mode="live", action="stop"),
        told(200.0, "unguarded"),
    ]  # fmt: skip
    (band,) = bands.found(events, 0.0, 400.0, [(0.0, 400.0)])
    assert (band.begin, band.end, band.words) == (100.0, 200.0, "stop announced")
    again = [*events, told(300.0, "warning", due_wall=900.0, mode="live", action="stop")]
    first, second = bands.found(again, 0.0, 400.0, [(0.0, 400.0)])
    assert (first.end, second.begin, second.due) == (200.0, 300.0, 900.0)


def test_a_warning_that_the_history_does_not_have_yet_is_drawn_from_its_facts() -> None:
    """Once, also where the history has it."""
    facts = {"wall": 100.0, "due_wall": 700.0, "mode": "dry-run", "action": "stop"}
    for events in ([], [event(100.0, "phase", to="WARNING", action="stop")]):
        (band,) = bands.found(events, 0.0, 120.0, [(0.0, 120.0)], facts)
        assert (band.kind, band.due) == (bands.COUNTDOWN, 700.0)
        assert band.words.startswith("dry run: stop at ")


def test_holds_of_two_people_end_one_by_one() -> None:
    """A release ends the releaser's; what is released by root ends all that are not named as left."""
    events = [
        told(10.0, "held", owner="uid 1", hold_until_wall=500.0, hold="a"),
        told(20.0, "held", owner="uid 2", hold_until_wall=900.0, hold="b"),
        told(100.0, "hold_ended", owner="uid 1", hold="released", holders=["uid 2"]),
    ]
    found = {band.words: (band.begin, band.end) for band in bands.holds(events, 2000.0)}
    assert found == {"uid 1": (10.0, 100.0), "uid 2": (20.0, 900.0)}
    root = [*events, told(200.0, "hold_ended", owner="uid 0", hold="released", holders=[])]
    assert {band.words: band.end for band in bands.holds(root, 2000.0)} == {"uid 1": 100.0, "uid 2": 200.0}
    longer = [*events[:2], event(30.0, "held", owner="uid 1", hold_until_wall=700.0, hold="a")]
    assert {band.words: band.end for band in bands.holds(longer, 2000.0)}["uid 1"] == 700.0
    silent = [*events[:2], event(50.0, "released", owner="uid 2")]
    assert {band.words: band.end for band in bands.holds(silent, 2000.0)} == {"uid 1": 500.0, "uid 2": 50.0}


def test_the_time_off_is_the_one_that_was_closed() -> None:
    """Without both dates nothing is drawn."""
    events = [
        told(900.0, "closed", stopped_wall=100.0, started_wall=800.0),
        told(950.0, "closed", stopped_wall=None, started_wall=900.0),
    ]
    assert [(band.begin, band.end) for band in bands.found(events, 0.0, 1000.0)] == [(100.0, 800.0)]


@pytest.mark.parametrize("garbage", [None, 3, "x", [], {"wall": "x"}, {"gpus": 4}])
def test_events_that_say_nothing_break_nothing(garbage: Any) -> None:
    """A torn history has any."""
    for kind in ("told", "phase", "released"):
        for name in ("held", "hold_ended", "closed", "warning"):
            data = {"name": name, "facts": garbage, "gpus": garbage, "to": garbage, "action": garbage}
            assert bands.found([Event("", 5.0, kind, "", "", data)], 0.0, 10.0) == []
            bands.labels([Event("", 5.0, kind, "", "", data)])
