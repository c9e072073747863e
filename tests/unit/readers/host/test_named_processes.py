"""The sense `processes`."""

import os
from pathlib import Path

import pytest

from costguard.readers.host.named_processes import NamedProcesses
from costguard.readers.host.sense import Moment, Sight
from tests.unit.readers.host.tree import Tree

ME = "root" if os.getuid() == 0 else "ann"


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_a_named_program_counts_while_it_runs(tree: Tree) -> None:
    """Several of one user are one activity, since the first of them began."""
    sense = NamedProcesses({"names": ["rsync", "a-very-long-name-of-a-program"], "users": []}, tree.place)
    assert tree.look(sense) == Sight((), "", "none of the named programs runs")
    tree.process(200, "rsync", start=900.0)
    tree.process(201, "rsync", start=950.0)
    tree.process(202, "a-very-long-nam", start=990.0)
    tree.process(203, "rsyncd", start=990.0)
    active = tree.look(sense).active
    assert [(one.who, one.what, one.since, one.last, one.lets_go, one.user) for one in active] == [
        (f"rsync of {ME}", "runs", 900.0, tree.now, "its end", ME),
        (f"a-very-long-nam of {ME}", "runs", 990.0, tree.now, "its end", ME),
    ]
    for pid in (200, 201, 202):
        tree.ends(pid)
    assert tree.look(sense).active == ()


def test_what_has_ended_since_the_processes_were_looked_at_does_not_run(tree: Tree) -> None:
    """The shared view forgets late."""
    sense = NamedProcesses({"names": ["rsync"], "users": []}, tree.place)
    tree.process(200, "rsync")
    tree.pass_by()
    tree.ends(200)
    assert sense.look(Moment(tree.now, tree.now), tree.processes).active == ()


def test_only_named_users_count(tree: Tree) -> None:
    """Where the owner names any."""
    tree.process(200, "rsync")
    assert tree.look(NamedProcesses({"names": ["rsync"], "users": [ME]}, tree.place)).active
    assert not tree.look(NamedProcesses({"names": ["rsync"], "users": ["bob"]}, tree.place)).active


def test_unknown_processes_are_unknown(tree: Tree) -> None:
    """Whoever names a program wants to hear that it cannot be seen."""
    (tree.proc / "self").unlink()
    assert tree.look(NamedProcesses({"names": ["rsync"], "users": []}, tree.place)).unknown
