"""A person's own stop: it is tried, or given up aloud; and whoever asked can see which."""

from itertools import pairwise

import pytest

from costguard.engine import Known, Notice, Veto
from costguard.engine.deadline import Situation
from costguard.engine.effects import Abandon, Answer, Go, Prepare, Tell
from costguard.engine.forecast import next_decision
from costguard.engine.incident import HEARD_WITHIN_SECONDS
from costguard.engine.rules import rules_of
from costguard.engine.state import StopRequest
from tests.engine.world import BASE, BUSY, DARK, QUIET, World

POLICY = BASE._replace(arm_duration=None, unused_after=None, boot_grace=0.0)
KINDS = {"stop": ["stop"] * 4, "command": ["command"]}
"""What is tried where every attempt certainly fails."""


def gos(world: World) -> list[str]:
    return [effect.action for _, effect in world.effects if isinstance(effect, Go)]


def wish(world: World) -> StopRequest:
    found = world.state.core.stop_request
    assert found is not None
    return found


def asked(seen: object = BUSY, **changes: object) -> World:
    """A machine on which a person has just said stop, knowing what the GPUs do."""
    world = World(POLICY._replace(**changes), 1)  # type: ignore[arg-type]  # any fields of the policy
    world.run(60.0, seen)  # type: ignore[arg-type]  # a reading
    world.ask_stop("root (uid 0)")
    assert wish(world) == StopRequest(wish(world).incident, "root (uid 0)", world.state.at)
    return world


def told(world: World, kind: str) -> list[Tell]:
    return [effect for _, effect in world.effects if isinstance(effect, Tell) and effect.kind == kind]


@pytest.mark.parametrize("seen", [BUSY, DARK, QUIET, Known(float("nan"))])
@pytest.mark.parametrize("action", ["stop", "command"])
def test_one_that_failed_is_given_up_aloud_whatever_the_gpus_do(action: str, seen: object) -> None:
    """Asked knowing that work runs: it is tried as often as any, then given up; nobody is promised another attempt."""
    world = asked(seen, kill_action=action, kill_duration=10000.0)
    for _ in range(40):
        world.tick(seen)  # type: ignore[arg-type]  # a reading
        world.settle(Go="failed")
    assert gos(world) == KINDS[action]
    (failed,) = told(world, "failed")
    assert "retry_in_seconds" not in failed.facts
    assert (failed.facts["reason"], failed.facts["owner"]) == ("person", "root (uid 0)")
    assert "cancelled" not in world.kinds()
    assert (wish(world).fate, world.phase()) == ("failed", "WATCHING")
    world.run(8000.0, seen)  # type: ignore[arg-type]  # a reading
    assert gos(world) == KINDS[action]


@pytest.mark.parametrize("seen", [BUSY, QUIET])
def test_that_it_was_given_up_is_told_again_until_somebody_hears(seen: object) -> None:
    """The first messages reach nobody: it stays FAILED, says so, and is told again."""
    world = asked(seen, kill_duration=10000.0)
    while world.phase() != "FAILED":
        world.tick(seen)  # type: ignore[arg-type]  # a reading
        if world.phase() != "FAILED":
            world.settle(Go="failed")
    assert world.last is not None
    assert "given up: run `costguard stop` again" in str(world.last.sentence)
    for fate in ("failed", "failed", "delivered"):
        world.settle(Tell=fate)
        world.run(40.0, seen, answer=False)  # type: ignore[arg-type]  # a reading
    assert len(told(world, "failed")) == 3
    assert world.phase() == "WATCHING"


def test_the_machines_own_rules_go_on_after_one_that_failed() -> None:
    """An idle machine whose stop by hand failed is stopped by the rules, with a warning, and not an hour later."""
    world = asked(QUIET)
    while world.phase() != "FAILED":
        world.tick(QUIET)
        world.settle(Go="failed")
    given_up = world.now
    world.run(500.0, QUIET)
    assert len(gos(world)) == 5
    assert world.times("warning")[0] >= given_up
    assert world.stops()[-1] >= world.times("warning")[0] + POLICY.grace


