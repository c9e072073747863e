"""The history's file: whole batches, once, and not for ever."""

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from costguard.history import BY, USERS, store
from costguard.history.job import EventRow
from tests.unit.history.conftest import NOW, batch

DAY = 86400.0
LOCK = """
import fcntl, sys
fcntl.lockf(0, fcntl.LOCK_SH)
print("locked", flush=True)
import time; time.sleep(600)
"""


def rows(path: Path, what: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as database:
        return database.execute(f"SELECT {what}").fetchall()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state/history.sqlite"


def test_a_batch_that_comes_twice_counts_once(path: Path) -> None:
    """The guard repeats a batch whose answer it did not get; nothing is added up twice."""
    assert store.save(batch(path)) == []
    assert store.save(batch(path)) == []
    assert rows(path, "known, mean FROM minutes") == [(60.0, 0.5)]
    assert rows(path, "works FROM quarters") == [(60.0,)]
    assert rows(path, "count(*) FROM events") == [(1,)]


def test_what_became_of_a_delivery_is_written_once(path: Path) -> None:
    """The writer of a guard that was killed may end after the next guard has had the same written; another delivery of the message is another fate."""
    rows_of = [
        ("outcome", {"effect": "m1", "begun": 7.25}), ("delivery", {"effect": "m1", "begun": 7.25}), ("delivery", {"effect": "m1", "begun": 9.5}),
        ("delivery", {"effect": "m2"}), ("delivery", {"effect": "m2"}), ("delivery", 7), ("told", {"effect": "m1", "begun": 7.25}),
    ]  # fmt: skip
    for number, (kind, data) in enumerate(rows_of):
        events = (EventRow("i1", NOW, kind, json.dumps(data)),)
        store.save(batch(path, f"b{number}")._replace(events=events, gpus=(), machine=()))
    found = [(kind, json.loads(str(data))) for kind, data in rows(path, "kind, data FROM events")]
    assert found == [row for number, row in enumerate(rows_of) if number != 1]


def test_two_parts_of_a_minute_are_added_up(path: Path) -> None:
    """After a restart within a minute: the mean by time, extremes over both, unknown keeps its numbers apart."""
    minute = int(NOW) // 60 * 60
    store.save(batch(path, "b1", gpus=[[minute, "a", 30.0, 0.0, 0.2, 0.4, 0.6]]))
    store.save(batch(path, "b2", gpus=[[minute, "a", 10.0, 5.0, 0.0, 0.0, 0.1]]))
    store.save(batch(path, "b3", gpus=[[minute, "a", 0.0, 7.0, None, None, None]]))
    assert rows(path, "known, unknown, low, mean, high FROM minutes") == [(40.0, 12.0, 0.0, pytest.approx(0.3), 0.6)]


def test_everybody_may_read_it_and_only_the_owner_writes(path: Path) -> None:
    """An auditor need not be root."""
    store.save(batch(path))
    assert path.stat().st_mode & 0o777 == 0o644


def test_old_rows_go(path: Path) -> None:
    """Minutes after 35 days, everything else after 400."""
    for name, age in (("new", 1.0), ("minute", 36 * DAY), ("all", 401 * DAY)):
        wall = int(NOW - age) // 60 * 60
        part = {"gpus": [[wall, "a", 60.0, 0.0, 0, 0, 0]], "machine": [[wall, 60.0, 0, 0]]}
        store.save(batch(path, name, **part, events=[["i", wall, "told", "{}"]], dated=False))
    store.save(batch(path, "last", gpus=[], machine=[], events=[]))
    assert rows(path, "count(*) FROM minutes") == [(1,)]
    assert rows(path, "count(*) FROM quarters") == [(2,)]
    assert rows(path, "count(*) FROM events") == [(2,)]


def test_a_wrong_clock_deletes_nothing(path: Path) -> None:
    """What a clock that is not synchronised takes for old stays."""
    store.save(batch(path))
    store.save(batch(path, "b2", wall=NOW + 1000 * DAY, dated=False, gpus=[], machine=[], events=[]))
    assert rows(path, "count(*) FROM minutes") == [(1,)]


@pytest.mark.parametrize("how", ["transaction", "lock"])
def test_a_reader_that_never_ends_stops_no_writing(path: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody may read, with an open transaction or a lock on every byte; who reads on sees what was there when he began."""
    monkeypatch.setattr(store, "LOCK_SECONDS", 0.01)
    store.save(batch(path))
    with (
        closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)) as reader,
        path.open("rb") as file,
    ):
        if how == "transaction":
            reader.execute("BEGIN")
            assert reader.execute("SELECT count(*) FROM events").fetchall() == [(1,)]
        else:  # a read lock is all that a descriptor for reading can have, in another process than this one
            locked = subprocess.Popen([sys.executable, "-c", LOCK], stdin=file, stdout=subprocess.PIPE)
            assert locked.stdout is not None
            assert locked.stdout.readline() == b"locked\n"
        for number in (2, 3):
            assert store.save(batch(path, f"b{number}")) == []
            assert rows(path, "count(*) FROM events") == [(number,)]
        if how == "transaction":
            assert reader.execute("SELECT count(*) FROM events").fetchall() == [(1,)]
        else:
            locked.kill()
            locked.communicate()
    assert path.stat().st_mode & 0o777 == 0o644
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert store.save(batch(path, "b3")) == []
    assert rows(path, "count(*) FROM events") == [(3,)]


def test_what_users_cause_pushes_out_none_of_what_the_guard_did(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two quotas in one file; what a user writes cannot make a row pass for another kind."""
    monkeypatch.setattr(store, "EVENTS_KEPT", 5)
    monkeypatch.setattr(store, "USERS_EVENTS_KEPT", 3)
    begin = json.dumps({BY: USERS}, separators=(",", ":"))[:-1]
    own = [["i", NOW, "go", json.dumps({"effect": number, "reason": begin})] for number in range(4)]
    store.save(batch(path, events=own))
    for number in range(20):
        users = [
            ["", NOW, "released", json.dumps({BY: USERS, "owner": f"{number} {each}"}, separators=(",", ":"))]
            for each in "ab"
        ]
        store.save(batch(path, f"flood {number}", events=users))
    assert rows(path, "count(*) FROM events WHERE kind = 'go'") == [(4,)]
    assert rows(path, "count(*) FROM events WHERE kind = 'released'") == [(3,)]
    store.save(batch(path, "more", events=own))
    assert rows(path, "count(*) FROM events WHERE kind = 'go'") == [(5,)]
    assert rows(path, "count(*) FROM events WHERE kind = 'released'") == [(3,)]


def test_the_file_is_bounded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many events or too many bytes: the oldest go, whatever their age."""
    monkeypatch.setattr(store, "EVENTS_KEPT", 3)
    monkeypatch.setattr(store, "MOST_BYTES", 64 << 10)
    start = int(NOW) - 1_000_000
    for number in range(10):
        gpus = [[start + 60 * (500 * number + i), "a", 60.0, 0.0, 0.0, 0.0, 0.0] for i in range(500)]
        store.save(batch(path, f"b{number}", gpus=gpus))
    assert rows(path, "count(*) FROM events") == [(3,)]
    kept = rows(path, "min(minute), count(*) FROM minutes")[0]
    assert kept[0] > start  # type: ignore[operator]  # a number
    assert path.stat().st_size < 256 << 10


@pytest.mark.parametrize(
    "content", [b"no database at all, but long enough to be one" * 200, b"SQLite format 3\0" + b"\xff" * 4096]
)
def test_a_damaged_file_is_moved_aside_and_told(path: Path, content: bytes) -> None:
    """The history begins anew; what was there is kept for whoever can read it."""
    path.parent.mkdir()
    path.write_bytes(content)
    notes = store.save(batch(path))
    assert len(notes) == 1
    assert "is damaged: moved aside to" in notes[0]
    assert path.with_name("history.sqlite.bad-1").read_bytes() == content
    assert rows(path, "count(*) FROM minutes") == [(1,)]


def test_another_version_is_moved_aside_and_told(path: Path) -> None:
    """Neither guessed at nor overwritten."""
    store.save(batch(path))
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 99")
    assert "has an unknown version (99, this costguard uses 1): moved aside" in store.save(batch(path))[0]
    assert rows(path.with_name("history.sqlite.bad-1"), "count(*) FROM minutes") == [(1,)]


def test_a_batch_that_cannot_be_written_leaves_nothing_behind(path: Path) -> None:
    """Whole or not at all."""
    store.save(batch(path))
    with pytest.raises(sqlite3.IntegrityError):
        store.save(batch(path, "b2", events=[["i", NOW, None, "{}"]]))
    assert rows(path, "count(*) FROM batches") == [(1,)]
    assert rows(path, "known FROM minutes") == [(60.0,)]
