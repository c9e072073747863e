"""What a command is told about the GPUs it was started for, and what is said when there are none."""

import json
from typing import Any

import pytest

from costguard.agent.loop import Loop
from costguard.host.ports import Instant
from costguard.testing.simhost import Machine, Phase, SimHost, Watch, effective
from costguard.testing.simprograms import Reader, encode


class Jobs(Watch):
    """The jobs of actions that were carried out, and the journal."""

    def __init__(self) -> None:
        self.jobs: list[dict[str, Any]] = []
        self.lines: list[str] = []

    def acted(self, now: Instant, job: dict[str, Any]) -> None:
        self.jobs.append(job)

    def said(self, now: Instant, line: str) -> None:
        self.lines.append(line)


@pytest.mark.parametrize(
    ("devices", "aggregate", "gpus", "idle"),
    [(["0"], "all", [0], 1200.0), (["0", "1"], "all", [0, 1], 1200.0), (["0", "2"], "any", [0], 1200.0)],
)
def test_a_command_is_told_of_the_selected_gpus(
    devices: list[str], aggregate: str, gpus: list[int], idle: float
) -> None:
    """GPU 2 works all the time: where it is not selected, or one is enough, it neither counts, nor is named, nor hides idle time."""
    jobs = Jobs()
    machine = Machine(gpus=3, script=[Phase(3600.0, (0.9, 0.9, 0.9)), Phase(9**9, (0.0, 0.0, 0.9))])
    host = SimHost(machine, seed=3, until=6000.0, watch=jobs)
    rules = {"gpu_devices": devices, "aggregate": aggregate, "kill_duration": 900.0, "grace": 300.0}
    Loop(host, effective(rules, mode="live", kill_action="command"), host.start()).run()
    (job,) = jobs.jobs
    assert job["gpus"] == [machine.keys[i] for i in gpus]
    assert job["idle_seconds"] == pytest.approx(idle, abs=90.0)


class NoDriver(SimHost):
    """A machine whose reader finds no GPU, and says why."""

    def emit(self, child: int, seconds: float, line: bytes) -> None:
        if isinstance(self.children.get(child), Reader):
            why: dict[str, Any] = {"gpus": [], "error": "NVML 9: the driver is not loaded", "hardware": None}
            line = encode({"read": json.loads(line)["read"], **why})
        super().emit(child, seconds, line)


def test_a_driver_without_gpus_is_said() -> None:
    """The reader answers, and its reason why there is nothing to watch stands in the journal and in the status."""
    jobs = Jobs()
    host = NoDriver(Machine(gpus=1), seed=3, until=600.0, watch=jobs)
    loop = Loop(host, effective(), host.start())
    loop.run()
    assert [line for line in jobs.lines if "NVML 9" in line] == [
        "<3>no GPU can be read: NVML 9: the driver is not loaded"
    ]
    status = loop.status()
    assert status["agent"]["troubles"]["nvml"] == "no GPU can be read: NVML 9: the driver is not loaded"
    assert status["agent"]["reader"] == "NVML 9: the driver is not loaded"


@pytest.mark.parametrize(
    ("scope", "devices", "beside"),
    [("task", ["0000:02:00.0"], 2), ("machine", None, None)],
)
def test_a_guard_of_a_task_names_what_it_judges_and_counts_what_it_does_not(
    monkeypatch: pytest.MonkeyPatch, scope: str, devices: list[str] | None, beside: int | None
) -> None:
    """By that the action sees whether the task has these GPUs; where all belongs to the machine there is nothing to compare."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    jobs = Jobs()
    host = SimHost(Machine(gpus=3, script=[Phase(3600.0, 0.9), Phase(9**9, 0.0)]), seed=3, until=6000.0, watch=jobs)
    rules = {"scope": scope, "kill_duration": 900.0, "grace": 300.0}
    Loop(host, effective(rules, mode="live", kill_action="command"), host.start()).run()
    (job,) = jobs.jobs
    named = job.get("devices")
    assert (named and [device["key"] for device in named]) == devices
    assert job.get("beside") == beside
