"""The installed agent from end to end: real guard, real reader on the stand-in library, real workers."""

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from costguard.testing.nvml import Script, write_sysfs

from .conftest import COMMAND, PATIENCE, Agent

QUICK = ("mode=live", "window_rule=unbroken", "kill_duration=2s", "grace=1s", "boot_grace=0s", "notify.attempts=1")


def command(folder: Path, *, seconds: float = 0.0) -> list[str]:
    """Settings of an action that leaves one line for each time it ran."""
    script = folder / "act"
    script.write_text(f"#!/bin/sh\nsleep {seconds}\necho acted >> {folder}/acted\n")
    script.chmod(0o755)
    return [*QUICK, "kill_action=command", f'actions.command.run=["{script}"]']


def acted(folder: Path) -> int:
    """How often the action ran."""
    path = folder / "acted"
    return len(path.read_text().splitlines()) if path.exists() else 0


def work(agent: Agent) -> None:
    """Let both GPUs work until the agent has armed."""
    agent.gpus.set(util=90)
    agent.until(lambda report: bool(report["armed"]))


def ours(agent: Agent) -> list[int]:
    """Every living process that belongs to this agent: all of them inherit the path of its GPU script."""
    mark = str(agent.folder / "gpus").encode()
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                environment = Path(f"/proc/{name}/environ").read_bytes()
                state = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if mark in environment and state not in "ZX":
                found.append(int(name))
    return found


def until_gone(agent: Agent) -> None:
    """Wait until no process of the agent is left."""
    end = time.monotonic() + PATIENCE
    while left := ours(agent):
        assert time.monotonic() < end, [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in left]
        time.sleep(0.05)


def kill(agent: Agent) -> None:
    """SIGKILL the guard."""
    assert agent.process is not None
    agent.process.kill()
    agent.process.wait(10)
    agent.process = None


def test_idle_after_work_warns_and_acts_once(agent: Agent) -> None:
    """Work, then quiet: a warning, then the command, exactly once however long the quiet lasts."""
    agent.start(*command(agent.folder))
    work(agent)
    agent.gpus.set(util=0)
    agent.until(lambda report: report["phase"] == "WARNING")
    assert acted(agent.folder) == 0
    agent.until(lambda report: report["phase"] == "DONE" and report["done"] == "acted")
    time.sleep(1.5)
    assert acted(agent.folder) == 1


def test_dry_run_has_no_effect(agent: Agent) -> None:
    """Without `mode = "live"` the same story ends in words."""
    agent.start(*command(agent.folder), "mode=dry-run")
    work(agent)
    agent.gpus.set(util=0)
    agent.until(lambda report: report["phase"] == "DONE" and report["done"] == "would")
    assert acted(agent.folder) == 0
    assert "DRY RUN" in (agent.folder / "log").read_text()


def test_end_process_exits_with_zero(agent: Agent) -> None:
    """`costguard run --live && next` goes on when the work is over, and nothing is left behind."""
    agent.start(*QUICK, "kill_action=end_process")
    work(agent)
    agent.gpus.set(util=0)
    assert agent.process is not None
    assert agent.process.wait(PATIENCE) == 0
    until_gone(agent)


@pytest.mark.parametrize("code", [999, *(pytest.param(code, marks=pytest.mark.thorough) for code in (9, 15))])
def test_unreadable_is_never_idle(agent: Agent, code: int) -> None:
    """A driver that fails while armed keeps everything as it is; when it answers again, so does the agent."""
    agent.start(*command(agent.folder))
    work(agent)
    agent.gpus.set(util=0)
    agent.gpus.fail("*", code)
    report = agent.until(lambda report: all(gpu["state"] == "unknown" for gpu in report["gpus"]))
    time.sleep(4)
    assert acted(agent.folder) == 0
    assert "never idle" in report["sentence"]
    agent.gpus.heal()
    agent.gpus.set(util=90)
    agent.until(lambda report: all(gpu["state"] == "works" for gpu in report["gpus"]))


