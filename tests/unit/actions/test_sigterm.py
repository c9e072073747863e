"""SIGTERM after acceptance: to who holds a GPU, to nobody else, and never before or without the owner's wish."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from costguard.actions import sigterm
from costguard.actions.base import Context
from costguard.cloud.access import HostPaths
from costguard.plans import Plan, Result, Verdict

ACCEPTED = Result("accepted", "the request was accepted")
SLEEPER = "import signal; print(flush=True); signal.pause()"


@pytest.fixture
def machine(tmp_path: Path) -> Iterator["Machine"]:
    one = Machine(tmp_path)
    yield one
    one.end()


class Machine:
    """A /proc in which real processes stand, with what they hold open."""

    def __init__(self, procfs: Path) -> None:
        self.procfs = procfs
        self.started: list[subprocess.Popen[bytes]] = []
        (procfs / "self").symlink_to(str(os.getpid()))

    def process(self, target: str, name: str = "trainer") -> subprocess.Popen[bytes]:
        child = subprocess.Popen([sys.executable, "-c", SLEEPER], stdout=subprocess.PIPE)
        assert child.stdout
        child.stdout.readline()
        self.started.append(child)
        self.listed(child.pid, target, name)
        return child

    def listed(self, pid: int, target: str, name: str) -> None:
        folder = self.procfs / str(pid) / "fd"
        folder.mkdir(parents=True)
        (folder / "3").symlink_to(target)
        (folder.parent / "comm").write_text(name + "\n")

    def after(self, outcome: Result = ACCEPTED, action: str = "stop", mode: str = "live", **hook: object) -> Result:
        place = HostPaths(procfs=str(self.procfs))
        return sigterm.after(outcome, Context(action, mode, hook={"sigterm": True, **hook}, host=place))

    def end(self) -> None:
        for child in self.started:
            child.kill()
            child.wait()
            assert child.stdout
            child.stdout.close()


def test_who_holds_a_gpu_gets_it_and_nobody_else(machine: Machine) -> None:
    """No monitor, no process of another device, not the worker itself."""
    trainers = [machine.process("/dev/nvidia0"), machine.process("/dev/nvidia7 (deleted)")]
    others = [
        machine.process("/dev/null"),
        machine.process("/dev/nvidiactl"),
        machine.process("/dev/nvidia0", "nvidia-smi"),
    ]
    machine.listed(os.getpid(), "/dev/nvidia0", "python")
    told = machine.after()
    assert told.detail == "the request was accepted; SIGTERM was sent to 2 processes that held a GPU"
    assert [child.wait(5) for child in trainers] == [-signal.SIGTERM] * 2
    assert [child.poll() for child in others] == [None] * 3


@pytest.mark.parametrize(
    "case",
    [
        {"outcome": Result("failed", "x")},
        {"outcome": Result("refused", "x")},
        {"outcome": Result("unknown", "x")},
        {"outcome": Result("done", "x")},
        {"action": "hibernate"},
        {"action": "shutdown"},
        {"mode": "dry-run"},
        {"sigterm": False},
        {"sigterm": "yes"},
    ],
)
def test_only_once_the_machine_surely_ends_and_where_it_is_wished(machine: Machine, case: dict[str, object]) -> None:
    """A request that failed stops nobody's work, and a machine that hibernates keeps it."""
    child = machine.process("/dev/nvidia0")
    outcome = case.get("outcome", ACCEPTED)
    assert machine.after(**case) == outcome  # type: ignore[arg-type]  # one of each kind
    assert child.poll() is None


def test_numbers_of_another_namespace_mean_nobody_here(machine: Machine) -> None:
    """The host's /proc, as a container has it mounted: its process 17 is not ours."""
    child = machine.process("/dev/nvidia0")
    (machine.procfs / "self").unlink()
    (machine.procfs / "self").symlink_to("17")
    assert "cannot be reached from here" in machine.after().detail
    assert child.poll() is None


def test_nobody_there_and_who_went_in_the_meantime_is_said(machine: Machine) -> None:
    """The story says what was done, not what was meant."""
    machine.listed(2**22 + 5, "/dev/nvidia0", "gone")
    assert machine.after().detail.endswith("no process that held a GPU got SIGTERM")


@pytest.mark.parametrize(
    ("action", "verdict", "wished", "said"),
    [
        ("stop", "go", True, True),
        ("terminate", "consequences", True, True),
        ("stop", "refuse", True, False),
        ("stop", "go", False, False),
        ("hibernate", "go", True, False),
    ],
)
def test_the_plan_says_so_before(action: str, verdict: Verdict, wished: bool, said: bool) -> None:
    """So it stands in the warning: whoever trains there learns of it in time, in a dry run, too."""
    context = Context(action, "dry-run", hook={"sigterm": wished})
    found = sigterm.announced(Plan(action, verdict), context)
    assert [finding.code for finding in found.findings] == ["sigterm"] * said
