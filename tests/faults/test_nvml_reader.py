"""The NVML reader against a library that fails in every way that was seen in the field."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

import costguard
from costguard.process.command_lines import command_lines
from costguard.testing.nvml import NA, NoAnswerError, Process, Script, Values, write_sysfs
from tests.faults.nvml_world import KEYS, Apart, World, loads, settle, signs, words
from tests.libraries import Libraries

# ---- the library or the driver fails altogether ----------------------------------------------


@pytest.mark.parametrize("code", [9, 12, 17, 18, 999, 12345])
def test_failed_init_is_unknown_for_every_gpu_and_ends_the_process(apart: Apart, code: int) -> None:
    """Init fails: one answer, every GPU of the bus unknown with the code, exit 3 for a fresh process."""
    apart.script.fail("nvmlInit", code)
    reader = apart.reader()
    answer = reader.read()
    assert [row[0] for row in answer["gpus"]] == KEYS
    assert loads(answer) == [None, None]
    assert f"NVML {code}" in words(answer)
    assert answer["hardware"] is True
    assert reader.wait() == 3


def test_missing_library(apart: Apart) -> None:
    """No driver library but GPUs on the bus: unknown, never "no GPU"."""
    answer = apart.reader(environment={"LD_LIBRARY_PATH": ""}).read()
    assert loads(answer) == [None, None]
    assert "NVML 12" in words(answer)


def test_a_library_that_cannot_be_loaded_proves_that_there_is_a_driver(apart: Apart) -> None:
    """Half installed, or for another machine: its own words, and never "no GPU"."""
    (apart.folder / "libnvidia-ml.so.1").write_text("no library")
    empty = write_sysfs(apart.folder / "other", [])
    answer = apart.reader(environment={"LD_LIBRARY_PATH": str(apart.folder)}, sysfs=empty).read()
    assert "cannot be loaded" in answer["error"]
    assert answer["hardware"] is None


@pytest.mark.parametrize(
    ("bus", "node", "hardware"),
    [(True, None, False), (False, None, None), (True, "dxg", None), (True, "nvidia0", None)],
)
def test_no_gpu_is_only_said_when_it_is_certain(
    apart: Apart, bus: bool, node: str | None, hardware: bool | None
) -> None:
    """An empty bus means no GPU; an unreadable bus, or a GPU's device node, means "cannot tell"."""
    sysfs = apart.folder / "other"
    if bus:
        write_sysfs(sysfs, [])
    if node:
        (apart.folder / "dev").mkdir()
        (apart.folder / "dev" / node).touch()
    answer = apart.reader(environment={"LD_LIBRARY_PATH": ""}, sysfs=sysfs).read()
    assert answer["gpus"] == []
    assert answer["error"]
    assert answer["hardware"] is hardware


def test_a_driver_that_lists_nothing_does_not_prove_that_there_is_nothing(apart: Apart) -> None:
    """As one that gets no memory for it; neither does a bus that cannot be read to its end, or a loaded module."""
    empty = write_sysfs(apart.folder / "other", [])
    nothing = Script(apart.folder / "none", gpus=0).environment(apart.library)
    assert apart.reader(environment=nothing, sysfs=empty).read()["hardware"] is None
    missing = {"LD_LIBRARY_PATH": ""}
    assert apart.reader(environment=missing, sysfs=empty).read()["hardware"] is False
    (empty / "module/nvidia").mkdir(parents=True)
    assert apart.reader(environment=missing, sysfs=empty).read()["hardware"] is None
    sick = write_sysfs(apart.folder / "sick", [])
    (sick / "bus/pci/devices/0000:01:00.0/vendor").mkdir(parents=True)  # cannot be read, by root neither
    assert apart.reader(environment=missing, sysfs=sick).read()["hardware"] is None


def test_driver_swapped_under_a_running_reader(apart: Apart) -> None:
    """Library and kernel module of different versions: unknown at once, then exit for a fresh process."""
    old = apart.libraries.nvml("550.54.15")
    reader = apart.reader(environment=apart.script.environment(old))
    assert loads(reader.read()) == [0, 0]
    apart.script.system(driver="570.10")
    answers = [reader.read() for _ in range(3)]
    assert [loads(answer) for answer in answers] == [[None, None]] * 3
    assert "NVML 18" in words(answers[0])
    assert reader.wait() == 3
    fresh = apart.libraries.nvml("570.10")
    assert loads(apart.reader(environment=apart.script.environment(fresh)).read()) == [0, 0]


