"""What the NVML reader answers, line by line: which GPUs, in what words, how it is driven, and when only a fresh process can do better."""

import gc
import json
import os
import time
import weakref
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from costguard.clocks import boot_clock
from costguard.readers.nvml.reader import EXIT_FAILED, Lines, Reader, Schedule, _schedule_of, asleep, serve
from costguard.testing.nvml import Process, Script, Values, write_sysfs
from tests.faults.nvml_world import KEYS, TICK, Answer, World, loads, running, settle, words

OPEN, COUNT, DETACH = "nvmlDeviceGetHandleByPciBusId_v2", "nvmlDeviceGetCount_v2", "nvmlShutdown"
MEMORY = "nvmlDeviceGetMemoryInfo_v2"
MOST = float(1 << 64)


def keys(answer: Answer) -> list[str]:
    return [row[0] for row in answer["gpus"]]


def moved(world: World, *addresses: str, driver: str) -> None:
    """Devices of the bus that another driver has now."""
    for address in addresses:
        (world.sysfs / "bus/pci/drivers/nvidia" / address).unlink()
        link = world.sysfs / "bus/pci/devices" / address / "driver"
        link.unlink()
        link.symlink_to(f"../../drivers/{driver}")


# ---- one answer -------------------------------------------------------------------------------


def test_an_answer_says_everything_once(world: World) -> None:
    """Rows and counters always; who the GPUs are when that is new; what was learnt when it changed; nothing that is not there."""
    reader = world.reader()
    first = reader.read()
    assert set(first) == {"read", "gpus", "counters", "info", "learnt"}
    assert first["learnt"] == {key: {"engines": ["JPEG engine", "OFA", "decoder", "encoder"]} for key in KEYS}
    assert first["info"] == {
        key: {"index": index, "uuid": f"GPU-5d000000-0000-4000-8000-{index:012x}", "name": "NVIDIA H100 80GB HBM3"}
        for index, key in enumerate(KEYS)
    }
    settle(TICK)
    second = reader.read()
    assert set(second) == {"read", "gpus", "counters", "learnt"}
    assert [one["bare"] for one in second["learnt"].values()] == [pytest.approx(70_000, abs=20)] * 2
    settle(TICK)
    third = reader.read()
    assert set(third) == {"read", "gpus", "counters"}
    assert third["counters"] == {
        key: [world.clock.boottime(), pytest.approx(third["counters"][key][1])] for key in KEYS
    }
    assert third["counters"][KEYS[0]][1] > second["counters"][KEYS[0]][1] > first["counters"][KEYS[0]][1]


def test_a_row_is_a_load_its_signs_what_it_covers_and_words(world: World) -> None:
    """A load of four digits; the cover has in it how long an answer may be on its way, and where there is none that is none either."""
    world.script.set(0, util=100 / 3, ring_type=0, energy="na")
    world.script.fail("nvmlDeviceGetSamples", 3, gpu=1)
    world.script.set(1, energy="na", power=600)
    reader = world.reader()
    reader.read()
    settle(TICK - 0.01)
    one, other = reader.read()["gpus"]
    assert one[:4] == [KEYS[0], 0.3333, [], 10.1]
    assert other[:4] == [KEYS[1], 0.0, ["power 600 W, above what an idle GPU can draw"], 0]


def test_how_long_an_answer_took_is_in_what_it_covers(world: World) -> None:
    """The guard counts from when it arrives."""

    class Late:
        """A clock that runs on by a third of a second each time that somebody looks."""

        def __init__(self) -> None:
            self.looks = 0

        def __call__(self) -> float:
            self.looks += 1
            return world.clock.boottime() + 0.3333

    reader = Reader(str(world.sysfs), str(world.folder / "dev"), clock=Late())
    for number in range(2):
        settle(TICK)
        answer: Any = reader.read(number, world.clock.boottime())
    assert [row[3] for row in answer["gpus"]] == [10.43, 10.43]
    reader.detach()


