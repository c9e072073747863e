"""The published rules of two tools, written again from their description, against ours on random traces."""

import math
from collections import deque
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costguard.engine import Known, Policy
from costguard.sentinel import Sentinel, SentinelState
from tests.engine.world import BUSY, DARK, QUIET, World

LOADS = st.sampled_from([0.0, 0.3, 0.69, 0.7, 0.75, 0.8, 0.81, 1.0])
STRETCHES = st.lists(st.tuples(LOADS, st.integers(1, 9)), min_size=1, max_size=12)
"""Loads that stay for some ticks, so that durations are reached."""

GPU_SENTINEL = Policy(
    mode="live",
    interval=1.0,
    arm_threshold=0.8,
    arm_duration=30.0,
    kill_threshold=0.7,
    kill_duration=30.0,
    window_rule="unbroken",
    aggregate="mean",
    stop_below_load=True,
    grace=0.0,
    boot_grace=0.0,
    unused_after=None,
    kill_action="end_process",
)
"""As the preset gives it."""


class CountDown:
    """Arms after so many ticks in a row strictly above, fires after so many strictly below; armed for ever."""

    def __init__(self, arm_duration: int, arm_threshold: float, kill_duration: int, kill_threshold: float) -> None:
        self.limits = (arm_duration, arm_threshold), (kill_duration, kill_threshold)
        self.armed = False
        self.left = arm_duration

    def tick(self, value: float) -> bool:
        """Whether it fires on this tick."""
        duration, threshold = self.limits[self.armed]
        hit = value < threshold if self.armed else value > threshold
        self.left = self.left - 1 if hit else duration
        if self.left > 0:
            return False
        if self.armed:
            return True
        self.armed, self.left = True, self.limits[1][0]
        return False


class Windows:
    """Every GPU keeps its last n samples; idle when all n are strictly below; fires when all, or any, GPUs are idle."""

    def __init__(self, samples: int, delay: int, threshold: float, rule: str) -> None:
        self.samples, self.threshold, self.rule = samples, threshold, any if rule == "any" else all
        self.skip = max(delay, 1) - 1
        self.seen: dict[int, deque[float]] = {}

    def tick(self, loads: tuple[float, ...]) -> bool:
        if self.skip > 0:
            self.skip -= 1
            return False
        idle = []
        for gpu, load in enumerate(loads):
            last = self.seen.setdefault(gpu, deque(maxlen=self.samples))
            last.append(load)
            idle.append(len(last) == self.samples and all(load < self.threshold for load in last))
        return self.rule(idle)


def first(fires: list[bool]) -> int | None:
    return fires.index(True) if True in fires else None


def warned_at(world: World, trace: Sequence[tuple[float, ...]]) -> int | None:
    """The tick on which a warning is opened."""
    for number, loads in enumerate(trace):
        done = world.tick(*(Known(load) for load in loads))
        if any(getattr(effect, "kind", "") in {"warning", "would_act"} for effect in done.effects):
            return number
    return None


@given(STRETCHES, st.integers(0, 6), st.integers(1, 6))
def test_sentinel_first_call_is_that_of_the_count_down(stretches: list[tuple[float, int]], arm: int, kill: int) -> None:
    """Arm after consecutive ticks strictly above, fire after consecutive ticks strictly below; never armed twice."""
    trace = [load for load, times in stretches for _ in range(times)]
    calls: list[int] = []
    reference = CountDown(arm, 0.8, kill, 0.7)
    ours = Sentinel(arm, 0.8, kill, 0.7, lambda: calls.append(1))
    fires: list[bool] = []
    called: list[bool] = []
    for load in trace:
        fires.append(reference.tick(load))
        ours.tick(load)
        called.append(len(calls) > sum(called))
        assert (ours.state is SentinelState.ARMED) == reference.armed
    assert first(called) == first(fires)


@given(STRETCHES)
def test_sentinel_calls_once_per_quiet_spell(stretches: list[tuple[float, int]]) -> None:
    """After a call, the next one needs a tick at or above the threshold and the whole count again."""
    trace = [load for load, times in stretches for _ in range(times)]
    now = 0
    calls: list[int] = []
    ours = Sentinel(0, 0.8, 3, 0.7, lambda: calls.append(now))
    for load in trace:
        ours.tick(load)
        now += 1
    for early, late in pairwise(calls):
        assert max(trace[early : late + 1]) >= 0.7
        assert late - early >= 3


@pytest.mark.parametrize("unknown", [None, math.nan, -0.1, 80.0])
def test_sentinel_unknown_is_neither_work_nor_quiet(unknown: float | None) -> None:
    """A value that is no share of 0 to 1 begins either count anew, and does not call again."""
    calls: list[int] = []
    ours = Sentinel(2, 0.8, 2, 0.7, lambda: calls.append(1))
    for value in (0.9, unknown, 0.9):
        ours.tick(value)
    assert ours.state is SentinelState.SAFE
    for value in (0.9, 0.0, unknown, 0.0):
        ours.tick(value)
    assert not calls
    ours.tick(0.0)
    assert len(calls) == 1
    for value in (0.0, unknown, 0.0, 0.0, 0.0):
        ours.tick(value)
    assert len(calls) == 1


