"""I2, I3, I4, I9: warning, attempt, retry and what is never repeated."""

from itertools import pairwise

import pytest

from costguard.engine import Known, Notice, Observation, Outcome, Policy, Reading, Tick, Veto, initial, step
from costguard.engine.attempt import RUNS_ON_SECONDS
from costguard.engine.deadline import WORK_OVER_SECONDS
from costguard.engine.effects import Abandon, Check, Confirm, Go, Prepare, Save, Tell
from costguard.engine.obstacles import due_at
from costguard.engine.plans import third_stop
from costguard.engine.rules import rules_of
from costguard.engine.turn import Turn
from tests.engine.world import BASE, BUSY, DARK, EPOCH, QUIET, World

IDLE = BASE._replace(arm_duration=None, unused_after=None, boot_grace=0.0)
"""Warns after 300 quiet seconds, acts 60 s later."""


def gos(world: World) -> list[str]:
    return [effect.action for _, effect in world.effects if isinstance(effect, Go)]


def until(world: World, phase: str, seconds: float = 2000.0, **wishes: str) -> World:
    """Quiet ticks until this phase, answering as wished."""
    end = world.now + seconds
    while world.phase() != phase and world.now < end:
        world.tick(QUIET)
        if world.phase() != phase:
            world.settle(**wishes)
    assert world.phase() == phase
    return world


def test_no_action_before_the_warning_is_delivered_and_grace_is_over() -> None:
    """I2: the countdown begins when somebody got the warning, not when it was sent."""
    world = until(World(IDLE, 1), "WARNING")
    world.run(30.0, answer=False)
    warning = next(e.id for e in world.pending.values() if isinstance(e, Tell) and e.kind == "warning")
    world.answer(warning, "delivered")
    delivered = world.now
    until(world, "ACTING")
    assert delivered + 60.0 <= world.stops()[0] <= delivered + 80.0


def test_a_warning_that_nobody_gets_is_repeated_then_exhausted() -> None:
    """I2: after the policy's attempts the countdown begins although nobody was reached."""
    world = until(World(IDLE._replace(warn_attempts=3), 1), "ACTING", Tell="failed")
    assert len(world.times("warning")) == 3
    assert world.stops()[0] >= world.times("warning")[-1] + 60.0


@pytest.mark.parametrize(
    ("grace", "wait", "most"), [(60.0, 1800.0, 1860.0), (2400.0, 1800.0, 4800.0), (60.0, 0.0, 60.0), (0.0, 1800.0, 0.0)]
)
def test_a_warning_that_reached_nobody_gives_people_longer(grace: float, wait: float, most: float) -> None:
    """Where somebody should have got it: once more `grace`, at least half an hour; and it is tried again meanwhile."""
    world = until(World(IDLE._replace(grace=grace, unreached_wait=wait), 1), "ACTING", 9000.0, Tell="failed")
    begun = world.times("warning")[-1] if grace else world.times("warning")[0]
    assert world.stops()[0] - begun == pytest.approx(most, abs=21.0)
    assert bool(world.times("countdown")) is (most >= 1200.0)
    heard = until(World(IDLE._replace(grace=grace, unreached_wait=wait), 1), "ACTING", 9000.0)
    assert heard.stops()[0] - heard.times("warning")[0] == pytest.approx(grace, abs=21.0)


def test_a_countdown_that_nobody_heard_of_is_told_until_somebody_does() -> None:
    """With the moment as it is then; it comes no sooner than whoever hears of it late was told, nor within `grace` of that."""
    world = until(World(IDLE._replace(grace=600.0, unreached_wait=1800.0), 1), "WARNING")
    begun = world.now
    while world.now < begun + 900.0:
        world.tick(QUIET)
        world.settle(Tell="failed")
    told = world.times("countdown")
    assert len(told) >= 5, "as long as nobody hears of it"
    assert all(later - earlier == pytest.approx(120.0, abs=11.0) for earlier, later in pairwise(told))
    world.run(130.0, QUIET)
    heard = world.now
    said = [float(str(e.facts["due_wall"])) for _, e in world.effects if isinstance(e, Tell) and e.kind == "countdown"][
        -1
    ]
    incident = world.state.core.incident
    assert incident is not None
    assert (incident.announcement.exhausted, bool(incident.announcement.reached)) == (False, True)
    until(world, "ACTING", 4000.0)
    assert world.stops()[0] - heard >= 600.0 - 131.0
    assert said - EPOCH == pytest.approx(world.stops()[0], abs=21.0)


def test_who_hears_of_a_countdown_at_its_end_has_grace_from_then_on() -> None:
    """Less time is no warning."""
    world = until(World(IDLE._replace(grace=600.0, unreached_wait=1800.0), 1), "WARNING")
    begun = world.now
    while world.now < begun + 2100.0:
        world.tick(QUIET)
        world.settle(Tell="failed")
    world.run(130.0, QUIET)
    heard = world.now
    until(world, "ACTING", 4000.0)
    assert 600.0 - 131.0 <= world.stops()[0] - heard <= 620.0


def sentence(world: World) -> str:
    """What people read now."""
    assert world.last is not None
    return str(world.last.sentence)


def test_what_is_said_of_a_warning_is_what_its_delivery_said() -> None:
    """Whom it reached, how far it has come, or that nobody got it and what follows; a new warning begins at nothing."""
    world = until(World(IDLE._replace(warn_attempts=3), 1), "WARNING")
    assert "the warning is being sent" in sentence(world)
    for tried in (1, 2):
        world.settle(Tell="failed")
        world.tick(QUIET)
        assert f"the warning has reached nobody yet (try {tried} of 3)" in sentence(world)
        while not any(isinstance(effect, Tell) for effect in world.pending.values()):
            world.settle()
            world.tick(QUIET)
    world.settle(Tell="failed")
    incident = world.state.core.incident
    assert incident is not None
    assert (incident.announcement.exhausted, incident.announcement.reached, incident.announcement.attempts) == (
        True,
        "",
        3,
    )
    assert "the warning reached nobody in 3 tries; the countdown goes on anyway" in sentence(world)
    world.tick(BUSY)
    world = until(world, "WARNING")
    warning = next(e.id for e in world.pending.values() if isinstance(e, Tell) and e.kind == "warning")
    world.answer(warning, "delivered", proof="wall: 2 terminals")
    incident = world.state.core.incident
    assert incident is not None
    assert (incident.announcement.exhausted, incident.announcement.reached) == (False, "wall: 2 terminals")
    assert "nobody" not in sentence(world)


def test_a_warning_that_is_begun_anew_has_reached_nobody_yet() -> None:
    """Attempts fail for so long that people are warned again: whom the first warning reached is not said of that one."""
    world = until(World(IDLE, 1), "WARNING")
    warning = next(e.id for e in world.pending.values() if isinstance(e, Tell) and e.kind == "warning")
    world.answer(warning, "delivered", proof="wall: 2 terminals")
    for _ in range(200):
        if len(world.times("warning")) > 1:
            break
        world.settle(Go="failed", Tell="never")
        world.tick(QUIET)
    incident = world.state.core.incident
    assert incident is not None
    assert (len(world.times("warning")), incident.warned, incident.announcement.reached) == (2, None, "")