def test_findings_name_their_gpu(world: World) -> None:
    """As long as there are some."""
    reader = world.reader()
    reader.read()
    world.script.set(1, util=100)
    for _ in range(15):
        settle(TICK)
        answer = reader.read()
    ((key, code, said),) = answer["findings"]
    assert (key, code, said.startswith("GPU use is stuck at 100 %")) == (KEYS[1], "ghost", True)
    assert loads(answer) == [0, 0]
    world.script.set(1, util=50, processes=[Process(4)])
    settle(TICK)
    assert "findings" not in reader.read()


# ---- which GPUs -------------------------------------------------------------------------------


def test_where_the_driver_lists_nothing_that_is_said(world: World) -> None:
    """It may have failed to: what there is on the bus tells more."""
    world.script.system(count=0)
    empty = write_sysfs(world.folder / "other", [])
    answer = world.reader(sysfs=empty).read()
    assert (answer["gpus"], answer["error"], answer["hardware"]) == ([], "the driver lists no GPU", None)
    assert answer["info"] == {}
    answer = world.reader().read()
    assert keys(answer) == KEYS
    assert "error" not in answer


@pytest.mark.parametrize(("code", "hardware"), [(9, False), (18, None), (999, None)])
def test_a_driver_that_is_not_loaded_proves_nothing(world: World, code: int, hardware: bool | None) -> None:
    """Any other failure proves that there is one: then an empty bus is none that was seen."""
    world.script.fail("nvmlInit", code)
    empty = write_sysfs(world.folder / "other", [])
    reader = world.reader(sysfs=empty)
    answer = reader.read()
    assert (answer["gpus"], answer["hardware"], reader.reader.failed) == ([], hardware, True)
    assert f"(NVML {code}, Init)" in answer["error"]
    reader = world.reader()
    answer = reader.read()
    assert (loads(answer), answer["hardware"]) == ([None, None], True)
    assert [reader.reader.news(number, world.clock.boottime()) is None for number in range(3)] == [False] * 3
    assert words(answer) == words(answer, 1) == answer["error"]
    assert [row[1:4] for row in answer["gpus"]] == [[None, [], 0]] * 2
    assert answer["counters"] == {}


def test_a_driver_without_a_number_of_gpus_has_failed(world: World) -> None:
    """Whatever it says else."""
    world.script.fail("nvmlDeviceGetCount", 999)
    reader = world.reader()
    assert "(NVML 999, GetCount)" in reader.read()["error"]
    assert reader.reader.failed


@pytest.mark.parametrize("look", [True, False])
def test_which_gpus_there_are_is_looked_at_each_minute(world: World, look: bool) -> None:
    """Or when somebody asks for it, at the bus and at the driver's list."""
    reader = world.reader()
    reader.read()
    write_sysfs(world.sysfs, ["0000:03:00.0"])
    settle(10.0)
    assert len(reader.read()["gpus"]) == 2
    settle(0.0 if look else 50.0)
    answer = reader.read(look=look)
    assert keys(answer) == [*KEYS, "0000:03:00.0"]
    assert "info" in answer
    world.script.add(pci="0000:03:00.0", util=40)
    world.script.add(pci="0000:04:00.0", util=50)
    settle(10.0)
    assert loads(reader.read()) == [0, 0, None]
    settle(0.0 if look else 50.0)
    answer = reader.read(look=look)
    assert (keys(answer), loads(answer)) == ([*KEYS, "0000:03:00.0", "0000:04:00.0"], [0, 0, 0.4, 0.5])
    assert set(answer["info"]) == set(keys(answer))
    settle(10.0)
    assert "info" not in reader.read()


