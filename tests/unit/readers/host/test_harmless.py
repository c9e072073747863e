"""A day of things that keep no machine up, seen by the senses of processes and rates together."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from costguard.readers.host.cluster import Cluster
from costguard.readers.host.holders import Holders
from costguard.readers.host.named_processes import NamedProcesses
from costguard.readers.host.sense import Moment
from costguard.readers.host.ssh import Ssh
from tests.unit.readers.host.tree import Tree, look_as_reader

if TYPE_CHECKING:
    from costguard.readers.host.sense import Sense

EDITOR = "/srv/ann/.cursor-server/bin/linux-x64/1/node"
STEP = 100.0
"""Seconds from look to look, as long as a rate may be measured over."""


class Day:
    """A machine whose processes say each minute what they have read, written and used since they began."""

    def __init__(self, folder: Path) -> None:
        self.tree = Tree(folder)
        self.senses: list[Sense] = [
            Ssh({"session": 50e3, "editor": 150.0, "editor_cores": 0.3, "quiet_for": 900.0}, self.tree.place),
            Cluster({"standalone": False, "quiet_for": 300.0, "ignore": []}, self.tree.place),
            Holders({"users": [], "ignore_users": [], "ignore": []}, self.tree.place),
            NamedProcesses({"names": ["rsync"], "users": []}, self.tree.place),
        ]
        self.written: dict[int, tuple[float, float]] = {}

    def process(
        self, pid: int, name: str, parent: int = 1, moved: float = 0.0, cpu: float = 0.0, exe: str = ""
    ) -> None:
        """``moved``: bytes that it has read, and written. Only what has changed is written."""
        if self.written.get(pid) == (moved, cpu):
            return
        if pid in self.written and self.written[pid][1] == cpu:
            self.tree.write(f"proc/{pid}/io", f"rchar: {round(moved)}\nwchar: {round(moved)}\n")
        else:
            self.tree.process(pid, name, parent=parent, io=(round(moved), round(moved)), cpu=cpu, exe=exe)
        self.written[pid] = (moved, cpu)

    def ends(self, pid: int) -> None:
        self.tree.ends(pid)
        del self.written[pid]


def keep_alives(day: Day, now: float) -> None:
    """Three open sessions, one with a monitor on its terminal, one with a forward that a forgotten tab polls."""
    day.process(10, "sshd")
    for pid, rate in ((20, 50.0), (30, 9e3), (40, 2e3)):
        day.process(pid, "sshd", 10)
        day.process(pid + 1, "sshd", pid, moved=now * rate)


def open_editor(day: Day, now: float) -> None:
    """Its window is open on a laptop that sleeps or not; a language server indexes once an hour."""
    day.process(50, "node", exe=EDITOR, moved=now * 300.0, cpu=now * 0.005)
    day.process(51, "node", 50, exe=EDITOR, moved=now * 500.0 + now // 3600 * 1e6, cpu=now * 0.015 + now // 3600 * 50)
    day.tree.write("proc/51/cmdline", f"{EDITOR}\0bootstrap-fork\0--type=extensionHost\0")
    day.process(52, "python3", 51, cpu=now * 0.01)


def monitors(day: Day, now: float) -> None:
    """One known by its name, one that nobody knows; both are asked from another host."""
    for pid, name in ((60, "dcgm-exporter"), (61, "python3")):
        day.process(pid, name, moved=now * 1e3, cpu=now * 0.01)
        rows = f"0: 01004D0A:2490 00000000:0000 0A 0 0 0 0 0 {pid}0 1\n1: 01004D0A:2490 02004D0A:D431 01 0 0 0 0 0 {pid}1 1 0\n"
        day.tree.write(f"proc/{pid}/net/tcp", "head\n" + rows.replace(" 1\n", " 1 0\n"))
        day.tree.opens(pid, "/dev/nvidiactl", "/dev/nvidia0", f"socket:[{pid}0]", f"socket:[{pid}1]")


def sleeping_container(day: Day, now: float) -> None:
    """It was given the GPUs and does nothing with them."""
    day.process(70, "containerd-shim")
    day.process(71, "sleep", 70)
    day.tree.write("proc/71/cgroup", f"0::/system.slice/docker-{'cd' * 32}.scope\n")
    day.tree.opens(71, "/dev/null", "pipe:[9]")


def robots(day: Day, now: float) -> None:
    """A check logs in each five minutes and runs a command."""
    day.process(10, "sshd")
    turn, begins = divmod(now, 300.0)
    pid = 1000 + round(turn)
    if begins == 0.0:
        day.process(pid, "sshd", 10, moved=40e3)
        day.process(pid + 5000, "sshd", pid, moved=90e3)
    if begins == STEP:
        day.ends(pid)
        day.ends(pid + 5000)


@pytest.mark.parametrize("things", [keep_alives, open_editor, monitors, sleeping_container, robots])
def test_a_day_of_it_keeps_nothing_up(tmp_path: Path, things: Callable[[Day, float], None]) -> None:
    """Time is made: a day of looks."""
    day = Day(tmp_path)
    still = things in {monitors, sleeping_container}  # their counters say nothing to these senses
    for step in range(round(24 * 3600 / STEP)):
        if not (still and step):
            things(day, step * STEP)
        day.tree.now += STEP
        day.tree.processes.look(day.tree.now)
        now = Moment(day.tree.now, day.tree.now)
        assert not [one for sense in day.senses for one in look_as_reader(sense, now, day.tree.processes).active]
