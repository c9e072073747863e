"""An agent that is not root's: what it may not see of other users is unknown, and says so until it is gone."""

import os
from pathlib import Path

import pytest

from costguard.readers.host.cluster import ALONE as NO_JOB
from costguard.readers.host.cluster import Cluster
from costguard.readers.host.holders import Holders
from costguard.readers.host.sense import Moment, Sight
from costguard.readers.host.ssh import ALONE, DAEMONS, NO_SESSION, RUNTIMES, Ssh
from tests.unit.readers.host import test_cluster, test_ssh, test_terminals
from tests.unit.readers.host.rightless import closed
from tests.unit.readers.host.test_terminals import Pty, forgotten, pty
from tests.unit.readers.host.tree import BOOTED, STEP, Tree, look_as_reader

__all__ = ["pty"]

SESSIONS = "only root can see what other users' SSH sessions and editors do"
HOSTS = "only root can see which hosts other users' processes talk to"


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


@pytest.fixture
def apart(tmp_path: Path) -> test_terminals.World:
    """A machine with terminals of its own: it has no name for those that the test opens."""
    world = test_terminals.World(tmp_path)
    (tmp_path / "dev/pts").mkdir(parents=True)
    world.place = world.place._replace(dev=str(tmp_path / "dev"))
    world.begin()
    return world


def seen(tree: Tree, sense: Ssh | Cluster) -> Sight:
    """A look at the processes as they are known already."""
    return look_as_reader(sense, Moment(tree.now, BOOTED + tree.now), tree.processes)


@pytest.mark.parametrize("name", [*DAEMONS, *ALONE, *RUNTIMES])
def test_a_program_that_may_be_a_session_or_an_editor_is_unknown(tree: Tree, name: str) -> None:
    """Which program it is says a link that only its user and root may read. Once it has ended it hides nothing any more."""
    sense = Ssh(test_ssh.SETTINGS, tree.place)
    tree.process(40, name, exe=test_ssh.CODE)
    tree.pass_by()
    with closed(tree.proc / "40"):
        assert seen(tree, sense).unknown == SESSIONS
        assert sense.rests_until == 0.0
    tree.ends(40)
    tree.pass_by(300.0)
    assert seen(tree, sense) == NO_SESSION


@pytest.mark.parametrize("name", ["bash", "python3", "nodeish", "sshd2", "dockerd"])
def test_no_other_program_is(tree: Tree, name: str) -> None:
    """Else nothing would ever be known on a machine with more than one user."""
    sense = Ssh(test_ssh.SETTINGS, tree.place)
    tree.process(40, name)
    tree.pass_by()
    with closed(tree.proc / "40"):
        assert seen(tree, sense) == NO_SESSION


def test_a_session_whose_bytes_nobody_may_count_is_unknown(tmp_path: Path) -> None:
    """It is there, and whether it moves anything is its user's to see; another one is measured all the same."""
    world = test_ssh.World(tmp_path)
    world.session(20)
    world.session(30)
    world.step(3)
    with closed(world.tree.proc / "21/io"):
        world.step()
        world.moved[31][0] += 2e7
        world.save(31)
        world.step()
        world.moved[31][0] += 2e7
        world.save(31)
        sight = world.step()
    assert (sight.unknown, [one.what for one in sight.active]) == (SESSIONS, ["moved bytes"])
    world.tree.ends(21)
    world.tree.ends(20)
    assert world.step(40).unknown == ""


@pytest.mark.parametrize("name", ["python3", "torchrun", "bash", "raylet"])
def test_a_process_whose_files_nobody_may_see_may_be_a_rank(tree: Tree, name: str) -> None:
    """It may hold a GPU, and wait for another host."""
    sense = Cluster(test_cluster.SETTINGS, tree.place)
    tree.process(300, name)
    tree.opens(300, *test_cluster.GPU)
    tree.pass_by()
    with closed(tree.proc / "300/fd"):
        sight = seen(tree, sense)
    assert (sight.unknown, sight.active) == (HOSTS, ())


