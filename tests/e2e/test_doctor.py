"""`doctor` beside a real agent and without one."""

import json
import os
import shlex
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from costguard.doctor import hardware
from tests.e2e.conftest import COMMAND, Agent

COMMANDED = ("kill_action=command", "actions.command.run=true")
LIVE = ("mode=live", *COMMANDED)


def serve(agent: Agent, *settings: str, options: tuple[str, ...] = ()) -> tuple[str, dict[str, str]]:
    """Let an agent that runs look like that of an enabled unit; a setting and the environment for doctor."""
    assert agent.process is not None
    units, proc = agent.folder / "units", agent.folder / "proc"
    (units / "multi-user.target.wants").mkdir(parents=True, exist_ok=True)
    given = [part for setting in (*agent.settings, *settings) for part in ("--set", setting)]
    start = shlex.join([*COMMAND, "run", "--state-dir", str(agent.folder / "state"), *options, *given])
    (units / "costguard.service").write_text(f"[Service]\nRestart=always\nExecStart={start}\n")
    link = units / "multi-user.target.wants/costguard.service"
    link.unlink(missing_ok=True)
    link.symlink_to(units / "costguard.service")
    (proc / str(agent.process.pid)).mkdir(parents=True, exist_ok=True)
    (proc / str(agent.process.pid) / "cgroup").write_text("0::/system.slice/costguard.service\n")
    (proc / str(agent.process.pid) / "cmdline").write_bytes(Path(f"/proc/{agent.process.pid}/cmdline").read_bytes())
    ticks = int((agent.clock.boottime() + 3600.0) * os.sysconf("SC_CLK_TCK"))  # after all its files
    (proc / str(agent.process.pid) / "stat").write_text(f"{agent.process.pid} (python3) S {'0 ' * 18}{ticks} 0\n")
    return f"host.procfs={proc}", {"SYSTEMD_UNIT_PATH": str(units)}


def planned(agent: Agent) -> None:
    """The agent's check of its action has passed."""
    agent.until(lambda report: bool(report["plans"]))


def doctor(agent: Agent, *settings: str) -> subprocess.CompletedProcess[str]:
    """What it says, given the options that the agent was given."""
    given = [part for setting in (*agent.settings, *settings) for part in ("--set", setting)]
    return agent.ask("doctor", *given)


def facts(agent: Agent, *settings: str) -> dict[str, Any]:
    given = [part for setting in (*agent.settings, *settings) for part in ("--set", setting)]
    found = json.loads(agent.ask("doctor", "--json", *given).stdout)
    assert isinstance(found, dict)
    return found


def test_a_guarded_machine_and_then_its_agent_hangs(agent: Agent) -> None:
    """Exit code 0 and GUARDED in the last line; an agent that does not answer is found out in seconds."""
    agent.start(*LIVE)
    planned(agent)
    procfs, environment = serve(agent, *LIVE)
    agent.environment |= environment
    done = doctor(agent, *LIVE, procfs)
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1].startswith("GUARDED")
    assert "command: may be carried out" in done.stdout
    assert "costguard.service starts it at every boot" in " ".join(done.stdout.split())
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert agent.process is not None
    agent.process.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    try:
        hung = doctor(agent, *LIVE)
    finally:
        agent.process.send_signal(signal.SIGCONT)
    assert hung.returncode == 1
    assert "NOT GUARDED, because\n  - the costguard agent at" in hung.stdout
    assert "an agent that was started now" not in hung.stdout
    assert time.monotonic() - began < 20.0


@pytest.mark.parametrize("name", ["7", "GPU-deadbeef"])
def test_a_gpu_that_is_not_there_keeps_every_stop_from_happening(agent: Agent, name: str) -> None:
    """The agent says so in its status, and doctor takes its verdict from there, with the next step."""
    settings = (*LIVE, f"gpu_devices={name}")
    agent.start(*settings)
    planned(agent)
    agent.until(lambda report: bool(report["standstill"]))
    procfs, environment = serve(agent, *settings)
    agent.environment |= environment
    done = doctor(agent, *settings, procfs)
    assert done.returncode == 1, done.stdout
    said = " ".join(done.stdout.split())
    assert f"NOT GUARDED, because - no GPU matches {name} in gpu_devices" in said
    assert "-> correct gpu_devices, or remove it: then every GPU counts" in said
    found = facts(agent, *settings, procfs)
    assert (found["guarded"], len(found["why"])) == (False, 1)


