"""The history's file: its tables, one transaction per batch, and how long things are kept."""

import errno
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

from costguard.history import BY, USERS
from costguard.history.job import Batch

VERSION = 1
"""Of the tables (``PRAGMA user_version``); a file of another version is moved aside."""

MINUTES_KEPT_SECONDS = 35 * 86400.0
LONG_KEPT_SECONDS = 400 * 86400.0
"""For events and quarters of an hour."""

MOST_BYTES = 256 << 20
"""In a larger file the oldest minutes are deleted first."""

EVENTS_KEPT = 50_000
USERS_EVENTS_KEPT = 5_000
"""Events of the guard, and those that users caused: users cannot push out the guard's."""

BATCHES_KEPT = 1000
QUARTER = 900
"""Seconds; in every time zone a day begins at a whole quarter of an hour."""

LOCK_SECONDS = 1.0
"""How long to wait for readers. Any user may read, and so may lock the file for ever: then the history goes on in a copy,
which takes the file's place."""

_OF_USERS = json.dumps({BY: USERS}, separators=(",", ":"))[:-1] + "*"
"""The beginning of the data of a user's event; what people write cannot forge it, since quotes are escaped."""

_SURPLUS = """
DELETE FROM events WHERE (data GLOB ?) = ?
    AND id <= (SELECT id FROM events WHERE (data GLOB ?) = ? ORDER BY id DESC LIMIT 1 OFFSET ?)
"""

_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_UNUSABLE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_TABLES = """
CREATE TABLE minutes (
    minute INTEGER NOT NULL, gpu TEXT NOT NULL, known REAL NOT NULL, unknown REAL NOT NULL,
    low REAL, mean REAL, high REAL, PRIMARY KEY (minute, gpu)) WITHOUT ROWID;
CREATE TABLE quarters (start INTEGER PRIMARY KEY, works REAL NOT NULL, quiet REAL NOT NULL, unknown REAL NOT NULL);
CREATE TABLE events (
    id INTEGER PRIMARY KEY, incident TEXT NOT NULL, wall REAL NOT NULL, kind TEXT NOT NULL,
    instance TEXT NOT NULL, machine TEXT NOT NULL, data TEXT NOT NULL);
CREATE INDEX events_of ON events (incident, id);
CREATE TABLE batches (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE);
"""
_MINUTE = """
INSERT INTO minutes VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (minute, gpu) DO UPDATE SET
    low = min(coalesce(low, excluded.low), coalesce(excluded.low, low)),
    high = max(coalesce(high, excluded.high), coalesce(excluded.high, high)),
    mean = CASE WHEN known + excluded.known > 0 THEN
        (known * coalesce(mean, 0) + excluded.known * coalesce(excluded.mean, 0)) / (known + excluded.known) END,
    known = known + excluded.known, unknown = unknown + excluded.unknown
"""
_QUARTER = """
INSERT INTO quarters VALUES (?, ?, ?, ?) ON CONFLICT (start) DO UPDATE SET
    works = works + excluded.works, quiet = quiet + excluded.quiet, unknown = unknown + excluded.unknown
"""


class VersionError(Exception):
    """The file was written by another version of costguard."""


def save(batch: Batch) -> list[str]:
    """Write one batch, atomically and idempotently.

    Returns notes for people, such as that a damaged file was moved aside. Raises OSError and sqlite3.Error.
    """
    path = batch.path
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    try:
        _save_despite_readers(path, batch)
    except VersionError as error:
        why = str(error)
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF not in _UNUSABLE:
            raise
        why = "is damaged"
    else:
        return []
    note = _move_aside(path, why)
    _save(path, batch)
    return [note]


def _save_despite_readers(path: str, batch: Batch) -> None:
    try:
        _save(path, batch)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF not in _LOCKED:
            raise
    else:
        return
    copy = f"{path}.new"
    try:
        _copy(path, copy)
        _save(copy, batch)
        if os.path.lexists(f"{path}-journal"):  # SQLite would roll it back into the new file
            raise OSError(errno.EBUSY, "another process keeps it locked", path)
        os.rename(copy, path)
    finally:
        for left in (copy, f"{copy}-journal"):
            with suppress(FileNotFoundError):
                os.unlink(left)


