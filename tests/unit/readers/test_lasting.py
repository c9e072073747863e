"""What must have lasted before it is said: a job that may hang, use that nothing makes, a ring without a hole."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from costguard.readers.nvml.ghost import Ghost
from costguard.readers.nvml.gpu import RING_SECONDS, Gpu
from costguard.readers.nvml.hung import HOLD_SECONDS, OWN_SHARE, Hung
from costguard.readers.nvml.hung import words as hung_words
from costguard.readers.nvml.idle_power import RISE_AFTER, IdleLevels
from costguard.readers.nvml.learnt import ABSURD_MW, BARE, Learnt
from costguard.readers.nvml.reader import _counters

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
    looks = int(HOLD_SECONDS / TICK)
    assert hangs([100e3] * (looks + 1)) == [False] * looks + [True]
    assert hangs([100e3, 100e3 + MARGIN] * looks)[-1]
    assert not any(hangs([100e3] * looks * 2, covers=TICK - 1.0))
    assert not any(hangs([100e3] * looks * 2, alike=False))


def test_whatever_shows_that_it_works_begins_the_ten_minutes_again() -> None:
    """Another look that is not like the others, another job, or somebody who says so."""
    for interruption in ("look", "job", "word"):
        hung = Hung(Learnt())
        hung.off_baseline(100e3, 7, MARGIN)
        for number in range(55):
            assert not hung.see(TICK * number, TICK, 100e3, 50.0, MARGIN, alike=True)
        if interruption == "look":
            hung.see(550.0, TICK, 100e3, 50.0, MARGIN, alike=False)
        elif interruption == "job":
            hung.off_baseline(100e3, 8, MARGIN)
        else:
            hung.forget()
        found = [hung.see(551.0 + TICK * number, 2.0 * TICK, 100e3, 50.0, MARGIN, alike=True) for number in range(62)]
        assert found.index(True) == 60


def test_parts_within_two_per_cent_are_flat() -> None:
    """As is power within the margin; the words say what it was compared with."""
    looks = int(HOLD_SECONDS / TICK)
    assert hangs([100e3] * (looks + 1), [50.0, 52.0] * (looks // 2) + [50.0])[-1]
    assert not any(hangs([100e3] * (looks + 1), [50.0, 52.1] * (looks // 2) + [50.0]))
    assert "far below what the job drew before, memory idle)" in hung_words(less=True, still=", memory idle")
    assert "too low for real work)" in hung_words(less=False, still="")


def test_what_a_job_draws_is_news_when_it_is_more() -> None:
    """Less, or as much, teaches nothing."""
    learnt = Learnt()
    hung = Hung(learnt)
    for mean, fresh in ((100e3, True), (100e3, False), (90e3, False), (101e3, True)):
        learnt.fresh = False
        hung.off_baseline(mean, 7, MARGIN)
        assert learnt.fresh is fresh


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
    looks = int(HOLD_SECONDS / TICK)
    powers, uses = [100e3] * (looks + at), [50.0] * (looks + at)
    for moved in ([*powers[:at], 150e3, *powers[at + 1 :]], powers), (powers, [*uses[:at], 60.0, *uses[at + 1 :]]):
        found = hangs(moved[0], uses if moved[1] is powers else moved[1])
        assert not any(found[: looks + at])


@pytest.mark.parametrize(
    ("own", "mean", "less"),
    [
        (400e3, 400e3 * OWN_SHARE, True),
        (60e3, 30e3, True),
        (80e3, 45e3, True),
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
@example([4.0, 1.5, 1.0], 0.2, 10.0)
@example([1.5, 1.5], 1.5, 10.0)
@example([4.0], None, 10.0)
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


@pytest.mark.parametrize("step", [0.5, -0.5, 5.0, 5.1])
def test_a_ghost_does_not_move(step: float) -> None:
    """Its samples lie within five per cent from begin to end: none of a drift that is slow, of a swing that is wide."""
    ghost = Ghost()
    if abs(step) < 1.0:
        uses = [(50.0 + step * number,) * 2 for number in range(24)]
        assert not any(ghost.see(TICK * number, TICK, use, alike=True) for number, use in enumerate(uses))
    else:
        looks = [ghost.see(TICK * number, TICK, (90.0, 90.0 + step), alike=True) for number in range(24)]
        assert any(looks) is (step == 5.0)


@pytest.mark.parametrize("uses", [((90.0, 90.0), (90.0, 96.0)), ((96.0, 96.0), (90.0, 96.0))])
def test_both_ends_of_the_samples_count(uses: tuple[tuple[float, float], tuple[float, float]]) -> None:
    """A dip between two looks moves as a peak does."""
    ghost = Ghost()
    assert not any(ghost.see(TICK * number, TICK, uses[number % 2], alike=True) for number in range(24))


def test_a_ghost_that_was_lost_sight_of_begins_anew() -> None:
    """What was not seen is not known to have been one."""
    ghost = Ghost()
    for number in range(12):
        ghost.see(TICK * number, TICK, (100.0, 100.0), alike=True)
    ghost.forget()
    looks = [ghost.see(TICK * number, TICK, (100.0, 100.0), alike=True) for number in range(12, 26)]
    assert looks.index(True) == 12


# ---- what is handed over ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"bare": 70_000, "held": 120_000.9, "unsure": 1}, {"bare": 70_000, "held": 120_000, "unsure": 1}),
        ({"bare": ABSURD_MW, "held": ABSURD_MW + 1, "unsure": 0.9}, {"bare": ABSURD_MW}),
        ({"job": 1, "own": 5.7}, {"job": 1, "own": 5}), ({"job": 100_000, "own": 5}, {"job": 100_000, "own": 5}),
        ({"job": 100_001, "own": 5}, {}), ({"job": 0, "own": 5}, {}), ({"job": 2.0, "own": 5}, {}), ({"own": 5}, {}), ({"job": 2, "own": None}, {}),
        ({"engines": ["OFA", "encoder", 7, None]}, {"engines": ["OFA", "encoder"]}),
        ({"engines": [f"{number:02}" for number in range(40)]}, {"engines": [f"{number:02}" for number in range(16)]}),
        ({"engines": []}, {}), ({"other": 70_000}, {}),
    ],
)  # fmt: skip
def test_what_was_learnt_is_taken_over_where_it_makes_sense(given: dict[str, object], kept: dict[str, object]) -> None:
    """Each part by itself; in whole milliwatts, and nothing that is not there."""
    learnt = Learnt(given)
    assert learnt.saved() == kept
    assert Learnt(learnt.saved()).saved() == kept
    assert (learnt.job, learnt.own) == (given["job"] if "job" in kept else None, given["own"] if "job" in kept else 0.0)
    assert learnt.news() is None


@pytest.mark.parametrize(
    ("change", "news"),
    [
        ({"bare": 71_400}, True), ({"bare": 68_600}, True), ({"bare": 71_399}, False), ({"bare": 68_601}, False),
        ({"held": 5_000}, True), ({"job": 8}, True), ({"own": 305_999}, False), ({"own": 306_000}, True), ({"engines": ["OFA"]}, True),
        ({"engines": []}, True), ({"job": 0}, True), ({}, False),
    ],
)  # fmt: skip
def test_news_are_what_differs_by_two_per_cent_or_in_kind(change: dict[str, Any], news: bool) -> None:
    """Told once; what was not worth telling is not lost, and counts from what was told."""
    base: dict[str, Any] = {"bare": 70_000, "job": 7, "own": 300_000, "engines": ["encoder"]}
    learnt = Learnt(base)
    for name, value in change.items():
        if name == "engines":
            learnt.engines = set(value)
        elif name in {"job", "own"}:
            setattr(learnt, name, value)
        else:
            learnt.idle[name] = value
    assert learnt.news() is None, "nothing was learnt"
    learnt.fresh = True
    assert learnt.news() == (learnt.saved() if news else None)
    assert learnt.fresh is False
    assert learnt.news() is None
    learnt.fresh = True
    assert learnt.news() is None
    learnt.idle["bare"] = 50_000
    learnt.fresh = True
    assert learnt.news() == learnt.saved()
    learnt.idle["bare"] = 49_500
    learnt.fresh = True
    assert learnt.news() is None
    learnt.idle["bare"] = 49_000
    learnt.fresh = True
    assert learnt.news() == learnt.saved()


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
        ((1, 500 * MIB), True), ((1, 515 * MIB), True), ((1, 516 * MIB), False), ((2, 500 * MIB), False),
        ((None, 500 * MIB), False), ((1, None), False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("turned", [False, True])
def test_the_idle_power_rises_while_nobody_comes_or_goes(
    scene: tuple[int | None, int | None], lasts: bool, turned: bool
) -> None:
    """Contexts stay as they are, and memory but for noise, whichever comes first; what is not known is as it was."""
    learnt = Learnt()
    levels = IdleLevels(300_000, learnt)
    before, after = (scene, SCENE) if turned else (SCENE, scene)
    for number in range(60):
        assert not levels.rises(1000.0 + TICK * number, 60e3, BARE, before if number < 30 else after)
    assert levels.rises(1000.0 + RISE_AFTER, 60e3, BARE, after) is lasts
    assert (learnt.idle.get(BARE), learnt.fresh) == ((60e3, True) if lasts else (None, False))


@pytest.mark.parametrize("scene", [(None, None), (0, None), (None, 5)])
def test_what_is_not_known_and_stays_so_is_alike(scene: tuple[int | None, int | None]) -> None:
    """The rise needs the same, not the known."""
    levels = IdleLevels(300_000, Learnt())
    assert [levels.rises(1000.0 + TICK * number, 60e3, BARE, scene) for number in range(61)].index(True) == 60
