"""The action worker as a real process on this cloud: what the guard starts, waits for and releases."""

import json
import os
import subprocess
import sys
import time
from typing import Any

import pytest

from costguard_gcp.testing import Fault, Machine, firmware
from tests.clouds.gcp.conftest import World

WORKER = [sys.executable, "-m", "costguard.actions.worker"]
RELEASE_BUDGET = 0.25
"""Seconds from *go* to the request, at most."""


def start(world: World, kind: str, action: str = "stop") -> subprocess.Popen[bytes]:
    """A worker with its job, on its way. It finds the stand-ins as it would find the real ones."""
    sysfs, procfs = firmware(world.folder, world.machine)
    host = {"procfs": procfs, "sysfs": sysfs, "stands_for_host": True}
    section = {"metadata_endpoint": world.metadata.url, "api_endpoint": world.api.url, **world.settings}
    job: dict[str, Any] = {
        "job": kind,
        "action": action,
        "mode": "live",
        "incident": "b-i1",
        "attempt": "b-a1",
        "host": host,
    }
    job |= {
        "cloud": section,
        "providers": ["gcp=costguard_gcp"],
        "results": str(world.folder / "results"),
        "deadline": 20,
    }
    worker = subprocess.Popen(WORKER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(os.environ))
    assert worker.stdin
    worker.stdin.write(json.dumps(job).encode() + b"\n")
    worker.stdin.flush()
    return worker


def answers(worker: subprocess.Popen[bytes], said: bytes = b"") -> dict[str, Any]:
    """Everything that it says until its end."""
    out, _ = worker.communicate(said, timeout=30)
    assert worker.returncode == 0
    found: dict[str, Any] = {}
    for line in out.splitlines():
        found |= json.loads(line)
    return found


def test_plan_act_and_confirm(world: World) -> None:
    """The whole way, each step in a process of its own; the waiting one sends within a blink."""
    worker = start(world, "act")
    assert worker.stdout
    assert worker.stdin
    plan, ready = json.loads(worker.stdout.readline()), json.loads(worker.stdout.readline())
    assert plan["plan"]["verdict"] == "go"
    assert ready == {"ready": True}
    assert world.api.effects == []
    released = time.time()
    done = answers(worker, b'{"go":true}\n')["outcome"]
    (sent,) = world.api.calls("/stop")
    assert sent.at - released < RELEASE_BUDGET
    assert done["status"] == "accepted"
    assert done["receipt"]["resource"] == "projects/ml-project/zones/us-central1-a/instances/trainer-1"
    assert done["receipt"]["request"] == done["proof"]
    assert answers(start(world, "confirm"))["outcome"]["detail"].startswith("seen stopping")
    assert answers(start(world, "confirm"))["outcome"]["detail"].startswith("closed")


def test_a_worker_that_is_not_released_does_nothing(world: World) -> None:
    """The guard died, or work was seen again."""
    assert "outcome" not in answers(start(world, "act"))
    assert world.api.effects == []


@pytest.mark.parametrize("at", ["before", "after"])
def test_a_worker_that_is_killed_while_it_sends_leaves_one_effect_at_most(world: World, at: str) -> None:
    """Asked afterwards, the cloud says what became of it; nobody sends it again."""
    world.api.faults.append(Fault("slow", ".stop", seconds=1.0))
    worker = start(world, "act")
    assert worker.stdout
    assert worker.stdin
    [worker.stdout.readline() for _ in range(2)]
    if at == "after":
        worker.stdin.write(b'{"go":true}\n')
        worker.stdin.flush()
        while not world.folder.joinpath("results").exists():
            time.sleep(0.01)
        time.sleep(0.3)  # the request is on its way, its answer is not
    worker.kill()
    worker.communicate()
    if at == "after":
        deadline = time.monotonic() + 5
        while not world.api.effects and time.monotonic() < deadline:
            time.sleep(0.02)
    outcome = answers(start(world, "confirm"))["outcome"]
    expected = {"before": ([], "unknown"), "after": (["stop"], "pending")}[at]
    assert (world.api.effects, outcome["status"]) == expected


def test_a_machine_of_another_cloud_is_left_alone(world: World) -> None:
    """The firmware decides before any network."""
    sysfs, _ = firmware(world.folder, Machine())
    with open(f"{sysfs}/class/dmi/id/product_name", "w", encoding="utf-8") as file:
        file.write("OpenStack Nova\n")
    job: dict[str, Any] = {"job": "plan", "action": "stop", "mode": "live", "providers": ["gcp=costguard_gcp"]}
    job |= {"host": {"sysfs": sysfs, "stands_for_host": True}, "cloud": {"metadata_endpoint": world.metadata.url}}
    done = subprocess.run(WORKER, input=json.dumps(job).encode() + b"\n", capture_output=True, timeout=30, check=True)
    assert json.loads(done.stdout)["plan"]["verdict"] == "refuse"
    assert world.metadata.requests == []
