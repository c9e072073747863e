"""The action worker with this plug-in: a process of its own, as the guard starts it."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from costguard_aws.testing import FakeMachine, Nature
from costguard_aws.testing.api import SpotPrice
from tests.clouds.aws.conftest import Launch


class Worker:
    """One child, one job."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def say(self, message: dict[str, object]) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout
        heard: dict[str, Any] = json.loads(self.process.stdout.readline())
        return heard


@contextmanager
def worker(
    here: FakeMachine, results: Path, kind: str, action: str = "stop", *, mode: str = "live", **cloud: object
) -> Iterator[Worker]:
    """Start it with a job; its cloud is found as on a real machine, by firmware and environment."""
    environ = {name: value for name, value in os.environ.items() if name != "container"}
    process = subprocess.Popen(
        [sys.executable, "-m", "costguard.actions.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environ | here.environ(),
    )
    job = {
        "job": kind,
        "action": action,
        "mode": mode,
        "incident": "inc-1",
        "attempt": "inc-1.1",
        "providers": ["aws=costguard_aws:Aws", "gcp=costguard_gcp:Gcp", "azure=costguard_azure:Azure"],
        "cloud": cloud,
        "host": {"procfs": f"{here.root}/proc", "sysfs": f"{here.root}/sys"},
        "results": str(results),
        "deadline": 20.0,
    }
    child = Worker(process)
    child.say(job)
    try:
        yield child
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def results(tmp_path: Path, here: FakeMachine) -> Path:
    """A folder for records, and a machine that is no container."""
    here.write("proc/1/cgroup", "0::/init.scope\n")
    folder = tmp_path / "results"
    folder.mkdir(mode=0o700)
    return folder


def test_a_dry_run_changes_nothing(here: FakeMachine, results: Path) -> None:
    """Neither the group, which a member leaves before it is stopped, nor the machine: only questions and dry runs are sent."""
    here.join(minimum=1, desired=2)
    with worker(here, results, "act", mode="dry-run", group="leave") as child:
        assert child.hear()["plan"]["verdict"] == "consequences"
        assert child.hear() == {"ready": True}
        child.say({"go": True})
        assert child.hear()["outcome"]["status"] == "refused"
    assert here.api.calls() == []


def test_from_plan_to_proof(here: FakeMachine, results: Path) -> None:
    """The worker waits with its session warm; after *go* the request is on its way at once."""
    with worker(here, results, "act") as child:
        plan = child.hear()["plan"]
        assert child.hear() == {"ready": True}
        assert here.api.calls() == []
        began = time.perf_counter()
        child.say({"go": True})
        outcome = child.hear()["outcome"]
        spent = time.perf_counter() - began
    assert (plan["verdict"], outcome["status"], here.state) == ("go", "accepted", "stopped")
    assert (outcome["receipt"]["instance"], outcome["receipt"]["account"]) == (here.id, "123456789012")
    assert spent < 0.5  # the aim is 0.1; the rest is for a slow machine
    for status in ("pending", "done"):
        with worker(here, results, "confirm") as child:
            assert child.hear()["outcome"]["status"] == status


def test_a_guard_that_dies_leaves_the_machine_alone(here: FakeMachine, results: Path) -> None:
    """The end of input before *go* is a no."""
    with worker(here, results, "act") as child:
        child.hear()
        child.hear()
        assert child.process.stdin
        child.process.stdin.close()
        assert child.process.wait(10) == 0
        child.process.stdin = None
    assert (here.api.calls(), here.state) == ([], "running")


def test_killed_while_nobody_answers(here: FakeMachine, results: Path) -> None:
    """The request is out, its worker dies: nothing is repeated, and EC2 says what became of it."""
    here.api.fail("silent", "StopInstances")
    with worker(here, results, "act") as child:
        child.hear()
        child.hear()
        child.say({"go": True})
        while not here.api.calls():
            time.sleep(0.01)
        child.process.kill()
    with worker(here, results, "confirm") as child:
        outcome = child.hear()["outcome"]
    assert outcome["status"] == "unknown"
    assert "EC2 shows running: the bill goes on" in outcome["detail"]
    assert len(here.api.calls()) == 1


def test_a_refused_plan_never_waits(launch: Launch, tmp_path: Path) -> None:
    """It says why, and ends."""
    here = launch("g5g.xlarge", Nature(spot="one-time"))
    here.write("proc/1/cgroup", "0::/init.scope\n")
    with worker(here, tmp_path, "act") as child:
        plan = child.hear()["plan"]
        assert child.process.wait(10) == 0
    assert (plan["verdict"], plan["findings"][0]["code"]) == ("another", "one_time_spot")


def test_the_guard_hears_the_spot_price_with_the_plan(launch: Launch, tmp_path: Path) -> None:
    """As plain values, and only where there is one."""
    here = launch("g5g.xlarge", Nature(spot="persistent"))
    here.write("proc/1/cgroup", "0::/init.scope\n")
    here.api.spot_prices = [SpotPrice("g5g.xlarge", "us-east-1a", "0.2000", "2021-01-31T18:00:00Z")]
    with worker(here, tmp_path, "plan") as child:
        price = child.hear()["plan"]["price"]
    assert (price["amount"], price["currency"], price["kind"]) == (0.2, "USD", "spot")
    here.api.spot_prices.clear()
    with worker(here, tmp_path, "plan") as child:
        assert "price" not in child.hear()["plan"]
