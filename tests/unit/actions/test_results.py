"""The file of an attempt."""

import json
import os
from pathlib import Path

import pytest

from costguard.actions import results
from costguard.actions.base import Context
from costguard.cloud.access import HostPaths
from costguard.plans import Result


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
    job, outcome = context(tmp_path), Result("failed", "no words", "exit code 3")
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


def test_without_a_place_or_a_name_nothing_is_recorded(tmp_path: Path) -> None:
    """That is said, and stops no stop."""
    for job in (context(tmp_path)._replace(results=""), context(tmp_path, "")):
        assert results.begin(job) == results.Begun(True, "the attempt has no result file")
        assert results.finish(job, Result("done", "")) == ""
        assert results.read(job) is None
    assert os.listdir(tmp_path) == []


def test_a_place_that_cannot_be_written_stops_no_stop(tmp_path: Path) -> None:
    """The words go into the outcome."""
    (tmp_path / "results").write_text("in the way")
    job = context(tmp_path)
    assert results.begin(job) == results.Begun(True, "the result file could not be written (Not a directory)")
    assert results.finish(job, Result("done", "")) == "the result could not be recorded (Not a directory)"
    assert results.read(job) is None


@pytest.mark.parametrize(("length", "own"), [(200, True), (201, False)])
def test_a_name_that_fits_is_kept(tmp_path: Path, length: int, own: bool) -> None:
    """One that does not is told apart by what it was."""
    path = results.path_of(context(tmp_path, "x" * length))
    assert path.startswith(str(tmp_path / "results") + "/")
    assert (path.endswith("/" + "x" * length + ".json"), len(os.path.basename(path))) == (
        own,
        length + 5 if own else 69,
    )


def test_a_record_says_who_began_what_and_when(tmp_path: Path) -> None:
    """Under the kernel's name for this boot; the outcome is added to it, and replaces nothing."""
    (tmp_path / "proc/sys/kernel/random").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/random/boot_id").write_text("boot-7\n")
    job = context(tmp_path)._replace(host=HostPaths(procfs=str(tmp_path / "proc")))
    results.begin(job)
    began = json.loads(Path(results.path_of(job)).read_text())
    assert (began["status"], began["pid"], began["boot_id"], began["action"]) == (
        "started",
        os.getpid(),
        "boot-7",
        "command",
    )
    first = results.read(job)
    assert first is not None
    assert (first.outcome, first.boot_id, first.pid, first.running) == (None, "boot-7", os.getpid(), True)
    assert -0.01 < first.age < 30.0
    results.finish(job, Result("accepted", "d", "p", {"a": "1"}))
    second = results.read(job)
    assert second is not None
    assert (second.outcome, second.boot_id) == (Result("accepted", "d", "p", {"a": "1"}), "boot-7")
    assert os.listdir(tmp_path / "results") == ["b-a1.json"]
    assert results.boot_id(job._replace(host=HostPaths(procfs=str(tmp_path)))) == ""


@pytest.mark.parametrize(
    "text", ["", "no JSON", "7", "{}", '{"status":"done"}', '{"status":"done","detail":"","proof":"","since":"x"}']
)
def test_a_record_that_is_cut_short_says_that_it_was_begun(tmp_path: Path, text: str) -> None:
    """By whom is not known; nobody runs."""
    job = context(tmp_path)
    (tmp_path / "results").mkdir()
    Path(results.path_of(job)).write_text(text)
    record = results.read(job)
    assert record == results.Record(0, 0, "", 0.0, None)
    assert record is not None
    assert not record.running
    assert results.begin(job) == results.Begun(False)