@pytest.mark.parametrize("fate", ["delivered", "failed"])
def test_a_warning_for_which_nothing_waits_is_heard_of_too(fate: str) -> None:
    """With no grace the action does not wait for it; whom it reached is known all the same."""
    world = until(World(IDLE._replace(grace=0.0), 1), "WARNING")
    warning = next(e.id for e in world.pending.values() if isinstance(e, Tell) and e.kind == "warning")
    world.answer(warning, fate, proof="wall: 1 terminal" if fate == "delivered" else "")
    incident = world.state.core.incident
    assert incident is not None
    assert (incident.announcement.exhausted, incident.announcement.reached) == (
        fate == "failed",
        "wall: 1 terminal" if fate == "delivered" else "",
    )


@pytest.mark.parametrize("seen", [BUSY, DARK, Known(0.0, ("power",)), Known(float("nan"))])
def test_the_last_reading_decides(seen: object) -> None:
    """I3: worker ready, countdown over, and in this very tick a GPU works or cannot be read: nothing is released."""
    world = until(World(IDLE._replace(window_share=0.5), 1), "WARNING")
    while world.now < 300.0 + 60.0:
        world.settle()
        world.tick(QUIET)
    assert world.phase() == "WARNING"
    world.tick(seen)  # type: ignore[arg-type]  # one of the readings above
    assert not gos(world)


def test_nothing_is_released_before_its_worker_waits() -> None:
    """I3: the countdown is over, and the worker is still starting: nothing is released until it is ready."""
    world = until(World(IDLE, 1), "WARNING")
    for _ in range(8):
        world.settle(Prepare="never")
        world.tick(QUIET)
    assert world.now > 300.0 + 60.0
    assert not gos(world)
    until(world, "ACTING")


def test_a_veto_cancels_and_the_worker_is_sent_away() -> None:
    """I3: a reader's veto in the last tick cancels, and the waiting worker is abandoned."""
    world = until(World(IDLE, 1), "WARNING")
    world.settle()
    world.run(40.0)
    world.vetoes = (Veto("terminals", "ann typed"),)
    world.run(60.0)
    assert world.phase() == "WATCHING"
    assert any(isinstance(effect, Abandon) for _, effect in world.effects)
    assert not gos(world)


@pytest.mark.parametrize("link", ["command", "stop"])
def test_one_incident_acts_once(link: str) -> None:
    """I4: after *unknown* it asks what happened, and when nobody can tell it is never repeated, and told."""
    world = until(World(IDLE._replace(kill_action=link, fallback=("shutdown",)), 1), "ACTING")
    for _ in range(3000):
        world.settle(Go="unknown", Confirm="unknown")
        world.tick(QUIET)
    assert gos(world) == [link]
    assert "outcome_unknown" in world.kinds()
    assert "reminder" not in world.kinds()
    world.run(86400.0, QUIET, dt=14.0)
    assert "reminder" in world.kinds()


def test_a_technical_failure_goes_down_the_list() -> None:
    """The next link follows a technical failure, decided again on fresh readings; a refusal ends it."""
    world = until(World(IDLE._replace(fallback=("shutdown",)), 1), "FAILED", Go="failed")
    assert gos(world) == ["stop"] * 4 + ["shutdown"], "a request of which nothing was accepted is tried four times"
    assert world.kinds().count("acting") == 2
    world = until(World(IDLE._replace(fallback=("shutdown",)), 1), "DONE", Go="refused")
    assert gos(world) == ["stop"]


@pytest.mark.parametrize("asked", ["before it", "as it was carried out"])
def test_a_refused_fall_back_does_not_give_up_what_failed_technically(asked: str) -> None:
    """A cloud that was away for an hour stops the machine afterwards, though the next action of the list is no way to end this bill."""
    world = World(IDLE._replace(fallback=("shutdown",)), 1)
    for _ in range(1500):
        for effect in list(world.pending.values()):
            if isinstance(effect, Prepare | Go | Check) and effect.action == "shutdown":
                answers = {
                    Prepare: "ready" if asked == "as it was carried out" else "refuse",
                    Go: "refused",
                    Check: "refuse",
                }
                world.answer(effect.id, answers[type(effect)])
        if world.phase() == "FAILED":
            break
        world.settle(Go="failed")
        world.tick(QUIET)
    told = next(e for _, e in reversed(world.effects) if isinstance(e, Tell))
    assert (told.kind, told.level, dict(told.facts)["action"]) == ("failed", "critical", "stop")
    assert "shutdown, was refused: " in str(dict(told.facts)["error"])
    before = len(gos(world))
    world.run(2 * 3600.0, QUIET)
    assert gos(world)[before] == "stop", "the cloud can be reached again"


def test_a_refused_fall_back_is_the_last_word_where_its_plan_pointed_there() -> None:
    """The first action did not fail: its plan said that another one ends this bill."""
    world = World(IDLE._replace(fallback=("shutdown",)), 1)
    world.tick(QUIET)
    world.answer(next(iter(world.pending)), "another")
    assert [until(world, "DONE", Prepare="refuse").kinds().count(kind) for kind in ("cannot", "failed")] == [1, 0]


@pytest.mark.parametrize("grace", [0.0, 60.0, 600.0])
def test_workers_that_cannot_start_are_retried_then_the_list_goes_on(grace: float) -> None:
    """A link that cannot be prepared is tried four times, then the next one is, then it has FAILED, aloud."""
    world = until(World(IDLE._replace(grace=grace, fallback=("shutdown",)), 1), "FAILED", 4000.0, Prepare="failed")
    tried = [effect.action for _, effect in world.effects if isinstance(effect, Prepare)]
    assert tried == ["stop"] * 4 + ["shutdown"] * 4
    assert "failed" in world.kinds()


def test_failed_is_tried_again_with_a_new_warning_ever_more_rarely() -> None:
    """FAILED retries after 1 h, 2 h, 4 h ... at most daily, each with a warning; never silent, never lost."""
    world = World(IDLE, 1, checked=False)
    end = 4 * 86400.0
    while world.now < end:
        world.tick(QUIET)
        world.settle(Go="failed")
    failed = world.times("failed")
    waits = [round((late - early) / 3600.0) for early, late in pairwise(failed)]
    assert waits[:4] == [1, 2, 4, 8]
    assert max(waits) <= 25
    assert len(gos(world)) == 4 * len(failed)
    assert len(world.times("acting")) == len(failed)
    assert not set(world.times("failed")) & set(world.times("warning"))
    assert "cannot" not in world.kinds(), "what failed is no stop"


def test_what_failed_is_tried_again_when_that_was_said() -> None:
    """A guard that stood still hears late that it failed: the pause, and every date that is told, count from then on."""
    world = until(World(IDLE, 1), "ACTING")
    (request,) = [effect.id for effect in world.pending.values() if isinstance(effect, Go)]
    world.answer(request, "unknown")
    (question,) = [effect.id for effect in world.pending.values() if isinstance(effect, Confirm)]
    world.now, world.wall = world.now + 700.0, world.wall + 700.0
    world.answer(question, "failed", after=0.0)
    told, heard = next(e for _, e in world.effects if isinstance(e, Tell) and e.kind == "failed"), world.now
    assert told.facts["retry_in_seconds"] == pytest.approx(3600.0)
    said = sentence(world).partition("next try")[2]
    world.tick(QUIET)
    assert sentence(world).partition("next try")[2] == said, "one date, in a tick and between two"
    until(world, "WARNING", 4000.0)
    assert 0.0 <= world.now - heard - 3600.0 <= 10.0