def test_hung_reader_is_replaced(agent: Agent) -> None:
    """A driver call that never returns costs the reader its life, not the agent, and no verdict is built on it."""
    agent.start(*command(agent.folder))
    work(agent)
    agent.gpus.set(util=0)
    agent.gpus.hang("*")
    agent.until(lambda report: all(gpu["state"] == "unknown" for gpu in report["gpus"]))
    assert acted(agent.folder) == 0
    agent.gpus.heal()
    agent.until(lambda report: all(gpu["state"] == "quiet" for gpu in report["gpus"]))


def test_one_busy_gpu_outside_gpu_devices_keeps_the_machine(agent: Agent) -> None:
    """A machine action looks at every GPU, whatever `gpu_devices` and `aggregate` say."""
    agent.start("gpu_devices=['0']", "aggregate=any", "kill_duration=2s", "window_rule=unbroken", "boot_grace=0s")
    work(agent)
    agent.gpus.set(0, util=0)
    time.sleep(4)
    report = agent.until(lambda report: report["gpus"][0]["state"] == "quiet")
    assert report["phase"] == "WATCHING"


def test_lent_two_of_eight_gpus_it_never_ends_the_machine(agent: Agent) -> None:
    """As in a container: the bus shows eight GPUs, the driver gives two; the six others may be at work."""
    write_sysfs(agent.folder / "sys", [f"0000:0{number}:00.0" for number in range(3, 9)])
    agent.start("kill_action=shutdown", "kill_duration=2s", "window_rule=unbroken", "boot_grace=0s")
    work(agent)
    agent.gpus.set(util=0)
    time.sleep(4)
    report = agent.until(lambda report: report["gpus"][0]["state"] == "quiet")
    assert report["phase"] == "WATCHING"
    assert [gpu["state"] for gpu in report["gpus"]] == ["quiet"] * 2 + ["unknown"] * 6


@pytest.mark.parametrize("kills", [2, pytest.param(12, marks=pytest.mark.thorough)])
def test_sigkill_at_any_moment_acts_once_and_leaves_no_orphan(agent: Agent, kills: int) -> None:
    """The guard may die at random moments, again and again: state whole, one action, nothing left running."""
    dice = random.Random(20)
    settings = command(agent.folder, seconds=0.2)
    agent.start(*settings)
    work(agent)
    agent.gpus.set(util=0)
    for _ in range(kills):
        time.sleep(dice.uniform(0.1, 2.0))
        kill(agent)
        until_gone(agent)
        agent.start(*settings)
    # killed in the moment of the release nobody can know whether the command began: it is asked about for minutes, and never repeated
    asked_for = time.monotonic() + 40.0
    report = agent.until(
        lambda report: report["phase"] == "DONE" or (report["phase"] == "CONFIRMING" and time.monotonic() > asked_for)
    )
    assert acted(agent.folder) in ({1} if report["phase"] == "DONE" else {0, 1})
    kill(agent)
    until_gone(agent)


def test_restart_keeps_what_was_known(agent: Agent) -> None:
    """A restart within the boot stays armed; another policy takes the running warning back."""
    agent.start(*QUICK, "kill_action=end_process", "grace=60s")
    work(agent)
    agent.gpus.set(util=0)
    agent.until(lambda report: report["phase"] == "WARNING")
    kill(agent)
    agent.start(*QUICK, "kill_action=end_process", "grace=60s", "kill_duration=1h")
    report = agent.until(lambda report: True)
    assert report["armed"]
    assert report["phase"] == "WATCHING"


def test_reload_takes_over_only_what_is_sound(agent: Agent, tmp_path: Path) -> None:
    """SIGHUP: a broken file is told and changes nothing; a sound one takes over."""
    config = tmp_path / "config.toml"
    config.write_text("kill_duration = '1h'\n")
    agent.start(options=["--config", str(config)])
    assert agent.process is not None
    config.write_text("kill_duration = 'soon'\n")
    agent.process.send_signal(signal.SIGHUP)
    report = agent.until(lambda report: "reload" in report["agent"]["troubles"])
    assert report["window"] == 3600
    assert "kill_duration" in report["agent"]["troubles"]["reload"]
    config.write_text("kill_duration = '2h'\n")
    agent.process.send_signal(signal.SIGHUP)
    report = agent.until(lambda report: report["window"] == 7200)
    assert not report["agent"]["troubles"]
    (tmp_path / "config.d").mkdir()
    (tmp_path / "config.d/team.toml").write_text("kill_duration = '3h'\n")
    agent.process.send_signal(signal.SIGHUP)
    agent.until(lambda report: report["window"] == 10800)


