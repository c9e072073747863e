"""The picture says what the table says."""

import pytest

from costguard.engine import Policy
from costguard.replay.levels import Levels
from costguard.replay.picture import NOT_SEEN, SPARKS, picture
from costguard.replay.run import walk
from costguard.replay.show import PolicyRun
from costguard.replay.summary import account
from costguard.replay.trace import Trace
from tests.unit.replay.made import START, trace


def marks(recorded: Trace) -> str:
    """All marks of the load, one after another."""
    levels = Levels(recorded)
    walked = walk(levels, Policy())
    drawn = picture(levels, [PolicyRun("", recorded, walked.policy, account(levels, walked), walked)])
    return "".join(
        mark for line in drawn for mark in line.split("  ")[-1] if mark in SPARKS + NOT_SEEN and "load" not in line
    )


@pytest.mark.parametrize("step", [420.0, 900.0, 3600.0])
def test_a_coarse_sample_fills_every_mark_that_it_stands_for(step: float) -> None:
    """Nothing was unknown, so nothing is drawn so."""
    drawn = marks(trace([0.9] * 6 + [0.0] * 20, step=step))
    assert set(drawn) == {SPARKS[0], SPARKS[6]}


def test_a_hole_stays_open() -> None:
    """Whatever was before and after it."""
    times = [START + 60.0 * k for k in range(60)] + [START + 60.0 * k for k in range(180, 240)]
    drawn = marks(trace([0.9] * 60 + [0.0] * 60, times=times))
    assert drawn.count(NOT_SEEN) in {23, 24}  # two hours, at five minutes a mark
    assert drawn.strip(SPARKS).count(NOT_SEEN) == len(drawn.strip(SPARKS))


def test_a_gpu_that_cannot_be_read_beside_a_quiet_one_is_unknown_and_beside_work_is_work() -> None:
    """As for the policy: a GPU at work proves work."""
    rest = [0.9] * 60 + [0.0] * 60
    drawn = marks(trace(rest, [0.9] * 30 + [None] * 90, step=60.0))
    half = len(drawn) // 2
    assert set(drawn[: half - 1]) == {SPARKS[6]}
    assert set(drawn[half + 1 :]) == {NOT_SEEN}
