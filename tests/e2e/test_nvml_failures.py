"""The installed agent while the driver fails: never idle, never dead, always told, and known again when it ends."""

import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from costguard.testing.nvml import Values, build, write_sysfs

from .conftest import Agent
from .test_agent import acted, command, kill, ours, until_gone, work

pytestmark = pytest.mark.thorough

WINDOW = ("window_rule=unbroken", "kill_duration=1h", "boot_grace=0s")
LONG = 60.0  # seconds, for a reader that is started anew after pauses of 5, 10 and 20 s

UNASKED = "the reader has not answered yet"

Report = dict[str, Any]


def states(report: Report) -> list[str]:
    return [gpu["state"] for gpu in report["gpus"]]


def blind(report: Report) -> bool:
    return "unknown" in states(report)


def sees_work(report: Report) -> bool:
    return states(report) == ["works", "works"]


def code_at_start(code: int) -> Callable[[Agent], None]:
    """A fresh reader cannot begin, and the one that runs is killed."""

    def fault(agent: Agent) -> None:
        agent.gpus.fail("nvmlInit", code)
        kill_reader(agent)

    fault.__name__ = f"init_{code}"
    return fault


def code_in_flight(code: int, function: str = "*", gpu: int | None = None) -> Callable[[Agent], None]:
    def fault(agent: Agent) -> None:
        agent.gpus.fail(function, code, gpu=gpu)

    fault.__name__ = f"{function.strip('*') or 'all'}_{code}_{'both' if gpu is None else gpu}"
    return fault


def hang(agent: Agent) -> None:
    agent.gpus.hang("nvmlDeviceGetSamples", gpu=1)


def hang_in_state_d(agent: Agent) -> None:
    agent.gpus.hang("*", uninterruptible=True)


def slow(agent: Agent) -> None:
    agent.gpus.delay("nvmlDeviceGetSamples", 45.0)


def lost(agent: Agent) -> None:
    agent.gpus.set(1, lost=True)


def garbage(agent: Agent) -> None:
    agent.gpus.set(0, util=37100)


def no_text(agent: Agent) -> None:
    agent.gpus.set(0, name_hex="fffe80")
    kill_reader(agent)


def not_given(agent: Agent) -> None:
    agent.gpus.set(1, util="na")


def not_listed(agent: Agent) -> None:
    agent.gpus.system(count=1)
    agent.gpus.set(1, handle=15, lost=True)
    kill_reader(agent)


def crash(agent: Agent) -> None:
    """The library takes its process with it."""
    subprocess.run(["kill", "-SEGV", str(reader_pid(agent))], check=True)


FAULTS = [
    crash,
    code_at_start(9), code_at_start(18), code_at_start(999), code_in_flight(999), code_in_flight(1),
    code_in_flight(17, gpu=0), code_in_flight(16, gpu=1), code_in_flight(15), code_in_flight(12345, "nvmlDeviceGetSamples"),
    hang, hang_in_state_d, slow, lost, garbage, no_text, not_given, not_listed,
]  # fmt: skip


def reader_pid(agent: Agent) -> int:
    """The process that reads the GPUs; 0 when there is none."""
    for pid in ours(agent):
        try:
            if b"nvml" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return pid
        except OSError:
            continue
    return 0


def kill_reader(agent: Agent) -> None:
    if pid := reader_pid(agent):
        subprocess.run(["kill", "-KILL", str(pid)], check=False)


def heal(agent: Agent) -> None:
    agent.gpus.heal()
    agent.gpus.system(count=2)
    agent.gpus.set(lost=False, handle=0, name="NVIDIA H200", util=90)
    agent.gpus.set(name_hex=b"NVIDIA H200".hex())


def patient(agent: Agent, holds: Callable[[Report], bool]) -> Report:
    return agent.until(holds, LONG)


@pytest.mark.parametrize("part", range(3))
def test_faults_in_any_order_are_unknown_and_end_with_their_cause(agent: Agent, part: int) -> None:
    """One after the other under one agent: each is unknown with a reason, and after it the GPUs are seen to work."""
    shuffled = random.Random(20).sample(FAULTS, len(FAULTS))
    agent.start(*WINDOW)
    work(agent)
    for fault in shuffled[part::3]:
        fault(agent)
        report = patient(agent, blind)
        assert report["phase"] == "WATCHING", fault.__name__
        assert all(gpu["words"] for gpu in report["gpus"]), fault.__name__
        heal(agent)
        patient(agent, sees_work)
    assert agent.process is not None
    assert agent.process.poll() is None


