"""Who moves the bytes that keep a machine up: named where one process explains much of it, and nobody where none does."""

import os
from pathlib import Path

import pytest

from costguard.readers.host.culprit import PROCESSES_READ, SHARE, Culprit
from costguard.readers.host.users import Users
from tests.unit.readers.host.tree import Tree

ME = "root" if os.getuid() == 0 else "ann"
FIELDS = {"received": "wchar", "sent": "rchar", "read": "read_bytes", "written": "write_bytes"}
NOBODY = ("", "")
MB = 1_000_000


class World:
    """Processes whose counters a test moves."""

    def __init__(self, folder: Path) -> None:
        self.tree = Tree(folder)
        self.culprit = Culprit(self.tree.place, Users(self.tree.place))
        self.moved: dict[int, dict[str, int]] = {}

    def make(self, pid: int, name: str = "wget", **rest: int) -> None:
        self.tree.process(pid, name, **rest)  # type: ignore[arg-type] # all of these are numbers
        self.move(pid)

    def move(self, pid: int, **more: int) -> None:
        """So many bytes more, by the name of the kernel's field."""
        row = self.moved.setdefault(pid, dict.fromkeys(FIELDS.values(), 7_000_000))
        for field, count in more.items():
            row[field] += count
        names = ("rchar", "wchar", "syscr", "syscw", "read_bytes", "write_bytes", "cancelled_write_bytes")
        self.tree.write(f"proc/{pid}/io", "".join(f"{name}: {row.get(name, 99)}\n" for name in names))

    def watch(self, *kinds: str) -> None:
        self.tree.pass_by()
        self.culprit.watch(kinds, self.tree.now, self.tree.processes)

    def found(self, kind: str, rate: float, seconds: float = 10.0) -> tuple[str, str]:
        """Who moves most of this rate, so long after."""
        return self.culprit.found(kind, rate, self.tree.now + seconds, self.tree.processes)


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    for pid in (300, 301, 302):
        world.make(pid, f"prog{pid}")
    return world


@pytest.mark.parametrize("kind", FIELDS)
def test_whoever_moves_most_is_named_by_the_counter_of_its_kind(world: World, kind: str) -> None:
    """What it does otherwise is no part of it."""
    world.watch(kind)
    world.move(300, **{field: 90 * MB for other, field in FIELDS.items() if other != kind})
    world.move(301, **{FIELDS[kind]: 8 * MB})
    world.move(302, **{FIELDS[kind]: 2 * MB})
    assert world.found(kind, MB) == (f"prog301 of {ME}", ME)


@pytest.mark.parametrize(
    ("share", "named"), [(SHARE - 0.01, False), (SHARE, True), (0.9, True), (5.0, True), (0.0, False)]
)
def test_who_moves_little_of_it_is_not(world: World, share: float, named: bool) -> None:
    """It would be asked for what another one does."""
    world.watch("sent")
    world.move(301, rchar=round(share * 10 * MB))
    assert world.found("sent", MB) == ((f"prog301 of {ME}", ME) if named else NOBODY)


def test_the_agent_itself_is_not_named(world: World) -> None:
    """It writes its history."""
    world.make(os.getpid(), "costguard")
    world.watch("written")
    world.move(os.getpid(), write_bytes=50 * MB)
    world.move(301, write_bytes=9 * MB)
    assert world.found("written", MB) == NOBODY


def test_who_is_new_says_nothing_yet_and_who_has_ended_nothing_more(world: World) -> None:
    """What it had moved before nobody knows."""
    world.watch("sent")
    world.make(400, "late")
    world.move(400, rchar=900 * MB)
    world.tree.processes.look(world.tree.now + 1.0)
    assert world.found("sent", MB) == NOBODY
    world.move(301, rchar=9 * MB)
    assert world.found("sent", MB)[1] == ME
    world.tree.ends(301)
    assert world.found("sent", MB) == NOBODY


def test_without_a_second_look_nobody_is(world: World) -> None:
    """Nor of a kind that was not watched, or that no process is counted for."""
    world.watch("sent", "fabric")
    assert list(world.culprit.noted) == ["sent"]
    world.move(301, rchar=9 * MB)
    assert world.found("sent", MB, 0.0) == NOBODY
    assert world.found("read", MB) == NOBODY
    assert world.found("sent", MB) == (f"prog301 of {ME}", ME)
    world.watch()
    assert list(world.culprit.noted) == []


def test_the_time_counts(world: World) -> None:
    """Bytes of a minute are a tenth of what they would be in six seconds."""
    world.watch("sent")
    world.move(301, rchar=9 * MB)
    assert world.found("sent", MB, 10.0) != NOBODY
    assert world.found("sent", MB, 60.0) == NOBODY


def test_of_a_crowd_the_youngest_are_looked_at(tmp_path: Path) -> None:
    """Threads of the kernel are none of it."""
    world = World(tmp_path)
    for number in range(PROCESSES_READ + 1):
        world.make(1000 + number, "crowd", start=200 + number)
    for number in range(3):
        world.make(3000 + number, "kworker", start=900, parent=2)
    world.watch("sent")
    world.watch("sent")
    world.move(1000, rchar=90 * MB)
    assert world.found("sent", MB) == NOBODY
    world.move(3000, rchar=90 * MB)
    assert world.found("sent", MB) == NOBODY
    world.move(1001, rchar=9 * MB)
    assert world.found("sent", MB) == (f"crowd of {ME}", ME)


@pytest.mark.parametrize("text", ["", "rchar: 5", "rchar: x\n", "wchar: 5\n", "rchar:5\n"])
def test_what_is_no_counter_is_passed_over(world: World, text: str) -> None:
    """Half a table, or another one."""
    world.watch("sent")
    world.tree.write("proc/300/io", text)
    world.move(301, rchar=9 * MB)
    assert world.found("sent", MB) == (f"prog301 of {ME}", ME)