def test_a_process_whose_files_nobody_may_see_may_hold_a_gpu(tree: Tree) -> None:
    """Whether anybody holds one is unknown then, and who is seen to hold one is told beside that."""
    sense = Holders({"users": [], "ignore_users": [], "ignore": []}, tree.place)
    for pid in (300, 301):
        tree.process(pid, f"python{pid}")
        tree.opens(pid, *test_cluster.GPU)
    tree.pass_by()
    with closed(tree.proc / "300/fd"):
        sight = look_as_reader(sense, Moment(tree.now, BOOTED + tree.now), tree.processes)
    assert sight.unknown == "only root can see which GPUs other users' processes hold"
    assert [(one.who.partition(" of ")[0], one.what) for one in sight.active] == [("python301", "holds a GPU")]


def test_a_launcher_whose_connections_nobody_may_see_is_unknown_until_it_ends(tree: Tree) -> None:
    """At once, and before it is old enough to be looked through for GPUs."""
    sense = Cluster(test_cluster.SETTINGS, tree.place)
    tree.pass_by()
    tree.process(300, "torchrun", start=tree.now + STEP)
    tree.opens(300, "/dev/null")
    tree.pass_by()
    with closed(tree.proc / "300/fd"):
        assert seen(tree, sense).unknown == HOSTS
    tree.ends(300)
    tree.pass_by(300.0)
    assert seen(tree, sense) == NO_JOB


def test_a_terminal_that_nobody_may_look_at_is_unknown(apart: test_terminals.World, pty: Pty) -> None:
    """By its process it is closed, and this machine has no name for it."""
    apart.session(70, pty)
    with closed(apart.proc / "70/fd"):
        assert (apart.look().unknown, apart.look().active) == (f"{pty.name} cannot be read", ())
    assert apart.look().unknown == ""


def test_a_terminal_that_has_a_name_here_is_seen_by_it(tmp_path: Path, pty: Pty) -> None:
    """Whose process is closed may still have typed."""
    world = test_terminals.World(tmp_path)
    forgotten(world, pty)
    pty.typed(world.wall + 5.0)
    with closed(world.proc / "70/fd"):
        sight = world.look()
    assert (sight.unknown, [one.what for one in sight.active]) == ("", ["typed"])


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ((136, 0), "pts/0"), ((136, 255), "pts/255"), ((137, 0), "pts/256"), ((143, 255), "pts/2047"), ((136, 256), "pts/256"),
        ((144, 0), "terminal 144:0"), ((135, 1), "terminal 135:1"), ((4, 1), "tty1"), ((4, 63), "tty63"), ((4, 64), "ttyS0"),
        ((4, 65), "ttyS1"), ((5, 1), "terminal 5:1"), ((204, 64), "terminal 204:64"), ((136, 0xFFFFF), "pts/1048575"),
    ],
)  # fmt: skip
def test_a_terminal_has_the_name_that_people_know(
    apart: test_terminals.World, device: tuple[int, int], name: str
) -> None:
    """By the number that the kernel writes of it, in which the minor one is in two parts: proc_pid_stat(5)."""
    major, minor = device
    terminal = (minor & 0xFF) | (major << 8) | ((minor & ~0xFF) << 12)
    folder = apart.proc / "70"
    (folder / "fd").mkdir(parents=True)
    (folder / "stat").write_text(f"70 (bash) S 1 70 70 {terminal} 0 {'0 ' * 14}5 0 0\n")
    with closed(folder / "fd"):
        assert apart.look().unknown == f"{name} cannot be read"


@pytest.mark.parametrize("ended", ["gone", "Z", "X"])
def test_a_session_that_has_ended_hides_no_terminal(apart: test_terminals.World, pty: Pty, ended: str) -> None:
    """Or only waits for its parent to hear of it."""
    apart.session(70, pty)
    apart.processes.look(apart.boot)
    stat = apart.proc / "70/stat"
    if ended == "gone":
        os.unlink(stat)
    else:
        stat.write_text(stat.read_text().replace(") S ", f") {ended} "))
    with closed(apart.proc / "70/fd"):
        sight = apart.sense.look(Moment(apart.boot, apart.wall), apart.processes)
    assert (sight.unknown, sight.seen) == ("", "no terminal")
