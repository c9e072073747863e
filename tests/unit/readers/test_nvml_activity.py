"""Signs of work beside the load, each part by itself: activity counters of a GPU and of its instances, bytes, use by process."""

import math
from collections.abc import Sequence

import pytest

from costguard.readers.nvml.codes import NvmlError
from costguard.readers.nvml.gpm import Gpm
from costguard.readers.nvml.mig import AT_ONCE, Divided
from costguard.readers.nvml.traffic import BytesMoved, ProcessUse
from tests.unit.readers.driver import Board, Metrics

TICK = 10.0
ABSENT = [3, 4, 13, 25, 26]
STILL: Metrics = {2: 0.0, 5: 0.0, 10: 0.0}
SUPPORT, SAMPLE, MEANS = "nvmlGpmQueryDeviceSupport", "nvmlGpmSampleGet", "nvmlGpmMetricsGet"
LOOK = "MaxMigDeviceCount"


def counting(board: Board, metrics: Metrics, instance: int | None = None) -> Gpm:
    """Activity counters with two samples taken."""
    board.supported, board.metrics = (0, 1), metrics
    gpm = Gpm(board.nvml, board.handle, instance)
    gpm.read(1000.0)
    gpm.read(1010.0)
    return gpm


def shown(gpm: Gpm) -> tuple[object, ...]:
    return gpm.use, gpm.still, gpm.calm, gpm.signs, gpm.words, gpm.covers


NOTHING: tuple[object, ...] = (None, False, False, [], "", 0.0)

# ---- the counters of one GPU ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metrics", "use", "still", "calm", "signs", "words"),
    [
        ({2: 0.0, 5: 0.0, 10: 0.4}, 0.0, True, True, [], "SM 0 %, tensor 0 %, DRAM 0 %"),
        ({2: 1.9, 5: 0.9, 10: 0.9}, 1.9, True, True, [], "SM 2 %, tensor 1 %, DRAM 1 %"),
        ({2: 2.0, 5: 0.0, 10: 0.0}, 2.0, False, True, ["SM 2 %"], "tensor 0 %, DRAM 0 %"),
        ({2: 0.0, 5: 1.0, 10: 0.0}, 0.0, False, False, ["tensor 1 %"], "SM 0 %, DRAM 0 %"),
        ({2: 0.0, 5: 0.0, 10: 1.0}, 0.0, False, False, ["DRAM 1 %"], "SM 0 %, tensor 0 %"),
        ({**STILL, 20: 4.0, 21: 3.9}, 0.0, False, False, ["PCIe out 4 MiB/s"], "SM 0 %, tensor 0 %, DRAM 0 %"),
        ({**STILL, 20: 500.0}, 0.0, False, False, ["PCIe out 500 MiB/s"], "SM 0 %, tensor 0 %, DRAM 0 %"),
        ({**STILL, 60: 0.9, 61: 1.0}, 0.0, False, False, ["NVLink out 1 MiB/s"], "SM 0 %, tensor 0 %, DRAM 0 %"),
        ({**STILL, 21: 1e8}, 0.0, False, False, ["PCIe in 100000000 MiB/s"], "SM 0 %, tensor 0 %, DRAM 0 %"),
        ({**STILL, 21: 1.1e8}, 0.0, True, True, [], "SM 0 %, tensor 0 %, DRAM 0 %"),
        ({2: 101.0, 5: 101.0, 10: 101.0}, 100.0, False, False, ["SM 101 %", "tensor 101 %", "DRAM 101 %"], ""),
        ({2: 0.0, 5: 101.1, 10: 0.0}, 0.0, False, False, [], "SM 0 %, DRAM 0 %"),
        ({2: -0.1, 5: 0.0, 10: 0.0}, None, False, False, [], "tensor 0 %, DRAM 0 %"),
        ({2: math.nan, 5: 0.0, 10: 0.0}, None, False, False, [], "tensor 0 %, DRAM 0 %"),
        ({2: 0.0, 5: 0.0}, 0.0, False, False, [], "SM 0 %, tensor 0 %"),
        ({5: 0.0, 10: 0.0}, None, False, False, [], "tensor 0 %, DRAM 0 %"),
        ({}, None, False, False, [], ""),
    ],
)  # fmt: skip
def test_what_the_means_say(
    board: Board, metrics: Metrics, use: float | None, still: bool, calm: bool, signs: list[str], words: str
) -> None:
    """Each at its floor is a sign; below it is told for the parts of the GPU; garbage is no value, and what is missing is not still."""
    assert shown(counting(board, metrics)) == (use, still, calm, signs, words, 10.0)