def test_a_look_at_what_has_not_changed_opens_nothing(world: World) -> None:
    """Nor does a number that the driver does not tell."""
    reader = world.reader()
    reader.read()
    world.log.unlink()
    for now, looks in ((86459.0, 0), (86460.0, 1), (86519.0, 1), (86520.0, 2)):
        assert "info" not in reader.reader.read(7, now)
        assert [name for name, _ in world.calls()].count(COUNT) == looks
    assert "nvmlDeviceGetHandleByIndex_v2" not in {name for name, _ in world.calls()}
    world.script.fail("nvmlDeviceGetCount", 15)
    settle(200.0)
    assert loads(reader.read()) == [0, 0]
    assert "nvmlDeviceGetHandleByIndex_v2" not in {name for name, _ in world.calls()}


def test_gpus_are_in_the_order_of_the_bus(world: World) -> None:
    """Those that come later, too."""
    world.script.set(0, pci="0000:09:00.0")
    write_sysfs(world.sysfs, ["0000:09:00.0"])
    reader = world.reader(known=["0000:00:1f.0"])
    assert keys(reader.read()) == ["0000:00:1f.0", *KEYS, "0000:09:00.0"]


def test_a_gpu_that_another_driver_takes_is_not_ours_any_more(world: World) -> None:
    """With all that was kept of it; it may come back."""
    world.script.set(1, gpm=True)
    reader = world.reader()
    reader.read()
    moved(world, KEYS[1], driver="vfio-pci")
    world.script.system(count=1)
    settle(60.0)
    assert keys(reader.read()) == KEYS[:1]
    assert [name for name, _ in world.calls()].count("nvmlGpmSampleFree") == 2, "what was lent for it is given back"


@pytest.mark.parametrize(("code", "said"), [(15, "NVML 15, GetHandleByIndex"), (4, "NVML 4, GetHandleByIndex")])
def test_a_gpu_that_nobody_can_name_has_a_place_by_its_number(world: World, code: int, said: str) -> None:
    """On no bus, and not to be opened: unknown, one place for each."""
    world.script.set(1, handle=code)
    world.script.set(0, util=30)
    empty = write_sysfs(world.folder / "other", [])
    reader = world.reader(sysfs=empty)
    answer = reader.read()
    assert (keys(answer), loads(answer)) == ([KEYS[0], "index:1"], [0.3, None])
    assert said in words(answer, 1)
    assert set(answer["info"]) == {KEYS[0]}
    assert keys(world.reader().read()) == KEYS, "on a bus it has its place there"


def test_the_index_is_that_of_the_list_where_the_gpu_does_not_tell_it(world: World) -> None:
    """Its own counts where it does."""
    world.script.fail("nvmlDeviceGetIndex", 3, gpu=1)
    assert [one["index"] for one in world.reader().read()["info"].values()] == [0, 1]


# ---- one GPU fails ----------------------------------------------------------------------------


def test_a_gpu_that_fails_gets_a_fresh_handle_ever_more_rarely(world: World) -> None:
    """After three, six and twelve failed reads and every thirtieth: opening one may be slow."""
    reader = world.reader()
    reader.read()
    world.script.fail("nvmlDeviceGetSamples", 999, gpu=1)
    opened = []
    for number in range(1, 92):
        world.log.unlink(missing_ok=True)
        reader.read()
        if OPEN in {name for name, _ in world.calls()}:
            opened.append(number)
    assert opened == [4, 7, 13, 31, 61, 91]
    world.script.heal()
    assert loads(reader.read()) == [0, 0]
    world.log.unlink()
    world.script.fail("nvmlDeviceGetSamples", 999, gpu=1)
    for _ in range(3):
        reader.read()
    assert OPEN not in {name for name, _ in world.calls()}, "counted anew"


def test_a_gpu_that_cannot_be_opened_is_tried_in_the_same_way(world: World) -> None:
    """With its words, and known at once when it can."""
    world.script.set(1, handle=15)
    reader = world.reader()
    found = [reader.read() for _ in range(3)]
    assert all("NVML 15, GetHandle)" in words(answer, 1) for answer in found)
    world.script.set(1, handle=0, util=20)
    settle(1.0)
    answer = reader.read()
    assert (loads(answer), set(answer["info"])) == ([0, 0.2], set(KEYS))


