"""How long the engine waits between tries of the same thing, and what does not end the tries."""

from itertools import pairwise

import pytest

from costguard.engine import AskExtend, Known
from costguard.engine.effects import Answer, Confirm, Go, Prepare, Tell
from tests.engine.test_acting import IDLE, until
from tests.engine.world import BUSY, QUIET, World

BRIDGE = Known(0.0, (), 400.0)
"""Quiet, with a counter that reaches over a hole."""


def times(world: World, kind: type) -> list[float]:
    return [at for at, effect in world.effects if isinstance(effect, kind)]


@pytest.mark.parametrize("wish", ["Prepare", "Go"])
def test_tries_of_an_action_come_ever_more_rarely(wish: str) -> None:
    """15, 30 and 60 s, rounded up to the next look; then the list is over."""
    world = until(World(IDLE._replace(grace=600.0), 1), "WARNING")  # no try is so late that people are warned anew
    while world.phase() in {"WARNING", "ACTING"}:
        world.settle(**{wish: "failed"})
        world.tick(QUIET)
    assert world.phase() == "FAILED"
    at = times(world, Prepare if wish == "Prepare" else Go)
    gaps = [b - a for a, b in pairwise(at)]
    assert len(gaps) == 3
    assert [15.0 <= gaps[0] <= 45.0, 30.0 <= gaps[1] <= 60.0, 60.0 <= gaps[2] <= 90.0] == [True] * 3
    assert gaps == sorted(gaps)


@pytest.mark.parametrize("wish", [Prepare, Go])
def test_the_pause_between_two_tries_begins_with_the_failure(wish: type) -> None:
    """A request may take nearly as long to fail as the next look is away: that is no pause."""
    world = World(IDLE._replace(grace=600.0, interval=15.0), 1)
    while not (waiting := [name for name, effect in world.pending.items() if isinstance(effect, wish)]):
        world.tick(QUIET)
        world.settle(**{wish.__name__: "never"})
    world.answer(waiting[0], "failed", after=14.0)
    failed = world.now + 14.0
    while len(times(world, Prepare)) < 2:
        world.tick(QUIET)
        world.settle()
    assert times(world, Prepare)[-1] - failed >= 15.0


def test_tries_of_a_warning_come_ever_more_rarely() -> None:
    """10, 20, 40 s after each failure, not in every tick."""
    world = World(IDLE._replace(warn_attempts=4, interval=5.0), 1)
    while not (world.state.core.incident and world.state.core.incident.warned):
        world.tick(QUIET)
        world.settle(Tell="failed")
    gaps = [b - a for a, b in pairwise(world.times("warning"))]
    assert [10.0 <= gaps[0] <= 15.0, 20.0 <= gaps[1] <= 25.0, 40.0 <= gaps[2] <= 45.0] == [True] * 3


@pytest.mark.parametrize("answer", ["unknown", "accepted", "pending"])
def test_questions_go_on_until_there_is_an_answer(answer: str) -> None:
    """A cloud that cannot be asked now can be asked later: more often at first, then each half a minute."""
    world = until(World(IDLE, 1), "CONFIRMING")
    asked = world.now
    while world.now < asked + 200.0:
        world.tick(QUIET)
        world.settle(Confirm=answer)
        assert world.phase() == "CONFIRMING"
    at = times(world, Confirm)
    assert at[0] <= asked + 15.0
    assert len(at) >= 6
    assert max(b - a for a, b in pairwise(at)) <= 45.0
    world.run(60.0, QUIET, answer=False)
    world.settle(Confirm="done")
    assert (world.phase(), world.state.core.ending.done) == ("DONE", "acted")


@pytest.mark.parametrize(
    ("word", "limit", "phase"),
    [("accepted", 300.0, "FAILED"), ("pending", 1800.0, "FAILED"), ("unknown", 300.0, "DONE")],
)
def test_what_is_under_way_gets_its_time_to_the_second(word: str, limit: float, phase: str) -> None:
    """From the request on: five minutes without any sign, half an hour for a machine that is seen stopping."""
    for early, expected in ((0.01, "CONFIRMING"), (0.0, phase)):
        world = until(World(IDLE, 1), "CONFIRMING")
        incident = world.state.core.incident
        assert incident is not None
        assert incident.attempt.requested_at is not None
        world.tick(QUIET)
        (question,) = [effect.id for effect in world.pending.values() if isinstance(effect, Confirm)]
        world.answer(question, word, after=incident.attempt.requested_at + limit - early - world.now)
        assert world.phase() == expected


@pytest.mark.parametrize("phase", ["ACTING", "CONFIRMING"])
@pytest.mark.parametrize("uid", [0, 1000])
def test_a_hold_that_comes_after_the_request_is_refused(phase: str, uid: int) -> None:
    """Nothing is half undone: whoever asks is told that it is too late, and no hold is kept."""
    world = until(World(IDLE, 1), phase)
    done = world.hold(3600.0, uid=uid)
    (answer,) = [effect for effect in done.effects if isinstance(effect, Answer)]
    assert (answer.done, answer.message.startswith("too late")) == (False, True)
    assert (world.state.core.people.holds, world.state.core.people.charged, world.phase()) == ((), 0.0, phase)


