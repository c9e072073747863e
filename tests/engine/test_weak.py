"""One weak sign of work alone keeps a machine up, and people are told so."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costguard.engine import Known, Policy, Reading
from costguard.engine.effects import Tell
from tests.engine.world import BASE, BUSY, DARK, QUIET, World

DAY = 86400.0
POWER = Known(0.0, ("power 30 W above idle",), 60.0)
MORE_POWER = Known(0.01, ("power 31 W above idle",), 60.0)
PCIE = Known(0.0, ("PCIe in 9 MiB/s",), 60.0)
PCIE_OUT = Known(0.0, ("PCIe out 9 MiB/s", "PCIe in 4 MiB/s"), 60.0)
TWO = Known(0.0, ("power 30 W above idle", "PCIe in 9 MiB/s"), 60.0)
PART = Known(0.0, ("instance 1: SM 3 %", "instance 2: SM 4 %"), 60.0)
PRICED = BASE._replace(price_per_hour=36.0, unused_after=None)


def armed(policy: Policy = PRICED, gpus: int = 2) -> World:
    """Work has just ended."""
    world = World(policy, gpus)
    world.run(400.0, *[BUSY] * gpus)
    return world


def told(world: World) -> list[float]:
    return [at for at, effect in world.effects if isinstance(effect, Tell) and effect.kind == "weak_sign"]


@pytest.mark.parametrize("sign", [POWER, PCIE_OUT, PART])
def test_one_sign_alone_is_told_after_a_whole_window_and_then_daily(sign: Reading) -> None:
    """With the GPU, the sign, for how long, and what that cost; never stopped."""
    world = armed()
    world.run(290.0, QUIET, sign)
    assert told(world) == []
    world.run(30.0)
    (first,) = told(world)
    assert 700.0 <= first <= 720.0
    facts = next(e.facts for _, e in world.effects if isinstance(e, Tell) and e.kind == "weak_sign")
    assert (facts["gpu"], facts["sign"]) == (world.keys[1], sign.signs[0] if isinstance(sign, Known) else "")
    assert facts["weak_seconds"] == pytest.approx(300.0, abs=15.0)
    assert facts["money"] == pytest.approx(3.0, abs=0.2)
    world.checked = False
    world.run(2.5 * DAY, answer=False)
    assert told(world) == [first, first + DAY, first + 2 * DAY]
    assert "warning" not in world.kinds()


@pytest.mark.parametrize("readings", [(TWO, QUIET), (POWER, PCIE), (Known(0.06), POWER), (BUSY, QUIET)])
def test_more_than_one_sign_is_work(readings: tuple[Reading, ...]) -> None:
    """Two kinds of signs, of one GPU or of two, or load: somebody works, and nobody is bothered."""
    world = armed()
    world.run(3000.0, *readings)
    assert told(world) == []


def test_load_after_a_weak_sign_is_said_to_be_work() -> None:
    """A process begins, which draws power before it computes: what it does then is no weak sign."""
    world = armed()
    world.run(60.0, QUIET, POWER)
    assert "only a weak sign of work, and no load" in str(world.last and world.last.sentence)
    world.run(30.0, QUIET, BUSY)
    assert "is busy; work is never stopped; stop needs 5m below 5 %." in str(world.last and world.last.sentence)
    world.run(10.0, QUIET, POWER)
    assert "only a weak sign of work, and no load" in str(world.last and world.last.sentence)


def test_words_that_change_are_the_same_sign() -> None:
    """The watts differ from tick to tick, or it is another GPU's power: one sign still."""
    world = armed()
    for number in range(40):
        world.run(10.0, *((POWER, QUIET) if number % 2 else (QUIET, MORE_POWER)))
    assert len(told(world)) == 1


def test_a_sign_that_comes_and_goes_is_told() -> None:
    """In one tick of ten it keeps the window from ever being clear."""
    world = armed()
    for _ in range(8):
        world.run(90.0, QUIET, QUIET)
        world.run(10.0, QUIET, POWER)
    assert len(told(world)) == 1


def test_a_gpu_that_cannot_be_read_meanwhile_hides_it_not() -> None:
    """Unknown now and then is no work, and the sign is still all there is."""
    world = armed()
    for _ in range(12):
        world.run(40.0, QUIET, POWER)
        world.run(10.0, DARK, POWER)
    assert len(told(world)) == 1


def test_a_sign_at_the_end_of_a_quiet_window_is_not_told_at_once() -> None:
    """The whole window must have passed with nothing else than it in the way."""
    world = armed()
    world.run(280.0, QUIET, QUIET)
    world.run(200.0, QUIET, POWER)
    assert told(world) == []
    world.run(120.0, QUIET, POWER)
    assert len(told(world)) == 1