def test_what_the_counter_said_survives_a_fresh_handle(world: World) -> None:
    """It proves the time of the failure quiet, or shows what was drawn."""
    reader = world.reader()
    for _ in range(3):
        settle(TICK)
        reader.read()
    world.script.fail("nvmlDeviceGetSamples", 999, gpu=1)
    for _ in range(3):
        settle(20.0)
        answer = reader.read()
    assert answer["counters"][KEYS[1]][0] == pytest.approx(world.clock.boottime() - 60.0, abs=0.1)
    world.script.heal()
    answer = reader.read()
    assert answer["gpus"][1][3] == pytest.approx(60.0, abs=1.0)
    assert "since before the restart" in words(answer, 1)


# ---- only a fresh process can do better -------------------------------------------------------


def test_a_gpu_that_nobody_asked_yet_is_unknown(world: World) -> None:
    """It is on the bus, and the driver does not say how many there are: that is no failure of the reader's."""
    reader = world.reader()
    reader.read()
    world.script.fail("nvmlDeviceGetCount", 15)
    write_sysfs(world.sysfs, ["0000:09:00.0"])
    settle(60.0)
    answer = reader.read()
    assert (loads(answer), words(answer, 2), reader.reader.failed) == ([0, 0, None], "not asked yet", False)


def test_a_gpu_that_is_not_itself_any_more_is_let_go(world: World) -> None:
    """Its fresh handle gives garbage: nothing is read through the old one, and it is tried again."""
    world.script.set(1, gpm=True)
    reader = world.reader()
    reader.read()
    world.script.fail("nvmlDeviceGetSamples", 999, gpu=1)
    for _ in range(3):
        reader.read()
    world.script.heal()
    world.script.set(1, name_hex="fffe80")
    for _ in range(2):
        answer = reader.read()
        assert loads(answer) == [0, None]
        assert "not text" in words(answer, 1)
    world.script.set(1, name="H100")
    assert 0 in [loads(reader.read())[1] for _ in range(4)]


def failing(world: World, *codes: int) -> tuple[Any, list[Answer]]:
    """A reader whose GPUs fail so from the second read on, and five answers."""
    reader = world.reader()
    reader.read()
    for gpu, code in enumerate(codes):
        world.script.fail("nvmlDeviceGetSamples", code, gpu=gpu)
    found = []
    for _ in range(5):
        found.append(reader.read())
        if reader.reader.failed:
            break
    return reader, found


@pytest.mark.parametrize(
    ("codes", "after"),
    [
        ((999, 18), 3), ((999, 999), 3), ((15, 999), None), ((16, 16), None), ((999, 0), None), ((1, 0), 1), ((15, 1), 1), ((17, 2), 3),
    ],
)  # fmt: skip
def test_a_reader_ends_when_all_gpus_fail_in_a_way_that_it_cannot_cure(
    world: World, codes: tuple[int, int], after: int | None
) -> None:
    """Three reads in a row; at once when the library lost its state; never for what lasts, or while a single one is known."""
    reader, found = failing(world, *(code for code in codes))
    assert reader.reader.failed is (after is not None)
    assert len(found) == (after or 5)
    assert ["error" in answer for answer in found] == [False] * (len(found) - 1) + [after is not None]
    if after is not None:
        code = next(code for code in codes if code)
        assert f"NVML {code}, GetSamples" in found[-1]["error"]
        assert found[-1]["hardware"] is True


def test_garbage_of_every_gpu_is_no_reason_to_end(world: World) -> None:
    """The driver answers; a fresh process would hear the same."""
    reader = world.reader()
    world.script.set(util=37100)
    for _ in range(5):
        settle(TICK)
        assert loads(reader.read()) == [None, None]
    assert not reader.reader.failed


