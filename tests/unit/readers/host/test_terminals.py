"""Terminals: real pseudo terminals, in a /proc that the test makes, on virtual time."""

import contextlib
import os
import pwd
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from costguard.readers.host.processes import Processes
from costguard.readers.host.sense import Moment, SensePaths, Sight
from costguard.readers.host.terminals import NO_TERMINAL, Terminals
from tests.unit.readers.host.starved import starved
from tests.unit.readers.host.tree import look_as_reader

ME = pwd.getpwuid(os.getuid()).pw_name
QUIET = 1800.0
STEP = 10.0


class Pty(NamedTuple):
    """One pseudo terminal: what a person holds, and what a program reads from."""

    person: int
    program: int

    @property
    def path(self) -> str:
        return os.ttyname(self.program)

    @property
    def name(self) -> str:
        return self.path.removeprefix("/dev/")

    def typed(self, wall: float) -> None:
        """The kernel notes at that date that a program read what was typed."""
        os.utime(self.path, (wall, os.stat(self.path).st_mtime))


class World:
    """A /proc with sessions on terminals, and a sense that looks at it."""

    def __init__(self, tmp: Path, **settings: object) -> None:
        self.proc = tmp / "proc"
        for own in (1, os.getpid()):  # else it would be no view of this machine
            (self.proc / str(own)).mkdir(parents=True, exist_ok=True)
            text = f"{own} (own) S 0 {own} {own} 0 0 {'0 ' * 14}5 0 0"
            (self.proc / str(own) / "stat").write_text(text)
        with contextlib.suppress(FileExistsError):
            (self.proc / "self").symlink_to(str(os.getpid()))
        self.place = SensePaths(proc=str(self.proc))
        self.settings = {"quiet_for": QUIET, "users": [], "ignore_users": [], **settings}
        self.boot, self.wall = 1000.0, time.time()
        self.begin()

    def begin(self) -> None:
        """A new reader."""
        self.sense, self.processes = Terminals(self.settings, self.place), Processes(self.place)

    def session(self, pid: int, pty: Pty, name: str = "bash", arguments: str = "-bash", start: int = 5) -> None:
        folder = self.proc / str(pid)
        (folder / "fd").mkdir(parents=True, exist_ok=True)
        device = os.stat(pty.path).st_rdev
        terminal = (os.minor(device) & 0xFF) | (os.major(device) << 8) | ((os.minor(device) & ~0xFF) << 12)
        zeros = " ".join("0" * 14)
        (folder / "stat").write_text(f"{pid} ({name}) S 1 {pid} {pid} {terminal} 0 {zeros} {start} 0 0\n")
        (folder / "comm").write_text(f"{name}\n")
        (folder / "cmdline").write_text("\0".join(arguments.split()) + "\0")
        with contextlib.suppress(FileExistsError):
            (folder / "fd" / "0").symlink_to(pty.path)

    def end(self, pid: int) -> None:
        for name in ("stat", "comm", "cmdline", "fd/0"):
            (self.proc / str(pid) / name).unlink()
        (self.proc / str(pid) / "fd").rmdir()
        (self.proc / str(pid)).rmdir()

    def look(self, after: float = STEP, jump: float = 0.0) -> Sight:
        """Let time pass; ``jump``: so much more on the date alone."""
        self.boot += after
        self.wall += after + jump
        self.processes.look(self.boot)
        return look_as_reader(self.sense, Moment(self.boot, self.wall), self.processes)


@pytest.fixture
def pty() -> Iterator[Pty]:
    made = Pty(*os.openpty())
    yield made
    os.close(made.person)
    os.close(made.program)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def forgotten(world: World, pty: Pty, pid: int = 70) -> None:
    """A terminal that nobody has used for a day, and a reader that has looked at it."""
    world.session(pid, pty)
    pty.typed(world.wall - 86400.0)
    assert world.look().active == ()


def test_typing_is_seen_with_the_next_look_and_lets_go_after_the_quiet_time(world: World, pty: Pty) -> None:
    """Who typed where is named, since when, and what would end it; the texts stay as they are meanwhile."""
    forgotten(world, pty)
    pty.typed(world.wall + 7.0)
    (one,) = world.look().active
    assert one.who == f"{ME} on {pty.name}"
    assert (one.what, one.lets_go, one.user) == ("typed", "30 min without input", ME)
    assert one.since == one.last == pytest.approx(world.boot - 3.0)
    (later,) = world.look(QUIET - 10.0).active
    assert later == one
    assert world.look(20.0) == Sight(seen="1 terminal, not used")


