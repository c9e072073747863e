"""One agent per directory, and nobody else can keep it away."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import costguard
from costguard.host import lock
from costguard.process.command_lines import command_lines

ROOT = str(Path(costguard.__file__).parents[1])
HOLD = """
import sys; sys.path.insert(0, sys.argv[1])
from costguard.host import lock
lock.acquire(sys.argv[2], "/state/here")
print("held", flush=True); sys.stdin.read()
"""
"""Holds the lock as a guard does, without being one."""


@contextmanager
def running(argv: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that says a line and waits."""
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"held\n"
            yield process
        finally:
            process.kill()


@contextmanager
def look_alike(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Holds the lock, with the command line of a guard: its start file runs another module of that name."""
    package = folder / "process"
    package.mkdir(parents=True)
    (package / "start.py").write_text(f"import sys; sys.argv[1:] = [{ROOT!r}, sys.argv[-1]]\n{HOLD}")
    argv = [*command_lines()["guard"][:3], str(package / "start.py"), "costguard.agent.__main__", str(folder / "run")]
    with running(argv) as process:
        yield process


def test_the_second_one_learns_who_the_first_is(tmp_path: Path) -> None:
    """The holder's number, state directory and start are named, and the next command."""
    with look_alike(tmp_path) as first, pytest.raises(lock.TakenError) as caught:
        lock.acquire(str(tmp_path / "run"), "/state/there")
    assert f"pid {first.pid}, state directory /state/here, started 2" in str(caught.value)
    assert "`costguard status`" in str(caught.value)
    os.close(lock.acquire(str(tmp_path / "run"), "/state/there"))


def test_what_is_no_agent_is_not_called_one(tmp_path: Path) -> None:
    """Another process of the same user on the lock: named by the kernel's number, whoever signed before."""
    with running([sys.executable, "-c", HOLD, ROOT, str(tmp_path)]) as holder, pytest.raises(lock.HeldError) as caught:
        lock.acquire(str(tmp_path), "mine")
    assert f"locked by pid {holder.pid} (" in str(caught.value)
    assert "not a costguard agent" in str(caught.value)


def test_a_lock_ends_with_its_holder(tmp_path: Path) -> None:
    """Kill -9 leaves the file, not the lock."""
    with running([sys.executable, "-c", HOLD, ROOT, str(tmp_path)]):
        pass
    os.close(lock.acquire(str(tmp_path), "mine"))


def test_nobody_else_can_open_the_lock(tmp_path: Path) -> None:
    """Who can open a file, even for reading, can lock it for ever; what everybody may read is another file."""
    old = os.umask(0)
    try:
        held = lock.acquire(str(tmp_path), "/state", private=False, runtime="/run/there")
    finally:
        os.umask(old)
    assert {path.name: oct(path.stat().st_mode & 0o777) for path in tmp_path.iterdir()} == {
        lock.LOCK: "0o600",
        lock.SIGN: "0o644",
    }
    with (tmp_path / lock.SIGN).open() as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # costs nobody anything
        assert lock.runtime_of(str(tmp_path)) == "/run/there"
        os.close(held)
        os.close(lock.acquire(str(tmp_path), "/state", private=False, runtime="/run/there"))


def test_a_lock_that_was_opened_to_others_is_closed_again(tmp_path: Path) -> None:
    """As after a careless chmod -R."""
    (tmp_path / lock.LOCK).write_text("")
    (tmp_path / lock.LOCK).chmod(0o644)
    os.close(lock.acquire(str(tmp_path), "s"))
    assert (tmp_path / lock.LOCK).stat().st_mode & 0o777 == 0o600


def test_the_readable_lock_of_a_version_before_keeps_nobody_away(tmp_path: Path) -> None:
    """An ordinary user may sit on it since before the upgrade; its number may be any process's by now."""
    (tmp_path / lock.SHARED).write_text(f"{os.getpid()}\n/state\n2026-01-01 00:00:00 +0000\n\n")
    with (tmp_path / lock.SHARED).open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        os.close(lock.acquire(str(tmp_path), "s"))
    assert not (tmp_path / lock.SHARED).exists()


def test_an_agent_of_a_version_before_still_counts(tmp_path: Path) -> None:
    """It holds the old file alone: two agents could act on one machine."""
    folder = tmp_path / "run"
    with look_alike(tmp_path) as first:
        (folder / lock.LOCK).unlink()
        (folder / lock.SIGN).rename(folder / lock.SHARED)
        with (folder / lock.SHARED).open() as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            with pytest.raises(lock.TakenError, match=f"pid {first.pid}, state directory /state/here"):
                lock.acquire(str(folder), "s")


def test_a_strangers_file_of_the_old_name_stays(tmp_path: Path) -> None:
    """A folder that somebody chose may hold anything."""
    (tmp_path / lock.SHARED).write_text("mine")
    os.close(lock.acquire(str(tmp_path), "s", private=False))
    assert (tmp_path / lock.SHARED).read_text() == "mine"


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


@pytest.mark.parametrize("trap", ["link", "fifo"])
def test_a_lock_laid_by_others_is_refused(tmp_path: Path, trap: str) -> None:
    """In a state directory that others can write: neither followed nor waited for."""
    if trap == "link":
        (tmp_path / lock.LOCK).symlink_to(tmp_path / "other")
    else:
        os.mkfifo(tmp_path / lock.LOCK)
    with pytest.raises(lock.UnusableError):
        lock.acquire(str(tmp_path), "s", private=False)
    assert not (tmp_path / "other").exists()


def test_a_holder_that_could_not_sign_is_named_by_the_kernel(tmp_path: Path) -> None:
    """On a full disk nothing could be written: the lock itself holds."""
    held = lock.acquire(str(tmp_path), "s")
    (tmp_path / lock.SIGN).unlink()
    with pytest.raises(lock.HeldError, match=f"locked by pid {os.getpid()} "):
        lock.acquire(str(tmp_path), "s")
    os.close(held)
