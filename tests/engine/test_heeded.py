"""What a tick must notice although every GPU stays as it is, and what a part of the GPUs must not decide for the others."""

from itertools import pairwise

import pytest

from costguard.engine import Known, Veto
from costguard.engine.effects import Check
from tests.engine.world import BASE, BUSY, DARK, EPOCH, QUIET, World

IDLE = BASE._replace(arm_duration=None, unused_after=None, boot_grace=0.0)
"""Warns after 300 quiet seconds, acts 60 s later."""

TASK = IDLE._replace(kill_action="command", mode="dry-run")
"""For an action that goes by the selected GPUs."""


def in_between(world: World) -> World:
    """Far from any decision: only a change can end the quick path."""
    world.run(100.0, QUIET)
    assert world.state.core.unchanged_until > world.now + 50.0
    return world


@pytest.mark.parametrize("seen", [False, None])
def test_a_host_that_is_no_longer_quiet_is_noticed_at_once(seen: bool | None) -> None:
    """Unknown too long counts only while the host is known to be quiet, so its clock begins anew there."""
    world = in_between(World(IDLE, 1))
    for now in (seen, True):
        world.quiet_host = now
        world.tick()
        host = world.state.core.signals.host
        assert host is not None
        assert (host.busy, host.since >= world.now - 10.0, world.state.core.quiet_host) == (now is not True, True, now)


def test_a_veto_and_a_date_in_doubt_are_noticed_at_once() -> None:
    """Each alone, in the very look that sees it, and when it is over."""
    world = in_between(World(IDLE, 1))
    typed = (Veto("host", "ann typed"),)
    for vetoes, synced in ((typed, True), ((), True), ((), False), ((), None), ((), True)):
        world.vetoes = vetoes
        world.tick(synced=synced)
        assert (world.state.core.vetoes, world.state.core.clocks.synced) == (vetoes, synced)


@pytest.mark.parametrize("duration", [0.5, 1.0, 30.0])
def test_without_load_nothing_arms(duration: float) -> None:
    """However short it may be."""
    world = World(BASE._replace(arm_duration=duration), 1)
    world.run(100.0, QUIET)
    assert (world.state.core.signals.armed_at, world.state.core.signals.above_arm_since) == (None, None)


@pytest.mark.parametrize(("hole", "since"), [(9.0, 100.0), (15.0, 100.0), (15.01, 105.01), (100.0, 190.0)])
def test_load_counts_from_the_look_before_unless_nobody_looked(hole: float, since: float) -> None:
    """A hole is no load, and what armed half before it has to begin anew."""
    world = World(BASE._replace(arm_duration=300.0), 1)
    world.run(100.0, QUIET)
    world.tick(BUSY, dt=hole)
    assert world.state.core.signals.above_arm_since == pytest.approx(since)
    world.run(50.0, BUSY)
    before = world.now
    world.tick(BUSY, dt=hole)
    again = world.state.core.signals.above_arm_since
    assert again == (pytest.approx(since) if hole <= 15.0 else pytest.approx(before + hole - 10.0))


@pytest.mark.parametrize(("jump", "resumed"), [(1.99, False), (2.0, True), (5000.0, True)])
def test_a_jump_of_two_seconds_is_a_resume(jump: float, resumed: bool) -> None:
    """From one look to the next, and at the first look of a guard that knows of none before."""
    world = World(BASE._replace(unused_after=None), 1)
    world.run(100.0, BUSY)
    world.suspend(jump)
    world.tick(BUSY)
    core = world.state.core
    assert (core.signals.armed_at is None, core.clocks.started) == (resumed, world.now if resumed else 0.0)
    late = World(BASE, 1, now=9000.0)
    late.suspended = jump
    late.tick(BUSY)
    assert late.state.core.clocks.started == (late.now if resumed else 0.0)


@pytest.mark.parametrize(("set_by", "warned"), [(36000.0, True), (30.0, False), (-36000.0, False)])
def test_a_lease_that_a_set_clock_ends_is_noticed_at_once(set_by: float, warned: bool) -> None:
    """The date was wrong until the clock was synchronised."""
    policy = IDLE._replace(lease_until=EPOCH + 20000.0, kill_duration=7200.0)
    world = World(policy, 1)
    world.run(600.0, QUIET)
    world.wall += set_by
    world.tick()
    assert (world.phase() == "WARNING") is warned
    assert bool(world.times("warning")) is warned


