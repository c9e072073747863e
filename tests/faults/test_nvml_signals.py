"""The NVML reader's signs of work other than load: GPM, MIG instances, bytes moved, use by process."""

import pytest

from costguard.testing.nvml import NA, Process
from tests.faults.nvml_world import World, loads, settle, signs, words
from tests.libraries import Libraries

LONG = 0.6
SHORT = 0.15  # seconds: enough between two GPM samples, too little for a mean of power
QUIET = {2: 0.0, 5: 0.0, 10: 0.4, 20: 0.5, 21: 0.5}
ENGINES = ("Encoder", "Decoder", "Jpg", "Ofa")

# ---- GPM --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "value", "sign"),
    [
        (2, 2.0, "SM 2 %"), (5, 1.0, "tensor 1 %"), (10, 1.0, "DRAM 1 %"), (20, 4.0, "PCIe out 4 MiB/s"),
        (21, 4.0, "PCIe in 4 MiB/s"), (60, 1.0, "NVLink in 1 MiB/s"), (61, 1.0, "NVLink out 1 MiB/s"),
    ],
)  # fmt: skip
def test_activity_is_a_sign_of_work_although_no_use_is_sampled(
    world: World, metric: int, value: float, sign: str
) -> None:
    """Each activity counter at its floor is work, as a mean over the tick; below it there is none."""
    world.script.set(0, gpm=True, gpm_metrics=QUIET)
    reader = world.reader()
    assert signs(reader, 2, SHORT) == []
    world.script.set(0, gpm_metrics=QUIET | {metric: value})
    assert signs(reader, 1, SHORT) == [sign]
    world.script.set(0, gpm_metrics=QUIET | {metric: value * 0.9})
    assert signs(reader, 1, SHORT) == []


def test_activity_below_the_floor_is_told(world: World) -> None:
    """The evidence names what was measured."""
    world.script.set(0, gpm=True, gpm_metrics=QUIET)
    reader = world.reader()
    signs(reader, 2, SHORT)
    settle(SHORT)
    assert "SM 0 %, tensor 0 %, DRAM 0 %" in words(reader.read())


@pytest.mark.parametrize("garbage", [-1.0, 37100.0, float("nan"), float("inf")])
def test_garbage_activity_is_no_sign_and_the_rest_still_counts(world: World, garbage: float) -> None:
    """A metric out of range is left out; the others are judged."""
    world.script.set(0, gpm=True, gpm_metrics={2: garbage, 5: 7.0})
    assert signs(world.reader(), 2, SHORT) == ["tensor 7 %"]


def test_gpm_without_permission_is_dropped_and_said(world: World) -> None:
    """Refused after a while (containers): judged by the rest, told why, and not asked again."""
    world.script.set(gpm=True, gpm_metrics=QUIET, counters={197: 0.0})
    reader = world.reader()
    signs(reader, 2, SHORT)
    world.script.fail("nvmlGpmSampleGet", 4, gpu=0)
    settle(SHORT)
    answer = reader.read()
    assert loads(answer) == [0, 0]
    assert "GPM) unavailable: no permission" in words(answer)
    world.log.unlink()
    signs(reader, 2, SHORT)
    calls = world.calls()
    assert ("nvmlGpmSampleGet", "0") not in calls
    assert ("nvmlGpmSampleGet", "1") in calls
    assert ("nvmlDeviceGetFieldValues", "0") in calls, "without GPM, the byte counters take its place"


@pytest.mark.parametrize("code", [15, 999])
def test_gpm_that_fails_is_unknown(world: World, code: int) -> None:
    """A driver that fails rather than lacks the call is sick: that GPU is unknown."""
    world.script.set(gpm=True, gpm_metrics=QUIET)
    reader = world.reader()
    signs(reader, 2, SHORT)
    world.script.fail("nvmlGpmSampleGet", code, gpu=0)
    settle(SHORT)
    assert loads(reader.read()) == [None, 0]
    world.script.heal()
    settle(SHORT)
    assert loads(reader.read()) == [0, 0]


def test_gpus_without_gpm_are_asked_once(world: World) -> None:
    """Not supported is remembered."""
    reader = world.reader()
    signs(reader, 3, SHORT)
    calls = world.calls()
    assert calls.count(("nvmlGpmQueryDeviceSupport", "0")) == 1
    assert ("nvmlGpmSampleGet", "0") not in calls


