"""One GPU: from what the driver answers to a reading, its evidence and its signs; when it is asked for what."""

import math
from itertools import pairwise
from typing import Any

import pytest

from costguard.readers.nvml.codes import NvmlError
from costguard.readers.nvml.gpu import Gpu, Reading, UnreadableError
from costguard.readers.nvml.learnt import Learnt
from tests.unit.readers.driver import Board, Metrics

TICK = 10.0
MIB = 1 << 20
SECOND = 1_000_000
ABSENT = [3, 13, 25, 26]
FAILING = [1, 2, 4, 15, 999]
STILL: Metrics = {2: 0.0, 5: 0.0, 10: 0.0}
ENGINES = {"Encoder": "encoder", "Decoder": "decoder", "Jpg": "JPEG engine", "Ofa": "OFA"}
RING, RATES = "Samples", "UtilizationRates"
MEMORY, MODE = "MemoryInfo_v2", "MigMode"
KNOWN = {"bare": 70_000}


class Life:
    """A GPU on its board, with a sample each second and 70 W."""

    def __init__(
        self, board: Board, learnt: object = None, old: tuple[float, int] | None = None, share: float = 1.0
    ) -> None:
        self.board, self.now = board, 1000.0
        self.learnt = Learnt(KNOWN if learnt is None else learnt)
        self.samples(0)
        self.gpu = Gpu(board.nvml, board.handle, old, self.learnt, share)
        board.asked()

    def samples(self, use: float, seconds: int = 16) -> None:
        """The last of them just now."""
        self.board.ring = [(round(self.now - ago) * SECOND, use) for ago in range(seconds - 1, -1, -1)]

    def tick(self, use: float = 0, watts: float = 70, seconds: float = TICK, **how: bool) -> Reading:
        self.now += seconds
        self.board.energy = (0, self.board.energy[1] + round(1000 * watts * seconds))
        self.samples(use)
        return self.gpu.read(self.now, **how)

    def read(self, seconds: float = TICK, watts: float = 70, **how: bool) -> Reading:
        """The same with whatever the ring holds now."""
        self.now += seconds
        self.board.energy = (0, self.board.energy[1] + round(1000 * watts * seconds))
        return self.gpu.read(self.now, **how)


# ---- opening it -------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, *ABSENT, 4, 1, 15, 999])
def test_a_number_that_is_not_told_is_none(board: Board, code: int) -> None:
    """A driver that lacks it, or keeps it for others, is well; one that fails is not."""
    board.index = (code, 3)
    if code in (0, *ABSENT, 4):
        assert Life(board).gpu.index == (None if code else 3)
    else:
        with pytest.raises(NvmlError, match=rf"NVML {code}, GetIndex\)"):
            Life(board)


@pytest.mark.parametrize(("what", "name"), [("Name", "name"), ("UUID", "UUID")])
@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ((0, b"GPU-5"), "GPU-5"), ((3, b"GPU-5"), ""), ((15, b"x"), ""), ((0, b""), ""),
        ((0, b"\xff\xfe\x80"), "(fffe80)"), ((0, b"a\tb"), "('a\\tb')"), ((0, b"\x01" * 60), "(" + repr("\x01" * 40) + ")"),
        ((0, b"\xff" * 60), "(" + "f" * 32 + ")"),
    ],
)  # fmt: skip
def test_a_name_that_is_no_text_betrays_its_driver(
    board: Board, what: str, name: str, answer: tuple[int, bytes], found: str
) -> None:
    """One that is missing does not; the words show what it was."""
    board.texts[what] = answer
    if not found.startswith("("):
        gpu = Life(board).gpu
        assert (gpu.name if what == "Name" else gpu.uuid) == found
        return
    with pytest.raises(UnreadableError) as raised:
        Life(board)
    assert str(raised.value).replace("'", "") == f"corrupt answer: the GPU's {name} is not text {found}".replace(
        "'", ""
    )


# ---- the ring ---------------------------------------------------------------------------------


def test_the_highest_sample_is_the_load(board: Board) -> None:
    """With how many there were, and the seconds back to the last read."""
    life = Life(board)
    assert life.tick()[:3] == (0.0, [], 14.0), "at first what a ring surely holds"
    life.now += TICK
    board.ring = [(round(life.now - ago) * SECOND, use) for ago, use in ((9, 3), (5, 40), (0, 1))]
    found = life.read(0.0)
    assert (found[0], found[2], found[3].split(",")[0]) == (0.4, 0.0, "GPU peak 40 % in 3 samples")
    board.ring = [(round(life.now + 1) * SECOND, 7)]
    found = life.read(1.0)
    assert (found[0], found[2], found[3].split(",")[0]) == (0.07, 1.0, "GPU peak 7 % in 1 sample")


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("heeds", [False, True])
def test_samples_in_either_order_and_told_again(board: Board, turned: bool, heeds: bool) -> None:
    """What was seen is not seen again, whichever comes first, and whether the driver heeds from when they are wanted or not."""
    life = Life(board)
    life.tick(50)
    board.ring_from = heeds
    life.now += TICK
    new = [((round(life.now) - ago) * SECOND, 20.0 if ago == 3 else 5.0) for ago in range(9, -1, -1)]
    old = [((round(life.now) - ago) * SECOND, 50.0) for ago in range(16, 9, -1)]
    board.ring = [*old, *new][::-1] if turned else [*old, *new]
    found = life.read(0.0)
    assert (found[0], found[3].split(",")[0]) == (0.2, "GPU peak 20 % in 10 samples")
    assert life.read(0.0)[0] == 0.0, "and nothing is left of it"


