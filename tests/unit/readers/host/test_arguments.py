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
    recognised = Recognised(tree.place.proc, lambda process, _: process.pid == 300, lambda words: words[2])
    for _ in range(3):
        with starved():
            assert recognised.look(tree.processes) == []
    assert not recognised.settled
    assert [what for _, what in recognised.look(tree.processes)] == [b"ipykernel"]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make processes of another user")
def test_a_crowd_hides_no_other_user(tmp_path: Path) -> None:
    """Somebody starts a thousand Pythons; another user's kernel is recognised at the next look."""
    tree = Tree(tmp_path)
    for pid in (*range(300, 300 + 5 * READS), 3000):
        tree.process(pid, "python3")
        tree.write(f"proc/{pid}/cmdline", "python3\0-m\0ipykernel\0")
    os.chown(tree.proc / "3000", 4711, 4711)
    tree.pass_by()
    recognised = Recognised(tree.place.proc, lambda process, _: process.name == "python3", lambda words: words[2])
    assert 3000 in [process.pid for process, _ in recognised.look(tree.processes)]