def test_a_retry_that_is_due_does_not_outlive_a_persons_stop() -> None:
    """I4: FAILED, then a person's stop carried out; the old retry must not act once more."""
    world = until(World(IDLE._replace(kill_action="command"), 1), "FAILED", Go="failed")
    world.ask_stop()
    until(world, "ACTING")
    world.settle(Go="done")
    assert world.phase() == "DONE"
    world.run(3 * 3600.0, QUIET)
    assert world.phase() == "DONE"
    assert len(gos(world)) == 2


@pytest.mark.parametrize("grace", [0.0, 600.0])
def test_a_persons_stop_that_cannot_be_prepared_is_told(grace: float) -> None:
    """What a person asked for is retried and then FAILED aloud; it never just disappears."""
    world = World(IDLE._replace(grace=grace), 1)
    world.tick(QUIET)
    world.ask_stop()
    for _ in range(60):
        world.tick(QUIET)
        world.settle(Prepare="failed")
    assert "failed" in world.kinds()


def test_the_third_stop_in_a_day_without_work_is_a_message_only() -> None:
    """I9: stopped twice within a day and started again, still nothing works: a person is needed."""
    world = World(BASE._replace(unused_after=600.0, unknown_alarm=1e9), 1)
    for _ in range(2):
        world.run(700.0, QUIET)
        assert world.phase() in {"ACTING", "CONFIRMING"}
        world.boot(off=600.0)
    world.run(3000.0, QUIET)
    assert len(gos(world)) == 2
    assert "cannot" in world.kinds()
    world.release()
    world.run(1000.0, QUIET)
    assert len(gos(world)) == 3


def test_where_every_plan_points_elsewhere_the_first_action_is_tried() -> None:
    """None of them is better than what the owner wants most; and what is said of it is its own plan's."""
    world = World(IDLE._replace(fallback=("terminate", "shutdown")), 1)
    world.tick(QUIET)
    world.settle(Check="another")
    world.run(400.0, QUIET)
    incident = world.state.core.incident
    assert incident is not None
    assert (incident.link, incident.action, world.state.core.ending.done) == (0, "stop", "cannot")


@pytest.mark.parametrize("phase", ["WARNING", "DONE"])
def test_a_plan_that_passes_again_ends_only_what_it_had_refused(phase: str) -> None:
    """A countdown goes on, and a dry run that told what it would have done has told it."""
    world = World(IDLE._replace(mode="dry-run"), 1)
    while world.phase() != phase:
        world.tick(QUIET)
        world.settle()
    incident = world.state.core.incident
    for word in ("refuse", "go"):
        world.state = world.state._replace(
            core=world.state.core._replace(unchanged_until=0.0, plans=world.state.core.plans._replace(check_at=0.0))
        )
        world.tick(QUIET)
        world.settle(Check=word)
    now = world.state.core.incident
    assert incident is not None
    assert now is not None
    assert (world.phase(), now.id) == (phase, incident.id)


@pytest.mark.parametrize(("word", "findings", "verdict"), [
    ("ready", (), "go"), ("ready", (("disk", "the disk stays", ""),), "consequences"), ("refuse", (), "refuse"),
    ("another", (("lock", "use terminate", ""),), "another"),
])  # fmt: skip
def test_the_plan_of_the_attempt_is_the_latest_one(word: str, findings: tuple[object, ...], verdict: str) -> None:
    """Messages show it, and the next check goes by it; of the other actions nothing changes."""
    world = until(World(IDLE._replace(fallback=("terminate",)), 1), "WARNING")
    while not any(isinstance(effect, Prepare) for effect in world.pending.values()):
        world.settle()
        world.tick(QUIET)
    (attempt,) = [effect.id for effect in world.pending.values() if isinstance(effect, Prepare)]
    world.answer(attempt, word, findings=findings)
    plans = {plan.action: (plan.verdict, plan.findings) for plan in world.state.core.plans.verdicts}
    assert plans == {"stop": (verdict, findings), "terminate": ("go", ())}


def test_a_third_stop_stays_a_message_for_days() -> None:
    """I9: until work is seen, or a person resets it; that the daily check passes is neither."""
    world = World(IDLE, 1, checked=False)
    world.state = world.state._replace(
        core=world.state.core._replace(ledger=world.state.core.ledger._replace(stops=(EPOCH - 7200.0, EPOCH - 60.0)))
    )
    world.run(400.0, QUIET)
    for _ in range(3):
        world.tick(QUIET, dt=86400.0)
        world.settle()
    assert (world.phase(), world.state.core.ending.done) == ("DONE", "cannot")
    assert "preflight_passed" not in world.kinds()
    world.run(100.0, BUSY)
    assert world.phase() == "WATCHING"


@pytest.mark.parametrize("earlier", [(), (EPOCH - 60.0,)])
@pytest.mark.parametrize("word", ["failed", "refused"])
def test_a_stop_has_the_date_of_its_request_and_one_that_failed_has_none(word: str, earlier: tuple[float, ...]) -> None:
    """I9: earlier ones stay as they are."""
    world = World(IDLE, 1)
    world.state = world.state._replace(
        core=world.state.core._replace(ledger=world.state.core.ledger._replace(stops=earlier))
    )
    until(world, "ACTING")
    requested = world.wall
    dates = [world.state.core.ledger.stops]
    world.settle(Go=word)
    dates.append(world.state.core.ledger.stops)
    assert dates == [(*earlier, requested), earlier]


@pytest.mark.parametrize("why", ["reload", "tags"])
def test_what_is_out_when_the_configuration_changes_is_not_tried_again_under_another(why: str) -> None:
    """The request failed for certain: neither it nor the next one of either list follows, and that is told."""
    world = until(World(IDLE._replace(fallback=("terminate",)), 1), "ACTING")
    world.reload(world.policy._replace(currency="EUR"), why)
    world.settle(Go="failed")
    assert (world.phase(), gos(world), world.kinds()[-1]) == ("FAILED", ["stop"], "failed")


@pytest.mark.parametrize("grace", [0.5, 1.0, 60.0])
def test_any_grace_waits_for_the_delivery(grace: float) -> None:
    """I2: only without one nothing waits."""
    world = until(World(IDLE._replace(grace=grace), 1), "WARNING")
    world.run(100.0, QUIET, answer=False)
    assert not warned(world)
    assert not gos(world)


@pytest.mark.parametrize("action", ["stop", "shutdown", "command"])
@pytest.mark.parametrize(
    ("ages", "synced", "refused"),
    [
        ((), True, False), ((60.0,), True, False), ((60.0, 120.0), True, True), ((60.0, 86399.0), True, True),
        ((60.0, 86400.0), True, False), ((86400.0, 9e5), True, False), ((9e5, 60.0, 120.0), True, True),
        ((60.0, 86400.0), None, False), ((9e5, 9e6), False, True), ((9e5,), False, False), ((-3600.0, 60.0), True, True),
    ],
)  # fmt: skip
def test_a_third_stop_within_a_day_is_one_too_many(
    action: str, ages: tuple[float, ...], synced: bool | None, refused: bool
) -> None:
    """I9: by dates that are sure, to the second; on a wrong one every stop is recent. What ends no machine is no stop."""
    core = initial("b", "i").core._replace(
        ledger=initial("b", "i").core.ledger._replace(stops=tuple(EPOCH - age for age in ages))
    )
    state = initial("b", "i")._replace(core=core)
    turn = Turn(state, rules_of(IDLE), 0.0, EPOCH, synced=synced)
    assert bool(third_stop(turn, action)) is (refused and action != "command")
    undated = Turn(
        state._replace(core=core._replace(ledger=core.ledger._replace(stops=(*core.ledger.stops, 0.0)))),
        rules_of(IDLE),
        0.0,
        EPOCH,
        synced=True,
    )
    recent = sum(age < 86400.0 for age in ages)
    assert bool(third_stop(undated, action)) is (recent >= 1 and action != "command"), "one without a date is recent"


