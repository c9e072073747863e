"""Processes that are recognised by their arguments."""

import os
from pathlib import Path

import pytest

from costguard.readers.host.arguments import READS, Recognised
from tests.unit.readers.host.starved import starved
from tests.unit.readers.host.tree import Tree


def test_arguments_that_cannot_be_read_for_want_of_files_are_read_later(tmp_path: Path) -> None:
    """Else a kernel that was started at that moment would never be known as one."""
    tree = Tree(tmp_path)
    tree.process(300, "python3")
    tree.write("proc/300/cmdline", "python3\0-m\0ipykernel\0")
    tree.pass_by()
    recognised = Recognised(lambda process, _: process.pid == 300, lambda words: words[2], ("python",))
    for _ in range(3):
        with starved():
            assert recognised.look(tree.processes) == []
    assert not recognised.settled
    assert [what for _, what in recognised.look(tree.processes)] == [b"ipykernel"]


@pytest.mark.parametrize(
    ("name", "before", "found"),
    [
        ("python3", "python3\0-m\0server\0", [b"k"]),  # a Python that becomes another one keeps its name
        ("xgo", "", [b"k"]),  # it becomes itself at this moment
        ("xgo", "xgo\0-m\0server\0", []),  # who becomes this program under another name is new
    ],
)
def test_who_may_become_another_program_of_its_name_is_read_again(
    tmp_path: Path, name: str, before: str, found: list[bytes]
) -> None:
    """All else once: of a crowd of short-lived programs that would be half of what a look costs."""
    tree = Tree(tmp_path)
    tree.process(300, name)
    tree.write("proc/300/cmdline", before)
    tree.pass_by()
    recognised = Recognised(lambda process, _: process.pid == 300, lambda words: words[1], ("python",), b"kernel")
    assert recognised.look(tree.processes) == []
    tree.write("proc/300/cmdline", f"{name}\0k\0kernel\0")
    tree.processes.forget_arguments()
    assert [what for _, what in recognised.look(tree.processes)] == found
    assert recognised.settled


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make processes of another user")
def test_a_crowd_hides_no_other_user(tmp_path: Path) -> None:
    """Somebody starts a thousand Pythons; another user's kernel is recognised at the next look."""
    tree = Tree(tmp_path)
    for pid in (*range(300, 300 + 5 * READS), 3000):
        tree.process(pid, "python3")
        tree.write(f"proc/{pid}/cmdline", "python3\0-m\0ipykernel\0")
    os.chown(tree.proc / "3000", 4711, 4711)
    tree.pass_by()
    recognised = Recognised(lambda process, _: process.name == "python3", lambda words: words[2], ("python",))
    assert 3000 in [process.pid for process, _ in recognised.look(tree.processes)]


def test_arguments_are_read_once_in_a_look_and_not_kept(tmp_path: Path) -> None:
    """Three senses ask for those of each new Python; and they may hold a password."""
    tree = Tree(tmp_path)
    tree.process(300, "python3")
    tree.write("proc/300/cmdline", "python3\0--password=hunter2\0")
    tree.pass_by()
    process = tree.processes.get(300)
    assert process is not None
    assert b"hunter2" in tree.processes.arguments(process)
    tree.write("proc/300/cmdline", "python3\0-m\0ipykernel\0")
    assert b"hunter2" in tree.processes.arguments(process), "in the same look nothing is read again"
    tree.pass_by()
    assert tree.processes.arguments(process) == b"python3\0-m\0ipykernel\0", "at the next look it is"
    tree.write("proc/300/cmdline", "python3\0other\0")
    tree.processes.forget_arguments()
    assert tree.processes.arguments(process) == b"python3\0other\0"
