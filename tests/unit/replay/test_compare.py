"""Several policies on several machines, whoever does the work."""

import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from costguard.replay.compare import compare
from costguard.replay.levels import Levels
from costguard.replay.pool import shared
from costguard.replay.run import walk
from costguard.replay.summary import account
from tests.unit.replay.made import any_policy, restless


def children() -> set[str]:
    """The processes that this one has started and not waited for. Source: proc_pid_task(5)."""
    return {pid for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}


POLICIES = [any_policy(seed) for seed in range(7)]


@pytest.mark.parametrize("machines", [1, 5])
@pytest.mark.parametrize("processes", [1, 2, 3])
def test_the_same_by_one_process_and_by_several(machines: int, processes: int) -> None:
    """Every policy on every machine, each as if it were alone; progress ends at the whole."""
    traces = [restless(seed, 300) for seed in range(machines)]
    shares: list[float] = []
    found = compare(traces, POLICIES, shares.append, processes=processes)
    assert len(found) == machines * len(POLICIES)
    for (i, j), (_, made, walked, _spared) in found.items():
        levels = Levels(traces[i])
        alone = walk(levels, POLICIES[j])
        assert walked == alone
        assert made == account(levels, alone)
    assert shares[-1] == 1.0
    assert shares == sorted(shares)


@pytest.mark.parametrize("fate", ["raises", "is killed", "ends early"])
def test_what_a_child_does_not_finish_is_done_here(fate: str) -> None:
    """Whatever becomes of a child, nothing of the work is missing, and no process is left over."""
    home, before = os.getpid(), children()

    def work(part: int) -> Sequence[int]:
        if os.getpid() != home and part == 2:
            if fate == "raises":
                raise RuntimeError(fate)
            os.kill(os.getpid(), signal.SIGKILL) if fate == "is killed" else os._exit(3)
        return [part, 10 * part]

    assert shared(4, work) == [[0, 0], [1, 10], [2, 20], [3, 30]]
    assert children() == before


def test_an_error_ends_the_children() -> None:
    """What goes wrong here is told at once, and no child goes on working for nobody."""
    home, before = os.getpid(), children()

    def work(part: int) -> int:
        if os.getpid() == home:
            raise KeyboardInterrupt
        signal.pause()
        return part

    with pytest.raises(KeyboardInterrupt):
        shared(3, work)
    assert children() == before