def test_a_library_that_was_never_initialised_needs_a_fresh_process_at_once(apart: Apart) -> None:
    """As after a fork, or when somebody shut it down: told for the GPU that said so, and this process ends."""
    reader = apart.reader()
    reader.read()
    apart.script.fail("nvmlDeviceGetSamples", 1, gpu=1)
    answer = reader.read()
    assert loads(answer) == [0, None]
    assert "NVML 1," in words(answer, 1)
    assert reader.wait() == 3


def test_a_lasting_failure_keeps_the_process(world: World) -> None:
    """All GPUs lost: a fresh process cannot help, so this one goes on answering."""
    reader = world.reader()
    reader.read()
    world.script.set(lost=True)
    for _ in range(5):
        assert loads(reader.read()) == [None, None]


# ---- one GPU fails ----------------------------------------------------------------------------


@pytest.mark.parametrize("function", ["nvmlDeviceGetSamples", "nvmlDeviceGetEncoderUtilization"])
@pytest.mark.parametrize("code", [2, 15, 16, 17, 27, 999, 12345])
def test_failure_in_flight_is_that_gpus_alone_and_ends_with_its_cause(world: World, function: str, code: int) -> None:
    """One GPU fails in flight: unknown with code for it, the others go on, and the next good read is known."""
    reader = world.reader()
    reader.read()
    world.script.fail(function, code, gpu=1)
    answer = reader.read()
    assert loads(answer) == [0, None]
    assert answer["gpus"][1][1:4] == [None, [], 0], "which tells of no time at all"
    assert f"NVML {code}" in words(answer, 1)
    world.script.heal()
    assert loads(reader.read()) == [0, 0]


def test_energy_that_fails_is_unknown_but_missing_rights_only_drop_the_signal(world: World) -> None:
    """999 from the energy counter means a sick driver; 4 means that this signal is not for us."""
    reader = world.reader()
    reader.read()
    settle()
    world.script.fail("nvmlDeviceGetTotalEnergyConsumption", 999, gpu=0)
    world.script.fail("nvmlDeviceGetTotalEnergyConsumption", 4, gpu=1)
    assert loads(reader.read()) == [None, 0]


def test_load_seen_in_a_failed_read_is_not_lost(world: World) -> None:
    """The samples show work, then another call of the same read fails: the next read tells of the work."""
    reader = world.reader()
    reader.read()
    settle(1.0)
    world.script.burst(1, 80, ago=0.9, seconds=0.5)
    world.script.fail("nvmlDeviceGetEncoderUtilization", 999, gpu=1)
    assert loads(reader.read()) == [0, None]
    world.script.heal()
    assert loads(reader.read()) == [0, 0.8]


def test_a_number_of_gpus_that_cannot_be_is_a_failure(world: World) -> None:
    """Places for a million GPUs would be expected, and unknown, for the rest of the boot."""
    world.script.system(count=1_000_000)
    answer = world.reader().read()
    assert [row[0] for row in answer["gpus"]] == KEYS
    assert "GetCount" in words(answer)


def test_lost_gpu_gets_a_fresh_handle(world: World) -> None:
    """A GPU that cannot be opened at start is expected, unknown, and tried again."""
    world.script.set(1, handle=15)
    reader = world.reader()
    assert loads(reader.read()) == [0, None]
    world.script.set(1, handle=0)
    assert 0 in [loads(reader.read())[1] for _ in range(4)]


def test_gpu_missing_from_the_driver(world: World) -> None:
    """The bus has a GPU that the driver does not list: unknown."""
    write_sysfs(world.sysfs, ["0000:09:00.0"])
    answer = world.reader().read()
    assert [row[0] for row in answer["gpus"]] == [*KEYS, "0000:09:00.0"]
    assert loads(answer) == [0, 0, None]
    assert "NVML 6" in words(answer, 2)


