"""The guard as a process: started by exec, alone in its directory, small, ended by a signal."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import costguard
from costguard.host import lock
from costguard.host.client import ask
from costguard.host.files import LOGIN_MESSAGE
from costguard.process.command_lines import START, command_lines

ROOT = str(Path(costguard.__file__).parents[1])

LAUNCH = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
from costguard.process.launch import exec_guard
from costguard.config import load_effective
effective = load_effective({"state_dir": sys.argv[2]}, {})
paths = effective["paths"]
paths["runtime"] = sys.argv[3]
effective["senses"]["enabled"] = False  # whoever uses this machine is no matter of the test
exec_guard(effective | {"secret": "hunter2"}, os.environ)
"""

HEAVY = {
    "argparse", "asyncio", "ctypes", "dataclasses", "http.client", "importlib.metadata", "inspect", "logging",
    "pathlib", "pydantic", "click", "rich", "runpy", "shutil", "sqlite3", "subprocess", "tempfile", "tomllib",
}  # fmt: skip


class Guard(subprocess.Popen[bytes]):
    """A real guard with the real loop, in directories of its own."""

    def __init__(self, folder: Path, runtime: str = "run") -> None:
        self.runtime = str(folder / runtime)
        argv = [sys.executable, "-c", LAUNCH, ROOT, str(folder / "state"), self.runtime]
        super().__init__(argv, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)

    def __exit__(self, *exception: object) -> None:
        self.kill()  # a test that failed must not wait for a guard that runs for ever
        super().__exit__(None, None, None)

    def until_up(self) -> None:
        """Wait for the control socket."""
        end = time.monotonic() + 30
        while not os.path.exists(os.path.join(self.runtime, "control.sock")):
            assert time.monotonic() < end
            assert self.poll() is None
            time.sleep(0.02)

    def finish(self) -> str:
        """What it said, once it has ended."""
        return self.communicate(timeout=30)[1].decode()


@pytest.fixture
def guard(tmp_path: Path) -> Iterator[Guard]:
    with Guard(tmp_path) as made:
        made.until_up()
        yield made


def test_it_ends_in_order(guard: Guard) -> None:
    """SIGTERM: exit code 0, state saved, socket removed, no child left; nobody who logs in reads of a countdown that has no guard."""
    login = Path(guard.runtime, LOGIN_MESSAGE)
    login.write_text("costguard: vm will be stopped at 15:40\n")
    children = Path(f"/proc/{guard.pid}/task/{guard.pid}/children").read_text().split()
    guard.send_signal(signal.SIGTERM)
    guard.finish()
    assert guard.returncode == 0
    assert {"guard.lock", "agent", "state.json"} <= set(os.listdir(guard.runtime))
    assert not {"control.sock", "owner.sock"} & set(os.listdir(guard.runtime))
    assert not login.exists()
    end = time.monotonic() + 20
    while any(Path(f"/proc/{child}").exists() for child in children):
        assert time.monotonic() < end
        time.sleep(0.01)


def test_its_configuration_is_nobodys_to_read(guard: Guard) -> None:
    """What everybody may read of a process holds no configuration."""
    assert b"hunter2" not in Path(f"/proc/{guard.pid}/cmdline").read_bytes()
    assert b"hunter2" not in Path(f"/proc/{guard.pid}/environ").read_bytes()


def test_an_unknown_request_is_answered(guard: Guard) -> None:
    """The socket speaks with whoever runs on the machine, nonsense included."""
    assert isinstance(ask(guard.runtime, {"ask": "nonsense"}, timeout=20), dict)


@pytest.mark.parametrize("runtime", ["run", "another"])
def test_a_second_agent_names_the_first(guard: Guard, tmp_path: Path, runtime: str) -> None:
    """One agent per directory, also when only the state directory is the same: exit code 3."""
    with Guard(tmp_path, runtime) as second:
        said = second.finish()
    assert second.returncode == 3
    assert f"pid {guard.pid}, state directory {tmp_path}/state, started 2" in said
    assert guard.poll() is None


def test_a_lock_that_is_no_agents_does_not_end_the_service_for_ever(tmp_path: Path) -> None:
    """Who holds it is named, and the exit code is one on which the shipped unit tries again."""
    (tmp_path / "run").mkdir()
    held = lock.acquire(str(tmp_path / "run"), "s")
    with Guard(tmp_path) as guard:
        said = guard.finish()
    os.close(held)
    unit = (Path(costguard.__file__).parent / "data" / "costguard.service").read_text()
    (final,) = [line for line in unit.splitlines() if line.startswith("RestartPreventExitStatus=")]
    assert str(guard.returncode) not in final.partition("=")[2].split()
    assert guard.returncode != 0
    assert f"locked by pid {os.getpid()} (" in said
    assert "this machine is not guarded" in said


