"""``costguard run`` as the watcher of a task: the real agent, a stand-in of NVIDIA's library, and stand-ins of a scheduler's programs."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Agent
from tests.schedulers.determined.master import TOKEN, Master, environment, serving
from tests.schedulers.slurm.standin import Slurm

QUICK = (
    "arm_duration=off",
    "kill_duration=1s",
    "boot_grace=0s",
    "grace=1s",
    "unused_after=off",
    "kill_action=end_task",
)


@pytest.fixture
def slurm(agent: Agent) -> Slurm:
    """Job 1 has the first GPU of this machine, in which the agent runs; job 2 has the second one."""
    made = Slurm(agent.folder / "slurm")
    made.add("1", gres="gpu:1(IDX:0)")
    made.add("2", gres="gpu:1(IDX:1)")
    agent.environment |= made.environment("1", CUDA_VISIBLE_DEVICES="0", CUDA_DEVICE_ORDER="PCI_BUS_ID")
    agent.settings.append(f"task.slurm.programs={made.folder}")
    agent.gpus.set(1, util=90)  # the other job works, beside the one that is guarded
    return made


def phase(name: str) -> Any:
    return lambda report: report["phase"] == name


def test_an_idle_job_is_cancelled_and_no_other(agent: Agent, slurm: Slurm) -> None:
    """Of the GPUs of its job alone; it is seen ended, and the record names the job."""
    agent.start(*QUICK, "mode=live")
    report = agent.until(phase("DONE"))
    assert (slurm.cancelled, slurm.job("1")["JobState"], slurm.job("2")["JobState"]) == (
        [["1"]],
        "CANCELLED",
        "RUNNING",
    )
    assert [gpu["key"] for gpu in report["gpus"]] == ["0000:01:00.0"]
    listed = agent.ask("history", "--json")
    (incident,) = json.loads(listed.stdout)["incidents"]
    assert (incident["action"], incident["mode"]) == ("end_task", "live")
    told = slurm.job("1")["told"]
    postponed = f"`costguard hold 2h --state-dir {agent.folder}/state`"
    assert re.match(
        rf"job 1 of alice on \S+ will be ended at \d\d:\d\d:\d\d UTC at the earliest \(in 1s\)\. To postpone it: {postponed} on \S+, or from elsewhere `srun",
        told[0],
    )
    assert "told" not in slurm.job("2")
    assert not any("--verify" in one for one in told)
    log = (agent.folder / "log").read_text()
    assert log.startswith("costguard watches job 1 of alice. LIVE")
    assert "whoever reads the output of the task is warned, and 1s later" in log
    assert "scancel 1" in agent.ask("history", incident["id"]).stdout
    assert "the task has ended (closed: job 1 has ended (Slurm says CANCELLED))" in log
    story = agent.ask("history", incident["id"]).stdout
    assert re.search(r"^task +job 1 of alice$", story, re.MULTILINE)
    assert "told: job 1 of alice on " in story
    assert "Why: idle; load " in story
    agent.until(
        lambda _report: (
            "done not sent: nobody is left to hear it: job 1 has ended" in agent.ask("history", incident["id"]).stdout
        )
    )
    assert not re.search("NOT delivered|failed over", agent.ask("history", incident["id"]).stdout)
    assert "reached nobody" not in agent.ask("history").stdout + (agent.folder / "log").read_text()
    assert "the task on " not in story


def test_whoever_asks_reads_of_the_task_and_can_stop_no_machine_through_its_guard(agent: Agent, slurm: Slurm) -> None:
    """The node goes on; ending the task by hand is for its scheduler, and a receipt of it is none of a bill."""
    agent.gpus.set(0, util=90)
    agent.start(*QUICK, "mode=live", "price_per_hour=2.5")
    agent.until(lambda report: bool(report["plans"]))
    shown = agent.ask("status").stdout
    assert re.search(r"^Guards +job 1 of alice \(Slurm\)$", shown, re.MULTILINE)
    assert re.search(r"^ +to end it: `scancel 1`$", shown, re.MULTILINE)
    assert re.search(r"^Would end it ", shown, re.MULTILINE)
    assert not re.search(r"end_task|of this machine|[Kk]eeps it up|Idle cost", shown)
    held = agent.ask("hold", "2m").stdout
    assert "No end of the task before then, so it goes on, and keeps its GPUs, at least until then." in held
    for action in ((), ("--action", "stop")):
        refused = agent.ask("stop", "--yes", *action)
        assert refused.returncode == 2
        assert "this guard belongs to job 1 and stops no machine; nothing was done" in refused.stderr
        assert "to end it now: `scancel 1`" in refused.stderr
    receipt = '{"scheduler":"Slurm","task":"1","show":"`sacct -j 1`"}'
    verified = agent.ask("stop", "--verify", receipt)
    assert verified.returncode == 2
    assert "it is for a task, 1, not for a bill: `sacct -j 1` shows whether the task has ended" in verified.stderr


def doctor(agent: Agent, *options: str) -> tuple[int, dict[str, Any]]:
    """Its exit code and what it found, asked for with the folder alone."""
    done = agent.ask("doctor", "--json", *options)
    return done.returncode, json.loads(done.stdout)


def test_doctor_knows_that_a_task_is_guarded_and_by_what(agent: Agent, slurm: Slurm) -> None:
    """No service has to bring its guard back. What the guard was started with is known without typing it again."""
    agent.gpus.set(0, util=90)
    agent.start(*QUICK, "mode=live", enough=lambda report: bool(report["plans"]))
    code, found = doctor(agent)
    assert (code, found["verdict"], found["why"]) == (0, "GUARDED", [])
    texts = {name: " ".join(check["text"] for check in checks) for name, checks in found["sections"].items()}
    assert "job 1 of alice (Slurm) its GPUs, which alone are judged: GPU 0 (NVIDIA H200)" in texts["Task"]
    assert "job 1 of alice ends, and nothing else" in texts["Actions"]
    assert "task: the output of the guarded task" in texts["Messages"]
    assert not found["sections"]["After a boot"]
    assert "differ" not in texts["Configuration"]
    assert "GUARDED: when job 1 of alice is idle, a warning, then the end of the task" in agent.ask("doctor").stdout


def test_doctor_says_of_a_dry_run_that_it_only_would(agent: Agent, slurm: Slurm) -> None:
    """Which no script takes for a guard."""
    agent.gpus.set(0, util=90)
    agent.start(*QUICK, enough=lambda report: bool(report["plans"]))
    assert doctor(agent)[0] == 4


def test_doctor_names_what_keeps_a_task_from_being_guarded(agent: Agent, slurm: Slurm) -> None:
    """A scope that is not the job's is found long before anything would be done."""
    slurm.change("1", nodes="  Nodes=node7 CPU_IDs=0 Mem=0 GRES=gpu:2(IDX:0-1)")
    agent.gpus.set(0, util=90)
    agent.start(*QUICK, "mode=live", enough=lambda report: bool(report["plans"]))
    code, found = doctor(agent)
    assert (code, found["verdict"]) == (1, "NOT GUARDED")
    assert found["why"] == ["the end of the task: cannot be carried out"]
    assert "2 GPUs of this machine, but costguard judged 1 GPU" in json.dumps(found["sections"]["Actions"])