@pytest.mark.parametrize("uid", [0, 1000])
def test_a_hold_that_comes_after_the_deed_is_refused(uid: int) -> None:
    """It would promise that nothing is done, which has been; and nothing more is before work is seen."""
    world = until(World(IDLE._replace(kill_action="command"), 1), "DONE", Go="done")
    world.tick(QUIET)
    (answer,) = [effect for effect in world.hold(3600.0, uid=uid).effects if isinstance(effect, Answer)]
    assert not answer.done
    assert answer.message == "too late: the command was run 10s ago; watching resumes when work is seen"
    world.run(60.0, BUSY)
    (answer,) = [effect for effect in world.hold(3600.0, uid=uid).effects if isinstance(effect, Answer)]
    assert answer.done


@pytest.mark.parametrize(
    ("action", "phase", "may"),
    [
        *[(action, phase, False) for action in ("stop", "terminate", "hibernate", "shutdown") for phase in ("ACTING", "DONE")],
        *[(action, "ACTING", False) for action in ("reboot", "command")],
        *[(action, "DONE", True) for action in ("reboot", "command")],
    ],
)  # fmt: skip
def test_a_deadline_is_not_moved_for_a_machine_that_ends(action: str, phase: str, may: bool) -> None:
    """Who moves it wants the machine to go on; after a command, or a reboot, it does."""
    world = until(World(IDLE._replace(kill_action=action, lifetime=86400.0), 1), phase, Go="done")
    done = world.send(AskExtend(world.now, 3600.0, "ann", "", 1, world.wall, 1000))
    (answer,) = [effect for effect in done.effects if isinstance(effect, Answer)]
    assert (answer.done, answer.message.startswith("too late")) == (may, not may)
    assert bool(world.state.core.deadline.extensions) is may


@pytest.mark.parametrize(
    ("action", "words"),
    [("shutdown", "the shutdown has already been requested"), ("command", "the command has already been started")],
)
def test_what_it_is_too_late_for_is_said_in_words(action: str, words: str) -> None:
    """A command is no request to anybody."""
    world = until(World(IDLE._replace(kill_action=action), 1), "ACTING")
    (answer,) = [effect for effect in world.hold(3600.0).effects if isinstance(effect, Answer)]
    assert answer.message == f"too late: {words}"


def test_a_warning_on_its_way_when_the_guard_ended_is_told_again_at_once() -> None:
    """Its worker died with the guard: nobody waits five minutes for what it would have said."""
    world = until(World(IDLE, 1), "WARNING")
    world.restart(1.0)
    world.tick(BRIDGE)
    assert [isinstance(effect, Tell) and effect.kind == "warning" for effect in world.pending.values()].count(True) == 1
    until(world, "ACTING", 120.0)


@pytest.mark.parametrize("heard", ["delivered", "failed", "never"])
def test_a_guard_that_was_started_again_after_its_own_exit_does_not_say_that_nothing_is_watched(heard: str) -> None:
    """It watches; and stays as it is until work is seen, for a service that starts it always would end it again and again."""
    world = until(World(IDLE._replace(kill_action="end_process"), 1), "DONE")
    assert str(world.tick(QUIET).sentence).endswith("costguard has exited; nothing is watched any more.")
    if heard != "never":
        world.settle(Tell=heard)
    told = len(world.kinds())
    world.restart(5.0)
    for _ in range(50):
        last = world.tick(QUIET)
        world.settle()
    assert str(last.sentence).endswith(
        "costguard has exited (it was started again); watching resumes when work is seen."
    )
    assert world.kinds()[told:] == []
    assert world.phase() == "DONE"


@pytest.mark.parametrize("ready", [True, False])
def test_a_worker_that_waited_when_the_guard_ended_is_started_again(ready: bool) -> None:
    """It died with the guard; the countdown goes on over a short bridged hole, and the action comes when it is due."""
    world = World(IDLE, 1)
    world.run(310.0, QUIET)
    while not times(world, Prepare):
        world.tick(QUIET)
        world.settle(Prepare="ready" if ready else "never")
    world.settle(Prepare="ready" if ready else "never")
    incident = world.state.core.incident
    assert incident is not None
    assert incident.warned is not None
    due, before = incident.warned + IDLE.grace, len(times(world, Prepare))
    world.restart(1.0)
    world.tick(BRIDGE)
    assert len(times(world, Prepare)) == before + 1
    until(world, "ACTING", 120.0)
    assert due <= times(world, Go)[0] <= due + 20.0


def countdown(grace: float, left: float) -> tuple[World, float]:
    """A countdown in which a worker waits, not more than so many seconds before its end; and when that is."""
    world = World(IDLE._replace(grace=grace), 1)
    while world.state.core.incident is None or world.state.core.incident.warned is None:
        world.tick(QUIET)
        world.settle()
    due = world.state.core.incident.warned + grace
    while world.now < due - left:
        world.tick(QUIET, dt=1.0)
        world.settle(Prepare="ready")
    return world, due


