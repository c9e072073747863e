"""A GPU on which only background work runs is quiet for who says so; whoever else is there, or cannot be known, is not."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from costguard.background import BACKGROUND, MARKED, mark_on
from costguard.readers.nvml import fillers
from costguard.testing.nvml import Process
from costguard.tree.members import mark_of
from costguard.tree.processes import find
from tests.faults.nvml_world import TICK, Inner, World, loads, settle, words

Start = Callable[[int], int]


@pytest.fixture(autouse=True)
def numbers_of_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers that the stand-in lists are those of here, also where the tests themselves run in a container."""
    monkeypatch.setattr(fillers, "INITIAL_NAMESPACE", os.readlink("/proc/self/ns/pid"))


@pytest.fixture
def started() -> Iterator[Start]:
    """Starts processes with this limit of RTTIME, 0 for none."""
    processes = []

    def start(mark: int) -> int:
        limit = f"resource.setrlimit(resource.RLIMIT_RTTIME, ({mark}, resource.RLIM_INFINITY))" if mark else "pass"
        code = f"import os, resource, time; {limit}; print(flush=True); time.sleep(1000)"
        process = subprocess.Popen([sys.executable, "-S", "-c", code], stdout=subprocess.PIPE)
        processes.append(process)
        assert process.stdout is not None
        process.stdout.readline()
        return process.pid

    yield start
    for process in processes:
        process.kill()
        process.communicate()


FILLER, GUARDED = MARKED | BACKGROUND | 7, MARKED | 7


def settled(world: World) -> Inner:
    """A reader that has read before, of a machine whose owner calls background work idle."""
    reader = world.reader(background_is_idle=True)
    reader.read()
    settle(TICK)
    return reader


def test_background_work_alone_is_quiet_with_its_evidence(world: World, started: Start) -> None:
    """Stressor: 100 % by the filler must still mean idle, if the owner says so; else it is work."""
    world.script.set(0, util=99, power=600, processes=[Process(started(FILLER), sm=99), Process(started(FILLER))])
    seen = settled(world).read()
    assert loads(seen)[0] == 0.0
    assert seen["gpus"][0][2] == []
    assert seen["gpus"][0][3] > 0
    assert words(seen).startswith("background work alone (GPU peak 99 %")
    assert loads(world.reader().read())[0] == 0.99


@pytest.mark.parametrize("mark", [0, GUARDED])
def test_somebody_beside_it_makes_the_load_work(world: World, started: Start, mark: int) -> None:
    """Also a command under `costguard exec`, and one who only holds the GPU: the load may be his."""
    world.script.set(0, util=99, processes=[Process(started(FILLER), sm=99), Process(started(mark))])
    assert loads(settled(world).read())[0] == 0.99


def test_somebody_who_is_gone_again_was_there(world: World, started: Start) -> None:
    """Who used the GPU since the last look counts, though he holds it no more."""
    world.script.set(0, util=99, processes=[Process(started(FILLER)), Process(started(0), kind="mps", sm=50)])
    world.script.fail("nvmlDeviceGetMPSComputeRunningProcesses", 3)  # he is on no list
    assert loads(settled(world).read())[0] == 0.99


def test_who_cannot_be_known_makes_it_unknown(world: World, started: Start) -> None:
    """And unknown is never idle; a list of users that is not given likewise."""
    filler = Process(started(FILLER), sm=99)
    world.script.set(0, util=99, processes=[filler, Process(4_194_303)])
    seen = settled(world).read()
    assert loads(seen)[0] is None
    assert words(seen) == "background work runs there, and process 4194303 cannot be identified"
    world.script.set(0, processes=[filler])
    world.script.fail("nvmlDeviceGetProcessUtilization", 3)
    assert words(settled(world).read()) == "background work runs there, and the driver does not say who uses it"


def test_without_background_work_nothing_is_otherwise(world: World, started: Start) -> None:
    """Work of somebody else, of somebody unknown, and a GPU at rest."""
    world.script.set(0, util=99, processes=[Process(started(0)), Process(4_194_303)])
    assert loads(settled(world).read()) == [0.99, 0.0]


def test_an_arrival_is_seen_though_the_load_stays_as_it_was(world: World, started: Start) -> None:
    """A reader that answers by itself takes no short way past the question who is there."""
    filler = Process(started(FILLER), sm=99)
    world.script.set(0, util=99, processes=[filler])
    reader = settled(world)
    found = []
    for others in (0, 0, 0, 1):
        world.script.set(0, processes=[filler, *[Process(started(0)) for _ in range(others)]])
        settle(TICK)
        found.append(reader.reader.news(9, world.clock.boottime()))
    assert [answer and loads(answer)[0] for answer in found] == [0.0, 0.0, 0.0, 0.99]


def test_background_work_that_has_just_ended_is_remembered(world: World, started: Start) -> None:
    """Its use is listed for a while; it must not make the reading unknown each time that it is started anew."""
    first, second = started(FILLER), started(FILLER)
    world.script.set(0, util=99, processes=[Process(first, sm=50), Process(second, sm=50)])
    reader = settled(world)
    assert loads(reader.read())[0] == 0.0
    os.kill(first, 9)
    os.waitpid(first, 0)
    settle(TICK)
    assert loads(reader.read())[0] == 0.0


def test_the_mark_is_that_of_the_launcher(started: Start) -> None:
    """What `costguard fill` puts on is what the reader looks for, and nobody bears it by chance."""
    own = find(os.getpid())
    assert own is not None
    assert mark_of(own, filler=True) & BACKGROUND
    assert not mark_of(own) & BACKGROUND
    assert mark_of(own) >= MARKED
    assert [mark_on(started(mark)) for mark in (FILLER, GUARDED, 0, 1 << 39)] == [FILLER, GUARDED, 0, 0]
    assert mark_on(4_194_303) is None


def test_in_a_container_no_mark_means_anything(world: World, started: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver's number of somebody else's process may be that of background work here: load is work."""
    monkeypatch.setattr(fillers, "INITIAL_NAMESPACE", "pid:[1]")
    world.script.set(0, util=99, processes=[Process(started(FILLER), sm=99)])
    assert loads(settled(world).read())[0] == 0.99
