"""The sense `cpu`, on counters that a test makes and on those of the kernel."""

from pathlib import Path

import pytest

from costguard.readers.host.cpu import Cpu
from costguard.readers.host.sense import NOT_YET, Moment, SensePaths, Sight
from tests.unit.readers.host.tree import Tree

SETTINGS = {"cores": 0.5, "quiet_for": 300.0, "ignore": ["restic"]}


class World:
    """A machine whose processors a test uses."""

    def __init__(self, folder: Path) -> None:
        self.tree = Tree(folder)
        self.sense = Cpu(SETTINGS, self.tree.place)
        self.used = [5000.0] * 10

    def step(self, times: float = 1, **cores: float) -> Sight:
        names = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice")
        for _ in range(round(times)):
            for name, rate in cores.items():
                self.used[names.index(name)] += rate * 1000
            line = " ".join(str(round(ticks)) for ticks in self.used)
            self.tree.write("proc/stat", f"cpu  {line}\ncpu0 1 2 3\nintr 99\n")
            sight = self.tree.look(self.sense)
        return sight


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    assert world.step().unknown == NOT_YET
    assert world.step() == Sight((), "", "the processors are idle")
    return world


@pytest.mark.parametrize("kind", ["user", "nice", "system", "softirq"])
def test_a_core_at_work_counts_at_the_second_look(world: World, kind: str) -> None:
    """And lets go after its while."""
    assert not world.step(**{kind: 0.9}).active
    (one,) = world.step(**{kind: 0.9}).active
    assert (one.who, one.what, one.lets_go) == ("the processors", "used more than 0.5 cores", "5 min below 0.5 cores")
    assert world.step(30).active
    assert not world.step().active


def test_waiting_is_no_work(world: World) -> None:
    """For a disk, or for the host of a virtual machine; nor is a job of a minute's clock that takes a second."""
    assert not world.step(20, iowait=3.0, steal=3.0, idle=9.0).active
    for _ in range(6):
        assert not world.step(user=2.0).active
        assert not world.step(5, user=0.03).active


def test_upkeep_begins_nothing(world: World) -> None:
    """As for traffic."""
    world.tree.process(400, "restic", start=world.tree.now)
    assert not world.step(10, user=2.0).active


def test_what_cannot_be_read_is_unknown(world: World) -> None:
    """And known again when it can."""
    (world.tree.proc / "stat").unlink()
    assert world.tree.look(world.sense).unknown == "the processors cannot be seen (No such file or directory)"
    world.tree.write("proc/stat", "what\n")
    assert world.tree.look(world.sense).unknown == "the processors cannot be seen (an unexpected form)"
    assert world.step(2).unknown == ""


def test_the_kernel_s_own_table_is_read(tmp_path: Path) -> None:
    """Only the time is made here."""
    sense, tree = Cpu(SETTINGS, SensePaths()), Tree(tmp_path)
    seen = [sense.look(Moment(now, now), tree.processes).unknown for now in (1000.0, 1010.0, 1020.0)]
    assert seen == [NOT_YET, "", ""]