@pytest.mark.parametrize("what", ["asked", "which", "read", "channel"])
def test_doctor_believes_nothing_that_it_cannot_see(agent: Agent, slurm: Slurm, what: str) -> None:
    """A scheduler that does not answer, GPUs that may be another's, one that is lost, or a channel without its address: each alone is reason enough."""
    why = {
        "asked": "the end of the task: could not be checked",
        "which": "it is unclear which GPUs belong to this task",
        "read": "GPU 0 (NVIDIA H200) cannot be read",
        "channel": "team: nothing can be sent",
    }[what]
    agent.gpus.set(0, util=90)
    if what == "asked":
        slurm.fails(scontrol="down")
    elif what == "which":
        agent.environment["CUDA_VISIBLE_DEVICES"] = "7"
    elif what == "channel":
        path = agent.folder / "team.urls"
        path.write_text("json://127.0.0.1:9/x\n")
        path.chmod(0o600)
        agent.settings.append(f"notify.channels.team.urls=file:{path}")
    agent.start(*QUICK, "mode=live", enough=lambda report: bool(report["plans"] or report["agent"]["troubles"]))
    if what == "read":
        agent.gpus.set(0, lost=True)
        agent.until(lambda report: not report["gpus"][0]["known"])
    elif what == "channel":
        path.unlink()
    code, found = doctor(agent)
    assert (code, found["verdict"]) == (1, "NOT GUARDED")
    assert any(one.startswith(why) for one in found["why"]), found["why"]


def test_in_dry_run_nothing_is_sent(agent: Agent, slurm: Slurm) -> None:
    """The default: it says what it would do."""
    agent.hurry(2)
    agent.start(*QUICK)
    report = agent.until(phase("DONE"))
    assert slurm.cancelled == []
    assert "told" not in slurm.job("1")
    assert "would have been carried out" in report["sentence"]


