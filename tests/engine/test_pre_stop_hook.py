"""What the pre-stop hook does itself on the GPUs is not work; what goes on after it is."""

import pytest

from costguard.engine import Known, Policy
from costguard.engine.effects import Go, Prepare, Tell
from costguard.engine.observation import Reading, Unknown
from costguard.engine.state import Incident, Verdict
from tests.engine.world import BASE, BUSY, QUIET, World, reloaded

ARMED = BASE._replace(arm_duration=None, boot_grace=0.0, unused_after=None, kill_duration=300.0, grace=90.0)
UNBROKEN = ARMED._replace(window_rule="unbroken")
SIGN = Known(0.0, signs=("power 120 W",))


def preparing(policy: Policy = UNBROKEN, gpus: int = 1) -> tuple[World, str]:
    """A countdown whose worker was started and has not said anything."""
    world = World(policy, gpus)
    while not any(isinstance(effect, Prepare) for effect in world.pending.values()):
        world.settle()
        world.tick(*[QUIET] * gpus)
    (attempt,) = [effect.id for effect in world.pending.values() if isinstance(effect, Prepare)]
    return world, attempt


def released(world: World) -> list[float]:
    return [at for at, effect in world.effects if isinstance(effect, Go)]


def incident_of(world: World) -> Incident:
    incident = world.state.core.incident
    assert incident is not None
    return incident


@pytest.mark.parametrize("load", [BUSY, SIGN])
def test_a_hook_may_use_the_gpus_and_the_machine_stops_in_this_countdown(load: Reading) -> None:
    """Else it would save its work again and again, an idle window apart, and the bill would never end."""
    world, attempt = preparing()
    world.answer(attempt, "saving")
    world.run(60.0, load, answer=False)
    assert world.phase() == "WARNING"
    assert "the pre-stop hook is saving work" in str(world.last.sentence if world.last else "")
    world.answer(attempt, "ready")
    ended = world.now
    world.tick(load)
    world.run(60.0, QUIET)
    (at,) = released(world)
    assert 30.0 <= at - ended <= 50.0, "it waits until the GPUs have settled, and no longer"


@pytest.mark.parametrize("load", [BUSY, SIGN, Known(float("nan"))])
def test_work_that_goes_on_after_the_hook_ends_the_countdown(load: Reading) -> None:
    """Who began to work while the hook ran is not stopped."""
    world, attempt = preparing()
    world.answer(attempt, "saving")
    world.run(30.0, load, answer=False)
    world.answer(attempt, "ready")
    world.run(60.0, load)
    assert (world.phase(), released(world)) == ("WATCHING", [])
    assert "cancelled" in world.kinds()


@pytest.mark.parametrize("gpus", [1, 2])
@pytest.mark.parametrize("together", ["all", "mean"])
def test_work_that_outlasts_the_hook_counts_from_the_beginning_of_the_hook(gpus: int, together: str) -> None:
    """I1: a window that tolerates bursts must not take the end of longer work, whose beginning hid behind the hook, for one."""
    shared = ARMED._replace(window_share=0.3, aggregate=together, kill_action="command", kill_threshold=0.1)
    world, attempt = preparing(shared, gpus)
    world.answer(attempt, "saving")
    world.run(60.0, *[BUSY] * gpus, answer=False)
    world.answer(attempt, "ready")
    world.run(50.0, *[BUSY] * gpus)
    world.run(60.0, *[QUIET] * gpus)
    assert (world.phase(), released(world)) == ("WATCHING", []), "110 s of work, and 90 s are tolerated"


def test_before_the_hook_begins_and_without_one_work_counts() -> None:
    """Nothing else is there that could use the GPUs than what must not be stopped."""
    world, attempt = preparing()
    world.tick(BUSY)
    assert world.phase() == "WATCHING"
    world, attempt = preparing()
    world.answer(attempt, "ready")
    world.tick(BUSY)
    assert world.phase() == "WATCHING"


def test_a_gpu_that_cannot_be_read_blocks_whatever_the_hook_does() -> None:
    """Unknown is never idle: the pardon is for what was read."""
    world, attempt = preparing(gpus=2)
    world.answer(attempt, "saving")
    world.run(20.0, BUSY, Unknown("NVML said 999"), answer=False)
    world.answer(attempt, "ready")
    world.run(60.0, QUIET, Unknown("NVML said 999"))
    assert released(world) == []


def test_a_gpu_that_worked_before_the_hook_works_on() -> None:
    """A deadline that stops although work goes on must not make it look idle, then or later."""
    policy = UNBROKEN._replace(lifetime=600.0, stop_busy=True)
    world = World(policy, 2)
    while not any(isinstance(effect, Prepare) for effect in world.pending.values()):
        world.settle()
        world.tick(QUIET, BUSY)
    (attempt,) = [effect.id for effect in world.pending.values() if isinstance(effect, Prepare)]
    world.answer(attempt, "saving")
    world.run(20.0, BUSY, BUSY, answer=False)
    quiet, busy = world.state.tracks
    assert (quiet.busy, busy.busy) == (False, True)


