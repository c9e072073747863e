"""What a reading rests on: never more time than has passed, and never an answer that has gone away."""

import pytest

from costguard.readers.nvml.codes import NvmlError
from costguard.testing.nvml import Values
from tests.faults.nvml_world import TICK, Machine

ENGINES = ["encoder", "decoder", "jpeg", "ofa"]


def test_a_reading_covers_no_more_than_the_time_since_the_last_one(machine: Machine) -> None:
    """The ring of samples and the energy counter prove the same seconds: together not one more."""
    for seconds in (TICK, 1.0, 15.0, TICK, 5.0):
        covers = machine.tick(seconds=seconds)[2]
        assert covers == pytest.approx(seconds, abs=0.2)


@pytest.mark.parametrize("seconds", [TICK, 40.0])
def test_a_hole_in_the_ring_is_covered_by_the_counter_alone(machine: Machine, seconds: float) -> None:
    """What the ring still holds lies within what the counter proves."""
    machine.script.set(ring=12)
    assert machine.tick(seconds=seconds)[2] == pytest.approx(seconds, abs=0.2)
    machine.watts = 300.0  # that of work: the counter proves nothing, and two seconds of samples are left
    assert machine.tick(seconds=seconds)[2] < 3.0


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("code", [3, 4, 13, 999])
def test_an_engine_that_answered_and_now_does_not_is_unknown(machine: Machine, engine: str, code: int) -> None:
    """*Not supported* was untrue once already: what it did meanwhile nobody knows, and zero would be a lie."""
    function = {"jpeg": "nvmlDeviceGetJpgUtilization", "ofa": "nvmlDeviceGetOfaUtilization"}.get(
        engine, f"nvmlDeviceGet{engine.capitalize()}Utilization"
    )
    machine.script.fail(function, code)
    for _ in range(10):
        with pytest.raises(NvmlError):
            machine.tick()
    machine.script.heal()
    values: Values = {engine: 30}  # type: ignore[misc]  # one of the engines
    machine.script.set(**values)
    assert machine.tick()[0] == 0.3


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_that_never_answered_is_not_missed(machine: Machine, engine: str) -> None:
    """Many GPUs have no encoder; they are judged by the rest, also by a reader that begins anew."""
    machine.begin_anew()
    values: Values = {engine: "na"}  # type: ignore[misc]  # one of the engines
    machine.script.set(**values)
    assert [machine.tick()[0] for _ in range(8)] == [0.0] * 8
    machine.restart()
    assert machine.tick()[0] == 0.0