def test_arming_at_once_is_no_work() -> None:
    """I9: arm_duration 0 arms at the first tick of every boot; that forgives no stop."""
    world = World(BASE._replace(arm_duration=0.0, unused_after=None, unknown_alarm=1e9), 1)
    for _ in range(4):
        world.run(500.0, QUIET)
        world.boot(off=600.0)
    assert len(gos(world)) == 2


def test_unknown_is_not_the_work_that_forgives_stops() -> None:
    """I9: a moment of load and then a minute of unknown is not a minute of work."""
    world = World(BASE._replace(arm_threshold=0.99, unknown_alarm=1e9), 2)
    world.state = world.state._replace(
        core=world.state.core._replace(ledger=world.state.core.ledger._replace(stops=(EPOCH - 10.0, EPOCH - 5.0)))
    )
    world.run(20.0, BUSY, QUIET)
    world.run(120.0, DARK, QUIET)
    assert len(world.state.core.ledger.stops) == 2


def test_work_beside_a_gpu_that_cannot_be_read_forgives_stops() -> None:
    """I9: with one broken GPU of two, work on the other one is work; else every later stop needs a person."""
    world = World(BASE._replace(arm_threshold=0.99, unknown_alarm=1e9), 2)
    world.state = world.state._replace(
        core=world.state.core._replace(ledger=world.state.core.ledger._replace(stops=(EPOCH - 10.0, EPOCH - 5.0)))
    )
    world.run(120.0, QUIET, DARK)
    assert len(world.state.core.ledger.stops) == 2
    world.run(120.0, BUSY, DARK)
    assert len(world.state.core.ledger.stops) == 0


def test_never_within_boot_grace_of_boot_or_resume() -> None:
    """I9: a machine that was just started, or just woke, is left alone."""
    policy = IDLE._replace(boot_grace=1200.0, kill_duration=60.0)
    world = World(policy, 1)
    world.run(1190.0, QUIET)
    assert not gos(world)
    world.suspend(5000.0)
    world.run(1190.0, QUIET)
    assert not gos(world)
    world.run(200.0, QUIET)
    assert gos(world) == ["stop"]


def test_a_dry_run_only_tells() -> None:
    """Nothing is prepared or released in dry-run; the message says would, once."""
    world = World(IDLE._replace(mode="dry-run"), 1)
    world.run(5000.0, QUIET)
    assert not [effect for _, effect in world.effects if isinstance(effect, Prepare | Go | Confirm)]
    assert world.kinds() == ["warning", "would_act"]


@pytest.mark.parametrize("stop_busy", [True, False])
def test_a_deadline_in_a_dry_run_is_told_once(stop_busy: bool) -> None:
    """DONE is latched: work that goes on, or lies in the window, does not tell the same deadline every few minutes."""
    world = World(BASE._replace(mode="dry-run", lifetime=1000.0, stop_busy=stop_busy, kill_duration=3600.0), 1)
    world.run(990.0, BUSY)
    world.run(4000.0, BUSY if stop_busy else QUIET)
    assert world.kinds().count("would_act") == 1


def test_a_pause_of_the_work_is_no_end_of_it() -> None:
    """A job that waits for its data now and then, after the deadline: people hear of it once a day, not at every pause."""
    policy = BASE._replace(lifetime=1000.0, kill_duration=3600.0, unused_after=None)
    world = World(policy, 2)
    while world.now < 20000.0:
        world.run(60.0, BUSY, QUIET)
        world.run(WORK_OVER_SECONDS - 20.0, QUIET, QUIET)
    assert world.kinds() == ["deadline_passed"]
    assert world.last is not None
    assert "the deadline has passed" not in sentence(world), "the GPUs rest, and the date is shown"
    ended = world.now
    world.run(WORK_OVER_SECONDS + policy.grace + 60.0, QUIET, QUIET)
    assert world.stops()
    (warned,) = [at for at, effect in world.effects if isinstance(effect, Tell) and effect.kind == "warning"]
    assert warned - ended <= WORK_OVER_SECONDS + policy.interval


@pytest.mark.parametrize(("window", "waits"), [(3600.0, 300.0), (100.0, 100.0)])
def test_a_deadline_waits_for_rest_no_longer_than_for_idle(window: float, waits: float) -> None:
    """Work that ended just before the deadline; with a short window that is rest enough. Quiet long before, nothing waits."""
    policy = BASE._replace(lifetime=1000.0, kill_duration=window, arm_duration=99999.0, unused_after=None)
    for ends, begins in ((980.0, 980.0 + waits), (300.0, 1000.0)):
        world = World(policy, 1)
        world.run(ends, BUSY)
        world.run(600.0 + waits, QUIET)
        first = next(at for at, effect in world.effects if isinstance(effect, Tell) and effect.kind == "warning")
        assert begins - policy.interval <= first <= begins + 2 * policy.interval


def test_a_failed_deadline_is_not_hammered_because_work_goes_on() -> None:
    """FAILED with stop_busy backs off like any other failure."""
    world = World(BASE._replace(lifetime=1000.0, stop_busy=True), 1)
    while world.now < 4000.0:
        world.tick(BUSY)
        world.settle(Go="failed")
    assert len(gos(world)) == 4


def test_a_request_that_failed_is_decided_again_before_it_is_repeated() -> None:
    """I3: the cloud took nothing; work comes back before the next try, so there is none. A command is never repeated."""
    world = until(World(IDLE, 1), "ACTING")
    world.settle(Go="failed")
    assert world.phase() == "WARNING"
    assert world.last is not None
    assert "will be retried unless work is seen" in sentence(world)
    world.run(400.0, BUSY)
    assert gos(world) == ["stop"]
    assert world.kinds()[-1] == "cancelled"
    world = until(World(IDLE._replace(kill_action="command"), 1), "FAILED", Go="failed")
    assert gos(world) == ["command"]


def test_outcomes_of_closed_incidents_change_nothing() -> None:
    """A worker that answers late, after its incident was cancelled, is heard by nobody."""
    world = until(World(IDLE, 1), "WARNING")
    world.settle()
    world.run(20.0, QUIET, answer=False)
    attempt = next(effect.id for effect in world.pending.values() if isinstance(effect, Prepare))
    world.tick(BUSY)
    world.tick(BUSY)
    assert world.phase() == "WATCHING"
    for status in ("ready", "refuse", "another", "failed", "accepted", "done", "unknown"):
        before = world.state.core
        done = world.send(Outcome(world.now, attempt, status))
        assert not done.effects
        assert done.state.core._replace(unchanged_until=before.unchanged_until) == before


