"""Who is on a GPU, how warm it is and what it draws, as the reader tells those who ask for it."""

import pytest

from costguard.testing.nvml import Process
from tests.faults.nvml_world import KEYS, World
from tests.libraries import Libraries

LISTS = ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses", "nvmlDeviceGetMPSComputeRunningProcesses")  # fmt: skip
USE = "nvmlDeviceGetProcessUtilization"


def test_nobody_is_told_who_did_not_ask(world: World) -> None:
    """A guard's reader neither asks the driver for it nor says it."""
    assert "holders" not in world.reader().read()


def test_every_context_is_listed_once_and_who_used_it(world: World) -> None:
    """Computing, drawing, and clients of MPS."""
    found = [Process(42), Process(42, kind="graphics"), Process(43, kind="graphics"), Process(44, kind="mps", sm=30)]
    world.script.set(0, processes=found)
    holders = world.reader(holders=True).read()["holders"]
    assert holders == {KEYS[0]: [[42, 43, 44], [44], ""], KEYS[1]: [[], [], ""]}


def test_a_driver_of_before_the_newest_lists_is_read(libraries: Libraries, world: World) -> None:
    """Its lists, and their entries, have another form."""
    world.take(libraries.nvml(old_driver=True))
    world.script.set(0, processes=[Process(42), Process(43), Process(44)])
    assert world.reader(holders=True).read()["holders"][KEYS[0]][0] == [42, 43, 44]


@pytest.mark.parametrize("function", LISTS)
def test_a_list_that_fails_makes_all_unknown(world: World, function: str) -> None:
    """Of one GPU; an empty list would be a lie."""
    world.script.set(0, processes=[Process(42)])
    world.script.fail(function, 999, gpu=0)
    pids, _users, why = world.reader(holders=True).read()["holders"][KEYS[0]]
    assert pids is None
    assert "the processes on it are not listed" in why


@pytest.mark.parametrize(("code", "pids"), [(3, [42]), (13, [42])])
def test_a_list_that_this_gpu_does_not_have_is_empty(world: World, code: int, pids: list[int]) -> None:
    """Those of drawing and of MPS; not that of computing, without which nobody is known."""
    world.script.set(0, processes=[Process(42)])
    for function in LISTS[1:]:
        world.script.fail(function, code)
    assert world.reader(holders=True).read()["holders"][KEYS[0]][0] == pids
    world.script.fail(LISTS[0], code)
    assert world.reader(holders=True).read()["holders"][KEYS[0]][0] is None


def test_use_that_is_not_given_is_not_known(world: World) -> None:
    """Who is there is known all the same."""
    world.script.set(0, processes=[Process(42, sm=10)])
    world.script.fail(USE, 3)
    assert world.reader(holders=True).read()["holders"][KEYS[0]] == [[42], None, ""]


def test_nobody_is_known_on_a_gpu_that_is_lost_or_divided(world: World) -> None:
    """With the reason."""
    world.script.set(0, handle=15)
    world.script.set(1, mig=1)
    holders = world.reader(holders=True).read()["holders"]
    assert [holders[key][0] for key in KEYS] == [None, None]
    assert "lost" in holders[KEYS[0]][2]
    assert holders[KEYS[1]][2] == "it is divided (MIG)"


def test_sensors_are_told_to_who_asks(world: World) -> None:
    """How warm, and what it draws; nothing of a GPU that cannot be opened, and null for what is not given."""
    world.script.set(0, temperature=71, power=612.5)
    world.script.set(1, temperature="na", power="na")
    answer = world.reader(sensors=True).read()
    assert answer["sensors"] == {KEYS[0]: [71, 612.5], KEYS[1]: [None, None]}
    assert "sensors" not in world.reader().read()
