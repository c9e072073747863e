"""Whether a machine is guarded: everything that must hold, and each thing that breaks it."""

import copy
import json
import time
from pathlib import Path
from typing import Any

import pytest

from costguard.agent.loop import Loop
from costguard.agent.requests import status
from costguard.doctor.examine import Agent, Configuration, differences, examine
from costguard.doctor.finding import Report
from costguard.doctor.plans import Plan, plan_checks
from costguard.testing.nvml import write_sysfs
from costguard.testing.simhost import Machine, Phase, SimHost, effective


@pytest.fixture(scope="module")
def healthy() -> dict[str, Any]:
    """The status of a live agent on a simulated machine that was seen to work."""
    config = effective(mode="live", kill_action="command")
    host = SimHost(Machine(gpus=2, script=[Phase(600, 0.9)]), until=2000.0)
    loop = Loop(host, config, host.start())
    loop.run()
    report = status(loop)
    report["agent"]["now"] = report["agent"]["ticked"] = time.time()
    return report


class Bench:
    """One examination with everything in order, to be broken at one place."""

    def __init__(self, folder: Path, report: dict[str, Any]) -> None:
        self.report: dict[str, Any] | None = copy.deepcopy(report)
        sysfs = write_sysfs(folder / "sys", ["0000:01:00.0", "0000:02:00.0"])
        (folder / "proc/driver/nvidia").mkdir(parents=True)
        (folder / "proc/driver/nvidia/version").write_text("NVRM version: Kernel Module  570.148.08\n")
        (folder / "dev/pts").mkdir(parents=True)
        (folder / "dev/nvidiactl").touch()
        (folder / "dev/pts/3").touch()
        self.folder = folder
        self.config: dict[str, Any] | None = effective(mode="live", kill_action="command")
        self.config["host"].update(sysfs=str(sysfs), procfs=str(folder / "proc"), devfs=str(folder / "dev"))
        self.problems: tuple[str, ...] = ()
        self.silent = False

    def examine(self) -> Report:
        agent = Agent(
            self.report, "no costguard agent runs at /x", "start one with `costguard run`", silent=self.silent
        )
        return examine(Configuration(self.config, self.problems, ""), agent, {"PATH": "/usr/bin"})


@pytest.fixture
def bench(tmp_path: Path, healthy: dict[str, Any]) -> Bench:
    return Bench(tmp_path, healthy)


def test_a_machine_with_everything_in_order_is_guarded(bench: Bench) -> None:
    """Not one complaint that counts, and the engine's own sentence."""
    report = bench.examine()
    assert report.guarded, report.why
    assert report.why == ()
    assert bench.report is not None
    decision = {section.name: section.checks for section in report.sections}["Decision"]
    assert decision[0].text == bench.report["sentence"]
    assert [gpu["known"] for gpu in report.facts["gpus"]] == [True, True]
    assert report.facts["plans"][0]["verdict"] == "go"


def broken(bench: Bench, what: str) -> str:
    """Break one thing; a part of what must be said about it."""
    report, config = bench.report, bench.config
    assert report is not None
    assert config is not None
    if what == "dry run":
        report["mode"] = report["policy"]["mode"] = "dry-run"
        return "mode is dry-run"
    if what == "no agent":
        bench.report = None
        return "no costguard agent runs"
    if what == "silent":
        report["agent"]["ticked"] -= 300.0
        return "last looked 5m ago"
    if what == "unknown":
        report["gpus"][1].update(known=False, load=None, words="the GPU is lost (NVML 15, DeviceGetUtilizationRates)")
        return "GPU 1 (Simulated GPU) cannot be read"
    if what == "refused":
        report["plans"][0].update(verdict="refuse", findings=[["denied", "the right is missing", "ask root"]])
        return "command: cannot be carried out"
    if what == "no plan":
        report["plans"] = []
        return "not known yet"
    if what == "failed":
        report["phase"] = "FAILED"
        return report["sentence"]  # type: ignore[no-any-return]  # the engine's words
    if what == "cannot":
        report.update(phase="DONE", done="cannot")
        return report["sentence"]  # type: ignore[no-any-return]  # the engine's words
    report["gpus"] = []
    return "no GPU has been read yet"


@pytest.mark.parametrize(
    "what", ["dry run", "no agent", "silent", "unknown", "refused", "no plan", "failed", "cannot", "no reading"]
)
def test_each_thing_that_is_missing_makes_it_not_guarded(bench: Bench, what: str) -> None:
    """Said once, by its cause; and every complaint that counts names what to do."""
    words = broken(bench, what)
    report = bench.examine()
    assert not report.guarded
    assert [why for why in report.why if words in why] != []
    for section in report.sections:
        for number, check in enumerate(section.checks):
            if check.level == "bad":
                followed = any(later.hint for later in section.checks[number:])
                assert followed, f"nobody says what to do about: {check.text}"


def test_a_broken_file_counts_only_without_an_agent(bench: Bench) -> None:
    """A running agent goes on with the configuration that it has; it would not start again."""
    bench.config, bench.problems = None, ("grace: 'soon' is not a duration (/etc/x.toml)",)
    kept = bench.examine()
    assert kept.guarded, kept.why
    assert "would not start again" in str(kept.sections)
    bench.report = None
    report = bench.examine()
    assert not report.guarded
    assert "grace: 'soon' is not a duration" in str(report.sections)


