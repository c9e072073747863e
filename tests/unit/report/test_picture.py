"""The process that draws: in time, or not at all, and never at somebody else's cost."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from matplotlib.font_manager import FontManager

from costguard.history import FILE
from costguard.process.command_lines import command_lines
from costguard.process.wire import to_line
from costguard.report import draw, worker
from costguard.report.job import DrawJob, PictureFormat
from costguard.report.palette import LIGHT
from costguard.report.picture import CACHE, PHONE, Drawer, picture
from tests.unit.report.conftest import Recorded


def lacking(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation with another matplotlib."""
    (folder / "matplotlib.py").write_text(text)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    assert str(folder) in command_lines()["picture"][-1]


def test_a_picture_is_what_the_history_holds(day: Recorded) -> None:
    """The function for messages: a PNG, the very one that a page would have."""
    data = picture(str(day.folder), day.since, day.until, "box")
    assert data is not None
    assert data == draw.picture(day.timeline(), PHONE.width, LIGHT).png(PHONE.scale)
    assert len(data) < 500_000


@pytest.mark.parametrize("damage", ["none", "empty", "torn", "garbage", "version", "folder", "pipe"])
def test_without_a_whole_history_there_is_no_picture_and_no_error(day: Recorded, tmp_path: Path, damage: str) -> None:
    """Whatever lies there; soon."""
    path = tmp_path / FILE
    if damage == "empty":
        path.write_bytes(b"")
    elif damage == "garbage":
        path.write_bytes(b"x" * 9000)
    elif damage == "folder":
        path.mkdir()
    elif damage == "pipe":
        os.mkfifo(path)
    elif damage != "none":
        shutil.copy(day.path, path)
        if damage == "torn":
            os.truncate(path, 20000)
        else:
            with sqlite3.connect(path) as database:
                database.execute("PRAGMA user_version = 9")
            database.close()
    began = time.monotonic()
    assert picture(str(tmp_path), day.since, day.until, seconds=15.0) is None
    assert time.monotonic() - began < 14.0


def test_what_takes_too_long_is_given_up_in_time(
    day: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library that hangs: the process is ended."""
    lacking(tmp_path, "import time; time.sleep(60)", monkeypatch)
    drawer = Drawer(DrawJob(str(day.folder), day.since, day.until, forms=(PHONE,)))
    assert drawer._child is not None
    pid = drawer._child.pid
    found = drawer.png(time.monotonic() + 0.2)
    assert (found.data, found.why) == (b"", "it was not drawn in time")
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize(
    ("text", "missing", "words"),
    [
        ("raise ModuleNotFoundError(\"No module named 'matplotlib'\", name='matplotlib')", True, "matplotlib is not installed"),
        ("raise ImportError('half an upgrade')", False, "matplotlib cannot be used: ImportError: half an upgrade"),
        ("import os; os._exit(3)", False, "the process that draws failed"),
        ("import os; os.write(1, b'no json\\n'); raise OSError('x')", False, "matplotlib cannot be used: OSError: x"),
    ],
)  # fmt: skip
def test_a_library_that_is_lacking_or_broken_is_said(
    day: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, missing: bool, words: str
) -> None:
    """In words, and whether it is there at all."""
    lacking(tmp_path, text, monkeypatch)
    with Drawer(DrawJob(str(day.folder), day.since, day.until, forms=(PHONE,))) as drawer:
        found = drawer.png(time.monotonic() + 15.0)
    assert (found.data, found.missing) == (b"", missing)
    assert found.why.startswith(words)


def test_a_warning_waits_for_its_own_record_but_not_long(day: Recorded) -> None:
    """The writer of the history starts at the same moment: an incident that is not there yet is waited for, within limits."""
    began = time.monotonic()
    job = DrawJob(
        str(day.folder), day.since, day.until, forms=(PictureFormat("svg", 420.0),), incident="not-there", patience=0.3
    )
    found = worker._read(job)
    assert 0.3 <= time.monotonic() - began < 5.0
    assert found.lanes, "it is drawn without it"
    known = worker._read(job._replace(incident=_incident(day), patience=60.0))
    assert known.bands == found.bands


def test_a_young_machine_has_no_hours_before_its_first(day: Recorded) -> None:
    """The picture begins with the record, and shows half an hour at least, where so much was asked for."""
    job = DrawJob(str(day.folder), day.since - 86400.0, day.until, forms=(PHONE,))
    assert abs(worker._read(job).since - day.since) < 900.0
    assert worker._read(job._replace(until=day.since + 60.0)).since == pytest.approx(
        day.since + 60.0 - 1800.0, abs=60.0
    )
    assert worker._read(job._replace(since=day.until - 600.0)).since == pytest.approx(day.until - 600.0, abs=60.0)


def _incident(day: Recorded) -> str:
    with sqlite3.connect(day.path) as database:
        (name,) = database.execute("SELECT incident FROM events WHERE incident != '' LIMIT 1").fetchone()
    database.close()
    return str(name)


def test_the_process_obeys_nobody_elses_settings(
    day: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file with settings of the library in the working directory, which may be anybody's, changes nothing."""
    before = picture(str(day.folder), day.since, day.until)
    (tmp_path / "matplotlibrc").write_text("backend: module://evil\nhatch.linewidth: 40\naxes.linewidth: 90\n")
    monkeypatch.chdir(tmp_path)
    assert picture(str(day.folder), day.since, day.until) == before


def test_a_lock_that_was_left_behind_is_not_waited_for(day: Recorded, tmp_path: Path) -> None:
    """One who was ended while the library wrote its list of fonts: each later one would wait five seconds, and be late."""
    shutil.copy(day.path, tmp_path / FILE)
    cache = tmp_path / CACHE
    cache.mkdir()
    lock = cache / f"fontlist-v{FontManager.__version__}.json.matplotlib-lock"
    lock.touch()
    os.utime(lock, (1e9, 1e9))
    assert picture(str(tmp_path), day.since, day.until) is not None
    assert not lock.exists()
    assert (cache / lock.name.removesuffix(".matplotlib-lock")).exists(), "the list is kept for the next one"


def test_its_memory_is_small(day: Recorded) -> None:
    """Beside a training job whose memory may be nearly full: below 120 MB at its peak."""
    job = DrawJob(str(day.folder), day.since, day.until, forms=(PHONE,))
    script = (
        "import sys; from costguard.report import worker; from costguard.report.job import DrawJob;"
        "from costguard.process.wire import from_line; answer = worker.draw(from_line(DrawJob, sys.stdin.readline()));"
        "assert answer.pictures, answer.error; print(open('/proc/self/status').read().partition('VmHWM:')[2].split()[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], input=to_line(job) + b"\n", capture_output=True, check=True, timeout=60
    )
    assert int(json.loads(done.stdout)) < 120_000