def test_who_logs_in_after_a_rest_is_seen_to_type(world: World, pty: Pty) -> None:
    """For an hour nobody was there; that the terminal was opened is forgotten when the first word comes."""
    for _ in range(60):
        assert world.look(60.0) == NO_TERMINAL
    world.session(70, pty)
    assert [one.what for one in world.look().active] == ["opened a shell"]
    assert world.look(QUIET + 20.0).active == ()
    pty.typed(world.wall + 7.0)
    assert [one.what for one in world.look().active] == ["typed"]


def test_the_kernel_notes_what_is_read_and_not_what_is_written(world: World, pty: Pty) -> None:
    """What the sense relies on: input moves the access time of a real terminal, output never does."""
    forgotten(world, pty)
    os.write(pty.program, b"output\n")
    os.read(pty.person, 100)
    assert world.look().active == ()
    os.write(pty.person, b"ls\n")
    os.read(pty.program, 100)
    world.wall = time.time()
    assert [one.what for one in world.look().active] == ["typed"]


def test_going_on_has_one_beginning(world: World, pty: Pty) -> None:
    """Input again and again is one activity; after a pause that is longer than the quiet time another one begins."""
    forgotten(world, pty)
    pty.typed(world.wall + 10.0)
    began = world.look().active[0].since
    for _ in range(4):
        pty.typed(world.wall + 1200.0)
        assert world.look(1200.0).active[0].since == began
    world.look(QUIET + 10.0)
    pty.typed(world.wall + 10.0)
    assert world.look().active[0].since == world.boot


def test_a_login_counts_a_robot_s_command_does_not(world: World, pty: Pty) -> None:
    """Whoever opens a shell is there; `ssh -tt host command` of a robot, or a package manager's terminal, is nobody."""
    world.look()
    for pid, name, arguments in (
        (80, "bash", "bash -c backup"),
        (81, "dpkg", "dpkg --configure"),
        (82, "sh", "sh run.sh"),
    ):
        world.session(pid, pty, name, arguments)
        assert world.look().active == ()
        world.end(pid)
    for pid, name, arguments in (
        (83, "bash", "-bash"),
        (84, "bash", "/bin/bash --init-file /x/shell.sh -i"),
        (85, "zsh", "zsh -il"),
        (86, "tmux: client", "tmux attach -t 0"),
    ):
        world.session(pid, pty, name, arguments)
        assert [one.what for one in world.look().active] == ["opened a shell"], arguments
        world.end(pid)
        world.look()


def test_a_terminal_that_is_made_anew_is_another_one(world: World, pty: Pty) -> None:
    """Its number is used again: what the one before was does not count, nor is its creation input."""
    forgotten(world, pty)
    world.end(70)
    world.session(71, pty, "python3", "python3 robot.py")
    os.utime(pty.path, (world.wall + 9.0, world.wall + 9.0))
    assert world.look().active == ()
    pty.typed(world.wall + 8.0)
    assert len(world.look().active) == 1


def test_where_nobody_is_logged_in_nobody_types(world: World, pty: Pty) -> None:
    """Noise on a serial line reaches the program that waits for a login."""
    world.session(70, pty, "agetty", "agetty ttyS0")
    world.look()
    pty.typed(world.wall + 5.0)
    assert world.look().active == ()


def test_a_new_reader_goes_by_the_dates(world: World, pty: Pty) -> None:
    """After its restart it knows of what was typed a while ago."""
    forgotten(world, pty)
    pty.typed(world.wall - 600.0)
    world.begin()
    (one,) = world.look().active
    assert one.last == pytest.approx(world.boot - 600.0 - STEP, abs=0.01)


@pytest.mark.parametrize("jump", [7200.0, -7200.0, 86400.0 * 400])
def test_a_jump_of_the_date_neither_holds_nor_lets_go(world: World, pty: Pty, jump: float) -> None:
    """Durations are of the boot clock: input counts for its time, wherever the date goes."""
    forgotten(world, pty)
    pty.typed(world.wall + 5.0)
    assert len(world.look().active) == 1
    assert len(world.look(jump=jump).active) == 1
    assert len(world.look(QUIET - 40.0).active) == 1
    assert world.look(60.0).active == ()
    pty.typed(world.wall + 5.0)
    assert len(world.look(jump=jump).active) == 1, "typed before the jump, seen after it"
    assert world.look(QUIET + 20.0).active == ()