def test_a_hook_that_never_ends_is_pardoned_for_its_longest_time_alone() -> None:
    """Nobody heard of its end: the worker hangs, or its words were lost."""
    world, attempt = preparing(UNBROKEN._replace(grace=900.0))
    world.answer(attempt, "saving")
    began = world.now
    while world.phase() == "WARNING" and world.now < began + 400.0:
        world.tick(BUSY)
    assert 200.0 <= world.now - began <= 230.0


def test_the_pardon_ends_with_the_worker_and_is_given_once() -> None:
    """A hook runs once for an incident, so no later try has one to pardon."""
    world, attempt = preparing(UNBROKEN._replace(grace=900.0))
    world.answer(attempt, "saving")
    world.tick(BUSY)
    world.answer(attempt, "failed")
    ended = incident_of(world).hook_ended
    world.run(40.0, QUIET)  # the next try
    assert incident_of(world).attempt.ready
    assert incident_of(world).hook_ended == ended, "a later word of a worker prolongs nothing"
    world.tick(BUSY)
    assert world.phase() == "WATCHING"


def test_a_stop_by_hand_does_not_wait_until_the_gpus_have_settled() -> None:
    """Nothing that they show stands against it: it goes out with the first look after its worker is ready."""
    world = World(UNBROKEN, 1)
    world.tick(BUSY)
    world.ask_stop()
    world.tick(BUSY)
    (attempt,) = [effect.id for effect in world.pending.values() if isinstance(effect, Prepare)]
    world.answer(attempt, "saving")
    world.tick(BUSY)
    assert released(world) == []
    world.answer(attempt, "ready")
    world.tick(BUSY, dt=1.0)
    assert released(world) == [world.now]


def test_a_restart_ends_it_for_the_hook_died_with_its_worker() -> None:
    """What works after that is somebody else."""
    world, attempt = preparing(UNBROKEN._replace(grace=900.0))
    world.answer(attempt, "saving")
    world.tick(BUSY)
    world.restart(down=1.0)
    assert incident_of(world).hook_ended == world.now
    world.run(40.0, QUIET)
    world.tick(BUSY)
    assert world.phase() == "WATCHING"


def test_load_of_the_hook_neither_arms_nor_forgives_nor_is_told_as_a_sign() -> None:
    """What is no work is none for any rule."""
    policy = BASE._replace(boot_grace=0.0, unused_after=300.0, window_rule="unbroken", arm_duration=30.0)
    world = World(policy, 1)
    while not any(isinstance(effect, Prepare) for effect in world.pending.values()):
        world.settle()
        world.tick(QUIET)
    (attempt,) = [effect.id for effect in world.pending.values() if isinstance(effect, Prepare)]
    world.answer(attempt, "saving")
    world.run(120.0, BUSY, answer=False)
    assert world.state.core.signals.armed_at is None
    world.answer(attempt, "ready")
    world.tick(BUSY)
    world.run(60.0, QUIET)
    assert len(released(world)) == 1
    assert not [e for _, e in world.effects if isinstance(e, Tell) and e.kind == "weak_sign"]


def test_a_check_in_between_does_not_hide_that_the_hook_failed() -> None:
    """It says nothing of the hook; and the failure is told with what was done, too."""
    world, attempt = preparing()
    failed = ("hook_failed", "the pre-stop hook failed", "")
    world.answer(attempt, "saving")
    world.answer(attempt, "ready", findings=(failed,))
    plans = world.state.core.plans.with_verdict(Verdict("stop", "go", (), world.now))
    world.state = world.state._replace(core=world.state.core._replace(plans=plans))
    world.state = reloaded(world.state)
    while "acting" not in world.kinds():
        world.tick(QUIET)
    acting = next(effect.facts for _, effect in world.effects if isinstance(effect, Tell) and effect.kind == "acting")
    assert acting["findings"] == [list(failed)]


@pytest.mark.parametrize("held", [False, True])
def test_that_a_hook_failed_is_told_of_its_own_incident_alone(held: bool) -> None:
    """The next warning knows nothing yet of what its hook will do."""
    world, attempt = preparing()
    failed, other = ("hook_failed", "the pre-stop hook failed", ""), ("disk", "it stays", "")
    world.answer(attempt, "saving")
    world.answer(attempt, "ready", findings=(failed, other))
    if held:
        world.hold(30.0)
    for _ in range(12):
        world.tick(QUIET)
        world.settle(Prepare="never")
    told = {e.kind: e.facts["findings"] for _, e in world.effects if isinstance(e, Tell) and "findings" in e.facts}
    expected = [list(other)] if held else [list(other), list(failed)]
    assert told["warning" if held else "acting"] == expected