@pytest.mark.parametrize("lookup", [0, 6, 13])
@pytest.mark.parametrize(
    ("code", "words_"), [(15, "fell off the bus"), (4, "no permission"), (999, "unknown driver error")]
)
def test_gpu_that_cannot_be_opened_is_explained_by_that(world: World, lookup: int, code: int, words_: str) -> None:
    """Lost or refused: the driver's own code for this GPU, also where it has no look-up by address, or finds nothing by it."""
    world.script.set(1, handle=code)
    if lookup:
        world.script.fail("nvmlDeviceGetHandleByPciBusId", lookup)
    answer = world.reader().read()
    assert loads(answer) == [0, None]
    assert words_ in words(answer, 1)
    assert f"NVML {code}" in words(answer, 1)


@pytest.mark.parametrize("lookup", [2, 6, 13, 25])
def test_gpu_that_the_driver_does_not_list_is_said_to_be_that(world: World, lookup: int) -> None:
    """On the bus and not in the driver's list: no word of a library that is too old."""
    write_sysfs(world.sysfs, ["0000:09:00.0"])
    world.script.fail("nvmlDeviceGetHandleByPciBusId", lookup)
    answer = world.reader().read()
    assert loads(answer) == [0, 0, None]
    assert "not listed by the driver" in words(answer, 2)


def test_a_reader_that_cannot_even_begin_says_why(apart: Apart) -> None:
    """The binding is missing or broken: its last words are the exception, in one line."""
    (apart.folder / "pynvml.py").write_text("raise ImportError('half installed')")
    package = Path(costguard.__file__).parent
    (apart.folder / "costguard").symlink_to(package)  # what lies beside the package is found first
    argv = [word.replace(str(package), f"{apart.folder}/costguard") for word in command_lines()["nvml"]]
    done = subprocess.run(argv, input=b"{}\n", capture_output=True, check=False)
    assert json.loads(done.stdout) == {"last_words": "ImportError: half installed"}
    assert done.returncode == 1


def test_a_reader_that_breaks_at_work_says_why() -> None:
    """What a driver's library prints is no answer, and these words are one."""
    job = b'{"sysfs":"\\u0000"}\n{"read":1}\n'
    done = subprocess.run(command_lines()["nvml"], input=job, capture_output=True, check=False)
    assert json.loads(done.stdout) == {"last_words": "ValueError: embedded null byte"}
    assert done.returncode == 1


def test_gpu_that_vanished_during_a_restart_of_the_reader(world: World) -> None:
    """A GPU that the reader before us read, and that is on no bus now, is unknown."""
    answer = world.reader(counters={"0000:0a:00.0": [1.0, 5]}).read()
    assert answer["gpus"][2][:2] == ["0000:0a:00.0", None]


def test_gpu_of_another_driver_is_not_expected(world: World) -> None:
    """Passed through to a virtual machine: not ours to judge."""
    write_sysfs(world.sysfs, ["0000:09:00.0"], driver="vfio-pci")
    assert [row[0] for row in world.reader().read()["gpus"]] == KEYS


def test_gpu_without_pci_address_is_known_by_its_uuid(world: World) -> None:
    """No PCI address from the driver: the UUID is the key."""
    world.script.set(pci="none")
    answer = world.reader(sysfs=write_sysfs(world.folder / "empty", [])).read()
    assert [row[0][:4] for row in answer["gpus"]] == ["GPU-", "GPU-"]
    assert loads(answer) == [0, 0]


# ---- answers that make no sense ---------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [{"util": 37100}, {"encoder": 37100}, {"util": float("nan"), "ring_type": 0}, {"util": -1, "ring_type": 0}],
)
def test_garbage_is_unknown(world: World, values: Values) -> None:
    """Out of range or not a number: unknown, never clipped into range."""
    world.script.set(0, **values)
    settle(0.4)
    answer = world.reader().read()
    assert loads(answer) == [None, 0]
    assert "corrupt" in words(answer)


@pytest.mark.parametrize("values", [{"name_hex": "fffe80"}, {"uuid_hex": "fffe80"}])
def test_undecodable_text_is_unknown(world: World, values: Values) -> None:
    """A name that is no text betrays a driver whose numbers are garbage too."""
    world.script.set(0, **values)
    answer = world.reader().read()
    assert loads(answer) == [None, 0]
    assert "not text" in words(answer)


