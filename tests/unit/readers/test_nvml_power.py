"""What a board draws: when the counter is asked, what a mean says, how long it proves, and what a restart leaves of it."""

from collections.abc import Callable

import pytest

from costguard.readers.nvml.codes import NvmlError
from costguard.readers.nvml.idle_power import IdleLevels
from costguard.readers.nvml.learnt import ABSURD_MW, BARE, HELD, UNSURE, Learnt
from costguard.readers.nvml.power import Power, PowerMeter
from tests.unit.readers.driver import Board

ENERGY, POWER = "TotalEnergyConsumption", "PowerUsage"
COMPUTE, MPS = "ComputeRunningProcesses", "MPSComputeRunningProcesses"
TICK = 10.0
MARGIN = 21_000.0  # milliwatts: three per cent of 700 W
ABSENT = [3, 4, 13, 25, 26]
IDLE = {"bare": 70_000}


class Life:
    """A meter and its board, tick by tick."""

    def __init__(self, board: Board, learnt: object = None, old: tuple[float, int] | None = None) -> None:
        self.board, self.now = board, 1000.0
        self.learnt = Learnt(learnt)
        self.meter = PowerMeter(board.nvml, board.handle, old, self.learnt)
        board.asked()

    def tick(
        self, milliwatts: float = 70_000, seconds: float = TICK, *, quiet: bool = True, ring: bool = True
    ) -> Power:
        self.now += seconds
        self.board.energy = (self.board.energy[0], self.board.energy[1] + round(milliwatts * seconds))
        return self.meter.read(self.now, quiet=quiet, ring=ring)


def told(power: Power) -> tuple[str, float, str]:
    return power.sign, round(power.covers, 6), power.evidence


# ---- the counter ------------------------------------------------------------------------------


def test_one_look_at_the_counter_says_nothing_two_give_a_mean(board: Board) -> None:
    """Over the time between them, in watts; it was measured, and nothing is known before."""
    life = Life(board)
    assert (told(life.tick()), life.meter.mean, life.meter.measured) == (("", 0.0, ""), None, False)
    assert not life.meter.waits, "nobody knows"
    assert life.meter.anchor == (1010.0, board.energy[1])
    assert told(life.tick(200_400, 20.0)) == ("", 0.0, "mean 200 W"), "and nothing to compare it with"
    assert (life.meter.mean, life.meter.measured, life.meter.waits) == (200_400, True, True)
    assert life.meter.anchor == (1030.0, board.energy[1])


@pytest.mark.parametrize(("seconds", "anew"), [(0.25, False), (0.5, True)])
def test_looks_that_follow_at_once_give_the_same_answer(board: Board, seconds: float, anew: bool) -> None:
    """The counter moves in steps: shorter means are noise, and what was used meanwhile counts for the next one."""
    life = Life(board, IDLE)
    life.tick()
    before = life.tick(600_000)
    assert before.sign == "power 530 W above idle"
    after = life.tick(70_000, seconds)
    assert (after is before) is not anew
    if not anew:
        assert life.meter.mean == 600_000
        assert life.tick(600_000, 9.75) is not before
        assert life.meter.mean == pytest.approx((70_000 * 0.25 + 600_000 * 9.75) / 10.0)


@pytest.mark.parametrize("code", ABSENT)
def test_without_a_counter_the_power_of_the_moment_counts_and_covers_nothing(board: Board, code: int) -> None:
    """The counter is not asked again until somebody says so; then it is."""
    life = Life(board, IDLE)
    life.tick()
    life.tick()
    board.energy, board.power = (code, 0), (0, 600_000)
    board.asked()
    assert told(life.tick()) == ("power 530 W above idle", 0.0, "mean 600 W")
    assert (life.meter.mean, life.meter.measured) == (600_000, False)
    board.power = (0, 70_000)
    assert told(life.tick()) == ("", 0.0, "mean 70 W")
    assert board.asked().count(ENERGY) == 1
    board.energy = (0, 5)
    life.meter.ask_again()
    assert told(life.tick(0.0)) == ("", 0.0, "")
    assert board.asked() == [ENERGY]