def test_a_number_that_is_none_holds_nothing() -> None:
    """A hold of NaN or of negative seconds is refused; one that is too long is cut, and the sum is bounded."""
    world = World(Policy(mode="live"), 1)
    world.tick(QUIET)
    for seconds in (float("nan"), -1.0, 0.0):
        world.hold(seconds)
        assert not world.state.core.people.holds
    for number in range(10):
        world.hold(1e9, f"user {number}")
    assert sum(hold.until - world.now for hold in world.state.core.people.holds) == pytest.approx(Policy().hold_total)


def test_another_policy_does_not_repeat_an_action_of_the_incident() -> None:
    """I4: the list changed while *stop* was under way, and has it in another place: the incident does not stop twice."""
    world = World(IDLE, 1)
    world.tick(QUIET)
    world.ask_stop()
    until(world, "ACTING")
    incident = next(effect.incident for _, effect in world.effects if isinstance(effect, Go))
    world.reload(IDLE._replace(kill_action="command", fallback=("stop",)))
    for _ in range(100):
        world.settle(Go="failed", Confirm="failed")
        world.tick(QUIET)
    assert [effect.action for _, effect in world.effects if isinstance(effect, Go) and effect.incident == incident] == [
        "stop"
    ]


def test_a_right_that_is_missing_is_told_at_the_start_and_its_return_ends_cannot() -> None:
    """The preflight is told before anything is due; *cannot* ends with the next preflight that passes."""
    world = World(IDLE, 1)
    world.tick(QUIET)
    world.settle(Check="refuse")
    assert "preflight_refused" in world.kinds()
    world.run(400.0, QUIET)
    assert (world.phase(), world.state.core.ending.done) == ("DONE", "cannot")
    assert not [effect for _, effect in world.effects if isinstance(effect, Prepare)]
    world.run(86400.0, QUIET, dt=14.0)
    assert "preflight_passed" in world.kinds()
    assert gos(world) == ["stop"]


def test_a_plan_that_points_to_another_action_begins_there() -> None:
    """The preflight said *another* for the first link: the second one is warned of and tried."""
    world = World(IDLE._replace(fallback=("shutdown",)), 1)
    world.tick(QUIET)
    world.answer(next(iter(world.pending)), "another")
    world.run(500.0, QUIET)
    assert gos(world) == ["shutdown"]


@pytest.mark.parametrize(
    ("first", "second", "end"),
    [
        ("another", "go", "would_act shutdown"),
        ("another", "refuse", "cannot shutdown"),
        ("another", "another", "cannot stop"),
        ("refuse", "go", "cannot stop"),
    ],
)
def test_a_dry_run_goes_down_the_list_as_live_mode_would(first: str, second: str, end: str) -> None:
    """A plan that is ready while the countdown runs points to another action: that one would be carried out."""
    world = until(World(IDLE._replace(mode="dry-run", fallback=("shutdown",)), 1), "WARNING", Check="never")
    for check in [e for e in world.pending.values() if isinstance(e, Check)]:
        world.answer(check.id, first if check.action == "stop" else second)
    until(world, "DONE")
    told = next(e for _, e in reversed(world.effects) if isinstance(e, Tell))
    assert f"{told.kind} {dict(told.facts)['action']}" == end


def test_an_end_that_nobody_heard_is_told_again() -> None:
    """How an incident ended is repeated until somebody got it, at most as often as a warning is."""
    world = until(World(IDLE._replace(warn_attempts=3), 1), "FAILED", Go="failed")
    for _ in range(30):
        world.settle(Tell="failed")
        world.tick(QUIET)
    assert world.kinds().count("failed") == 3


def test_what_a_killed_guard_had_done_is_told_by_the_next_one_although_somebody_works() -> None:
    """The guard dies as it was about to say what was done; its successor sees work at once, and says it all the same."""
    world = until(World(IDLE._replace(kill_action="command"), 1), "DONE", Go="done")
    world.restart(1.0)
    world.tick(BUSY)
    assert (world.kinds().count("done"), world.phase()) == (2, "WATCHING")
    world.run(120.0, BUSY)
    assert world.kinds().count("done") == 2


def test_work_in_the_window_unlatches_also_when_it_has_just_ended() -> None:
    """DONE in the first quiet tick after work: the quick path must not sleep over the work that lies in the window."""
    world = World(IDLE._replace(mode="dry-run", arm_duration=30.0), 1)
    world.run(60.0, BUSY)
    world.ask_stop()
    world.tick(QUIET)
    assert world.phase() == "DONE"
    world.tick(QUIET)
    assert world.phase() == "WATCHING"


@pytest.mark.parametrize("mode", ["live", "dry-run"])
def test_work_of_before_an_end_does_not_end_it(mode: str) -> None:
    """DONE waits for work that is seen again: with *unused* shorter than the window, earlier work still lies in that."""
    policy = BASE._replace(
        mode=mode,
        kill_action="command",
        kill_duration=3600.0,
        unused_after=600.0,
        arm_threshold=0.95,
        unknown_alarm=1e9,
    )
    world = World(policy, 1)
    world.run(30.0, QUIET)
    world.run(300.0, BUSY)
    while world.phase() != "DONE":
        world.tick(QUIET)
        world.settle(Go="done")
    world.run(3000.0, QUIET)
    assert world.kinds().count("warning") == 1
    world.run(60.0, BUSY)
    assert world.phase() == "WATCHING"


def test_under_any_only_the_idle_gpus_are_named() -> None:
    """Whoever acts on a message or on `{gpus}` must not be told that a GPU at work is idle."""
    policy = Policy(
        kill_action="command", aggregate="any", arm_duration=None, window_rule="unbroken", kill_duration=30.0
    )
    state = initial("boot", "instance")
    told: list[Tell] = []
    for tick in range(1, 10):
        seen = Observation(("a", "b", "c"), (Known(0.9), Known(0.0), Known(0.95)))
        state, effects, _ = step(state, Tick(10.0 * tick, seen), policy)
        told += [effect for effect in effects if isinstance(effect, Tell) and effect.kind == "warning"]
    assert [tell.facts["gpus"] for tell in told] == [["b"]]


@pytest.mark.parametrize("lost", ["Tell", "Prepare", "Go", "Confirm"])
def test_an_outcome_that_never_comes_holds_nothing_up_for_ever(lost: str) -> None:
    """The agent may lose any outcome: no phase waits for ever, nothing acts twice, and somebody is told."""
    world = World(IDLE._replace(kill_action="command", unknown_alarm=1e9), 1)
    wishes = {"Go": "unknown", "Confirm": "done", lost: "never"}
    for _ in range(1200):
        world.tick(QUIET)
        world.settle(**wishes)
    assert world.phase() == ("FAILED" if lost == "Prepare" else "DONE")
    assert len(gos(world)) == (0 if lost == "Prepare" else 1)
    if lost == "Tell":
        assert len(world.times("warning")) == IDLE.warn_attempts
    if lost == "Confirm":
        assert world.state.core.ending.done == "unknown"