@pytest.mark.parametrize("fault", [code_at_start(9), code_at_start(18), code_at_start(999), hang_in_state_d])
def test_a_fault_from_the_start_does_not_keep_the_agent_from_watching(
    agent: Agent, fault: Callable[[Agent], None]
) -> None:
    """It starts, says that nothing can be read, and reads as soon as it can."""
    fault(agent)
    agent.gpus.set(util=90)
    agent.start(*WINDOW, enough=lambda _: True)
    report = patient(agent, lambda report: report["agent"]["reader"] not in {"answers", UNASKED})
    assert report["phase"] == "WATCHING"
    assert any(part in report["sentence"] for part in ("never idle", "no stop until every GPU can be read"))
    heal(agent)
    patient(agent, sees_work)


def test_work_that_only_its_power_shows_outlives_reader_and_agent(agent: Agent) -> None:
    """Idle power is learnt once in a boot: killed readers, and a killed agent, do not learn the power of work anew."""
    agent.gpus.set(power=70)
    agent.start(*WINDOW)
    patient(agent, lambda report: all("mean" in gpu["words"] for gpu in report["gpus"]))
    agent.gpus.set(power=110)
    power = lambda report: all("above idle" in " ".join(gpu["signs"]) for gpu in report["gpus"])  # noqa: E731 # one rule
    patient(agent, power)
    hang_in_state_d(agent)
    patient(agent, blind)
    agent.gpus.heal()
    patient(agent, power)
    kill(agent)
    agent.start(*WINDOW)
    patient(agent, power)


@pytest.mark.parametrize(
    ("code", "words"), [(9, "not loaded"), (18, "different versions"), (27, "not ready"), (999, "unknown")]
)
def test_a_driver_that_is_down_at_the_start_is_named(agent: Agent, code: int, words: str) -> None:
    """In status as long as it lasts, also between two readers."""
    agent.gpus.fail("nvmlInit", code)
    agent.start(*WINDOW, enough=lambda _: True)
    patient(agent, lambda report: report["agent"]["reader"] not in {"answers", UNASKED})
    for _ in range(8):
        report = patient(agent, lambda _: True)
        assert words in report["agent"]["reader"]
        assert all(words in gpu["words"] for gpu in report["gpus"])
        time.sleep(0.5)


def test_idle_gpus_that_fail_now_and_then_are_not_stopped_early(agent: Agent) -> None:
    """Each fault begins the idle clock of its GPU anew: with one every 1.6 s, four seconds of quiet never come."""
    agent.start(*command(agent.folder), "kill_duration=4s")
    work(agent)
    agent.gpus.set(util=0, energy="na")
    for number in range(8):
        agent.gpus.set(ring=3)  # a ring that reaches back half a second proves nothing about the fault
        agent.gpus.fail("*", 999, gpu=number % 2)
        time.sleep(0.8)
        agent.gpus.heal()
        time.sleep(0.8)
    assert acted(agent.folder) == 0


STILL = {2: 0.0, 5: 0.0, 10: 0.0}
REST = Values(util=0, encoder=0, decoder=0, jpeg=0, ofa=0, gpm_metrics=STILL, mig="na", instances={})
WORK = [
    Values(encoder=30), Values(decoder=30), Values(jpeg=30), Values(ofa=30), Values(gpm_metrics=STILL | {2: 20.0}),
    Values(gpm_metrics=STILL | {5: 3.0}), Values(gpm_metrics=STILL | {20: 500.0}),
    Values(util="na", mig=1, instances={1: {2: 0.0}, 2: {2: 40.0}}), Values(util="na", mig=1, instances={1: {2: 0.0, 30: 9.0}}),
]  # fmt: skip


def test_work_of_every_kind_keeps_the_machine(agent: Agent) -> None:
    """One GPU at rest, one that works without any kernel sampled: no warning; when both rest, the action comes."""
    agent.gpus.set(gpm=True, gpm_metrics=STILL)
    agent.start("kill_action=shutdown", "kill_duration=4s", "window_rule=unbroken", "boot_grace=0s")
    work(agent)
    agent.gpus.set(0, **REST)
    for values in WORK:
        agent.gpus.set(1, **REST)
        agent.gpus.set(1, **values)
        agent.until(lambda report: states(report)[1] == "works" and report["gpus"][1]["load"] != 0.9)
        time.sleep(1)
        report = agent.until(lambda report: states(report)[0] == "quiet")
        assert report["phase"] == "WATCHING", values
    agent.gpus.set(1, **REST)
    agent.until(lambda report: report["phase"] == "WARNING")