def test_sign_seen_in_a_failed_read_is_not_lost(world: World) -> None:
    """Activity was seen, then another call of the same read failed: the next reading tells it."""
    world.script.set(gpm=True, gpm_metrics=QUIET)
    reader = world.reader()
    signs(reader, 2, SHORT)
    world.script.set(0, gpm_metrics=QUIET | {2: 60.0})
    world.script.fail("nvmlDeviceGetEncoderUtilization", 999, gpu=0)
    settle(SHORT)
    assert loads(reader.read()) == [None, 0]
    world.script.heal()
    world.script.set(0, gpm_metrics=QUIET)
    assert signs(reader, 1, SHORT) == ["SM 60 %"]
    assert signs(reader, 1, SHORT) == []


def test_power_of_hidden_work_is_no_baseline(world: World) -> None:
    """The idle power is not learnt while another sign shows work: nothing is proven quiet by it."""
    world.script.fail("nvmlDeviceGetSamples", 3)
    world.script.set(0, gpm=True, gpm_metrics=QUIET | {2: 30.0}, power=200)
    reader = world.reader()
    signs(reader, 3)
    world.script.set(0, gpm_metrics=QUIET)
    settle()
    assert reader.read()["gpus"][0][1:4] == [0, [], 0], "the first quiet mean is the baseline"
    settle()
    assert reader.read()["gpus"][0][3] > 0


# ---- MIG --------------------------------------------------------------------------------------


def test_divided_gpu_with_gpm_is_known_by_its_busiest_instance(world: World) -> None:
    """MIG on a GPU with GPM: the load is that of the busiest instance, and covers the tick."""
    world.script.set(0, util=NA, mig=1, gpm=True, instances={1: {2: 0.0}, 5: {2: 0.0}})
    reader = world.reader()
    assert loads(reader.read()) == [None, 0], "nothing to compare with yet"
    settle(SHORT)
    answer = reader.read()
    assert loads(answer) == [0, 0]
    assert SHORT < answer["gpus"][0][3] < 2
    assert "busiest of 2 MIG instances 0 %" in words(answer)
    world.script.set(0, instances={1: {2: 0.0}, 5: {2: 70.0, 5: 12.0}})
    settle(SHORT)
    answer = reader.read()
    assert loads(answer) == [0.7, 0]
    assert "instance 5: tensor 12 %" in answer["gpus"][0][2]


def test_decoding_in_an_instance_is_load(world: World) -> None:
    """No kernel runs, but an instance decodes video."""
    world.script.set(0, util=NA, mig=1, gpm=True, instances={1: {2: 0.0, 31: 40.0}})
    reader = world.reader()
    signs(reader, 1, SHORT)
    settle(SHORT)
    assert loads(reader.read()) == [0.4, 0]


def test_instance_that_comes_is_unknown_until_measured(world: World) -> None:
    """An instance whose use is not known keeps the whole GPU unknown; one that went away does so for a moment."""
    world.script.set(0, util=NA, mig=1, gpm=True, instances={1: {2: 0.0}, 5: {2: 0.0}})
    reader = world.reader()
    signs(reader, 2, SHORT)
    world.script.set(0, instances={1: {2: 0.0}, 7: {}})
    found = []
    for _ in range(3):
        settle(SHORT)
        answer = reader.read()
        found.append(loads(answer)[0])
    assert found == [None, None, None]
    assert "instance 7 is being measured" in words(answer)


def test_divided_gpu_without_gpm_stays_unknown(world: World) -> None:
    """MIG on an A100: nothing tells the use; the words say why."""
    world.script.set(0, util=NA, mig=1, instances={1: {2: 0.0}})
    reader = world.reader()
    assert [loads(reader.read())[0] for _ in range(3)] == [None] * 3
    assert "divided (MIG)" in words(reader.read())
    assert "no activity counters (GPM)" in words(reader.read())


def test_divided_gpu_without_instances_is_unknown(world: World) -> None:
    """In a container the instances of others cannot be seen: none in sight is not idle."""
    world.script.set(0, util=NA, mig=1, gpm=True)
    answer = world.reader().read()
    assert loads(answer) == [None, 0]
    assert "no instance is visible" in words(answer)


def test_gpu_that_is_whole_again_is_read_as_such(world: World) -> None:
    """MIG was switched off: the instances fail, and the next read asks the whole GPU."""
    world.script.set(0, util=NA, mig=1, gpm=True, instances={1: {2: 0.0}})
    reader = world.reader()
    signs(reader, 2, SHORT)
    world.script.set(0, util=0, mig=0, instances={}, gpm_metrics=QUIET)
    settle(SHORT)
    assert loads(reader.read()) == [None, 0]
    settle(SHORT)
    assert loads(reader.read()) == [0, 0]