@pytest.mark.parametrize(("seen", "earliest", "latest"), [("accepted", 300.0, 420.0), ("pending", 1800.0, 1920.0)])
def test_a_machine_that_is_seen_stopping_gets_its_time(seen: str, earliest: float, latest: float) -> None:
    """An accepted request without any effect makes way for the next link soon; hibernation writes a whole memory first."""
    world = until(World(IDLE._replace(fallback=("shutdown",)), 1), "CONFIRMING")
    began = world.now
    while world.phase() == "CONFIRMING":
        world.tick(QUIET)
        if world.phase() == "CONFIRMING":
            world.settle(Confirm=seen)
    assert earliest <= world.now - began <= latest
    assert "next_action" in world.kinds()
    assert world.kinds().count("stopping") == (seen == "pending"), "told once, and only what was seen"
    assert gos(world) == ["stop"]


def test_a_machine_that_ends_is_asked_about_soon_and_its_end_is_told_with_what_was_seen() -> None:
    """Seen stopping has to be told before this machine is gone; what a cloud shows of the end stands in the message."""
    world = until(World(IDLE, 1), "CONFIRMING")
    asked: list[float] = []
    while world.phase() == "CONFIRMING" and len(asked) < 4:
        world.tick(QUIET, dt=1.0)
        for effect in list(world.pending.values()):
            if isinstance(effect, Confirm):
                asked.append(world.now)
                last = len(asked) == 4
                world.answer(
                    effect.id, "done" if last else "pending", detail="closed: nothing is there any more" * last
                )
    pauses = [later - earlier for earlier, later in pairwise(asked)]
    assert pauses[0] <= 12.0
    assert pauses[-1] <= 32.0
    assert pauses == sorted(pauses)
    told = [effect for _, effect in world.effects if isinstance(effect, Tell) and effect.kind == "done"]
    assert [effect.facts["error"] for effect in told] == ["closed: nothing is there any more"]


def test_a_reload_while_it_confirms_asks_again() -> None:
    """A guard that begins again with the same state has let go of the question: it is asked anew, and answered."""
    world = until(World(IDLE, 1), "CONFIRMING")
    world.run(60.0, QUIET, answer=False)
    asked = [effect.id for effect in world.pending.values() if isinstance(effect, Confirm)]
    assert asked
    world.pending = {}
    world.reload(IDLE)
    world.tick(QUIET)
    again = [effect.id for effect in world.pending.values() if isinstance(effect, Confirm)]
    assert again
    assert again != asked
    world.settle(Confirm="done")
    assert world.state.core.ending.done == "acted"


@pytest.mark.parametrize("between", ["failed", "another"])
def test_a_right_that_comes_back_ends_cannot_whatever_was_found_in_between(between: str) -> None:
    """*cannot* ends with a plan that passes, also when the check before it failed or pointed elsewhere."""
    world = World(IDLE, 1)
    world.tick(QUIET)
    world.settle(Check="refuse")
    world.run(400.0, QUIET)
    assert (world.phase(), world.state.core.ending.done) == ("DONE", "cannot")
    for word in (between, "go"):
        world.state = world.state._replace(
            core=world.state.core._replace(unchanged_until=0.0, plans=world.state.core.plans._replace(check_at=0.0))
        )
        world.tick(QUIET)
        world.settle(Check=word)
    assert world.kinds().count("preflight_passed") == 1
    world.run(200.0, QUIET)
    assert gos(world) == ["stop"]


def test_a_check_that_failed_does_not_forget_a_refusal() -> None:
    """A check without a result takes back nothing: what was refused is not warned of, and not refused aloud again."""
    world = World(IDLE, 1)
    world.tick(QUIET)
    world.settle(Check="refuse")
    world.run(100.0, QUIET)
    for word in ("failed", "refuse", "failed"):
        world.state = world.state._replace(
            core=world.state.core._replace(unchanged_until=0.0, plans=world.state.core.plans._replace(check_at=0.0))
        )
        world.tick(QUIET)
        world.settle(Check=word)
    assert world.kinds().count("preflight_refused") == 1
    world.run(250.0, QUIET, answer=False)
    assert (world.phase(), world.state.core.ending.done) == ("DONE", "cannot")


def test_a_short_hold_costs_at_least_the_countdown_that_it_stops() -> None:
    """A hold of a second just before each action must not prevent the stop for ever."""
    for grace in (60.0, 0.0):
        policy = IDLE._replace(grace=grace, hold_total=600.0, hold_max=300.0, unknown_alarm=1e9)
        world = World(policy, 1)
        for _ in range(400):
            world.tick(QUIET)
            if world.phase() == "WARNING":
                world.hold(0.001)
            world.settle(Prepare="never" if world.now < 310.0 else "ready")
            if gos(world):
                break
        assert gos(world), grace


def test_one_person_has_one_hold_and_is_told_of_once_a_minute() -> None:
    """The longer end wins, nothing piles up, and nobody's terminal is flooded."""
    world = World(IDLE, 1)
    world.tick(QUIET)
    for number in range(500):
        world.hold(100.0 + 0.001 * number, "ann" if number % 2 else "bob")
    assert len(world.state.core.people.holds) == 2
    world.hold(10.0, "ann")
    assert min(hold.until - world.now for hold in world.state.core.people.holds) > 100.0
    assert world.kinds().count("held") == 2
    world.run(70.0, QUIET)
    world.hold(100.0, "bob")
    assert world.kinds().count("held") == 3
    for number in range(500):
        world.hold(100.0 + number, f"user {number}")
    assert len(world.state.core.people.holds) == 32
    assert {"ann", "bob"} < {hold.owner for hold in world.state.core.people.holds}, "nobody's hold is pushed out"


def test_a_hold_after_a_while_without_a_look_is_news() -> None:
    """A guard that stood still told of the last one minutes ago, though it has not looked since."""
    world = World(IDLE, 1)
    world.tick(QUIET)
    world.hold(3600.0)
    world.now, world.wall = world.now + 50.0, world.wall + 50.0
    world.hold(3600.0)
    assert world.kinds().count("held") == 1
    world.now, world.wall = world.now + 50.0, world.wall + 50.0
    world.hold(3600.0)
    assert world.kinds().count("held") == 2


def test_a_hold_that_is_much_longer_is_told_at_once() -> None:
    """Two hours, and then a day, within a minute: whoever reads only the first would count on the machine's end."""
    world = World(IDLE, 1)
    world.tick(QUIET)
    for seconds, told in ((7200.0, 1), (7800.0, 1), (8400.0, 1), (9001.0, 2), (86400.0, 3), (86401.0, 3)):
        world.hold(seconds)
        assert world.kinds().count("held") == told


def test_later_work_that_ended_unlatches_a_deadline_that_heeds_no_work() -> None:
    """A `stop_busy` deadline acted with a command; the machine works on, works again, and is idle: it acts once more."""
    policy = BASE._replace(kill_action="command", lifetime=1000.0, stop_busy=True, unused_after=None)
    world = World(policy, 1)
    while world.phase() != "DONE":
        world.tick(BUSY)
        world.settle(Go="done")
    world.run(1000.0, BUSY)
    assert len(gos(world)) == 1, "work that goes on is no news"
    world.run(250.0, QUIET)
    assert len(gos(world)) == 1
    while world.now < 4000.0:
        world.tick(QUIET)
        world.settle(Go="done")
    assert len(gos(world)) == 2