@pytest.mark.parametrize("code", [*ABSENT, 0])
def test_without_any_power_nothing_is_said(board: Board, code: int) -> None:
    """It is not asked for in each tick; what no board draws is no power either."""
    life = Life(board, IDLE)
    board.energy, board.power = (3, 0), (code, ABSURD_MW + 1)
    for _ in range(3):
        assert told(life.tick()) == ("", 0.0, "")
        assert (life.meter.mean, life.meter.measured, life.meter.waits) == (None, False, False)
    assert board.asked() == [ENERGY, POWER]
    board.power = (0, ABSURD_MW)
    life.meter.ask_again()
    assert life.tick().sign == "power 19930 W above idle"


def test_what_was_low_is_not_low_any_more_when_nothing_is_known(board: Board) -> None:
    """A power that went away leaves no mean and no *waits* behind."""
    life = Life(board, IDLE)
    life.tick()
    life.tick()
    assert (life.meter.waits, life.meter.mean) == (True, 70_000)
    board.energy = board.power = (3, 0)
    life.tick()
    assert (life.meter.waits, life.meter.mean, life.meter.measured) == (False, None, False)


@pytest.mark.parametrize("code", [1, 2, 6, 15, 999])
def test_a_driver_that_fails_is_no_driver_that_lacks_the_call(board: Board, code: int) -> None:
    """Unknown, with the code and the function; the next good look goes on from before."""
    life = Life(board, IDLE)
    life.tick()
    board.energy = (code, board.energy[1])
    with pytest.raises(NvmlError, match=rf"NVML {code}, GetTotalEnergyConsumption\)"):
        life.tick()
    board.energy = (0, board.energy[1])
    assert told(life.tick()) == ("", 20.0, "mean 70 W")
    board.energy, board.power = (3, 0), (code, 0)
    with pytest.raises(NvmlError, match=rf"NVML {code}, GetPowerUsage\)"):
        life.tick()


@pytest.mark.parametrize(
    ("mean", "sound"), [(0, False), (-5, False), (1, True), (ABSURD_MW, True), (ABSURD_MW + 1, False)]
)
def test_a_mean_that_no_board_draws_says_nothing(board: Board, mean: float, sound: bool) -> None:
    """The counter stands, or the driver was loaded again: neither quiet, nor work, nor a level."""
    board.energy = (0, 10**12)
    life = Life(board)
    life.tick()
    found = life.tick(mean, quiet=False)
    assert (found.evidence != "", life.meter.mean == mean) == (sound, sound)
    assert life.meter.measured
    assert life.meter.waits is (mean == 1)
    assert life.learnt.idle == {}


# ---- what a mean proves -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mean", "seconds", "proven"),
    [
        (70_000, 100_000.0, True), (91_000, 60.0, True), (90_000, 63.0, True), (90_000, 64.0, False),
        (72_000, 630.0, True), (72_000, 631.0, False), (68_000, 630.0, True), (68_000, 631.0, False),
        (30_000, 31.5, True), (30_000, 32.0, False),
    ],
)  # fmt: skip
def test_a_mean_proves_as_long_as_it_can_hide_a_second_or_two_of_work(
    board: Board, mean: float, seconds: float, proven: bool
) -> None:
    """The energy above the idle level, or below it, is at most the noise of a minute."""
    life = Life(board, IDLE)
    life.tick()
    found = life.tick(mean, seconds, quiet=False)
    assert (found.sign, found.covers) == ("", seconds if proven else 0.0)


def test_a_power_above_the_level_covers_nothing(board: Board) -> None:
    """It is a sign, in watts above the level."""
    life = Life(board, IDLE)
    life.tick()
    assert told(life.tick(91_000)) == ("", 10.0, "mean 91 W")
    assert told(life.tick(91_001)) == ("power 21 W above idle", 0.0, "mean 91 W")


