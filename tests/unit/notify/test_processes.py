"""Who holds the GPUs stands in a warning: program, user and place, and nothing that a process was given."""

import os
import pwd
from pathlib import Path

import pytest

from costguard.notify.compose import compose
from costguard.notify.job import Draft
from costguard.notify.processes import found_processes
from tests.unit.test_holders import DOCKER, process

CANARY = "c4n4ry-s3cret"


def warned(folder: Path, kind: str = "warning") -> str:
    settings = {"procfs": str(folder / "proc"), "devfs": str(folder / "dev")}
    return compose(kind, {"reason": "idle", **found_processes(Draft("m", kind), settings)}).body


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """One with a GPU."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia0").touch()
    return tmp_path


def test_programs_are_named_once_with_their_number(machine: Path) -> None:
    """Those that only watch are left out."""
    for pid in (10, 11, 12):
        process(
            machine / "proc",
            pid,
            "/dev/nvidia0",
            cgroup=f"0::/system.slice/docker-{DOCKER}.scope",
            command=f"python3 {CANARY}",
        )
    process(machine / "proc", 13, "/dev/nvidia0", name="train")
    process(machine / "proc", 14, "/dev/nvidia0", name="nvidia-persiste")
    body = warned(machine)
    me = pwd.getpwuid(os.geteuid()).pw_name
    assert f"On the GPUs: 3 × python3 of {me} (docker {DOCKER[:12]}) and train of {me}." in body
    assert CANARY not in body


def test_a_gpu_that_nobody_holds_is_said(machine: Path) -> None:
    """And nothing where there is no GPU device, or nobody asks."""
    process(machine / "proc", 10, "/dev/null")
    assert "No process holds a GPU." in warned(machine)
    assert "GPU." not in warned(machine, "held")
    (machine / "dev/nvidia0").unlink()
    assert "No process" not in warned(machine)


def test_a_name_with_control_characters_stays_one_line(machine: Path) -> None:
    """A process calls itself what it likes."""
    folder = process(machine / "proc", 10, "/dev/nvidia0")
    (folder / "comm").write_text("a\x1b[2J\nb\n")
    line = next(line for line in warned(machine).splitlines() if "On the GPUs" in line)
    assert "\x1b" not in line


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone sees every process, so that hidden ones can be made")
def test_more_programs_than_fit_are_counted(machine: Path) -> None:
    """Five are named."""
    for pid in range(10, 18):
        process(machine / "proc", pid, "/dev/nvidia0", name=f"job{pid}")
    assert "and 3 more" in warned(machine)