def test_a_first_sample_says_nothing(board: Board) -> None:
    """There is nothing to compare it with; nor is there after a pause in which they were given back."""
    board.supported, board.metrics = (0, 1), STILL
    gpm = Gpm(board.nvml, board.handle)
    assert (gpm.available, shown(gpm)) == (True, NOTHING)
    gpm.read(1000.0)
    assert shown(gpm) == NOTHING
    gpm.read(1010.0)
    assert gpm.covers == 10.0
    gpm.close()
    assert (shown(gpm), gpm.available, board.lent) == (NOTHING, False, [])
    gpm.read(1020.0)
    assert board.asked()[-1] == "nvmlGpmSampleFree", "what is closed asks nothing"
    gpm.ask_again()
    gpm.read(1030.0)
    assert shown(gpm) == NOTHING


@pytest.mark.parametrize(("seconds", "anew"), [(0.05, False), (0.1, True)])
def test_two_samples_are_a_tenth_of_a_second_apart(board: Board, seconds: float, anew: bool) -> None:
    """A second read at once leaves the first one's answer."""
    gpm = counting(board, {**STILL, 2: 50.0})
    board.metrics = STILL
    gpm.read(1010.0 + seconds)
    assert (gpm.use, gpm.covers) == ((0.0, pytest.approx(seconds)) if anew else (50.0, 10.0))


def test_the_question_whether_it_has_them_is_asked_until_it_has(board: Board) -> None:
    """Then never again; its rooms are lent once."""
    gpm = Gpm(board.nvml, board.handle)
    gpm.ask_again()
    gpm.read(1000.0)
    assert board.asked()[-2:] == [SUPPORT, SUPPORT]
    board.supported = (15, 1)
    gpm.ask_again()
    assert (gpm.available, board.lent) == (False, [])
    board.supported = (0, 1)
    gpm.ask_again()
    assert (gpm.available, len(board.lent)) == (True, 2)
    board.asked()
    gpm.ask_again()
    assert (board.asked(), len(board.lent)) == ([], 2)


@pytest.mark.parametrize("lent", [0, 1])
def test_without_room_for_two_samples_there_are_none(board: Board, lent: int) -> None:
    """What was lent already is given back."""
    board.supported = (0, 1)

    def lend(to: int) -> int:
        board.room = 0 if len(board.lent) < lent else 20
        return board._lend(to)

    board.library.define("nvmlGpmSampleAlloc", lend)
    gpm = Gpm(board.nvml, board.handle)
    assert (gpm.available, gpm.note, board.lent) == (False, "", [])


@pytest.mark.parametrize("code", ABSENT)
@pytest.mark.parametrize("call", ["sampled", "measured", "supported"])
def test_counters_that_are_not_for_us_are_left_out(board: Board, call: str, code: int) -> None:
    """Everything is given back; where somebody can change it, the words say so until it has changed."""
    gpm = counting(board, STILL)
    if call == "supported":
        gpm.close()
        board.supported = (code, 1)
        gpm.ask_again()
    else:
        setattr(board, call, code)
        gpm.read(1020.0)
    assert (shown(gpm), gpm.available, board.lent) == (NOTHING, False, [])
    assert gpm.note.startswith("activity counters (GPM) unavailable: no permission") is (code == 4)
    board.sampled, board.measured, board.supported = 0, 0, (0, 1)
    gpm.ask_again()
    assert (gpm.available, gpm.note) == (True, "")


def test_samples_that_do_not_belong_together_say_nothing(board: Board) -> None:
    """As after a reset; the next two do. A sample that is refused so means that the GPU is divided now."""
    gpm = counting(board, STILL)
    board.measured = 2
    gpm.read(1020.0)
    assert (shown(gpm), gpm.available) == (NOTHING, True)
    board.measured = 0
    gpm.read(1030.0)
    assert gpm.covers == 10.0
    board.sampled = 2
    gpm.read(1040.0)
    assert not gpm.available
    board.instances, board.sampled = {5: STILL}, 0
    part = counting(board, STILL, 5)
    board.sampled = 2
    with pytest.raises(NvmlError, match=r"NVML 2, GpmSampleGet\)"):
        part.read(1050.0)


