"""One agent per directory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import costguard
from costguard.agent import lock


def test_the_second_one_learns_who_the_first_is(tmp_path: Path) -> None:
    """The holder's number, state directory and start are named, and the next command."""
    held = lock.acquire(str(tmp_path / "run"), "/state/here")
    with pytest.raises(lock.TakenError) as caught:
        lock.acquire(str(tmp_path / "run"), "/state/there")
    assert f"pid {os.getpid()}, state directory /state/here, started 2" in str(caught.value)
    assert "`costguard status`" in str(caught.value)
    os.close(held)
    os.close(lock.acquire(str(tmp_path / "run"), "/state/there"))


def test_a_lock_ends_with_its_holder(tmp_path: Path) -> None:
    """Kill -9 leaves the file, not the lock."""
    source = "import sys; sys.path.insert(0, sys.argv[1]); from costguard.agent import lock;"
    source += "lock.acquire(sys.argv[2], 's'); print('held', flush=True); sys.stdin.read()"
    argv = [sys.executable, "-c", source, str(Path(costguard.__file__).parents[1]), str(tmp_path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(lock.TakenError, match=f"pid {holder.pid}"):
            lock.acquire(str(tmp_path), "mine")
        holder.kill()
    os.close(lock.acquire(str(tmp_path), "mine"))


@pytest.mark.parametrize("trap", ["link", "writable", "file"])
def test_a_directory_laid_by_others_is_refused(tmp_path: Path, trap: str) -> None:
    """In a folder that everybody may write (/dev/shm) somebody could prepare ours: it is not used."""
    path = tmp_path / "run"
    if trap == "link":
        path.symlink_to(tmp_path, target_is_directory=True)
    elif trap == "writable":
        path.mkdir()
        path.chmod(0o777)
    else:
        path.write_text("")
    with pytest.raises(lock.UnusableError, match="cannot use"):
        lock.acquire(str(path), "s")


def test_a_state_directory_may_be_shared_with_a_group(tmp_path: Path) -> None:
    """Only the runtime directory must be private; the owner chose the other one."""
    tmp_path.chmod(0o775)
    os.close(lock.acquire(str(tmp_path), "s", private=False))


def test_a_lock_file_without_content_is_still_a_lock(tmp_path: Path) -> None:
    """On a full disk nothing could be written: the words say that the holder is unknown."""
    held = lock.acquire(str(tmp_path), "s")
    os.ftruncate(held, 0)
    with pytest.raises(lock.TakenError, match="it has not written its number"):
        lock.acquire(str(tmp_path), "s")
    os.close(held)
