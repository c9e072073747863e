"""The worker that writes history, as the guard runs it."""

import json
import os
import resource
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from costguard.process.command_lines import command_lines
from costguard.process.wire import to_line
from tests.unit.history.conftest import NOW, batch


def run(job: bytes, **options: Any) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        command_lines()["history"], input=job + b"\n", capture_output=True, timeout=30, check=False, **options
    )
    assert done.stderr == b""
    return done.returncode, json.loads(done.stdout)


def test_it_says_how_much_it_saved(tmp_path: Path) -> None:
    """Folders are made; the answer is one line."""
    assert run(to_line(batch(tmp_path / "a/b/history.sqlite"))) == (0, {"error": ""})


@pytest.mark.parametrize(
    ("job", "code", "words"),
    [
        (b"nonsense", 2, "malformed job (it is not JSON)"),
        (b"[]", 2, "malformed job (it is not an object)"),
        (b'{"path":"/tmp/h","batch":"b"}', 2, "malformed job (instance is missing)"),
        (to_line(batch("relative")), 1, "relative is not an absolute path"),
        (to_line(batch("/dev/null/x")), 1, "/dev/null/x"),
        (to_line(batch("/proc/costguard/x")), 1, "/proc/costguard/x"),
    ],
)
def test_a_failure_is_answered_in_words(job: bytes, code: int, words: str) -> None:
    """One line of JSON, no traceback, and an exit code."""
    found, answer = run(job)
    assert found == code
    assert words in answer["error"]


def test_a_disk_that_takes_no_more_is_told_and_harms_nothing(tmp_path: Path) -> None:
    """The file is as it was before, and takes the same batch when there is room again."""
    path = tmp_path / "history.sqlite"
    run(to_line(batch(path)))
    size = path.stat().st_size
    gpus = [[int(NOW) + 60 * i, f"gpu {i}", 60.0, 0.0, 0.0, 0.0, 0.0] for i in range(5000)]
    job = to_line(batch(path, "b2", gpus=gpus))
    limit = size + 8192
    code, answer = run(job, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    assert code == 1
    assert answer["error"].startswith(f"{path}: ")
    assert run(job)[0] == 0
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert database.execute("SELECT count(*) FROM minutes").fetchone() == (5001,)


def test_killed_at_any_moment_every_batch_counts_once(tmp_path: Path) -> None:
    """SIGKILL leaves the whole batch or none of it; the guard sends it again until it is answered."""
    path = tmp_path / "history.sqlite"
    minute = int(NOW) // 60 * 60
    for number in range(12):
        gpus = [[minute + 60 * i, "a", 1.0, 0.0, 0.0, 0.0, 0.0] for i in range(300)]
        job = to_line(batch(path, f"b{number}", gpus=gpus, events=[]))
        with subprocess.Popen(command_lines()["history"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
            assert worker.stdin is not None
            worker.stdin.write(job + b"\n")
            worker.stdin.flush()
            time.sleep(0.04 + 0.005 * number)  # it takes about 70 ms
            worker.kill()
            worker.wait()
        assert run(job)[0] == 0
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT DISTINCT known FROM minutes").fetchall() == [(12.0,)]
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_it_waits_for_a_reader_and_gives_up_in_words(tmp_path: Path) -> None:
    """Somebody who holds the file for long makes the batch late, never lost."""
    path = tmp_path / "history.sqlite"
    job = to_line(batch(path))
    run(job)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("BEGIN EXCLUSIVE")
        code, answer = run(to_line(batch(path, "b2")))
        database.execute("ROLLBACK")
    assert (code, "locked" in answer["error"]) == (1, True)


def test_a_guard_that_is_gone_is_no_error(tmp_path: Path) -> None:
    """Nobody reads the answer: the rows are written all the same, without a traceback."""
    path = tmp_path / "history.sqlite"
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            command_lines()["history"], input=to_line(batch(path)) + b"\n",
            stdout=writer, stderr=subprocess.PIPE, timeout=30, check=False,
        )  # fmt: skip
    finally:
        os.close(writer)
    assert done.stderr == b""
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT count(*) FROM minutes").fetchone() == (1,)


def test_the_writer_loads_no_engine() -> None:
    """It is started for every batch: what it does not need would be paid for each time."""
    ask = "import sys, costguard.history.writer; print([m for m in sys.modules if m.startswith('costguard.engine')])"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