@pytest.mark.parametrize(("call", "name"), [("sampled", "GpmSampleGet"), ("measured", "GpmMetricsGet")])
@pytest.mark.parametrize("code", [1, 15, 999])
def test_counters_that_fail_are_unknown(board: Board, call: str, name: str, code: int) -> None:
    """And nothing of the answer before stays."""
    gpm = counting(board, {**STILL, 2: 50.0})
    setattr(board, call, code)
    with pytest.raises(NvmlError, match=rf"NVML {code}, {name}\)"):
        gpm.read(1020.0)
    assert (shown(gpm), gpm.available) == (NOTHING, True)
    setattr(board, call, 0)
    gpm.read(1040.0)
    assert gpm.covers == (30.0 if call == "sampled" else 20.0)


@pytest.mark.parametrize(
    ("metrics", "use"),
    [
        ({2: 5.0}, 5.0), ({2: 5.0, 31: 40.0}, 40.0), ({2: 50.0, 31: 40.0}, 50.0), ({2: 5.0, 30: 9.0}, 9.0), ({2: 5.0, 37: 9.0}, 9.0),
        ({2: 5.0, 40: 9.0, 47: 8.0}, 9.0), ({2: 5.0, 50: 9.0, 51: 10.0}, 10.0), ({2: 5.0, 38: 90.0, 52: 90.0}, 5.0),
        ({2: 5.0, 31: 101.0}, 100.0), ({2: 5.0, 31: 101.1}, 5.0), ({2: 5.0, 31: -1.0}, 5.0), ({31: 40.0}, None), ({2: 0.0, 31: 0.0}, 0.0),
    ],
)  # fmt: skip
def test_an_instance_is_as_busy_as_its_busiest_part(board: Board, metrics: Metrics, use: float | None) -> None:
    """Its engines count as load; without its SMs nothing is known. A whole GPU has engines of its own."""
    board.instances = {5: metrics}
    assert counting(board, {2: 77.0}, 5).use == use
    assert counting(board, {2: 5.0, 31: 40.0}).use == 5.0


def test_a_tenth_of_a_second_is_enough(board: Board) -> None:
    """For two samples, and for two looks at bytes: the library's own limit."""
    board.supported, board.metrics, board.fields = (0, 1), STILL, {197: (1, 0, 0)}
    gpm, traffic = Gpm(board.nvml, board.handle), BytesMoved(board.nvml, board.handle)
    gpm.read(0.1)
    gpm.read(0.2)
    assert gpm.covers == 0.1
    traffic.read(0.1)
    assert traffic.known


# ---- instances --------------------------------------------------------------------------------


def divided(board: Board, *instances: Metrics, share: float = 1.0) -> Divided:
    board.supported = (0, 1)
    board.instances = {10 + place: metrics for place, metrics in enumerate(instances)}
    return Divided(board.nvml, board.handle, share)


def test_all_instances_are_known_or_none_is(board: Board) -> None:
    """The busiest counts, the shortest time, and every sign with its instance."""
    parts = divided(board, {2: 10.0}, {2: 30.0, 5: 2.0})
    assert parts.signs == []
    assert parts.read(1000.0, whole=False) == "the GPU is divided (MIG): instance 10 is being measured"
    assert parts.read(1010.0, whole=False) == (30.0, 10.0, "busiest of 2 MIG instances 30 %")
    assert parts.signs == ["instance 10: SM 10 %", "instance 11: SM 30 %", "instance 11: tensor 2 %"]
    board.instances = {10: {2: 10.0}, 11: {}}
    assert parts.read(1020.0, whole=False) == "the GPU is divided (MIG): instance 11 is being measured"
    assert parts.signs == ["instance 10: SM 10 %"]
    board.instances = {10: {2: 0.0}, 11: {2: 0.0}}
    assert parts.read(1030.0, whole=False) == (0.0, 10.0, "busiest of 2 MIG instances 0 %")


def test_one_instance_is_one(board: Board) -> None:
    """In words."""
    parts = divided(board, {2: 10.0})
    parts.read(1000.0, whole=False)
    assert parts.read(1010.0, whole=False) == (10.0, 10.0, "busiest of 1 MIG instance 10 %")