def test_one_sample_that_was_seen_already_is_none(board: Board) -> None:
    """As of a driver that gives all it has: then nothing ran, if it still says so."""
    life = Life(board)
    life.tick(50)
    board.ring_from, board.ring = False, [board.ring[-1]]
    board.rates = (0, 0)
    found = life.read()
    assert (found[0], found[3].split(",")[0]) == (0.0, "GPU 0 % now")


@pytest.mark.parametrize(
    ("uses", "load"),
    [([0, 0], 0.0), ([100, 0], 1.0), ([0.4, 0], 0.004), ([101, 0], None), ([-1, 0], None), ([-1, 5], None), ([math.nan, 0], None), ([5, math.nan], None), ([math.inf, 0], None)],
)  # fmt: skip
def test_samples_that_cannot_be_are_unknown(board: Board, uses: list[float], load: float | None) -> None:
    """Above all of it, below none of it, or no number: with what they said."""
    life = Life(board)
    life.tick()
    life.now += TICK
    board.ring = [((round(life.now) - ago) * SECOND, use) for ago, use in zip((1, 0), uses, strict=True)]
    if load is None:
        with pytest.raises(UnreadableError, match=r"corrupt answer: GPU use of \S+ % in the samples"):
            life.read(0.0)
        board.ring = [(round(life.now) * SECOND, 30.0)]
        assert life.read(0.0)[0] == 0.3
    else:
        assert life.read(0.0)[0] == load


@pytest.mark.parametrize(("seconds", "covers"), [(4.0, 4.0), (14.0, 14.0), (60.0, 14.0)])
@pytest.mark.parametrize("still", [True, False])
def test_a_ring_that_ran_dry_is_idle_where_the_driver_still_says_so(
    board: Board, still: bool, seconds: float, covers: float
) -> None:
    """For as long as the ring surely reaches back; activity counters say it as well."""
    board.supported, board.metrics = ((0, 1) if still else (0, 0)), STILL
    life = Life(board, {})
    life.tick()
    board.ring, board.energy = [], (0, 0)
    board.rates = (0, 0)
    life.now += seconds
    found = life.gpu.read(life.now)
    said = "no GPU use sampled, SM 0 %" if still else "GPU 0 % now"
    assert (found[0], found[2], found[3][: len(said)]) == (0.0, covers, said)
    board.rates = (0, 30)
    found = life.gpu.read(life.now + 1.0)
    assert found[0] == (0.0 if still else 0.3)


def test_a_ring_that_was_dry_from_the_start_covers_nothing(board: Board) -> None:
    """Nobody looked before."""
    life = Life(board)
    board.ring = []
    assert life.read()[:3] == (0.0, [], 0.0)
    assert life.read(5.0)[2] == 5.0


@pytest.mark.parametrize("code", [*ABSENT, 4])
def test_without_a_ring_the_use_of_the_moment_counts_and_covers_nothing(board: Board, code: int) -> None:
    """The ring is asked for again a minute later; what is beyond all of it is garbage."""
    life = Life(board, {})
    board.ring_code, board.rates = code, (0, 40)
    found = life.read()
    assert (found[0], found[2], found[3].split(",")[0]) == (0.4, 0.0, "GPU 40 % now")
    board.asked()
    life.read()
    assert board.asked().count(RING) == 0
    board.rates = (0, 101)
    with pytest.raises(UnreadableError, match="corrupt answer: GPU use of 101 %"):
        life.read()
    board.rates, board.ring_code = (0, 100), 0
    assert life.read()[0] == 1.0
    for _ in range(3):
        life.tick(30)
    assert life.tick(30)[3].startswith("GPU peak 30 %")