def test_a_read_in_which_one_was_known_begins_the_patience_anew(world: World) -> None:
    """Only in a row they tell that nothing helps."""
    reader = world.reader()
    reader.read()
    for _ in range(3):
        world.script.fail("nvmlDeviceGetSamples", 999)
        for _ in range(2):
            reader.read()
        world.script.heal()
        assert loads(reader.read()) == [0, 0]
    assert not reader.reader.failed


# ---- how it is driven -------------------------------------------------------------------------


class Talk:
    """What the guard says, and what it hears; ``{}``: it says nothing until the next answer is due."""

    def __init__(self, *said: dict[str, Any]) -> None:
        self._said = list(said)
        self.heard: list[Any] = []
        self.until: list[float | None] = []

    def next(self, until: float | None = None) -> dict[str, Any] | None:
        self.until.append(until)
        if until is not None and self._said and not self._said[0]:
            settle(until - running[-1].boottime())
        return self._said.pop(0) if self._said else None

    def write(self, answer: dict[str, Any]) -> None:
        self.heard.append(json.loads(json.dumps(answer)))

    def send(self, data: bytes) -> None:
        self.heard.append(json.loads(data))


def talk(world: World, *said: dict[str, Any], **more: object) -> tuple[int, Talk]:
    """A whole talk with a reader, and its exit code."""
    heard = Talk({"sysfs": str(world.sysfs), "devfs": str(world.folder / "dev"), **more}, *said)
    return serve(heard, world.clock.boottime), heard  # type: ignore[arg-type] # of its lines it uses these three alone


def test_each_question_has_its_answer(world: World) -> None:
    """In order, under its own number; what is no question has none; the end of the talk is no failure."""
    code, heard = talk(world, {"read": 1}, {"other": 5}, {"read": "x"}, {"read": 3, "look": True})
    assert (code, [one["read"] for one in heard.heard], heard.until) == (0, [1, "x", 3], [None] * 6)
    assert serve(Talk()) == 0  # type: ignore[arg-type] # as above


def test_what_is_here_to_stay_is_not_looked_through_again(world: World) -> None:
    """Each look of Python's collector at it would cost the training job; what nobody needs is gone before."""

    class Ring:
        """Holds itself."""

        def __init__(self) -> None:
            self.own = self

    gone = weakref.ref(Ring())
    gc.unfreeze()
    talk(world, {"read": 1})
    frozen = gc.get_freeze_count()
    gc.unfreeze()
    assert frozen > 10_000
    assert gone() is None


@pytest.mark.parametrize(
    "given", [{"known": ["0000:09:00.0", 7]}, {"counters": {"0000:09:00.0": [1.0, 5], "7": [1.0, 5]}}]
)
def test_a_job_hands_over_what_is_known(world: World, given: dict[str, object]) -> None:
    """GPUs that were there once are expected; nonsense is nobody's name."""
    _, heard = talk(world, {"read": 1}, **given)
    assert keys(heard.heard[0]) == [*KEYS, "0000:09:00.0", "7"]
    assert words(heard.heard[0], 2) == "not listed by the driver (NVML 6, GetHandle)"
    _, heard = talk(world, {"read": 1}, known="0000:09:00.0", counters=7, learnt=7)
    assert keys(heard.heard[0]) == KEYS


def test_what_was_learnt_is_handed_over(world: World) -> None:
    """By the first answers already it counts."""
    world.script.set(power=130)
    _, heard = talk(world, {"read": 1}, learnt={KEYS[0]: {"bare": 60_000}}, counters={KEYS[0]: [86350.0, 0]})
    assert heard.heard[0]["learnt" if "learnt" in heard.heard[0] else "gpus"]