def test_only_a_quiet_look_teaches(board: Board) -> None:
    """A level is learnt over a time that lay within one state; the state begins with the look at the contexts."""
    life = Life(board)
    life.tick()
    life.tick(80_000, quiet=False)
    assert life.learnt.idle == {}
    life.tick(81_000)
    assert life.learnt.idle == {BARE: 81_000}
    board.contexts["Compute"] = (0, 1)
    life.tick(79_000)
    assert life.learnt.idle == {BARE: 81_000}, "who came in this time drew some of it"
    life.tick(120_000)
    assert life.learnt.idle == {BARE: 81_000, HELD: 120_000}
    board.contexts["Compute"] = (15, 0)
    life.tick(60_000)
    life.tick(61_000)
    assert life.learnt.idle == {BARE: 81_000, HELD: 120_000, UNSURE: 61_000}


def test_a_surprising_mean_looks_at_the_contexts_once(board: Board) -> None:
    """Higher or lower than what is known; any other one does not, nor does a second look at the same moment."""
    life = Life(board, IDLE)
    life.meter.look(life.now)
    life.tick()
    board.asked()
    for milliwatts, looks in ((70_000, 0), (75_000, 0), (91_000, 0), (92_000, 1), (69_000, 1)):
        life.tick(milliwatts, quiet=False)
        assert board.asked().count(COMPUTE) == looks
    life.meter.look(life.now + TICK)
    life.tick(300_000)
    assert board.asked().count(COMPUTE) == 1


@pytest.mark.parametrize("quiet", [True, False])
def test_the_same_surprise_is_looked_behind_again_only_at_rest(board: Board, quiet: bool) -> None:
    """A level decides there; at work nothing rests on it, until it surprises in another way."""
    life = Life(board, IDLE)
    life.meter.look(life.now)
    life.tick()
    board.asked()
    looks = []
    for milliwatts in (300_000, 300_000, 310_000, 60_000, 60_000):
        life.tick(milliwatts, quiet=quiet)
        looks.append(board.asked().count(COMPUTE))
    assert looks == ([1, 1, 1, 1, 0] if quiet else [1, 0, 0, 1, 0])


# ---- a calm board -----------------------------------------------------------------------------


def calm(board: Board, milliwatts: float = 70_000) -> Life:
    life = Life(board, IDLE)
    life.meter.look(life.now)
    life.tick()
    life.tick(milliwatts)
    return life


@pytest.mark.parametrize(
    ("first", "then", "steady"),
    [
        (70_000, 74_999, True), (70_000, 75_001, False), (70_000, 69_000, True), (70_000, 68_999, False),
        (89_000, 84_000, True), (89_000, 83_999, False), (90_000, 91_000, True), (90_000, 91_001, False),
    ],
)  # fmt: skip
def test_a_mean_like_the_one_before_is_no_news(board: Board, first: float, then: float, steady: bool) -> None:
    """Within five watts of what was said, not above what is idle, not worth learning."""
    life = calm(board, first)
    found = life.tick(then)
    assert found.steady is steady
    assert found.evidence == f"mean {(first if steady else then) / 1000:.0f} W"
    assert life.meter.mean == then


def test_on_a_large_power_the_words_may_be_off_by_five_per_cent(board: Board) -> None:
    """Five watts of a hundred are none that people see."""
    board.limits = [(0, 1_500_000)] * 2
    for then, steady in ((315_000, True), (315_001, False), (285_001, True), (284_999, False)):
        life = Life(board, {"bare": 280_000})
        life.meter.look(life.now)
        life.tick()
        life.tick(300_000)
        assert life.tick(then).steady is steady


@pytest.mark.parametrize(("seconds", "covers"), [(63.0, 63.0), (64.0, 0.0)])
def test_no_news_proves_no_longer_a_time(board: Board, seconds: float, covers: float) -> None:
    """The same mean over a longer time may hide work, and then it is not the same."""
    life = calm(board, 90_000)
    found = life.tick(90_000, seconds)
    assert (found.steady, found.covers) == (bool(covers), covers)


