"""The NVML reader that reads by itself: what it leaves unsaid, what never, and how little it asks the driver."""

import json
import random
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any, Unpack

import pytest

from costguard.readers.nvml.mig import AT_ONCE
from costguard.readers.nvml.reader import Reader
from costguard.testing.nvml import NA, Process, Script, Values, write_sysfs
from tests.faults.nvml_world import Apart, settle, take_library

TICK = 10.0
LOOK = "nvmlDeviceGetMemoryInfo_v2"
REST: Values = {"util": 0, "power": 120, "memory_used": 1000, "processes": [Process(4000, 1000)]}
STILL = {2: 0.0, 5: 0.0, 10: 0.0005, 20: 0.17, 21: 0.04}  # as an H100 at rest
SEVEN = {number: {2: 0.0, 5: 0.0} for number in range(1, 8)}


class Alone:
    """A machine with some GPUs and a reader in this process, on a time that only its ticks move."""

    def __init__(self, folder: Path, library: Path, monkeypatch: pytest.MonkeyPatch, gpus: int) -> None:
        self.log = folder / "calls"
        self.script = Script(folder / "gpus", gpus, **REST)
        take_library(library, self.script.environment(library, self.log), monkeypatch)
        self.now, self.number = 1000.0, 0
        self.script.stand(self.now)
        sysfs = write_sysfs(folder / "sys", [f"0000:{number + 1:02x}:00.0" for number in range(gpus)])
        self.reader, self.twin = (Reader(str(sysfs), clock=lambda: self.now) for _ in range(2))
        self.asked: list[list[Any]] = []  # what the twin, which is asked each time, says
        self.rows: dict[str, list[Any]] = {}

    def tick(self, seconds: float = TICK, *, look: bool = False) -> dict[str, Any] | None:
        """What it says without having been asked; None for nothing new."""
        self.now += seconds
        self.script.stand(self.now)
        self.number += 1
        answer: dict[str, Any] | None = (
            self.reader.read(self.number, self.now, look=True) if look else self.reader.news(self.number, self.now)
        )
        if self.asked:
            self.ask()
        if answer is not None:
            self.rows = {row[0]: row for row in answer["gpus"]}
        return answer

    def ask(self) -> None:
        """Have the twin read, now and from now on with each tick."""
        self.asked = list(self.twin.read(self.number, self.now)["gpus"])  # type: ignore[call-overload] # as read() makes it

    def calls(self) -> Counter[tuple[str, str]]:
        """Function and GPU of every call since the last time."""
        found = Counter((line.split()[2], line.split()[3]) for line in self.log.read_text().splitlines())
        self.log.write_text("")
        return found