def _copy(path: str, copy: str) -> None:
    """Copy the file as readers see it; those who have it open keep the old one."""
    with suppress(FileNotFoundError):
        os.unlink(copy)
    os.close(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
    with closing(sqlite3.connect(path, timeout=LOCK_SECONDS, isolation_level=None)) as old:
        old.execute("VACUUM INTO ?", (copy,))


def _save(path: str, batch: Batch) -> None:
    with opened(path) as database:
        database.execute("BEGIN IMMEDIATE")
        database.execute("INSERT OR IGNORE INTO batches (id) VALUES (?)", (batch.batch,))
        # asked of SQLite: where Turkish is spoken Python takes INSERT for no change, and counts no rows
        if database.execute("SELECT changes()").fetchone()[0]:
            _insert(database, batch)
            if batch.dated:  # a wrong clock must not delete what a right one has written
                retain(database, batch.wall)
        database.execute("COMMIT")


@contextmanager
def opened(path: str) -> Iterator[sqlite3.Connection]:
    """Open the file for the one writer, and create it when it is missing; raises VersionError and sqlite3.Error."""
    if not os.path.exists(path):
        # readable by all, like the status: an auditor need not be root
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
    with closing(sqlite3.connect(path, timeout=LOCK_SECONDS, isolation_level=None)) as database:
        version = version_of(database)
        if is_empty(database):
            database.executescript(f"BEGIN; {_TABLES} PRAGMA user_version = {VERSION}; COMMIT;")
        elif version != VERSION:
            raise VersionError(f"has an unknown version ({version}, this costguard uses {VERSION})")
        yield database


def is_empty(database: sqlite3.Connection) -> bool:
    """Whether the file was created, and its tables were not: the disk was full just then, perhaps."""
    return version_of(database) == 0 and not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]


def version_of(database: sqlite3.Connection) -> int:
    """The version of the tables; 0 for an empty file."""
    return int(database.execute("PRAGMA user_version").fetchone()[0])


def _insert(database: sqlite3.Connection, batch: Batch) -> None:
    database.executemany(_MINUTE, batch.gpus)
    quarters = ((minute // QUARTER * QUARTER, *seconds) for minute, *seconds in batch.machine)
    database.executemany(_QUARTER, quarters)
    place = (batch.instance, os.uname().nodename)
    recorded = _recorded_deliveries(database) if any(kind in OF_DELIVERIES for _, _, kind, _ in batch.events) else set()
    for incident, wall, kind, data in batch.events:
        row = (incident, wall, kind, *place, data)
        begun = _begun(data) if kind in OF_DELIVERIES else None
        if begun is not None and begun in recorded:
            continue
        recorded.add(begun)
        database.execute(
            "INSERT INTO events (incident, wall, kind, instance, machine, data) VALUES (?, ?, ?, ?, ?, ?)", row
        )


OF_DELIVERIES = frozenset(("outcome", "delivery"))
"""Kinds of events that say what became of a delivery: a guard that was killed, and the next one, may both have it written."""

DELIVERIES_COMPARED = 500
"""How many of the newest ones each new one is compared with."""


def _recorded_deliveries(database: sqlite3.Connection) -> set[float | None]:
    """The moments at which deliveries began of which it is written what became of them: by that each is known."""
    kinds = ", ".join("?" * len(OF_DELIVERIES))
    newest = f"SELECT data FROM events WHERE kind IN ({kinds}) ORDER BY id DESC LIMIT {DELIVERIES_COMPARED}"  # noqa: S608 - marks and a number
    return {_begun(data) for (data,) in database.execute(newest, tuple(OF_DELIVERIES))}


def _begun(data: str) -> float | None:
    """When the delivery began of which an event tells; None for what is none."""
    try:
        begun = json.loads(data).get("begun")
    except (ValueError, AttributeError):
        return None
    return begun if isinstance(begun, float) else None


def retain(database: sqlite3.Connection, wall: float) -> None:
    """Delete what is too old or too much."""
    database.execute("DELETE FROM minutes WHERE minute < ?", (wall - MINUTES_KEPT_SECONDS,))
    database.execute("DELETE FROM quarters WHERE start < ?", (wall - LONG_KEPT_SECONDS,))
    database.execute("DELETE FROM events WHERE wall < ?", (wall - LONG_KEPT_SECONDS,))
    for users, kept in ((False, EVENTS_KEPT), (True, USERS_EVENTS_KEPT)):
        those = (_OF_USERS, users)
        database.execute(_SURPLUS, (*those, *those, kept))
    database.execute("DELETE FROM batches WHERE number <= (SELECT max(number) FROM batches) - ?", (BATCHES_KEPT,))
    size, pages, free = (
        int(database.execute(f"PRAGMA {name}").fetchone()[0]) for name in ("page_size", "page_count", "freelist_count")
    )
    if size * (pages - free) > MOST_BYTES:
        first, last = database.execute("SELECT min(minute), max(minute) FROM minutes").fetchone()
        if first is not None:
            database.execute("DELETE FROM minutes WHERE minute <= ?", (first + (last - first) / 10,))


def _move_aside(path: str, why: str) -> str:
    number = 1
    while os.path.lexists(f"{path}.bad-{number}"):
        number += 1
    os.rename(path, f"{path}.bad-{number}")
    journal = f"{path}-journal"  # it belongs to the old file and must not be rolled back into a new one
    if os.path.lexists(journal):
        os.rename(journal, f"{path}.bad-{number}-journal")
    return f"{path} {why}: moved aside to {path}.bad-{number}; a new history begins"