def test_what_is_not_quiet_is_never_the_same(board: Board) -> None:
    """Nor is what follows it, or a look at which somebody came or went, or a list that failed."""
    life = calm(board)
    assert not life.tick(quiet=False).steady
    assert not life.tick().steady
    assert life.tick().steady
    for contexts in ((0, 1), (15, 0), (0, 0)):
        board.contexts["Compute"] = contexts
        life.meter.look(life.now)
        assert not life.tick().steady
        if contexts == (0, 0):
            assert life.tick().steady
    board.contexts["MPSCompute"] = (15, 0)
    life.meter.look(life.now)
    assert not life.tick().steady, "nobody was there, and now that is not known"


def test_power_of_work_is_never_the_same(board: Board) -> None:
    """However like the one before it is; neither is one of which nobody can tell what a context that waits may draw."""
    life = calm(board)
    life.tick(300_000)
    assert not life.tick(300_000).steady
    board.limits, board.contexts["Compute"] = [(3, 0)] * 2, (0, 1)
    life = Life(board, {"held": 50_000})
    life.meter.look(life.now)
    found = [life.tick(50_000) for _ in range(3)]
    assert [(one.sign, one.steady, life.meter.waits) for one in found] == [("", False, False)] * 3


# ---- contexts ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("compute", "mps", "contexts", "nobody", "words"),
    [
        ((0, 0), (0, 0), 0, True, "0 compute processes"),
        ((0, 1), (0, 0), 1, False, "1 compute process"),
        ((0, 1), (0, 2), 3, False, "3 compute processes"),
        ((0, 0), (0, 2), 2, False, "2 compute processes"),
        ((0, 0), (15, 7), 0, False, "0 compute processes"),
        ((0, 2), (3, 7), 2, False, "2 compute processes"),
        ((15, 7), (0, 0), None, False, ""),
        ((3, 7), (0, 2), None, False, ""),
    ],
)
def test_whether_nobody_is_there(
    board: Board, compute: tuple[int, int], mps: tuple[int, int], contexts: int | None, nobody: bool, words: str
) -> None:
    """Only when both lists say so; without the main one nothing is known, not even in words."""
    board.contexts |= {"Compute": compute, "MPSCompute": mps}
    life = Life(board)
    assert (life.meter.contexts, life.meter.nobody, life.meter.holders()) == (None, False, "")
    life.meter.look(life.now)
    assert (life.meter.contexts, life.meter.nobody, life.meter.holders()) == (contexts, nobody, words)


@pytest.mark.parametrize("code", [*ABSENT, 15, 999])
@pytest.mark.parametrize("kind", ["Compute", "MPSCompute"])
def test_a_list_that_is_not_there_is_not_asked_for_again(board: Board, kind: str, code: int) -> None:
    """One that fails is; and when it may be there by now, each of them is."""
    board.contexts[kind] = (code, 0)
    life = Life(board)
    life.meter.look(1.0)
    assert board.asked() == ([COMPUTE, MPS] if kind == "MPSCompute" else [COMPUTE])
    life.meter.look(2.0)
    gone = code in ABSENT
    rest = [COMPUTE] if kind == "MPSCompute" else []
    assert board.asked() == (rest if gone else [COMPUTE, MPS] if kind == "MPSCompute" else [COMPUTE])
    board.contexts[kind] = (0, 0)
    life.meter.ask_again()
    life.meter.look(3.0)
    assert board.asked() == [COMPUTE, MPS]
    assert life.meter.nobody