def test_work_ends_it_and_it_begins_anew() -> None:
    """A message for each stretch that lasts a whole window."""
    world = armed()
    for _ in range(3):
        world.run(400.0, QUIET, POWER)
        world.run(100.0, QUIET, BUSY)
    assert len(told(world)) == 3


def test_a_burst_within_the_tolerated_share_does_not_end_it() -> None:
    """What would not have kept the window from being clear is not why the machine is up."""
    policy = PRICED._replace(window_share=0.05)
    world = armed(policy)
    world.run(150.0, QUIET, POWER)
    world.run(10.0, QUIET, BUSY)
    world.run(200.0, QUIET, POWER)
    assert len(told(world)) == 1


@pytest.mark.parametrize(("seconds", "ended"), [(30.0, False), (40.0, True)])
def test_a_burst_of_exactly_the_share_does_not_end_it(seconds: float, ended: bool) -> None:
    """A look more does: that was work, and its own window counts from then."""
    world = armed(PRICED._replace(window_share=0.1))
    world.run(150.0, QUIET, POWER)
    began = world.state.core.alarms.weak_sign
    assert began is not None
    world.run(seconds, QUIET, BUSY)
    world.run(10.0, QUIET, POWER)
    now = world.state.core.alarms.weak_sign
    assert now is not None
    assert now.since == (world.now if ended else began.since)


def test_it_is_told_when_it_can_be_seen() -> None:
    """The GPU cannot be read when the window is over: nothing is said of a sign that nobody sees, until it is back."""
    world = armed()
    world.run(290.0, QUIET, POWER)
    world.run(40.0, QUIET, DARK)
    assert told(world) == []
    world.run(10.0, QUIET, POWER)
    assert told(world) == [world.now]


@pytest.mark.parametrize("what", ["hold", "action"])
def test_nothing_is_told_where_the_sign_is_not_what_stands_in_the_way(what: str) -> None:
    """Somebody holds the machine, or the action goes by load alone."""
    world = armed(PRICED._replace(kill_action="command") if what == "action" else PRICED)
    if what == "hold":
        world.hold(1000.0)
    world.run(900.0, QUIET, POWER)
    assert told(world) == []


def test_it_is_told_when_the_hold_ends() -> None:
    """From then on the sign alone is in the way."""
    world = armed()
    world.hold(600.0)
    world.run(590.0, QUIET, POWER)
    assert told(world) == []
    world.run(40.0)
    assert len(told(world)) == 1


def test_a_machine_that_never_worked_is_told_after_its_own_time() -> None:
    """It would have been stopped as unused, and one sign alone is why it was not."""
    world = World(BASE, 1)
    world.run(890.0, POWER)
    assert told(world) == []
    world.run(60.0)
    assert len(told(world)) == 1


def test_it_outlives_a_restart_and_begins_anew_after_a_reload() -> None:
    """What was told within the boot is not told again."""
    world = armed()
    world.run(320.0, QUIET, POWER)
    world.restart(5.0)
    world.run(600.0, QUIET, POWER)
    assert len(told(world)) == 1
    world.reload(PRICED._replace(grace=90.0))
    world.run(290.0, QUIET, POWER)
    assert len(told(world)) == 1
    world.run(60.0, QUIET, POWER)
    assert len(told(world)) == 2


@pytest.mark.parametrize("mode", ["live", "dry-run"])
def test_a_persons_stop_ends_it(mode: str) -> None:
    """What kept the machine up does not any more; should it go on later, a whole window is due again."""
    world = armed(PRICED._replace(mode=mode))
    world.run(200.0, QUIET, POWER)
    before = world.state.core.alarms.weak_sign
    world.ask_stop()
    world.run(20.0)
    assert (before is None, world.state.core.alarms.weak_sign) == (False, None)
    world.run(200.0)
    assert told(world) == []


@given(
    st.lists(
        st.tuples(st.sampled_from([QUIET, POWER, PCIE, TWO, BUSY, DARK, Known(0.02)]), st.sampled_from([QUIET, POWER, DARK]),
                  st.integers(1, 45)),
        min_size=1, max_size=7,
    )
)  # fmt: skip
def test_the_quick_path_and_the_slow_one_agree_about_it(stretches: list[tuple[Reading, Reading, int]]) -> None:
    """Whatever the GPUs show: the same state and the same messages, and no state that does not survive a restart."""
    world = armed()
    for one, other, count in stretches:
        world.run(count * 10.0, one, other)
    weak = world.state.core.alarms.weak_sign
    world.restart(1.0)
    assert world.state.core.alarms.weak_sign == weak
