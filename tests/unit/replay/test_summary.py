"""The numbers of a replay, against what a person counts."""

import random
from bisect import bisect_left
from typing import Any

import pytest

from costguard.engine import Known
from costguard.replay.levels import Levels
from costguard.replay.run import walk
from costguard.replay.summary import ReplaySummary, Stop, account, total
from tests.unit.replay.made import ROOMY, START, restless, trace


def test_clean_and_interrupted_are_counted_apart() -> None:
    """One stop is followed by work 20 minutes later, one by nothing; each recovers the idle time after it."""
    loads = [0.9] * 30 + [0.0] * 191 + [0.9] * 30 + [0.0] * 300
    levels = Levels(trace(loads))
    found = account(levels, walk(levels, ROOMY))
    assert found.stops == (
        Stop(START + 950.0, START + 2210.0, 1250.0, True),
        Stop(START + 3160.0, None, 2340.0, False),
    )
    summary = found.summary
    assert (summary.stops, summary.back_within_hour, summary.back_ever) == (2, 1, 1)
    assert (summary.recovered_interrupted * 3600, summary.recovered_clean * 3600) == pytest.approx((1250.0, 2340.0))
    assert (summary.idle * 3600, summary.work * 3600) == pytest.approx((1910.0 + 3000.0, 290.0 + 300.0))


def test_back_after_more_than_an_hour_counts_as_ever_only() -> None:
    """Work that returns 61 minutes after the stop did not return within an hour."""
    levels = Levels(trace([0.9] * 30 + [0.0] * (95 - 29 + 366) + [0.9] * 10))
    summary = account(levels, walk(levels, ROOMY)).summary
    assert (summary.stops, summary.back_within_hour, summary.back_ever) == (1, 0, 1)


def test_holes_and_unknown_are_neither_idle_nor_work() -> None:
    """Time that nobody saw is counted by itself."""
    times = [START + 10.0 * k for k in range(100)] + [START + 10_000.0 + 10.0 * k for k in range(100)]
    levels = Levels(trace([0.0] * 150 + [None] * 50, times=times))
    summary = account(levels, walk(levels, ROOMY)).summary
    assert summary.idle * 3600 == pytest.approx(990.0 + 490.0)
    assert summary.unknown * 3600 == pytest.approx(10_000.0 - 990.0 + 500.0)
    assert summary.hours == pytest.approx(summary.idle + summary.work + summary.unknown)


def test_numbers_of_several_machines_add_up() -> None:
    """Two machines have twice of everything."""
    levels = Levels(trace([0.9] * 30 + [0.0] * 300))
    summary = account(levels, walk(levels, ROOMY)).summary
    assert total([summary, summary]).stops == 2
    assert total([summary, summary]).share == pytest.approx(summary.share)


@pytest.mark.parametrize("seed", range(12))
def test_numbers_agree_with_a_plain_count(seed: int) -> None:
    """Sample by sample, without any of the shortcuts."""
    made = restless(seed, 2000)
    levels, policy = Levels(made), ROOMY._replace(kill_duration=random.Random(seed).choice([300.0, 1200.0]))
    walked = walk(levels, policy)
    found = account(levels, walked)
    rows = list(zip(*[made.column(i) for i in range(len(made.devices))], strict=True))
    gap = 1.5 * max(10.0, made.interval)
    idle = work = recovered = 0.0
    state = ["work" if any(isinstance(r, Known) and (r.load >= 0.05 or r.signs) for r in row)
             else "idle" if all(isinstance(r, Known) for r in row) else "" for row in rows]  # fmt: skip
    for k in range(1, len(rows)):
        step = made.times[k] - made.times[k - 1]
        if step <= gap:
            idle += step * (state[k] == "idle")
            work += step * (state[k] == "work")
    back = hour = 0
    stops = [decision.wall for decision in walked.decisions if decision.kind == "stop"]
    for stop in stops:
        for k in range(bisect_left(made.times, stop), len(rows)):
            if made.times[k] > stop and state[k] == "work":
                back, hour = back + 1, hour + (made.times[k] - stop <= 3600)
                break
            step = min(made.times[k] - made.times[k - 1], made.times[k] - stop)
            whole = made.times[k] - made.times[k - 1] <= gap
            recovered += step * (state[k] == "idle" and whole)
    summary = found.summary
    assert (summary.stops, summary.back_ever, summary.back_within_hour) == (len(stops), back, hour)
    assert (summary.idle * 3600, summary.work * 3600) == pytest.approx((idle, work))
    assert summary.recovered * 3600 == pytest.approx(recovered)