# ---- limits -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "found"),
    [
        ([(0, 200_000), (0, 700_000)], 700_000), ([(0, 700_000), (0, 200_000)], 700_000),
        ([(3, 900_000), (0, 300_000)], 300_000), ([(0, 300_000), (15, 900_000)], 300_000),
        ([(3, 1), (3, 1)], 0), ([(0, 0), (0, 0)], 0), ([(0, ABSURD_MW), (0, 1)], 1), ([(0, ABSURD_MW - 1), (0, 5)], ABSURD_MW - 1),
    ],
)  # fmt: skip
def test_the_boards_own_limit(board: Board, limits: list[tuple[int, int]], found: int) -> None:
    """The highest that makes sense; what fails says nothing."""
    board.limits = limits
    assert Life(board).meter.limit == found


# ---- a restart --------------------------------------------------------------------------------


def bridge(
    board: Board, mean: float, gap: float, *, learnt: object = IDLE, quiet: bool = True, ring: bool = True
) -> Power:
    """What the first look of a reader says that was handed the counter of one before it, ``gap`` seconds ago."""
    board.energy = (0, 10**13)
    life = Life(board, learnt, (1010.0 - gap, 10**13 - round(mean * gap)))
    life.meter.look(life.now)
    return life.tick(0.0, quiet=quiet, ring=ring)


@pytest.mark.parametrize(
    ("mean", "gap", "proven"),
    [
        (70_000, 28_800.0, True), (71_000, 1260.0, True), (71_000, 1261.0, False), (69_000, 1260.0, True),
        (69_000, 1261.0, False), (91_000, 60.0, True), (91_000, 61.0, False),
    ],
)  # fmt: skip
def test_a_hole_is_proven_by_the_level_that_is_known(board: Board, mean: float, gap: float, proven: bool) -> None:
    """As any other time; only words are longer."""
    found = bridge(board, mean, gap)
    assert told(found) == (("", gap, f"mean {mean / 1000:.0f} W since before the restart") if proven else ("", 0.0, ""))


def test_a_hole_is_proven_only_by_a_ring_that_is_quiet(board: Board) -> None:
    """What was not seen quiet at its end was not quiet all the time."""
    assert bridge(board, 70_000, 100.0).covers == 100.0
    assert bridge(board, 70_000, 100.0, quiet=False).covers == 0.0
    assert bridge(board, 70_000, 100.0, ring=False).covers == 0.0


@pytest.mark.parametrize(
    ("moment", "proven"),
    [((0, 70_000), True), ((0, 91_000), True), ((0, 0), False), ((15, 70_000), False), ((0, 91_001), False)],
)
def test_the_power_of_the_moment_must_be_that_of_an_idle_board(
    board: Board, moment: tuple[int, int], proven: bool
) -> None:
    """Known, above nothing, and not that of work."""
    board.power = moment
    for mean, gap in ((70_000, 100.0), (20_000, 20.0)):
        assert (bridge(board, mean, gap).covers > 0.0) is proven


@pytest.mark.parametrize(
    ("moment", "mean", "covers"),
    [(60_000, 60_000, 100.0), (60_000, 81_000, 0.0), (60_000, 72_600, 100.0), (60_000, 72_700, 0.0)],
)
def test_without_a_level_the_moment_stands_for_it(board: Board, moment: int, mean: float, covers: float) -> None:
    """And where there is one, the lower of both."""
    board.power = (0, moment)
    assert bridge(board, mean, 100.0, learnt=None).covers == covers
    board.power = (0, 80_000)
    assert bridge(board, mean, 100.0, learnt={"bare": moment}).covers == covers


@pytest.mark.parametrize(
    ("mean", "words"),
    [
        (2_000_000, "power 2000 W, above what an idle GPU can draw"),
        (ABSURD_MW, "power 20000 W, above what an idle GPU can draw"),
        (233_000, ""),
    ],
)
def test_work_in_the_hole_is_a_sign(board: Board, mean: float, words: str) -> None:
    """A reader that never reads twice would see no power else."""
    found = bridge(board, mean, 100.0, learnt=None)
    assert (found.sign, found.covers) == (words, 0.0)
    assert (found.evidence == f"mean {mean / 1000:.0f} W since before the restart") is bool(words)