@pytest.mark.parametrize("failures", [0, 1, 3])
@pytest.mark.parametrize("hole", ["gap", "restart", "restart at once", "suspend", "boot", "lost"])
def test_one_that_the_guard_was_away_for_is_taken_back_aloud(hole: str, failures: int) -> None:
    """Nobody waits for it any more, and the GPUs may work by now: it is asked again, not carried out."""
    world = asked(QUIET)
    while len(gos(world)) < failures or world.phase() == "ACTING":
        world.settle(Go="failed")
        world.tick(QUIET)
    before = len(gos(world))
    assert world.phase() == "WARNING"
    if hole == "gap":
        world.tick(BUSY, dt=3 * 3600.0)
    elif hole.startswith("restart"):
        world.restart(0.5 if hole.endswith("once") else 3 * 3600.0)
    elif hole == "suspend":
        world.suspend(3 * 3600.0)
    elif hole == "boot":
        world.boot()
    else:
        world.lose_state()
    world.run(200.0, BUSY)
    assert len(gos(world)) == before
    kind = "came_back" if hole == "suspend" else "cancelled"
    (back,) = told(world, kind)
    assert (back.facts["reason"], back.facts["owner"]) == ("person", "root (uid 0)")
    assert world.phase() == "WATCHING"
    if hole not in {"boot", "lost"}:
        assert wish(world).fate == "withdrawn"


@pytest.mark.parametrize("dt", [10.0, 15.0, 40.0, 60.0])
def test_a_short_hole_and_a_gpu_that_flickers_take_nothing_back(dt: float) -> None:
    """What was asked for beside work does not go by readings."""
    world = asked(QUIET)
    for reading in (DARK, QUIET, DARK, BUSY):
        world.tick(reading, dt=dt)
        world.settle()
    assert gos(world) == ["stop"]


def test_the_next_action_of_one_goes_out_without_a_warning_though_a_gpu_flickered() -> None:
    """Nothing that a GPU shows stands against it, so nobody is warned of it as of a stop of the machine's own."""
    world = asked(QUIET, fallback=("shutdown",))
    while world.phase() != "CONFIRMING":
        world.tick(QUIET)
        world.settle()
    for reading in (DARK, QUIET):
        world.tick(reading)
        world.settle(Confirm="accepted")
    for _ in range(10):
        world.tick(QUIET)
        world.settle(Confirm="failed")
    assert gos(world)[:2] == ["stop", "shutdown"]
    assert "warning" not in world.kinds()


def test_one_that_is_out_goes_no_further_when_the_guard_was_away() -> None:
    """The request did nothing, as is seen hours later: the fall-back list is not gone down on what works by now."""
    for away in ("gap", "restart", "restart at once", "state lost"):
        world = asked(QUIET, fallback=("shutdown",))
        while world.phase() != "CONFIRMING":
            world.tick(QUIET)
            world.settle()
        if away == "gap":
            world.tick(BUSY, dt=7200.0)
        elif away.startswith("restart"):
            world.restart(0.5 if away.endswith("once") else 7200.0)
        else:
            world.lose_state(7200.0)
        for _ in range(60):
            world.tick(BUSY)
            world.settle(Confirm="failed")
        assert gos(world) == ["stop"]
        assert len(told(world, "failed")) == 1


@pytest.mark.parametrize("kind", ["reboot", "freeze", "stop", "terminate"])
@pytest.mark.parametrize("first", [True, False])
def test_an_announcement_of_the_cloud_does_not_drop_it(kind: str, first: bool) -> None:
    """Whether it comes before the wish or after, people hear of it, and the stop that they asked for is tried."""
    world = World(POLICY, 1)
    world.run(60.0, BUSY)
    announced = Notice(world.now, world.now + 300.0, "maintenance", kind)
    if first:
        world.send(announced)
    world.ask_stop()
    if not first:
        world.send(announced)
    world.run(40.0, BUSY)
    assert gos(world) == ["stop"]
    assert world.kinds().count("notice") == 1