def test_letting_go_is_the_last_word(world: World) -> None:
    """Of the driver, in order; a word that is not meant so ends it all the same, without an answer."""
    code, heard = talk(world, {"read": 1}, {"detach": True}, {"read": 2})
    assert (code, heard.heard[1:]) == (0, [{"detached": True}])
    assert world.calls()[-1] == (DETACH, "-")
    code, heard = talk(world, {"detach": False}, {"read": 2})
    assert (code, heard.heard) == (0, [])
    world.script.fail("nvmlInit", 999)
    code, heard = talk(world, {"detach": True})
    assert (code, heard.heard) == (0, [{"detached": True}]), "there is nothing to let go of"


def test_a_reader_that_failed_says_so_and_ends(world: World) -> None:
    """After its answer, asked for or not; before the first question it waits for one."""
    world.script.fail("nvmlInit", 999)
    code, heard = talk(world, {"other": 1}, {"read": 1}, {"read": 2})
    assert (code, [one["read"] for one in heard.heard]) == (EXIT_FAILED, [1])
    world.script.heal()
    world.script.fail("nvmlDeviceGetSamples", 999)
    code, heard = talk(world, {"read": 1, "then": [world.clock.boottime() + 50.0, 10.0]}, {}, {}, {}, {})
    assert (code, [one["read"] for one in heard.heard]) == (EXIT_FAILED, [1, 2, 3])


def test_further_answers_are_numbered_dated_and_short_while_nothing_is_new(world: World) -> None:
    """They begin at the moment that was named, and end with the next question."""
    world.script.set(power=120, processes=[Process(4)])
    due = world.clock.boottime() + 100.0
    further: list[dict[str, Any]] = [{} for _ in range(20)]
    code, heard = talk(world, {"read": 5, "then": [due, 10.0]}, *further, {"read": 40})
    assert code == 0
    assert [one["read"] for one in heard.heard] == [*range(5, 26), 40]
    assert [one.get("at") for one in heard.heard] == [None, *(due + 10.0 * number for number in range(20)), None]
    assert heard.until == [None, None, *(due + 10.0 * number for number in range(21)), None]
    told = 5
    shorts = 0
    for one in heard.heard[1:-1]:
        if "gpus" in one:
            told = one["read"]
        else:
            assert (set(one) - {"counters"}, one["same"]) == ({"at", "read", "same"}, told)
            shorts += 1
    assert shorts >= 12
    counted = [one["at"] for one in heard.heard[1:-1] if "counters" in one]
    assert 110.0 <= max(after - before for before, after in pairwise(counted)) <= 130.0
    assert all(set(one["counters"]) == set(KEYS) for one in heard.heard if "counters" in one)


def paired(
    world: World, readings: int, *, asleep: "Callable[[], float]" = asleep, util: tuple[int, int] = (0, 0)
) -> list[Any]:
    """What is said of so many readings, 10 s apart, of two of which in a row one may stay unsaid, and in answer to a question then.

    ``util``: before which reading GPU 0 is put to work, and how much.
    """
    world.script.set(power=120, processes=[Process(4)])
    due = world.clock.boottime() + 100.0
    when, use = util

    class Busy(Talk):
        def next(self, until: float | None = None) -> dict[str, Any] | None:
            if when and len(self.until) == when + 1:
                world.script.set(0, util=use)
            return super().next(until)

    heard = Busy(
        {"sysfs": str(world.sysfs), "devfs": str(world.folder / "dev")},
        {"read": 5, "then": [due, 10.0, 2]},
        *[{}] * readings,
        {"read": 90},
    )
    serve(heard, world.clock.boottime, asleep)  # type: ignore[arg-type] # as above
    return [{**one, "at": round((one["at"] - due) / 10.0, 2)} if "at" in one else one for one in heard.heard]