@pytest.mark.parametrize("code", [1, 2, 15, 999])
@pytest.mark.parametrize("of", ["ring", "moment"])
def test_a_use_that_fails_is_unknown(board: Board, code: int, of: str) -> None:
    """With its code; the samples of the time in between are read when it is well again."""
    life = Life(board)
    life.tick()
    if of == "ring":
        board.ring_code = code
    else:
        board.ring_code, board.rates = 3, (code, 0)
    name = "GetSamples" if of == "ring" else "GetUtilizationRates"
    with pytest.raises(NvmlError, match=rf"NVML {code}, {name}\)"):
        life.read()
    if of == "ring":
        board.ring_code = 0
        found = life.tick(20)
        assert (found[0], found[2]) == (0.2, 20.0)


@pytest.mark.parametrize("mode", [(0, 0), (3, 1), (0, 2)])
@pytest.mark.parametrize("code", ABSENT)
def test_a_gpu_that_tells_no_use_at_all_is_unknown(board: Board, code: int, mode: tuple[int, int]) -> None:
    """And asked again each time, ring and moment; it is not said to be divided where the driver does not say so."""
    life = Life(board)
    board.ring_code, board.rates, board.mig = 3, (code, 0), mode
    for _ in range(2):
        with pytest.raises(UnreadableError, match=rf"reports no GPU utilisation \(NVML {code}, GetUtilizationRates\)"):
            life.read()
        assert {RING, RATES, MODE} <= set(board.asked())


# ---- engines ----------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("percent", "use", "load", "said"),
    [(1, 0, 0.01, True), (50, 50, 0.5, False), (51, 50, 0.51, True), (100, 94, 1.0, True), (100, 95, 0.95, False)],
)
def test_an_engine_that_is_busier_is_the_load(
    board: Board, engine: str, percent: int, use: int, load: float, said: bool
) -> None:
    """By its name; a GPU that is all but busy need not be asked for them."""
    board.contexts["Compute"] = (0, 1)
    life = Life(board)
    life.tick(97, 600)
    board.engines[engine] = (0, percent)
    found = life.tick(use, 600)
    assert found[0] == load
    assert found[3].startswith(f"{ENGINES[engine]} {percent} %," if said else f"GPU peak {use} %")


def test_the_busiest_engine_counts(board: Board) -> None:
    """The first of those that are alike."""
    life = Life(board)
    board.engines |= {"Encoder": (0, 10), "Decoder": (0, 30), "Jpg": (0, 30), "Ofa": (0, 20)}
    assert life.tick()[3].startswith("decoder 30 %")


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_of_garbage_is_unknown(board: Board, engine: str) -> None:
    """In its own words."""
    life = Life(board)
    board.engines[engine] = (0, 101)
    with pytest.raises(UnreadableError, match=f"corrupt answer: {ENGINES[engine]} of 101 %"):
        life.tick()


@pytest.mark.parametrize("code", ABSENT)
@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_that_is_not_there_is_asked_for_once_a_minute(board: Board, engine: str, code: int) -> None:
    """Each of those that are there in each tick; one that comes is learnt, and then missed."""
    board.engines[engine], board.contexts["Compute"] = (code, 0), (0, 1)
    life = Life(board, {"bare": 70_000, "held": 70_000})
    name = f"{engine}Utilization"
    counts = []
    for _ in range(13):
        life.tick()
        asked = board.asked()
        counts.append(asked.count(name))
        assert all(asked.count(f"{other}Utilization") == 1 for other in ENGINES if other != engine)
    assert (counts[0], sum(counts)) == (1, 2)
    assert life.learnt.engines == set(ENGINES.values()) - {ENGINES[engine]}
    life.learnt.fresh = False
    board.engines[engine] = (0, 7)
    assert 0.07 in {life.tick()[0] for _ in range(7)}
    assert (life.learnt.engines, life.learnt.fresh) == (set(ENGINES.values()), True)
    board.engines[engine] = (code, 0)
    with pytest.raises(NvmlError, match=rf"NVML {code}, {ENGINES[engine]}\)"):
        life.tick()


@pytest.mark.parametrize("code", FAILING)
@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_that_fails_is_unknown(board: Board, engine: str, code: int) -> None:
    """At rest as at work, and whichever it is."""
    life = Life(board)
    life.tick()
    board.engines[engine] = (code, 0)
    with pytest.raises(NvmlError, match=rf"NVML {code}, {ENGINES[engine]}\)"):
        life.tick()
    board.engines[engine] = (0, 20)
    assert life.tick()[0] == 0.2


# ---- what else shows work ---------------------------------------------------------------------


def test_bytes_and_processes_are_asked_for_in_turn(board: Board) -> None:
    """Both reach back to when they were asked last; with only one of them left it is asked each time, with none nothing."""
    board.fields, board.users, board.contexts["Compute"] = {197: (1, 0, 0)}, (6, []), (0, 1)
    life = Life(board, {"bare": 70_000, "held": 70_000})
    turns = []
    for _ in range(6):
        board.asked()
        life.tick()
        turns.append([name for name in board.asked() if name in {"FieldValues", "ProcessUtilization"}])
    assert turns == [["FieldValues"], ["ProcessUtilization"]] * 3
    board.users = (3, [])
    for _ in range(3):
        life.tick()
    board.asked()
    life.tick()
    assert board.asked().count("FieldValues") == 1
    board.fields = {}
    life.tick()
    board.asked()
    life.tick()
    assert not {"FieldValues", "ProcessUtilization"} & set(board.asked())


