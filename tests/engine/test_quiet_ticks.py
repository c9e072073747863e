"""A tick that changes nothing copies nothing: whatever the GPUs do, as long as they go on with it."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from costguard.engine import Known, Observation, Policy, Reading, Tick, Veto, step
from tests.engine.world import BASE, BUSY, DARK, EPOCH, QUIET, World

LONG = BASE._replace(kill_duration=7200.0, unused_after=None)
SIGN = Known(0.0, ("power 90 W above idle",))


@dataclass(frozen=True)
class Stretch:
    """Something that goes on, and under which rules."""

    readings: tuple[Reading, ...]
    policy: Policy = LONG
    vetoes: tuple[Veto, ...] = ()
    quiet_host: bool | None = True
    first: Callable[[World], object] = World.settle
    """What happened before, after five minutes of the same."""

    heard: bool = True
    """Whether somebody hears what is told."""


def done(world: World) -> None:
    """A person's stop came to its end."""
    world.ask_stop()
    while world.phase() != "DONE":
        world.tick()
        world.settle()


def done_long_ago(world: World) -> None:
    done(world)
    world.run(7200.0)


def done_unheard(world: World) -> None:
    world.ask_stop()
    while world.phase() != "DONE":
        world.tick()
    world.pending = {}


DUE = LONG._replace(lifetime=100.0, arm_duration=None, boot_grace=0.0)
TOLD = LONG._replace(arm_duration=None, mode="dry-run")

STRETCHES = {
    "work": Stretch((BUSY, BUSY)),
    "work on one": Stretch((BUSY, QUIET)),
    "quiet, never armed": Stretch((QUIET, QUIET)),
    "quiet, armed from the start": Stretch((QUIET, QUIET), LONG._replace(arm_duration=None)),
    "quiet, for a command": Stretch((QUIET, QUIET), LONG._replace(kill_action="command")),
    "any": Stretch((BUSY, BUSY), LONG._replace(kill_action="command", aggregate="any")),
    "a lease": Stretch((BUSY, BUSY), LONG._replace(lease_until=EPOCH + 9e5)),
    "a budget": Stretch((BUSY, BUSY), LONG._replace(budget=9e5, price_per_hour=1.0)),
    "a lifetime": Stretch((BUSY, BUSY), LONG._replace(lifetime=9e5)),
    "signs": Stretch((SIGN, BUSY)),
    "two kinds of signs": Stretch((Known(0.0, ("power 90 W above idle", "PCIe in 9 MiB/s")), QUIET)),
    "load at the threshold": Stretch((Known(0.05), QUIET), LONG._replace(arm_threshold=0.5)),
    "a veto": Stretch((QUIET, QUIET), vetoes=(Veto("host", "somebody types"),)),
    "a sense sees somebody": Stretch((QUIET, QUIET), vetoes=(Veto("host", "ann typed", sense=True, lets_go="rest"),)),
    "a sense cannot see": Stretch((QUIET, QUIET), vetoes=(Veto("host", "cannot be seen", sense=True, unknown=True),)),
    "a busy host": Stretch((QUIET, QUIET), quiet_host=False),
    "load between two thresholds": Stretch((Known(0.3), QUIET), LONG._replace(arm_threshold=0.5)),
    "unknown": Stretch((DARK, QUIET), LONG._replace(unknown_alarm=9e5)),
    "a mean that does not arm": Stretch((BUSY, QUIET), LONG._replace(aggregate="mean", arm_threshold=0.6)),
    "one selected": Stretch((QUIET, BUSY), LONG._replace(gpu_devices=("0",))),
    "arming": Stretch((BUSY, BUSY), LONG._replace(arm_duration=9e5)),
    "after a sleep": Stretch((BUSY, BUSY), first=lambda world: world.suspend(5000.0)),
    "after a set clock": Stretch((BUSY, BUSY), first=lambda world: setattr(world, "wall", 9e8)),
    "held": Stretch((QUIET, QUIET), LONG._replace(arm_duration=None), first=lambda world: world.hold(9000.0)),
    "announced": Stretch((QUIET, QUIET), LONG._replace(arm_duration=None), first=lambda world: world.notice(500.0)),
    "done": Stretch((QUIET, QUIET), TOLD, first=done),
    "done long after idle": Stretch((QUIET, QUIET), TOLD._replace(kill_duration=100.0), first=done),
    "done long ago": Stretch((QUIET, QUIET), TOLD, first=done_long_ago),
    "done, and nobody heard": Stretch((QUIET, QUIET), TOLD, first=done_unheard, heard=False),
    "unknown that is over": Stretch(
        (QUIET, QUIET),
        LONG._replace(arm_duration=None, unknown_alarm=900.0, kill_duration=4000.0),
        first=lambda world: world.run(4500.0, DARK, QUIET),
    ),
    "a deadline has passed, and work": Stretch((BUSY, BUSY), DUE),
    "a weak sign that was told": Stretch((SIGN, QUIET), LONG._replace(kill_duration=100.0)),
    "a weak sign and load": Stretch((SIGN, QUIET), first=lambda world: world.run(100.0, BUSY, QUIET)),
    "unknown that was told": Stretch((DARK, QUIET), LONG._replace(unknown_alarm=4000.0, kill_duration=100.0)),
}


@pytest.mark.parametrize("name", STRETCHES)
def test_what_goes_on_costs_nothing(name: str) -> None:
    """Of an hour nearly every tick; the engine's whole memory but the time is the very same object."""
    stretch = STRETCHES[name]
    world = World(stretch.policy, 2, checked=False)
    world.vetoes, world.quiet_host = stretch.vetoes, stretch.quiet_host
    world.devices()
    world.run(300.0, *stretch.readings)
    stretch.first(world)
    kept = 0
    for _ in range(360):
        before = world.state
        world.tick(*stretch.readings)
        if stretch.heard:
            world.settle()
        kept += world.state.core is before.core and world.state.tracks is before.tracks
    assert kept >= 350, name


def test_what_stayed_under_one_policy_is_judged_anew_under_another() -> None:
    """The same objects, tick for tick: only the threshold is another one."""
    loose, strict = LONG._replace(kill_threshold=0.05), LONG._replace(kill_threshold=0.02)
    world = World(loose, 1, checked=False)
    world.run(100.0, Known(0.03))
    assert not world.state.tracks[0].busy
    seen = Observation(world.keys, world.readings, (), True)
    state = step(world.state, Tick(world.now + 10.0, seen, world.wall + 10.0, 0.0, True), loose).state
    state = step(state, Tick(world.now + 20.0, seen, world.wall + 20.0, 0.0, True), strict).state
    assert state.tracks[0].busy