@pytest.mark.parametrize(
    ("old", "energy"),
    [(None, 10**13), ((1009.75, 10**13 - 10**6), 10**13), ((910.0, 10**13), 10**13), ((1009.0, 10**13), 10**13), ((910.0, 10**13 + 1), 10**13), ((910.0, 0), 10**13)],
)  # fmt: skip
def test_a_counter_that_proves_nothing(board: Board, old: tuple[float, int] | None, energy: int) -> None:
    """None was handed over, it is of this very moment, it stands, it went back, or no board draws what it says."""
    board.energy = (0, energy)
    assert told(Life(board, IDLE, old).tick(0.0)) == ("", 0.0, "")


def test_half_a_second_is_enough_of_a_hole(board: Board) -> None:
    """As between any two looks."""
    assert bridge(board, 70_000, 0.5).covers == 0.5


# ---- levels -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "learnt", "bare", "held"),
    [
        (0, {}, 100_000, 100_000),
        (0, {BARE: 50_000}, 100_000, 50_000 + 70_000 + 10_000),
        (700_000, {}, 700_000 / 3, 700_000 / 3),
        (700_000, {BARE: 70_000}, 700_000 / 3, 70_000 + 70_000 + 21_000),
        (1_000_000, {BARE: 100_000}, 1_000_000 / 3, 100_000 + 100_000 + 30_000),
        (1_000_000, {BARE: 20_000}, 1_000_000 / 3, 200_000),
        (72_000, {}, 40_000, 40_000),
        (72_000, {BARE: 12_000}, 40_000, 12_000 + 25_000 + 10_000),
        (200_000, {BARE: 20_000}, 200_000 / 3, 20_000 + 50_000 + 10_000),
        (300_000, {BARE: 20_000}, 100_000, 20_000 + 70_000 + 10_000),
        (70_000, {BARE: 70_000}, 40_000, 40_000 + 25_000 + 10_000),
    ],
)
def test_what_an_idle_board_draws_at_most(limit: int, learnt: dict[str, float], bare: float, held: float) -> None:
    """Bare a third of its limit, or what a small board needs; with contexts what those add to the bare level that was seen."""
    levels = IdleLevels(limit, Learnt(learnt))
    assert levels.ceiling(BARE) == pytest.approx(bare)
    assert levels.ceiling(HELD) == levels.ceiling(UNSURE) == pytest.approx(held)


@pytest.mark.parametrize(
    ("learnt", "level", "highest"),
    [({}, None, 700_000 / 3), ({BARE: 70_000}, 70_000, 91_000), ({BARE: 230_000}, 230_000, 700_000 / 3), ({BARE: 500_000}, 700_000 / 3, 700_000 / 3)],
)  # fmt: skip
def test_the_level_and_what_is_noise_above_it(learnt: dict[str, float], level: float | None, highest: float) -> None:
    """Neither goes above what an idle board can draw."""
    levels = IdleLevels(700_000, Learnt(learnt))
    assert levels.level(BARE) == (None if level is None else pytest.approx(level))
    assert levels.highest(BARE) == pytest.approx(highest)


@pytest.mark.parametrize(("level", "exact"), [(70_000, True), (212_000, True), (213_000, False), (None, False)])
def test_a_power_of_work_is_told_by_what_is_known(level: float | None, exact: bool) -> None:
    """Above a level in watts; without one, or near the bound, by the bound."""
    levels = IdleLevels(700_000, Learnt({} if level is None else {BARE: level}))
    words = levels.words(2_000_000, BARE)
    assert words == (
        f"power {(2_000_000 - (level or 0)) / 1000:.0f} W above idle"
        if exact
        else "power 2000 W, above what an idle GPU can draw"
    )


