"""Machines that must not be stopped, each from a real story; and the sentence that says why."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costguard.engine import Known, Policy, Reading, Veto
from costguard.engine.narrate import Sentence
from costguard.engine.rules import rules_of
from tests.engine.test_seeds import GPU_SENTINEL
from tests.engine.world import BASE, BUSY, DARK, QUIET, World

SHUTDOWN = GPU_SENTINEL._replace(kill_action="shutdown", stop_below_load=False)
WEEK = 7 * 86400.0


def test_a_job_at_60_percent_is_work() -> None:
    """Thresholds of 80 % and 70 % with a machine action: no GPU counts as quiet above 20 % unless the owner says so."""
    world = World(SHUTDOWN, 2)
    world.run(40.0, BUSY, BUSY)
    world.run(600.0, Known(0.6), Known(0.6))
    assert not world.stops()
    assert rules_of(SHUTDOWN).quiet_threshold == 0.2
    allowed = World(SHUTDOWN._replace(stop_below_load=True), 2)
    allowed.run(40.0, BUSY, BUSY)
    allowed.run(600.0, Known(0.6), Known(0.6))
    assert allowed.stops()


@pytest.mark.parametrize("load", [0.4, 0.06])
def test_a_week_at_40_percent_is_not_unused(load: float) -> None:
    """Unused means no work since boot, not that the arm threshold was never reached."""
    world = World(Policy(mode="live", arm_threshold=0.8, unused_after=7200.0), 1, checked=False)
    world.run(WEEK, Known(load))
    assert not world.stops()
    assert "warning" not in world.kinds()


@pytest.mark.parametrize("aggregate", ["all", "any", "mean"])
@pytest.mark.parametrize("rule", ["share", "unbroken"])
def test_one_busy_gpu_of_eight_is_enough(aggregate: str, rule: str) -> None:
    """A machine action needs every GPU quiet, whatever the aggregate says."""
    world = World(BASE._replace(aggregate=aggregate, window_rule=rule, arm_duration=None), 8)
    world.run(3000.0, *[QUIET] * 7, BUSY)
    assert "warning" not in world.kinds()


@pytest.mark.parametrize(("action", "aggregate"), [("stop", "any"), ("stop", "mean"), ("command", "all")])
def test_bursts_of_several_gpus_add_up(action: str, aggregate: str) -> None:
    """Each GPU alone stays within the share of the window, and the machine works for three times as long."""
    policy = BASE._replace(
        kill_action=action,
        aggregate=aggregate,
        kill_duration=600.0,
        window_share=0.1,
        arm_duration=None,
        unused_after=None,
    )
    turns = World(policy, 3)
    alone = World(policy, 3)
    for second in range(0, 3600, 300):
        burst = [QUIET] * 3
        burst[second // 300 % 3] = BUSY
        turns.run(60.0, *burst)
        turns.run(240.0, *[QUIET] * 3)
    assert "warning" not in turns.kinds()
    for _ in range(6):
        alone.run(60.0, BUSY, QUIET, QUIET)
        alone.run(540.0, *[QUIET] * 3)
    assert alone.stops(), "60 s in 10 min are within the share"


@pytest.mark.parametrize(
    ("gpus", "seconds", "work"), [(1, 30.0, False), (1, 40.0, True), (2, 15.0, False), (2, 20.0, True)]
)
def test_what_the_window_tolerates_to_the_second_unlatches_nothing(gpus: int, seconds: float, work: bool) -> None:
    """DONE in a dry run: load within the share is no work, of one GPU or of two in turn."""
    policy = BASE._replace(mode="dry-run", arm_duration=None, unused_after=None, boot_grace=0.0, window_share=0.1)
    world = World(policy, gpus)
    world.run(400.0, *[QUIET] * gpus)
    for turn in range(gpus):
        world.run(seconds, *[BUSY if number == turn else QUIET for number in range(gpus)], dt=5.0)
    assert world.phase() == ("WATCHING" if work else "DONE")


@pytest.mark.parametrize(("load", "work"), [(0.06, False), (0.2, True)])
def test_where_the_mean_decides_one_gpu_alone_unlatches_nothing(load: float, work: bool) -> None:
    """DONE in a dry run: it works, and the mean is as low as before."""
    policy = BASE._replace(
        mode="dry-run", kill_action="command", aggregate="mean", arm_duration=None, unused_after=None
    )
    world = World(policy, 2)
    world.run(400.0, QUIET, QUIET)
    assert world.phase() == "DONE"
    world.run(200.0, Known(load), QUIET)
    assert world.phase() == ("WATCHING" if work else "DONE")


@pytest.mark.parametrize("turns", [True, False])
def test_bursts_of_several_gpus_add_up_to_the_work_that_unlatches(turns: bool) -> None:
    """DONE in a dry run: each GPU alone stays within the share, and together they are work; one alone is not."""
    policy = BASE._replace(mode="dry-run", arm_duration=None, unused_after=None, boot_grace=0.0, window_share=0.1)
    world = World(policy, 2)
    world.run(400.0, QUIET, QUIET)
    assert world.phase() == "DONE"
    world.run(20.0, BUSY, QUIET)
    world.run(20.0, *((QUIET, BUSY) if turns else (QUIET, QUIET)))
    assert world.phase() == ("WATCHING" if turns else "DONE")


def test_a_gpu_that_is_listed_later_is_judged_from_then_on() -> None:
    """It may be the one that works; gpu_devices selects it by its name as soon as it is there."""
    for names, stops in (((), False), (("0000:01:00.0", "0000:00:00.0"), False), (("0000:00:00.0",), True)):
        policy = BASE._replace(arm_duration=None, unused_after=None, kill_action="command", gpu_devices=names)
        world = World(policy, 1)
        keys = (*world.keys, "0000:01:00.0")
        world.run(100.0, QUIET)
        world.keys = keys
        world.run(2000.0, QUIET, BUSY)
        assert bool(world.stops()) is stops
        assert len(world.state.core.selection.picked) == (1 if stops else 2)


@pytest.mark.parametrize("late", [True, False])
def test_a_hole_that_ends_beside_another_one_is_no_unused_time(late: bool) -> None:
    """One GPU is seen at last, or again, while another one is not: evidence that ends the short hole ends not the long one."""
    world = World(BASE, 2)
    both = world.keys
    world.keys = both[1:] if late else both
    world.run(850.0, *((QUIET,) if late else (DARK, QUIET)))
    world.keys = both
    world.tick(QUIET, DARK)
    world.tick(QUIET, Known(0.0, covers=60.0))
    seen = world.now
    world.run(870.0, QUIET, QUIET)
    assert not world.times("warning")
    world.run(40.0, QUIET, QUIET)
    assert world.times("warning")[0] >= seen + BASE.unused_after - 2 * BASE.interval  # type: ignore[operator]  # a number here


@pytest.mark.parametrize(("missing", "bridges"), [(0.04, True), (0.1, False)])
def test_evidence_from_look_to_look_bridges_a_hole_from_tick_to_tick(missing: float, bridges: bool) -> None:
    """A counter that was read on both sides proves a hole quiet (I5), though a tick comes a moment after its look; a real gap costs the window."""
    world = World(BASE._replace(arm_duration=None, unused_after=None, kill_duration=300.0, boot_grace=0.0), 1)
    world.run(100.0, QUIET)
    before = world.now
    world.tick(DARK)
    world.tick(DARK)
    world.tick(Known(0.0, covers=world.now + BASE.interval - before - missing))
    world.run(300.0 - world.now + BASE.interval, QUIET)
    assert bool(world.times("warning")) is bridges


@pytest.mark.parametrize("reason", ["idle", "unused"])
def test_a_gpu_that_works_ends_a_countdown_whatever_another_one_hides(reason: str) -> None:
    """One cannot be read, which alone would only hold it up."""
    policy = BASE._replace(unused_after=300.0, arm_duration=None if reason == "idle" else 900.0)
    world = World(policy, 2)
    world.run(330.0, QUIET, QUIET)
    assert world.phase() == "WARNING"
    world.tick(DARK, QUIET)
    assert world.phase() == "WARNING"
    world.tick(DARK, BUSY)
    assert (world.phase(), world.kinds()[-1]) == ("WATCHING", "cancelled")


@pytest.mark.parametrize(("load", "seconds", "goes_on"), [(0.9, 20.0, True), (0.9, 50.0, False)])
def test_a_short_burst_holds_up_a_countdown_of_an_unused_machine(load: float, seconds: float, goes_on: bool) -> None:
    """As long as it is within the share; more is work, and the machine was used."""
    policy = BASE._replace(unused_after=600.0, arm_duration=900.0, window_share=0.1, grace=120.0)
    world = World(policy, 1)
    world.run(610.0, QUIET)
    assert world.phase() == "WARNING"
    world.run(seconds, Known(load))
    assert world.phase() == ("WARNING" if goes_on else "WATCHING")
    world.run(200.0, QUIET)
    assert bool(world.stops()) is goes_on


def test_work_that_arms_ends_a_countdown_of_an_unused_machine() -> None:
    """Load that is quiet for the action, and arms all the same: the machine was used, and the idle window counts from now."""
    policy = BASE._replace(unused_after=600.0, arm_duration=20.0, arm_threshold=0.03, window_share=0.1, grace=120.0)
    world = World(policy, 1)
    world.run(610.0, QUIET)
    assert world.phase() == "WARNING"
    world.run(30.0, Known(0.04))
    assert (world.phase(), world.state.core.signals.armed_at is not None) == ("WATCHING", True)


def test_a_deadline_does_not_trust_what_was_never_seen() -> None:
    """A guard that lost its memory and cannot read a GPU from its first tick on: it may be working."""
    policy = BASE._replace(lifetime=50.0, unused_after=None, kill_duration=600.0, boot_grace=0.0, unknown_alarm=1e9)
    world = World(policy, 2)
    world.run(590.0, QUIET, DARK)
    assert "warning" not in world.kinds()
    world.run(300.0, QUIET, DARK)
    assert world.stops(), "unknown for a whole window, it is only told"


def test_a_deadline_does_not_trust_a_machine_of_which_no_gpu_was_ever_seen() -> None:
    """The guard lost its memory, and its reader does not start: no GPU is listed at all, and each may be working."""
    policy = BASE._replace(lifetime=50.0, unused_after=None, kill_duration=600.0, boot_grace=0.0, unknown_alarm=1e9)
    world = World(policy, 0)
    world.run(590.0)
    assert "warning" not in world.kinds()
    world.run(300.0)
    assert world.stops(), "unknown for a whole window, it is only told"


def test_a_countdown_outlives_no_hole_where_no_gpu_was_seen_yet() -> None:
    """I7: a guard that was away for minutes begins the warning again, whatever it can list."""
    policy = BASE._replace(lifetime=50.0, unused_after=None, kill_duration=600.0, boot_grace=0.0, unknown_alarm=1e9)
    world = World(policy, 0)
    while world.phase() != "WARNING":
        world.tick()
    world.settle()
    world.restart(70.0)
    world.tick()
    world.settle()
    assert not world.stops()
    assert world.kinds().count("warning") == 2


def test_work_outside_gpu_devices_keeps_the_machine() -> None:
    """gpu_devices selects what arms; the machine belongs to all of them. A command goes by the selected ones."""
    for action, stops in (("stop", False), ("command", True)):
        world = World(BASE._replace(gpu_devices=("0",), kill_action=action, arm_duration=None), 2)
        world.devices()
        world.run(3000.0, QUIET, BUSY)
        assert bool(world.stops()) is stops


def test_a_selected_gpu_that_is_not_there_is_unknown() -> None:
    """A name in gpu_devices to which no GPU answers: nothing is decided, and it is told."""
    for action in ("stop", "command"):
        world = World(BASE._replace(gpu_devices=("0", "7"), kill_action=action, arm_duration=None), 2)
        world.devices()
        world.run(3000.0, QUIET, QUIET)
        assert not world.stops()
        assert world.times("unknown_alarm")


def test_seven_of_eight_unreadable_is_unknown() -> None:
    """One quiet GPU does not speak for seven that cannot be read; for a week, and told."""
    world = World(BASE._replace(arm_duration=None), 8, checked=False)
    world.run(WEEK, *[DARK] * 7, QUIET, dt=14.0)
    assert not world.stops()
    assert len(world.times("unknown_alarm")) >= 7


@pytest.mark.parametrize("sign", ["power 120 W", "SM active 30 %", "NVLink 2 GB/s", "process 4711 uses the GPU"])
def test_signs_of_work_without_load_are_work(sign: str) -> None:
    """A job that waits in a collective, or copies, shows no load; a machine action heeds it, a command does not."""
    for action, stops in (("stop", False), ("command", True)):
        world = World(BASE._replace(kill_action=action), 1)
        world.run(60.0, BUSY)
        world.run(100.0, QUIET)
        world.run(3000.0, Known(0.0, (sign,)))
        assert bool(world.stops()) is stops


@pytest.mark.parametrize("load", [float("nan"), -0.1, 1e9, float("inf"), 0.05])
def test_a_number_that_is_none_is_not_quiet(load: float) -> None:
    """Garbage, and a load exactly at the threshold, never count as quiet."""
    for policy in (BASE, BASE._replace(kill_action="command", aggregate="mean")):
        world = World(policy._replace(arm_duration=None), 1)
        world.run(3000.0, Known(load))
        assert "warning" not in world.kinds()


@pytest.mark.parametrize("who", ["hold", "veto", "admin", "notice"])
def test_what_stands_in_the_way_does(who: str) -> None:
    """A hold, a reader's veto, the administrator and the cloud's own notice each keep idle from acting."""
    world = World(BASE._replace(arm_duration=None, admin_hold="audit" if who == "admin" else ""), 1)
    world.run(200.0, QUIET)
    if who == "hold":
        world.hold(86000.0)
    elif who == "veto":
        world.vetoes = (Veto("jupyter", "a kernel is busy"),)
    elif who == "notice":
        world.notice(5000.0)
    world.run(4900.0, QUIET)
    assert not world.stops()
    assert "warning" not in world.kinds()
    assert who != "admin" or "audit" in str(world.last and world.last.sentence)


def test_the_end_of_a_hold_begins_a_new_warning() -> None:
    """After a hold the whole warning runs, although the window was clear for hours."""
    world = World(BASE._replace(arm_duration=None), 1)
    world.run(330.0, QUIET)
    assert world.phase() == "WARNING"
    world.hold(7200.0)
    assert world.phase() == "WATCHING"
    held = world.now
    world.run(8000.0, QUIET)
    assert world.stops()[0] >= held + 7200.0 + BASE.grace


def test_unknown_too_long_stops_only_where_it_was_opted_in_and_nobody_is_seen() -> None:
    """Unknown is no reason by default; opted in, the host must be seen quiet all that time, and no GPU may work."""
    for after, host, other, stops in (
        (None, True, QUIET, False),
        (900.0, True, QUIET, True),
        (900.0, None, QUIET, False),
        (900.0, False, QUIET, False),
        (900.0, True, BUSY, False),
    ):
        world = World(BASE._replace(unknown_stop_after=after), 2)
        world.quiet_host = host
        world.run(3000.0, DARK, other)
        assert bool(world.stops()) is stops


def test_work_a_moment_ago_is_not_unknown_too_long() -> None:
    """The GPU that can be read worked until just now: the time of unknown alone is no reason."""
    world = World(BASE._replace(unknown_stop_after=900.0), 2)
    world.run(900.0, DARK, BUSY)
    world.run(800.0, DARK, QUIET)
    assert "warning" not in world.kinds()


@given(
    st.lists(st.tuples(st.sampled_from([QUIET, BUSY, DARK, Known(0.3)]), st.integers(1, 30)), min_size=1, max_size=6)
)
def test_the_key_of_a_sentence_changes_only_when_more_than_numbers_do(stretches: list[tuple[object, int]]) -> None:
    """Two sentences with one key differ in numbers only: a new key is worth a line in the log."""
    world = World(BASE, 1)
    words: dict[tuple[str, ...], set[str]] = {}
    for reading, count in stretches:
        for _ in range(count):
            sentence = world.tick(reading).sentence  # type: ignore[arg-type]  # one of the readings above
            cause = str(sentence).split(";")[0]
            words.setdefault(sentence.key, set()).add(re.sub(r"\d+(m|h|s|d)?\b|\s", "", cause))
            world.settle()
    assert all(len(texts) == 1 for texts in words.values()), words


@pytest.mark.parametrize("other", [DARK, BUSY])
def test_a_gpu_that_the_action_does_not_go_by_is_not_blamed(other: Reading) -> None:
    """The sentence names what stands in the way, and an unselected GPU does not."""
    world = World(BASE._replace(gpu_devices=("0",), kill_action="command", arm_duration=None, unused_after=None), 2)
    world.devices()
    world.run(100.0, QUIET, other)
    sentence = str(world.last and world.last.sentence)
    assert "GPU 1" not in sentence
    assert "GPU 0 below" in sentence
    assert "warning at" in sentence


def test_an_armed_machine_does_not_wait_for_work() -> None:
    """What was armed is not said to wait for load, whatever keeps the window from being known."""
    world = World(BASE._replace(kill_action="command", aggregate="mean"), 2)
    world.run(100.0, BUSY, BUSY)
    world.run(20.0, QUIET, QUIET)
    unseen = world.state._replace(core=world.state.core._replace(signals=world.state.core.signals._replace(mean=None)))
    sentence = Sentence(unseen, rules_of(world.policy), world.wall)
    assert "waiting for load" not in str(sentence)