@pytest.mark.parametrize("seen", [QUIET, BUSY])
def test_what_ends_with_the_act_is_no_later_work(seen: Known) -> None:
    """A `stop_busy` deadline acted on a quiet machine, or on one whose work ended with it: it does not act once more."""
    policy = BASE._replace(kill_action="command", lifetime=500.0, stop_busy=True, unused_after=None, arm_duration=None)
    world = World(policy, 1)
    while world.phase() != "DONE":
        world.tick(seen)
        world.settle(Go="done")
    for _ in range(100):
        world.tick(QUIET)
        world.settle(Go="done")
    assert (world.phase(), len(gos(world))) == ("DONE", 1)


@pytest.mark.parametrize(
    ("mode", "prepare", "ends"), [("live", "ready", True), ("dry-run", "", True), ("live", "never", False)]
)
def test_a_countdown_that_is_held_up_for_too_long_is_taken_back(mode: str, prepare: str, ends: bool) -> None:
    """A GPU cannot be read: so long past its time as `grace` a warning is worth nothing. A worker on its way is waited for."""
    world = until(World(IDLE._replace(mode=mode, unknown_alarm=9e5), 1), "WARNING")
    world.settle(Prepare=prepare or "ready")
    world.run(20.0, QUIET, answer=False)
    world.settle(Prepare=prepare or "ready")
    due = due_at(world.state.core, rules_of(world.policy))
    while world.now + 10.0 < due + 60.0:
        world.tick(DARK)
        world.settle(Prepare=prepare or "ready")
    world.tick(dt=due + 60.0 - world.now)
    assert world.phase() == "WARNING"
    world.tick(dt=0.01)
    assert world.phase() == ("WATCHING" if ends else "WARNING")
    told = [
        effect.facts["why"] for _, effect in world.effects if isinstance(effect, Tell) and effect.kind == "cancelled"
    ]
    assert told == (["a GPU cannot be read"] if ends else [])


def test_what_became_of_a_lost_request_is_asked_aloud() -> None:
    """The worker died after the release: people hear at once that nobody can tell, and once more when nobody ever could."""
    world = until(World(IDLE, 1), "ACTING")
    go = next(effect for effect in world.pending.values() if isinstance(effect, Go))
    world.answer(go.id, "unknown", detail="the worker ended without a result")
    assert world.phase() == "CONFIRMING"
    assert world.kinds()[-1] == "asking"
    assert "checking the outcome" in str(world.last and world.last.sentence)
    while world.phase() == "CONFIRMING":
        world.tick(QUIET)
        if world.phase() == "CONFIRMING":
            world.settle(Confirm="unknown")
    assert world.kinds().count("asking") == 1
    assert world.kinds()[-1] == "outcome_unknown"
    assert len(gos(world)) == 1


@pytest.mark.parametrize("mode", ["live", "dry-run"])
def test_an_announcement_of_the_cloud_saves_work_once(mode: str) -> None:
    """The pre-stop hook gets the time that is left; in a dry run nothing has an effect."""
    world = World(IDLE._replace(mode=mode), 1)
    world.run(50.0, BUSY)
    for seconds in (120.0, 118.0):
        world.send(Notice(world.now, world.now + seconds, "Spot interruption"))
    saves = [effect.seconds for _, effect in world.effects if isinstance(effect, Save)]
    assert saves == ([120.0] if mode == "live" else [])
    assert world.kinds().count("notice") == 1


def test_an_announcement_without_a_date_is_told_without_one() -> None:
    """The moment that the engine counts with is its own guess."""
    said = []
    for dated in (True, False):
        world = World(IDLE, 1)
        world.run(50.0, BUSY)
        world.send(Notice(world.now, world.now + 30.0, "maintenance", "freeze", dated))
        said += [effect.facts for _, effect in world.effects if isinstance(effect, Tell) and effect.kind == "notice"]
    assert [facts["change"] for facts in said] == ["freeze", "freeze"]
    assert [facts.get("due_in_seconds") for facts in said] == [30.0, None]


def test_a_pause_before_the_end_does_not_open_the_way_for_an_own_stop() -> None:
    """The machine is taken in 15 minutes; a pause in 30 s is told, and when that is over the end still keeps every stop back."""
    world = World(IDLE, 1)
    world.tick(QUIET)
    world.send(Notice(world.now, world.now + 900.0, "taken", "terminate"))
    world.send(Notice(world.now, world.now + 30.0, "paused", "freeze"))
    assert world.kinds().count("notice") == 2
    world.run(1400.0, QUIET)
    assert not gos(world)
    world.send(Notice(world.now, world.now + 60.0, "taken", "stop"))
    assert world.kinds().count("notice") == 3, "that it ends was told, for a moment that is past"
    world.run(2000.0, QUIET)
    assert gos(world), "what did not come true is forgotten"


def test_an_end_after_a_pause_is_news() -> None:
    """A pause was announced; then that the machine is taken, and sooner. The same again, or a pause after that, is none."""
    world = World(IDLE, 1)
    world.tick(BUSY)
    for due, kind in (
        (600.0, "freeze"),
        (580.0, "freeze"),
        (500.0, "terminate"),
        (490.0, "freeze"),
        (120.0, "stop"),
        (100.0, "stop"),
    ):
        world.send(Notice(world.now, world.now + due, f"{kind} in {due}", kind))
        world.tick(BUSY)
    told = [
        effect.facts["change"] for _, effect in world.effects if isinstance(effect, Tell) and effect.kind == "notice"
    ]
    assert told == ["freeze", "terminate", "stop"]
    assert len([effect for _, effect in world.effects if isinstance(effect, Save)]) == 3


def test_a_notice_after_one_that_did_not_come_true_is_news() -> None:
    """What people wait for is compared, not what is past; a notice without a date is repeated while it stands, and told once."""
    world = World(IDLE, 1)
    world.tick(BUSY)
    world.send(Notice(world.now, world.now + 100.0, "at noon", "stop"))
    world.send(Notice(world.now, world.now + 700.0, "at ten past", "stop"))
    world.run(200.0, BUSY)
    world.send(Notice(world.now, world.now + 500.0, "at ten past", "stop"))
    assert world.kinds().count("notice") == 1, "people wait for that one"
    world.send(Notice(world.now, world.now + 300.0, "at five past", "stop"))
    assert world.kinds().count("notice") == 2, "sooner than what they wait for"
    world.run(520.0, BUSY)
    world.send(Notice(world.now, world.now + 30.0, "now", "stop", dated=False))
    assert world.kinds().count("notice") == 2, "the one without a date still stands"
    world.run(60.0, BUSY)
    world.send(Notice(world.now, world.now + 400.0, "at twenty past", "stop"))
    assert world.kinds().count("notice") == 3, "all others are past"


def test_a_machine_that_stops_is_not_checked_again() -> None:
    """A guard that begins again while the proof is out: a check would find *stopping*, and tell people of a refusal."""
    world = until(World(IDLE, 1), "CONFIRMING")
    checks = len([effect for _, effect in world.effects if isinstance(effect, Check)])
    world.restart()
    world.run(60.0, QUIET)
    assert world.phase() == "CONFIRMING"
    assert len([effect for _, effect in world.effects if isinstance(effect, Check)]) == checks
    world.run(60.0, BUSY)
    while world.phase() == "CONFIRMING":
        world.tick(BUSY)
        world.settle(Confirm="done")
    world.run(30.0, BUSY)
    assert len([effect for _, effect in world.effects if isinstance(effect, Check)]) == checks + 1


