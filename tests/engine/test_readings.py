"""What a reading says: whether it is loud, whether it is more than one weak sign, whether it arms, and whose it is."""

import pytest

from costguard.engine import Device, Known, Policy, Reading
from costguard.engine.rules import rules_of
from costguard.engine.saved import initial
from costguard.engine.tracks import above_arm, is_busy, is_strong, pick
from tests.engine.world import BASE, BUSY, DARK, QUIET, World

NAN, INF = float("nan"), float("inf")
TASK = BASE._replace(kill_action="command")
POWER, MORE_POWER, PCIE = "power 30 W above idle", "power 31 W above idle", "PCIe in 9 MiB/s"


@pytest.mark.parametrize(
    ("load", "loud"), [(0.0, False), (0.049, False), (0.05, True), (1.0, True), (-0.01, True), (NAN, True), (INF, True)]
)
def test_what_is_not_certainly_below_the_threshold_is_loud(load: float, loud: bool) -> None:
    """The threshold itself, too much, and what is no number."""
    assert is_busy(Known(load), rules_of(BASE)) is is_busy(Known(load), rules_of(TASK)) is loud


def test_signs_of_work_are_loud_where_the_machine_ends() -> None:
    """Not for an action that goes by load alone, nor where the owner said so."""
    for policy, loud in ((BASE, True), (TASK, False), (BASE._replace(stop_below_load=True), False)):
        assert is_busy(Known(0.0, (POWER,)), rules_of(policy)) is loud


@pytest.mark.parametrize(
    ("readings", "strong"),
    [
        ((), False), ((QUIET,), False), ((DARK,), False), ((Known(0.0, (POWER,)),), False), ((Known(0.05),), True),
        ((Known(NAN),), True), ((Known(0.049),), False), ((QUIET, BUSY), True), ((BUSY, DARK), True),
        ((Known(0.0, (POWER, PCIE)),), True), ((Known(0.0, (POWER,)), Known(0.0, (PCIE,))), True),
        ((Known(0.0, (POWER,)), Known(0.0, (MORE_POWER,))), False), ((DARK, Known(0.0, (POWER, PCIE))), True),
        ((Known(0.0, ("instance 1: SM 3 %", "instance 2: SM 4 %")),), False),
        ((Known(0.0, ("instance 1: SM 3 %", "instance 1: DRAM 4 %")),), True),
        ((Known(0.0, ("SM 3 %", "instance 1: SM 4 %")),), False),
        ((Known(0.0, ("PCIe in 9 MiB/s", "PCIe out 4 MiB/s")),), False),
    ],
)  # fmt: skip
def test_signs_of_one_kind_are_one_weak_sign(readings: tuple[Reading, ...], strong: bool) -> None:
    """Of whatever GPU or part of one, and however much; a second kind, or load, is more."""
    assert is_strong(readings, rules_of(BASE)) is strong


@pytest.mark.parametrize("aggregate", ["all", "any", "mean"])
@pytest.mark.parametrize(
    ("loads", "highest", "mean"),
    [
        ((0.5, 0.5), False, False), ((0.51, 0.5), True, True), ((0.9, 0.0), True, False), ((0.0, 0.9), True, False),
        ((0.9, None), True, False), ((None, None), False, False), ((NAN, 0.9), True, False), ((0.9, 0.2), True, True),
    ],
)  # fmt: skip
def test_load_above_the_threshold_arms(
    aggregate: str, loads: tuple[float | None, ...], highest: bool, mean: bool
) -> None:
    """The highest of the selected GPUs, or their mean, of which no part may be missing; the threshold itself does not."""
    rules = rules_of(BASE._replace(aggregate=aggregate, arm_threshold=0.5))
    readings = tuple(DARK if load is None else Known(load) for load in loads)
    assert above_arm(readings, (0, 1), rules) is (mean if aggregate == "mean" else highest)
    assert above_arm((*readings, BUSY, BUSY, BUSY), (0, 1), rules) is (mean if aggregate == "mean" else highest)
    assert above_arm(readings, (), rules) is False