def test_without_a_context_no_process_can_use_it(board: Board) -> None:
    """None by the last look; where that is not known they are asked for."""
    life = Life(board)
    life.tick()
    life.tick()
    board.asked()
    for _ in range(4):
        life.tick()
    assert "ProcessUtilization" not in board.asked()
    board.contexts["Compute"] = (15, 0)
    life = Life(board)
    for _ in range(4):
        life.tick()
    assert "ProcessUtilization" in board.asked()


def test_activity_counters_take_the_place_of_bytes_and_processes(board: Board) -> None:
    """They are signs by themselves, and so is power; each is told once."""
    board.supported, board.metrics = (0, 1), {**STILL, 2: 9.0}
    life = Life(board)
    life.tick()
    found = life.tick(0, 200)
    assert found[1] == ["SM 9 %", "power 130 W above idle"]
    assert "tensor 0 %, DRAM 0 %" in found[3]
    assert not {"FieldValues", "ProcessUtilization"} & set(board.asked())
    found = life.tick(97, 200)
    assert found[1] == ["SM 9 %", "power 130 W above idle"]


def test_a_gpu_at_full_use_is_not_asked_for_more(board: Board) -> None:
    """Unless it may be one at which nobody works."""
    board.fields, board.contexts["Compute"] = {197: (1, 0, 0)}, (0, 1)
    life = Life(board)
    life.tick(100, 600)
    board.asked()
    life.tick(100, 600)
    assert not {"FieldValues", "ProcessUtilization", "EncoderUtilization"} & set(board.asked())
    life.tick(94, 600)
    assert {"EncoderUtilization", "ProcessUtilization"} & set(board.asked())


def test_signs_of_a_read_that_failed_are_told_by_the_next(board: Board) -> None:
    """Once, with those of the next; after that they are over."""
    board.supported, board.metrics = (0, 1), {**STILL, 2: 9.0}
    life = Life(board)
    life.tick()
    board.engines["Ofa"] = (15, 0)
    with pytest.raises(NvmlError):
        life.tick()
    board.engines["Ofa"], board.metrics = (0, 0), {**STILL, 5: 3.0}
    assert life.tick()[1] == ["SM 9 %", "tensor 3 %"]
    board.metrics = STILL
    assert life.tick()[1] == []


def test_load_or_a_sign_teaches_no_idle_power(board: Board) -> None:
    """Only what is quiet in every way does."""
    board.supported, board.metrics = (0, 1), {**STILL, 2: 9.0}
    life = Life(board, {})
    for use in (0, 0, 1):
        life.tick(use, 60)
    assert life.learnt.idle == {}
    board.metrics = STILL
    life.tick(1, 60)
    assert life.learnt.idle == {}
    life.tick(0, 61)
    assert life.learnt.idle == {"bare": 61_000}


# ---- words ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("memory", "words"),
    [((0, 5 * MIB + 1), ", 5 MiB in use"), ((0, 0), ", 0 MiB in use"), ((0, (1 << 48) - 1), ", 268435455 MiB in use"), ((0, 1 << 48), ""), ((15, MIB), "")],
)  # fmt: skip
def test_memory_in_words(board: Board, memory: tuple[int, int], words: str) -> None:
    """What cannot be is not told."""
    board.memory = memory
    life = Life(board)
    life.tick()
    assert life.tick()[3] == f"GPU peak 0 % in 10 samples, mean 70 W, 0 compute processes{words}"


def test_all_that_is_known_is_told(board: Board) -> None:
    """Use, activity, power, processes, memory, and why something is left out."""
    board.supported, board.metrics, board.memory, board.contexts["Compute"] = (0, 1), STILL, (0, 7 * MIB), (0, 2)
    life = Life(board)
    life.tick()
    assert life.tick()[3] == (
        "GPU peak 0 % in 10 samples, SM 0 %, tensor 0 %, DRAM 0 %, mean 70 W, 2 compute processes, 7 MiB in use"
    )
    board.sampled = 4
    assert life.tick()[3].endswith(
        "7 MiB in use, activity counters (GPM) unavailable: no permission; run the agent as root, outside any wrapper that drops privileges"
    )


