"""Read the history, also while the agent writes it. Nothing here writes."""

import json
import os
import sqlite3
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any, NamedTuple
from urllib.parse import quote

from costguard.errors import REFUSED, CostguardError
from costguard.history import store

LOCK_SECONDS = 5.0
"""How long to wait for the writer, which holds its lock for milliseconds."""

_FACTS = "SELECT incident, wall, kind, instance, machine, data FROM events"


class Event(NamedTuple):
    """One recorded event.

    ``kind``: phase, told, outcome, delivery, prepare, go, abandon, confirm, hook, held (told to nobody), released, lost, keeps, let_go, devices.
    """

    incident: str
    wall: float
    kind: str
    instance: str
    machine: str
    data: Mapping[str, Any]

    @classmethod
    def of(cls, row: Sequence[Any]) -> "Event":
        """From a row of `_FACTS`, whose text may be anything."""
        try:
            data = json.loads(row[5])
        except ValueError:
            data = {}
        incident, wall, kind, instance, machine, _data = row
        return cls(incident, wall, kind, instance, machine, data if isinstance(data, dict) else {})

    @property
    def message_kind(self) -> str:
        """The kind of message, where this is one."""
        return str(self.data.get("name")) if self.kind == "told" else ""

    @property
    def facts(self) -> Mapping[str, Any]:
        """The facts of a message; empty for any other event."""
        facts = self.data.get("facts") if self.kind == "told" else None
        return facts if isinstance(facts, Mapping) else {}


class Day(NamedTuple):
    """One day in local time; hours are in seconds. ``unwatched``: the machine was off, or no agent ran."""

    date: str
    works: float
    quiet: float
    unknown: float
    unwatched: float


class GpuSpan(NamedTuple):
    """One GPU over a stretch of time. Seconds, and loads from 0 to 1 (None: never read)."""

    gpu: str
    known: float
    unknown: float
    low: float | None
    mean: float | None
    high: float | None


class HistoryError(CostguardError):
    """The history cannot be read."""


@contextmanager
def reading(path: str) -> Iterator[sqlite3.Connection]:
    """Open the file read-only. Raises HistoryError, also for SQLite errors inside the block."""
    try:
        kind = os.stat(path).st_mode
    except PermissionError:
        hint = "run it with sudo, or name a folder of your own with --state-dir"
        raise HistoryError(f"{path}: permission denied for its folder", hint, REFUSED) from None
    except OSError:
        hint = "a running agent writes it after its first minute: see `costguard status`, or name its folder with --state-dir"
        raise HistoryError(f"there is no history at {path}", hint, REFUSED) from None
    if not stat.S_ISREG(kind):  # opening a pipe would wait for ever
        raise HistoryError(
            f"{path} cannot be read: it is not a regular file", "remove it; the agent writes a new one", REFUSED
        )
    try:
        with closing(sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, timeout=LOCK_SECONDS)) as database:
            if store.is_empty(database):
                hint = "the agent could not write to it (is the disk full?): see `costguard status`"
                raise HistoryError(f"nothing is recorded yet in {path}", hint, REFUSED)
            if (version := store.version_of(database)) != store.VERSION:
                message = f"{path} has version {version}, but this costguard reads version {store.VERSION}"
                raise HistoryError(message, "read it with the costguard that wrote it", REFUSED)
            yield database
    except sqlite3.Error as error:
        hint = "try again with sudo; the agent moves a damaged file aside when it writes next"
        raise HistoryError(f"{path} cannot be read: {error}", hint, REFUSED) from error


def days(database: sqlite3.Connection, since: float, now: float) -> list[Day]:
    """Every day from ``since`` (or the first record) until today, also those without a record.

    The part of a quarter of an hour before the first record, or not written yet, is left out.
    """
    rows = database.execute(
        "SELECT start, works, quiet, unknown FROM quarters WHERE start >= ? AND start <= ? ORDER BY start", (since, now)
    ).fetchall()
    if not rows:
        return []
    found: dict[str, list[float]] = {}
    begin = float(rows[0][0])
    while begin < now:
        end = next_midnight(begin)
        found[_date(begin)] = [0.0, 0.0, 0.0, min(end, now) - begin]
        begin = end
    for start, *seconds in rows:
        day = found[_date(start)]
        for place, value in enumerate(seconds):
            day[place] += value
        recent = now - start < 2 * store.QUARTER
        if start == rows[0][0] or recent:
            length = now - start if recent and start == rows[-1][0] else min(store.QUARTER, now - start)
            day[3] -= max(0.0, length - sum(seconds))
    return [Day(date, w, q, u, max(0.0, length - w - q - u)) for date, (w, q, u, length) in found.items()]


class Totals(NamedTuple):
    """Seconds of a stretch of time, as in a `Day`."""

    works: float
    quiet: float
    unknown: float


def totals(database: sqlite3.Connection, since: float, until: float) -> Totals:
    """The sum of the quarters of an hour that begin from ``since`` on and before ``until``."""
    row = database.execute(
        "SELECT total(works), total(quiet), total(unknown) FROM quarters WHERE start >= ? AND start < ?", (since, until)
    ).fetchone()
    return Totals(*row)