def test_a_job_that_works_is_not_cancelled(agent: Agent, slurm: Slurm) -> None:
    """However idle the GPUs beside its own are."""
    agent.gpus.set(0, util=90)
    agent.gpus.set(1, util=0)
    agent.start(*QUICK, "mode=live")
    began = agent.report()["agent"]["ticked"]
    agent.until(lambda report: report["agent"]["ticked"] > began + 4.0)
    assert (agent.report()["phase"], slurm.cancelled) == ("WATCHING", [])


def test_a_scope_that_is_not_the_job_s_is_refused(agent: Agent, slurm: Slurm) -> None:
    """Slurm gave it both GPUs, and the environment names one: work on the other would not be seen."""
    slurm.change("1", nodes="  Nodes=node7 CPU_IDs=0 Mem=0 GRES=gpu:2(IDX:0-1)")
    agent.start(*QUICK, "mode=live")
    report = agent.until(phase("DONE"))
    assert "2 GPUs of this machine" in report["sentence"]
    assert slurm.cancelled == []


def test_a_job_that_ends_by_itself_in_the_countdown_is_no_failure(agent: Agent, slurm: Slurm) -> None:
    """What was wanted is so: nobody is called, and nothing is sent."""
    agent.hurry(2)
    agent.start(*QUICK[:-2], "grace=10s", "kill_action=end_task", "unused_after=off", "mode=live")
    agent.until(phase("WARNING"))
    slurm.change("1", JobState="COMPLETED")
    report = agent.until(phase("DONE"))
    assert (report["done"], slurm.cancelled) == ("acted", [])
    assert "the task has ended (job 1 has ended (Slurm says COMPLETED): nothing is left to end)" in report["sentence"]
    log = (agent.folder / "log").read_text()
    assert "NOT POSSIBLE" not in log


def test_a_controller_that_is_down_is_asked_again(agent: Agent, slurm: Slurm) -> None:
    """Nothing was accepted then; the same is sent again, after a pause, and once."""
    agent.hurry(2)
    slurm.fails(scancel=["down"])
    agent.start(*QUICK, "mode=live")
    agent.until(phase("DONE"))
    assert slurm.cancelled == [["1"], ["1"]]
    assert slurm.job("1")["JobState"] == "CANCELLED"


def test_what_was_seen_of_another_job_counts_for_nothing(agent: Agent, slurm: Slurm) -> None:
    """Jobs follow each other on a node, in one folder perhaps: neither the work nor the end of the first one is the second one's."""
    agent.start(*QUICK, "mode=live")
    agent.until(phase("DONE"))
    agent.stop()
    slurm.add("3", gres="gpu:1(IDX:0)")
    agent.environment |= slurm.environment("3")
    agent.start(*QUICK, "mode=live", enough=lambda report: report["phase"] == "WATCHING")
    assert agent.report()["agent"]["instance"] == "task:Slurm:3"
    agent.until(phase("DONE"))
    assert slurm.cancelled == [["1"], ["3"]]


def test_a_trial_is_killed_by_its_own_identifier_and_its_token_stays(agent: Agent) -> None:
    """In a container of another scheduler, from a start-up hook. The token of the task stands in no log, record or command line."""
    made = Master()
    made.add("trials", "17", task="1.1b2c", slots=2)
    with serving(made):
        agent.environment |= environment(made.url, "TRIAL", "1.1b2c", "17", DET_SLOT_IDS="[0,1]")
        agent.hurry(2)
        agent.start(*QUICK, "mode=live")
        log = agent.folder / "log"
        agent.until(lambda _: made.killed == ["/api/v1/trials/17/kill"])
        agent.until(lambda report: report["phase"] == "CONFIRMING" or "has ended" in log.read_text())
        arguments = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
        agent.until(phase("DONE"))
    assert "trial 17 has ended (Determined says TERMINATED)" in log.read_text()
    kept = [path.read_bytes() for path in agent.folder.rglob("*") if path.is_file()]
    assert len(kept) > 3
    assert not [text for text in (*kept, *arguments) if TOKEN.encode() in text]


def test_what_happens_to_nothing_is_said(agent: Agent, slurm: Slurm) -> None:
    """Outside of a task there is nothing to end, and a watcher that never acts would look like protection."""
    for name in slurm.environment():
        agent.environment.pop(name)
    done = agent.ask("run", "--set", "kill_action=end_task", *[w for s in agent.settings for w in ("--set", s)])
    assert done.returncode == 3
    assert "no plug-in recognises a task here" in done.stderr


def test_a_guard_of_a_task_ends_no_machine(agent: Agent, slurm: Slurm) -> None:
    """Its GPUs are not all of the machine."""
    for wrong in ("fallback=stop", "gpu_devices=0"):
        done = agent.ask("run", "--set", "kill_action=end_task", "--set", wrong)
        assert done.returncode == 2
        assert wrong.partition("=")[0] in done.stderr
