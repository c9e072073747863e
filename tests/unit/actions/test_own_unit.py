"""A program of the owner beside the agent's own service: what it gets, how it ends, and what becomes of it when nobody waits any more."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from costguard.actions import effect, hook, own_unit
from costguard.actions.base import Context, DryRunError
from costguard.cloud.access import HostPaths
from costguard.plans import Result

STANDIN = Path(__file__).with_name("systemd_run.py")


class Service:
    """A folder like /proc of a process in a service of root's, and a stand-in of systemd-run in PATH."""

    def __init__(self, folder: Path) -> None:
        self.procfs, self.programs, self.results = (folder / name for name in ("proc", "programs", "results"))
        for made in (self.procfs / "self/root/run/systemd/system", self.programs, self.results):
            made.mkdir(parents=True)
        self.is_in("/system.slice/costguard.service")
        self.is_user(0)
        run = self.programs / "systemd-run"
        run.write_text(f"#!{sys.executable} -I\n{STANDIN.read_text()}")
        run.chmod(0o755)

    def is_in(self, group: str) -> None:
        (self.procfs / "self/cgroup").write_text(f"0::{group}\n")

    def is_user(self, uid: int) -> None:
        (self.procfs / "self/status").write_text(f"Name:\tpython\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")

    def context(self, mode: str = "live") -> Context:
        return Context("command", mode, host=HostPaths(procfs=str(self.procfs)), results=str(self.results))

    def run(self, *argv: str, limit: float = 30.0, **environ: str) -> Result:
        return effect.run_own(self.context(), "the command", argv, limit, {"PATH": "/usr/bin:/bin", **environ})

    @property
    def asked(self) -> str:
        """What systemd-run was given; empty where it was not called."""
        file = self.programs / "asked"
        return file.read_text() if file.exists() else ""


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Service:
    made = Service(tmp_path)
    monkeypatch.setenv("PATH", f"{made.programs}:{os.environ['PATH']}")
    return made


@pytest.mark.parametrize(
    ("script", "status", "words"),
    [
        ("echo out; echo err >&2", "done", "the command succeeded; it said: out\nerr"),
        ("echo full; exit 3", "failed", "the command failed with exit code 3; it said: full"),
        ("exit 1", "failed", "the command failed with exit code 1"),
        ("kill -9 $$", "failed", "the command died of signal 9"),
        ("cat; test ! -e /dev/fd/3 && echo nothing to read", "done", "succeeded; it said: nothing to read"),
    ],
)
def test_its_end_is_told_as_that_of_any_other_program(service: Service, script: str, status: str, words: str) -> None:
    """Output of both kinds, exit code and signal are the program's own, whoever ran it."""
    found = service.run("sh", "-c", script)
    assert service.asked
    assert (found.status, words in found.detail) == (status, True), found


def test_what_it_gets_is_what_was_meant(service: Service) -> None:
    """Arguments as they are, whatever signs are in them; variables too, and on no command line or in any unit."""
    word = "${HOME} $$ %n \"quoted\" \\ 'x'"
    value = 'a "b" $c `d` \\e\nsecond line'
    script = 'printf "%s|" "$1" "$VALUE" "$INVOCATION_ID"'
    found = service.run("sh", "-c", script, "sh", word, VALUE=value, INVOCATION_ID="the agent's")
    assert found.detail.endswith(f"it said: {word}|{value}|its own|")
    assert "second line" not in service.asked
    assert list(service.results.iterdir()) == []


def test_at_its_time_out_all_of_it_is_ended(service: Service, tmp_path: Path) -> None:
    """The time is the unit's own, so it holds whoever waits."""
    found = service.run("sh", "-c", f"echo begun; sleep 300 & echo $! > {tmp_path}/pid; wait", limit=0.3)
    assert (found.status, found.proof) == ("failed", "deadline")
    assert "the command was killed after 0.3 s; it said: begun" in found.detail
    assert gone(int((tmp_path / "pid").read_text()))