@pytest.mark.parametrize("below", [0.3, 0.5])
def test_half_an_arming_is_none(below: float) -> None:
    """Work arms when it lasts; load that fell below the arm threshold and came back begins anew, also between two levels that are both work."""
    world = World(BASE._replace(arm_threshold=0.5, arm_duration=60.0, unused_after=None), 1)
    low, high = Known(below), Known(0.8)
    for seconds in (30.0, 50.0, 30.0, 20.0, 40.0):  # the break is no moment at which anything is due
        world.run(seconds, high)
        world.run(10.0, low)
    assert world.state.core.signals.armed_at is None
    world.run(70.0, high)
    assert world.state.core.signals.armed_at is not None


@pytest.mark.parametrize("other", [DARK, QUIET, BUSY])
def test_a_mean_arms_only_where_every_part_is_known(other: object) -> None:
    """Half of the GPUs says nothing about the mean of all: with the other one quiet it is below the threshold."""
    policy = BASE._replace(aggregate="mean", arm_threshold=0.6, kill_action="command")
    world = World(policy, 2)
    world.run(300.0, BUSY, other)  # type: ignore[arg-type]  # a reading of any kind
    assert (world.state.core.signals.armed_at is not None) is (other is BUSY)


@pytest.mark.parametrize("aggregate", ["all", "any", "mean"])
@pytest.mark.parametrize("action", ["stop", "command"])
@pytest.mark.parametrize("rules", ["idle", "unused"])
def test_a_name_that_no_gpu_answers_to_keeps_every_rule_waiting(aggregate: str, action: str, rules: str) -> None:
    """The GPU that was meant may be the one that works; when it is there, the rules go on."""
    base = IDLE if rules == "idle" else BASE
    policy = base._replace(gpu_devices=("0", "9"), aggregate=aggregate, kill_action=action)
    world = World(policy, 2)
    world.devices()
    world.run(2500.0, QUIET, QUIET)
    assert (world.stops(), world.times("warning")) == ([], [])
    assert world.state.core.selection.unmatched == ("9",)
    world.reload(policy._replace(gpu_devices=("0", "1")))
    world.run(2500.0, QUIET, QUIET)
    assert world.stops()


def test_where_any_gpu_decides_done_ends_when_every_one_works() -> None:
    """One GPU stays idle and the other works on: that is what was acted on. Only work on both is something new."""
    world = World(TASK._replace(aggregate="any", kill_action="end_process", mode="live", kill_duration=100.0), 2)
    world.run(300.0, BUSY, QUIET)
    assert (world.phase(), len(world.stops())) == ("DONE", 1)
    world.left = False
    world.run(600.0, BUSY, QUIET)
    assert (world.phase(), len(world.stops())) == ("DONE", 1)
    world.run(60.0, BUSY, BUSY)
    assert world.phase() == "WATCHING"


@pytest.mark.parametrize(("seconds", "goes_on"), [(20.0, True), (60.0, False)])
@pytest.mark.parametrize("aggregate", ["any", "all", "mean"])
def test_a_short_burst_takes_no_countdown_back(aggregate: str, seconds: float, goes_on: bool) -> None:
    """It blocks, as long as it is within the share; where any GPU decides that is about the idle one alone."""
    policy = TASK._replace(aggregate=aggregate, window_share=0.1, grace=120.0)
    world = World(policy, 2)
    world.run(310.0, QUIET, BUSY if aggregate == "any" else QUIET)
    assert world.phase() == "WARNING"
    world.run(seconds, BUSY, BUSY)
    assert ("cancelled" in world.kinds()) is (not goes_on)
    assert not world.stops()


@pytest.mark.parametrize("rule", ["unbroken", "share"])
@pytest.mark.parametrize("worker", [0, 1])
def test_a_countdown_for_all_gpus_ends_with_work_on_one(rule: str, worker: int) -> None:
    """What one of them may have done for a moment does not speak for the other."""
    world = World(TASK._replace(window_rule=rule, grace=120.0), 2)
    world.run(310.0, QUIET, QUIET)
    assert world.phase() == "WARNING"
    world.run(20.0, *([BUSY, QUIET] if worker == 0 else [QUIET, BUSY]))
    assert world.kinds()[-1] == "cancelled"