def test_a_tag_goes_on_with_it_and_another_configuration_takes_it_back() -> None:
    """A tag can only make rules milder that a person's stop does not go by; a reload may bring another action."""
    world = asked(BUSY)
    world.tick(BUSY)
    world.reload(world.policy._replace(kill_duration=7200.0), "tags")
    world.run(40.0, BUSY)
    assert gos(world) == ["stop"]
    world = asked(BUSY)
    world.tick(BUSY)
    world.reload(world.policy._replace(kill_action="terminate"))
    world.run(100.0, BUSY)
    assert not gos(world)
    assert len(told(world, "cancelled")) == 1
    assert wish(world).fate == "withdrawn"


def test_a_tag_cancels_a_countdown_of_the_guards_own() -> None:
    """I7: as a reload does; a full window and warning follow."""
    world = World(POLICY, 1)
    while world.phase() != "WARNING":
        world.tick(QUIET)
        world.settle()
    world.reload(world.policy._replace(kill_duration=600.0), "tags")
    assert world.kinds()[-1] == "cancelled"
    changed = world.now
    world.run(1000.0, QUIET)
    assert world.stops()[0] >= changed + 600.0


def test_a_hold_takes_it_back_aloud_and_earlier_holds_stay() -> None:
    """Who holds after the wish knew of it or not: work comes first, and both are told. A stop that failed ends no hold."""
    world = World(POLICY, 1)
    world.run(30.0, QUIET)
    world.hold(5000.0, "bob")
    world.ask_stop()
    world.hold(600.0, "eve")
    assert len(told(world, "cancelled")) == 1
    assert wish(world) == wish(world)._replace(fate="withdrawn", message="eve holds it")
    assert {hold.owner for hold in world.state.core.people.holds} == {"bob", "eve"}
    world.ask_stop()
    for _ in range(30):
        world.tick(QUIET)
        world.settle(Go="failed")
    assert gos(world) == ["stop"] * 4, "a person's stop does not heed holds that were shown"
    world.run(2000.0, QUIET)
    assert gos(world) == ["stop"] * 4, "the guard's own does"


def test_a_hold_that_adds_nothing_to_an_earlier_one_takes_it_back_too() -> None:
    """Who is told that the machine is held must not see it go: an earlier hold alone does not stand against a person's stop."""
    world = World(POLICY, 1)
    world.run(30.0, QUIET)
    world.hold(5000.0, "bob")
    world.ask_stop()
    world.hold(600.0, "bob")
    assert wish(world) == wish(world)._replace(fate="withdrawn", message="bob holds it")
    world.run(100.0, QUIET)
    assert not gos(world)


def test_an_escape_hatch_takes_it_back_aloud() -> None:
    """The tag `costguard = off` appears between the wish and its request."""
    world = asked(BUSY)
    world.vetoes = (Veto("tag", "costguard = off", hatch=True),)
    world.run(40.0, BUSY)
    assert not gos(world)
    (back,) = told(world, "cancelled")
    assert "costguard = off" in str(back.facts["why"])


@pytest.mark.parametrize("how", ["boot", "lost"])
def test_before_the_first_look_it_is_refused(how: str) -> None:
    """What an earlier guard left open is closed first; the asker is told to ask again, and nothing is dropped later."""
    world = asked(QUIET)
    world.boot() if how == "boot" else world.lose_state()
    done = world.ask_stop()
    (answer,) = (effect for effect in done.effects if isinstance(effect, Answer))
    assert not answer.done
    assert "ask again" in answer.message
    world.run(20.0, BUSY)
    world.ask_stop()
    world.run(40.0, BUSY)
    assert gos(world) == ["stop"]


@pytest.mark.parametrize("earlier", [False, True])
def test_one_that_comes_during_the_machines_own_countdown_takes_its_place(earlier: bool) -> None:
    """Also where an earlier one of the same person was taken back: nobody is told that it is under way already."""
    world = World(POLICY, 1)
    world.run(50.0, QUIET)
    if earlier:
        world.ask_stop("bob")
        world.hold(20.0)
    while world.phase() != "WARNING":
        world.tick(QUIET)
        world.settle()
    world.tick(QUIET)
    world.settle()
    before = world.state.core.incident
    assert before is not None
    done = world.ask_stop("ann")
    assert before.attempt.worker in [effect.id for effect in done.effects if isinstance(effect, Abandon)], (
        "it waits for another"
    )
    (answer,) = (effect for effect in done.effects if isinstance(effect, Answer))
    now = world.state.core.incident
    assert (answer.done, answer.message) == (True, "stop begins")
    assert now is not None
    assert (now.reason, now.owner, now.id != before.id) == ("person", "ann", True)
    world.run(20.0, BUSY)
    assert gos(world) == ["stop"]