def test_a_dry_run_would_be_guarded_and_says_how_to_change_that(agent: Agent) -> None:
    """Nothing would be stopped: no success for a script, no GUARDED, and nothing else is missing."""
    agent.start(*COMMANDED)
    planned(agent)
    procfs, environment = serve(agent, *COMMANDED)
    agent.environment |= environment
    done = doctor(agent, *COMMANDED, procfs)
    assert done.returncode == 4, done.stdout
    assert done.stdout.splitlines()[-1].startswith("WOULD BE GUARDED in live mode; this is a dry run")
    found = facts(agent, *COMMANDED, procfs)
    assert (found["guarded"], found["verdict"]) == (False, "WOULD BE GUARDED")
    assert found["why"] == ["mode is dry-run: it warns and does nothing else"]


def test_who_may_not_see_all_is_told_so_first_and_whom_to_ask(agent: Agent) -> None:
    """Neither a success for a script nor a fault: an exit code of its own, and in the first line the command that can tell."""
    agent.start(*LIVE)
    planned(agent)
    procfs, environment = serve(agent, *LIVE)
    assert agent.process is not None
    (agent.folder / "proc" / str(agent.process.pid) / "stat").unlink()  # as where /proc hides what others run
    agent.environment |= environment
    done = doctor(agent, *LIVE, procfs)
    assert done.returncode == 5, done.stdout
    assert done.stdout.startswith("CANNOT TELL as this user whether it is guarded: `sudo costguard doctor` can\n")
    (reason,) = done.stdout.split("`sudo costguard doctor` can, because\n")[1:]
    assert reason.startswith("  - the agent's start time is hidden")
    assert "NOT GUARDED" not in done.stdout
    found = facts(agent, *LIVE, procfs)
    assert (found["guarded"], found["verdict"], len(found["why"])) == (False, "CANNOT TELL", 1)


@pytest.mark.parametrize("action", ["reboot", pytest.param("end_process", marks=pytest.mark.thorough)])
def test_an_action_that_ends_no_bill_guards_nothing(agent: Agent, action: str) -> None:
    """The agent would do as it was told, and the machine would be billed on: no success, in live mode neither."""
    live = ("mode=live", f"kill_action={action}")
    agent.start(*live)
    if action != "end_process":  # which has nothing to check
        planned(agent)
    procfs, environment = serve(agent, *live)
    agent.environment |= environment
    found = facts(agent, *live, procfs)
    assert found["verdict"] == "NOT GUARDED"
    allowed = action == "end_process" or os.geteuid() == 0
    assert any(("the bill goes on" if allowed else "cannot be carried out") in why for why in found["why"]), found[
        "why"
    ]


def test_an_agent_that_nobody_starts_again_guards_nothing(agent: Agent) -> None:
    """Started by hand it works until the next boot, which is not enough."""
    agent.start(*LIVE)
    planned(agent)
    found = facts(agent, *LIVE, f"host.procfs={agent.folder / 'none'}")
    assert (found["verdict"], len(found["why"])) == ("NOT GUARDED", 1)
    assert "it does not run as a service" in found["why"][0]


def test_a_file_that_was_broken_since_the_start_guards_nothing(agent: Agent) -> None:
    """The agent goes on; what its unit starts with after a boot is read as `run` reads it, unit options included."""
    file = agent.folder / "config.toml"
    written = 'mode = "live"\nkill_action = "command"\n[notify]\nlocal_only = true\n[actions.command]\nrun = "true"\n'
    file.write_text(written)
    named = ("--config", str(file))
    agent.start(options=named)
    planned(agent)
    procfs, environment = serve(agent, options=named)
    agent.environment |= environment
    assert facts(agent, procfs)["verdict"] == "GUARDED", "doctor takes the file that the agent was given"
    for text, words in (
        (written + '[hooks]\npre_stop = ["true"]\n', "something other than the rules"),
        ('mode = "live\n', "would not start again"),
    ):
        file.write_text(text)
        found = facts(agent, procfs)
        assert found["verdict"] == "NOT GUARDED", text
        assert words in " ".join(found["why"])


def test_a_lost_gpu_is_named_with_what_to_do(agent: Agent) -> None:
    """By the agent's own reading; the reason, and the next command."""
    agent.start(*LIVE)
    agent.gpus.set(1, lost=True)
    agent.until(lambda report: report["gpus"][1]["state"] == "unknown")
    found = facts(agent, *LIVE)
    assert found["guarded"] is False
    assert [gpu["known"] for gpu in found["gpus"]] == [True, False]
    (bad,) = [check for check in found["sections"]["GPUs"] if check["level"] == "bad"]
    assert "GPU 1 (NVIDIA H200) cannot be read" in bad["text"]
    assert "reboot" in bad["hint"]