@pytest.mark.parametrize("agents", ["stop", "command"])
def test_the_agent_is_judged_by_what_it_runs(bench: Bench, agents: str) -> None:
    """A file that was edited and not loaded changes neither verdict, and that the two differ is told by name."""
    assert bench.report is not None
    assert bench.config is not None
    written = "command" if agents == "stop" else "stop"
    bench.config["policy"]["kill_action"] = written
    bench.report["policy"]["kill_action"] = agents
    verdict = "refuse" if agents == "stop" else "go"
    bench.report["plans"][0].update(action=agents, verdict=verdict, findings=[["denied", "no right", "ask root"]])
    report = bench.examine()
    assert report.guarded is (agents == "command")
    assert [plan["action"] for plan in report.facts["plans"]] == [agents]
    sections = {section.name: section.checks for section in report.sections}
    assert any(
        check.level == "warn" and f"kill_action is '{agents}', not '{written}'" in check.text
        for check in sections["Configuration"]
    )


def test_rules_that_differ_are_shown_as_they_are_written() -> None:
    """Seconds as durations, and off as off."""
    runs = {"grace": 10.0, "unused_after": None, "kill_threshold": 0.05, "gpu_devices": ()}
    written = {"grace": 600.0, "unused_after": 14400.0, "kill_threshold": 0.1, "gpu_devices": ["0"]}
    assert differences(runs, written) == [
        "gpu_devices is [], not ['0']",
        "grace is 10s, not 10m",
        "kill_threshold is 0.05, not 0.1",
        "unused_after is off, not 4h",
    ]


def test_the_same_rules_are_no_difference(bench: Bench) -> None:
    """Also when one side came through JSON, which knows no tuples."""
    assert bench.report is not None
    bench.report = json.loads(json.dumps(bench.report))
    assert "other values" not in str(bench.examine().sections)


def test_an_agent_that_does_not_answer_is_not_described(bench: Bench) -> None:
    """What a fresh agent would do says nothing about one that hangs."""
    bench.report, bench.silent = None, True
    report = bench.examine()
    assert not report.guarded
    text = str(report.sections)
    assert "an agent that was started now" not in text
    assert "not known while it does not answer" in text
    assert report.facts["plans"] == []
    assert report.facts["sentence"] == ""


def test_an_agents_gpus_are_not_asked_a_second_time(bench: Bench) -> None:
    """With an agent nothing here touches the driver: what it reads is shown, whatever the library here would say."""
    report = bench.examine()
    assert "NVML" not in str(report.sections)
    assert [gpu["label"] for gpu in report.facts["gpus"]] == ["GPU 0 (Simulated GPU)", "GPU 1 (Simulated GPU)"]


def test_without_an_agent_it_says_what_one_would_decide(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reading of its own; a driver that cannot be loaded is an unknown GPU with advice, never an idle one."""
    bench.report = None
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nonexistent")
    report = bench.examine()
    assert [(gpu["key"], gpu["known"]) for gpu in report.facts["gpus"]] == [
        ("0000:01:00.0", False),
        ("0000:02:00.0", False),
    ]
    assert "libnvidia-ml.so.1" in str(report.sections)
    assert "unknown is never idle" in report.facts["sentence"]


def test_nobody_to_be_warned_is_told(bench: Bench) -> None:
    """Messages that reach nobody do not end the guarding, and are no good."""
    (bench.folder / "dev/pts/3").unlink()
    report = bench.examine()
    assert report.guarded
    assert "a warning would reach nobody now" in str(report.sections)
    assert 'add "wall"' not in str(report.sections), "it is there"
    assert bench.config is not None
    bench.config["notify"]["channels"] = ["terminal"]
    assert 'add "wall"' in str(bench.examine().sections)


def test_an_agent_that_is_no_service_ends_with_nothing_but_itself(bench: Bench) -> None:
    """It outlives its terminal (a hang-up means reload); what it lacks is somebody who starts it again."""
    text = str(bench.examine().sections)
    assert "nobody starts it again" in text
    assert "terminal and" not in text


def test_a_hold_is_shown(bench: Bench) -> None:
    """Guarded, and postponed."""
    assert bench.report is not None
    bench.report["holds"] = [{"owner": "ada", "reason": "a look", "until": time.time() + 600}]
    report = bench.examine()
    assert report.guarded
    assert "held by ada until" in str(report.sections)


@pytest.mark.parametrize(
    ("verdicts", "guarded"),
    [
        (("go",), True),
        (("consequences",), True),
        (("refuse",), False),
        (("another",), False),
        (("another", "go"), True),
        (("refuse", "go"), False),
        (("another", "refuse"), False),
        (("failed", "go"), True),
    ],
)
def test_the_list_of_actions_must_lead_to_one_that_may_act(verdicts: tuple[str, ...], guarded: bool) -> None:
    """As the engine goes through it: another action is passed over, a refusal is a veto."""
    actions = ["stop", "shutdown"][: len(verdicts)]
    found = [Plan(action, verdict, (), "agent") for action, verdict in zip(actions, verdicts, strict=True)]
    assert all(check.level != "bad" for check in plan_checks(found, actions)) is guarded