# ---- rare things ------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_looks_are_a_minute_apart_in_a_rhythm_of_its_own(board: Board, share: float) -> None:
    """The second one after this GPU's share of a minute; a tick that comes late does not shift those that follow."""
    life = Life(board, share=share)
    moments = []
    for number in range(60):
        board.asked()
        life.tick(seconds=13.0 if number == 20 else TICK)
        if MEMORY in board.asked():
            moments.append(life.now)
    first = 1010.0 + 60.0 * share
    due = [1010.0, *(first + 60.0 * number for number in range(20))]
    ticks = [1010.0 + TICK * number + (3.0 if number >= 20 else 0.0) for number in range(60)]
    assert moments == [next(tick for tick in ticks if tick >= one) for one in due if one <= ticks[-1]]


def test_what_was_missing_is_asked_for_again_each_minute(board: Board) -> None:
    """Ring, engines, energy, lists, bytes, processes, activity: whatever the driver lacked for a while."""
    board.ring_code, board.rates = 3, (0, 0)
    board.engines["Ofa"] = (3, 0)
    board.contexts["MPSCompute"] = (3, 0)
    life = Life(board)
    rare = {RING, "OfaUtilization", "FieldValues", "nvmlGpmQueryDeviceSupport"}
    moments: dict[str, list[float]] = {name: [] for name in rare}
    for _ in range(20):
        life.read()
        for name in set(board.asked()) & rare:
            moments[name].append(life.now)
    assert moments["nvmlGpmQueryDeviceSupport"] == [1070.0, 1130.0, 1190.0]
    for name in rare - {"nvmlGpmQueryDeviceSupport"}:
        assert moments[name][0] in {1010.0, 1020.0}
        assert len(moments[name]) in {3, 4}, name
        assert {later - one for one, later in pairwise(moments[name])} <= {50.0, 60.0, 70.0, 80.0}


def test_a_use_that_may_be_nobodys_is_looked_at_each_time(board: Board) -> None:
    """Flat, high, nobody there: a look in each tick, which shifts no other one; a swing ends that."""
    board.contexts["Graphics"] = (0, 1)
    life = Life(board)
    life.tick()
    life.tick()
    looks = []
    for use in (19, 20, 100, 100, 100):
        board.asked()
        life.tick(use)
        looks.append(board.asked().count(MEMORY))
    assert looks == [0, 1, 1, 1, 1]
    life.tick(100)
    for low, count in ((94.0, 0), (95.0, 1)):
        life.now += TICK
        board.energy = (0, board.energy[1] + 700_000)
        board.ring = [((round(life.now) - ago) * SECOND, 100.0 if ago else low) for ago in range(9, -1, -1)]
        board.asked()
        life.gpu.read(life.now)
        assert board.asked().count(MEMORY) == count
    life.now += TICK
    board.ring, board.rates = [], (0, 0)
    board.energy = (0, board.energy[1] + 700_000)
    board.asked()
    life.gpu.read(life.now)
    assert board.asked().count(MEMORY) == 0, "what was used before says nothing of now"


@pytest.mark.parametrize(("memory", "looks"), [(64 * MIB - 1, 1), (64 * MIB, 0)])
def test_memory_in_use_is_somebody(board: Board, memory: int, looks: int) -> None:
    """From what the smallest context takes."""
    board.memory = (0, memory)
    life = Life(board)
    life.tick()
    life.tick()
    board.asked()
    life.tick(100)
    assert board.asked().count(MEMORY) == looks


def test_a_ghost_needs_no_engines(board: Board) -> None:
    """A GPU without any is stuck in the same way; a read that fails tells no finding."""
    board.engines = dict.fromkeys(board.engines, (3, 0))
    board.fields, board.users = {}, (3, [])
    life = Life(board)
    life.tick()
    for _ in range(20):
        life.tick(100)
    assert [code for code, _ in life.gpu.findings] == ["ghost"]
    board.ring_code = 15
    with pytest.raises(NvmlError):
        life.read()
    assert life.gpu.findings == []


@pytest.mark.parametrize("use", [99, 100, 98])
def test_a_job_may_hang_from_the_first_read_on_that_looks_so(board: Board, use: int) -> None:
    """Ten minutes after that, at 99 per cent and more; before it drew power as jobs do."""
    board.contexts["Compute"], board.memory = (0, 1), (0, 9000 * MIB)
    life = Life(board)
    for _ in range(4):
        life.tick(100, 600)
    began = life.now + TICK
    found = []
    for _ in range(70):
        life.tick(use, 140)
        if life.gpu.findings:
            found.append(life.now)
    assert found[:1] == ([began + 600.0] if use >= 99 else [])


def test_use_that_dips_between_two_reads_is_a_job_that_works(board: Board) -> None:
    """Its lowest sample counts, not its highest."""
    board.contexts["Compute"], board.memory = (0, 1), (0, 9000 * MIB)
    life = Life(board)
    for _ in range(4):
        life.tick(100, 600)
    for _ in range(70):
        life.now += TICK
        board.ring = [((round(life.now) - ago) * SECOND, 60.0 if ago == 4 else 100.0) for ago in range(9, -1, -1)]
        life.read(0.0, 140)
        board.energy = (0, board.energy[1] + 1_400_000)
        assert life.gpu.findings == []


