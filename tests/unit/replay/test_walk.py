"""The engine over a recording: equal decisions however they are come to, and the right ones."""

from hypothesis import example, given
from hypothesis import strategies as st

from costguard.engine import Policy
from costguard.replay.levels import Levels
from costguard.replay.run import policy_for, walk
from tests.unit.replay.made import ROOMY, START, any_policy, restless, trace


@given(seed=st.integers(0, 10**9))
@example(seed=7002458)  # the first sample stands for an interval before the recording, which counts for what unlatches
@example(seed=188)  # a deadline is told ahead while a stop is latched
@example(seed=100496)  # the period of a budget ends within a countdown
@example(seed=39)  # a sample within a rounding of the end of a window
def test_what_is_left_out_changes_no_decision(seed: int) -> None:
    """Asked about every sample, or only where something can change: the same decisions with the same sentences."""
    levels, policy = Levels(restless(seed, 1500)), any_policy(seed)
    each, few = walk(levels, policy, every_sample=True), walk(levels, policy)
    assert few.decisions == each.decisions


def test_flicker_is_not_stepped_through() -> None:
    """A busy machine whose GPUs rest every other sample costs next to no question."""
    busy = [0.9 if k % 2 else 0.0 for k in range(20_000)]
    walked = walk(Levels(trace(busy, busy[::-1])), ROOMY)
    assert walked.steps < 200


def test_a_stop_and_work_that_comes_back() -> None:
    """Armed by work; ten quiet minutes, a minute of warning, the stop; and work returns."""
    loads = [0.9] * 30 + [0.0] * 120 + [0.9] * 30
    walked = walk(Levels(trace(loads)), ROOMY)
    assert [(d.kind, d.wall - START) for d in walked.decisions] == [
        ("begin", 0.0),
        ("armed", 50.0),
        ("warning", 890.0),
        ("stop", 950.0),
        ("work", 1500.0),
    ]
    assert "DRY RUN: stop would have been carried out" in walked.decisions[3].sentence


def test_unknown_is_never_idle() -> None:
    """A GPU that cannot be read keeps the machine up, and is told of."""
    walked = walk(Levels(trace([0.9] * 30 + [0.0] * 500, [0.9] * 30 + [None] * 500)), ROOMY)
    kinds = [decision.kind for decision in walked.decisions]
    assert "stop" not in kinds
    assert "unknown_alarm" in kinds


def test_a_deadline_that_has_passed_waits_for_rest_however_it_is_replayed() -> None:
    """Of many pauses one is long enough; it is not left out, and the others cost no question each."""
    loads = [0.9] * 200 + [0.9, 0.0] * 400 + [0.0] * 60 + [0.9, 0.0] * 400
    policy = ROOMY._replace(lifetime=1000.0, kill_duration=3600.0, grace=600.0)
    levels = Levels(trace(loads))
    each, few = walk(levels, policy, every_sample=True), walk(levels, policy)
    assert [decision.kind for decision in each.decisions] == [
        "begin", "armed", "deadline_passed", "warning", "cancelled",
    ]  # fmt: skip
    assert few.decisions == each.decisions
    assert few.steps < 400


def test_a_hole_is_not_idle_time() -> None:
    """Nine quiet minutes, an hour without a sample, nine quiet minutes: no stop."""
    quiet = [START + 300 + 10 * k for k in range(54)]
    times = [START + 10 * k for k in range(30)] + quiet + [at + 4200 for at in quiet]
    walked = walk(Levels(trace([0.9] * 30 + [0.0] * 108, times=times)), ROOMY)
    assert "warning" not in [decision.kind for decision in walked.decisions]


def test_nothing_is_live() -> None:
    """A live policy is replayed in dry run, and looks no closer than the recording."""
    policy = policy_for(Policy(mode="live", interval=1.0), trace([0.0, 0.0], step=60.0))
    assert (policy.mode, policy.interval) == ("dry-run", 60.0)


def test_a_coarse_recording_does_not_postpone_the_end_of_a_countdown() -> None:
    """Samples further apart than the countdown is patient: the guard would have looked in between."""
    loads = [0.9] * 3 + [0.0] * 12
    walked = walk(Levels(trace(loads, step=900.0)), ROOMY._replace(kill_duration=3600.0))
    stops = [decision.wall - START for decision in walked.decisions if decision.kind == "stop"]
    assert stops == [2 * 900.0 + 3600.0 + 60.0]


def test_a_coarse_recording_with_work_in_the_next_sample_is_not_stopped() -> None:
    """A sample stands for the time since the one before: work that it shows forbids a stop in between."""
    loads = [0.9] * 3 + [0.0] * 4 + [0.9] * 3
    walked = walk(Levels(trace(loads, step=900.0)), ROOMY._replace(kill_duration=3600.0))
    assert [decision.kind for decision in walked.decisions[2:]] == ["warning", "cancelled"]
