"""A guard that is killed while people are being told something leaves it to the next one."""

import pytest

from costguard.config.types import KINDS
from costguard.engine.attempt import ENDS
from costguard.engine.effects import Tell
from costguard.engine.events import Leaving
from costguard.engine.incident import HEARD_WITHIN_SECONDS
from costguard.engine.turn import MADE_ANEW, PENDING_LIMIT, TOLD_AGAIN_WITHIN_SECONDS
from tests.engine.test_acting import IDLE, until
from tests.engine.world import BUSY, DARK, QUIET, World

HOUR = 3600.0


def repeated(world: World) -> list[Tell]:
    """What a guard told for the one before it."""
    return [effect for _, effect in world.effects if isinstance(effect, Tell) and effect.facts.get("told_again")]


def held_in_its_countdown() -> World:
    """People were warned, somebody holds the machine, and the message of that is on its way."""
    world = World(IDLE, 1)
    until(world, "WARNING")
    world.tick(QUIET)
    world.settle()
    world.hold(2 * HOUR)
    return world


def test_a_hold_whose_message_was_on_its_way_is_told_by_the_next_guard() -> None:
    """Else the last that people heard is that the machine will be stopped; with its id, so that nobody gets it twice."""
    world = held_in_its_countdown()
    first = next(effect for _, effect in world.effects if isinstance(effect, Tell) and effect.kind == "held")
    world.restart(down=30.0)
    (again,) = repeated(world)
    told_at = next(at for at, effect in world.effects if effect is first)
    assert again == first._replace(facts={**first.facts, "told_again": True, "told_at": told_at})
    world.restart(down=30.0)
    assert len(repeated(world)) == 2, "that guard was killed as well"


def test_what_arrived_is_not_told_again() -> None:
    """Or was told to nobody: what comes of that is known, too."""
    for status in ("delivered", "failed"):
        world = held_in_its_countdown()
        world.settle(Tell=status)
        world.restart(down=30.0)
        assert repeated(world) == []


def test_a_reload_repeats_nothing() -> None:
    """The worker that tells it goes on."""
    world = held_in_its_countdown()
    world.reload(IDLE._replace(grace=61.0))
    assert repeated(world) == []


@pytest.mark.parametrize(
    ("down", "times"), [(TOLD_AGAIN_WITHIN_SECONDS - 60.0, 1), (TOLD_AGAIN_WITHIN_SECONDS + 60.0, 0)]
)
def test_what_is_old_is_no_news(down: float, times: int) -> None:
    """Nobody knows by then who has it."""
    world = held_in_its_countdown()
    world.restart(down=down)
    assert len(repeated(world)) == times


def test_an_alarm_that_nobody_got_is_told_again() -> None:
    """Its next turn is a day away."""
    world = World(IDLE._replace(unknown_alarm=100.0), 1)
    world.run(50.0, QUIET)
    while "unknown_alarm" not in world.kinds():
        world.tick(DARK)
    world.restart(down=5.0)
    assert [effect.kind for effect in repeated(world)] == ["unknown_alarm"]


def test_a_countdown_is_told_by_its_own_rules() -> None:
    """The next guard warns anew, and says itself what came of a request."""
    world = World(IDLE, 1)
    until(world, "WARNING")
    world.restart(down=5.0)
    assert repeated(world) == []
    assert {"warning", "failed", *ENDS.values()} <= MADE_ANEW <= set(KINDS) | {"countdown"}


def test_what_is_kept_has_a_bound() -> None:
    """Whoever asks a thousand times fills no state."""
    world = World(IDLE, 1)
    world.run(50.0, QUIET)
    for number in range(3 * PENDING_LIMIT):
        world.hold(600.0 + 60.0 * number, f"user{number}", uid=1000 + number)
    assert len(world.state.core.pending_messages) <= PENDING_LIMIT


def requested() -> World:
    """The request was accepted; neither that it leaves nor that has reached anybody yet."""
    world = until(World(IDLE, 1), "ACTING")
    return until(world, "CONFIRMING", Tell="never")


def test_that_a_request_was_accepted_is_told_by_the_next_guard() -> None:
    """The machine may be gone before more is known: its last words would be the warning."""
    world = requested()
    for times in (1, 2):
        world.restart(down=3.0)
        assert [effect.kind for effect in repeated(world)] == ["accepted"] * times
    world.settle(Confirm="never")
    world.restart(down=3.0)
    assert len(repeated(world)) == 2, "it has arrived"


def test_that_it_is_being_run_is_not_told_again() -> None:
    """By then it may be over: the next guard asks, and tells first that it does, then how it ended."""
    world = until(World(IDLE, 1), "ACTING", Tell="never")
    world.restart(down=5.0)
    assert world.kinds()[-2:] == ["acting", "asking"]
    until(world, "DONE", Confirm="done")
    assert world.kinds()[-2:] == ["asking", "done"]
    assert repeated(world) == []


def test_of_a_request_only_the_last_word_is_told_again() -> None:
    """That it was accepted is no news once the machine is seen on its way down; and nothing of it is, once its end is known."""
    world = requested()
    while "stopping" not in world.kinds():
        world.tick(QUIET)
        world.settle(Tell="never", Confirm="pending")
    world.restart(down=3.0)
    assert [effect.kind for effect in repeated(world)] == ["stopping"]
    ended = until(requested(), "DONE", Tell="never", Confirm="done")
    ended.restart(down=3.0)
    assert repeated(ended) == []


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize(
    ("fate", "phase", "end"),
    [("refused", "DONE", "cannot"), ("unknown", "DONE", "outcome_unknown"), ("failed", "FAILED", "failed")],
)
def test_work_does_not_hide_what_became_of_a_request(fate: str, phase: str, end: str, killed: bool) -> None:
    """Else the last that people heard is that the machine is being stopped, while it works and costs on."""
    world = until(World(IDLE, 1), phase, Go=fate, Confirm="unknown")
    if killed:
        world.restart(down=5.0)
    world.run(30.0, BUSY, answer=False)
    assert world.phase() == phase, "nobody has heard of it"
    assert world.kinds().count(end) == 1 + killed
    world.run(30.0, BUSY)
    assert world.phase() == "WATCHING"


def test_work_waits_an_hour_for_people_to_hear_of_an_end() -> None:
    """Then it is watched again, though nobody knows what became of the message."""
    world = until(World(IDLE, 1), "DONE", Go="refused")
    world.run(HEARD_WITHIN_SECONDS - 30.0, BUSY, answer=False)
    assert world.phase() == "DONE"
    world.run(60.0, BUSY, answer=False)
    assert world.phase() == "WATCHING"


def test_that_nobody_carries_a_countdown_out_is_told_also_where_the_warning_failed() -> None:
    """A worker that died may have delivered it."""
    world = until(World(IDLE, 1), "WARNING")
    world.settle(Tell="failed")
    world.send(Leaving(world.now))
    assert world.kinds()[-1] == "unguarded"


def test_that_nobody_carries_the_next_action_out_is_told_also_before_its_warning() -> None:
    """People know that it follows; after a hole they are to be warned of it in full, and were not yet."""
    world = until(World(IDLE._replace(fallback=("shutdown",)), 1), "CONFIRMING")
    world.restart(down=300.0)
    world.tick(QUIET)
    world.settle(Confirm="failed")
    assert world.kinds()[-1] == "next_action"
    world.send(Leaving(world.now))
    assert world.kinds()[-1] == "unguarded"