@pytest.mark.parametrize(
    ("before", "mean", "seconds", "learnt"),
    [
        (None, 70_000, 30.0, True), (None, 70_000, 30.5, False), (None, 233_333, 10.0, True), (None, 233_334, 10.0, False),
        (80_000, 79_999, 10.0, True), (80_000, 80_000, 10.0, False), (80_000, 80_001, 10.0, False),
    ],
)  # fmt: skip
def test_the_lowest_mean_of_a_short_time_becomes_the_level(
    before: float | None, mean: float, seconds: float, learnt: bool
) -> None:
    """Never one that an idle board cannot draw; what taught nothing is not handed over."""
    kept = Learnt({} if before is None else {BARE: before})
    IdleLevels(700_000, kept).learn(BARE, mean, seconds)
    assert (kept.idle.get(BARE) == mean, kept.fresh) == ((True, True) if learnt else (mean == before, False))


@pytest.mark.parametrize(
    ("limit", "learnt", "mean", "waits"),
    [
        (700_000, {}, 233_333, True), (700_000, {}, 233_334, False), (700_000, {BARE: 70_000}, 161_000, True),
        (700_000, {BARE: 70_000}, 161_001, False), (700_000, {}, 0, False), (700_000, {}, 0.5, True), (0, {}, 50_000, False),
        (0, {HELD: 50_000}, 50_000, False), (0, {BARE: 50_000}, 130_000, True), (0, {BARE: 50_000}, 130_001, False),
    ],
)  # fmt: skip
def test_so_little_that_at_most_a_context_waits(limit: int, learnt: dict[str, float], mean: float, waits: bool) -> None:
    """False where nothing tells what that is."""
    assert IdleLevels(limit, Learnt(learnt)).waits(mean) is waits


def test_what_is_calm(board: Board) -> None:
    """From a watt below the level to what is noise, or to what a context adds; no level, or one of work: nothing."""
    assert IdleLevels(700_000, Learnt({BARE: 70_000})).calm(BARE) == (69_000, 91_000, 70_000)
    assert IdleLevels(700_000, Learnt({BARE: 70_000, HELD: 150_000})).calm(HELD) == (149_000, 161_000, 150_000)
    assert IdleLevels(700_000, Learnt({HELD: 70_000})).calm(BARE) is None
    assert IdleLevels(0, Learnt({HELD: 70_000})).calm(HELD) is None


@pytest.mark.parametrize(
    ("means", "at"),
    [
        ([100e3] * 70, 60), ([100e3, 121e3] * 35, 60), ([100e3, 121.1e3] * 35, None), ([233e3] * 70, 60), ([234e3] * 70, None),
        ([100e3] * 30 + [125e3] * 70, 90), ([125e3] * 30 + [100e3] * 70, 90),
    ],
)  # fmt: skip
def test_ten_minutes_of_flat_power_are_the_idle_power(means: list[float], at: int | None) -> None:
    """Flat within the noise from begin to end, and possible for an idle board; the lowest is learnt."""
    learnt = Learnt({})
    levels = IdleLevels(700_000, learnt)
    risen = [levels.rises(TICK * number, mean, BARE, (0, 0)) for number, mean in enumerate(means)]
    assert (risen.index(True) if True in risen else None) == at
    assert learnt.idle == ({} if at is None else {BARE: min(means[at - 60 : at + 1])})
    assert learnt.fresh is (at is not None)


def test_a_level_whose_noise_reaches_the_bound_is_told() -> None:
    """Only beyond it the bound is what counts."""
    assert IdleLevels(300_000, Learnt({BARE: 90_000})).words(190_000, BARE) == "power 100 W above idle"
    assert (
        IdleLevels(300_000, Learnt({BARE: 90_001})).words(190_000, BARE)
        == "power 190 W, above what an idle GPU can draw"
    )


def test_the_bound_itself_can_be_learnt_and_risen_to() -> None:
    """A third of the limit is what an idle board may draw."""
    learnt = Learnt({})
    IdleLevels(300_000, learnt).learn(BARE, 100_000, 10.0)
    assert learnt.idle == {BARE: 100_000}
    levels = IdleLevels(300_000, Learnt({}))
    assert [levels.rises(TICK * number, 100e3, BARE, (0, 0)) for number in range(61)][-1]