def test_it_ends_when_who_waits_for_it_is_killed(service: Service, tmp_path: Path) -> None:
    """Nobody would know any more how it ended; and the next worker must not find it running."""
    script = f"""
from costguard.actions import own_unit
own_unit.run(own_unit.tools({str(service.procfs)!r}), ["sh", "-c", "echo $$ > {tmp_path}/pid; sleep 300"], 300.0, {{"PATH": "/usr/bin:/bin"}}, None, {str(service.results)!r})
"""
    worker = subprocess.Popen([sys.executable, "-c", script])
    pid = int(eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text()))
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    assert gone(pid)


def test_without_systemd_it_runs_as_always_and_that_is_told(service: Service) -> None:
    """A manager that refuses must not be the reason why nothing was saved."""
    (service.programs / "trouble").write_text("Failed to start transient service unit: Access denied")
    found = service.run("sh", "-c", "echo saved; exit 4")
    assert found.detail.startswith(
        "the command failed with exit code 4; it ran inside the agent's own service, because"
    )
    assert "Access denied" in found.detail
    assert found.detail.endswith("it said: saved")


@pytest.mark.parametrize("group", ["/user.slice/user-0.slice/session-1.scope", "/user.slice/user-1000.slice/user@1000.service/app.slice/costguard.service", "/"])  # fmt: skip
def test_who_is_no_service_of_the_system_starts_it_itself(service: Service, group: str) -> None:
    """At a terminal, in a container and as a user's own service there is no sandbox to leave."""
    service.is_in(group)
    assert service.run("true").status == "done"
    assert not service.asked


def test_only_roots_agent_asks_the_system_for_a_unit(service: Service) -> None:
    """Another user would be asked for a password, and his unit would run as root."""
    service.is_user(1000)
    assert service.run("true").status == "done"
    assert not service.asked


def test_a_missing_program_and_a_dry_run_start_nothing(service: Service) -> None:
    """As without systemd."""
    assert service.run("/nonexistent/save").detail.startswith(
        "the command could not be started: /nonexistent/save: No such file"
    )
    with pytest.raises(DryRunError):
        effect.run_own(service.context("dry-run"), "the command", ["true"], 1.0, {})
    assert not service.asked


@pytest.mark.parametrize("argument", [(), ("/bin/sh",), ("/nonexistent",)])
def test_whether_there_is_a_program_is_not_asked_of_its_arguments(
    service: Service, tmp_path: Path, argument: tuple[str, ...]
) -> None:
    """One that may not be executed is another matter than none."""
    assert "save: No such file or directory" in service.run("/nonexistent/save", *argument).detail
    (tmp_path / "save").write_text("#!/bin/sh\n")
    assert "save: Permission denied" in service.run(f"{tmp_path}/save", *argument).detail
    assert not service.asked


def test_what_another_user_may_not_execute_was_not_started(service: Service, tmp_path: Path) -> None:
    """The shell that was to become it ends with 126: nobody looks for that code, and the next step is named."""
    root = os.geteuid() == 0
    program = tmp_path / "save"
    program.write_text("#!/bin/sh\nexit 126\n")
    program.chmod(0o700)
    tmp_path.chmod(0o700)
    hooks = {"pre_stop": [str(program)], "user": "nobody" if root else ""}
    found = hook.run(service.context()._replace(hook=hooks, incident="b-i1"), "b-i1", 5.0)
    assert service.asked
    words = f"could not be started: {program}, run as nobody; nobody may not enter /" if root else "exit code 126"
    assert words in found.detail


def test_a_hook_of_another_user_is_that_users_unit(service: Service) -> None:
    """The manager changes the user: the agent's own rights may not reach so far."""
    user = "nobody" if os.geteuid() == 0 else ""
    context = service.context()._replace(hook={"pre_stop": ["true"], "user": user}, incident="b-i1")
    assert hook.run(context, "b-i1", 5.0).status == "done"
    assert ("--property=User=nobody" in service.asked) == bool(user)


def test_where_nothing_is_known_nothing_is_asked(tmp_path: Path) -> None:
    """A hidden /proc is no service."""
    assert own_unit.tools(str(tmp_path)) is None


def gone(pid: int) -> bool:
    def ended() -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    return bool(eventually(ended))


def eventually(found: Callable[[], object], seconds: float = 30.0) -> str:
    end = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return str(value)