def test_without_an_instance_or_without_counters_nothing_is_known(board: Board) -> None:
    """The words say which; where somebody can change it, how."""
    assert divided(board).read(1000.0, whole=False) == "the GPU is divided (MIG) and no instance is visible"
    parts = divided(board, STILL)
    board.supported = (0, 0)
    missing = "the GPU is divided (MIG): the driver has no activity counters (GPM)"
    assert parts.read(1000.0, whole=False) == missing
    board.supported = (4, 0)
    assert "no permission" in str(parts.read(1001.0, whole=False)), "looked at again at once"
    board.supported = (0, 1)
    assert "being measured" in str(parts.read(1002.0, whole=False))


@pytest.mark.parametrize("code", [*ABSENT, 1, 15, 999])
def test_instances_that_cannot_be_listed(board: Board, code: int) -> None:
    """A driver that lacks the call shows none; one that fails is unknown."""
    parts = divided(board, STILL)
    board.places = (code, 0)
    if code in ABSENT:
        assert "no instance is visible" in str(parts.read(1000.0, whole=False))
    else:
        with pytest.raises(NvmlError, match=rf"NVML {code}, GetMigDeviceHandleByIndex\)"):
            parts.read(1000.0, whole=False)


def test_an_instance_that_went_away_gives_its_rooms_back(board: Board) -> None:
    """At the next look, a minute later; one that came is measured from then on, and all of them at the end."""
    parts = divided(board, STILL, STILL)
    for second in range(1000, 1060, 10):
        parts.read(float(second), whole=False)
    assert len(board.lent) == 4
    board.instances = {11: STILL, 12: STILL, 13: STILL}
    with pytest.raises(NvmlError):
        parts.read(1059.0, whole=False)
    assert "instance 12" in str(parts.read(1060.0, whole=False))
    assert len(board.lent) == 6
    found = parts.read(1070.0, whole=False)
    assert found[:2] == (0.0, 10.0)
    parts.close()
    assert board.lent == []
    assert parts.read(1071.0, whole=False) == "the GPU is divided (MIG) and no instance is visible"


@pytest.mark.parametrize(("share", "second"), [(0.5, 1030.0), (1.0, 1060.0)])
def test_looks_at_the_instances_are_spread(board: Board, share: float, second: float) -> None:
    """The second one after this GPU's share of a minute, then each minute."""
    parts = divided(board, STILL, share=share)
    looks = []
    for number in range(0, 200, 2):
        board.asked()
        parts.read(1000.0 + number, whole=False)
        if LOOK in board.asked():
            looks.append(1000.0 + number)
    assert looks == [1000.0, *(second + 60.0 * number for number in range(4) if second + 60.0 * number < 1200.0)]


def test_instances_take_turns_at_rest(board: Board) -> None:
    """Those that waited longest, so many at once; the time of the oldest is what is covered, where all were asked."""
    parts = divided(board, *(Metrics({2: float(place)}) for place in range(5)))
    assert isinstance(parts.read(1000.0, whole=False), str)
    assert parts.read(1010.0, whole=False) == (4.0, 10.0, "busiest of 5 MIG instances 4 %")
    samples = "nvmlGpmMigSampleGet"
    board.asked()
    turns = []
    for second in (1020.0, 1030.0, 1040.0, 1050.0):
        found = parts.read(second, whole=False)
        turns.append((board.asked().count(samples), found[1]))
    assert turns == [(AT_ONCE, 0.0)] * 4
    assert parts.read(1051.0, whole=True)[1] == 1.0
    assert board.asked().count(samples) == 5
    assert parts.read(1071.0, whole=False)[1] == 0.0
    assert parts.read(1091.5, whole=False)[1] == 20.5, "after a hole all of them"


# ---- bytes ------------------------------------------------------------------------------------

PCIE = {197: "PCIe out", 198: "PCIe in"}
LINKS = {138: "NVLink out", 139: "NVLink in", 140: "NVLink out", 141: "NVLink in"}


def test_before_the_first_look_nothing_is_known(board: Board) -> None:
    """There may be counters."""
    traffic = BytesMoved(board.nvml, board.handle)
    assert (traffic.available, traffic.known, traffic.still) == (True, False, False)


def moving(board: Board, fields: dict[int, tuple[int, int, int]], now: float = 1000.0) -> BytesMoved:
    board.fields = fields
    traffic = BytesMoved(board.nvml, board.handle)
    assert traffic.read(now) == []
    return traffic