def test_a_warning_that_a_later_sample_cancels_is_in_doubt() -> None:
    """A sample each 15 minutes, a minute of warning: whether work came before or after its end, nobody knows."""
    levels = Levels(trace([0.9] * 3 + [0.0] * 4 + [0.9] * 3, step=900.0))
    walked = walk(levels, ROOMY._replace(kill_duration=3000.0))
    summary = account(levels, walked).summary
    assert (summary.warnings, summary.cancelled, summary.stops) == (1, 1, 0)
    assert (summary.in_doubt, summary.in_doubt_within_hour) == (1, 1)
    assert [decision.kind for decision in walked.decisions if decision.in_doubt] == ["cancelled"]


def test_a_warning_that_is_cancelled_in_time_is_not_in_doubt() -> None:
    """The sample with work comes before the countdown's end, or at the next look after it."""
    levels = Levels(trace([0.9] * 30 + [0.0] * 63 + [0.9] * 3))
    summary = account(levels, walk(levels, ROOMY)).summary
    assert (summary.cancelled, summary.stops, summary.in_doubt) == (1, 0, 0)


def idle_after_work(minutes: int, *after: float | None, step: float = 10.0) -> ReplaySummary:
    """Five minutes of work, a rest with a stop after eleven, then something else."""
    per_minute = int(60 / step)
    loads = [0.9] * 5 * per_minute + [0.0] * minutes * per_minute + list(after)
    levels = Levels(trace(loads, step=step))
    return account(levels, walk(levels, ROOMY)).summary


@pytest.mark.parametrize(
    ("minutes", "after", "unseen"),
    [
        (120, [], 0),
        (70, [], 1),  # the recording ends too early
        (30, [0.9], 0),  # work came back within the hour: that is known
        (30, [None] * 600, 1),
        (30, [*[None] * 600, 0.9], 1),
        (120, [None] * 600, 0),
    ],
)
def test_a_stop_of_whose_next_hour_too_little_was_recorded_is_counted_apart(
    minutes: int, after: list[float | None], unseen: int
) -> None:
    """It looks clean, and nobody knows."""
    summary = idle_after_work(minutes, *after)
    assert (summary.stops, summary.unseen_within_hour) == (1, unseen)


def test_work_in_a_sample_on_both_sides_of_the_hour_is_not_known_to_be_later() -> None:
    """The sample before it is within the hour after the stop, it is not."""
    loads, times = [0.9, 0.9] + [0.0] * 6 + [0.9], [START + 600.0 * k for k in range(8)] + [START + 7200.0]
    policy = ROOMY._replace(kill_duration=600.0, grace=0.0)
    made = trace(loads, times=times)
    levels = Levels(made._replace(steps=made.steps._replace(usual=3600.0)))
    (stop,) = account(levels, walk(levels, policy)).stops
    assert stop.back == START + 7200.0
    assert stop.back - stop.wall > 3600.0
    assert not stop.seen


@pytest.mark.parametrize("after", [0.0, 0.9])
def test_a_countdown_that_ends_in_a_hole_is_in_doubt(after: float) -> None:
    """Nobody knows what a guard would have seen there; whether work came back is another question."""
    loads = [0.9] * 30 + [0.0] * 62 + [after] * 30
    times = [START + 10.0 * k for k in range(92)] + [START + 2000.0 + 10.0 * k for k in range(30)]
    levels = Levels(trace(loads, times=times))
    summary = account(levels, walk(levels, ROOMY)).summary
    assert (summary.warnings, summary.cancelled, summary.stops) == (1, 1, 0)
    assert (summary.in_doubt, summary.in_doubt_ever) == (1, 1 if after else 0)


def test_a_hole_before_the_countdown_could_end_leaves_no_doubt() -> None:
    """The warning began anew long before."""
    loads = [0.9] * 30 + [0.0] * 62 + [0.0] * 30
    times = [START + 10.0 * k for k in range(92)] + [START + 940.0 + 10.0 * k for k in range(30)]
    levels = Levels(trace(loads, times=times))
    assert account(levels, walk(levels, ROOMY)).summary.in_doubt == 0


@pytest.mark.parametrize(
    ("change", "counted"),
    [
        ({"saving_limit": None}, 1.0),
        ({"saving_limit": 1800.0}, 0.5),
        ({"kill_action": "reboot"}, 0.0),
        ({"kill_action": "end_task"}, 0.0),
        ({"kill_action": "command"}, 1.0),
        ({"kill_action": "shutdown"}, 1.0),
    ],
)
def test_money_counts_up_to_the_limit_of_each_stop_and_never_for_what_ends_no_bill(
    change: dict[str, Any], counted: float
) -> None:
    """As in the history; the hours are shown whole."""
    levels = Levels(trace([0.9] * 30 + [0.0] * (66 + 360)))
    summary = account(levels, walk(levels, ROOMY._replace(saving_limit=86400.0)._replace(**change))).summary
    assert (summary.stops, round(summary.recovered, 1)) == (1, 1.0)
    assert summary.counted == pytest.approx(counted * summary.recovered, abs=0.01)