@pytest.mark.parametrize(("grace", "left", "wait"), [
    (120.0, 1.0, 30.0), (120.0, 4.0, 30.0), (120.0, 20.0, 30.0), (120.0, 100.0, 0.0), (20.0, 2.0, 20.0),
])  # fmt: skip
@pytest.mark.parametrize("down", [2.0, 8.0, 40.0])
def test_who_asked_while_the_guard_was_away_is_answered_before_it_acts(
    grace: float, left: float, wait: float, down: float
) -> None:
    """A guard that was killed late in a countdown could not be asked: after its return a hold has half a minute, or `grace`."""
    world, due = countdown(grace, left)
    world.restart(down)
    back = world.now
    while not times(world, Go):
        world.tick(BRIDGE, dt=1.0)
        world.settle(Prepare="ready")
    acted = times(world, Go)[0]
    assert acted >= max(due, back + min(wait, grace)) - 1e-3
    assert acted <= max(due, back + min(30.0, grace)) + 3.0


def test_a_hold_in_the_last_second_of_those_ends_the_countdown() -> None:
    """They are there to be asked in."""
    world, _ = countdown(120.0, 2.0)
    world.restart(5.0)
    for _ in range(29):
        world.tick(BRIDGE, dt=1.0)
        world.settle(Prepare="ready")
    assert [effect.done for effect in world.hold(3600.0).effects if isinstance(effect, Answer)] == [True]
    world.run(600.0, QUIET)
    assert not times(world, Go)


@pytest.mark.parametrize("every", [5.0, 12.0, 29.0])
def test_who_kills_the_guard_again_and_again_puts_an_action_off_by_grace_at_most(every: float) -> None:
    """Else whoever can kill it keeps a machine up."""
    world, due = countdown(120.0, 20.0)
    while not times(world, Go):
        world.restart(1.0)
        for _ in range(int(every)):
            world.tick(BRIDGE, dt=1.0)
            world.settle(Prepare="ready")
        assert world.now < due + 600.0
    assert due <= times(world, Go)[0] <= due + 120.0 + every + 3.0


@pytest.mark.parametrize("hole", [0.0, 400.0])
@pytest.mark.parametrize("phase", ["ACTING", "CONFIRMING"])
def test_after_a_hole_the_next_try_is_warned_of_in_full(phase: str, hole: float) -> None:
    """While a request was out nobody looked: who came meanwhile knows of nothing. Without a hole the warning stands."""
    world = until(World(IDLE._replace(fallback=("terminate",), grace=120.0), 1), phase)
    if hole:
        world.tick(Known(0.0, (), 500.0), dt=hole)
    failed, warned, asked = world.now, len(world.times("warning")), len(times(world, Go))
    while len(times(world, Go)) == asked:
        world.settle(**({"Go": "failed"} if phase == "ACTING" else {"Confirm": "failed"}))
        world.tick(QUIET)
        assert world.now < failed + 1000.0
    again = world.times("warning")[warned:]
    assert bool(again) is bool(hole)
    if hole:
        assert times(world, Go)[asked] >= again[-1] + 120.0


@pytest.mark.parametrize("phase", ["ACTING", "CONFIRMING"])
def test_after_a_lost_state_the_next_try_is_warned_of_in_full(phase: str) -> None:
    """I7: the commitments hold the request and its old warning; nobody looked while the guard was away."""
    world = until(World(IDLE._replace(lifetime=100.0, fallback=("terminate",), grace=600.0), 1), phase)
    world.lose_state(down=100.0)
    lost, asked = world.now, len(times(world, Go))
    while len(times(world, Go)) == asked:
        world.tick(QUIET)
        world.settle(Go="failed" if phase == "ACTING" else "never", Confirm="failed")
        assert world.now < lost + 2000.0
    again = [at for at in world.times("warning") if at >= lost]
    assert again, "people are warned anew"
    assert times(world, Go)[asked] >= again[-1] + 600.0


def test_after_a_sleep_and_a_lost_state_the_warning_says_when_the_next_try_may_come() -> None:
    """I9: nobody knows any more when the machine woke up, so `boot_grace` counts from now; the date that people read is that one."""
    rules = {"lifetime": 100.0, "fallback": ("terminate",), "grace": 600.0, "boot_grace": 700.0}
    world = until(World(IDLE._replace(**rules), 1), "CONFIRMING")  # type: ignore[arg-type]  # durations and names
    world.suspend(300.0)
    world.lose_state(down=100.0)
    told = len(world.times("warning"))
    while len(world.times("warning")) == told:
        world.tick(QUIET)
        world.settle(Confirm="failed")
    at, facts = [(at, one.facts) for at, one in world.effects if isinstance(one, Tell) and one.kind == "warning"][-1]
    started = world.state.core.clocks.started
    assert at + float(str(facts["due_in_seconds"])) == pytest.approx(started + 700.0)