class Machines:
    """Makes one, with its first minutes behind it."""

    def __init__(self, folder: Path, library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._made = folder, library, monkeypatch

    def __call__(self, gpus: int, *, twin: bool = False, **values: Unpack[Values]) -> Alone:
        machine = Alone(*self._made, gpus)
        machine.script.set(**values)
        if twin:
            machine.tick()
            machine.ask()
        for _ in range(14):  # over two minutes: all that is rare has had its turn
            machine.tick()
        machine.calls()
        return machine


@pytest.fixture
def machines(tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    return Machines(tmp_path, library, monkeypatch)


def test_a_machine_at_rest_says_nothing_new_but_every_ten_minutes(machines: Machines) -> None:
    """What is the same is not built, sent and parsed again; the evidence is never older than that."""
    machine = machines(8)
    whole = [machine.tick() is not None for _ in range(180)]
    assert whole.count(True) == 3
    assert all("mean 120 W, 1 compute process, 1000 MiB in use" in row[4] for row in machine.rows.values())


def test_a_tick_of_a_machine_at_rest_makes_seven_calls_for_each_gpu(machines: Machines) -> None:
    """Samples, four engines, use by process, energy; what is rare comes on top, at most one call a tick in the mean."""
    machine = machines(8)
    ticks = []
    for _ in range(12):
        machine.tick()
        ticks.append(sum(machine.calls().values()))
    assert min(ticks) == 7 * 8
    assert sum(ticks) <= 8 * 8 * len(ticks)


DEAR = {"nvmlDeviceGetSamples", "nvmlDeviceGetTotalEnergyConsumption"}
COUNTED: Values = {"gpm": True, "gpm_metrics": STILL}
WORK: Values = {"util": 60, "power": 420, "memory_used": 60000, "processes": [Process(4000, 60000, sm=50)]}
COUNTED_WORK = {2: 60.0, 5: 20.0, 10: 30.0, 20: 6.0}
STANDING = {2: 60.0, 5: 20.0, 10: 30.0}  # the stand-in gives the same each time


@pytest.mark.parametrize(("given", "most"), [(COUNTED, 3), ({**WORK, **COUNTED, "gpm_metrics": COUNTED_WORK}, 12)])
def test_where_activity_is_counted_what_the_driver_finds_dear_is_asked_rarely(
    machines: Machines, given: Values, most: int
) -> None:
    """Its ring of samples and its energy cost a real driver ten times what the counters do: every five minutes at rest, each minute at work."""
    machine = machines(8, **given)
    machine.reader.above = 0.05
    for _ in range(30):
        machine.tick()  # what was due under another threshold
    machine.calls()
    for _ in range(60):
        machine.tick()
    dear = [count for (function, _), count in machine.calls().items() if function in DEAR]
    assert len(dear) == len(DEAR) * 8
    assert 2 <= min(dear) <= max(dear) <= most, "whole answers, which come each ten minutes, ask for it as well"


def test_where_activity_is_counted_processes_and_memory_are_looked_at_each_minute(machines: Machines) -> None:
    """What waits there, and how much it holds, is for people to read."""
    machine = machines(2, **COUNTED)
    machine.script.set(1, memory_used=5000)
    assert any(machine.tick() is not None for _ in range(7))
    assert "5000 MiB in use" in machine.rows["0000:02:00.0"][4]


def test_a_power_that_wavers_within_the_noise_asks_for_nothing_more(machines: Machines) -> None:
    """That of a moment does more than a mean: on a real board by ten watts, as it cools."""
    machine = machines(8, **COUNTED)
    dear: Counter[str] = Counter()
    for number in range(12):
        machine.script.set(power=120 + number % 3 * 7)
        machine.tick()
        dear.update([function for function, _ in machine.calls() if function in DEAR])
    assert max(dear.values()) <= 3 * 8


@pytest.mark.parametrize(("percent", "seconds"), [(100, 0.17), (6, 0.17), (40, 0.34)])
def test_a_burst_between_two_ticks_is_seen_by_its_peak_however_small_its_mean(
    machines: Machines, percent: float, seconds: float
) -> None:
    """The counters know means alone: whatever they show has the ring asked."""
    machine = machines(2, **COUNTED)
    assert [machine.tick() for _ in range(3)] == [None] * 3
    machine.now += TICK - 1.0
    machine.script.stand(machine.now)
    machine.script.burst(1, percent, ago=4.0, seconds=seconds)
    assert machine.tick(1.0) is not None
    assert machine.rows["0000:02:00.0"][1] == percent / 100


@pytest.mark.parametrize(
    "metrics", [{**STILL, 2: value} for value in (float("nan"), -1.0, 101.0, 0.001)] + [{2: 0.0, 5: 0.0, 10: 0.0}]
)
def test_a_counter_that_is_no_zero_or_counters_that_stand_prove_nothing_quiet(
    machines: Machines, metrics: dict[int, float]
) -> None:
    """A real driver answers *not a number* for what it has not counted; a board at rest reads a little of its own memory."""
    machine = machines(2, gpm=True, gpm_metrics=metrics)
    machine.calls()
    machine.tick()
    assert machine.calls()["nvmlDeviceGetSamples", "1"] == 1


@pytest.mark.parametrize(
    ("change", "load"),
    [
        ({"util": 3, "gpm_metrics": COUNTED_WORK | {2: 3.0}}, 0.03),
        ({"util": 100, "gpm_metrics": COUNTED_WORK | {5: 60.0}}, 1.0),
        ({"encoder": 90, "gpm_metrics": COUNTED_WORK}, 0.9),
        ({"power": 200, "gpm_metrics": COUNTED_WORK | {5: 0.0, 10: 0.0}}, 0.6),
        ({"util": 100, "gpm_metrics": STANDING}, 1.0),
    ],
)
def test_work_of_which_something_else_is_counted_is_looked_at_in_full(
    machines: Machines, change: Values, load: float
) -> None:
    """Above every threshold nobody heeds how high a peak was between two ticks; another use of the GPU is told at once, or in the next tick."""
    given: Values = {**WORK, "gpm": True, "gpm_metrics": COUNTED_WORK}
    machine = machines(2, **given)
    machine.reader.above = 0.05
    assert [machine.tick() for _ in range(6)] == [None] * 6  # the rare look at each GPU is behind it
    machine.script.set(1, **change)
    for _ in range(2 if change["gpm_metrics"] == STANDING else 1):
        machine.tick()
    assert machine.rows["0000:02:00.0"][1] == load


@pytest.mark.parametrize(("busy", "above"), [(18.0, 0.05), (60.0, 0.6)])
def test_so_few_busy_units_prove_no_load_above_all_thresholds(machines: Machines, busy: float, above: float) -> None:
    """The load is the share of time in which anything ran, so never less than that of the SMs which were busy; it may be more."""
    given: Values = {**WORK, "gpm": True, "gpm_metrics": COUNTED_WORK | {2: busy}}
    machine = machines(1, **given)
    machine.reader.above = above
    for _ in range(3):
        machine.tick()
    machine.calls()
    machine.tick()
    assert machine.calls()["nvmlDeviceGetSamples", "0"] == 1


def test_a_process_and_its_memory_are_told_together(machines: Machines) -> None:
    """The power betrays a new process before the rare look: its memory is of the same moment."""
    machine = machines(2, processes=[], memory_used=0, power=70)
    machine.script.set(1, processes=[Process(7, 691)], memory_used=691, power=120)
    machine.tick()
    assert "1 compute process, 691 MiB in use" in machine.rows["0000:02:00.0"][4]


def test_the_rare_look_is_not_at_all_gpus_in_one_tick(machines: Machines) -> None:
    """Each GPU's memory and processes once a minute, at a time of its own group."""
    machine = machines(8)
    looked = []
    for _ in range(12):
        machine.tick()
        looked.append({gpu for function, gpu in machine.calls() if function == LOOK})
    assert max(map(len, looked)) <= 4
    assert [sum(str(gpu) in one for one in looked) for gpu in range(8)] == [2] * 8


def test_a_closer_look_does_not_bring_the_rare_ones_together(machines: Machines) -> None:
    """GPUs that look like ghosts are looked at in each tick; afterwards each is in its own rhythm again."""
    machine = machines(8, util=40, memory_used=0, processes=[], power=70)
    machine.script.set(**REST)
    for _ in range(6):
        machine.tick()
    machine.calls()
    looked = []
    for _ in range(6):
        machine.tick()
        looked.append({gpu for function, gpu in machine.calls() if function == LOOK})
    assert max(map(len, looked)) <= 4


NEWS: dict[str, Values] = {
    "use": {"util": 1},
    "encoder": {"encoder": 3},
    "decoder": {"decoder": 3},
    "jpeg": {"jpeg": 3},
    "ofa": {"ofa": 3},
    "power of work": {"power": 400},
    "somewhat more power": {"power": 150},
    "a process that works": {"processes": [Process(4000, 1000, "compute", 9)]},
    "use that cannot be read": {"util": NA},
    "a lost GPU": {"lost": True},
}


WAYS: dict[str, Values] = {
    "zeros in the ring": {},
    "a ring that ran dry": {"ring_dry": True},
    "samples that are doubles": {"ring_type": 0},
    "a rare sample": {"ring": 1},
    "counters of bytes": {"counters": {197: 1e5, 198: 1e5}},
    "counters of activity": {"gpm": True, "gpm_metrics": STILL},
    "these, and a dry ring": {"gpm": True, "gpm_metrics": STILL, "ring_dry": True},
    "engines that are missing": {"jpeg": NA, "ofa": NA},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("change", NEWS)
def test_what_is_new_is_said_in_the_same_tick(machines: Machines, change: str, way: str) -> None:
    """Load, a sign of work or unknown of one GPU of four: the very next answer is a whole one with it, or that after it.

    Later only use by process, which takes turns with the counters of bytes and reaches back over all the time since.
    """
    given = WAYS[way]
    machine = machines(4, **given)
    assert [machine.tick() for _ in range(2)].count(None) >= 1
    machine.script.set(2, **NEWS[change])
    ticks = 2 if change == "a process that works" else 1
    if change in given:
        ticks = 7  # what was missing is asked for again once a minute
    answers = [machine.tick() for _ in range(ticks)]
    if change == "a process that works" and "gpm" in given:
        return  # where activity is counted, use by process is not asked for
    assert answers.count(None) < len(answers)
    _, load, signs, _, _ = machine.rows["0000:03:00.0"]
    assert load is None or load > 0 or signs


def test_bytes_that_move_are_said_within_two_ticks(machines: Machines) -> None:
    """Counted in turn with the use by process: each covers the time since it was asked last."""
    machine = machines(2, counters={197: 1e5, 198: 1e5})
    machine.script.set(1, counters={197: 5e7, 198: 1e5})
    said = [answer for answer in (machine.tick(), machine.tick()) if answer is not None]
    assert any("PCIe out" in sign for answer in said for row in answer["gpus"] for sign in row[2])


def test_a_ring_without_samples_is_rest_only_while_nothing_runs_now(machines: Machines) -> None:
    """That none came says nothing by itself."""
    machine = machines(2, ring_dry=True)
    machine.script.fail("nvmlDeviceGetSamples", 6, gpu=1)
    assert [machine.tick() for _ in range(2)].count(None) >= 1
    machine.script.set(1, util=5)
    assert machine.tick() is not None
    assert machine.rows["0000:02:00.0"][1] == 0.05


@pytest.mark.parametrize(("dry", "asked"), [(False, 3), (True, 12)])
def test_at_rest_the_energy_is_asked_once_a_minute_where_samples_cover_the_time(
    machines: Machines, dry: bool, asked: int
) -> None:
    """It costs a real driver more than all else; where the ring ran dry only the energy goes back to the last tick."""
    machine = machines(1, ring_dry=dry)
    calls: Counter[tuple[str, str]] = Counter()
    for _ in range(12):
        machine.tick()
        calls += machine.calls()
    assert 2 <= calls["nvmlDeviceGetTotalEnergyConsumption", "0"] <= asked
    assert not dry or calls["nvmlDeviceGetTotalEnergyConsumption", "0"] == asked


@pytest.mark.parametrize("code", [2, 15, 999])
def test_an_energy_that_fails_is_unknown_within_a_minute(machines: Machines, code: int) -> None:
    """When it is asked, or at once where the power is another one."""
    machine = machines(2)
    machine.script.fail("nvmlDeviceGetTotalEnergyConsumption", code, gpu=1)
    assert any(machine.tick() is not None for _ in range(7))
    assert machine.rows["0000:02:00.0"][1] is None


@pytest.mark.parametrize("dry", [False, True])
def test_a_ring_that_runs_dry_or_fills_again_is_news(machines: Machines, dry: bool) -> None:
    """The reading rests on something else from then on: its words say so, and how far back it reaches."""
    machine = machines(2, ring_dry=dry)
    assert [machine.tick() for _ in range(2)].count(None) >= 1
    before = machine.rows["0000:02:00.0"]
    machine.script.set(1, ring_dry=not dry)
    assert machine.tick() is not None
    now = machine.rows["0000:02:00.0"]
    assert (now[1], now[4] != before[4]) == (0.0, True)


@pytest.mark.parametrize("code", [2, 15, 999])
@pytest.mark.parametrize("function", ["GetSamples", "GetDecoderUtilization", "GetProcessUtilization"])
def test_a_call_that_fails_is_unknown_in_the_same_tick(machines: Machines, function: str, code: int) -> None:
    """Unknown is never the same as before."""
    machine = machines(2)
    machine.tick()
    machine.script.fail(f"nvmlDevice{function}", code, gpu=1)
    if function == "GetSamples" and code == 2:
        return  # a library that wants another room is asked again, and then answers
    assert machine.tick() is not None
    assert machine.rows["0000:02:00.0"][1] is None
    machine.script.heal()
    assert machine.tick() is not None
    assert machine.rows["0000:02:00.0"][1] == 0.0


@pytest.mark.parametrize("gpm", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_what_it_does_not_say_is_what_it_would_have_said(machines: Machines, seed: int, gpm: bool) -> None:
    """A reader that is asked, and says everything each time, beside it through random days: loads, signs, cover."""
    machine, random_, silent = machines(2, twin=True, gpm=gpm, gpm_metrics=STILL), random.Random(seed), 0
    for _ in range(120):
        if random_.random() < 0.15:
            changes: list[Values] = [
                {"util": random_.choice([0, 0, 3, 97])}, {"power": random_.choice([120, 121, 124, 130, 300])},
                {"decoder": random_.choice([0, 20])}, {"memory_used": random_.choice([1000, 30000])},
                {"processes": random_.choice([[], [Process(4000, 1000)], [Process(1), Process(2)]])},
                {"gpm_metrics": STILL | {2: random_.choice([0.0, 1.0, 40.0])}},
            ]  # fmt: skip
            machine.script.set(random_.randrange(2), **random_.choice(changes))
        elif random_.random() < 0.2:
            machine.script.set(util=0, power=120, memory_used=1000, decoder=0, gpm_metrics=STILL)
        silent += machine.tick(random_.choice([10.0, 10.0, 10.0, 9.9, 13.0, 45.0])) is None
        for key, load, signs, covers, words in machine.asked:
            said = machine.rows[key]
            assert said[1] == load, words
            if (
                load <= 0.2
            ):  # above it signs count for nobody; and a mean of power is another one where the energy was asked rarely
                assert [sign.partition(" ")[0] for sign in said[2]] == [sign.partition(" ")[0] for sign in signs], words
            assert abs(said[3] - covers) <= 0.5 or covers / 1.6 <= said[3] <= covers * 1.6 < 30.0, words
    assert silent > 20


NEWS_AT_WORK: dict[str, Values] = {
    "a percent more": {"util": 61},
    "a percent less": {"util": 59},
    "rest": {"util": 0},
    "another engine": {"encoder": 61},
    "less power": {"power": 300},
    "more power": {"power": 500},
    "use that cannot be read": {"util": NA},
    "a lost GPU": {"lost": True},
}


def test_a_machine_at_steady_work_says_something_new_every_five_minutes(machines: Machines) -> None:
    """And asks for no more than a machine at rest: samples, four engines, energy."""
    machine = machines(8, **WORK)
    whole, ticks = 0, []
    for _ in range(120):
        whole += machine.tick() is not None
        ticks.append(sum(machine.calls().values()))
    assert whole == 4
    assert min(ticks) == 6 * 8
    assert sum(ticks) <= 8 * 8 * len(ticks)
    assert all(row[1] == 0.6 and row[2] and "mean 420 W" in row[4] for row in machine.rows.values())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("change", NEWS_AT_WORK)
def test_what_is_new_at_work_is_said_in_the_same_tick(machines: Machines, change: str, way: str) -> None:
    """Of one GPU of four, whatever proves its use."""
    given: Values = {**WORK, **WAYS[way]}
    machine = machines(4, **given)
    assert [machine.tick() for _ in range(4)].count(None) >= (0 if "ring" in WAYS[way] else 1)
    machine.script.set(2, **NEWS_AT_WORK[change])
    assert machine.tick() is not None
    machine.tick()
    load = machine.rows["0000:03:00.0"][1]
    want = {
        "a percent more": 0.61,
        "a percent less": 0.59,
        "another engine": 0.61,
        "less power": 0.6,
        "more power": 0.6,
        "rest": 0.0,
    }
    assert load == want.get(change)
    assert machine.rows["0000:02:00.0"][1] == 0.6


@pytest.mark.parametrize("code", [15, 999])
@pytest.mark.parametrize("function", ["GetSamples", "GetDecoderUtilization", "GetTotalEnergyConsumption"])
def test_a_call_that_fails_at_work_is_unknown_in_the_same_tick(machines: Machines, function: str, code: int) -> None:
    """Unknown is never the same as before."""
    machine = machines(2, **WORK)
    machine.tick()
    machine.script.fail(f"nvmlDevice{function}", code, gpu=1)
    assert machine.tick() is not None
    assert machine.rows["0000:02:00.0"][1] is None
    machine.script.heal()
    assert machine.tick() is not None
    assert machine.rows["0000:02:00.0"][1] == 0.6


@pytest.mark.parametrize("gpm", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_what_it_does_not_say_of_work_is_what_it_would_have_said(machines: Machines, seed: int, gpm: bool) -> None:
    """A reader that is asked each time beside it through random jobs: the same load, signs where they count, what is suspected."""
    given: Values = {**WORK, "gpm": True, "gpm_metrics": COUNTED_WORK} if gpm else WORK
    machine, random_, silent = machines(2, twin=True, **given), random.Random(seed), 0
    for _ in range(120):
        if random_.random() < 0.12:
            changes: list[Values] = [
                {"util": random_.choice([0, 12, 21, 60, 61, 97, 100])}, {"power": random_.choice([120, 405, 430, 440, 300])},
                {"decoder": random_.choice([0, 20, 70])}, {"processes": random_.choice([[], [Process(1, sm=9)], [Process(1), Process(2)]])},
            ]  # fmt: skip
            machine.script.set(random_.randrange(2), **random_.choice(changes))
        elif random_.random() < 0.1:
            again: Values = {**WORK, "decoder": 0}
            machine.script.set(**again)
        silent += machine.tick(random_.choice([10.0, 10.0, 10.0, 9.9, 13.0, 45.0])) is None
        for key, load, signs, covers, words in machine.asked:
            said = machine.rows[key]
            assert said[1] == load, words
            if load <= 0.2:
                assert {sign.partition(" ")[0] for sign in said[2]} == {sign.partition(" ")[0] for sign in signs}, words
            assert abs(said[3] - covers) <= 0.5 or covers / 1.6 <= said[3] <= covers * 1.6 < 30.0, words
    assert silent > 10


@pytest.mark.parametrize(("above", "most"), [(0.05, 3), (0.97, 3), (0.98, 27), (1.0, 40)])
def test_a_load_that_flickers_above_every_threshold_is_said_as_rarely(
    machines: Machines, above: float, most: int
) -> None:
    """Its memory, too; where a threshold may lie between, each percent is told."""
    at_work: Values = {**WORK, "util": 98}
    machine = machines(8, **at_work)
    machine.reader.above = above
    told = []
    for number in range(40):
        machine.script.set(util=98 + number % 3, memory_used=60000 + 100 * (number % 7))
        told.append(machine.tick() is not None)
        assert all(abs(row[1] - (0.98 + number % 3 / 100)) < 0.051 for row in machine.rows.values())
    assert most - 2 <= told.count(True) <= most


@pytest.mark.parametrize("to", [54, 66, 20, 4, 0])
def test_a_load_that_leaves_what_was_told_is_said_in_the_same_tick(machines: Machines, to: int) -> None:
    """Five points are the most, however slowly it creeps; and nothing is alike across a threshold."""
    machine = machines(2, **WORK)
    machine.reader.above = 0.05
    machine.script.set(1, util=to)
    assert machine.tick() is not None
    assert machine.rows["0000:02:00.0"][1] == to / 100
    creeping = [(1, 60 + number) for number in range(12)]
    machine.reader.above = 0.63
    for gpu, use in creeping:
        machine.script.set(gpu, util=use)
        machine.tick()
        assert abs(machine.rows["0000:02:00.0"][1] - use / 100) <= 0.05 + 1e-6
        assert (machine.rows["0000:02:00.0"][1] > 0.63) is (use > 63)


def test_instances_at_work_are_said_rarely(machines: Machines) -> None:
    """Of a divided GPU whose load wavers by a point or two; more than that is said when its turn comes."""
    busy = {number: {2: 60.0, 5: 20.0} for number in range(1, 8)}
    machine = machines(2, util=NA, mig=1, gpm=True, instances=busy, power=420, memory_used=60000)
    machine.reader.above = 0.05
    told = 0
    for number in range(24):
        wavers = {part: {2: 60.0 + (number + part) % 3, 5: 20.0} for part in busy}
        machine.script.set(instances=wavers)
        told += machine.tick() is not None
    assert told <= 6
    machine.script.set(instances={**busy, 5: {2: 90.0}})
    for _ in range(-(-len(SEVEN) // AT_ONCE)):
        machine.tick()
    assert {row[1] for row in machine.rows.values()} == {0.9}


def test_seven_instances_take_turns(machines: Machines) -> None:
    """At rest a divided GPU is asked in at most eight calls a tick, and every instance within three ticks."""
    machine = machines(1, util=NA, mig=1, gpm=True, instances=SEVEN)
    plain = []
    for _ in range(12):
        machine.tick()
        calls = machine.calls()
        if not any(function in {LOOK, "nvmlDeviceGetMaxMigDeviceCount"} for function, _ in calls):
            plain.append(sum(calls.values()))
    assert len(plain) > 6
    assert max(plain) <= 8
    assert machine.rows["0000:01:00.0"][1] == 0.0


@pytest.mark.parametrize("instance", sorted(SEVEN))
def test_work_in_any_instance_is_seen_when_its_turn_comes(machines: Machines, instance: int) -> None:
    """Whatever it did since it was asked last is in its mean."""
    machine = machines(1, util=NA, mig=1, gpm=True, instances=SEVEN)
    machine.script.set(instances={**SEVEN, instance: {2: 30.0}})
    for _ in range(-(-len(SEVEN) // AT_ONCE)):
        machine.tick()
    assert machine.rows["0000:01:00.0"][1] == 0.3


@pytest.mark.parametrize("instance", sorted(SEVEN))
def test_a_read_with_a_look_leaves_no_instance_for_later(machines: Machines, instance: int) -> None:
    """While a countdown runs, and after a hole, each reading is one of all instances."""
    machine = machines(1, util=NA, mig=1, gpm=True, instances=SEVEN)
    machine.script.set(instances={**SEVEN, instance: {2: 30.0}})
    machine.tick(look=True)
    assert machine.rows["0000:01:00.0"][1] == 0.3
    machine.script.set(instances=SEVEN)
    machine.tick(look=True)
    machine.script.set(instances={**SEVEN, instance: {2: 30.0}})
    machine.tick(45.0)
    assert machine.rows["0000:01:00.0"][1] == 0.3


# ---- the process ------------------------------------------------------------------------------


def test_the_process_answers_by_itself_until_the_next_line(apart: Apart) -> None:
    """Numbered on, dated, short while nothing is new; a question ends that."""
    apart.script.set(**REST)
    reader = apart.reader()
    settle(10.0)
    first = reader.ask({"read": 7, "then": [apart.clock.boottime() + 0.3, 0.3]})
    assert "at" not in first
    further = [reader.take() for _ in range(3)]
    assert [one["read"] for one in further] == [8, 9, 10]
    gaps = [later["at"] - one["at"] for one, later in pairwise(further)]
    assert all(gap > 0.2 for gap in gaps)
    reader.send({"read": 50})
    while (answer := reader.take())["read"] != 50:
        assert "at" in answer
    assert "gpus" in answer
    reader.send({"read": 51})
    assert reader.take()["read"] == 51


@pytest.mark.parametrize("then", [7, [], [1.0], ["x", 1.0], [1e300, 1.0], [1.0, 0.0], [1.0, -5.0], [None, 5.0]])
def test_a_rhythm_that_makes_no_sense_is_none(apart: Apart, then: object) -> None:
    """The question is answered, and nothing more comes."""
    reader = apart.reader()
    assert reader.ask({"read": 1, "then": then})["read"] == 1
    assert reader.ask({"read": 2})["read"] == 2


def test_a_short_answer_is_short() -> None:
    """One write, and no parser, in each tick of a machine at rest."""
    from costguard.agent import decode

    line = b'{"same":12,"read":13,"at":86400.125}'
    assert decode.message(line) == json.loads(line)
    for broken in (b'{"same":', b'{"same":x,"read":1,"at":2}', b'{"same":1,"read":,"at":}'):
        assert decode.message(broken) is None
    assert decode.message(b'{"same":1,"at":2,"read":3}') == {"same": 1, "at": 2, "read": 3}
