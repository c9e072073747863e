"""The worker that writes history, as the guard runs it."""

import json
import os
import resource
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from costguard.agent.programs import command_lines
from tests.unit.history.conftest import NOW, batch


def run(job: bytes, **options: Any) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        command_lines()["history"], input=job + b"\n", capture_output=True, timeout=30, check=False, **options
    )
    assert done.stderr == b""
    return done.returncode, json.loads(done.stdout)


def test_it_says_how_much_it_saved(tmp_path: Path) -> None:
    """Folders are made; the answer is one line."""
    job = batch() | {"path": str(tmp_path / "a/b/history.sqlite")}
    assert run(json.dumps(job).encode()) == (0, {"saved": 3, "notes": []})


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (b"nonsense", "cannot be read"),
        (b"[]", "no absolute path"),
        (b'{"path":"relative"}', "no absolute path"),
        (b'{"path":"/dev/null/x"}', "history is not written: /dev/null/x"),
        (b'{"path":"/proc/costguard/x"}', "history is not written: /proc/costguard/x"),
    ],
)
def test_a_failure_is_answered_in_words(job: bytes, words: str) -> None:
    """Exit code 1, one line of JSON, no traceback."""
    code, answer = run(job)
    assert code == 1
    assert words in answer["failed"]


def test_a_senseless_batch_is_answered_in_words(tmp_path: Path) -> None:
    """A job that lacks its rows is the guard's bug; it is told, and the worker does not die of it."""
    code, answer = run(json.dumps({"path": str(tmp_path / "h"), "batch": "b"}).encode())
    assert code == 1
    assert "makes no sense" in answer["failed"]


def test_a_disk_that_takes_no_more_is_told_and_harms_nothing(tmp_path: Path) -> None:
    """The file is as it was before, and takes the same batch when there is room again."""
    path = tmp_path / "history.sqlite"
    run(json.dumps(batch() | {"path": str(path)}).encode())
    size = path.stat().st_size
    gpus = [[int(NOW) + 60 * i, f"gpu {i}", 60.0, 0.0, 0.0, 0.0, 0.0] for i in range(5000)]
    job = json.dumps(batch("b2", gpus=gpus) | {"path": str(path)}).encode()
    limit = size + 8192
    code, answer = run(job, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    assert code == 1
    assert answer["failed"].startswith(f"history is not written: {path}: ")
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
        job = json.dumps(batch(f"b{number}", gpus=gpus, events=[]) | {"path": str(path)}).encode()
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
    job = json.dumps(batch() | {"path": str(path)}).encode()
    run(job)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("BEGIN EXCLUSIVE")
        code, answer = run(json.dumps(batch("b2") | {"path": str(path)}).encode())
        database.execute("ROLLBACK")
    assert (code, "locked" in answer["failed"]) == (1, True)


def test_a_guard_that_is_gone_is_no_error(tmp_path: Path) -> None:
    """Nobody reads the answer: the rows are written all the same, without a traceback."""
    path = tmp_path / "history.sqlite"
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            command_lines()["history"], input=json.dumps(batch() | {"path": str(path)}).encode() + b"\n",
            stdout=writer, stderr=subprocess.PIPE, timeout=30, check=False,
        )  # fmt: skip
    finally:
        os.close(writer)
    assert done.stderr == b""
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT count(*) FROM minutes").fetchone() == (1,)