# ---- what is not supported --------------------------------------------------------------------


def test_not_supported_is_never_zero(world: World) -> None:
    """No GPU use at all (MIG): unknown, with the cause."""
    world.script.set(0, util=NA, mig=1)
    answer = world.reader().read()
    assert loads(answer) == [None, 0]
    assert "MIG" in words(answer)


def test_missing_engine_is_not_asked_again(world: World) -> None:
    """A GPU without an encoder is judged by the rest, and asked once."""
    world.script.set(encoder=NA)
    reader = world.reader()
    assert [loads(reader.read()) for _ in range(3)] == [[0, 0]] * 3
    assert world.calls().count(("nvmlDeviceGetEncoderUtilization", "0")) == 1


def test_samples_not_supported_falls_back_to_the_moment(world: World) -> None:
    """Without a ring the momentary value counts, and covers nothing."""
    world.script.fail("nvmlDeviceGetSamples", 3)
    world.script.set(0, util=40)
    answer = world.reader().read()
    assert answer["gpus"][0][1:4] == [0.4, [], 0]


def test_old_driver_without_version_3_process_lists(world: World, libraries: Libraries) -> None:
    """The older call counts the contexts."""
    world.script.set(processes=[Process(42), Process(43, kind="graphics")])
    world.take(libraries.nvml(old_driver=True))
    answer = world.reader().read()
    assert "1 compute process" in words(answer)


# ---- what counts as work ----------------------------------------------------------------------


def test_dry_ring_is_idle_only_if_the_driver_still_answers(world: World) -> None:
    """NOT_FOUND from the ring is idle when the momentary value agrees, and unknown when that is unreadable."""
    world.script.set(ring_dry=True)
    reader = world.reader()
    assert loads(reader.read()) == [0, 0]
    world.script.fail("nvmlDeviceGetUtilizationRates", 999, gpu=0)
    world.script.fail("nvmlDeviceGetUtilizationRates", 3, gpu=1)
    assert loads(reader.read()) == [None, None]


def test_burst_between_reads_is_seen(world: World) -> None:
    """The ring shows a second of work that was over before anybody looked."""
    reader = world.reader()
    reader.read()
    settle(1.5)
    world.script.burst(1, 80, ago=1.0, seconds=0.5)
    assert loads(reader.read()) == [0, 0.8]
    assert loads(reader.read()) == [0, 0]


@pytest.mark.parametrize(("energy", "bridged"), [(NA, False), (0, True)])
def test_evidence_ends_at_a_hole(world: World, energy: Literal["na"] | float, bridged: bool) -> None:
    """The ring forgot what lies between two reads: covered is what it still holds, or what the energy counter proves."""
    world.script.set(ring=9, energy=energy)
    reader = world.reader()
    signs(reader, 2)
    settle(3.0)
    covers = reader.read()["gpus"][0][3]
    assert covers >= 3 if bridged else 1 < covers < 2


@pytest.mark.parametrize("values", [{"encoder": 30}, {"decoder": 30}, {"jpeg": 30}, {"ofa": 30}])
def test_other_engines_are_load(world: World, values: Values) -> None:
    """Encoding video is load although no kernel runs."""
    world.script.set(1, **values)
    assert loads(world.reader().read()) == [0, 0.3]


def test_power_above_the_idle_mean_is_a_sign_of_work(world: World) -> None:
    """Energy says that something drew power at zero load; back at idle power the sign is gone."""
    reader = world.reader()
    assert signs(reader, 3) == []
    world.script.set(0, power=95)
    assert signs(reader, 2) == ["power 25 W above idle"]
    world.script.set(0, power=75)
    assert signs(reader, 2) == []


def test_a_context_alone_is_no_sign_of_work(world: World) -> None:
    """An idle process raises the power: it is judged against the baseline with processes.

    The interval in which it came is a mixture of both states and no baseline of either.
    """
    reader = world.reader()
    assert signs(reader, 3) == []
    settle()
    world.script.set(0, power=122, processes=[Process(42)])
    assert [signs(reader) for _ in range(4)] == [[]] * 4
    world.script.set(0, power=200)
    assert signs(reader, 2) == ["power 78 W above idle"]
    world.script.set(0, power=70, processes=[])
    assert signs(reader, 2) == []