def test_a_date_in_the_future_is_input_now(world: World, pty: Pty) -> None:
    """It holds for the quiet time, and not until that date."""
    world.session(70, pty)
    pty.typed(world.wall + 86400.0 * 30)
    (one,) = world.look().active
    assert one.last == world.boot
    assert world.look(QUIET + 1.0).active == ()


def test_users_may_count_or_not(tmp_path: Path, pty: Pty) -> None:
    """`users` and `ignore_users` name who; a user without a name here counts, for he may be one of them."""
    for settings, count in (
        ({"users": [ME]}, 1), ({"users": ["somebody-else"]}, 0), ({"ignore_users": [ME]}, 0), ({"ignore_users": ["x"]}, 1),
    ):  # fmt: skip
        world = World(tmp_path, **settings)
        world.session(70, pty)
        world.look()
        pty.typed(world.wall + 5.0)
        assert len(world.look().active) == count, settings
    world = World(tmp_path, users=["somebody-else"])
    (tmp_path / "etc").mkdir()
    world.place = world.place._replace(etc=str(tmp_path / "etc"), run=str(tmp_path))
    world.begin()
    assert world.look().active[0].user == f"uid {os.getuid()}"


def test_a_name_comes_from_whom_systemd_knows(tmp_path: Path, pty: Pty) -> None:
    """A user of a directory service stands in no file of users, and no directory is asked."""
    (tmp_path / "etc").mkdir()
    users = tmp_path / "run" / "systemd" / "users"
    users.mkdir(parents=True)
    (users / str(os.getuid())).write_text("# systemd\nNAME=ann\nSTATE=active\n")
    world = World(tmp_path)
    world.place = world.place._replace(etc=str(tmp_path / "etc"), run=str(tmp_path / "run"))
    world.begin()
    world.session(70, pty)
    assert world.look().active[0].who == f"ann on {pty.name}"


def test_two_terminals_are_two_activities(world: World, pty: Pty) -> None:
    """Each is named."""
    other = Pty(*os.openpty())
    try:
        forgotten(world, pty)
        world.session(71, other)
        pty.typed(world.wall + 5.0)
        assert {one.who for one in world.look().active} == {f"{ME} on {pty.name}", f"{ME} on {other.name}"}
    finally:
        os.close(other.person)
        os.close(other.program)


def test_a_terminal_that_cannot_be_looked_at_is_unknown(world: World, pty: Pty) -> None:
    """Never quiet."""
    forgotten(world, pty)
    (world.proc / "70" / "fd" / "0").unlink()
    (world.proc / "70" / "fd" / "0").symlink_to("/dev/null")
    assert world.look().active == ()  # found by its name
    world.place = world.place._replace(dev=str(world.proc))
    world.begin()
    assert "/pts cannot be read" in world.look().unknown


def test_what_could_not_be_looked_at_is_known_as_soon_as_it_can_be(world: World, pty: Pty) -> None:
    """Though nobody has typed meanwhile."""
    dev = world.proc / "dev"
    dev.mkdir()
    world.place = world.place._replace(dev=str(dev))
    world.begin()
    forgotten(world, pty)
    assert "/pts cannot be read" in world.look().unknown
    (dev / "pts").mkdir()
    assert world.look().unknown == ""


def test_a_terminal_of_a_container_is_said_to_be_one(world: World, pty: Pty) -> None:
    """Its number alone would be that of another terminal of this machine."""
    (world.proc / "dev/pts").mkdir(parents=True)
    world.place = world.place._replace(dev=str(world.proc / "dev"))
    world.begin()
    world.session(70, pty)
    assert world.look().active[0].who == f"{ME} on {pty.name} in a container"


@pytest.mark.parametrize("name", ["bash", "sleep"])
@pytest.mark.parametrize(("ago", "young"), [(5.0, True), (600.0, False)])
def test_a_new_reader_knows_what_was_only_opened(world: World, pty: Pty, name: str, ago: float, young: bool) -> None:
    """At each restart a robot's terminal counted for half an hour; one that was opened just now may be anybody's."""
    world.session(70, pty, name, name)
    world.wall += ago  # the date at which it was opened is the kernel's
    seen = world.look(0.0).active
    assert bool(seen) is (young or name == "bash")
    assert all(one.what == ("typed" if young else "opened a shell") for one in seen)