def test_of_two_readings_that_say_the_same_one_stays_unsaid(world: World) -> None:
    """Each is told of under its number: by itself, or with the next, whatever that is; counters come as ever."""
    start = world.clock.boottime() + 100.0
    _, *further, last = paired(world, 41)
    told, numbers = 5, []
    for one in (*further, last):
        if "unsaid" in one:
            number, at = one["unsaid"]
            numbers.append(6 + round((at - start) / 10.0))
            assert number == told
        numbers.append(one["read"])
        told = one["read"] if "gpus" in one else told
        assert one.get("same", told) == told
    assert numbers == [*range(6, 47), 90]
    assert len(further) <= 26
    assert sum("counters" in one for one in further) >= 3


def test_a_machine_that_naps_is_told_of_each_time(world: World) -> None:
    """Two naps between two words of the reader would be one to the guard, and perhaps a resume."""
    naps = iter([*[0.0] * 9, *map(float, range(1, 60))])
    further = paired(world, 40, asleep=lambda: next(naps))[1:-1]
    assert ["unsaid" in one for one in further].count(True) >= 4
    assert not [one for one in further[-10:] if "unsaid" in one]


@pytest.mark.parametrize("when", [10, 11])
def test_work_is_said_at_once_with_what_was_unsaid(world: World, when: int) -> None:
    """One of the two after a reading that nobody has heard of yet."""
    further = paired(world, 14, util=(when, 80))[1:]
    work = next(one for one in further if "gpus" in one and one["gpus"][0][1])
    assert work["at"] == when - 1
    before = further[further.index(work) - 1]
    assert work["read"] - before["read"] == (2 if "unsaid" in work else 1)


@pytest.mark.parametrize(
    ("request_", "rhythm"),
    [
        ({"read": 7, "then": [MOST * 2, 10.0]}, False), ({"read": 7, "then": [-MOST, 10.0]}, False), ({"read": 7, "then": [1e12, 10]}, True),
        ({"read": 7, "then": [1e12, 0.05]}, True), ({"read": 7, "then": [1e12, 0.049]}, False), ({"read": 7, "then": [1e12, 3600]}, True),
        ({"read": 7, "then": [1e12, 3600.1]}, False), ({"read": 7, "then": [1e12, True]}, False), ({"read": 7, "then": [True, 10.0]}, False),
        ({"read": 7, "then": [1e12, 10.0, 1]}, True), ({"read": 7, "then": [1e12, 10.0, 2, 2]}, False), ({"read": 7, "then": [1e12]}, False), ({"read": 7, "then": (1e12, 10.0)}, False),
        ({"read": "7", "then": [1e12, 10.0]}, False), ({"then": [1e12, 10.0]}, False), ({"read": 7}, False), ({"read": 7, "then": ["x", 10.0]}, False),
        ({"read": 7, "then": [float("nan"), 10.0]}, False), ({"read": 7, "then": [1e12, float("nan")]}, False),
    ],
)  # fmt: skip
def test_which_rhythm_is_one(request_: dict[str, object], rhythm: bool) -> None:
    """Two plain numbers that make sense, after a question with a number."""
    found = _schedule_of(request_, 1000.0)
    assert (found is not None) is rhythm
    if found is not None:
        assert (found.number, found.due) == (8, 1e12)


def test_what_was_missed_is_left_out() -> None:
    """The next moment is the first one of the rhythm that is still to come."""
    for behind, ahead in ((-100.0, 100.0), (0.0, 10.0), (3.0, 7.0), (10.0, 10.0), (25.0, 5.0)):
        rhythm = Schedule(5, 1000.0 - behind, 10.0, 1000.0)
        assert (rhythm.number, rhythm.due) == (6, 1000.0 + ahead)
        rhythm.go_on(1003.0 + ahead)
        assert (rhythm.number, rhythm.due) == (7, 1010.0 + ahead)


# ---- lines ------------------------------------------------------------------------------------


@pytest.fixture
def pipe() -> Any:
    """Lines over two pipes: the reader's side, and functions to write and to read on the other."""
    source, into = os.pipe()
    out, target = os.pipe()
    opened = {source, into, out, target}

    def put(data: bytes, *, last: bool = False) -> None:
        os.write(into, data)
        if last:
            os.close(into)
            opened.discard(into)

    yield Lines(source, target), put, lambda: os.read(out, 1 << 20)
    for one in opened:
        os.close(one)


