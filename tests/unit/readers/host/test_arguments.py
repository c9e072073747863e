"""Processes that are recognised by their arguments."""

from pathlib import Path

from costguard.readers.host.arguments import Recognised
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