def test_a_guard_that_was_away_for_long_waits_for_the_answer_to_its_question() -> None:
    """I4: what became of a request is asked first, however long nobody was there to ask."""
    world = until(World(IDLE, 1), "ACTING")
    world.restart(400.0)
    world.tick(QUIET)
    assert world.phase() == "CONFIRMING"
    world.settle(Confirm="done")
    assert (world.phase(), world.state.core.ending.done) == ("DONE", "acted")


def test_a_warning_that_died_with_the_guard_does_not_count_as_tried() -> None:
    """I2: only attempts whose fate is known exhaust the delivery rule; the guard may have died before it made one."""
    world = until(World(IDLE, 1), "WARNING")
    for _ in range(4):
        world.restart(1.0)
        world.tick(Known(0.0, (), 400.0))  # a counter that reaches over the hole
    known = 0
    while not warned(world):
        known += sum(isinstance(effect, Tell) and effect.kind == "warning" for effect in world.pending.values())
        world.settle(Tell="failed")
        world.tick(QUIET)
    assert known == IDLE.warn_attempts


@pytest.mark.parametrize(("stops", "may"), [(1, True), (2, False)])
def test_a_fall_back_is_no_way_round_the_third_stop(stops: int, may: bool) -> None:
    """I9: the command before it ends nothing, so it may run again and again; the shutdown after it may not."""
    world = World(IDLE._replace(kill_action="command", fallback=("shutdown",)), 1)
    world.tick(QUIET)
    dates = tuple(world.wall - 3600.0 * (i + 1) for i in range(stops))
    world.state = world.state._replace(
        core=world.state.core._replace(ledger=world.state.core.ledger._replace(stops=dates))
    )
    world.monitor.stops = [(date, "") for date in dates]
    while world.now < 3000.0 and world.phase() != "DONE":
        world.tick(QUIET)
        world.settle(Prepare="ready" if may and "next_action" in world.kinds() else "failed")
    assert gos(world) == (["shutdown"] if may else [])
    assert ("cannot" in world.kinds()) is not may


def warned(world: World) -> bool:
    """Whether the open incident counts as told, or as impossible to tell."""
    incident = world.state.core.incident
    return incident is not None and incident.warned is not None


def test_a_deadline_that_acts_on_what_cannot_be_read_is_named() -> None:
    """Nobody reads that unknown is never idle while the countdown of a passed deadline runs."""
    world = World(BASE._replace(lifetime=1000.0))
    world.run(600.0, BUSY, BUSY)
    world.run(350.0, DARK, DARK)
    assert "and unknown is never idle" in str(world.tick().sentence)
    world.run(60.0)
    assert world.phase() == "WARNING"
    assert "and the deadline has passed; stop in" in str(world.tick().sentence)


SHOWN = "closed: the cloud shows stopped"


def confirmed(world: World, detail: str = SHOWN) -> World:
    """The machine is confirmed as ended, and this guard runs on it all the same."""
    until(world, "CONFIRMING")
    while world.phase() == "CONFIRMING":
        world.tick(QUIET)
        for effect_id, effect in list(world.pending.items()):
            if isinstance(effect, Confirm):
                world.answer(effect_id, "done", detail=detail)
            elif effect_id in world.pending and not isinstance(effect, Go):
                world.answer(effect_id, {Tell: "delivered", Check: "go"}[type(effect)])
    return world


@pytest.mark.parametrize("reading", [QUIET, BUSY, DARK])
def test_a_machine_that_runs_on_after_its_end_was_confirmed_is_told(reading: Reading) -> None:
    """Promise 2: a guard that still runs knows better than the cloud; nobody is left with *done* and a bill that goes on."""
    world = confirmed(World(IDLE, 1))
    assert (world.phase(), world.state.core.ending.done) == ("DONE", "acted")
    told = world.now
    world.run(RUNS_ON_SECONDS - 11.0, reading)
    assert world.phase() == "DONE", "a machine that ends may take a while, and so may the news of it"
    world.run(21.0, reading)
    failed = [effect for _, effect in world.effects if isinstance(effect, Tell) and effect.kind == "failed"]
    assert [effect.level for effect in failed] == ["critical"]
    assert "still runs 5 min after the stop was confirmed" in str(failed[0].facts["error"])
    assert SHOWN in str(failed[0].facts["error"])
    assert world.times("failed")[0] - told == pytest.approx(RUNS_ON_SECONDS, abs=11.0)
    assert world.state.core.ledger.stops == (), "what certainly failed is no stop of the day"


def test_the_next_action_follows_where_a_machine_runs_on() -> None:
    """People are warned of it in full, on fresh readings."""
    world = confirmed(World(IDLE._replace(fallback=("shutdown",)), 1))
    world.run(RUNS_ON_SECONDS + 20.0, QUIET)
    begun = world.times("warning")[-1]
    until(world, "ACTING", 1000.0)
    assert (gos(world), world.kinds().count("failed")) == (["stop", "shutdown"], 0)
    assert world.stops()[-1] >= begun + 60.0


def test_a_confirmation_that_was_wrong_is_not_believed_twice() -> None:
    """Tried anew after a pause that doubles; *done* is told once, each failure again, and after a resume all is new."""
    world = confirmed(World(IDLE, 1))
    world.run(RUNS_ON_SECONDS + 20.0, QUIET)
    for rounds in (1, 2):
        assert world.state.core.ending.rounds == rounds
        confirm_until_failed(world)
    assert (world.kinds().count("done"), world.kinds().count("failed")) == (1, 3)
    first, second, third = world.times("failed")
    assert third - second > second - first > 3600.0
    world.suspend(600.0)
    world.tick(QUIET)
    confirmed(world)
    assert world.kinds().count("done") == 2


def test_what_the_machine_itself_has_done_is_believed_all_the_same() -> None:
    """A command has its own record: that the cloud was wrong about the machine says nothing of it, and no other action follows."""
    world = confirmed(World(IDLE, 1))
    world.run(RUNS_ON_SECONDS + 20.0, QUIET)
    world.reload(IDLE._replace(kill_action="command", fallback=("shutdown",)))
    confirmed(world)
    assert (world.phase(), world.state.core.ending.done, gos(world)) == ("DONE", "acted", ["stop", "command"])


def confirm_until_failed(world: World) -> None:
    """The next round: whenever it is asked, the cloud shows the machine as ended."""
    before, end = world.kinds().count("failed"), world.now + 20_000.0
    while world.kinds().count("failed") == before and world.now < end:
        world.tick(QUIET)
        world.settle(Confirm="done")


def test_a_guard_that_is_killed_after_done_still_disproves_it() -> None:
    """The moment is kept over a restart, and the doubt over the failure."""
    world = confirmed(World(IDLE, 1))
    world.settle()
    world.restart(30.0)
    world.run(RUNS_ON_SECONDS, QUIET)
    assert world.kinds().count("failed") == 1
    world.restart(30.0)
    confirm_until_failed(world)
    assert world.kinds().count("done") == 1


@pytest.mark.parametrize("wake", ["suspend", "boot"])
def test_a_machine_that_ended_and_came_back_disproves_nothing(wake: str) -> None:
    """It did what was confirmed."""
    world = confirmed(World(IDLE, 1))
    world.suspend(900.0) if wake == "suspend" else world.boot(900.0)
    world.run(RUNS_ON_SECONDS - 20.0, QUIET)
    assert world.kinds().count("failed") == 0