Pipe = tuple[Lines, Callable[..., None], Callable[[], bytes]]


def test_lines_are_whole_objects(pipe: Pipe) -> None:
    """Several at once, or one in parts; the end is the end, also in the middle of a line."""
    lines, put, _ = pipe
    put(b'{"read":1}\n{"read":2}\n{"rea')
    assert [lines.next(), lines.next()] == [{"read": 1}, {"read": 2}]
    put(b'd":3}\n{"read":4}', last=True)
    assert [lines.next(), lines.next()] == [{"read": 3}, None]


@pytest.mark.parametrize("line", [b"no JSON\n", b"7\n", b"[]\n", b"\xff\n", b"\n", b'{"x":"' + b"y" * 70_000])
def test_a_guard_that_is_not_itself_has_ended(pipe: Pipe, line: bytes) -> None:
    """No object, no JSON, or no end."""
    lines, put, _ = pipe
    for at in range(0, len(line), 40_000):
        put(line[at : at + 40_000])
        if len(line) > 70_000 and at == 0:
            assert lines.next(boot_clock() + 0.001) == {}
    if len(line) > 70_000:
        assert lines.next(boot_clock() + 0.001) == {}
        put(b"y")
    assert lines.next() is None


def test_a_long_line_is_one(pipe: Pipe) -> None:
    """The job of a machine with many GPUs."""
    lines, put, _ = pipe
    put(b'{"x":"' + b"y" * 60_000 + b'"}\n')
    assert lines.next() == {"x": "y" * 60_000}


def test_nothing_said_in_time_is_nothing(pipe: Pipe) -> None:
    """An empty object, at the moment and not later; what is there already comes first."""
    lines, put, _ = pipe
    began = time.monotonic()
    assert lines.next(boot_clock() + 0.02) == {}
    assert 0.015 < time.monotonic() - began < 5.0
    assert lines.next(boot_clock() - 5.0) == {}
    put(b'{"read":1}\n{"read":2}\n')
    assert lines.next(boot_clock() + 50.0) == {"read": 1}
    assert lines.next(boot_clock() - 5.0) == {"read": 2}


def test_answers_are_lines(pipe: Pipe) -> None:
    """Whole ones, without blanks."""
    lines, _, take = pipe
    lines.write({"read": 1, "gpus": []})
    lines.send(b'{"same":1}')
    assert take() == b'{"read":1,"gpus":[]}\n{"same":1}\n'


# ---- unasked ----------------------------------------------------------------------------------


def test_what_is_not_known_yet_is_said_in_any_case(world: World) -> None:
    """The first unasked answer is a whole one; then only news, or what is ten minutes old."""
    values: Values = {"power": 120, "memory_used": 500, "processes": [Process(4, 500)]}
    script: Script = world.script
    script.set(**values)
    reader = world.reader().reader
    assert reader.told == 0
    whole = []
    for number in range(200):
        settle(TICK)
        answer: Any = reader.news(number, world.clock.boottime())
        if answer is not None:
            whole.append(number)
            assert reader.told == number
            assert ("info" in answer) is (number == 0)
    assert whole[0] == 0
    later = [number for number in whole if number > 14]
    assert {after - one for one, after in pairwise(later)} == {60}
    assert 32 <= [name for name, _ in world.calls()].count(COUNT) <= 36, "which GPUs there are is looked at each minute"
    reader.read("x", world.clock.boottime())
    assert reader.told == 0, "no number"
    script.system(count=3)
    script.add(pci="0000:03:00.0")
    for number in range(200, 208):
        settle(TICK)
        answer = reader.news(number, world.clock.boottime())
        if answer is not None and len(answer["gpus"]) == 3:
            break
    assert "info" in answer
