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


@pytest.mark.parametrize("kind", ["user", "nice", "system", "irq", "softirq"])
def test_a_core_at_work_counts_at_the_second_look(world: World, kind: str) -> None:
    """And lets go after its while."""
    began = world.tree.now
    assert not world.step(**{kind: 0.9}).active
    (one,) = world.step(**{kind: 0.9}).active
    assert (one.since, one.last) == (began + 10.0, world.tree.now)
    assert (one.who, one.what, one.lets_go) == ("the processors", "used more than 0.5 cores", "5 min below 0.5 cores")
    assert world.step(30).active
    assert not world.step().active


def test_waiting_is_no_work(world: World) -> None:
    """For a disk, or for the host of a virtual machine; nor is a job of a minute's clock that takes a second."""
    assert not world.step(20, iowait=3.0, steal=3.0, idle=9.0).active
    for _ in range(6):
        assert not world.step(user=2.0).active
        assert not world.step(5, user=0.03).active


@pytest.mark.parametrize(("rate", "counts"), [(0.49, False), (0.51, True)])
def test_work_of_all_kinds_is_one_sum(world: World, rate: float, counts: bool) -> None:
    """A fifth of it each."""
    kinds = dict.fromkeys(("user", "nice", "system", "irq", "softirq"), rate / 5)
    assert bool(world.step(3, **kinds).active) is counts


def test_a_look_that_comes_too_early_measures_nothing(world: World) -> None:
    """Over a moment any rate is noise; and nothing of it is lost to the next one."""
    world.step(user=0.9)
    world.used[0] += 900
    world.tree.write("proc/stat", f"cpu  {' '.join(str(round(ticks)) for ticks in world.used)}\n")
    assert not world.tree.look(world.sense, 3.9).active
    assert world.tree.look(world.sense, 6.1).active


def test_what_begins_while_the_hook_saves_work_does_not_count(world: World) -> None:
    """It is the hook's."""
    world.step()
    for _ in range(4):
        world.used[0] += 2000
        world.tree.write("proc/stat", f"cpu  {' '.join(str(round(ticks)) for ticks in world.used)}\n")
        assert not world.tree.look(world.sense, saving=True).active
    assert world.step(2, user=2.0).active


def test_after_a_long_pause_nobody_knows_when_it_worked(world: World) -> None:
    """A rate over hours would hide that nothing went on in most of them."""
    world.used[0] += 900_000
    world.tree.write("proc/stat", f"cpu  {' '.join(str(round(ticks)) for ticks in world.used)}\n")
    sight = world.tree.look(world.sense, 3600.0)
    assert (sight.active, sight.unknown) == ((), NOT_YET)
    assert world.step(user=0.9).unknown == ""


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