def test_without_an_agent_it_reads_for_itself(agent: Agent) -> None:
    """GPUs by a reading of its own, plans by a worker of its own, and what an agent would decide."""
    found = facts(agent, *LIVE)
    assert found["guarded"] is False
    assert len(found["why"]) == 1
    assert "no costguard agent is running" in found["why"][0]
    assert [gpu["label"] for gpu in found["gpus"]] == ["GPU 0 (NVIDIA H200)", "GPU 1 (NVIDIA H200)"]
    assert found["plans"][0]["verdict"] in {"go", "consequences"}
    assert "2 GPUs" in found["sentence"] or "both GPUs" in found["sentence"]


def test_a_shutdown_is_judged_by_its_place_in_the_list(agent: Agent) -> None:
    """As a fall-back it needs a proof that the disks stay, without an agent too; as the owner's first wish it does not."""
    (firmware := agent.folder / "sys/class/dmi/id").mkdir(parents=True)
    (firmware / "sys_vendor").write_text("Amazon EC2\n")
    place = ("host.stands_for_host=true", "cloud.metadata=never")
    (programs := agent.folder / "bin").mkdir()
    (programs / "shutdown").symlink_to("/bin/true")  # an ordinary user's PATH may lead to none
    agent.environment["PATH"] = f"{programs}:{agent.environment['PATH']}"

    def codes(*settings: str) -> set[str]:
        plans = facts(agent, *place, *settings)["plans"]
        return {found[0] for plan in plans if plan["action"] == "shutdown" for found in plan["findings"]}

    assert "shutdown_unproven" in codes("kill_action=stop", 'fallback=["shutdown"]')
    rightless = {"not_permitted"} if os.geteuid() else set()
    assert codes("kill_action=shutdown") == {"may_terminate"} | rightless


def test_a_driver_that_hangs_does_not_hang_it(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reading has a deadline; then nothing is known, and the words lead to advice."""
    agent.gpus.hang("nvmlInitWithFlags")
    for name in set(agent.environment) - set(os.environ):
        monkeypatch.setenv(name, agent.environment[name])
    began = time.monotonic()
    answer = hardware.probe({"procfs": "/proc", "sysfs": str(agent.folder / "sys"), "devfs": "/dev"}, seconds=2.0)
    assert answer == {"error": "the driver did not answer within 2 s; the reader was killed", "gpus": []}
    assert "the driver hangs" in hardware.advice(answer["error"])
    assert time.monotonic() - began < 6.0


def test_a_configuration_with_problems_is_told_whole(tmp_path: Path) -> None:
    """Every problem, and that nothing would start."""
    file = tmp_path / "config.toml"
    file.write_text('grace = "soon"\nno_such_thing = 1\n')
    argv = [*COMMAND, "doctor", "--state-dir", str(tmp_path), "--config", str(file)]
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=60, check=False, env=os.environ | {"COLUMNS": "100"}
    )
    assert done.returncode == 1
    assert "grace" in done.stdout
    assert "no_such_thing" in done.stdout
    assert f"costguardconfigcheck{file}" in "".join(done.stdout.split())  # a long path is broken over lines


def test_the_file_that_keeps_it_a_dry_run_is_named(tmp_path: Path) -> None:
    """What is written into the main file would change nothing where a file of config.d wins over it."""
    (tmp_path / "config.toml").write_text('mode = "live"\nnotify.local_only = true\n')
    (tmp_path / "config.d").mkdir()
    (tmp_path / "config.d/50-trial.toml").write_text('\nmode = "dry-run"\n')
    argv = [*COMMAND, "doctor", "--state-dir", str(tmp_path), "--config", str(tmp_path / "config.toml")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert f'setmode="live"in{tmp_path}/config.d/50-trial.toml:2' in "".join(done.stdout.split())


def test_a_file_that_was_edited_and_not_loaded_guards_nothing(agent: Agent) -> None:
    """The agent that runs cannot stop the machine, whatever the next one could; the difference is named."""
    agent.start("mode=live", "kill_action=stop", "cloud.spread=0s")
    agent.until(lambda report: bool(report["plans"]))
    done = doctor(agent, "mode=live", "kill_action=end_process")
    assert done.returncode == 1, done.stdout
    assert "stop: cannot be carried out" in done.stdout
    assert "kill_action is 'stop', not 'end_process'" in " ".join(done.stdout.split())