def quarter_of(wall: float) -> float:
    """The beginning of the quarter of an hour of that date."""
    return wall // store.QUARTER * store.QUARTER


def quarters_between(database: sqlite3.Connection, since: float, until: float) -> tuple[float, float] | None:
    """The first and the last recorded quarter of an hour that begins from ``since`` on, and not after ``until``.

    All before the last one is written, while its own seconds may still grow.
    """
    text = "SELECT min(start), max(start) FROM quarters WHERE start >= ? AND start <= ?"
    earliest, latest = database.execute(text, (since, until)).fetchone()
    return None if earliest is None else (float(earliest), float(latest))


def phase_before(database: sqlite3.Connection, wall: float) -> Event | None:
    """The last change of phase before a date: what still stood then."""
    row = database.execute(f"{_FACTS} WHERE kind = 'phase' AND wall < ? ORDER BY id DESC LIMIT 1", (wall,)).fetchone()
    return None if row is None else Event.of(row)


def watched(database: sqlite3.Connection, since: float, until: float) -> float:
    """Seconds between two dates for which the machine was on and looked at, to a quarter of an hour.

    A quarter that a date lies in counts by its part on this side of it: two stretches add up to the whole.
    """
    row = database.execute(
        "SELECT total((works + quiet + unknown) * (min(start + :quarter, :until) - max(start, :since)) / :quarter)"
        " FROM quarters WHERE start + :quarter > :since AND start < :until",
        {"quarter": store.QUARTER, "since": since, "until": until},
    ).fetchone()
    return float(row[0])


def first(database: sqlite3.Connection, since: float) -> float:
    """The date of the first record from ``since`` on, to the minute; 0 when there is none."""
    quarter, minute, event = (
        database.execute(f"SELECT min({column}) FROM {table} WHERE {column} >= ?", (since,)).fetchone()[0]  # noqa: S608 - of the pairs below
        for column, table in (("start", "quarters"), ("minute", "minutes"), ("wall", "events"))
    )
    if quarter is not None and minute is not None and minute < quarter + store.QUARTER:
        quarter = minute
    return min((float(date) for date in (quarter, event) if date is not None), default=0.0)


def events(database: sqlite3.Connection, since: float, incident: str | None = None) -> list[Event]:
    """Events in order: of one incident; or, after ``since``, those of no incident and all of each incident that went on."""
    if incident is not None:
        rows = database.execute(f"{_FACTS} WHERE incident = ? ORDER BY id", (incident,))
    else:
        recent = "incident != '' AND incident IN (SELECT incident FROM events WHERE wall >= ?)"
        rows = database.execute(f"{_FACTS} WHERE {recent} OR (incident = '' AND wall >= ?) ORDER BY id", (since, since))
    return [Event.of(row) for row in rows]


def newest(database: sqlite3.Connection, kinds: Sequence[str], most: int) -> list[Event]:
    """The last events of some kinds, ``most`` of them at most, in order."""
    marks = ", ".join("?" * len(kinds))
    rows = database.execute(f"{_FACTS} WHERE kind IN ({marks}) ORDER BY id DESC LIMIT ?", (*kinds, most)).fetchall()
    return [Event.of(row) for row in reversed(rows)]


def find(database: sqlite3.Connection, name: str) -> str:
    """The id of an incident: ``last``, the whole id, or its end (``i12``). Raises HistoryError."""
    rows = database.execute("SELECT incident FROM events WHERE incident != '' GROUP BY incident ORDER BY max(id)")
    known = [str(row[0]) for row in rows]
    found = known[-1:] if name == "last" else [i for i in known if i == name or i.endswith(f"-{name}")]
    if len(found) == 1:
        return found[0]
    if not known:
        message = "no incident is recorded: no agent has warned or acted here"
    elif found:
        message = f"{name} matches several incidents: {', '.join(found)}"
    else:
        message = f"there is no incident {name}; the last ones are {', '.join(known[-3:])}"
    raise HistoryError(message, "`costguard history` lists them all", REFUSED)


def loads(database: sqlite3.Connection, since: float, until: float) -> list[GpuSpan]:
    """What each GPU did between two dates, from the roll-ups (kept for 35 days)."""
    rows = database.execute(
        "SELECT gpu, sum(known), sum(unknown), min(low), sum(known * mean) / sum(CASE WHEN mean IS NOT NULL THEN known END),"
        " max(high) FROM minutes WHERE minute >= ? AND minute < ? GROUP BY gpu ORDER BY gpu",
        (since, until),
    )
    return [GpuSpan(*row) for row in rows]


def _date(wall: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(wall))


def next_midnight(wall: float) -> float:
    """The end of that day, in local time."""
    now = time.localtime(wall)
    return time.mktime((now.tm_year, now.tm_mon, now.tm_mday + 1, 0, 0, 0, 0, 0, -1))
