"""The shared view of /proc."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from costguard.readers.host.processes import (
    IN_TURN,
    LIST_SECONDS,
    NEW_READ,
    NUMBERS_TRIED,
    READ_AGAIN,
    TURN_SECONDS,
    Processes,
)
from costguard.readers.host.sense import SensePaths
from tests.unit.readers.host.starved import starved
from tests.unit.readers.host.tree import OWN, STEP, Tree


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def names(processes: Processes) -> list[str]:
    return sorted(process.name for process in processes.all())


def test_a_process_is_what_its_stat_says(tree: Tree) -> None:
    """Also one whose name has brackets and spaces in it."""
    tree.process(200, "a) S (b", parent=1, start=12.5, terminal=34816)
    tree.pass_by()
    process = tree.processes.get(200)
    assert process is not None
    assert process == (200, 1, 200, os.getuid(), "a) S (b", 34816, 1250)


def test_what_has_not_changed_stays_the_same_object(tree: Tree) -> None:
    """Senses remember what they made of a process by the object."""
    tree.process(200, "bash")
    tree.pass_by()
    before, edition = tree.processes.get(200), tree.processes.edition
    tree.pass_by(20 * STEP)
    assert tree.processes.get(200) is before
    assert tree.processes.edition == edition


def test_a_storm_of_processes_is_read_little_by_little(tree: Tree) -> None:
    """Whatever runs beside a job, a look stays short; those that stay are all seen soon."""
    tree.pass_by()
    for pid in range(200, 200 + 2 * NEW_READ):
        tree.process(pid, "cc1")
    tree.pass_by()
    assert len(tree.processes.named("cc1")) == NEW_READ
    tree.pass_by()
    assert len(tree.processes.named("cc1")) == 2 * NEW_READ


def test_a_crowd_that_stays_is_read_soon(tree: Tree) -> None:
    """A job of a thousand processes: who comes after them is not seen minutes later."""
    tree.pass_by()
    for pid in range(1000, 2000):
        tree.process(pid, "worker")
    tree.process(3000, "bash")
    tree.pass_by(6 * STEP)
    assert len(tree.processes.named("worker")) == 1000
    assert tree.processes.named("bash")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make processes of another user")
def test_a_crowd_hides_no_other_user(tree: Tree) -> None:
    """Each user has his turn: a login is seen at the next look, whatever somebody else has started."""
    tree.pass_by()
    for pid in range(1000, 2000):
        tree.process(pid, "worker")
    tree.process(3000, "bash")
    os.chown(tree.proc / "3000", 4711, 4711)
    tree.pass_by()
    assert tree.processes.named("bash")


def test_the_dead_hide_nobody(tree: Tree) -> None:
    """Hundreds that nobody asks how they ended, as under a container's first process: who comes after them is seen all the same."""
    for pid in range(200, 200 + 5 * NEW_READ):
        tree.process(pid, "cc1", state="Z")
    tree.pass_by(8 * STEP)
    tree.process(9000, "python3")
    tree.pass_by(LIST_SECONDS + STEP)
    assert tree.processes.get(9000) is not None
    tree.process(290, "bash")  # the number is another one's by now
    tree.pass_by(LIST_SECONDS * (5 * NEW_READ // IN_TURN + 2))
    assert tree.processes.get(290) is not None


def test_a_process_that_becomes_another_program_is_noticed_at_the_next_look(tree: Tree) -> None:
    """Between fork and exec it has its parent's name."""
    tree.process(200, "sshd")
    tree.pass_by()
    tree.process(200, "python3")
    tree.pass_by()
    assert {process.pid for process in tree.processes.named("python3")} == {200, OWN}
    assert tree.processes.named("sshd") == []


def test_what_a_new_process_becomes_is_noticed_at_once(tree: Tree) -> None:
    """Before its turn among many comes."""
    for pid in range(200, 260):
        tree.process(pid, "bash")
    tree.pass_by((READ_AGAIN + 1) * STEP)
    tree.process(300, "bash")
    tree.pass_by()
    tree.process(300, "python3")
    tree.pass_by()
    process = tree.processes.get(300)
    assert process is not None
    assert process.name == "python3"


def test_an_old_process_that_changes_is_noticed_in_its_turn(tree: Tree) -> None:
    """A shell that lives for days may become anything."""
    for pid in range(200, 230):
        tree.process(pid, "bash")
    tree.pass_by((READ_AGAIN + 1) * STEP)
    tree.process(215, "rsync")
    tree.pass_by(TURN_SECONDS * (32 // IN_TURN + 1))
    assert [process.pid for process in tree.processes.named("rsync")] == [215]


def test_turns_come_by_time_and_not_by_looks(tree: Tree) -> None:
    """A look at a machine at rest stays cheap however often it comes, and where looks are rare each of them has its turn."""
    tree.process(200, "bash")
    tree.pass_by((READ_AGAIN + 1) * STEP)
    tree.processes.look(tree.now + TURN_SECONDS)
    tree.process(200, "rsync")
    for seconds in (TURN_SECONDS + 1.0, 2 * TURN_SECONDS - 1.0):
        tree.processes.look(tree.now + seconds)
        assert tree.processes.named("rsync") == []
    tree.processes.look(tree.now + 2 * TURN_SECONDS)
    assert len(tree.processes.named("rsync")) == 1


def test_what_has_ended_is_forgotten(tree: Tree) -> None:
    """As is a zombie: nobody works there."""
    tree.process(200, "one")
    tree.process(201, "two")
    tree.pass_by()
    edition = tree.processes.edition
    tree.ends(200)
    tree.process(201, "two", state="Z")
    tree.pass_by(LIST_SECONDS + STEP)
    assert names(tree.processes) == ["python3", "systemd"]
    assert tree.processes.edition > edition


def test_a_program_whose_first_thread_has_ended_works_on(tree: Tree) -> None:
    """The kernel calls it a zombie, and its second thread is still there."""
    tree.process(200, "one", state="Z", threads=2)
    tree.pass_by()
    assert [process.pid for process in tree.processes.named("one")] == [200]


def test_a_number_that_is_used_again_is_another_process(tree: Tree) -> None:
    """The name may be the same: its start is not."""
    tree.process(200, "sshd", start=10.0)
    tree.pass_by()
    before = tree.processes.get(200)
    tree.process(200, "sshd", start=900.0)
    tree.pass_by()
    after = tree.processes.get(200)
    assert after is not before
    assert after is not None
    assert after.start == 90000


def test_changes_are_told_to_whoever_looks_each_time(tree: Tree) -> None:
    """Who was away gets everything; what has ended at once is nothing."""
    processes, started = tree.processes, tree.processes.edition
    tree.pass_by()
    first = processes.edition
    assert {process.pid for process in processes.changed(started)} == {1, OWN}
    tree.pass_by()
    assert list(processes.changed(first)) == []
    tree.process(200, "bash")
    tree.process(1, "init", start=0)
    for _ in range(2):
        before = processes.edition
        tree.pass_by()
        assert {process.pid for process in processes.changed(before)} <= {1, 200}
    assert {process.pid for process in processes.changed(-7)} == {1, 200, OWN}
    assert [process.pid for process in processes.named("init", "bash")] == [1, 200]
    assert processes.named("systemd") == []


def test_names_are_compared_as_the_kernel_cuts_them(tree: Tree) -> None:
    """An owner writes the whole name."""
    tree.process(200, "gradient-accumu")
    tree.pass_by()
    assert len(tree.processes.named("gradient-accumulator")) == 1


def test_a_tree_is_followed_down(tree: Tree) -> None:
    """Also through those that a sense does not know."""
    tree.process(200, "server")
    tree.process(201, "sh", parent=200)
    tree.process(202, "worker", parent=201)
    tree.process(300, "other")
    tree.pass_by()
    assert sorted(process.pid for process in tree.processes.below(tree.processes.named("server"))) == [200, 201, 202]
    assert tree.processes.below([]) == []


def test_another_proc_is_unknown(tree: Tree) -> None:
    """A /proc in which this process is not shows the processes of somebody else."""
    tree.pass_by()
    assert tree.processes.unknown == ""
    (tree.proc / "self").unlink()
    tree.pass_by(LIST_SECONDS)
    assert "does not show costguard's own process" in tree.processes.unknown
    (tree.proc / "self").symlink_to("4711")
    tree.pass_by(LIST_SECONDS)
    assert "does not show costguard's own process" in tree.processes.unknown


def test_hidden_processes_are_unknown(tree: Tree) -> None:
    """Where process 1 cannot be seen, nor can those of other users."""
    tree.ends(1)
    tree.pass_by()
    assert "hidepid" in tree.processes.unknown


def test_a_proc_that_is_gone_is_unknown_and_comes_back(tree: Tree) -> None:
    """Nothing that was seen before is taken for true."""
    tree.pass_by()
    moved = tree.proc.rename(tree.root / "elsewhere")
    tree.pass_by(LIST_SECONDS)
    assert "cannot be read" in tree.processes.unknown
    assert names(tree.processes) == []
    moved.rename(tree.proc)
    tree.pass_by()
    assert tree.processes.unknown == ""
    assert names(tree.processes) == ["python3", "systemd"]


def test_what_cannot_be_read_for_want_of_files_has_not_ended() -> None:
    """It is unknown until it can be read again, and nobody who is there is forgotten as if he had left."""
    processes = Processes(SensePaths())
    processes.look(0.0)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        processes.look(STEP)
        assert processes.get(child.pid) is not None
        with starved():
            processes.look(2 * STEP)
            assert processes.get(child.pid) is not None
            assert processes.unknown == "/proc cannot be read (Too many open files)"
            processes.look(3 * STEP)
            assert processes.unknown == "/proc cannot be read (Too many open files)"
        processes.look(4 * STEP)
        assert processes.unknown == ""
        assert processes.get(child.pid) is not None
        child.communicate()


def test_real_processes_are_seen_at_the_next_look() -> None:
    """With the kernel's own numbers: one process, many at once (which takes a few looks), and threads that are none."""
    processes = Processes(SensePaths())
    processes.look(0.0)
    assert processes.unknown == ""
    own = processes.get(os.getpid())
    assert own is not None
    assert own.uid == os.getuid()
    quiet = "import sys, threading; [threading.Thread(target=sys.stdin.read, daemon=True).start() for _ in range(4)]; print(flush=True); sys.stdin.read()"
    for many in (1, NUMBERS_TRIED + 10):
        argv = [sys.executable, "-c", quiet] if many == 1 else ["cat"]
        children = [subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(many)]
        try:
            if many == 1:
                assert children[0].stdout is not None
                children[0].stdout.readline()
            for look in range(1 if many == 1 else 5):
                processes.look(STEP * (1 + look))
            seen = {process.pid for process in processes.all() if process.parent == os.getpid()}
            assert seen >= {child.pid for child in children}
            threads = {int(name) for name in os.listdir(f"/proc/{children[0].pid}/task")} - {children[0].pid}
            assert not threads & {process.pid for process in processes.all()}
        finally:
            for child in children:
                child.communicate()


@pytest.mark.parametrize("parent", [2, 1])
def test_threads_of_the_kernel_are_not_read_again(tmp_path: Path, parent: int) -> None:
    """They never become anything else, and a large machine has thousands of them: each other process has its turn sooner."""
    tree = Tree(tmp_path)
    tree.process(2, "kthreadd", parent=0)
    for pid in range(1000, 1000 + 30 * IN_TURN):
        tree.process(pid, "kworker", parent=parent)
    tree.process(300, "sh")
    tree.pass_by(1000.0)
    seconds = []
    for name in ("train", "eval", "serve"):
        tree.process(300, name)
        began = tree.now
        while not tree.processes.named(name):
            tree.pass_by()
        seconds.append(tree.now - began)
    assert (max(seconds) <= 2 * TURN_SECONDS) is (parent == 2)


def test_while_the_kernel_gives_out_no_number_nothing_is_looked_for(tree: Tree) -> None:
    """And as soon as it does, and where that is no longer told, what is new is seen."""
    (tree.proc / "self").unlink()
    (tree.proc / "self").symlink_to(str(os.getpid()))  # numbers here are those of this /proc
    tree.process(os.getpid(), "python3")
    tree.write("proc/loadavg", "0.00 0.01 0.05 1/99 5000\n")
    tree.pass_by(6 * STEP)
    tree.process(5001, "bash")
    tree.pass_by(2 * STEP)
    assert tree.processes.named("bash") == []
    tree.write("proc/loadavg", "0.00 0.01 0.05 1/99 5001\n")
    tree.pass_by()
    assert len(tree.processes.named("bash")) == 1
    tree.pass_by(6 * STEP)
    tree.process(5002, "zsh")
    (tree.proc / "loadavg").unlink()
    tree.pass_by()
    assert len(tree.processes.named("zsh")) == 1