FLOOD = """
import os, socket, sys
common, owners = sys.argv[1:]
os.setgroups([]), os.setgid(65534), os.setuid(65534)
try:
    socket.socket(socket.AF_UNIX).connect(owners)
except PermissionError:
    print("refused", flush=True)
made, told = [], False
while True:
    made.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK))
    try:
        made[-1].connect(common)
    except BlockingIOError:
        told = told or print("full", flush=True) is None
        made.clear()
    if len(made) == 500:
        made.clear()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user; the queue itself is tried elsewhere")
def test_root_is_answered_while_another_user_takes_every_place_in_the_queue() -> None:
    """He finds root's own socket closed; what root asks waits with nobody."""
    with tempfile.TemporaryDirectory(prefix="costguard-") as name, Guard(Path(name)) as guard:
        Path(name).chmod(0o755)  # pytest's own folders are closed to other users
        guard.until_up()
        common, owners = f"{guard.runtime}/control.sock", f"{guard.runtime}/owner.sock"
        guard.send_signal(signal.SIGSTOP)
        with subprocess.Popen([sys.executable, "-c", FLOOD, common, owners], stdout=subprocess.PIPE) as flood:
            try:
                assert flood.stdout is not None
                assert [flood.stdout.readline() for _ in range(2)] == [b"refused\n", b"full\n"]
                with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as made:
                    with pytest.raises(BlockingIOError):
                        made.connect(common)
                    made.connect(owners)
                guard.send_signal(signal.SIGCONT)
                for _ in range(5):
                    assert "agent" in ask(guard.runtime, {"command": "status"}, timeout=20)
            finally:
                flood.kill()


def test_a_killed_guard_leaves_no_lock(tmp_path: Path) -> None:
    """After kill -9 the next one starts at once, on what was saved."""
    with Guard(tmp_path) as first:
        first.until_up()
        first.kill()
    os.unlink(os.path.join(first.runtime, "control.sock"))
    with Guard(tmp_path) as second:
        second.until_up()
        second.terminate()
        second.finish()
    assert second.returncode == 0


@pytest.mark.parametrize("content", [b"", b"[]", b'{"paths":{}}', None])
def test_without_a_configuration_it_does_not_start(content: bytes | None) -> None:
    """Exit code 2 and the command that does it right."""
    argument = []
    descriptors = []
    if content is not None:
        descriptors = [os.memfd_create("configuration")]
        os.pwrite(descriptors[0], content, 0)
        argument = [str(descriptors[0])]
    argv = command_lines()["guard"] + argument
    done = subprocess.run(argv, pass_fds=descriptors, capture_output=True, timeout=30, check=False)
    for descriptor in descriptors:
        os.close(descriptor)
    assert done.returncode == 2
    assert b"costguard run" in done.stderr


def test_a_directory_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    """Without a lock two agents could act: it does not start, and says what to do."""
    (tmp_path / "run").write_text("in the way")
    with Guard(tmp_path) as guard:
        said = guard.finish()
    assert guard.returncode == 2
    assert "--state-dir" in said


def test_the_guard_imports_nothing_heavy() -> None:
    """Each of these modules costs megabytes for as long as the machine runs."""
    source = "import json, sys; sys.path.insert(0, sys.argv[1]); import costguard.agent.__main__, costguard.agent.loop;"
    source += "print(json.dumps(list(sys.modules)))"
    argv = [sys.executable, "-I", "-S", "-c", source, ROOT]
    loaded = json.loads(subprocess.run(argv, capture_output=True, check=True, timeout=30).stdout)
    assert "costguard.host.real" in loaded
    assert HEAVY.isdisjoint(loaded)
    assert "pwd" not in loaded  # a user database may be a server that hangs


def test_a_program_starts_without_the_import_path_of_its_caller(tmp_path: Path) -> None:
    """Neither the working directory nor PYTHONPATH can put foreign code into a guard that runs as root."""
    (tmp_path / "json.py").write_text("raise SystemExit('foreign code ran')")
    argv = [sys.executable, "-I", "-S", START, "costguard.agent.persist", "-"]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        argv, cwd=tmp_path, env=environment, input=b"{}\n", capture_output=True, timeout=30, check=False
    )
    assert b"malformed job (path is missing)" in done.stdout


def test_a_program_that_breaks_quotes_no_secret(tmp_path: Path) -> None:
    """Its last words go to the journal: an error of a library may quote the address that it was given."""
    (tmp_path / "broken.py").write_text(
        "def main(): raise ValueError('no answer of https://hooks.slack.com/services/S3CRET')"
    )
    argv = [sys.executable, "-I", "-S", START, "broken", str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert "ValueError: no answer of https://hooks.slack.com/***" in done.stderr
    assert "S3CRET" not in done.stderr
