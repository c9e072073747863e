"""What senses see keeps a machine up, in words and within bounds; what they cannot see does so too, and is told."""

import pytest

from costguard.engine import Policy, Veto
from costguard.engine.effects import Tell
from costguard.engine.invariants import InvariantError, check
from costguard.engine.rules import rules_of
from tests.engine.world import BASE, BUSY, DARK, QUIET, World

HOUR, DAY = 3600.0, 86400.0
TYPED = Veto("terminals", "ann on pts/3 typed", sense=True, lets_go="30 min without input")
TRAFFIC = Veto("traffic", "eth0 receives more than 1 MB/s", sense=True, lets_go="5 min of quiet")
UNSEEN = Veto("terminals", "cannot be seen: /proc hides the processes of other users", sense=True, unknown=True)
NODE = Veto("cluster", "slurmd runs", hatch=True, sense=True)
RULES = BASE._replace(price_per_hour=36.0, unused_after=None, kept_told_after=2 * HOUR)


def idle(*vetoes: Veto, policy: Policy = RULES) -> World:
    """Work has ended a window ago, and senses see this."""
    world = World(policy)
    world.run(200.0, BUSY, BUSY)
    world.vetoes = vetoes
    world.run(policy.kill_duration - 10.0, QUIET, QUIET)
    return world


def told(world: World, kind: str) -> list[Tell]:
    return [effect for _, effect in world.effects if isinstance(effect, Tell) and effect.kind == kind]


@pytest.mark.parametrize("veto", [TYPED, TRAFFIC, UNSEEN, NODE])
def test_nothing_stops_what_a_sense_keeps_up(veto: Veto) -> None:
    """Whether somebody works or that cannot be seen; the end of it begins a warning with its whole countdown."""
    world = idle(veto)
    world.run(HOUR)
    assert "warning" not in world.kinds()
    assert world.stops() == []
    world.vetoes = ()
    ended = world.now
    world.run(120.0)
    (warned,) = world.times("warning")
    assert warned == ended + world.policy.interval
    assert world.stops()[0] >= warned + world.policy.grace


def test_somebody_who_comes_during_the_countdown_ends_it() -> None:
    """With who it was."""
    world = idle()
    world.run(40.0)
    assert world.phase() == "WARNING"
    world.vetoes = (UNSEEN, TYPED)
    world.tick()
    assert world.phase() == "WATCHING"
    (cancelled,) = told(world, "cancelled")
    assert cancelled.facts["why"] == "ann on pts/3 typed"


def test_what_cannot_be_seen_blocks_a_countdown_and_does_not_end_it() -> None:
    """As a GPU that cannot be read: the action waits, and comes once that is seen."""
    world = idle()
    world.run(30.0)
    world.vetoes = (UNSEEN,)
    world.run(100.0)
    assert (world.phase(), world.stops()) == ("WARNING", [])
    world.vetoes = ()
    world.run(10.0)
    assert len(world.stops()) == 1


def test_what_a_sense_cannot_see_is_told_as_any_unknown() -> None:
    """I6: with the sense and why, after `unknown_alarm`, and again; and that it is over."""
    world = idle(UNSEEN)
    due = world.now
    world.run(10 * 120.0)
    alarms = world.times("unknown_alarm")
    assert [at - due for at in alarms] == pytest.approx([120.0, 240.0, 480.0, 960.0], abs=20.0)
    facts = told(world, "unknown_alarm")[0].facts
    assert facts["unknown_senses"] == [["terminals", UNSEEN.reason]]
    assert facts["unknown_gpus"] == []
    assert facts["money"] == pytest.approx(1.2, abs=0.2)
    world.vetoes = ()
    world.run(20.0)
    assert len(world.times("unknown_recovered")) == 1


@pytest.mark.parametrize("vetoes", [(UNSEEN, TYPED), (TYPED, UNSEEN)])
def test_beside_somebody_who_works_the_unknown_delays_nothing(vetoes: tuple[Veto, ...]) -> None:
    """Nobody is bothered with it: the machine is needed."""
    world = idle(*vetoes)
    world.run(HOUR)
    assert world.times("unknown_alarm") == []


def test_unknown_and_busy_gpus_are_no_matter_of_senses() -> None:
    """While a GPU works nothing is delayed by what a sense cannot see."""
    world = World(RULES)
    world.vetoes = (UNSEEN,)
    world.run(HOUR, BUSY, QUIET)
    assert world.times("unknown_alarm") == []


def test_who_keeps_a_machine_up_for_long_is_told_then_daily() -> None:
    """With who it is, for how long, what would end it and what it cost; scattered activity counts as one."""
    world = idle(TYPED)
    due = world.now + 10.0
    world.checked = False
    world.run(HOUR)
    world.vetoes = (TRAFFIC,)
    world.run(2.5 * DAY, answer=False, dt=15.0)
    first, *later = world.times("kept_up")
    assert first - due == pytest.approx(2 * HOUR, abs=30.0)
    assert later == pytest.approx([first + DAY, first + 2 * DAY], abs=30.0)
    facts = told(world, "kept_up")[0].facts
    assert facts["keepers"] == [["traffic", TRAFFIC.reason, TRAFFIC.lets_go]]
    assert facts["kept_seconds"] == pytest.approx(2 * HOUR, abs=30.0)
    assert facts["money"] == pytest.approx(72.0, abs=1.0)