def test_sentinel_state_idle_is_safe() -> None:
    """Both names that the published tool uses mean the same state."""
    assert SentinelState["IDLE"] is SentinelState["SAFE"]


def test_sentinel_tells_how_long_until_it_changes() -> None:
    """seconds_to_transition counts down while usage stays on the side that counts, and never below 0."""
    ours = Sentinel(3, 0.8, 2, 0.7, lambda: None)
    seen = []
    for value in (0.9, 0.9, 0.9, 0.1, 0.1, 0.1):
        ours.tick(value)
        seen.append(ours.seconds_to_transition)
    assert seen == [2, 1, 2, 1, 0, 0]


def test_sentinel_counts_longer_than_an_hour() -> None:
    """The published tool asserts less than 3600."""
    calls: list[int] = []
    ours = Sentinel(4000, 0.8, 5000, 0.7, lambda: calls.append(1))
    for value, ticks in ((0.9, 4000), (0.1, 4999)):
        for _ in range(ticks):
            ours.tick(value)
    assert (ours.state, calls) == (SentinelState.ARMED, [])
    ours.tick(0.1)
    assert calls == [1]


@pytest.mark.parametrize(
    "values", [(30, 80, 30, 0.7), (30, 0.8, 30, -1), (-1, 0.8, 30, 0.7), (30, 0.8, 0, 0.7), (30, math.nan, 30, 0.7)]
)
def test_sentinel_refuses_what_could_never_arm_or_fires_at_once(values: tuple[float, float, float, float]) -> None:
    """80 instead of 0.8 never armed; a count of 0 fired under load: both are refused with words."""
    with pytest.raises(ValueError, match=r"0 to 1|or more"):
        Sentinel(*values, lambda: None)


@given(
    st.lists(st.tuples(LOADS, LOADS, st.integers(1, 45)), min_size=1, max_size=10), st.integers(1, 4), st.integers(1, 4)
)
def test_the_mean_rule_warns_on_the_same_tick(stretches: list[tuple[float, float, int]], arm: int, kill: int) -> None:
    """The preset gpu-sentinel enters WARNING on the tick on which the published tool fires."""
    trace = [(a, b) for a, b, times in stretches for _ in range(times)]
    policy = GPU_SENTINEL._replace(arm_duration=10.0 * arm, kill_duration=10.0 * kill)
    reference = CountDown(10 * arm, 0.8, 10 * kill, 0.7)
    assert warned_at(World(policy, 2), trace) == first([reference.tick((a + b) / 2) for a, b in trace])


@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.009, 0.01, 1.0]), st.sampled_from([0.0, 0.01, 0.5]), st.integers(1, 9)),
        min_size=1,
        max_size=9,
    ),
    st.integers(1, 9),
    st.integers(0, 6),
    st.sampled_from(["all", "any"]),
    st.sampled_from([1.0, 5.0]),
)
def test_the_sample_windows_warn_on_the_same_tick(
    stretches: list[tuple[float, float, int]], samples: int, delay: int, rule: str, seconds: float
) -> None:
    """The idle-timeout presets enter WARNING on the look on which the published tools kill."""
    trace = [(a, b) for a, b, times in stretches for _ in range(times)]
    policy = GPU_SENTINEL._replace(
        interval=seconds,
        arm_duration=None,
        kill_threshold=0.01,
        kill_duration=samples * seconds,
        aggregate=rule,
        delay=(max(delay, 1) - 1) * seconds,
        kill_action="command",
    )
    reference = Windows(samples, delay, 0.01, rule)
    assert warned_at(World(policy, 2), trace) == first([reference.tick(loads) for loads in trace])


def test_one_failed_reading_neither_kills_nor_ends_the_watch() -> None:
    """Where the published tools die or kill on a failed reading, the count begins anew."""
    policy = GPU_SENTINEL._replace(arm_duration=None, kill_duration=10.0, aggregate="all", kill_threshold=0.01)
    trace = [QUIET] * 9 + [DARK] + [QUIET] * 10
    world = World(policy, 1)
    warned = [number for number, reading in enumerate(trace) if "warning" in str(world.tick(reading).effects)]
    assert warned == [19]


def test_end_process_leaves_once_with_code_0() -> None:
    """The idiom `costguard run && something` needs exit code 0, and exactly one end."""
    world = World(GPU_SENTINEL, 1)
    world.run(40.0, BUSY)
    world.run(60.0, QUIET)
    assert [str(effect) for _, effect in world.effects if type(effect).__name__ == "Leave"] == ["Leave(code=0)"]
