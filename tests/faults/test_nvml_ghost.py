"""Use that nothing makes: quiet and told, and never when anything about it is unknown."""

import pytest

from costguard.readers.nvml.codes import NvmlError
from costguard.testing.nvml import Process, Values
from tests.faults.nvml_world import TICK, Machine

GHOST = "GPU use is stuck at 100 %"


def test_ghost_is_quiet_and_told_after_two_minutes(machine: Machine) -> None:
    """100 % without process, memory and power: load until it lasted two minutes, then idle, with words and a finding."""
    machine.script.set(util=100)
    machine.tick(1)
    assert machine.tick(11)[0] == 1.0
    assert machine.gpu.findings == []
    load, signs, covers, evidence = machine.tick(3)
    assert (load, signs, covers) == (0.0, [], TICK)
    assert "no process behind it" in evidence
    assert [(code, words[: len(GHOST)]) for code, words in machine.gpu.findings] == [("ghost", GHOST)]


@pytest.mark.parametrize(
    "values",
    [
        {"processes": [Process(42)]},
        {"processes": [Process(42, kind="graphics")]},
        {"processes": [Process(42, kind="mps")]},
        {"memory_used": 100},
        {"memory_used": "na"},
        {"util": 90},
        {"encoder": 1},
    ],
)
def test_work_on_a_ghost_is_seen_at_once(machine: Machine, values: Values) -> None:
    """Whatever shows that somebody is there ends it in the very next read."""
    machine.script.set(util=100)
    assert machine.tick(15)[0] == 0.0
    machine.script.set(**values)
    assert machine.tick(1)[0] >= 0.9
    assert machine.gpu.findings == []


@pytest.mark.parametrize("use", [100, 90, 60])
def test_ghost_draws_what_clocks_cost_that_nobody_lowers(machine: Machine, use: int) -> None:
    """As people report it: stuck at some use, 100 W where the idle GPU drew 70, and nothing behind it."""
    machine.script.set(util=use, limit=600, default_limit=600, counters={197: 0.0, 198: 0.0})
    machine.watts = 100
    load, signs, _, evidence = machine.tick(16)
    assert (load, signs) == (0.0, [])
    assert "no process behind it" in evidence
    assert machine.gpu.findings[0][1].startswith(f"GPU use is stuck at {use} %")


def test_use_that_moves_is_no_ghost(machine: Machine) -> None:
    """Somebody computes there, even if nothing else tells of it."""
    for number in range(24):
        machine.script.set(util=100 if number % 2 else 90)
        assert machine.tick(1)[0] >= 0.9


def test_power_of_work_is_no_ghost(machine: Machine) -> None:
    """It draws more than contexts that only wait could add to the idle GPU."""
    machine.script.set(util=100)
    machine.watts = 165
    reading = machine.tick(16)
    assert (reading[0], reading[1]) == (1.0, ["power 95 W above idle"])


def test_bytes_that_move_are_no_ghost(machine: Machine) -> None:
    """Copies over PCIe, at low power and without any process in sight."""
    machine.script.set(util=100, counters={197: 0.0, 198: 50e6})
    assert machine.tick(16)[0] == 1.0


@pytest.mark.parametrize(
    "function",
    [
        "nvmlDeviceGetComputeRunningProcesses",
        "nvmlDeviceGetMPSComputeRunningProcesses",
        "nvmlDeviceGetGraphicsRunningProcesses",
        "nvmlDeviceGetTotalEnergyConsumption",
    ],
)
def test_nothing_is_a_ghost_while_part_of_it_is_unknown(machine: Machine, function: str) -> None:
    """A list that the driver does not give, or power that is not known: the use counts as work."""
    machine.script.fail(function, 3)
    machine.script.set(util=100)
    assert machine.tick(16)[0] == 1.0


@pytest.mark.parametrize(("watts", "load"), [(70, 0.0), (233, 0.0), (234, 1.0), (600, 1.0)])
def test_ghost_from_the_start_draws_little_power(machine: Machine, watts: float, load: float) -> None:
    """No idle baseline was ever seen (the kernel was killed before or under us): a third of the limit stands for it."""
    machine.script.set(util=100)
    machine.watts = watts
    machine.begin_anew()
    assert machine.tick(16)[0] == load


def test_ghost_without_baseline_and_limit_is_load(machine: Machine) -> None:
    """Then idle power cannot be told."""
    machine.script.set(util=100, limit="na", default_limit="na")
    machine.begin_anew()
    assert machine.tick(16)[0] == 1.0


def test_kernel_killed_under_a_job_that_was_there_first(machine: Machine) -> None:
    """The agent never saw this GPU without its job: what the killed kernel leaves is a ghost all the same."""
    machine.script.set(util=97, memory_used=60_000, processes=[Process(42)])
    machine.watts = 600
    machine.begin_anew()
    machine.tick(4)
    machine.script.set(util=100, memory_used=0, processes=[])
    machine.watts = 90
    assert machine.tick(20)[0] == 0.0
    assert [code for code, _ in machine.gpu.findings] == ["ghost"]


def test_failed_read_begins_the_two_minutes_again(machine: Machine) -> None:
    """What was not seen is not known to have been a ghost."""
    machine.script.set(util=100)
    machine.tick(10)
    machine.script.fail("nvmlDeviceGetTotalEnergyConsumption", 999)
    with pytest.raises(NvmlError):
        machine.tick()
    machine.script.heal()
    assert machine.tick(6)[0] == 1.0
    assert machine.tick(9)[0] == 0.0


@pytest.mark.parametrize(
    ("metrics", "load"), [({2: 0.0, 5: 0.0, 10: 0.0}, 0.0), ({2: 5.0, 5: 0.0, 10: 0.0}, 1.0), ({}, 1.0)]
)
def test_activity_counters_must_agree(machine: Machine, metrics: dict[int, float], load: float) -> None:
    """Where there is GPM, it must show that nothing runs; without a value it shows nothing."""
    machine.script.set(gpm=True, gpm_metrics={2: 0.0, 5: 0.0, 10: 0.0})
    machine.begin_anew()
    machine.tick(3)
    machine.script.set(util=100, gpm_metrics=metrics)
    assert machine.tick(16)[0] == load