# ---- restart, detach, end ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("power", "gap", "bridged"),
    [(70, 100, True), (80, 100, True), (140, 100, False), (70, 28800, True), (87, 28800, False)],
)
def test_energy_bridges_a_restart_of_the_reader(world: World, power: float, gap: float, bridged: bool) -> None:
    """Idle energy over the gap proves it quiet; work does not, nor a mean that could hide 13 minutes of it in a night."""
    now = world.clock.boottime()
    world.script.set(energy=10_000_000_000)
    counters = {key: [now - gap, 10_000_000_000 - int(gap * power * 1000)] for key in KEYS}
    covers = [row[3] for row in world.reader(counters=counters).read()["gpus"]]
    assert all((cover > gap - 1) is bridged for cover in covers)


def test_detach_lets_go_of_the_driver(apart: Apart) -> None:
    """The driver is let go in order, and the process ends: what takes it up again is a fresh one."""
    reader = apart.reader()
    reader.read()
    assert reader.ask({"detach": True}) == {"detached": True}
    assert apart.calls()[-1] == ("nvmlShutdown", "-")
    assert reader.wait() == 0


def test_a_guard_that_hears_nothing_any_more_is_gone(apart: Apart) -> None:
    """Exit 0, as at the end of its words."""
    reader = apart.reader()
    reader.read()
    reader._child._process.stdout.close()  # type: ignore[union-attr]  # it is a pipe
    reader.send({"read": 2})
    assert reader.wait() == 0


def test_end_of_input_ends_the_reader(apart: Apart) -> None:
    """The guard is gone: exit 0, nothing said."""
    reader = apart.reader()
    reader.read()
    reader.close()
    assert reader.wait() == 0


@pytest.mark.parametrize("uninterruptible", [False, True])
def test_hung_call_ends_with_sigkill(apart: Apart, uninterruptible: bool) -> None:
    """A call that hangs gives no answer; the process can be killed without waiting for it."""
    reader = apart.reader()
    reader.read()
    apart.script.hang("nvmlDeviceGetSamples", gpu=0, uninterruptible=uninterruptible)
    with pytest.raises(NoAnswerError):
        reader.read(seconds=0.5)
    state = Path(f"/proc/{reader.pid}/stat").read_text().rpartition(")")[2].split()[0]
    assert state == ("D" if uninterruptible else "S")
    reader.kill()
    assert reader.wait() == -signal.SIGKILL


def test_hung_reader_dies_with_the_guard(apart: Apart) -> None:
    """The guard dies while a call hangs: the kernel ends the reader too."""
    apart.script.hang("nvmlInit")
    guard = (
        "import subprocess, sys, time\n"
        "code = 'import sys; sys.path.insert(0, sys.argv[1]); from costguard.readers.nvml.reader import main; main()'\n"
        "child = subprocess.Popen([sys.executable, '-I', '-c', code, sys.argv[1]], stdin=subprocess.PIPE)\n"
        "child.stdin.write(b'{}\\n'); child.stdin.flush()\n"
        "print(child.pid, flush=True); time.sleep(60)"
    )
    root = str(Path(costguard.__file__).parents[1])
    environment = {**os.environ, **apart.script.environment(apart.library, apart.log)}
    with subprocess.Popen([sys.executable, "-c", guard, root], stdout=subprocess.PIPE, env=environment) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert until(apart.log.exists)
        parent.kill()
    assert until(lambda: not Path(f"/proc/{pid}").exists() or gone(pid))


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def until(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return False


def test_calls_stay_within_the_budget(world: World) -> None:
    """At most 8 calls per GPU and read in steady state, none of them an init, a shutdown or a process list each."""
    world.script.set(ring_dry=True)
    reader = world.reader()
    reader.read()
    world.log.unlink()
    for _ in range(20):
        reader.read()
    calls = world.calls()
    assert len(calls) <= 8 * 2 * 20
    assert not {name for name, _ in calls} & {"nvmlInit_v2", "nvmlShutdown", "nvmlDeviceGetMemoryInfo"}