@pytest.mark.parametrize("library_first", [True, False])
def test_driver_exchanged_under_a_running_agent(agent: Agent, tmp_path: Path, library_first: bool) -> None:
    """Library and module are replaced one after the other: jobs go on, and so does the watch when both are new."""
    folder = tmp_path / "lib"
    build(folder, library_version="550.54.15")
    agent.environment["LD_LIBRARY_PATH"] = str(folder)
    agent.gpus.system(driver="550.54.15")
    agent.start(*WINDOW)
    work(agent)

    def replace_library() -> None:
        build(folder, library_version="570.10")

    def replace_module() -> None:
        agent.gpus.system(driver="570.10")

    first, second = (replace_library, replace_module) if library_first else (replace_module, replace_library)
    first()
    if library_first:  # the process that runs has the old library mapped, and works on; a new one does not
        time.sleep(1)
        assert sees_work(agent.until(lambda _: True))
        kill_reader(agent)
    patient(agent, lambda report: any("NVML 18" in gpu["words"] for gpu in report["gpus"]))
    second()
    patient(agent, sees_work)
    assert acted(agent.folder) == 0


def test_nobody_to_let_go_of_the_driver(agent: Agent) -> None:
    """No agent: exit code 3, and what to do."""
    refused = agent.ask("detach")
    assert refused.returncode == 3
    assert "no costguard agent is running" in refused.stderr


def test_driver_is_let_go_and_taken_up_by_command(agent: Agent) -> None:
    """detach, a restart of the agent, the exchange of the driver, attach: no process touches the driver in between."""
    agent.start(*WINDOW)
    work(agent)
    done = agent.ask("detach")
    assert (done.returncode, "attach" in done.stdout) == (0, True)
    agent.until(lambda report: all("detached on request" in gpu["words"] for gpu in report["gpus"]))
    assert reader_pid(agent) == 0
    kill(agent)
    until_gone(agent)
    agent.start(*WINDOW)
    time.sleep(1)
    assert states(agent.until(blind)) == ["unknown", "unknown"]
    assert reader_pid(agent) == 0
    assert agent.ask("attach").returncode == 0
    patient(agent, sees_work)
    assert agent.ask("attach").stdout == "Nothing to do: the GPU driver is already attached.\n"


def test_gpu_that_appears_during_the_countdown_keeps_the_machine(agent: Agent) -> None:
    """A third GPU comes onto the bus and works: it is seen before the request goes out, which then does not."""
    agent.start(*command(agent.folder), "grace=4s")
    work(agent)
    agent.gpus.set(util=0)
    agent.until(lambda report: report["phase"] == "WARNING")
    agent.gpus.add(util=90, pci="0000:03:00.0")
    write_sysfs(agent.folder / "sys", ["0000:03:00.0"])
    agent.until(lambda report: len(report["gpus"]) == 3 and report["phase"] == "WATCHING")
    agent.until(lambda report: states(report)[2] == "works")  # not yet in a reading of the very moment in which it came
    time.sleep(5)
    assert acted(agent.folder) == 0


def test_a_failing_driver_without_a_bus_is_no_missing_gpu(agent: Agent) -> None:
    """No PCI bus to count on (a sandbox): a driver that answers *wrong version* is there, so the agent stays and reads."""
    empty = write_sysfs(agent.folder / "empty", [])
    agent.settings = [setting for setting in agent.settings if not setting.startswith("host.sysfs")]
    agent.settings += [f"host.sysfs={empty}", f"host.devfs={agent.folder}"]
    agent.gpus.fail("nvmlInit", 18)
    agent.gpus.set(util=90)
    agent.start(*WINDOW, enough=lambda report: "NVML 18" in str(report["agent"]))
    assert agent.process is not None
    assert agent.process.poll() is None
    agent.gpus.set(1, handle=15)
    agent.gpus.heal()
    assert states(patient(agent, lambda report: "works" in states(report))) == ["works", "unknown"]
    agent.gpus.set(1, handle=0)
    patient(agent, sees_work)
    kill_reader(agent)  # the next one can name the second GPU, which must not become a third
    patient(agent, lambda report: bool(report["agent"]["reader_restarts"] > 1) and sees_work(report))
    agent.process.send_signal(signal.SIGTERM)
    assert agent.process.wait(20) == 0
    agent.process = None