@pytest.mark.parametrize(
    ("field", "kind", "before", "after", "signs"),
    [
        (197, 1, 0, 40 << 20, ["PCIe out 4 MiB/s"]), (197, 1, 0, (40 << 20) - 1, []), (198, 1, 5, 5 + (500 << 20), ["PCIe in 50 MiB/s"]),
        (197, 1, (1 << 32) - (20 << 20), 20 << 20, ["PCIe out 4 MiB/s"]), (198, 2, 1 << 40, (1 << 40) + (40 << 20), ["PCIe in 4 MiB/s"]),
        (138, 3, 0, 10 << 10, ["NVLink out 1 MiB/s"]), (139, 3, 0, (10 << 10) - 1, []), (139, 3, 0, 10 << 20, ["NVLink in 1024 MiB/s"]),
        (140, 3, 0, 10 << 10, ["NVLink out 1 MiB/s"]), (141, 3, 0, 20 << 10, ["NVLink in 2 MiB/s"]), (197, 1, 7, 7, []),
    ],
)  # fmt: skip
def test_bytes_over_the_time_since_the_last_look(
    board: Board, field: int, kind: int, before: int, after: int, signs: list[str]
) -> None:
    """A rate at the floor is a sign, also over the end of a counter; what stands is still."""
    traffic = moving(board, {field: (kind, 0, before)})
    assert (traffic.known, traffic.still) == (True, False), "one look tells no rate"
    board.fields = {field: (kind, 0, after)}
    assert traffic.read(1010.0) == signs
    assert (traffic.known, traffic.still) == (True, not signs)


def test_raw_counters_stand_in_for_those_of_data_that_are_missing(board: Board) -> None:
    """They hold the protocol too; together they would say everything twice."""
    every = dict.fromkeys(LINKS, (3, 0, 0)) | dict.fromkeys(PCIE, (1, 0, 0))
    traffic = moving(board, every)
    board.fields = {number: (kind, 0, 100 << 20) for number, (kind, _, _) in every.items()}
    assert traffic.read(1010.0) == [
        "PCIe out 10 MiB/s",
        "PCIe in 10 MiB/s",
        "NVLink out 10240 MiB/s",
        "NVLink in 10240 MiB/s",
    ]
    board.fields = {number: one for number, one in every.items() if number != 139}
    traffic = moving(board, board.fields)
    board.fields = dict.fromkeys((138, 140, 141), (3, 0, 100 << 20))
    assert traffic.read(1010.0) == ["NVLink out 10240 MiB/s", "NVLink in 10240 MiB/s"]


@pytest.mark.parametrize("code", ABSENT)
def test_counters_of_bytes_that_are_not_there_are_not_asked_for_again(board: Board, code: int) -> None:
    """When none is left, neither is the call; somebody may say that it is there by now."""
    traffic = moving(board, {197: (1, 0, 0)})
    board.fields = {197: (1, code, 0)}
    assert (traffic.read(1010.0), traffic.available, traffic.known, traffic.still) == ([], False, False, False)
    traffic.ask_again()
    assert traffic.available
    board.fields = {197: (1, 0, 0), 198: (1, 0, 0)}
    traffic.read(1020.0)
    assert traffic.known
    board.fielded = code
    assert (traffic.read(1030.0), traffic.available, traffic.known) == ([], False, False)


@pytest.mark.parametrize("code", [1, 15, 999])
def test_counters_of_bytes_that_fail(board: Board, code: int) -> None:
    """All of them: unknown. A single one: it says nothing now, and is asked again; then it has to begin anew."""
    traffic = moving(board, {197: (1, 0, 0), 198: (1, 0, 0)})
    board.fields = {197: (1, code, 0), 198: (1, 0, 400 << 20)}
    assert (traffic.read(1010.0), traffic.known, traffic.still) == (["PCIe in 40 MiB/s"], True, False)
    board.fields = {197: (1, 0, 400 << 20), 198: (1, 0, 400 << 20)}
    assert (traffic.read(1020.0), traffic.still) == ([], True)
    board.fielded = code
    with pytest.raises(NvmlError, match=rf"NVML {code}, GetFieldValues\)"):
        traffic.read(1030.0)
    assert (traffic.known, traffic.still, traffic.available) == (False, False, True)
    board.fielded, board.fields = 0, {197: (1, 0, 1200 << 20), 198: (1, 0, 400 << 20)}
    assert traffic.read(1040.0) == ["PCIe out 40 MiB/s"], "over the whole time since the last good look"


