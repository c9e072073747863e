"""I7, I8 and liveness: restarts, boots, resumes and reloads; and that a healthy stop always comes."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from costguard.engine import Known, Policy, Reading
from costguard.engine.effects import Abandon, Check, Confirm, Go, Prepare, Tell
from costguard.engine.saved import alike, commitments, dump, load
from tests.engine.world import BASE, BUSY, DARK, EPOCH, QUIET, World, reloaded

POLICY = BASE._replace(unknown_alarm=1e9)
READINGS = st.sampled_from([QUIET, QUIET, BUSY, DARK, Known(0.2), Known(0.0, (), 60.0)])
STRETCHES = st.lists(st.tuples(READINGS, st.integers(1, 15)), max_size=6)


def honest(trace: list[Reading]) -> list[Reading]:
    """Evidence never reaches back over load."""
    busy = [isinstance(reading, Known) and reading.load > 0 for reading in trace]
    return [
        QUIET if isinstance(r, Known) and r.covers and any(busy[max(0, i - 6) : i]) else r for i, r in enumerate(trace)
    ]


def run(trace: list[Reading], restart: int | None, down: int) -> World:
    """One tick for each entry; the guard is dead for ``down`` of them from ``restart`` on."""
    world = World(POLICY, 1, checked=False)
    dead = 0.0
    for number, reading in enumerate(trace):
        if restart is not None and restart <= number < restart + down:
            dead += POLICY.interval
            continue
        if restart is not None and number == restart + down:
            world.restart(dead)
        world.tick(reading)
        world.settle()
    return world


@given(STRETCHES, st.integers(0, 130), st.integers(0, 12))
@example([(QUIET, 2), (DARK, 6), (Known(0.0, (), 60.0), 1)], 3, 11)  # evidence that does not reach across the hole
def test_a_restart_anywhere_never_makes_a_stop_come_sooner_and_never_loses_it(
    stretches: list[tuple[Reading, int]], where: int, down: int
) -> None:
    """I7: the same machine with a restart at any point stops at the same time or later, and does stop."""
    trace = [BUSY] * 6 + [reading for reading, count in stretches for _ in range(count)] + [QUIET] * 150
    trace = honest(trace)
    plain, other = run(trace, None, 0), run(trace, where, down)
    assert plain.stops()
    assert other.stops()
    assert other.stops()[0] >= plain.stops()[0] - 1e-6


def test_a_restart_in_every_phase_acts_at_most_once() -> None:
    """I4, I7: a crash at each single tick, with outcomes lost, never repeats a request, and the phase goes on."""
    for where in (1, 3, 5, 7, 20, *range(34, 48), 60):
        world = World(POLICY._replace(kill_action="command", boot_grace=0.0), 1)
        for number in range(100):
            if number == where:
                world.restart(3.0)
            world.tick(BUSY if number < 6 else QUIET)
            world.settle(Go="done", Confirm="done")
        acted = [effect for _, effect in world.effects if isinstance(effect, Go)]
        assert len(acted) == 1, where
        assert world.phase() == "DONE"


def killed_with_its_request_out(policy: Policy) -> World:
    """A guard that was killed before it heard what became of its request, and the next one."""
    world = World(policy, 1)
    world.run(60.0, BUSY)
    while world.phase() != "ACTING":
        world.tick(QUIET)
        if world.phase() != "ACTING":
            world.settle()
    world.restart(1.0)
    world.pending = {key: effect for key, effect in world.pending.items() if not isinstance(effect, Go)}
    return world


def test_a_crash_between_request_and_answer_asks_first() -> None:
    """I4: after a crash the outcome is unknown: *confirm* is asked; nobody can tell, so it is told and not repeated."""
    for word, phase, count in (("done", "DONE", 1), ("unknown", "DONE", 1), ("failed", "FAILED", 1)):
        world = killed_with_its_request_out(POLICY)
        assert world.phase() == "CONFIRMING"
        while world.phase() != phase and world.now < 5000.0:
            world.settle(Confirm=word)
            world.tick(QUIET)
        world.run(200.0, QUIET)
        assert world.phase() == phase
        assert len([1 for _, effect in world.effects if isinstance(effect, Go)]) == count


def test_a_refusal_that_a_killed_guard_did_not_hear_of_is_a_veto() -> None:
    """The record of the attempt says that it was refused: people hear that at once, nothing follows, and it counts as no stop."""
    world = killed_with_its_request_out(POLICY._replace(fallback=("shutdown",)))
    world.settle(Confirm="refused")
    assert (world.phase(), world.state.core.ending.done) == ("DONE", "cannot")
    assert world.state.core.ledger.stops == ()
    world.tick(QUIET)
    assert [effect.action for _, effect in world.effects if isinstance(effect, Go)] == ["stop"]
    assert (world.kinds().count("cannot"), world.kinds().count("outcome_unknown")) == (1, 0)


def test_armed_stays_armed_over_a_restart_and_not_over_a_boot() -> None:
    """I7: a restart keeps what was seen; a boot starts fresh."""
    world = World(POLICY._replace(unused_after=None), 1)
    world.run(60.0, BUSY)
    world.restart(5.0)
    world.run(20.0, QUIET)
    assert world.word() == "ARMED"
    world.boot()
    world.run(3000.0, QUIET)
    assert world.word() == "IDLE"
    assert not world.stops()


@pytest.mark.parametrize(
    ("down", "covers", "again"),
    [(4.0, 0.0, True), (4.0, 15.0, False), (45.0, 0.0, True), (45.0, 60.0, False), (150.0, 200.0, True)],
)
def test_a_warning_runs_again_in_full_after_a_hole(down: float, covers: float, again: bool) -> None:
    """I7: a restart whose gap was bridged and short goes on; any other begins a new warning."""
    world = World(POLICY._replace(grace=120.0), 1)
    world.run(60.0, BUSY)
    while world.phase() != "WARNING":
        world.tick(QUIET)
        world.settle()
    world.run(30.0, QUIET)
    world.restart(down)
    world.tick(Known(0.0, (), covers))
    world.run(1000.0, QUIET)
    assert (len(world.times("warning")) == 2) is again
    assert world.stops()[0] >= world.times("warning")[-1] + 120.0


@pytest.mark.parametrize("phase", ["WARNING", "ready", "ACTING", "CONFIRMING"])
def test_a_wake_closes_what_was_pending(phase: str) -> None:
    """I7: hibernated in any phase: on wake the incident is closed, told, and a full window and boot_grace are due."""
    world = World(POLICY._replace(unused_after=500.0), 1)
    world.run(60.0, BUSY)
    while world.phase() != ("WARNING" if phase == "ready" else phase):
        world.tick(QUIET)
        if world.phase() != phase or phase == "WARNING":
            world.settle()
    if phase == "ready":
        world.settle()
        world.run(20.0, QUIET)
    before = len(world.stops())
    incident = world.state.core.incident
    assert incident is not None
    world.suspend(50000.0)
    woke = world.now
    world.run(POLICY.interval, QUIET)
    assert world.phase() == "WATCHING"
    assert "came_back" in world.kinds()
    ended = [effect.id for _, effect in world.effects if isinstance(effect, Abandon)]
    assert ended == ([incident.attempt.worker] if phase == "ready" else []), "a worker that waits is sent away"
    world.run(1500.0, QUIET)
    assert world.stops()[before] >= woke + max(POLICY.boot_grace, 500.0)
    assert "unknown_alarm" not in world.kinds()


def test_time_asleep_is_neither_quiet_nor_unknown() -> None:
    """I1, I6: an unknown GPU while the machine slept is no alarm, and no reason to stop."""
    world = World(BASE._replace(unknown_stop_after=600.0, unused_after=900.0), 1)
    world.run(100.0, DARK)
    world.suspend(90000.0)
    world.run(300.0, DARK)
    assert not world.stops()
    assert not [at for at in world.times("unknown_alarm") if at < 90100.0 + BASE.unknown_alarm]
    world.tick(Known(0.0, (), 400.0))
    world.run(200.0, QUIET)
    assert not world.stops()


def test_short_naps_are_no_resume_however_many() -> None:
    """I7: a resume is a jump of the clocks from one tick to the next; naps of a second do not add up to one, and disarm nothing."""
    world = World(POLICY, 1)
    world.run(60.0, BUSY)
    world.run(40.0, QUIET)
    for _ in range(5):
        world.suspend(1.0)
        world.tick(QUIET)
        world.settle()
    assert world.word() == "ARMED"
    assert world.state.core.clocks.suspended == 5.0
    world.run(600.0, QUIET)
    assert world.stops()[0] == pytest.approx(60.0 + POLICY.kill_duration + POLICY.grace, abs=2 * POLICY.interval)


def test_messages_between_two_ticks_have_the_date_that_the_last_tick_read() -> None:
    """Also where no rule goes by dates: what the cloud announces after the clock was set is told for the right moment."""
    world = World(POLICY, 1)
    world.run(100.0, QUIET)
    world.wall += 7200.0
    world.tick(QUIET)
    world.notice()
    (told,) = (effect.facts for _, effect in world.effects if isinstance(effect, Tell) and effect.kind == "notice")
    assert told["wall"] == pytest.approx(world.wall)


def test_a_dead_guard_saw_no_quiet_host() -> None:
    """Unknown too long needs the host seen quiet all the time, and nobody looked while the guard was dead."""
    world = World(BASE._replace(unknown_stop_after=600.0, unknown_alarm=1e9, boot_grace=0.0, unused_after=None), 1)
    world.run(100.0, DARK)
    world.restart(5000.0)
    back = world.now
    world.run(2000.0, DARK)
    assert world.stops()
    assert world.times("warning")[0] >= back + 600.0


def test_a_reload_needs_a_full_window_and_warning() -> None:
    """I7: a reload cancels a running warning; the new window begins now, for *unused* too, and nobody calls it unknown."""
    for policy in (POLICY, POLICY._replace(arm_threshold=0.99)):
        world = World(policy._replace(unknown_alarm=60.0), 1)
        world.run(60.0, BUSY)
        while world.phase() != "WARNING":
            world.tick(QUIET)
            world.settle()
        world.reload(world.policy._replace(kill_duration=200.0, unused_after=500.0))
        changed = world.now
        assert world.phase() == "WATCHING"
        world.run(1000.0, QUIET)
        assert world.stops()[0] >= changed + 200.0
        assert "unknown_alarm" not in world.kinds()


def test_a_configuration_that_is_read_again_unchanged_changes_nothing() -> None:
    """The countdown goes on, and so does a window; only the plans are made again, for their reasons may lie outside."""
    world = World(POLICY, 1)
    world.run(60.0, BUSY)
    world.run(POLICY.kill_duration / 2, QUIET)
    world.reload(POLICY, "unchanged")
    while world.phase() != "WARNING":
        world.tick(QUIET)
        world.settle()
    warned = world.now
    assert warned <= 60.0 + POLICY.kill_duration + 2 * POLICY.interval
    checks = sum(isinstance(effect, Check) for _, effect in world.effects)
    world.reload(POLICY, "unchanged")
    assert world.phase() == "WARNING"
    world.run(POLICY.grace + 50.0, QUIET)
    assert "cancelled" not in world.kinds()
    assert len(world.stops()) == 1
    assert world.stops()[0] <= warned + POLICY.grace + 3 * POLICY.interval
    assert sum(isinstance(effect, Check) for _, effect in world.effects) > checks


def test_commitments_survive_a_boot_and_nothing_else() -> None:
    """I8: holds by date, the sum of holds, stops, the ledger and the open incident; they are strict JSON."""
    world = World(POLICY._replace(price_per_hour=3.6, unused_after=None), 1)
    world.run(1000.0, QUIET)
    world.hold(1800.0)
    world.boot(off=600.0)
    world.run(50.0, QUIET)
    (hold,) = world.state.core.people.holds
    assert hold.until - world.now == pytest.approx(1800.0 - 600.0 - 50.0)
    assert world.state.core.people.charged == 1800.0
    assert world.state.core.ledger.ran == pytest.approx(1000.0)
    assert world.state.core.ledger.spent == pytest.approx(1.0)
    world.boot(off=3000.0)
    world.run(50.0, QUIET)
    assert not world.state.core.people.holds


def test_an_open_incident_is_closed_by_the_next_boot() -> None:
    """I8: what was accepted when the machine went down is told as closed, with its proof; saved as strict JSON."""
    world = World(POLICY, 1)
    world.run(60.0, BUSY)
    while world.phase() != "ACTING":
        world.tick(QUIET)
        if world.phase() != "ACTING":
            world.settle()
    go = next(effect for effect in world.pending.values() if isinstance(effect, Go))
    world.answer(go.id, "accepted", proof="req-7")
    assert world.phase() == "CONFIRMING"
    world.boot(off=3600.0)
    world.run(20.0, QUIET)
    closed = [effect.facts for _, effect in world.effects if isinstance(effect, Tell) and effect.kind == "closed"]
    assert [facts["proof"] for facts in closed] == ["req-7"]
    dates = [closed[0][name] for name in ("stopped_wall", "started_wall", "off_seconds")]
    stopped, started, off = [float(str(date)) for date in dates]
    assert 3600.0 <= off <= 3700.0
    assert started - stopped == off
    assert closed[0]["saved"] is None, "an unknown price is unknown"
    assert world.phase() == "WATCHING"


@pytest.mark.parametrize(
    ("off", "limit", "hours"), [(3600.0, 86400.0, 1.0), (90 * 3600.0, 86400.0, 24.0), (90 * 3600.0, None, 90.0)]
)
def test_money_not_spent_is_counted_up_to_the_owners_limit(off: float, limit: float | None, hours: float) -> None:
    """A machine that is off for a month would not have run for a month."""
    world = World(POLICY._replace(price_per_hour=10.0, saving_limit=limit), 1)
    world.run(60.0, BUSY)
    while world.phase() != "CONFIRMING":
        world.tick(QUIET)
        world.settle()
    world.boot(off=off)
    world.run(20.0, QUIET)
    (closed,) = [effect.facts for _, effect in world.effects if isinstance(effect, Tell) and effect.kind == "closed"]
    assert closed["saved"] == pytest.approx(10.0 * hours, abs=1.0)


def test_unused_is_counted_over_boots_but_not_over_an_own_stop() -> None:
    """unused_after adds up over boots; a person who starts the machine after an own stop gets the whole time anew."""
    world = World(POLICY._replace(unused_after=2000.0), 1)
    world.run(1500.0, QUIET)
    world.boot()
    world.run(700.0, QUIET)
    assert len(world.stops()) == 1
    for word in ("accepted", "done"):
        world = World(POLICY._replace(unused_after=2000.0), 1)
        while not world.stops():
            world.tick(QUIET)
            if not world.stops():
                world.settle()
        world.settle(Go=word)
        world.boot()
        world.run(1900.0, QUIET)
        assert len(world.stops()) == 1, word


@pytest.mark.parametrize(("mode", "wishes", "kept"), [
    ("dry-run", {}, True), ("live", {"Prepare": "refuse"}, True), ("live", {"Go": "failed"}, True),
    ("live", {"Go": "unknown", "Confirm": "unknown"}, True), ("live", {"Go": "done"}, False), ("live", {"Go": "accepted"}, False),
])  # fmt: skip
def test_unused_time_is_kept_unless_the_machine_was_stopped(mode: str, wishes: dict[str, str], kept: bool) -> None:
    """What was only told, refused or failed stopped nothing; after an own stop, or while one is out, a person gets the time anew."""
    world = World(POLICY._replace(mode=mode, unused_after=600.0, kill_action="command"), 1)
    while (world.now < 2000.0 and world.phase() != "CONFIRMING") or ("Confirm" in wishes and world.phase() != "DONE"):
        world.tick(QUIET)
        world.settle(**wishes)
    assert commitments(world.state, world.now, world.wall).unused == (world.now if kept else 0.0)


def test_quiet_time_under_another_policy_is_not_saved_for_the_next_boot() -> None:
    """What is saved right after a reload is read under the new policy: the time counted under the old one is none of it."""
    world = World(POLICY._replace(arm_threshold=0.99), 1)
    world.run(500.0, QUIET)
    assert commitments(world.state, world.now, world.wall).unused == 500.0
    world.reload(world.policy._replace(kill_threshold=0.2))
    assert commitments(world.state, world.now, world.wall).unused == 0.0
    world.run(100.0, QUIET)
    assert commitments(world.state, world.now, world.wall).unused == pytest.approx(100.0)


@given(STRETCHES, st.booleans())
def test_a_saved_state_is_the_same_state(stretches: list[tuple[Reading, int]], hold: bool) -> None:
    """What was dumped loads as the same through strict JSON, up to what a tick computes afresh; and alike is what dumps alike."""
    world = World(BASE, 2)
    before = world.state
    world.devices()
    for reading, count in stretches:
        for _ in range(count):
            world.tick(reading, QUIET)
            world.settle()
        if hold:
            world.hold(100.0)
        core = world.state.core._replace(unchanged_until=-float("inf"), vetoes=(), fresh_start="")
        assert reloaded(world.state) == world.state._replace(core=core)
        assert dump(load(dump(world.state))) == dump(world.state)
        for state in (world.state, world.state._replace(core=world.state.core._replace(unchanged_until=1.0))):
            assert alike(state, before) is ({**dump(state), "at": 0.0} == {**dump(before), "at": 0.0})
        before = world.state
        world.tick()
        assert alike(world.state, before) is ({**dump(world.state), "at": 0.0} == {**dump(before), "at": 0.0})


@pytest.mark.parametrize("damage", ["core", "tracks", "gpus", "at"])
def test_a_damaged_state_is_refused(damage: str) -> None:
    """What is damaged raises the errors it names, so that the agent begins afresh instead of guessing."""
    world = World(BASE, 1)
    world.run(100.0, QUIET)
    saved = dump(world.state)
    for broken in ({**saved, damage: None}, {key: value for key, value in saved.items() if key != damage}):
        with pytest.raises((KeyError, TypeError, ValueError, AttributeError)):
            load(broken)


@given(
    STRETCHES,
    st.sampled_from([0.0, 60.0, 600.0]),
    st.sampled_from([0.0, 120.0, 1200.0]),
    st.sampled_from(["share", "unbroken"]),
)
def test_with_everything_healthy_and_quiet_a_stop_comes(
    stretches: list[tuple[Reading, int]], grace: float, boot_grace: float, rule: str
) -> None:
    """Liveness: after the last sign of work a stop comes within window, grace, boot_grace and some ticks."""
    world = World(BASE._replace(grace=grace, boot_grace=boot_grace, window_rule=rule), 2)
    world.run(50.0, BUSY, QUIET)
    for reading, count in stretches:
        world.run(count * 10.0, reading, QUIET)
    before = len(world.stops())
    world.run(BASE.kill_duration + grace + boot_grace + 100.0, QUIET, QUIET)
    assert world.stops()
    assert len(world.stops()) <= before + 1


@pytest.mark.parametrize("boots", [1, 2])
def test_a_budget_that_a_reload_brings_begins_then(boots: int) -> None:
    """What was spent before there was a budget belongs to none: nobody is warned for it, least of all against work."""
    hour = 3600.0
    policy = POLICY._replace(unused_after=None, price_per_hour=1.0)
    world = World(policy, 1, checked=False)
    world.run(9 * hour, QUIET)
    if boots == 2:
        world.boot(off=600.0)
        world.run(9 * hour, QUIET)
    world.reload(policy._replace(budget=5.0))
    world.run(4.9 * hour, QUIET)
    assert "warning" not in world.kinds()
    world.run(0.2 * hour, QUIET)
    assert "warning" in world.kinds()


def test_a_budget_counts_its_own_period_only() -> None:
    """What an earlier period cost is no reason to stop in this one; within a period reboots add up."""
    hour = 3600.0
    policy = POLICY._replace(unused_after=None, price_per_hour=1.0, budget=10.0, budget_period=24 * hour)
    world = World(policy, 1, checked=False)
    world.run(9 * hour, QUIET)
    world.boot(off=14.5 * hour)
    world.run(2 * hour, QUIET)
    assert "warning" not in world.kinds(), "1.5 h of it belong to the new period"
    world.boot(off=60.0)
    world.run(7 * hour, QUIET)
    assert "warning" not in world.kinds()
    world.run(2.5 * hour, QUIET)
    assert world.state.core.incident is not None
    assert world.state.core.incident.reason == "deadline"


def test_a_state_lost_within_the_boot_counts_its_time_once() -> None:
    """I8: stopped and started again without its state, the guard counts this boot once and tells of no closed incident."""
    world = World(POLICY._replace(price_per_hour=3.6, unused_after=None, lifetime=4000.0), 1)
    world.run(1000.0, QUIET)
    world.boot(off=60.0)
    world.run(500.0, QUIET)
    world.hold(900.0)
    world.lose_state()
    world.run(100.0, QUIET)
    assert world.state.core.ledger.ran == pytest.approx(1000.0)
    assert world.state.core.ledger.spent == pytest.approx(1.0)
    assert [hold.until - world.now for hold in world.state.core.people.holds] == [pytest.approx(900.0 - 105.0)]
    assert "closed" not in world.kinds()
    saved = commitments(world.state, world.now, world.wall, 3.6)
    assert saved.ran == pytest.approx(1000.0 + world.now)
    assert "warning" not in world.kinds(), "the deadline is not reached twice as fast"


@pytest.mark.parametrize("down", [0.5, 5.0, 600.0])
def test_no_number_of_a_guard_that_lost_its_state_comes_again(down: float) -> None:
    """I4: what is on its way under the old numbers is not taken for what the new guard asks for."""
    world = World(POLICY._replace(kill_action="command", unused_after=300.0), 1)
    world.run(400.0, QUIET)
    for _ in range(40):
        world.hold(1.0, "root", 0)
        world.tick(QUIET)
    count = len(world.effects)
    world.lose_state(down)
    world.run(400.0, QUIET)
    numbers = [
        int(effect.id[10:]) for _, effect in world.effects if isinstance(effect, Tell | Check | Prepare | Confirm)
    ]
    assert len(numbers) > 10
    assert len(set(numbers)) == len(numbers)
    assert count > 8


def test_quiet_time_does_not_outlive_a_state_lost_within_the_boot() -> None:
    """Nobody looked while the guard was down: the time without work begins anew."""
    world = World(POLICY._replace(unused_after=900.0), 1)
    world.run(800.0, QUIET)
    world.lose_state(down=600.0)
    back = world.now
    world.run(1500.0, QUIET)
    assert world.times("warning")[0] >= back + 900.0 - POLICY.interval


@pytest.mark.parametrize("phase", ["ACTING", "CONFIRMING"])
def test_what_was_released_is_asked_about_when_the_state_is_lost(phase: str) -> None:
    """I4: the commitments of this very boot hold an open attempt: it is confirmed, not called closed, not repeated."""
    world = World(POLICY._replace(kill_action="command"), 1)
    world.run(60.0, BUSY)
    while world.phase() != phase:
        world.tick(QUIET)
        if world.phase() != phase:
            world.settle()
    (go,) = (effect for _, effect in world.effects if isinstance(effect, Go))
    world.lose_state()
    world.pending = {}
    world.tick(QUIET)
    asked = [effect for effect in world.pending.values() if isinstance(effect, Confirm)]
    assert [effect.attempt for effect in asked] == [go.id]
    assert "closed" not in world.kinds()
    world.settle(Confirm="done")
    assert (world.phase(), world.state.core.ending.done) == ("DONE", "acted")


@pytest.mark.parametrize("how", ["reload", "resume"])
def test_a_gpu_that_was_last_seen_working_is_not_stopped_unseen(how: str) -> None:
    """A deadline heeds work that cannot be seen at the moment, also when everything begins anew meanwhile."""
    policy = POLICY._replace(unused_after=None, lifetime=700.0, boot_grace=0.0, kill_duration=3600.0)
    world = World(policy, 1)
    world.run(600.0, BUSY)
    world.run(50.0, DARK)
    if how == "reload":
        world.reload(policy)
    else:
        world.suspend(60.0)
    world.run(3000.0, DARK)
    assert "warning" not in world.kinds()
    assert "deadline_passed" in world.kinds()
    world.run(1000.0, DARK)
    assert "warning" in world.kinds(), "a whole window after work was last seen"


@pytest.mark.parametrize("how", ["reload", "reload twice", "resume"])
def test_a_gpu_that_was_never_seen_is_not_trusted_because_everything_begins_anew(how: str) -> None:
    """What nobody ever saw may work: a deadline waits for a whole window since the first look, whatever happens meanwhile."""
    policy = POLICY._replace(unused_after=None, lifetime=100.0, boot_grace=0.0, kill_duration=3600.0)
    world = World(policy, 1)
    world.run(200.0, DARK)
    if how == "resume":
        world.suspend(60.0)
    else:
        world.reload(policy)
    world.run(500.0, DARK)
    if how == "reload twice":
        world.reload(policy)
    world.run(2500.0, DARK)
    assert "warning" not in world.kinds()
    assert "deadline_passed" in world.kinds()
    world.run(1000.0, DARK)
    assert "warning" in world.kinds(), "a whole window after the first look"


@pytest.mark.parametrize("pause", [280.0, 290.0])
def test_a_pause_that_is_over_when_everything_begins_anew_is_not_waited_for_again(pause: float) -> None:
    """Five quiet minutes are the end of the work; a second less is none, and all five are due again."""
    policy = POLICY._replace(unused_after=None, lifetime=9000.0, boot_grace=0.0, kill_duration=3600.0)
    world = World(policy, 1)
    world.run(500.0, BUSY)
    world.run(pause, QUIET)
    world.reload(policy._replace(lifetime=100.0))
    changed = world.now
    world.run(250.0, QUIET)
    assert ("warning" in world.kinds()) is (pause == 290.0)
    world.run(80.0, QUIET)
    assert world.times("warning")[0] == changed + (10.0 if pause == 290.0 else 310.0)


@pytest.mark.parametrize(("how", "pause"), [("reload", 0.0), ("reload", 100.0), ("resume", 0.0)])
def test_a_deadline_does_not_take_a_pause_for_the_end_because_everything_begins_anew(how: str, pause: float) -> None:
    """Work that was seen a moment ago was seen: five quiet minutes are due all the same."""
    policy = POLICY._replace(unused_after=None, lifetime=100.0, boot_grace=0.0, kill_duration=3600.0)
    world = World(policy, 1)
    world.run(500.0, BUSY)
    if pause:
        world.run(pause, QUIET)
    if how == "reload":
        world.reload(policy)
    else:
        world.suspend(60.0)
    changed = world.now
    world.run(250.0, QUIET)
    assert "warning" not in world.kinds()
    world.run(100.0, QUIET)
    (warned,) = world.times("warning")
    assert warned <= changed + 320.0


def test_a_deadline_waits_for_no_pause_where_no_work_was_seen() -> None:
    """A reload of an idle machine delays nothing."""
    policy = POLICY._replace(unused_after=None, lifetime=100.0, boot_grace=0.0, kill_duration=3600.0)
    world = World(policy, 1)
    world.run(50.0, QUIET)
    world.reload(policy)
    world.run(100.0, QUIET)
    assert "warning" in world.kinds()


@pytest.mark.parametrize("how", ["reload", "restart"])
def test_a_deadline_does_not_trust_what_was_quiet_under_another_policy(how: str) -> None:
    """A load that the old threshold did not call work is work for the new one: a GPU that is lost since then may still do it."""
    policy = POLICY._replace(unused_after=None, kill_threshold=0.5, stop_below_load=True, kill_duration=600.0)
    world = World(policy, 1)
    world.run(200.0, Known(0.3))
    world.run(20.0, DARK)
    lost, changed = world.now, policy._replace(kill_threshold=0.2, lifetime=100.0)
    if how == "restart":  # the guard is started again, and finds another configuration
        world.restart(1.0)
    world.reload(changed)
    world.run(540.0, DARK)
    assert "warning" not in world.kinds()
    world.run(100.0, DARK)
    (warned,) = world.times("warning")
    assert warned <= lost + 620.0, "a whole window after the last look it is waited for no longer"


@pytest.mark.parametrize("covers", [0.0, 30.0, 500.0])
def test_what_is_kept_of_an_unseen_gpu_is_no_quiet_time(covers: float) -> None:
    """I7: after a reload the window begins anew, whatever the evidence of the first reading reaches back over."""
    world = World(POLICY._replace(unused_after=None), 1)
    world.run(200.0, BUSY)
    world.run(100.0, DARK)
    world.reload(world.policy)
    changed = world.now
    world.run(30.0, DARK)
    world.tick(Known(0.0, (), covers))
    world.run(1000.0, QUIET)
    assert world.times("warning")[0] >= changed + POLICY.kill_duration - POLICY.interval


@pytest.mark.parametrize("limit", ["lifetime", "budget"])
def test_time_asleep_is_neither_running_nor_billed(limit: str) -> None:
    """A suspended machine costs nothing: only time awake counts for lifetime and budget, over boots too."""
    hour = 3600.0
    policy = POLICY._replace(unused_after=None, price_per_hour=1.0)
    policy = policy._replace(lifetime=3 * hour) if limit == "lifetime" else policy._replace(budget=3.0)
    world = World(policy, 1, checked=False)
    world.run(hour, QUIET)
    world.suspend(10 * hour)
    world.run(hour, QUIET)
    assert "warning" not in world.kinds()
    world.boot(off=600.0)
    assert world.state.core.ledger.ran == pytest.approx(2 * hour, abs=30.0)
    assert world.state.core.ledger.spent == pytest.approx(2.0, abs=0.02)
    world.run(hour - 100.0, QUIET)
    assert "warning" not in world.kinds()
    world.run(200.0, QUIET)
    assert "warning" in world.kinds()


def test_a_budget_period_that_ends_asleep_begins_with_the_wake() -> None:
    """Only what the machine was awake for since the period began belongs to it."""
    hour = 3600.0
    policy = POLICY._replace(unused_after=None, price_per_hour=1.0, budget=3.0, budget_period=24 * hour)
    world = World(policy, 1, checked=False)
    world.run(hour, QUIET)
    world.suspend(40 * hour)
    world.run(100.0, QUIET)
    assert world.state.core.ledger.spent == pytest.approx(-1.0, abs=0.02)
    world.run(3 * hour - 200.0, QUIET)
    assert "warning" not in world.kinds()
    world.run(300.0, QUIET)
    assert "warning" in world.kinds()


def test_the_end_of_a_budget_period_is_not_slept_over() -> None:
    """A period that ends in a quiet stretch ends then, so that the next one does not begin with its money."""
    policy = POLICY._replace(unused_after=None, price_per_hour=1.0, budget=1.0, budget_period=3000.0)
    world = World(policy, 1)
    world.run(3100.0, QUIET)
    assert world.state.core.ledger.spent_since >= EPOCH + 3000.0
    world.run(2000.0, QUIET)
    assert "warning" not in world.kinds()


def test_money_of_a_period_that_is_over_is_no_reason_while_the_date_is_in_doubt() -> None:
    """The new period cannot begin on a date that nobody trusts, and the old one is over: nobody is warned."""
    hour = 3600.0
    policy = POLICY._replace(unused_after=None, price_per_hour=1.0, budget=2.0, budget_period=24 * hour)
    world = World(policy, 1, checked=False)
    world.run(1.9 * hour, QUIET)
    world.boot(off=23 * hour)
    while world.now < hour:
        world.tick(QUIET, synced=False)
        world.settle()
    assert "warning" not in world.kinds()
    world.run(hour / 2, QUIET)
    assert "warning" not in world.kinds()
    assert world.state.core.ledger.spent < 0.1


def tick_until(world: World, now: float, *, synced: bool | None) -> None:
    """Quiet ticks of a healthy shell, with a date of this trust."""
    while world.now < now:
        world.tick(QUIET, synced=synced)
        world.settle()


def test_a_hold_granted_on_a_wrong_date_outlives_the_boot_that_mends_the_date() -> None:
    """I8: neither end of the time off is known where one of the dates is wrong, so no hold is shortened by it."""
    world = World(POLICY, 1)
    world.wall -= 400 * 86400.0
    tick_until(world, 100.0, synced=False)
    world.hold(1800.0)
    tick_until(world, 200.0, synced=False)
    world.boot(off=400 * 86400.0)
    world.tick(QUIET, synced=True)
    (hold,) = world.state.core.people.holds
    assert hold.until - world.now == pytest.approx(1700.0, abs=20.0)


def test_a_hold_goes_by_the_date_as_it_was_when_the_machine_went_down() -> None:
    """I8: the clock was set within the boot, after the hold was granted: its end moved with it."""
    world = World(POLICY, 1)
    world.wall -= 400 * 86400.0
    tick_until(world, 100.0, synced=None)
    world.hold(1800.0)
    world.wall += 400 * 86400.0
    tick_until(world, 200.0, synced=True)
    world.boot(off=600.0)
    world.tick(QUIET, synced=True)
    (hold,) = world.state.core.people.holds
    assert hold.until - world.now == pytest.approx(1100.0, abs=20.0)


def test_a_clock_that_was_set_back_while_the_machine_was_off_lengthens_no_hold() -> None:
    """I8: a hold never has more left than it had when the machine went down."""
    world = World(POLICY, 1)
    tick_until(world, 100.0, synced=True)
    world.hold(1800.0)
    world.boot(off=-7200.0)
    world.tick(QUIET, synced=True)
    (hold,) = world.state.core.people.holds
    assert hold.until - world.now <= 1800.0


def test_each_hold_that_ended_while_the_machine_was_off_is_told() -> None:
    """I8: also one that ends with the very first look, while another one goes on."""
    world = World(POLICY, 1)
    tick_until(world, 100.0, synced=True)
    world.hold(600.0, "ann")
    world.hold(5000.0, "bob")
    world.boot(off=590.0)
    world.tick(QUIET, synced=True)
    ended = [
        effect.facts["owner"] for _, effect in world.effects if isinstance(effect, Tell) and effect.kind == "hold_ended"
    ]
    assert (ended, [hold.owner for hold in world.state.core.people.holds]) == (["ann"], ["bob"])


def test_a_budget_period_that_ended_while_the_date_was_in_doubt_began_then() -> None:
    """What the machine cost since then counts, as soon as the date is sure; what it cost before does not."""
    world = World(POLICY._replace(budget=1e6, price_per_hour=9.0, budget_period=600.0, unused_after=None), 1)
    tick_until(world, 500.0, synced=True)
    tick_until(world, 800.0, synced=False)
    world.tick(QUIET, synced=True)
    core = world.state.core
    assert core.ledger.spent_since == EPOCH + 610.0
    assert core.ledger.spent == pytest.approx(-610.0 / 3600.0 * 9.0)


@pytest.mark.parametrize(("before", "after", "off"), [(True, False, 600.0), (False, True, 600.0), (True, True, -600.0)])
def test_a_time_off_between_dates_of_which_one_is_wrong_is_unknown(before: bool, after: bool, off: float) -> None:
    """Unknown is never a number: neither hours off nor money are told of it."""
    world = World(POLICY._replace(price_per_hour=10.0), 1)
    world.run(60.0, BUSY)
    while world.phase() != "CONFIRMING":
        world.tick(QUIET, synced=before)
        world.settle()
    world.boot(off=off)
    world.tick(QUIET, synced=after)
    (closed,) = [effect.facts for _, effect in world.effects if isinstance(effect, Tell) and effect.kind == "closed"]
    assert (closed["off_seconds"], closed["saved"]) == (None, None)


@pytest.mark.parametrize("synced", [True, None, False])
def test_a_hold_is_dropped_at_boot_only_on_a_sure_date_and_aloud(synced: bool | None) -> None:
    """I8: a clock that is wrong after a boot ends no hold; what did end while the machine was off is told."""
    world = World(POLICY, 1)
    world.run(100.0, QUIET)
    world.hold(1800.0)
    world.boot(off=400 * 86400.0)
    world.tick(QUIET, synced=synced)
    if synced:
        assert not world.state.core.people.holds
        assert "hold_ended" in world.kinds()
    else:
        (hold,) = world.state.core.people.holds
        assert hold.until - world.now == pytest.approx(1800.0, abs=20.0)
        assert "hold_ended" not in world.kinds()


def test_a_wrong_date_does_not_make_earlier_stops_old() -> None:
    """I9: with a date that is known to be wrong, two stops without work in between are recent."""
    world = World(BASE._replace(unused_after=600.0, unknown_alarm=1e9), 1)
    for _ in range(2):
        world.run(700.0, QUIET)
        world.boot(off=400 * 86400.0)
    tick_until(world, 2000.0, synced=False)
    assert len(world.stops()) == 2
    assert "cannot" in world.kinds()


def stopped_twice(policy: Policy, ago: float) -> World:
    """Two own stops so long ago, by a date that is right; nothing has worked since."""
    world = World(policy, 1)
    dates = (world.wall - ago - 60.0, world.wall - ago)
    world.state = world.state._replace(
        core=world.state.core._replace(ledger=world.state.core.ledger._replace(stops=dates))
    )
    world.monitor.stops = [(date, "") for date in dates]
    return world


def test_a_fall_back_is_no_way_round_the_third_stop_on_a_wrong_date() -> None:
    """I9: the outcome that leads to the fall-back comes without a date; that the last one read was wrong is known."""
    policy = POLICY._replace(kill_action="command", fallback=("shutdown",), unused_after=600.0)
    world = stopped_twice(policy, 3600.0)
    world.wall += 400 * 86400.0
    while world.now < 2000.0 and world.phase() != "DONE":
        world.tick(QUIET, synced=False)
        world.settle(Go="failed")
    assert [effect.action for _, effect in world.effects if isinstance(effect, Go)] == ["command"]
    assert "cannot" in world.kinds()
    assert "next_action" not in world.kinds(), "people are told of nothing that does not come"


def test_a_date_that_turns_out_wrong_during_the_countdown_releases_no_third_stop() -> None:
    """I9: people were warned while nobody doubted the date; before the request it is known to be wrong."""
    world = stopped_twice(POLICY._replace(unused_after=600.0), 3600.0)
    world.wall += 400 * 86400.0
    while world.phase() != "WARNING":
        world.tick(QUIET, synced=None)
        world.settle()
    tick_until(world, world.now + 300.0, synced=False)
    assert not world.stops()
    assert "cannot" in world.kinds()


def test_a_plan_that_passes_on_a_wrong_date_ends_no_limit_on_repeated_stops() -> None:
    """I9: the outcome of a check comes without a date too; a machine that was stopped twice stays as it is."""
    world = stopped_twice(POLICY._replace(unused_after=600.0), 3600.0)
    world.wall += 400 * 86400.0
    world.tick(QUIET, synced=False)
    world.settle(Check="refuse")
    tick_until(world, 1000.0, synced=False)
    assert (world.phase(), world.state.core.ending.done) == ("DONE", "cannot")
    world.state = world.state._replace(
        core=world.state.core._replace(
            unchanged_until=world.now, plans=world.state.core.plans._replace(check_at=world.now)
        )
    )
    before = world.state.core.incident
    tick_until(world, 1100.0, synced=False)
    assert world.state.core.incident == before


@pytest.mark.parametrize("years", [-5, 5])
def test_a_stop_on_a_wrong_date_is_recent_until_a_date_is_sure(years: int) -> None:
    """I9: stopped by a clock that was known to be wrong; a day later by one that is right the stop still counts, and then no more."""
    world = World(BASE._replace(unused_after=600.0, unknown_alarm=1e9), 1)
    for _ in range(2):
        world.wall += years * 365 * 86400.0
        while world.phase() not in {"ACTING", "CONFIRMING"}:
            world.tick(QUIET, synced=False)
            world.settle()
        world.wall -= years * 365 * 86400.0
        world.monitor.stops = [*world.monitor.stops[:-1], (world.wall, world.monitor.stops[-1][1])]
        world.boot(off=60.0)
    for synced in (None, True):
        world.boot(off=60.0)
        tick_until(world, 1500.0, synced=synced)
        assert len(world.stops()) == 2
        assert "cannot" in world.kinds()
    world.boot(off=2 * 86400.0)
    tick_until(world, 1500.0, synced=True)
    assert len(world.stops()) == 3
