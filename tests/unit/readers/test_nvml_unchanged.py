"""A GPU that says in few steps that nothing is new, beside one that looks in full each time: on one board, through whatever it does."""

import math
import random
from typing import NamedTuple

import pytest

from costguard.readers.nvml.codes import NvmlError
from costguard.readers.nvml.gpu import Gpu, Reading, UnreadableError
from costguard.readers.nvml.learnt import Learnt
from tests.unit.readers.driver import Board, Metrics

SECOND = 1_000_000
STILL: Metrics = {2: 0.0, 5: 0.0, 10: 0.0004}
LIKE_LOAD, AT_WORK = 0.05, 0.2
NOT_YET, LOST, UNSUPPORTED, UNKNOWN = 6, 15, 3, 999


class Says(NamedTuple):
    """What was told of a GPU, and what a full look would have told; None for unknown."""

    told: Reading | None
    full: Reading | None
    quick: bool


class Twins:
    """Two readers of one board: ``quick`` is asked first whether anything is new."""

    def __init__(self, board: Board, *, above: float = 1.0) -> None:
        self.board, self.above, self.now = board, above, 1000.0
        self.use, self.watts = 0.0, 70.0
        board.memory, board.contexts["Compute"] = (0, 1000 << 20), (0, 1)
        self.quick, self.full = (
            Gpu(board.nvml, board.handle, None, Learnt({"bare": 70_000, "held": 70_000})) for _ in range(2)
        )
        self.told: Reading | None = None

    def passes(self, seconds: float = 10.0, burst: float | None = None, hole: float = 0.0) -> None:
        """Time in which the board does what it is set to; ``burst``: one sample of another use; ``hole``: seconds without samples."""
        begun, self.now = self.now, self.now + seconds
        self.board.energy = (self.board.energy[0], self.board.energy[1] + round(1000 * self.watts * seconds))
        self.board.power = (self.board.power[0], round(1000 * self.watts))
        self.board.rates = (self.board.rates[0], min(100, round(self.use)))
        new = [(begun + 1.0 + one, self.use) for one in range(math.floor(seconds))]
        if hole:
            new = [(at, use) for at, use in new if not begun + 2.0 <= at < begun + 2.0 + hole]
        if burst is not None and new:
            new[len(new) // 2] = new[len(new) // 2][0], burst
        kept = [*self.board.ring, *((round(at * SECOND), use) for at, use in new)]
        self.board.ring = [(at, use) for at, use in kept if at > (self.now - 16.0) * SECOND]

    def look(self) -> Says:
        """Both look now."""
        quick = self.quick.unchanged(self.now, self.above)
        if not quick:
            self.told = _read(self.quick, self.now, again=True, above=self.above)
        return Says(self.told, _read(self.full, self.now, again=False, above=self.above), quick)

    def settle(self, ticks: int = 14) -> None:
        """Two minutes: all that is rare has had its turn."""
        for _ in range(ticks):
            self.passes()
            agree(self.look(), self.above)

    def sees(self) -> Says:
        """The next tick, in which both agree."""
        self.passes()
        says = self.look()
        agree(says, self.above)
        return says


def _read(gpu: Gpu, now: float, *, again: bool, above: float) -> Reading | None:
    try:
        return gpu.read(now, again=again, above=above)
    except (NvmlError, UnreadableError):
        return None


def agree(says: Says, above: float) -> None:
    """Unknown is never the same as before; nor is another load, a sign that anybody heeds, or less time that is covered."""
    told, full, quick = says
    assert (told is None) is (full is None), says
    if told is None or full is None:
        assert not quick
        return
    both = min(told[0], full[0])
    assert told[0] == full[0] or (both > max(above, AT_WORK) and abs(told[0] - full[0]) <= LIKE_LOAD + 1e-9), says
    if full[0] <= AT_WORK:
        assert _kinds(told) == _kinds(full), says
    assert told[2] <= full[2] * 1.5 + 0.15, says
    assert full[2] <= told[2] * 1.5 + 0.15 or full[2] > 14.0, says


def _kinds(reading: Reading) -> list[str]:
    return [sign.partition(" ")[0] for sign in reading[1]]


def counted(board: Board, metrics: Metrics) -> None:
    board.supported, board.metrics = (0, 1), metrics


@pytest.fixture(params=["sampled", "counted", "deaf"])
def resting(request: pytest.FixtureRequest, board: Board) -> Twins:
    """At rest for a while: with samples alone, with counters of its activity, with a driver that tells what it has told again."""
    if request.param == "counted":
        counted(board, STILL)
    board.ring_from = request.param != "deaf"
    twins = Twins(board)
    twins.settle()
    return twins


@pytest.fixture(params=["sampled", "counted", "deaf"])
def working(request: pytest.FixtureRequest, board: Board) -> Twins:
    """At work above all thresholds for a while."""
    if request.param == "counted":
        counted(board, {2: 60.0, 5: 20.0, 10: 30.0, 20: 60.0})
    board.ring_from = request.param != "deaf"
    twins = Twins(board, above=0.05)
    twins.use, twins.watts = 70.0, 400.0
    twins.settle()
    return twins


def test_at_rest_most_ticks_are_quick(resting: Twins) -> None:
    """Else nothing here is tried; where old samples come again the whole ring is read."""
    quick = [resting.sees().quick for _ in range(12)]
    assert (quick.count(True) >= 6) is resting.board.ring_from


def test_at_work_most_ticks_are_quick(working: Twins) -> None:
    """So are those of a job."""
    quick = [working.sees().quick for _ in range(12)]
    assert (quick.count(True) >= 6) is (working.board.ring_from or working.board.supported[1] == 1)


@pytest.mark.parametrize("use", [1.0, 5.0, 100.0, 0.4])
def test_a_use_that_begins_is_told_at_once(resting: Twins, use: float) -> None:
    """However small; counters of activity see it as well, as they do on a real board."""
    resting.use = use
    if resting.board.supported[1]:
        resting.board.metrics = {**STILL, 2: use}
    says = resting.sees()
    assert says.told is not None
    assert says.told[0] == use / 100


@pytest.mark.parametrize("burst", [0.5, 3.0, 100.0])
def test_a_single_sample_is_told(resting: Twins, burst: float) -> None:
    """It may lie anywhere between two ticks."""
    if resting.board.supported[1]:
        resting.board.metrics = {**STILL, 2: burst / 10}
    resting.passes(burst=burst)
    says = resting.look()
    agree(says, 1.0)
    assert says.told is not None
    assert says.told[0] == burst / 100


@pytest.mark.parametrize("name", ["Encoder", "Decoder", "Jpg", "Ofa"])
@pytest.mark.parametrize("answer", [(0, 1), (0, 100), (LOST, 0), (UNKNOWN, 0), (0, 101)])
def test_another_engine_is_told_at_once(resting: Twins, name: str, answer: tuple[int, int]) -> None:
    """Whichever it is; one that fails is unknown."""
    resting.board.engines[name] = answer
    says = resting.sees()
    assert says.told is None if answer[0] or answer[1] > 100 else says.told is not None and says.told[0] > 0
    resting.board.engines[name] = (0, 0)
    for _ in range(3):
        says = resting.sees()
    assert says.told is not None
    assert says.told[0] == 0.0


@pytest.mark.parametrize("name", ["Encoder", "Decoder", "Jpg", "Ofa"])
@pytest.mark.parametrize(("percent", "load"), [(69, 0.7), (76, 0.76), (100, 1.0)])
def test_another_engine_above_the_load_is_told_of_a_gpu_at_work(
    working: Twins, name: str, percent: int, load: float
) -> None:
    """And one below it is none of its load."""
    working.board.engines[name] = (0, percent)
    says = working.sees()
    assert says.told is not None
    assert says.told[0] == load


@pytest.mark.parametrize("use", [0.0, 4.0, 20.0, 21.0, 60.0, 64.0, 65.0, 70.0, 75.0, 76.0, 95.0, 100.0, 101.0, -1.0])
def test_another_use_of_a_gpu_at_work_is_told_where_it_matters(working: Twins, use: float) -> None:
    """Somewhat more or less is the same to everybody; rest, another load and garbage are not."""
    counts = working.board.supported[1] == 1
    if counts and use in {64.0, 101.0, -1.0}:
        return  # its ring is asked for once in five minutes, while the counters show the same work
    working.use = use
    if counts:
        working.board.metrics = {2: use * 0.9, 5: use * 0.3, 10: use * 0.4, 20: 60.0}
    for _ in range(3):
        says = working.sees()
    assert (says.told is None) is (not 0.0 <= use <= 100.0)
    if 65.0 < use < 75.0:
        assert says.quick is working.board.ring_from


@pytest.mark.parametrize("code", [UNKNOWN, LOST, 1])
@pytest.mark.parametrize("works", [False, True])
@pytest.mark.parametrize("heeds", [False, True])
def test_a_driver_that_fails_is_unknown_at_once(board: Board, works: bool, heeds: bool, code: int) -> None:
    """Unknown is never the same as before, neither at rest nor at work; and it ends with its cause."""
    board.ring_from = heeds
    twins = Twins(board, above=0.05)
    if works:
        twins.use, twins.watts = 70.0, 400.0
    twins.settle()
    board.ring_code = code
    assert [twins.sees().told for _ in range(2)] == [None] * 2
    board.ring_code = 0
    says = twins.sees()
    assert says.told is not None
    assert says.told[0] == (0.7 if works else 0.0)


@pytest.mark.parametrize("watts", [75.0, 300.0])
def test_a_power_of_work_is_told_of_a_gpu_at_rest(resting: Twins, watts: float) -> None:
    """Where nothing else shows it: a sign as soon as for who reads it all."""
    resting.watts = watts
    for _ in range(8):
        resting.sees()


@pytest.mark.parametrize("hole", [2.0, 5.0, 8.0])
def test_a_hole_in_the_ring_is_looked_at_in_full_at_work(board: Board, hole: float) -> None:
    """What ran in it nobody has seen."""
    twins = Twins(board, above=0.05)
    twins.use, twins.watts = 70.0, 400.0
    twins.settle()
    quick = []
    for _ in range(8):
        twins.passes(hole=hole)
        says = twins.look()
        agree(says, 0.05)
        quick.append(says.quick)
    assert quick == [False] * 8


def changes(chance: random.Random, twins: Twins, metrics: Metrics) -> None:
    """Something of the board becomes another one, or all is as it was."""
    board = twins.board
    kind = chance.randrange(9)
    if kind == 0:
        twins.use = chance.choice([0.0, 0.0, 0.3, 4.0, 19.0, 21.0, 50.0, 54.0, 56.0, 100.0])
        if board.supported[1]:
            board.metrics = {**metrics, 2: twins.use * chance.choice([1.0, 0.5])} if twins.use else dict(metrics)
    elif kind == 1:
        twins.watts = chance.choice([70.0, 71.0, 74.0, 90.0, 350.0])
    elif kind == 2:
        board.engines[chance.choice(list(board.engines))] = chance.choice([(0, 0), (0, 7), (0, 60), (UNSUPPORTED, 0)])
    elif kind == 3:
        board.memory = chance.choice([(0, 1000 << 20), (0, 1050 << 20), (0, 30_000 << 20), (UNKNOWN, 0)])
    elif kind == 4:
        board.contexts["Compute"] = chance.choice([(0, 0), (0, 1), (0, 2)])
    elif kind == 5:
        board.ring_code = chance.choice([0, 0, 0, NOT_YET, UNKNOWN])
    else:
        twins.use, twins.watts, board.ring_code, board.metrics = 0.0, 70.0, 0, dict(metrics)
        board.engines = dict.fromkeys(board.engines, (0, 0))
        board.memory, board.contexts["Compute"] = (0, 1000 << 20), (0, 1)


@pytest.mark.parametrize("above", [1.0, 0.05])
@pytest.mark.parametrize("way", ["sampled", "counted", "deaf"])
@pytest.mark.parametrize("seed", range(6))
def test_through_whatever_happens_they_agree(board: Board, seed: int, way: str, above: float) -> None:
    """Bursts, holes, late ticks, engines that come and go, and a driver that fails."""
    board.ring_from = way != "deaf"
    if way == "counted":
        counted(board, STILL)
    chance, twins, quick = random.Random(seed), Twins(board, above=above), 0
    twins.settle()
    for _ in range(150):
        if chance.random() < 0.2:
            changes(chance, twins, STILL)
        burst = chance.choice([3.0, 40.0]) if chance.random() < 0.05 and way != "counted" else None
        twins.passes(chance.choice([10.0, 10.0, 10.0, 9.0, 13.0, 5.0]), burst)
        says = twins.look()
        agree(says, above)
        quick += says.quick
    assert quick > 3 or way == "deaf", "nothing of it is tried"