def test_what_came_anew_is_not_still(board: Board) -> None:
    """Nothing is known of what it moved: only what was there before can stand."""
    traffic = moving(board, {197: (1, 0, 0)})
    board.fields = {197: (1, 15, 0), 198: (1, 0, 0)}
    traffic.ask_again()
    assert (traffic.read(1010.0), traffic.known, traffic.still) == ([], True, False)


@pytest.mark.parametrize(("seconds", "asked"), [(0.05, 0), (0.125, 1)])
def test_looks_at_bytes_that_follow_at_once_are_one(board: Board, seconds: float, asked: int) -> None:
    """A rate over less would be noise."""
    traffic = moving(board, {197: (1, 0, 0)})
    board.asked()
    traffic.read(1000.0 + seconds)
    assert board.asked().count("FieldValues") == asked


# ---- use by process ---------------------------------------------------------------------------

Rows = Sequence[tuple[int, int, tuple[int, int, int, int]]]


@pytest.mark.parametrize(
    ("rows", "signs"),
    [
        ([(42, 5, (2, 0, 0, 0))], ["process 42 uses 2 % of the SMs"]), ([(42, 5, (1, 1, 1, 1))], []),
        ([(42, 5, (0, 3, 0, 0))], ["process 42 uses 3 % of the memory bandwidth"]), ([(42, 5, (0, 0, 3, 0))], ["process 42 uses 3 % of the encoder"]),
        ([(42, 5, (0, 0, 0, 100))], ["process 42 uses 100 % of the decoder"]), ([(42, 5, (0, 0, 0, 101))], []),
        ([(1, 5, (3, 0, 0, 0)), (2, 6, (9, 0, 0, 0)), (3, 7, (5, 0, 0, 0))], ["process 2 uses 9 % of the SMs"]),
        ([(1, 5, (9, 0, 0, 0)), (2, 6, (9, 0, 0, 0))], ["process 1 uses 9 % of the SMs"]),
        ([(1, 5, (4, 4, 0, 0))], ["process 1 uses 4 % of the SMs"]), ([], []),
    ],
)  # fmt: skip
def test_the_busiest_process(board: Board, rows: Rows, signs: list[str]) -> None:
    """By the most that it uses of anything; more than all of it is garbage."""
    board.users = (0, list(rows))
    assert ProcessUse(board.nvml, board.handle).read() == signs


def test_what_was_told_is_not_told_again(board: Board) -> None:
    """Only what is newer than the newest that was seen, garbage left out."""
    users = ProcessUse(board.nvml, board.handle)
    board.users = (0, [(1, 50, (9, 0, 0, 0)), (2, 40, (8, 0, 0, 0)), (3, 900, (200, 0, 0, 0))])
    assert users.read() == ["process 1 uses 9 % of the SMs"]
    assert users.read() == []
    board.users = (0, [(1, 50, (9, 0, 0, 0)), (2, 51, (8, 0, 0, 0))])
    assert users.read() == ["process 2 uses 8 % of the SMs"]


def test_only_newer_use_is_asked_for(board: Board) -> None:
    """From the beginning at first."""
    asked: list[int] = []

    def answer(to: int, count: int, since: int) -> int:
        asked.append(since)
        return Board._use(board, to, count, since)

    board._use = answer  # type: ignore[method-assign] # the driver's, not ours
    users = ProcessUse(board.nvml, board.handle)
    board.users = (0, [(1, 50, (1, 0, 0, 0)), (1, 30, (1, 0, 0, 0))])
    users.read()
    board.users = (6, [])
    assert users.read() == []
    users.read()
    assert asked == [0, 50, 50]
    assert users.available


@pytest.mark.parametrize("code", [*ABSENT, 1, 15, 999])
def test_use_by_process_that_is_not_there_or_fails(board: Board, code: int) -> None:
    """Left out until somebody says that it may be there, or unknown."""
    users = ProcessUse(board.nvml, board.handle)
    board.users = (code, [])
    if code in ABSENT:
        assert (users.read(), users.available) == ([], False)
        users.ask_again()
        assert users.available
    else:
        with pytest.raises(NvmlError, match=rf"NVML {code}, GetProcessUtilization\)"):
            users.read()
        assert users.available