def test_the_first_read_of_a_busy_gpu_asks_for_no_engines(board: Board) -> None:
    """Nothing makes it look like one at which nobody works."""
    board.contexts["Compute"] = (0, 1)
    Life(board).tick(97, 600)
    assert "EncoderUtilization" not in board.asked()


def test_a_read_that_failed_reads_the_same_samples_again(board: Board) -> None:
    """What ran meanwhile is not lost, and the next reading covers both times."""
    life = Life(board)
    life.tick()
    board.engines["Jpg"] = (15, 0)
    with pytest.raises(NvmlError):
        life.tick(50, 300)
    board.engines["Jpg"] = (0, 0)
    found = life.read(1.0)
    assert (found[0], found[2]) == (0.5, 11.0)
    assert life.tick()[0] == 0.0


@pytest.mark.parametrize(("samples", "proven"), [(0, False), (1, False), (2, True), (16, True)])
def test_a_restart_is_bridged_by_a_ring_that_shows_some_time(board: Board, samples: int, proven: bool) -> None:
    """One sample, or none, shows nothing of it."""
    board.energy, board.rates = (0, 10**10), (0, 0)
    life = Life(board, {"bare": 70_000}, (910.0, 10**10 - 7_000_000))
    board.ring = [(round(1010.0 - ago) * SECOND, 0.0) for ago in range(samples - 1, -1, -1)]
    assert (life.gpu.read(1010.0)[2] == 100.0) is proven


# ---- the same again ---------------------------------------------------------------------------


def rested(board: Board, **given: Any) -> Life:
    """A GPU that has said at rest what it can say."""
    for name, value in given.items():
        setattr(board, name, value)
    life = Life(board)
    for _ in range(13):
        life.tick()
    return life


def test_at_rest_the_same_reading_is_given_again(board: Board) -> None:
    """The very same object, where somebody asks for it so; else a new one with its own small numbers."""
    life = rested(board)
    told = life.tick()
    assert life.tick(0, 71, again=True) is told
    assert life.tick(0, 71) is not told
    assert "mean 71 W" in life.tick(0, 71)[3] or life.gpu.meter.mean == 71_000


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ("nothing", True), ("use", False), ("engine", False), ("power", False), ("power of work", False), ("bytes", False),
        ("a few samples less", True), ("late by 5 s", True), ("late by 6 s", False), ("early by 3 s", True), ("early by 4 s", False), ("a hole", False),
    ],
)  # fmt: skip
def test_what_is_new_is_a_reading_of_its_own(board: Board, change: str, same: bool) -> None:
    """Small numbers of the evidence aside: a longer or shorter time is the same while it is unbroken and of a kind."""
    life = rested(board, fields={197: (1, 0, 0)})
    told = life.tick()
    seconds = {"late by 5 s": 15.0, "late by 6 s": 16.0, "early by 3 s": 7.0, "early by 4 s": 6.0}.get(change, TICK)
    life.now += seconds
    watts = {"power": 76, "power of work": 300}.get(change, 70)
    board.energy = (0, board.energy[1] + round(1000 * watts * seconds))
    life.samples(1 if change == "use" else 0, 3 if change == "a hole" else 16)
    if change == "engine":
        board.engines["Ofa"] = (0, 1)
    if change == "bytes":
        board.fields = {197: (1, 0, 900 << 20)}
    if change == "a few samples less":
        board.ring = board.ring[::2]
    if change == "a hole":
        board.energy = (0, 5)
    found = life.gpu.read(life.now, again=True)
    if change == "bytes" and found is told:
        found = life.tick(again=True)  # they were asked for in the other tick
    assert (found is told) is same


def test_a_time_that_nothing_proves_is_never_the_same(board: Board) -> None:
    """The ring reaches back for less than a tick, and the power may hide work in it: however like the one before it is."""
    life = Life(board)
    for _ in range(4):
        life.tick(0, 90, 70.0)
    told = life.tick(0, 90, 70.0)
    assert told[2] == 15.0
    again = life.tick(0, 90, 70.0, again=True)
    assert again is not told
    assert again == told


def test_half_as_long_again_is_the_same(board: Board) -> None:
    """And two thirds."""
    life = rested(board)
    told = life.tick(seconds=15.0)
    assert life.tick(again=True) is told


def test_samples_that_are_there_again_are_new(board: Board) -> None:
    """While the ring was dry the driver only said what it does at that moment."""
    board.rates = (0, 0)
    life = rested(board)
    board.ring = []
    life.read()
    told = life.read()
    assert told[3].startswith("GPU 0 % now")
    found = life.tick(again=True)
    assert found[3].startswith("GPU peak 0 %")