class Shared:
    """A /dev whose tty moves as on older kernels: alone, whichever terminal a program read through it."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world, self.path = world, folder / "tty"
        folder.mkdir(parents=True)
        (folder / "pts").symlink_to("/dev/pts")
        self.path.touch()
        self.read(-86400.0)
        world.place = world.place._replace(dev=str(folder))
        world.begin()

    def read(self, after: float = 7.0) -> None:
        """A program reads through it what was typed so many seconds from the last look on."""
        os.utime(self.path, (self.world.wall + after, self.world.wall))

    def opened_by(self, *pids: int) -> None:
        for pid in pids:
            (self.world.proc / str(pid) / "fd" / "7").symlink_to("/dev/tty")


@pytest.fixture
def shared(world: World, tmp_path: Path) -> Shared:
    return Shared(world, tmp_path / "dev")


@pytest.fixture
def another() -> Iterator[Pty]:
    made = Pty(*os.openpty())
    yield made
    os.close(made.person)
    os.close(made.program)


def test_what_is_read_through_dev_tty_is_typed(world: World, pty: Pty, another: Pty, shared: Shared) -> None:
    """On older kernels emacs moves no terminal's own time; a terminal where nothing has it open stays quiet."""
    world.session(80, another)
    another.typed(world.wall - 86400.0)
    forgotten(world, pty, 70)
    shared.opened_by(70)
    shared.read()
    (one,) = world.look().active
    assert (one.who, one.what) == (f"{ME} on {pty.name}", "typed")
    assert one.last == pytest.approx(world.boot - 3.0, abs=0.1)
    assert world.look(QUIET + STEP).active == (), "it counts once"
    shared.read()
    assert len(world.look().active) == 1


def test_who_typed_through_dev_tty_may_be_one_of_several(world: World, pty: Pty, another: Pty, shared: Shared) -> None:
    """All terminals share it; but where one of their own devices has moved, as on newer kernels, that one it was."""
    world.session(80, another)
    another.typed(world.wall - 86400.0)
    forgotten(world, pty, 70)
    shared.opened_by(70, 80)
    shared.read()
    pty.typed(world.wall + 7.0)
    assert [(one.who, one.what) for one in world.look().active] == [(f"{ME} on {pty.name}", "typed")]
    assert world.look(QUIET + STEP).active == ()
    shared.read()
    assert [one.what for one in world.look().active] == ["may have typed"] * 2


@pytest.mark.parametrize(("ago", "count"), [(600.0, 1), (QUIET + 100.0, 0)])
def test_a_new_reader_goes_by_the_date_of_dev_tty(
    world: World, pty: Pty, shared: Shared, ago: float, count: int
) -> None:
    """After its restart it knows of what was typed a while ago."""
    forgotten(world, pty)
    shared.opened_by(70)
    shared.read(-ago)
    world.begin()
    assert len(seen := world.look().active) == count
    assert all(one.last == pytest.approx(world.boot - ago - STEP, abs=0.1) for one in seen)


def test_a_crowd_with_many_files_neither_hides_who_typed_nor_takes_long(
    world: World, pty: Pty, another: Pty, shared: Shared
) -> None:
    """Anybody may touch /dev/tty at every look, with thousands of files open: the look ends in time, and who may have typed counts."""
    for number in range(60):
        world.session(100 + number, another)
        folder = world.proc / str(100 + number)
        for name in range(10, 1000):
            (folder / "fd" / str(name)).symlink_to("/x")
    another.typed(world.wall - 86400.0)
    forgotten(world, pty, 70)
    shared.opened_by(70)
    shared.read()
    began = time.thread_time()
    assert f"{ME} on {pty.name}" in [one.who for one in world.look().active]
    assert time.thread_time() - began < 2.0


def test_a_container_has_a_dev_tty_of_its_own(world: World, pty: Pty, tmp_path: Path) -> None:
    """That of the machine says nothing of it."""
    (world.proc / "dev/pts").mkdir(parents=True)
    world.place = world.place._replace(dev=str(world.proc / "dev"))
    world.begin()
    inside = world.proc / "70" / "root" / "dev"
    inside.mkdir(parents=True)
    (inside / "tty").touch()
    os.utime(inside / "tty", (0.0, 0.0))
    forgotten(world, pty)
    (world.proc / "70" / "fd" / "7").symlink_to("/dev/tty")
    os.utime(inside / "tty", (world.wall + 7.0, world.wall))
    assert [one.who for one in world.look().active] == [f"{ME} on {pty.name} in a container"]


