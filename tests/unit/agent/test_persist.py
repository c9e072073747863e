"""The worker that writes to the disk, as the guard runs it."""

import json
import subprocess
from pathlib import Path

import pytest

from costguard.process.command_lines import command_lines


def run(job: bytes) -> tuple[int, dict[str, object]]:
    done = subprocess.run(command_lines()["persist"], input=job, capture_output=True, timeout=30, check=False)
    assert done.stderr == b""
    return done.returncode, json.loads(done.stdout)


def test_a_file_is_written_with_its_folders(tmp_path: Path) -> None:
    """Missing folders are made; the file is private and no temporary one remains."""
    path = tmp_path / "a/b/file.json"
    assert run(json.dumps({"path": str(path), "text": '{"x":"é"}'}).encode() + b"\n") == (0, {"error": ""})
    assert json.loads(path.read_text()) == {"x": "é"}
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["file.json"]


@pytest.mark.parametrize(
    ("job", "code", "words"),
    [
        (b"nonsense\n", 2, "malformed job (it is not JSON)"),
        (b"[]\n", 2, "malformed job (it is not an object)"),
        (b'{"path":"relative","text":""}\n', 1, "not an absolute path"),
        (b'{"path":"/x/y","text":3}\n', 2, "malformed job (text is not of type str)"),
        (b'{"path":"/proc/costguard/file","text":""}\n', 1, "/proc/costguard/file: No such file"),
    ],
)
def test_a_failure_is_answered_in_words(job: bytes, code: int, words: str) -> None:
    """One line of JSON, no traceback, and an exit code."""
    found, answer = run(job)
    assert found == code
    assert words in str(answer["error"])


def test_a_guard_that_is_gone_is_no_error(tmp_path: Path) -> None:
    """Nobody reads the answer: the file is written all the same, without a traceback."""
    path = tmp_path / "file.json"
    job = json.dumps({"path": str(path), "text": "{}"}).encode() + b"\n"
    with subprocess.Popen(
        command_lines()["persist"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as worker:
        assert worker.stdout is not None
        worker.stdout.close()
        worker.stdout = None
        _out, complaint = worker.communicate(job, timeout=30)
    assert complaint == b""
    assert path.exists()