def test_memory_and_activity_are_part_of_what_is_the_same(board: Board) -> None:
    """When a look finds them changed, that is told."""
    life = rested(board, supported=(0, 1), metrics=STILL)
    told = life.tick()
    assert life.tick(again=True) is told
    board.metrics = {**STILL, 10: 0.9}
    assert life.tick(again=True) is not told
    board.memory = (0, MIB)
    told = life.tick()
    found = [life.tick(again=True) for _ in range(7)]
    assert found[0] is told
    assert found[-1] is not told


def test_a_read_that_failed_is_followed_by_a_new_reading(board: Board) -> None:
    """Unknown lay between; so it is after work, after power that shows it, and for another use than before."""
    life = rested(board)
    told = life.tick()
    board.engines["Ofa"] = (15, 0)
    with pytest.raises(NvmlError):
        life.tick(seconds=3.0, again=True)
    board.engines["Ofa"] = (0, 0)
    assert life.tick(seconds=7.0, again=True) is not told
    told = life.tick()
    life.tick(3, again=True)
    assert life.tick(again=True) is not told
    told = life.tick()
    board.ring_code, board.rates = 3, (0, 0)
    found = life.read(again=True)
    assert found is not told
    assert "GPU 0 % now" in found[3]


def test_more_power_than_a_job_ever_drew_is_new(board: Board) -> None:
    """The most that a job drew is remembered, but for what is noise in the words, too."""
    board.contexts["Compute"] = (0, 1)
    life = Life(board, {"bare": 70_000, "held": 99_000})
    for _ in range(13):
        life.tick(0, 100)
    told = life.tick(0, 100)
    assert life.tick(0, 100, again=True) is told
    assert life.tick(0, 99.5, again=True) is told
    assert life.tick(0, 104.5, again=True) is told
    assert life.tick(0, 106, again=True) is not told
    assert life.learnt.own == 106_000


# ---- the same at work -------------------------------------------------------------------------


def at_work(board: Board, use: float = 93, watts: float = 400, **given: Any) -> Life:
    """A GPU with a job that does the same all the time."""
    board.contexts["Compute"], board.memory = (0, 1), (0, 9000 * MIB)
    for name, value in given.items():
        setattr(board, name, value)
    life = Life(board)
    for _ in range(13):
        life.tick(use, watts)
    return life


@pytest.mark.parametrize("use", [12, 93, 100])
def test_at_steady_work_the_same_reading_is_given_again(board: Board, use: float) -> None:
    """While its power is about that of its words, for five minutes; who does not ask for it so gets a new one."""
    life = at_work(board, use)
    told = life.tick(use, 400)
    assert [life.tick(use, watts, again=True) is told for watts in (400, 439, 361, *[400] * 26)] == [True] * 29
    assert life.tick(use, 400, again=True) is not told
    told = life.tick(use, 400)
    assert life.tick(use, 400) is not told
    told = life.tick(use, 400)
    assert life.tick(use, 442, again=True) is not told


@pytest.mark.parametrize(
    "change", ["load up", "load down", "rest", "a hole", "a late look", "memory", "an engine", "failed"]
)
def test_what_changes_at_work_is_a_reading_of_its_own(board: Board, change: str) -> None:
    """By as little as a percent of load: somebody's threshold may lie between."""
    life = at_work(board, 60)
    told = life.tick(60, 400)
    use, seconds = (
        {"load up": 61, "load down": 59, "rest": 0}.get(change, 60),
        16.0 if change == "a late look" else TICK,
    )
    if change == "an engine":
        board.engines["Ofa"] = (0, 61)
    if change == "memory":
        board.memory = (0, 12000 * MIB)
        life.gpu._look(life.now)  # a rare look, now
    if change == "failed":
        board.engines["Ofa"] = (15, 0)
        with pytest.raises(NvmlError):
            life.tick(60, 400, 3.0, again=True)
        board.engines["Ofa"] = (0, 0)
    if change == "a hole":
        life.now += TICK
        board.energy = (0, board.energy[1] + 4_000_000)
        life.samples(60, 3)
        found = life.gpu.read(life.now, again=True)
    else:
        found = life.tick(use, 400, seconds, again=True)
    assert found is not told
    assert change == "rest" or found[0] == {"load up": 0.61, "load down": 0.59, "an engine": 0.61}.get(change, 0.6)


def test_at_little_load_another_kind_of_sign_is_new(board: Board) -> None:
    """More of the same kind is not; above every threshold that heeds signs, none is."""
    life = at_work(board, 12, supported=(0, 1), metrics={**STILL, 2: 12.0})
    told = life.tick(12, 400)
    board.metrics = {**STILL, 2: 30.0}
    assert life.tick(12, 400, again=True) is told
    board.metrics = {**STILL, 2: 30.0, 5: 9.0}
    assert life.tick(12, 400, again=True) is not told
    told = life.tick(60, 400)
    board.metrics = {**STILL, 10: 9.0}
    assert life.tick(60, 400, again=True) is told