def test_a_reload_without_a_change_leaves_the_countdown_alone(agent: Agent, tmp_path: Path) -> None:
    """What is read for it says the same as what was read at the start, whatever else stands in either."""
    config = tmp_path / "config.toml"
    config.write_text("mode = 'live'\nkill_action = 'end_process'\ngrace = '60s'\n[notify]\nlocal_only = true\n")
    agent.start(*(one for one in QUICK if one != "grace=1s"), options=["--config", str(config)])
    work(agent)
    agent.gpus.set(util=0)
    warned = agent.until(lambda report: report["phase"] == "WARNING")
    assert agent.process is not None
    agent.process.send_signal(signal.SIGHUP)
    agent.until(lambda _: "configuration reloaded" in (agent.folder / "log").read_text())
    assert agent.until(bool)["incident"]["id"] == warned["incident"]["id"]
    config.write_text(config.read_text().replace("60s", "61s"))
    agent.process.send_signal(signal.SIGHUP)
    agent.until(lambda report: report["phase"] == "WATCHING")


def test_second_agent_names_the_first(agent: Agent) -> None:
    """One agent per state directory: the second one exits with 3 and says who was first."""
    agent.start()
    assert agent.process is not None
    second = agent.ask("run")
    assert second.returncode == 3
    assert str(agent.process.pid) in second.stderr


def test_a_full_disk_stops_no_decision(agent: Agent) -> None:
    """State and commitments that cannot be written are told, and the action comes all the same."""
    for name in ("commitments.json", "history.sqlite"):
        (agent.folder / "state" / name / "something else").mkdir(
            parents=True
        )  # root may write everywhere, but not here
    agent.start(*command(agent.folder))
    work(agent)
    agent.gpus.set(util=0)
    report = agent.until(lambda report: report["phase"] == "DONE")
    assert acted(agent.folder) == 1
    assert report["agent"]["troubles"]


def test_without_hardware_it_says_so(tmp_path: Path, nvml_library: Path) -> None:
    """No NVIDIA device on the bus and no driver: nothing to guard, exit code 0."""
    bus = tmp_path / "sys" / "bus" / "pci" / "devices"
    bus.mkdir(parents=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COSTGUARD_")}
    script = Script(tmp_path / "none", gpus=0)
    script.fail("*", 9)  # the driver is not loaded
    environment |= script.environment(nvml_library)
    ended = subprocess.run(
        [*COMMAND, "run", "--state-dir", str(tmp_path / "state"), "--set", f"host.sysfs={tmp_path}/sys",
         "--set", f"host.devfs={tmp_path}/dev"],
        env=environment, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert ended.returncode == 0
    assert "No NVIDIA GPU" in ended.stdout + ended.stderr


def test_a_hold_waits_for_an_agent_that_was_killed_to_be_started_again(agent: Agent) -> None:
    """In a countdown that goes on then, whoever wants to hold must not read that nothing happens without an agent."""
    settings = (*command(agent.folder), "grace=60s")
    agent.start(*settings)
    work(agent)
    agent.gpus.set(util=0)
    agent.until(lambda report: report["phase"] == "WARNING")
    kill(agent)
    hold = [*COMMAND, "hold", "1h", "--state-dir", str(agent.folder / "state")]
    with subprocess.Popen(
        hold, env=agent.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as held:
        assert held.stderr is not None
        assert "costguard was killed; waiting" in held.stderr.readline()
        agent.start(*settings)
        assert held.wait(PATIENCE) == 0, held.stderr.read()
    assert agent.until(bool)["holds"]
