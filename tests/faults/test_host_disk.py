"""A full, read-only, foreign or vanished runtime directory never stops the guard."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import costguard
from costguard.clocks import boot_clock
from costguard.host import lock
from costguard.host.client import ask
from costguard.host.files import Start, load
from costguard.host.ports import Request
from costguard.host.real import RealHost
from costguard.process.command_lines import command_lines

NOBODY = 65534


@pytest.fixture
def runtime(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def host(runtime: Path, tmp_path: Path) -> Iterator[RealHost]:
    held = lock.acquire(str(runtime), str(tmp_path))
    start = Start("boot", "machine", None, None, ())
    made = RealHost(str(runtime), str(tmp_path), start, command_lines(), [held])
    yield made
    made.close()


@pytest.fixture
def full_disk() -> Iterator[None]:
    """Every write of a file fails after 16 bytes, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def test_what_was_saved_is_found_again(host: RealHost, runtime: Path, tmp_path: Path) -> None:
    """State and commitments come back for the same boot and machine; the files are private."""
    assert host.save(b'{"armed":false}') is None
    assert host.save(b'{"armed":true}') is None
    assert host.save_commitments(b'{"holds":[]}') is None
    again = load(str(runtime), str(tmp_path), "boot", "machine")
    assert again == Start("boot", "machine", b'{"armed":true}', b'{"holds":[]}', ())
    assert {path.name: oct(path.stat().st_mode & 0o777) for path in runtime.glob("*.json")} == {
        "state.json": "0o600",
        "commitments.json": "0o600",
    }


def test_a_full_disk_is_said_and_the_old_file_stays(
    host: RealHost, runtime: Path, request: pytest.FixtureRequest
) -> None:
    """Saving fails in words; what was saved before can still be read, and no half file is left."""
    host.save(b'{"armed":true}')
    before = (runtime / "state.json").read_bytes()
    request.getfixturevalue("full_disk")
    words = host.save(b'{"armed":false}')
    assert words is not None
    assert words.startswith(f"cannot write {runtime}/state.json: File too large")
    assert (runtime / "state.json").read_bytes() == before
    assert not list(runtime.glob("*.new"))


def test_a_vanished_directory_is_made_again(host: RealHost, runtime: Path, tmp_path: Path) -> None:
    """Somebody removes the runtime directory: the next save restores it with its lock and its socket."""
    shutil.rmtree(runtime)
    assert host.save(b"{}") is None
    with pytest.raises(lock.HeldError, match=f"pid {os.getpid()} "):
        lock.acquire(str(runtime), str(tmp_path))
    client = subprocess.Popen(
        [sys.executable, "-c", f"from costguard.host.client import ask; print(ask({str(runtime)!r}, {{'ask':1}}))"],
        stdout=subprocess.PIPE,
        cwd=Path(costguard.__file__).parents[1],
    )
    (asked,) = host.wait(boot_clock() + 20)
    assert isinstance(asked, Request)
    host.answer(asked.client, b'{"answer":2}')
    assert client.communicate(timeout=20)[0] == b"{'answer': 2}\n"


def test_another_agent_that_took_the_emptied_directory_is_named(
    host: RealHost, runtime: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """When a second agent was quicker, the first one keeps working and says once who has the directory."""
    shutil.rmtree(runtime)
    second = lock.acquire(str(runtime), str(tmp_path))
    assert [host.save(b"{}"), host.save(b"{}")] == [None, None]
    os.close(second)
    assert capfd.readouterr().err.count("was emptied and this agent lost its lock") == 1


def test_a_lost_socket_is_opened_again(host: RealHost, runtime: Path, tmp_path: Path) -> None:
    """A cleaner took the socket alone: the lock is still this agent's own, and clients find it again."""
    (runtime / "control.sock").unlink()
    assert host.save(b"{}") is None
    assert (runtime / "control.sock").is_socket()
    with pytest.raises(lock.HeldError, match=f"pid {os.getpid()} "):
        lock.acquire(str(runtime), str(tmp_path))


def test_an_emptied_directory_costs_no_descriptor(host: RealHost, runtime: Path) -> None:
    """However often somebody cleans up, the guard holds one lock."""
    counts = set()
    for _ in range(5):
        shutil.rmtree(runtime)
        assert host.save(b"{}") is None
        counts.add(len(os.listdir("/proc/self/fd")))
    assert len(counts) == 1


def test_a_socket_that_cannot_be_opened_is_no_failed_save(
    host: RealHost, runtime: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The state is safe, and that alone is the answer; the socket is missed aloud, once, and then said to be back."""
    (runtime / "control.sock").unlink()
    (runtime / "control.sock").mkdir()
    (runtime / "control.sock" / "in the way").touch()
    assert [host.save(b"{}"), host.save(b"{}")] == [None, None]
    assert capfd.readouterr().err.count("no control socket") == 1
    shutil.rmtree(runtime / "control.sock")
    assert host.save(b"{}") is None
    assert "the control socket is back" in capfd.readouterr().err


AS_NOBODY = f"""
import json, os, sys
sys.path.insert(0, {str(Path(costguard.__file__).parents[1])!r})
from costguard.host.real import RealHost
from costguard.process.command_lines import command_lines
from costguard.host.files import Start
os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})
host = RealHost(sys.argv[1], sys.argv[1], Start("b", "m", None, None, ()), command_lines(), [])
print(json.dumps([host.save(b"{{}}"), host.save_commitments(b"{{}}")]))
assert host.wait(host.clock().boot + 0.05) == []
host.close()
"""


@pytest.mark.skipif(
    os.geteuid() != 0, reason="needs root to become a user without rights; the full disk covers the rest"
)
def test_a_directory_that_cannot_be_written_is_said() -> None:
    """Without the right to write the guard still runs; socket and files are missed aloud."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        Path(folder).chmod(0o755)
        argv = [sys.executable, "-I", "-S", "-c", AS_NOBODY, folder]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    assert [words.rpartition(": ")[2] for words in json.loads(done.stdout)] == ["Permission denied"] * 2
    assert "no control socket" in done.stderr


def test_a_stale_socket_is_told_to_clients(tmp_path: Path) -> None:
    """No agent, or one that died: the client says so and names the next command."""
    from costguard.host.client import AgentUnreachableError

    with pytest.raises(AgentUnreachableError, match="no costguard agent is running") as caught:
        ask(str(tmp_path), {})
    assert "costguard run" in caught.value.hint
