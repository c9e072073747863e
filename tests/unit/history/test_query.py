"""Reading the history."""

import calendar
import json
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from costguard.errors import REFUSED
from costguard.history import query, store
from tests.unit.history.conftest import NOW, batch

HOUR = 3600.0


def at(text: str) -> float:
    """A date in UTC."""
    return float(calendar.timegm(time.strptime(text, "%Y-%m-%d %H:%M")))


def machine(start: float, seconds: float, kind: int) -> list[list[float]]:
    """Machine minutes of one kind (0 works, 1 quiet, 2 unknown)."""
    return [
        [start + 60 * i, *(60.0 if kind == place else 0.0 for place in range(3))] for i in range(int(seconds // 60))
    ]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "history.sqlite")


@pytest.mark.usefixtures("central_europe")
def test_days_are_local_days_and_what_nobody_saw_is_not_watched(path: str) -> None:
    """Midnight is the reader's; a day without any record is listed; today counts until now, the first from its first."""
    rows = machine(at("2026-11-20 22:00"), 2 * HOUR, 0)  # 23:00 to 01:00 in central Europe
    rows += machine(at("2026-11-20 22:00"), 0.5 * HOUR, 2) + machine(at("2026-11-23 00:00"), HOUR, 1)
    store.save(batch(path, machine=rows))
    with query.reading(path) as database:
        days = query.days(database, 0.0, at("2026-11-23 02:00"))
    assert days == [
        ("2026-11-20", HOUR, 0.0, 0.5 * HOUR, 0.0),
        ("2026-11-21", HOUR, 0.0, 0.0, 23 * HOUR),
        ("2026-11-22", 0.0, 0.0, 0.0, 24 * HOUR),
        ("2026-11-23", 0.0, HOUR, 0.0, 2 * HOUR),
    ]


def test_the_quarter_under_way_is_not_unwatched(path: str) -> None:
    """An agent that began ten seconds ago missed nothing before; nor is missing what is not written down yet."""
    begin = at("2026-11-20 12:10")
    store.save(batch(path, machine=[[begin, 9.0, 0.0, 0.0]]))
    with query.reading(path) as database:
        (day,) = query.days(database, 0.0, begin + 10.0)
        assert (day.works, day.unwatched) == (9.0, 0.0)
        (later,) = query.days(database, 0.0, begin + 4 * HOUR)
    assert later.unwatched == pytest.approx(4 * HOUR - 300.0), "what nobody saw since then"


@pytest.mark.usefixtures("central_europe")
def test_the_day_on_which_summer_time_ends_has_25_hours(path: str) -> None:
    """Hours are counted, not assumed."""
    rows = machine(at("2026-10-23 22:00"), HOUR, 0) + machine(at("2026-10-24 22:00"), HOUR, 1)
    store.save(batch(path, machine=rows + machine(at("2026-10-26 00:00"), HOUR, 1)))
    with query.reading(path) as database:
        saturday, sunday, _monday = query.days(database, 0.0, at("2026-10-26 01:00"))
    assert saturday == ("2026-10-24", HOUR, 0.0, 0.0, 23 * HOUR)
    assert sunday == ("2026-10-25", 0.0, HOUR, 0.0, 24 * HOUR)


def test_a_day_does_not_lose_hours_to_double_counting(path: str) -> None:
    """More seconds than a day has (a date set back) are never minus hours elsewhere."""
    store.save(batch(path, machine=[[NOW - 60, 500.0, 0.0, 0.0]]))
    with query.reading(path) as database:
        assert all(day.unwatched >= 0.0 for day in query.days(database, 0.0, NOW))


def test_what_gpus_did_before_comes_from_the_minutes(path: str) -> None:
    """Mean by time, extremes over all, unknown apart; a GPU that was never read has no number."""
    gpus = [
        [NOW - 120, "a", 60.0, 0.0, 0.1, 0.2, 0.3],
        [NOW - 60, "a", 20.0, 40.0, 0.0, 0.6, 0.9],
        [NOW - 60, "b", 0.0, 60.0, None, None, None],
        [NOW - 7200, "a", 60.0, 0.0, 1.0, 1.0, 1.0],
    ]
    store.save(batch(path, gpus=gpus))
    with query.reading(path) as database:
        one, other = query.loads(database, NOW - HOUR, NOW)
    assert one.mean == pytest.approx(0.3)
    assert one._replace(mean=None) == ("a", 80.0, 40.0, 0.0, None, 0.9)
    assert tuple(other) == ("b", 0.0, 60.0, None, None, None)


def test_an_incident_is_found_by_its_id_its_end_or_as_the_last(path: str) -> None:
    """An end that fits several is refused with all of them; so is a name that fits none."""
    events = [[name, NOW, "phase", "{}"] for name in ("aa-i1", "bb-i1", "aa-i12", "")]
    store.save(batch(path, events=events))
    with query.reading(path) as database:
        assert query.find(database, "aa-i1") == "aa-i1"
        assert query.find(database, "i12") == "aa-i12"
        assert query.find(database, "last") == "aa-i12"
        with pytest.raises(query.HistoryError, match="several incidents: aa-i1, bb-i1"):
            query.find(database, "i1")
        with pytest.raises(query.HistoryError, match="there is no incident 12; the last ones are"):
            query.find(database, "12")


def test_no_incident_at_all_is_said(path: str) -> None:
    """`history last` on a quiet machine is no riddle."""
    store.save(batch(path, events=[]))
    with query.reading(path) as database, pytest.raises(query.HistoryError, match="no incident is recorded"):
        query.find(database, "last")


def test_a_missing_a_damaged_and_a_foreign_file_are_told(path: str) -> None:
    """What is wrong, what to do, exit code 3; nothing is changed by looking."""
    with pytest.raises(query.HistoryError, match="there is no history at") as missing, query.reading(path):
        pass
    assert missing.value.exit_code == REFUSED
    assert "costguard status" in missing.value.hint
    Path(path).touch()
    with pytest.raises(query.HistoryError, match="nothing is recorded yet") as empty, query.reading(path):
        pass
    assert "disk full" in empty.value.hint
    Path(path).write_bytes(b"x" * 5000)
    with pytest.raises(query.HistoryError, match="cannot be read: file is not a database"), query.reading(path):
        pass
    assert Path(path).read_bytes() == b"x" * 5000
    Path(path).unlink()
    store.save(batch(path))
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 7")
    with pytest.raises(query.HistoryError, match="has version 7"), query.reading(path):
        pass


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_not_waited_for(path: str, make: Callable[[str], None]) -> None:
    """Opening a pipe waits until somebody writes to it."""
    make(path)
    with pytest.raises(query.HistoryError, match="it is not a regular file"), query.reading(path):
        pass


def test_events_come_in_the_order_in_which_they_were_recorded(path: str) -> None:
    """Also after the date was set back; data that is no JSON object is empty, never an error."""
    events = [["i", NOW, "phase", '{"to":"WARNING"}'], ["i", NOW - 50, "told", "garbage"], ["", NOW, "lost", "[]"]]
    store.save(batch(path, events=events))
    with query.reading(path) as database:
        found = query.events(database, 0.0)
        assert [(event.kind, event.data) for event in found] == [
            ("phase", {"to": "WARNING"}),
            ("told", {}),
            ("lost", {}),
        ]
        assert [event.wall for event in query.events(database, 0.0, "i")] == [NOW, NOW - 50]
        assert [event.kind for event in query.events(database, NOW - 1)] == ["phase", "told", "lost"]
        assert json.dumps([event._asdict() for event in found])


def test_an_incident_that_began_before_is_told_whole(path: str) -> None:
    """Of what happened since a date, also the earlier part: an end without its warning would mislead."""
    events = [
        ["i", NOW - 500, "phase", "{}"],
        ["", NOW - 500, "told", "{}"],
        ["i", NOW, "phase", "{}"],
        ["j", 1.0, "phase", "{}"],
    ]
    store.save(batch(path, events=events, dated=False))
    with query.reading(path) as database:
        assert [event.wall for event in query.events(database, NOW - 100)] == [NOW - 500, NOW]


def test_any_user_can_read_what_the_owner_writes() -> None:
    """From a folder that this user cannot write."""
    with tempfile.TemporaryDirectory() as folder:  # the folders of pytest are closed to others
        Path(folder).chmod(0o755)
        store.save(batch(f"{folder}/history.sqlite"))
        user = os.geteuid()
        os.seteuid(user or 65534)
        try:
            with query.reading(f"{folder}/history.sqlite") as database:
                assert len(query.events(database, 0.0)) == 1
        finally:
            os.seteuid(user)
