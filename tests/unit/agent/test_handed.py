"""What one reader learnt reaches the next one, whoever ended the one before, and however."""

import json
from typing import Any

import pytest

from costguard.agent.loop import Loop
from costguard.testing.simhost import Faults, Machine, Phase, SimHost, SimOff, World, effective

KEYS = ("counters", "learnt")


class Once(Faults):
    """The reader fails in one way at one time."""

    def __init__(self, fault: str = "") -> None:
        self.fault = fault

    def take(self, subject: str, host: SimHost) -> str:
        return self.fault if subject == "nvml" and 100.0 < host.now < 115.0 else ""


class Spawns(SimHost):
    """Notes the jobs of readers as they are started."""

    def __init__(self, world: World, faults: Faults, until: float | None = None) -> None:
        super().__init__(world=world, faults=faults, until=until)
        self.jobs: list[dict[str, Any]] = []

    def spawn(self, program: str, job: bytes) -> int:
        child = super().spawn(program, job)
        if program == "nvml":
            self.jobs.append(dict(self.children[child].job))
        return child


def world() -> World:
    return World(Machine(gpus=2, script=[Phase(9**9, 0.9)]), seed=3)


@pytest.mark.parametrize("fault", ["hang", "die", "late", "garbage"])
def test_the_next_reader_knows_what_the_one_before_learnt(fault: str) -> None:
    """Killed in a call that hangs, crashed, too late, mad: idle power and counters are those that were known."""
    host = Spawns(world(), Once(fault), until=300.0)
    Loop(host, effective(), host.start()).run()
    first, second = host.jobs[0], host.jobs[1]
    assert [first.get(name) for name in KEYS] == [None, None]
    assert set(second["learnt"]) == set(second["counters"]) == set(host.machine.keys)
    assert second["learnt"][host.machine.keys[0]] == {"bare": 70_000}


class Learns(Faults):
    """In one tick, in which nothing else is new."""

    def take(self, subject: str, host: SimHost) -> str:
        return "learns" if subject == "nvml" and 325.0 < host.now < 335.0 else ""


def test_the_next_guard_of_this_boot_knows_it_too() -> None:
    """Also when it was killed before the state would have been saved for its own sake."""
    shared = world()
    host = Spawns(shared, Learns())

    def die() -> None:
        raise SimOff

    shared.at(336.0, die)
    with pytest.raises(SimOff):
        Loop(host, effective(), host.start()).run()
    host.die()
    after = Spawns(shared, Faults(), until=400.0)
    Loop(after, effective(), after.start()).run()
    assert after.jobs[0]["learnt"][shared.machine.keys[0]] == {"bare": 60_000}
    assert set(after.jobs[0]["learnt"]) == set(shared.machine.keys)


@pytest.mark.parametrize("garbage", [7, "x", None, [], {"0000:01:00.0": 7}])
def test_garbage_in_the_saved_state_starts_a_reader_all_the_same(garbage: object) -> None:
    """What is no object is left out; the rest is the reader's to judge."""
    shared = world()
    host = Spawns(shared, Faults(), until=50.0)
    Loop(host, effective(), host.start()).run()
    boot = host.start()
    assert boot.state is not None
    saved = {**json.loads(boot.state), "learnt": garbage}
    after = Spawns(shared, Faults(), until=80.0)
    Loop(after, effective(), boot._replace(state=json.dumps(saved).encode())).run()
    assert isinstance(after.jobs[0].get("learnt", {}), dict)
    assert after.jobs[0]["counters"]