KEYS = ("0000:00:00.0", "0000:01:00.0", "0000:02:00.0")
LISTED = (Device(KEYS[0], 0, "GPU-a"), Device(KEYS[1], None, "GPU-b"))
"""Of one the number is not known; of the third nothing is."""


@pytest.mark.parametrize(
    ("wanted", "picked", "lacking"),
    [
        ((), (0, 1, 2), ()), (("0",), (0,), ()), (("GPU-a", KEYS[0]), (0,), ()), (("GPU-b", "0"), (0, 1), ()),
        ((KEYS[2],), (2,), ()), (("1",), (), ("1",)), (("None", ""), (), ("None", "")), (("7", "0", "8"), (0,), ("7", "8")),
    ],
)  # fmt: skip
def test_a_gpu_is_selected_by_any_of_its_names(
    wanted: tuple[str, ...], picked: tuple[int, ...], lacking: tuple[str, ...]
) -> None:
    """Its address, its UUID or its number; a name that fits none is known as such. The end of the machine concerns all."""
    core = initial("b", "i").core._replace(selection=initial("b", "i").core.selection._replace(devices=LISTED))
    for policy, judged in ((BASE, (0, 1, 2)), (TASK, picked)):
        found = pick(core, KEYS, rules_of(policy._replace(gpu_devices=wanted)))
        assert (found.selection.picked, found.selection.judged, found.selection.unmatched) == (picked, judged, lacking)
    nothing = pick(core, (), rules_of(BASE._replace(gpu_devices=wanted)))
    assert (nothing.selection.picked, nothing.selection.judged, nothing.selection.unmatched) == ((), (), wanted)


@pytest.mark.parametrize("soon", [1.0, 10.0, 14.0])
def test_the_first_look_stands_for_an_interval(soon: float) -> None:
    """However soon after its start the guard looks; a GPU that is listed later stands for the time since the look before."""
    policy: Policy = BASE._replace(arm_duration=None)
    world = World(policy, 1, now=1000.0)
    world.tick(QUIET, dt=soon)
    assert world.state.tracks[0].since == world.now - 10.0
    world.keys = (*world.keys, "0000:01:00.0")
    world.tick(QUIET, QUIET, dt=4.0)
    assert [track.since for track in world.state.tracks] == [world.now - 14.0, world.now - 4.0]


def test_a_gpu_that_is_not_listed_any_more_is_unknown_and_keeps_its_place() -> None:
    """And one that moves in the list is the same GPU."""
    world = World(BASE, 3)
    world.run(50.0, QUIET, BUSY, QUIET)
    keys = world.keys
    world.keys = (keys[1], keys[0])
    world.run(20.0, BUSY, QUIET)
    assert world.state.gpus == keys
    assert [(track.busy, track.unknown_since) for track in world.state.tracks] == [
        (False, None),
        (True, None),
        (False, 50.0),
    ]


@pytest.mark.parametrize(("hole", "goes_on"), [(15.0, True), (15.01, False)])
def test_a_host_that_nobody_looked_at_was_not_seen_quiet(hole: float, goes_on: bool) -> None:
    """For longer than an interval and a half, whatever evidence there is for the GPUs."""
    world = World(BASE, 1)
    world.run(100.0, QUIET)
    world.tick(Known(0.0, (), 60.0), dt=hole)
    host = world.state.core.signals.host
    assert host is not None
    assert host.since == (10.0 if goes_on else world.now)


@pytest.mark.parametrize(("load", "warned"), [(0.0, True), (0.04, True), (0.05, False), (-0.02, False)])
def test_a_mean_is_quiet_below_its_threshold(load: float, warned: bool) -> None:
    """Not at it, and not where it is no share."""
    world = World(TASK._replace(aggregate="mean", arm_duration=None, unused_after=None), 2)
    world.run(400.0, Known(load), Known(load))
    assert bool(world.times("warning")) is warned