def test_whom_a_message_names_where_any_decides() -> None:
    """The GPUs that are idle, and no other; where all must be, all of them."""
    for aggregate, named in (("any", ["0000:01:00.0"]), ("all", ["0000:00:00.0", "0000:01:00.0"])):
        world = World(TASK._replace(aggregate=aggregate), 2)
        world.run(310.0, BUSY if aggregate == "any" else QUIET, QUIET)
        (warning,) = [e for _, e in world.effects if getattr(e, "kind", "") == "warning"]
        assert warning.facts["gpus"] == named  # type: ignore[union-attr]  # a message


def test_a_wrong_date_ends_no_budget_period() -> None:
    """What was spent in a period counts until its end, and a date that is known to be wrong is no end."""
    policy = BASE._replace(budget=100.0, price_per_hour=10.0, budget_period=30 * 86400.0)
    world = World(policy, 1)
    world.run(7200.0, BUSY)
    since = world.state.core.ledger.spent_since
    world.wall += 40 * 86400.0
    for _ in range(10):
        world.tick(BUSY, synced=False)
    assert world.state.core.ledger.spent_since == since
    world.tick(BUSY, synced=True)
    assert world.state.core.ledger.spent_since == since + 30 * 86400.0


def checks(world: World) -> list[float]:
    """When each question about the action was asked."""
    return [at for at, effect in world.effects if isinstance(effect, Check)]


def test_a_check_that_failed_is_repeated_ever_more_rarely_and_not_only_tomorrow() -> None:
    """5, 10, 20, 30, 30 … minutes; with a good answer daily again, and the next failure begins at 5."""
    world = World(BASE, 1, checked=False)
    for seconds, wish in ((7500.0, "failed"), (2000.0, "go")):
        end = world.now + seconds
        while world.now < end:
            world.tick(BUSY)
            world.settle(Check=wish)
    at = checks(world)
    gaps = [round(b - a, -2) for a, b in pairwise(at)]
    assert gaps == [300.0, 600.0, 1200.0, 1800.0, 1800.0, 1800.0]
    good, before = checks(world)[-1], len(checks(world))
    while len(checks(world)) < before + 2:
        world.tick(BUSY, dt=15.0)
        world.settle(Check="failed")
    daily, again = checks(world)[-2:]
    assert (round(daily - good, -2), round(again - daily, -2)) == (86400.0, 300.0)


@pytest.mark.parametrize("how", ["reload", "restart"])
def test_what_failed_before_the_guard_began_again_makes_nobody_wait_longer(how: str) -> None:
    """The check is made at once, and again after five minutes, as at the start."""
    world = World(BASE, 1, checked=False)
    while len(checks(world)) < 4:
        world.tick(BUSY)
        world.settle(Check="failed")
    world.reload(BASE._replace(currency="EUR")) if how == "reload" else world.restart(1.0)
    began = world.now
    while len(checks(world)) < 6:
        world.tick(BUSY)
        world.settle(Check="failed")
    assert [round(at - began, -1) for at in checks(world)[4:]] == [10.0, 320.0]


@pytest.mark.parametrize("first", ["stop", "terminate"])
def test_one_check_that_passes_does_not_make_the_others_young(first: str) -> None:
    """Of two actions one can never be checked: 5, 10, 20 minutes between the rounds, whichever answer comes first."""
    world = World(BASE._replace(fallback=("terminate",)), 1, checked=False)
    while len(checks(world)) < 8:
        world.tick(BUSY)
        waiting = sorted(world.pending.items(), key=lambda entry: getattr(entry[1], "action", "") != first)
        for identity, effect in waiting:
            passes = isinstance(effect, Check) and effect.action == "stop"
            world.answer(identity, "go" if passes else "failed" if isinstance(effect, Check) else "delivered")
    rounds = checks(world)[::2]
    assert [round(b - a, -2) for a, b in pairwise(rounds)] == [300.0, 600.0, 1200.0]


def test_what_was_unknown_delays_nothing_before_the_boots_grace_is_over() -> None:
    """From then on it does, and that is noticed although nothing else happens at that moment."""
    world = World(IDLE._replace(boot_grace=2000.0, unknown_alarm=9e5), 1)
    world.run(1800.0, QUIET)
    world.tick(DARK)
    found = []
    for seconds in (120.0, 40.0):
        world.run(seconds, QUIET)
        alarm = world.state.core.alarms.unknown
        found.append(None if alarm is None else alarm.since)
    assert found == [None, 2000.0 - IDLE.grace - IDLE.interval]
