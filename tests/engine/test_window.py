"""I1, I5, I6: what counts as quiet, for how long, and what unknown does to it."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costguard.engine import Known, Policy, Reading, Veto
from costguard.engine.effects import Tell
from tests.engine.world import BASE, BUSY, DARK, QUIET, World, play

LOADS = st.sampled_from([0.0, 0.0, 0.0, 0.04, 0.2, 0.9])
ARMED = BASE._replace(arm_duration=None, unused_after=None, boot_grace=0.0, unknown_alarm=1e9)
SIGNS = Known(0.0, ("power 90 W above idle",))


def reading(load: float | None) -> Reading:
    return DARK if load is None else Known(load)


@given(
    st.lists(st.tuples(LOADS, st.integers(1, 12)), min_size=1, max_size=8),
    st.integers(0, 95),
    st.sampled_from([None, 0.05, 0.9, 1.0]),
    st.integers(1, 4),
    st.sampled_from([0.0, 0.05, 0.2]),
)
def test_unknown_or_more_load_never_makes_a_stop_come_sooner(
    stretches: list[tuple[float, int]], where: int, worse: float | None, times: int, share: float
) -> None:
    """I1: while armed, replacing readings by unknown or by more load never makes the first stop come sooner."""
    loads: list[float] = [load for load, count in stretches for _ in range(count)] + [0.0] * 60
    policy = ARMED._replace(window_share=share)
    plain = play(World(policy, 1, checked=False), ((Known(load),) for load in loads)).stops()
    changed: list[float | None] = list(loads)
    for i in range(where, min(where + times, len(loads))):
        changed[i] = None if worse is None else max(worse, loads[i])
    other = play(World(policy, 1, checked=False), ((reading(load),) for load in changed)).stops()
    assert not other or (plain and plain[0] <= other[0] + 1e-6)


@given(
    st.lists(st.tuples(LOADS, st.integers(1, 12)), min_size=1, max_size=8),
    st.sampled_from([60.0, 300.0, 600.0, 1800.0]),
)
def test_the_share_rule_never_tolerates_more_than_it_says(stretches: list[tuple[float, int]], window: float) -> None:
    """I1: over the window that ends at the warning, the loud seconds are within the share; the monitor counts them."""
    loads = [load for load, count in stretches for _ in range(count)] + [0.0] * 200
    world = play(World(ARMED._replace(window_share=0.1, kill_duration=window), 1), ((Known(load),) for load in loads))
    assert world.stops(), "with quiet for longer than the window it stops"


def test_one_blip_within_the_share_delays_nothing() -> None:
    """One blip of a tick does not reset a window of the share rule, and does reset an unbroken one."""
    trace = [QUIET] * 20 + [BUSY] + [QUIET] * 60
    share = play(World(ARMED._replace(window_share=0.1), 1), ((r,) for r in trace))
    unbroken = play(World(ARMED._replace(window_rule="unbroken"), 1), ((r,) for r in trace))
    assert share.times("warning")[0] == 300.0
    assert unbroken.times("warning")[0] == 510.0


def test_unknown_resets_the_window_unless_evidence_reaches_over_it() -> None:
    """I5: an unknown tick begins the window anew; an integrating counter read on both sides bridges it."""
    for covers, expected in ((0.0, 500.0), (15.0, 500.0), (20.0, 300.0), (400.0, 300.0)):
        world = World(ARMED, 1)
        play(world, [(QUIET,)] * 19 + [(DARK,)] + [(Known(0.0, (), covers),)] + [(QUIET,)] * 60)
        assert world.times("warning")[0] == expected, covers


@pytest.mark.parametrize(("covers", "since"), [(0.0, 30.0), (29.9, 30.0), (30.0, 10.0), (90.0, 10.0)])
def test_evidence_counts_back_to_the_first_look_and_no_further(covers: float, since: float) -> None:
    """I5: what was unknown ever since is bridged too; what was before nobody claims to have seen."""
    world = World(ARMED, 1)
    world.run(30.0, DARK)
    world.tick(Known(0.0, (), covers))
    world.run(400.0, QUIET)
    assert world.times("warning")[0] == since + ARMED.kill_duration


@pytest.mark.parametrize(("hole", "covers", "bridged"), [
    (15.0, 0.0, True), (15.01, 0.0, False), (15.01, 15.0, False), (100.0, 100.0, True), (100.01, 100.0, False),
])  # fmt: skip
def test_a_reading_stands_for_an_interval_and_a_half_and_evidence_for_its_own_time(
    hole: float, covers: float, bridged: bool
) -> None:
    """I5: to the hundredth of a second; what is not bridged begins anew with the interval before the look."""
    world = World(ARMED, 1)
    world.run(100.0, QUIET)
    world.tick(Known(0.0, (), covers), dt=hole)
    (track,) = world.state.tracks
    assert (track.busy, track.since) == (False, 0.0 if bridged else world.now - ARMED.interval)


@pytest.mark.parametrize("covers", [0.0, 60.0])
def test_a_hole_in_one_selected_gpu_ends_its_countdown_and_in_another_not(covers: float) -> None:
    """A command goes by the GPUs that are selected, and only their history has to be whole."""
    for which, ends in ((0, True), (1, False)):
        policy = ARMED._replace(kill_action="command", gpu_devices=("0000:00:00.0",))
        world = World(policy, 2)
        world.run(310.0, QUIET, QUIET)
        assert world.phase() == "WARNING"
        for seen in (DARK, Known(0.0, (), covers)):
            world.tick(*((seen, QUIET) if which == 0 else (QUIET, seen)))
            world.settle()
        assert world.phase() == ("WATCHING" if ends and not covers else "WARNING")


def test_a_hole_in_the_ticks_is_unknown_too() -> None:
    """I5: nobody looked for longer than 1.5 intervals: the window begins anew, unless evidence reaches over it."""
    for covers, expected in ((0.0, 590.0), (100.0, 300.0)):
        world = World(ARMED, 1)
        world.run(200.0, QUIET)
        world.tick(Known(0.0, (), covers), dt=100.0)
        world.run(600.0, QUIET)
        assert world.times("warning")[0] == expected, covers


@given(st.lists(st.tuples(st.integers(1, 30), st.sampled_from([-1e8, -3600.0, -1.0, 1.0, 3600.0, 1e8])), max_size=6))
def test_setting_the_clock_changes_no_duration(jumps: list[tuple[int, float]]) -> None:
    """I5: the same readings under a wall clock that jumps lead to the same decisions at the same times."""

    def decisions(jumps: dict[int, float]) -> list[tuple[float, str]]:
        world = World(BASE, 1, checked=False)
        for number in range(90):
            world.wall += jumps.get(number, 0.0)
            world.tick(BUSY if number < 8 or number == 20 else DARK if number in {30, 31} else QUIET, synced=None)
            world.settle()
        return [(at, type(effect).__name__ + getattr(effect, "kind", "")) for at, effect in world.effects]

    assert decisions(dict(jumps)) == decisions({})


def test_a_date_that_cannot_be_trusted_stops_nothing() -> None:
    """I5: a lease is compared with a synchronised clock only."""
    policy = ARMED._replace(lease_until=1.0, kill_duration=1e6)
    for synced, warned in ((False, False), (True, True)):
        world = World(policy, 1)
        for _ in range(30):
            world.tick(QUIET, synced=synced)
        assert ("warning" in world.kinds()) is warned


@given(
    st.lists(
        st.tuples(st.sampled_from([QUIET, BUSY, DARK, SIGNS, Known(0.0, (), 60.0)]), st.integers(1, 40)),
        min_size=1,
        max_size=6,
    )
)
def test_ticks_before_the_forecast_change_nothing(stretches: list[tuple[Reading, int]]) -> None:
    """While readings stay equal, nothing but the time changes before `core.unchanged_until`: those ticks need no thought."""
    world = World(BASE, 1, checked=False)
    for reading, count in stretches:
        for _ in range(count):
            before = world.state
            done = world.tick(reading)
            steady = before.gpus and before.core == done.state.core._replace(
                unchanged_until=before.core.unchanged_until
            )
            if before.core.unchanged_until > world.now and steady:
                assert not done.effects
            world.settle()


def test_work_while_another_gpu_cannot_be_read_is_not_forgotten() -> None:
    """I1, unused: GPU 0 is busy while GPU 1 is unknown; evidence for GPU 1 does not make the machine unused."""
    policy = BASE._replace(arm_threshold=0.8, kill_duration=100.0, unused_after=900.0)
    world = World(policy, 2)
    world.run(300.0, QUIET, QUIET)
    world.run(500.0, Known(0.5), DARK)
    world.run(20.0, QUIET, DARK)
    world.tick(QUIET, Known(0.0, (), 1000.0))
    world.run(700.0, QUIET, QUIET)
    assert not world.stops()


def test_a_mean_is_not_bridged_by_evidence_of_parts() -> None:
    """I1: what the mean was while a part of it was unknown is unknown, whatever is known of each part."""
    policy = ARMED._replace(kill_action="command", aggregate="mean", window_rule="unbroken", grace=0.0)
    for beside, later in ((BUSY, 0.0), (Known(0.045), 0.08)):
        world = World(policy, 2)
        world.run(100.0, QUIET, QUIET)
        world.run(100.0, beside, DARK)
        world.tick(QUIET, DARK)
        world.tick(QUIET, Known(later, (), 1000.0))
        world.run(200.0, QUIET, QUIET)
        assert "warning" not in world.kinds()


def test_continuous_unknown_is_told_at_1_2_4_times_and_daily() -> None:
    """I6: 15 min, 30 min, 1 h, 2 h ... and then once a day, with the money so far."""
    world = World(BASE._replace(unknown_alarm=900.0, price_per_hour=4.0), 1, checked=False)
    world.run(60.0, BUSY)
    world.run(4 * 86400.0, DARK, dt=10.0)
    told = [at - 60.0 for at in world.times("unknown_alarm")]
    assert told[:7] == [900.0 * 2**n for n in range(7)]
    assert [late - early for early, late in pairwise(told[7:])] == [86400.0] * len(told[8:])
    first = next(e for _, e in world.effects if getattr(e, "kind", "") == "unknown_alarm")
    assert getattr(first, "facts", {})["money"] == 1.0


def test_scattered_unknown_that_delays_a_stop_is_told() -> None:
    """I6: every few minutes one unknown tick keeps the window from ever being clear: people hear of it."""
    world = World(BASE, 2)
    world.run(60.0, BUSY, QUIET)
    play(world, [(QUIET, DARK if number % 20 == 19 else QUIET) for number in range(100)])
    assert not world.stops()
    assert world.times("unknown_alarm")[0] <= 60.0 + BASE.kill_duration + BASE.unknown_alarm + 200.0
    world.run(400.0, QUIET, QUIET)
    assert "unknown_recovered" in world.kinds()
    assert world.stops()


def test_no_readable_gpu_is_unknown() -> None:
    """I6: an expected GPU that vanishes from the list, or a list that stays empty, is never idle and is told."""
    world = World(ARMED._replace(unknown_alarm=120.0), 2)
    world.run(50.0, QUIET, QUIET)
    world.keys, world.readings = world.keys[:1], (QUIET,)
    world.run(1000.0)
    empty = World(ARMED._replace(unknown_alarm=120.0), 0)
    empty.run(1000.0)
    for each in (world, empty):
        assert not each.stops()
        assert each.times("unknown_alarm")


def test_a_guard_that_begins_late_does_not_claim_to_have_waited() -> None:
    """I6: what happened before the guard began is neither unknown nor money."""
    world = World(BASE, 1, now=100000.0)
    world.state = world.state._replace(at=0.0)
    world.run(100.0, DARK)
    assert "unknown_alarm" not in world.kinds()


def test_a_step_does_not_cost_more_with_a_longer_window() -> None:
    """The memory of a track is bounded, however long the window and however restless the load."""
    for window in (60.0, 3600.0, 86400.0 * 7):
        world = World(Policy(kill_duration=window, mode="live"), 1, checked=False)
        for number in range(3000):
            world.tick(BUSY if number % 2 else QUIET)
        assert max(len(track.past) for track in world.state.tracks) <= 62


@pytest.mark.parametrize("arm", [30.0, None])
def test_an_armed_machine_is_not_delayed_as_unused(arm: float | None) -> None:
    """I6: with a shorter `unused_after` its own window still counts, and nothing is delayed before that is clear."""
    world = World(BASE._replace(arm_duration=arm, kill_duration=1000.0, unused_after=200.0, boot_grace=0.0), 1)
    world.run(60.0, BUSY)
    world.run(300.0, QUIET)
    world.tick(DARK)
    world.run(500.0, QUIET)
    assert world.state.core.alarms.unknown is None
    assert world.kinds() == []


def test_an_alarm_ends_with_the_stop_that_it_delayed() -> None:
    """I6: the stop came (here a person's, in a dry run): nothing is delayed any more, and the next tick says so."""
    world = World(BASE._replace(mode="dry-run"), 1)
    world.run(60.0, BUSY)
    world.run(500.0, DARK)
    assert "unknown_alarm" in world.kinds()
    world.ask_stop()
    world.run(30.0, QUIET)
    assert world.phase() == "DONE"
    assert "unknown_recovered" in world.kinds()


@pytest.mark.parametrize("obstacle", ["hold", "veto"])
def test_an_alarm_counts_only_time_in_which_unknown_stood_in_the_way(obstacle: str) -> None:
    """I6: a stop that a person or a reader delayed for hours, then one unreadable tick: no alarm, no invented money."""
    world = World(BASE._replace(arm_duration=None, price_per_hour=10.0), 1, checked=False)
    world.run(200.0, QUIET)
    if obstacle == "hold":
        world.hold(70000.0)
    else:
        world.vetoes = (Veto("jupyter", "a kernel is busy"),)
    world.run(60000.0, QUIET)
    world.tick(DARK)
    world.run(250.0, QUIET)
    assert "unknown_alarm" not in world.kinds()
    world.tick(DARK)
    world.run(100.0, QUIET)
    world.vetoes = ()
    world.release()
    world.run(160.0, QUIET)
    (told,) = (e.facts for _, e in world.effects if isinstance(e, Tell) and e.kind == "unknown_alarm")
    assert told["unknown_seconds"] == pytest.approx(BASE.unknown_alarm, abs=2 * BASE.interval)


def test_the_alarm_is_told_when_failed_ends_in_the_tick_of_a_hole() -> None:
    """The forecast must not sleep over an alarm that may begin in the very next tick."""
    world = World(BASE._replace(arm_duration=None, unused_after=None, boot_grace=0.0), 1)
    while world.phase() != "FAILED":
        world.tick(QUIET)
        world.settle(Go="failed")
    world.tick(QUIET, dt=3700.0)
    assert world.phase() == "WATCHING"
    world.run(200.0, QUIET)
    assert "unknown_alarm" in world.kinds()


def test_unused_is_not_called_delayed_by_a_burst_that_is_still_in_its_window() -> None:
    """While unarmed the long window of *unused* counts, and no reading was ever unknown: no alarm."""
    policy = BASE._replace(unused_after=7200.0, kill_duration=600.0, window_share=0.05, arm_threshold=0.99)
    for burst in (20.0, 30.0, 40.0):
        world = World(policy, 1, checked=False)
        world.run(3000.0, QUIET)
        for _ in range(4):
            world.run(burst, BUSY)
            world.run(1000.0, QUIET)
        world.run(7000.0, QUIET)
        assert "unknown_alarm" not in world.kinds(), burst
        assert world.stops()


def scattered(world: World, times: int, *, restless: Reading = DARK, quiet: int = 4) -> World:
    """One tick in five keeps the window from ever being clear."""
    for _ in range(times):
        world.run(quiet * 10.0, QUIET)
        world.tick(restless)
        world.settle()
    return world


def alarmed(policy: Policy = BASE) -> World:
    """A stop is delayed by scattered unknown, and people were told so."""
    world = World(policy._replace(arm_duration=None, unused_after=None, boot_grace=0.0), 1)
    scattered(world, 12)
    assert "unknown_alarm" in world.kinds()
    return world


@pytest.mark.parametrize("meanwhile", ["hold", "veto", "notice", "blip", "reload", "sleep"])
def test_recovered_is_told_of_what_is_over(meanwhile: str) -> None:
    """I6: a hold, a veto, a tolerated blip, a reload end no unknown: *recovered* comes once, when nothing is delayed any more."""
    world = alarmed(BASE._replace(window_share=0.1))
    match meanwhile:
        case "hold":
            world.hold(300.0)
        case "veto":
            world.vetoes = (Veto("jupyter", "a kernel is busy"),)
        case "notice":
            world.notice(100.0)
        case "blip":
            world.tick(BUSY)
        case "reload":
            world.reload(world.policy._replace(currency="EUR"))
        case "sleep":
            world.suspend(1000.0)
    scattered(world, 8)
    world.vetoes = ()
    scattered(world, 20)
    assert "unknown_recovered" not in world.kinds()
    world.run(BASE.kill_duration + 20.0, QUIET)
    assert world.kinds().count("unknown_recovered") == 1


def test_an_alarm_ends_when_a_person_ends_the_machine_although_every_gpu_stays_as_it_is() -> None:
    """I6: the tick after the stop says so, and needs no change to do it."""
    world = alarmed(BASE._replace(mode="dry-run"))
    world.run(20.0, QUIET)
    world.ask_stop()
    world.tick()
    assert (world.phase(), "unknown_recovered" in world.kinds()) == ("DONE", False)
    world.tick()
    assert world.kinds()[-1] == "unknown_recovered"


@pytest.mark.parametrize(("early", "recovered"), [(0.01, True), (0.0, False)])
def test_unknown_that_ends_when_a_stop_would_have_come_is_not_over(early: float, recovered: bool) -> None:
    """I6: a moment before that it delayed nothing, and is over; from then on it did, whoever holds the machine meanwhile."""
    world = World(BASE._replace(arm_duration=None, unused_after=None, boot_grace=0.0, unknown_alarm=100.0), 1)
    world.run(50.0, QUIET)
    world.run(240.0, DARK)
    assert set(world.kinds()) == {"unknown_alarm"}
    world.hold(1000.0)
    world.tick(QUIET, dt=10.0 - early)
    assert ("unknown_recovered" in world.kinds()) is recovered


def test_a_blip_right_after_a_hold_does_not_make_unknown_of_the_hold() -> None:
    """I6: what the hold delayed is neither time nor money of what could not be read."""
    world = alarmed(BASE._replace(window_share=0.1))
    alarm = world.state.core.alarms.unknown
    assert alarm is not None
    before = world.now - alarm.since
    world.hold(275.0)
    world.run(270.0, QUIET)
    world.tick(BUSY)
    world.run(40.0, QUIET)
    (over,) = [e.facts for _, e in world.effects if isinstance(e, Tell) and e.kind == "unknown_recovered"]
    assert float(str(over["unknown_seconds"])) <= before + 40.0


@pytest.mark.parametrize(("seconds", "over"), [(30.0, False), (40.0, True)])
def test_a_burst_that_the_window_tolerates_to_the_second_ends_no_alarm(seconds: float, over: bool) -> None:
    """I6: as long as the share of the window allows it is a blip; one look more is work, and unknown delays nothing any more."""
    world = alarmed(BASE._replace(window_share=0.1))
    world.run(seconds, BUSY)
    assert ("unknown_recovered" in world.kinds()) is over


@pytest.mark.parametrize("what", ["hold", "hold and reload", "sleep"])
def test_what_something_else_delayed_is_not_called_unknown(what: str) -> None:
    """I6: of a hold, or of a sleep, during which the window became clear, *recovered* is told, and not as time or money of unknown."""
    world = alarmed()
    until = world.now
    if what == "sleep":
        world.suspend(1000.0)
    else:
        world.hold(2000.0)
    if what == "hold and reload":
        world.tick(QUIET)
        world.reload(world.policy._replace(currency="EUR"))
    world.run(BASE.kill_duration + 20.0, QUIET)
    (over,) = [e.facts for _, e in world.effects if isinstance(e, Tell) and e.kind == "unknown_recovered"]
    assert over["unknown_seconds"] == pytest.approx(until - BASE.kill_duration, abs=25.0)


def test_recovered_is_not_owed_for_ever_where_nothing_could_be_delayed() -> None:
    """I6: no rule would ever stop this machine; after a reload the GPU can be read, and people hear so."""
    world = World(BASE._replace(unused_after=None), 1)
    world.run(200.0, DARK)
    world.reload(world.policy._replace(currency="EUR"))
    world.run(30.0, QUIET)
    assert world.kinds().count("unknown_recovered") == 1


@pytest.mark.parametrize("end", ["work", "stop", "clear", "readable"])
def test_recovered_is_told_when_unknown_delays_nothing_any_more(end: str) -> None:
    """I6: real work, the stop itself, a clear window; and unknown that ended before it delayed anything."""
    if end == "readable":
        world = World(BASE, 1)
        world.run(60.0, BUSY)
        world.run(200.0, DARK)
        world.tick(QUIET)
    else:
        world = alarmed(BASE._replace(mode="dry-run" if end == "stop" else "live"))
        before = world.now
        if end == "work":
            world.run(30.0, BUSY)
        elif end == "clear":
            world.run(BASE.kill_duration + 20.0, QUIET)
        else:
            world.ask_stop()
            world.run(30.0, QUIET)
        assert world.times("unknown_recovered")[0] > before
    assert world.kinds().count("unknown_recovered") == 1


def test_blips_that_the_window_tolerates_do_not_silence_the_alarm() -> None:
    """I6: scattered unknown delays the stop, whatever blips there are beside it: they do not begin the alarm anew."""
    world = World(BASE._replace(arm_duration=None, unused_after=None, boot_grace=0.0, window_share=0.2), 1)
    for _ in range(12):
        scattered(world, 1)
        world.tick(BUSY)
        world.settle()
    assert not world.stops()
    assert world.times("unknown_alarm")


@pytest.mark.parametrize("since", ["work", "reload"])
def test_a_blip_where_nothing_is_due_yet_does_not_go_on_with_an_alarm(since: str) -> None:
    """I6: every GPU can be read again, and no stop would have been due by now: a blip does not make unknown of that."""
    policy = BASE._replace(window_share=0.3, unknown_alarm=60.0, boot_grace=0.0)
    world = World(policy, 1)
    world.run(60.0, BUSY)
    world.run(100.0, DARK)
    if since == "reload":
        world.run(1000.0, DARK)
        world.reload(policy._replace(currency="EUR", unknown_alarm=10.0))
    told = len(world.times("unknown_alarm"))
    assert told
    world.run(80.0, BUSY)
    assert len(world.times("unknown_alarm")) == told


@pytest.mark.parametrize(
    ("before", "after", "at", "expected"),
    [
        (600.0, 60.0, 30.0, 60.0),  # not told yet, and still to come
        (600.0, 60.0, 200.0, 200.0),  # overdue under the new rule: with the next tick
        (120.0, 60.0, 200.0, 200.0),  # told at 120, so again at 180
        (60.0, 300.0, 30.0, 300.0),
        (60.0, 300.0, 80.0, 360.0),  # told at 60, so again after a pause of the new length
    ],
)
@pytest.mark.parametrize("how", ["reload", "restart"])
def test_a_reload_reaches_an_alarm_under_way(before: float, after: float, at: float, expected: float, how: str) -> None:
    """I6: *unknown_alarm* counts as it is now, shortened or lengthened, from the same beginning."""
    world = World(BASE._replace(unknown_alarm=before), 1)
    world.run(60.0, BUSY)
    world.run(at, DARK)
    told = len(world.times("unknown_alarm"))
    if how == "restart":
        world.restart(0.0)
    world.reload(world.policy._replace(unknown_alarm=after))
    world.run(600.0, DARK)
    assert world.times("unknown_alarm")[told] - 60.0 == pytest.approx(expected, abs=11.0)