def test_asking_again_begins_nothing_anew() -> None:
    """Twice in a row is one stop; after one that was given up it is another."""
    world = asked(BUSY)
    before = world.state.core.incident
    done = world.ask_stop("ann")
    assert world.state.core.incident == before
    (answer,) = (effect for effect in done.effects if isinstance(effect, Answer))
    assert answer.done
    assert "root (uid 0) asked for it" in answer.message
    while world.phase() != "WATCHING":
        world.tick(BUSY)
        world.settle(Go="failed")
    world.ask_stop("ann")
    world.run(40.0, BUSY)
    assert gos(world) == ["stop"] * 5
    ids = [effect.incident for _, effect in world.effects if isinstance(effect, Go)]
    assert len(set(ids)) == 2
    assert len({effect.id for _, effect in world.effects if isinstance(effect, Prepare)}) == 5


@pytest.mark.parametrize(
    ("wishes", "fate"),
    [
        ({"Prepare": "refuse"}, "cannot"),
        ({"Go": "refused"}, "cannot"),
        ({"Go": "done"}, "acted"),
        ({"Go": "unknown", "Confirm": "unknown"}, "unknown"),
    ],
)
def test_every_end_can_be_seen_by_who_asked(wishes: dict[str, str], fate: str) -> None:
    """What became of it is kept until the next one, also beside work, where the phase goes on at once."""
    world = asked(BUSY)
    for _ in range(60):
        world.tick(BUSY)
        world.settle(**wishes)
    assert wish(world).fate == fate
    assert world.phase() == "WATCHING"


def test_a_refusal_beside_work_is_told_until_somebody_hears() -> None:
    """Work unlatches DONE, and must not swallow the one message that says why nothing was done."""
    world = asked(BUSY)
    while world.phase() != "DONE":
        world.tick(BUSY)
        world.settle(Prepare="refuse")
    for fate in ("failed", "failed", "delivered"):
        world.settle(Tell=fate)
        world.run(40.0, BUSY, answer=False)
    assert len(told(world, "cannot")) == 3
    assert world.phase() == "WATCHING"


def test_one_that_failed_does_not_make_the_guards_own_retries_rarer() -> None:
    """Its failure is no round of the machine's own back-off."""
    world = World(POLICY, 1, checked=False)
    world.run(30.0, QUIET)
    for _ in range(5):
        world.ask_stop()
        while wish(world).fate == "":
            world.tick(QUIET)
            world.settle(Go="failed")
        world.settle()
    while world.now < 30000.0:
        world.tick(QUIET)
        world.settle(Go="failed")
    own = [
        at
        for at, effect in world.effects
        if isinstance(effect, Tell) and effect.kind == "failed" and effect.facts["reason"] == "idle"
    ]
    assert [round((late - early) / 3600.0) for early, late in pairwise(own)][:2] == [1, 2]


def test_the_forecast_wakes_for_the_end_of_a_stop_that_nobody_heard_of() -> None:
    """What failed beside work, asked for by a person, is let go after an hour: no sleep lasts over that."""
    world = World(BASE._replace(arm_duration=None, unused_after=None, boot_grace=0.0, kill_duration=9000.0), 1)
    world.run(30.0, QUIET)
    world.ask_stop()
    while world.phase() != "DONE":
        world.tick(QUIET)
        world.settle(Prepare="refuse", Tell="never")
    core = world.state.core
    assert core.incident is not None
    assert core.incident.announcement.effect, "nobody has heard of it"
    wakes = next_decision(Situation(world.state, rules_of(world.policy), world.wall, synced=True))
    assert wakes <= core.ending.since + HEARD_WITHIN_SECONDS
