"""A day of each of more ordinary things that need no machine, again and again from recorded files of /proc; and a worker beside each."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.recordings.test_proc import COUNTERS, EVERY, RATES, Look, Machine, more, terminal

DAYS = Path(__file__).parent / "days"
PACE = 90
"""Looks at the pace of the recording, before a day of it."""

AT_WORK = 1_000  # clock ticks of CPU in a look: one core
HOSTS_PATHS = re.compile(r"/(tmp|work|root|home|mnt|var/tmp)/|@[a-z]")


class Worker(NamedTuple):
    """Who works in the same recording: the sense that sees it, and what is there at each look from a step on."""

    sense: str
    from_step: int
    works: Callable[[Machine, int], None]


def recorded(name: str) -> tuple[list[Look], int]:
    """The looks, and how many of them are before what is recorded begins."""
    found: dict[str, Any] = json.loads((DAYS / f"{name}.json").read_text(encoding="utf-8"))
    assert found["every"] == EVERY
    return found["looks"], found["rest"]


def pid_of(machine: Machine, part: str) -> str:
    """The process that was started with this."""
    files = sorted(machine.first.items())
    return next(path.partition("/")[0] for path, what in files if path.endswith("/cmdline") and part in what)


def downloads(machine: Machine, looks: int) -> None:
    """Ten megabytes in each look."""
    machine.put("1/net/dev", machine.now["1/net/dev"], machine.rounds)
    more(machine, "1/net/dev", "eth0:", 10_000_000, looks)


def reads(machine: Machine, looks: int) -> None:
    """As much from disks."""
    machine.put("vmstat", machine.now["vmstat"], machine.rounds)
    more(machine, "vmstat", "pgpgin", 10_000, looks)


def computes(machine: Machine, looks: int) -> None:
    """The kernel's cell: the same process at work."""
    file = machine.tree.proc / pid_of(machine, "ipykernel") / "stat"
    head, _, rest = file.read_text().rpartition(")")
    fields = rest.split()
    fields[11] = str(int(machine.first[f"{file.parent.name}/stat"].rpartition(")")[2].split()[11]) + AT_WORK * looks)
    file.write_text(f"{head}) {' '.join(fields)}\n")


def trains(machine: Machine, _looks: int) -> None:
    """The program by a name that says nothing has opened the memory of CUDA as well."""
    link = machine.tree.proc / pid_of(machine, "while :") / "fd" / "8"
    if not link.is_symlink():
        link.symlink_to("/dev/nvidia-uvm")


WORKERS = {
    "rotation": Worker("traffic", 24, reads),
    "upgrade": Worker("traffic", 1, downloads),
    "notebook": Worker("jupyter", 20, computes),
    "monitor": Worker("holders", 20, trains),
}
SOON = {"monitor": 4}
"""Looks until a sense sees it, if not two: a process that has long held nothing is looked through rarely."""


@pytest.mark.parametrize("hours", [2, pytest.param(24, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("day", WORKERS)
@pytest.mark.skipif(os.getuid() != 0, reason="upkeep is root's, and so are the processes of the recording")
def test_a_day_of_it_keeps_nothing_up(tmp_path: Path, day: str, hours: int) -> None:
    """At its own pace for a quarter of an hour, then ever so often."""
    looks, _ = recorded(day)
    with terminal() as (_, _, name):
        machine = Machine(tmp_path, name, looks)
        for step, seconds in enumerate([EVERY] * PACE + [RATES] * round(hours * 3600 / RATES)):
            machine.play(step)
            for sense, sight in machine.look(seconds).items():
                assert sight.active == (), (sense, step)


@pytest.mark.parametrize("day", WORKERS)
@pytest.mark.skipif(os.getuid() != 0, reason="upkeep is root's, and so are the processes of the recording")
def test_the_same_sees_who_works_beside_it(tmp_path: Path, day: str) -> None:
    """Else a day of silence would prove nothing. What is at work when an upgrade begins goes on to count through it."""
    looks, rest = recorded(day)
    worker = WORKERS[day]
    assert worker.from_step != 1 or rest > 4
    with terminal() as (_, _, name):
        machine = Machine(tmp_path, name, looks)
        for step in range(len(looks) + 20):
            machine.play(step)
            if step >= worker.from_step:
                worker.works(machine, step - worker.from_step + 1)
            active = [one for one, sight in machine.look(EVERY).items() if sight.active]
            if step >= worker.from_step + SOON.get(day, 2):
                assert worker.sense in active, step
            elif step < worker.from_step:
                assert active == [], step


@pytest.mark.parametrize("day", WORKERS)
def test_a_recording_holds_nothing_of_the_machine_it_was_made_on(day: str) -> None:
    """No folder of its own, no name of it."""
    looks, _ = recorded(day)
    words = {what for look in looks for path, what in look.items() if what and not path.endswith(COUNTERS)}
    found = {HOSTS_PATHS.search(what.replace("/srv/recorded", "").replace("/opt/recorded", "")) for what in words}
    assert found == {None}