def test_work_is_never_said_of_rest_nor_rest_of_work(board: Board) -> None:
    """The load alone may be the same: zero, with or without a sign of work."""
    life = at_work(board, 0, 400)
    told = life.tick(0, 400)
    assert told[1]
    assert life.tick(0, 400, again=True) is told
    found = life.tick(0, 70, again=True)
    assert not found[1]
    assert life.tick(0, 400, again=True)[1]


def test_power_that_surprises_at_work_is_looked_behind_once(board: Board) -> None:
    """Contexts are counted again when it surprises in another way, and each minute; at rest each time."""
    life = at_work(board, 60)
    board.asked()
    life.tick(60, 400)
    assert "ComputeRunningProcesses" not in board.asked()
    life.tick(60, 80)
    assert "ComputeRunningProcesses" in board.asked()


# ---- a divided GPU ----------------------------------------------------------------------------


def apart(board: Board, *instances: Metrics, share: float = 1.0) -> Life:
    """A GPU that became divided."""
    board.supported, board.ring_code, board.rates, board.mig = (0, 1), 3, (3, 0), (0, 1)
    board.instances = {10 + place: metrics for place, metrics in enumerate(instances)}
    life = Life(board, share=share)
    with pytest.raises(UnreadableError, match="is being measured"):
        life.read()
    return life


def test_a_divided_gpu_is_read_by_its_instances(board: Board) -> None:
    """Its use, its signs; engines and bytes of the whole tell nothing, nor do its own activity counters."""
    life = apart(board, {2: 10.0, 5: 3.0}, {2: 40.0})
    board.engines["Ofa"] = (0, 90)
    life.read()
    board.asked()
    found = life.read()
    assert (found[0], found[2]) == (0.4, 10.0)
    assert found[1][:3] == ["instance 10: SM 10 %", "instance 10: tensor 3 %", "instance 11: SM 40 %"]
    assert found[3].startswith("busiest of 2 MIG instances 40 %, mean 70 W")
    asked = set(board.asked())
    assert not {RING, RATES, "OfaUtilization", "nvmlGpmSampleGet", MODE} & asked


def test_a_divided_gpu_asks_all_instances_where_none_may_wait(board: Board) -> None:
    """Else they take turns."""
    life = apart(board, *(STILL for _ in range(5)))
    life.read()
    samples = "nvmlGpmMigSampleGet"
    board.asked()
    life.read()
    assert board.asked().count(samples) == 3
    life.read(whole=True)
    assert board.asked().count(samples) == 5
    life.read()
    assert board.asked().count(samples) == 3


def test_a_gpu_whose_instances_fail_is_asked_whole_again(board: Board) -> None:
    """Perhaps it is; what was lent is given back."""
    life = apart(board, STILL)
    board.sampled = 15
    with pytest.raises(NvmlError):
        life.read()
    whole = len(board.lent)
    board.ring_code, board.sampled = 0, 0
    assert life.tick(30)[0] == 0.3
    life.gpu.close()
    assert (whole, len(board.lent)) == (2, 0)


def test_what_was_missing_before_it_was_divided_is_asked_for_when_it_is_whole(board: Board) -> None:
    """It may be another GPU than before, as far as the driver tells."""
    board.supported, board.ring_code, board.rates = (0, 1), 0, (0, 0)
    board.engines["Ofa"] = (3, 0)
    life = Life(board)
    life.tick()
    life.tick()
    board.ring_code, board.rates, board.mig, board.instances = 3, (3, 0), (0, 1), {5: STILL}
    with pytest.raises(UnreadableError):
        life.read()
    board.sampled = 15
    with pytest.raises(NvmlError):
        life.read()
    board.ring_code, board.rates, board.sampled = 0, (0, 0), 0
    board.asked()
    life.tick()
    assert "OfaUtilization" in board.asked()


def test_instances_that_stay_unknown_are_given_up_after_a_minute(board: Board) -> None:
    """Then the GPU is asked whole: it may be, or is divided anew."""
    life = apart(board, {})
    moments = []
    for _ in range(15):
        board.asked()
        with pytest.raises(UnreadableError):
            life.read()
        if RING in board.asked():
            moments.append(life.now)
    assert moments == [1080.0, 1150.0]
    board.ring_code = 0
    for _ in range(8):
        try:
            found = life.tick(20)
        except UnreadableError:
            continue
        break
    assert found[0] == 0.2


def test_closing_gives_back_what_was_lent(board: Board) -> None:
    """For the GPU and for its instances."""
    life = apart(board, STILL, STILL)
    life.read()
    assert len(board.lent) >= 4
    life.gpu.close()
    assert board.lent == []