# ---- byte counters ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "rate", "sign"),
    [
        (197, 200e6, "PCIe out 1"), (198, 200e6, "PCIe in 1"), (138, 90e3, "NVLink out"),
        (139, 90e3, "NVLink in"), (140, 90e3, "NVLink out"), (141, 90e3, "NVLink in"),
    ],
)  # fmt: skip
def test_bytes_that_move_are_a_sign_of_work(world: World, field: int, rate: float, sign: str) -> None:
    """Copy-only work, also over the wrap-around of a counter; below the floor there is none."""
    world.script.set(0, counters={field: 0})  # it stands just before its wrap-around
    reader = world.reader()
    assert signs(reader, 4, SHORT) == []
    world.script.set(0, counters={field: rate})
    found = {one for _ in range(2) for one in signs(reader, 1, LONG)}  # asked in every other read
    assert [one[: len(sign)] for one in found] == [sign]
    world.script.set(0, counters={field: rate / 100})
    signs(reader, 2, SHORT)
    assert signs(reader, 2, SHORT) == []


def test_byte_counters_that_are_missing_are_not_asked_again(world: World) -> None:
    """Each field has its own code: the missing ones are left out, and when none is left, so is the call."""
    world.script.set(1, counters={197: 0.0, 198: 0.0})
    reader = world.reader()
    signs(reader, 4, SHORT)
    calls = world.calls()
    assert calls.count(("nvmlDeviceGetFieldValues", "0")) == 1
    assert calls.count(("nvmlDeviceGetFieldValues", "1")) == 2


def test_gpu_with_gpm_is_not_asked_for_byte_counters(world: World) -> None:
    """GPM has the same numbers."""
    world.script.set(gpm=True, gpm_metrics=QUIET, counters={197: 0.0})
    reader = world.reader()
    signs(reader, 3, SHORT)
    assert ("nvmlDeviceGetFieldValues", "0") not in world.calls()


# ---- use by process, processes ----------------------------------------------------------------


def test_use_by_a_process_is_a_sign_of_work(world: World) -> None:
    """One process uses the GPU a little, although the ring shows none of it."""
    world.script.set(0, processes=[Process(4242), Process(4243, sm=1, mem=9)])
    reader = world.reader()
    found = {one for _ in range(3) for one in signs(reader)}
    assert found == {"process 4243 uses 9 % of the memory bandwidth"}


@pytest.mark.parametrize("process", [Process(42, sm=37100), Process(42, sm=1), Process(42)])
def test_garbage_and_noise_by_process_are_no_sign(world: World, process: Process) -> None:
    """Values above 100 % were seen in the field; they neither make work nor hide it."""
    world.script.set(0, processes=[process])
    assert signs(world.reader(), 4, SHORT) == []


def test_processes_behind_mps_hold_the_gpu(world: World) -> None:
    """Clients of an MPS server are counted: their power is judged against the baseline with processes."""
    world.script.set(0, processes=[Process(42, kind="mps"), Process(43)])
    assert "2 compute processes" in words(world.reader().read())


# ---- what it costs ----------------------------------------------------------------------------


@pytest.mark.parametrize("gpm", [False, True])
def test_calls_stay_within_the_budget_with_every_signal(world: World, gpm: bool) -> None:
    """At most 8 calls per GPU and read with all that a GPU can have, also when the ring is dry."""
    counters = {197: 0.0, 198: 0.0, 138: 0.0, 139: 0.0}
    world.script.set(ring_dry=True, gpm=gpm, gpm_metrics=QUIET, counters=counters, processes=[Process(42)])
    reader = world.reader()
    signs(reader, 2)
    world.log.unlink()
    for _ in range(10):
        settle(0.15)
        reader.read()
    calls = world.calls()
    lists = [name for name, _ in calls if name.endswith("RunningProcesses_v3")]  # rarely: at a record low of power
    assert len(lists) <= 8
    assert len(calls) - len(lists) <= 8 * 2 * 10
    assert {f"nvmlDeviceGet{engine}Utilization" for engine in ENGINES} <= {name for name, _ in calls}


def test_old_driver_counts_processes_behind_mps(world: World, libraries: Libraries) -> None:
    """A driver without version 3 of the lists is asked for version 2 of each."""
    world.script.set(processes=[Process(42, kind="mps")])
    world.take(libraries.nvml(old_driver=True))
    answer = world.reader().read()
    assert "1 compute process" in words(answer)
