"""The file of an attempt."""

import json
import os
from pathlib import Path

import pytest

from costguard.actions import results
from costguard.actions.base import Context, Outcome


def context(folder: Path, attempt: str = "b-a1") -> Context:
    return Context("command", "live", attempt=attempt, results=str(folder / "results"))


def test_a_number_that_was_given_to_another_process_is_not_the_executor(tmp_path: Path) -> None:
    """A process is its number and its start time."""
    job = context(tmp_path)
    assert results.begin(job).first
    record = results.read(job)
    assert record
    assert record.running
    path = Path(results.path_of(job))
    path.write_text(json.dumps({**json.loads(path.read_text()), "start_time": 1}))
    other = results.read(job)
    assert other
    assert not other.running


def test_what_was_recorded_is_read_back(tmp_path: Path) -> None:
    """With its words and its proof; the file is its owner's alone."""
    job, outcome = context(tmp_path), Outcome("failed", "no words", "exit code 3")
    assert results.begin(job) == results.Begun(True)
    assert results.finish(job, outcome) == ""
    record = results.read(job)
    assert record
    assert record.outcome == outcome
    assert os.stat(results.path_of(job)).st_mode & 0o777 == 0o600
    assert results.begin(job).first is False


@pytest.mark.parametrize("attempt", ["../../etc/x", "a/b", "..", "ü", "x" * 300])
def test_any_attempt_id_stays_in_its_folder(tmp_path: Path, attempt: str) -> None:
    """And different ids have different files."""
    job = context(tmp_path, attempt)
    assert results.begin(job).first
    assert os.listdir(tmp_path) == ["results"]
    assert len(os.listdir(tmp_path / "results")) == 1
    assert results.begin(context(tmp_path, attempt + "1")).first
