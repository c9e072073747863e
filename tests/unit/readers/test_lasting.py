"""What must have lasted before it is said: a job that may hang, use that nothing makes, a ring without a hole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costguard.readers.nvml import _counters
from costguard.readers.nvml_ghost import Ghost
from costguard.readers.nvml_gpu import RING_SECONDS, Gpu
from costguard.readers.nvml_hung import HOLD, OWN_SHARE, Hung
from costguard.readers.nvml_idle import RISE_AFTER, Levels
from costguard.readers.nvml_learnt import BARE, Learnt

MARGIN = 10_000.0
TICK = 10.0
SECOND = 1_000_000


def hangs(powers: list[float], uses: list[float] | None = None, covers: float = TICK, alike: bool = True) -> list[bool]:
    """What each of these looks, ten seconds apart, says."""
    hung = Hung(Learnt())
    uses = uses or [50.0] * len(powers)
    return [
        hung.see(TICK * (number + 1), covers, power, sm, MARGIN, alike=alike)
        for number, (power, sm) in enumerate(zip(powers, uses, strict=True))
    ]


def test_ten_minutes_of_nothing_that_moves() -> None:
    """Not a look earlier; noise within the margin is nothing that moves."""
    looks = int(HOLD / TICK)
    assert hangs([100e3] * (looks + 1)) == [False] * looks + [True]
    assert hangs([100e3, 100e3 + MARGIN] * looks)[-1]
    assert not any(hangs([100e3] * looks * 2, covers=TICK - 1.0))
    assert not any(hangs([100e3] * looks * 2, alike=False))


@pytest.mark.parametrize("step", [0.2, -0.2])
@pytest.mark.parametrize("of", ["power", "use"])
def test_what_drifts_slowly_moves_too(of: str, step: float) -> None:
    """Each step is smaller than the noise, and all of them together are not."""
    drift = [100.0 + step * number for number in range(200)]
    powers = [value * 5e3 for value in drift] if of == "power" else [100e3] * 200
    assert not any(hangs(powers, drift if of == "use" else None))


@pytest.mark.parametrize("at", [30, 59])
def test_a_single_move_begins_the_ten_minutes_again(at: int) -> None:
    """Of the power or of the busy parts."""
    looks = int(HOLD / TICK)
    powers, uses = [100e3] * (looks + at), [50.0] * (looks + at)
    for moved in ([*powers[:at], 150e3, *powers[at + 1 :]], powers), (powers, [*uses[:at], 60.0, *uses[at + 1 :]]):
        found = hangs(moved[0], uses if moved[1] is powers else moved[1])
        assert not any(found[: looks + at])


@pytest.mark.parametrize(
    ("own", "mean", "less"),
    [
        (400e3, 400e3 * OWN_SHARE, True),
        (400e3, 400e3 * OWN_SHARE + 1.0, False),
        (60e3, 31e3, False),
        (400e3, 0.0, False),
    ],
)
def test_far_below_what_the_same_job_drew(own: float, mean: float, less: bool) -> None:
    """By its share, by more than noise, and only of a power that was measured."""
    learnt = Learnt()
    hung = Hung(learnt)
    assert not hung.off_baseline(own, 7, MARGIN)
    assert hung.off_baseline(mean, 7, MARGIN) is less
    assert (learnt.job, learnt.own, learnt.fresh) == (7, own, True)
    assert not hung.off_baseline(mean, 8, MARGIN), "another job has drawn nothing else yet"
    assert not hung.off_baseline(mean, 0, MARGIN)


class Place(Gpu):
    """A GPU of which only the place in its ring is known."""

    def __init__(self, since: int) -> None:
        self._since = since


@given(
    st.lists(st.sampled_from([0.1, 0.17, 1.0, 1.5, 1.6, 4.0]), min_size=1, max_size=12),
    st.sampled_from([None, 0.2, 1.5, 1.6, 60.0]),
    st.sampled_from([0.0, 3.0, 10.0, 30.0]),
)
def test_evidence_reaches_back_to_the_last_hole(gaps: list[float], before: float | None, gap: float) -> None:
    """Against the gaps themselves: a hole is more than one and a half seconds without a sample."""
    stamps = [100 * SECOND]
    for seconds in gaps:
        stamps.append(stamps[-1] + round(seconds * SECOND))
    place = Place(0 if before is None else stamps[0] - round(before * SECOND))
    covers = place._unbroken(stamps, gap)
    unbroken = 0.0
    for seconds in reversed(gaps):
        if seconds > 1.5:
            break
        unbroken += seconds
    if max(gaps) > 1.5:
        assert covers == pytest.approx(unbroken)
    elif before is not None and before <= 1.5:
        assert covers == gap
    else:
        assert covers == pytest.approx(min(sum(gaps), gap or RING_SECONDS))


def test_a_ghost_is_one_after_two_minutes_without_a_hole() -> None:
    """And anything that moves, or that is not alike, begins them again."""
    ghost = Ghost()
    looks = [ghost.see(TICK * number, TICK, (100.0, 100.0), alike=True) for number in range(1, 15)]
    assert looks.index(True) == 12
    assert not ghost.see(150.0, TICK, (100.0, 100.0), alike=False)
    assert not ghost.see(160.0, TICK, (100.0, 100.0), alike=True)
    assert not any(ghost.see(1000.0 + 20.0 * number, TICK, (100.0, 100.0), alike=True) for number in range(20))


MOST = float(1 << 64)


@pytest.mark.parametrize(
    ("one", "kept"),
    [
        ([10.0, 500], (10.0, 500)), ([-10.0, 0], (-10.0, 0)), ([10, 7.9], (10.0, 7)), ([10.0, -1], None),
        ([10.0, MOST], None), ([MOST, 5], None), ([-MOST, 5], None), ([float("nan"), 5], None), ([10.0, float("nan")], None),
        ([10.0], None), ([10.0, 5, 5], None), ([True, 5], None), (["10", 5], None), ((10.0, 5), None), (None, None),
    ],
)  # fmt: skip
def test_a_counter_that_makes_no_sense_is_left_out(one: object, kept: tuple[float, int] | None) -> None:
    """Each part of it by itself; the others stay."""
    found = _counters({"a": one, "b": [1.0, 2]})
    assert found == ({"a": kept} if kept else {}) | {"b": (1.0, 2)}
    assert _counters(one) == {}


MIB = 1 << 20
SCENE = (1, 500 * MIB)


@pytest.mark.parametrize(
    ("scene", "lasts"),
    [
        ((1, 500 * MIB), True), ((1, 515 * MIB), True), ((1, 517 * MIB), False), ((2, 500 * MIB), False),
        ((None, 500 * MIB), False), ((1, None), False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("turned", [False, True])
def test_the_idle_power_rises_while_nobody_comes_or_goes(
    scene: tuple[int | None, int | None], lasts: bool, turned: bool
) -> None:
    """Contexts stay as they are, and memory but for noise, whichever comes first; what is not known is as it was."""
    learnt = Learnt()
    levels = Levels(300_000, learnt)
    before, after = (scene, SCENE) if turned else (SCENE, scene)
    for number in range(60):
        assert not levels.rises(1000.0 + TICK * number, 60e3, BARE, before if number < 30 else after)
    assert levels.rises(1000.0 + RISE_AFTER, 60e3, BARE, after) is lasts
    assert (learnt.idle.get(BARE), learnt.fresh) == ((60e3, True) if lasts else (None, False))


@pytest.mark.parametrize("scene", [(None, None), (0, None), (None, 5)])
def test_what_is_not_known_and_stays_so_is_alike(scene: tuple[int | None, int | None]) -> None:
    """The rise needs the same, not the known."""
    levels = Levels(300_000, Learnt())
    assert [levels.rises(1000.0 + TICK * number, 60e3, BARE, scene) for number in range(61)].index(True) == 60