@pytest.mark.parametrize("step", [500.0, -500.0])
def test_power_that_drifts_is_not_flat(step: float) -> None:
    """Each step is less than the noise; all of them together are not."""
    levels = IdleLevels(700_000, Learnt({}))
    assert not any(levels.rises(TICK * number, 150e3 + step * number, BARE, (0, 0)) for number in range(80))


def test_the_first_minute_of_a_boot_is_like_any_other() -> None:
    """Ten minutes begin with the first look, or with the one after they were forgotten."""
    levels = IdleLevels(700_000, Learnt({}))
    assert not any(levels.rises(40.0 + TICK * number, 100e3, BARE, (None, None)) for number in range(60))
    assert levels.rises(640.0, 100e3, BARE, (None, None))
    levels = IdleLevels(700_000, Learnt({}))
    levels.rises(5.0, 100e3, BARE, (0, 0))
    levels.forget()
    assert not any(levels.rises(20.0 + TICK * number, 100e3, BARE, (0, 0)) for number in range(60))


# ---- rising, through the meter ----------------------------------------------------------------

MIB = 1 << 20


def rising(life: Life, ticks: int, milliwatts: float = 100_000, memory: int | None = 5 * MIB) -> list[str]:
    """The signs of so many ticks in which nothing else shows work, with so much memory in use."""
    found = []
    for _ in range(ticks):
        life.now += TICK
        life.board.energy = (0, life.board.energy[1] + round(milliwatts * TICK))
        found.append(life.meter.read(life.now, quiet=True, ring=True, scene=lambda: (life.meter.contexts, memory)).sign)
    return found


INTERRUPTIONS: dict[str, Callable[[Life], object]] = {
    "nothing": lambda life: rising(life, 1),
    "idle power": lambda life: rising(life, 1, 70_000),
    "something else that shows work": lambda life: life.tick(100_000),
    "a counter that stands": lambda life: rising(life, 1, 0),
    "memory that somebody takes": lambda life: rising(life, 1, memory=50 * MIB),
    "memory that is not known": lambda life: rising(life, 1, memory=None),
}


@pytest.mark.parametrize("what", INTERRUPTIONS)
def test_ten_minutes_in_which_nothing_else_shows_work_raise_the_level(board: Board, what: str) -> None:
    """Whatever comes between begins them anew."""
    life = Life(board, IDLE)
    life.meter.look(life.now)
    life.tick()
    sign = "power 30 W above idle"
    assert rising(life, 50) == [sign] * 50
    INTERRUPTIONS[what](life)
    after = rising(life, 9)
    assert after == [sign] * 9
    assert rising(life, 1) == ([""] if what == "nothing" else [sign])
    assert rising(life, 52)[-1] == ""
    assert life.learnt.idle == {BARE: 100_000}


@pytest.mark.parametrize(("gap", "at"), [(30.0, True), (30.5, False)])
def test_a_gap_between_two_looks_begins_the_ten_minutes_anew(gap: float, at: bool) -> None:
    """Nobody knows what was meanwhile; neither does anybody when something else showed work."""
    levels = IdleLevels(700_000, Learnt({}))
    for number in range(30):
        levels.rises(TICK * number, 100e3, BARE, (0, 0))
    risen = [levels.rises(290.0 + gap + TICK * number, 100e3, BARE, (0, 0)) for number in range(31)]
    assert any(risen) is at
    levels = IdleLevels(700_000, Learnt({}))
    for number in range(59):
        levels.rises(TICK * number, 100e3, BARE, (0, 0))
    levels.forget()
    assert not any(levels.rises(TICK * number, 100e3, BARE, (0, 0)) for number in range(59, 119))
    assert levels.rises(1190.0, 100e3, BARE, (0, 0))
    assert not levels.rises(1200.0, 100e3, BARE, (0, 0)), "once it has risen, it begins anew"