def test_a_node_of_a_cluster_is_told_too() -> None:
    """It is never stopped, and the bill goes on."""
    world = idle(NODE)
    world.run(2.1 * HOUR)
    assert len(world.times("kept_up")) == 1


def test_a_pause_of_the_activity_is_no_end_of_it() -> None:
    """Vetoes that are gone for less than a countdown: nobody was stopped, so it goes on."""
    world = idle(TYPED)
    for _ in range(14):
        world.run(570.0)
        world.vetoes = ()
        world.run(30.0)
        world.vetoes = (TYPED,)
    assert len(world.times("kept_up")) == 1


def test_work_of_a_gpu_begins_the_time_anew_and_a_burst_does_not() -> None:
    """Not told of a machine whose GPUs work now and then."""
    world = idle(TYPED)
    for _ in range(6):
        world.run(HOUR)
        world.run(120.0, BUSY, QUIET)
        world.run(300.0, QUIET, QUIET)
    assert world.times("kept_up") == []
    world = idle(TYPED, policy=RULES._replace(window_share=0.1))
    for _ in range(8):
        world.run(0.3 * HOUR, QUIET, QUIET)
        world.run(10.0, BUSY, QUIET)
    assert len(world.times("kept_up")) == 1


@pytest.mark.parametrize("veto", [TYPED, UNSEEN])
def test_the_owner_may_bound_what_senses_hold(veto: Veto) -> None:
    """After `at_most` without GPU work the machine is warned of and stopped; work of a GPU gives the power back."""
    world = idle(veto, policy=RULES._replace(kept_at_most=HOUR))
    due = world.now + 10.0
    world.run(HOUR)
    assert "warning" not in world.kinds()
    world.run(100.0)
    (warned,) = world.times("warning")
    assert warned - due == pytest.approx(HOUR, abs=30.0)
    assert len(world.stops()) == 1
    world = idle(veto, policy=RULES._replace(kept_at_most=HOUR))
    world.run(0.9 * HOUR)
    world.run(60.0, BUSY, QUIET)
    world.run(0.9 * HOUR, QUIET, QUIET)
    assert "warning" not in world.kinds()


def test_no_bound_goes_round_a_cluster_or_a_tag() -> None:
    """A node of a scheduler, and what the owner forbids, are never stopped behind anybody's back."""
    world = idle(NODE, Veto("instance tag", "costguard = off", hatch=True), policy=RULES._replace(kept_at_most=HOUR))
    world.run(3 * HOUR)
    assert "warning" not in world.kinds()


def test_unknown_gpus_do_not_begin_the_time_anew() -> None:
    """A GPU that cannot be read now and then is no work."""
    world = idle(TYPED)
    for _ in range(8):
        world.run(0.25 * HOUR, QUIET, QUIET)
        world.run(20.0, DARK, QUIET)
        world.run(300.0, QUIET, QUIET)
    assert len(world.times("kept_up")) == 1


def test_it_is_remembered_over_a_restart() -> None:
    """The time since it would have been stopped goes on."""
    world = idle(TYPED)
    world.run(1.5 * HOUR)
    world.restart(5.0)
    world.run(0.7 * HOUR)
    assert len(world.times("kept_up")) == 1


def test_nothing_acts_against_a_sense() -> None:
    """The last line of defence: a step that would is refused."""
    world = idle()
    world.run(60.0, answer=True)
    before = world.state
    while not world.stops():
        before = world.state
        world.run(10.0)
    effects = world.last.effects if world.last is not None else ()
    go = [effect for _, effect in world.effects if type(effect).__name__ == "Go"]
    assert go
    assert effects is not None
    for veto in (TYPED, UNSEEN):
        after = before._replace(at=world.state.at, core=before.core._replace(vetoes=(veto,)))
        with pytest.raises(InvariantError, match="sense"):
            check(before, after, go, rules_of(world.policy))


def test_the_sentence_names_who_and_what_would_let_it_go() -> None:
    """Cause and next step; more than one are counted."""
    world = idle(TYPED)
    world.run(30.0)
    assert str(world.last.sentence) == (  # type: ignore[union-attr]  # it has ticked
        "ARMED: ann on pts/3 typed; kept up until 30 min without input, then warning and stop 1m later."
    )
    world.vetoes = (TRAFFIC, TYPED)
    world.tick()
    assert "eth0 receives more than 1 MB/s (and 1 more); kept up until 5 min of quiet" in str(world.last.sentence)  # type: ignore[union-attr]  # as above
    world.vetoes = (UNSEEN,)
    world.tick()
    assert "kept up until terminals can be seen" in str(world.last.sentence)  # type: ignore[union-attr]  # as above
    world.vetoes = (UNSEEN, UNSEEN._replace(source="ssh"))
    world.tick()
    assert "kept up until terminals can be seen" in str(world.last.sentence)  # type: ignore[union-attr]  # as above
    world.vetoes = (UNSEEN, TRAFFIC, TYPED)
    world.tick()
    assert "(and 2 more); kept up until 5 min of quiet" in str(world.last.sentence)  # type: ignore[union-attr]  # as above
    other = Veto("a hook", "the backup runs")
    world.vetoes = (TRAFFIC, other)
    world.tick()
    assert "(and 1 more); kept up until 5 min of quiet" in str(world.last.sentence)  # type: ignore[union-attr]  # as above
    world.vetoes = (other, TRAFFIC)
    world.tick()
    assert "more)" not in str(world.last.sentence)  # type: ignore[union-attr]  # as above