def test_what_nobody_touched_is_not_looked_at_anew(world: World, pty: Pty) -> None:
    """A look at which nothing happens costs a jobless machine next to nothing."""
    forgotten(world, pty)
    seen = world.look()
    assert world.look() is seen
    pty.typed(world.wall + 5.0)
    assert world.look() is not seen


def test_a_session_that_has_ended_is_neither_unknown_nor_anybody(world: World, pty: Pty) -> None:
    """Nor one whose parent has not heard of its end: it has no terminal open any more."""
    forgotten(world, pty)
    stat = world.proc / "70" / "stat"
    (world.proc / "70" / "fd" / "0").unlink()
    stat.write_text(stat.read_text().replace(") S ", ") Z "))
    pty.typed(world.wall + 5.0)
    assert world.look() == Sight(seen="no terminal")


def test_a_session_of_which_nothing_can_be_read_has_not_ended(world: World, pty: Pty) -> None:
    """Whoever types there is seen by the name of the terminal."""
    forgotten(world, pty)
    (world.proc / "70" / "fd" / "0").unlink()
    (world.proc / "70" / "fd" / "0").symlink_to("/dev/null")
    pty.typed(world.wall + 5.0)
    with starved():
        sight = world.sense.look(Moment(world.boot + STEP, world.wall + STEP), world.processes)
    assert [(one.what, one.who.endswith(f" on {pty.name}")) for one in sight.active] == [("typed", True)]


def test_without_processes_every_terminal_counts(world: World, pty: Pty) -> None:
    """/proc cannot be read: told as unknown, and whoever types is seen all the same."""
    world.place = world.place._replace(proc="/nonexistent")
    world.begin()
    pty.typed(world.wall - 86400.0)
    world.look()
    pty.typed(world.wall + 5.0)
    sight = world.look()
    assert "cannot be read" in sight.unknown
    assert f"{ME} on {pty.name}" in {one.who for one in sight.active}


@pytest.mark.parametrize("first", [True, False])
def test_where_some_processes_are_hidden_every_other_terminal_counts_too(world: World, pty: Pty, first: bool) -> None:
    """Whoever types on one of which the processes are known is told once, by the process; the others by their names alone."""
    other = Pty(*os.openpty())
    known, hidden = (pty, other) if first else (other, pty)
    try:
        for one in (known, hidden):
            one.typed(world.wall - 86400.0)
        world.session(70, known)
        (world.proc / "1/stat").unlink()
        assert "hides the processes of other users" in world.look().unknown
        for one in (known, hidden):
            one.typed(world.wall + 5.0)
        who = [one.who for one in world.look().active]
        assert who.count(f"{ME} on {known.name}") == 1
        assert who.count(f"{ME} on {hidden.name}") == 1
    finally:
        os.close(other.person)
        os.close(other.program)


def test_a_login_of_which_only_the_terminal_is_seen_counts(world: World, pty: Pty) -> None:
    """Whether its shell runs a command cannot be read: it may be a person."""
    world.look()
    world.session(70, pty)
    (world.proc / "70/cmdline").unlink()
    assert [one.what for one in world.look().active] == ["opened a shell"]


def test_a_terminal_that_is_closed_before_its_process_ends_is_none(world: World) -> None:
    """It was looked at by its name."""
    made = Pty(*os.openpty())
    forgotten(world, made)
    world.look()
    os.close(made.person)
    os.close(made.program)
    (world.proc / "70/fd/0").unlink()
    assert world.look() == NO_TERMINAL


def test_without_processes_what_is_closed_meanwhile_hides_no_other_terminal(tmp_path: Path, pty: Pty) -> None:
    """And where there are no terminals either, both are told."""
    world = World(tmp_path)
    world.place = world.place._replace(proc="/nonexistent", dev=str(tmp_path / "dev"))
    world.begin()
    assert "dev/pts cannot be read" in world.look().unknown
    (tmp_path / "dev/pts").mkdir(parents=True)
    for name, target in (("6", "/nonexistent"), ("7", pty.path), ("8", "/nonexistent")):
        (tmp_path / "dev/pts" / name).symlink_to(target)
    world.look()
    pty.typed(world.wall + 5.0)
    assert [one.who for one in world.look().active] == [f"{ME} on pts/7"]
