"""Files of the guard: what is believed after a restart, and what is moved aside."""

import json
import os
from pathlib import Path

import pytest

from costguard.host import files

GOOD = b'{"a":[1,2.5,"\xc3\xa9"]}'


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    folders = (tmp_path / "run", tmp_path / "lib")
    for folder in folders:
        folder.mkdir()
    return folders


def load(folders: tuple[Path, Path], boot: str = "b1", instance: str = "i1") -> files.Start:
    return files.load(str(folders[0]), str(folders[1]), boot, instance)


def test_nothing_saved_is_a_fresh_start(folders: tuple[Path, Path]) -> None:
    """No files: nothing is known, and there is nothing to tell."""
    assert load(folders) == files.Start("b1", "i1", None, None, ())


def test_state_is_of_this_boot_only(folders: tuple[Path, Path]) -> None:
    """State survives a restart of the guard and never a boot; that is normal and not worth a note."""
    files.replace(str(folders[0] / files.STATE), files.wrap("boot_id", "b1", GOOD))
    found = load(folders).state
    assert found is not None
    assert json.loads(found) == json.loads(GOOD)
    assert load(folders, boot="b2") == files.Start("b2", "i1", None, None, ())


def test_commitments_come_from_the_runtime_copy_first(folders: tuple[Path, Path]) -> None:
    """The copy in memory is the newer one; after a boot there is only the one on disk."""
    files.replace(str(folders[0] / files.COMMITMENTS), files.wrap("instance", "i1", b'"memory"'))
    files.replace(str(folders[1] / files.COMMITMENTS), files.wrap("instance", "i1", b'"disk"'))
    assert load(folders).commitments == b'"memory"'
    (folders[0] / files.COMMITMENTS).unlink()
    assert load(folders, boot="b2").commitments == b'"disk"'


def test_commitments_of_another_machine_are_dropped_and_told(folders: tuple[Path, Path]) -> None:
    """A disk that was cloned into a new machine brings no holds and deadlines with it."""
    files.replace(str(folders[1] / files.COMMITMENTS), files.wrap("instance", "i0", GOOD))
    start = load(folders)
    assert start.commitments is None
    assert "is from another machine (i0; this one is i1)" in start.notes[0]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is damaged"),
        (b"{", "is damaged"),
        (b"[1]", "is damaged"),
        (b"\xff\xfe", "is damaged"),
        (b"[" * 100_000, "is damaged"),
        (b'{"version":1,"boot_id":"b1"}', "is damaged"),
        (b'{"version":1,"boot_id":7,"data":{}}', "is damaged"),
        (b'{"version":2,"boot_id":"b1","data":{}}', "has unknown version 2"),
        (b'{"boot_id":"b1","data":{}}', "is damaged"),
        (b" " * (files._LIMIT_BYTES + 1), "is too large"),
    ],
)
def test_what_cannot_be_used_is_moved_aside(folders: tuple[Path, Path], content: bytes, words: str) -> None:
    """Nothing is lost and nothing is guessed: the file keeps a name that is told, the start goes on without it."""
    path = folders[0] / files.STATE
    (folders[0] / f"{files.STATE}.bad-1").write_text("an older one")
    path.write_bytes(content)
    start = load(folders)
    assert start.state is None
    assert start.notes == (f"{path} {words}: moved to {path}.bad-2, starting without it",)
    assert (folders[0] / f"{files.STATE}.bad-2").read_bytes() == content
    assert not path.exists()


@pytest.mark.parametrize("kind", ["folder", "link"])
def test_what_is_no_file_is_noted(folders: tuple[Path, Path], kind: str) -> None:
    """A folder or a link in the file's place is not followed, and does not hinder the start."""
    path = folders[0] / files.STATE
    if kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/etc/passwd")
    start = load(folders)
    assert start.state is None
    assert "cannot read" in start.notes[0]


def test_a_link_is_not_written_through(folders: tuple[Path, Path]) -> None:
    """A planted link at the temporary name cannot redirect what root writes."""
    victim = folders[1] / "victim"
    victim.write_text("untouched")
    (folders[0] / f"{files.STATE}.new").symlink_to(victim)
    files.replace(str(folders[0] / files.STATE), b"{}")
    assert victim.read_text() == "untouched"
    assert (folders[0] / files.STATE).read_text() == "{}"


def test_the_job_for_the_disk_writes_what_load_reads(folders: tuple[Path, Path]) -> None:
    """The worker's file and the loader agree on the envelope."""
    from costguard.agent.persist import PersistJob, save

    written = PersistJob(str(folders[1] / files.COMMITMENTS), files.wrap("instance", "i1", GOOD).decode())
    assert save(written).error == ""
    found = load(folders).commitments
    assert found is not None
    assert json.loads(found) == json.loads(GOOD)
    assert os.stat(folders[1] / files.COMMITMENTS).st_mode & 0o777 == 0o600
