"""What leaves the sandbox of the service, and where there is none to leave."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from costguard.process import outside
from costguard.process.command_lines import command_lines
from costguard.process.wire import to_line
from costguard.readers.host.errand_jobs import ProbeJob

ALL, SANDBOX = "000001ffffffffff", "0000000000080022"


@pytest.fixture
def procfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of root's process in a service, without the right to become another user; systemd-run is there."""
    (tmp_path / "self/root/run/systemd/system").mkdir(parents=True)
    (tmp_path / "self/cgroup").write_text("0::/system.slice/costguard.service\n")
    status(tmp_path, 0, SANDBOX)
    program = tmp_path / "systemd-run"
    program.write_text("")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


def status(procfs: Path, uid: int, capabilities: str) -> None:
    (procfs / "self/status").write_text(f"Name:\tpython\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nCapEff:\t{capabilities}\n")


def test_what_becomes_another_user_has_a_unit_of_its_own_in_a_sandbox(procfs: Path) -> None:
    """Ended at the latest when nobody waits for it any more."""
    found = outside.command(12.5, str(procfs))
    assert found[0] == str(procfs / "systemd-run")
    assert {"--wait", "--pipe", "--collect", "--property=RuntimeMaxSec=12.5"} < set(found)
    assert found[-1] == "--"


@pytest.mark.parametrize(
    ("group", "counts"),
    [
        ("/system.slice/costguard.service", True),
        ("/gpu.slice/costguard.service", True),  # Slice= in a drop-in
        ("/user.slice/user-0.slice/session-1.scope", False),
        ("/user.slice/user-0.slice/user@0.service/app.slice/costguard.service", False),
        ("/", False),
    ],
)
def test_a_service_is_one_of_the_system(procfs: Path, group: str, counts: bool) -> None:
    """In whichever slice; not a terminal's, nor a user's own."""
    (procfs / "self/cgroup").write_text(f"0::{group}\n")
    assert outside.in_service(str(procfs)) is counts


@pytest.mark.parametrize(("uid", "capabilities"), [(0, ALL), (1000, SANDBOX)])
def test_where_no_right_was_taken_away_nothing_changes(procfs: Path, uid: int, capabilities: str) -> None:
    """A process of root's with all rights starts it itself; an ordinary user could not do otherwise."""
    status(procfs, uid, capabilities)
    assert outside.command(5.0, str(procfs)) == []


def test_without_systemd_run_it_is_tried_directly(procfs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what becomes of it is told by what was started."""
    monkeypatch.setenv("PATH", str(procfs / "self"))
    assert outside.command(5.0, str(procfs)) == []
    assert outside.may_change_user(str(procfs / "nowhere"))


def test_a_probe_runs_where_its_process_leads_a_session_already(tmp_path: Path) -> None:
    """As the first process of a unit does."""
    probe = tmp_path / "probe"
    probe.write_text("#!/bin/sh\nexit 3\n")
    probe.chmod(0o700)
    job = to_line(ProbeJob((str(probe),), "", 20.0)) + b"\n"
    done = subprocess.run(
        command_lines()["probe"], input=job, capture_output=True, timeout=60, start_new_session=True, check=False
    )
    assert json.loads(done.stdout)["code"] == 3, done.stderr
