"""The sense `holders`, on a /proc that a test makes."""

import os
import time
from contextlib import ExitStack
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import Any

import pytest

from costguard.readers.host.gpus import FEW, LINKS, GpuHolders
from costguard.readers.host.holders import Holders
from costguard.readers.host.opened import COST
from costguard.readers.host.sense import Sight
from tests.unit.readers.host.tree import OWN, Tree

ME = "root" if os.getuid() == 0 else "ann"
GPU = ("/dev/null", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia3")
MONITOR = ("/dev/null", "/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia1")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def sense(tree: Tree, **settings: Any) -> Holders:
    return Holders({"users": [], "ignore_users": [], "ignore": [], **settings}, tree.place)


def test_a_process_that_holds_a_gpu_counts_with_its_container(tree: Tree) -> None:
    """At work or not, until its end."""
    holders = sense(tree)
    assert tree.look(holders) == Sight((), "", "no process holds a GPU, besides monitors")
    tree.process(300, "python3", start=1005.0)
    tree.opens(300, *GPU)
    tree.write("proc/300/cgroup", f"0::/system.slice/docker-{'ab' * 32}.scope\n")
    (one,) = tree.look(holders).active
    assert (one.who, one.what) == (f"python3 of {ME} in docker abababababab", "holds a GPU")
    assert (one.since, one.last, one.lets_go) == (1005.0, tree.now, "its end")
    tree.ends(300)
    for _ in range(2):
        sight = tree.look(holders)
    assert not sight.active


def test_a_gpu_that_is_closed_is_held_no_more(tree: Tree) -> None:
    """The process may live on."""
    tree.process(300, "python3")
    tree.opens(300, *GPU)
    holders = sense(tree)
    assert tree.look(holders).active
    tree.opens(300, "/dev/null")
    for _ in range(4):
        sight = tree.look(holders)
    assert not sight.active


@pytest.mark.skipif(not os.stat("/proc/self/fd").st_size, reason="this kernel does not say how many files are open")
@pytest.mark.parametrize(("files", "complete"), [(FEW, True), (FEW + 1, False)])
def test_who_has_hardly_a_file_open_is_not_looked_through(tree: Tree, files: int, complete: bool) -> None:
    """Of what comes and goes most have but their three and a build's pipes: in one look there is room for more of them than for others."""
    count = LINKS // (COST + FEW) + 2
    opened = " ".join(f"{number}</dev/null" for number in range(3, files))
    with ExitStack() as running:
        for pid in range(300, 300 + count):
            argv = ["sh", "-c", f"exec {opened}; exec sleep 600"]
            one = running.enter_context(Popen(argv, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL))
            running.callback(one.kill)
            end = time.monotonic() + 10.0
            while len(os.listdir(f"/proc/{one.pid}/fd")) != files and time.monotonic() < end:
                time.sleep(0.01)
            tree.process(pid, "sleep")
            (tree.proc / str(pid) / "fd").symlink_to(f"/proc/{one.pid}/fd")
        holders = GpuHolders(tree.place)
        tree.pass_by()
        assert holders.look(tree.processes, tree.now) == []
        assert holders.complete is complete


@pytest.mark.parametrize("name", ["nvidia-smi", "dcgm-exporter", "nv-hostengine", "nvtop", "telegraf", "python3"])
def test_a_monitor_s_handle_does_not_count(tree: Tree, name: str) -> None:
    """By its name, and by what it has not opened: nobody computes without the device of CUDA's memory."""
    tree.process(300, name)
    tree.opens(300, *MONITOR)
    assert not tree.look(sense(tree)).active


def test_the_agent_itself_does_not_count(tree: Tree) -> None:
    """One of its readers holds every GPU."""
    tree.process(80, "python3", start=5.0)
    tree.process(OWN, "python3", parent=80)
    tree.process(91, "python3", parent=80)
    tree.opens(91, *GPU)
    assert not tree.look(sense(tree)).active


def test_the_owner_says_who_counts(tree: Tree) -> None:
    """By user and by program."""
    tree.process(300, "python3")
    tree.opens(300, *GPU)
    assert tree.look(sense(tree, users=[ME])).active
    assert not tree.look(sense(tree, users=["bob"])).active
    assert not tree.look(sense(tree, ignore_users=[ME])).active
    assert not tree.look(sense(tree, ignore=["python3"])).active


def test_many_open_files_are_looked_at_little_by_little(tree: Tree) -> None:
    """The youngest first; until all were seen there is more to know."""
    for pid in range(300, 320):
        tree.process(pid, "server", start=float(pid))
        tree.opens(pid, *["/dev/null"] * 60)
    tree.process(400, "python3", start=900.0)
    tree.opens(400, *GPU)
    holders = sense(tree)
    sight = tree.look(holders)
    assert [len(sight.active), sight.unknown != ""] == [1, True]
    for _ in range(14):
        sight = tree.look(holders, 1.0)
    assert sight.unknown == ""


def test_of_one_user_one_process_is_looked_through_where_it_has_much_open(tree: Tree) -> None:
    """And no second one in the same look; the two that have nothing open come together after that."""
    for pid in (300, 301, 302):
        tree.process(pid, "server", start=float(pid))
        tree.opens(pid, *["/dev/null"] * LINKS)
    holders = GpuHolders(tree.place)
    complete = []
    for _ in range(4):
        tree.pass_by()
        holders.look(tree.processes, tree.now)
        complete.append(holders.complete)
    assert complete == [False, False, False, True]


def test_without_processes_nobody_is_known(tree: Tree) -> None:
    """Nobody is no answer then."""
    holders = sense(tree)
    tree.look(holders)
    tree.proc.rename(tree.root / "away")
    assert "cannot be read" in tree.look(holders).unknown
