"""A job that seems to hang is told of, still counts as work, and is not confused with jobs that do work."""

import pytest

from costguard.readers.nvml.codes import NvmlError
from costguard.testing.nvml import Process, Values
from tests.faults.nvml_world import Machine

MINUTE = 60.0
STILL = {2: 12.0, 5: 0.0, 10: 0.2, 20: 0.0, 21: 0.0, 60: 0.0, 61: 0.0}
TRAINING = {2: 80.0, 5: 40.0, 10: 50.0}
NO_BYTES = {197: 0.0, 198: 0.0}


def started(machine: Machine, *, gpm: bool) -> Machine:
    """A process that first waited at 120 W and then trained at 600 W."""
    machine.script.set(gpm=gpm, gpm_metrics=dict.fromkeys(STILL, 0.0), counters=NO_BYTES, processes=[Process(42)])
    machine.begin_anew()
    machine.watts = 120
    machine.tick(4, MINUTE)
    machine.script.set(util=100, memory_used=60_000, gpm_metrics=TRAINING, counters={197: 9e9, 198: 9e9})
    machine.watts = 600
    machine.tick(4, MINUTE)
    return machine


def found(machine: Machine) -> list[str]:
    return [code for code, _ in machine.gpu.findings]


@pytest.mark.parametrize("gpm", [True, False])
def test_spinning_collective_is_suspected_after_ten_minutes_and_counts_as_work(machine: Machine, gpm: bool) -> None:
    """100 %, flat, far below its own power, nothing moves: told after ten minutes; ends when it goes on."""
    started(machine, gpm=gpm)
    machine.script.set(gpm_metrics=STILL, counters=NO_BYTES)
    machine.watts = 140
    machine.tick(9, MINUTE)
    assert found(machine) == []
    assert machine.tick(5, MINUTE)[0] == 1.0
    assert found(machine) == ["suspect_hung"]
    machine.script.set(gpm_metrics=TRAINING)
    machine.watts = 600
    machine.tick(1, MINUTE)
    assert found(machine) == []


@pytest.mark.parametrize(
    ("gpm", "watts", "metrics", "counters"),
    [
        (True, 600.0, TRAINING, NO_BYTES),  # training
        (False, 600.0, {}, NO_BYTES),
        (True, 280.0, STILL | {2: 60.0, 10: 70.0}, NO_BYTES),  # decoding, bound by the memory
        (False, 280.0, {}, NO_BYTES),
        (True, 140.0, STILL | {60: 500.0}, NO_BYTES),  # a slow collective
        (False, 140.0, {}, {197: 0.0, 198: 5e9}),  # per second of the real time, which is short
        (True, 140.0, {2: 12.0}, NO_BYTES),  # counters that are missing
    ],
)
def test_work_is_not_suspected(
    machine: Machine, gpm: bool, watts: float, metrics: dict[int, float], counters: dict[int, float]
) -> None:
    """Training, memory-bound decoding and slow collectives run at a flat 100 % too."""
    started(machine, gpm=gpm)
    machine.script.set(gpm_metrics=metrics, counters=counters)
    machine.watts = watts
    machine.tick(15, MINUTE)
    assert found(machine) == []


@pytest.mark.parametrize("gpm", [True, False])
def test_data_loading_is_not_suspected(machine: Machine, gpm: bool) -> None:
    """Use that dips between batches is none of a kernel that spins."""
    started(machine, gpm=gpm)
    machine.watts = 140
    for _ in range(8):
        machine.script.set(util=100, gpm_metrics=STILL, counters=NO_BYTES)
        machine.tick(1, MINUTE)
        machine.script.set(util=60)
        machine.tick(1, MINUTE)
    assert found(machine) == []


def test_power_that_moves_is_not_suspected(machine: Machine) -> None:
    """Flat means within the noise of the board."""
    started(machine, gpm=True)
    machine.script.set(gpm_metrics=STILL, counters=NO_BYTES)
    for number in range(15):
        machine.watts = 140 + 30 * (number % 2)
        machine.tick(1, MINUTE)
    assert found(machine) == []


@pytest.mark.parametrize("values", [{"processes": [Process(43), Process(44)]}, {"processes": []}])
def test_another_job_has_a_baseline_of_its_own(machine: Machine, values: Values) -> None:
    """What an earlier job drew says nothing about this one."""
    started(machine, gpm=True)
    machine.script.set(gpm_metrics=STILL, counters=NO_BYTES)
    machine.script.set(**values)
    machine.watts = 280
    machine.tick(15, MINUTE)
    assert found(machine) == []


@pytest.mark.parametrize("history", [True, False])
@pytest.mark.parametrize("values", [{"gpm": True}, {"counters": NO_BYTES}, {}])
def test_a_hang_is_suspected_from_what_there_is(machine: Machine, values: Values, history: bool) -> None:
    """It began before the agent did, or there are no counters of bytes: little flat power at a full 100 % is enough."""
    if history:
        machine.script.set(processes=[Process(42)], util=100)
        machine.watts = 600
        machine.tick(4)
    else:
        machine.begin_anew()
    machine.script.set(util=100, memory_used=60_000, processes=[Process(42)], gpm_metrics=STILL)
    machine.script.set(**values)
    machine.watts = 140
    machine.tick(9, MINUTE)
    assert found(machine) == []
    assert machine.tick(6, MINUTE)[0] == 1.0
    ((code, words),) = machine.gpu.findings
    assert code == "suspect_hung"
    assert "may be hung" in words
    assert ("what the job drew before" in words) is history


@pytest.mark.parametrize(
    ("values", "watts"),
    [
        ({"gpm": True, "gpm_metrics": STILL | {10: 5.0}}, 140),
        ({"counters": {197: 0.0, 198: 50e6}}, 140),
        ({"encoder": 5}, 140),
        ({}, 240),
        ({"processes": []}, 140),
    ],
)
def test_work_without_history_is_not_suspected(machine: Machine, values: Values, watts: float) -> None:
    """The agent began under a job: anything that moves, or more power than waiting costs, is work."""
    machine.script.set(util=100, memory_used=60_000, processes=[Process(42)])
    machine.script.set(**values)
    machine.begin_anew()
    machine.watts = watts
    machine.tick(15, MINUTE)
    assert found(machine) == []


def test_a_read_that_failed_begins_the_ten_minutes_again(machine: Machine) -> None:
    """What was not seen is not known to have hung."""
    started(machine, gpm=False)
    machine.script.set(counters=NO_BYTES)
    machine.watts = 140
    machine.tick(18, 30.0)
    machine.script.fail("nvmlDeviceGetTotalEnergyConsumption", 999)
    with pytest.raises(NvmlError):
        machine.tick(1, 20.0)
    machine.script.heal()
    machine.tick(8, 30.0)
    assert found(machine) == []
    machine.tick(16, 30.0)
    assert found(machine) == ["suspect_hung"]


def test_what_a_job_drew_outlives_the_reader(machine: Machine) -> None:
    """The next reader knows what this job drew, also when its idle power was never seen."""
    machine.script.set(gpm=True, gpm_metrics=TRAINING, util=100, memory_used=60_000, processes=[Process(42)])
    machine.begin_anew()
    machine.watts = 600
    machine.tick(4, MINUTE)
    machine.restart()
    machine.script.set(gpm_metrics=STILL)
    machine.watts = 300
    machine.tick(14, MINUTE)
    assert found(machine) == ["suspect_hung"]
