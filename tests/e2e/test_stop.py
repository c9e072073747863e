"""``costguard stop``, ``--verify`` and ``permissions`` as people use them, on a machine of Example Cloud."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.contract.cloud_server import Cloud, running
from tests.e2e.conftest import COMMAND, Agent
from tests.json_page import fields, listed

RATE = 5
"""How much faster time runs where the shortest settings for a machine action are waited out."""

EXAMPLE = Path(__file__).parents[1] / "contract" / "example"


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    with running() as started:
        yield started


class Machine:
    """The files of a machine of Example Cloud, and the command on it."""

    def __init__(self, folder: Path, cloud: Cloud) -> None:
        self.folder = folder
        self.cloud = cloud
        dmi = folder / "sys/class/dmi/id"
        dmi.mkdir(parents=True, exist_ok=True)
        (dmi / "sys_vendor").write_text("Example Cloud\n")
        (dmi / "board_asset_tag").write_text("m-42\n")
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("COSTGUARD_")}
        self.environment |= {"PYTHONPATH": str(EXAMPLE), "NO_COLOR": "1"}
        self.settings = [
            f"host.sysfs={folder / 'sys'}",
            "host.stands_for_host=true",
            "cloud.spread=0s",
            *(f"cloud.{name}={value}" for name, value in cloud.settings.items()),
        ]

    def run(self, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """A verb without an agent."""
        sets = [part for setting in self.settings for part in ("--set", setting)]
        return subprocess.run(
            [*COMMAND, *arguments, "--state-dir", str(self.folder / "state"), *sets],
            env=self.environment, input=given, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip


@pytest.fixture
def machine(tmp_path: Path, cloud: Cloud) -> Machine:
    return Machine(tmp_path, cloud)


def answer(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def test_it_stops_shows_and_gives_a_receipt_that_can_be_verified(machine: Machine, cloud: Cloud) -> None:
    """Plan, request, receipt; then anybody asks the cloud, from anywhere."""
    done = machine.run("stop", "--live", "--yes", "--json")
    assert done.returncode == 0, done.stderr
    fate = answer(done)
    assert (fate["accepted"], fate["status"], fate["receipt"]["instance"]) == (True, "accepted", "m-42")
    assert "receipt.*" in fields("stop", [fate])
    assert fields("stop", [fate]) <= listed()["stop"]
    assert len(cloud.asked) == 1
    receipt = machine.folder / "receipt.json"
    receipt.write_text(f"Receipt: {json.dumps(fate['receipt'])}\n")
    for given in (str(receipt), "-", json.dumps(fate["receipt"])):
        verified = machine.run("stop", "--live", "--verify", given, given=receipt.read_text())
        assert verified.returncode == 0, verified.stderr
        assert "closed" in verified.stdout
    cloud.machine["status"] = "running"
    assert machine.run("stop", "--verify", str(receipt)).returncode == 3
    shown = answer(machine.run("stop", "--verify", str(receipt), "--json"))
    assert (shown["schema"], shown["closed"]) == ("costguard.verify/1", False)
    assert fields("verify", [shown]) == listed()["verify"]
    cloud.fail["/machines"] = 503
    assert machine.run("stop", "--verify", str(receipt)).returncode == 3
    assert len(cloud.asked) == 1


@pytest.mark.parametrize("tags", [{"costguard": "off"}, {"costguard-hold": "2999-01-01T00:00:00Z"}])
def test_a_tag_keeps_the_machine_up_where_no_agent_heard_it(
    machine: Machine, cloud: Cloud, tags: dict[str, str]
) -> None:
    """As the kernel parameter does: an escape hatch counts like the administrator's hold, also against a person."""
    cloud.tags = dict(tags)
    done = machine.run("stop", "--live", "--yes", "--json")
    assert done.returncode == 3
    assert "a tag keeps this machine up" in done.stderr
    assert cloud.asked == []
    cloud.fail["/tags"] = 503
    assert machine.run("stop", "--live", "--yes", "--json").returncode == 0


def test_for_people_it_says_the_same_in_words(machine: Machine) -> None:
    """The plan before, the proof and the receipt after."""
    done = machine.run("stop", "--live", "--yes")
    assert done.returncode == 0, done.stderr
    assert "stop: may be carried out" in done.stderr
    assert "disks go on being billed" in done.stderr
    assert "No agent is running" in done.stderr
    assert done.stdout.startswith("accepted: stop (proof: r-")
    assert json.loads(done.stdout.splitlines()[-1])["cloud"] == "Example Cloud"


@pytest.mark.parametrize(
    ("arguments", "settings", "code", "words"),
    [
        (("stop", "--yes"), (), 3, "DRY RUN: nothing was done"),
        (("stop", "--live"), (), 2, "--yes"),
        (("stop", "--live", "--yes", "--action", "terminate"), (), 3, "sink"),
        (("stop", "--live", "--yes"), ("cloud.provider=none",), 3, "cloud.provider"),
        (("stop", "--live", "--yes"), ("kill_action=end_process",), 2, "--action stop"),
        (("stop", "--live", "--yes"), ("grace=nonsense",), 2, "grace"),
        (("stop", "--verify", "/no/such/file"), (), 2, "cannot be read"),
        (("stop", "--verify", "{}"), (), 2, "not a receipt"),
        (("stop", "--verify", ""), (), 2, "no receipt in it"),
        (("stop", "--verify", sys.executable), (), 2, "it is not text"),
    ],
)
def test_what_is_refused_sends_nothing(
    machine: Machine, cloud: Cloud, arguments: Sequence[str], settings: Sequence[str], code: int, words: str
) -> None:
    """Exit code 2 for usage and configuration, 3 for a refusal; the words say what to do."""
    machine.settings += settings
    done = machine.run(*arguments)
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert cloud.asked == []


@pytest.mark.parametrize(
    ("down", "mode", "status", "codes"),
    [("", "--live", "refused", {"no_sink"}), ("/machine", "--live", "failed", {"cloud_error"}), ("", "", "refused", {"no_sink"})],
)  # fmt: skip
def test_programs_are_told_why_nothing_was_done(
    machine: Machine, cloud: Cloud, down: str, mode: str, status: str, codes: set[str]
) -> None:
    """A veto or a trouble that may pass: with --json standard output says which, with the codes of the plan."""
    if down:
        cloud.fail[down] = 503
    done = machine.run("stop", "--yes", "--json", "--action", "terminate", *filter(None, [mode]))
    fate = json.loads(done.stdout)
    assert (done.returncode, fate["accepted"], fate["status"]) == (3, False, status)
    assert codes <= {found["code"] for found in fate["plan"]["findings"]}
    assert fate["hint"]
    assert fate["proof"] == ""
    assert cloud.asked == []


def test_the_administrator_refuses(machine: Machine, cloud: Cloud) -> None:
    """Nobody goes round admin.hold."""
    config = machine.folder / "config.toml"
    config.write_text('[admin]\nhold = "benchmark week"\n')
    done = machine.run("stop", "--live", "--yes", "--config", str(config))
    assert (done.returncode, cloud.asked) == (3, [])
    assert "benchmark week" in done.stderr


def test_a_receipt_of_a_plug_in_that_is_missing(machine: Machine) -> None:
    """The hint names the extra."""
    receipt = {"provider": "far", "cloud": "Far Cloud", "instance": "i", "action": "stop"}
    done = machine.run("stop", "--verify", json.dumps(receipt))
    assert done.returncode == 2
    assert "the plug-in 'far'" in done.stderr


@pytest.mark.thorough
def test_permissions_come_from_the_plug_in(machine: Machine) -> None:
    """The rights with what for, and the policy as the cloud takes it; only what was asked for."""

    def ask(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, "permissions", *arguments],
            env=machine.environment, capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip

    assert "example" in ask().stdout
    shown = json.loads(ask("example", "--json").stdout)
    assert [right["name"] for right in shown["permissions"]] == ["machines.read", "machines.stop"]
    text = ask("example", "--policy", "--action", "terminate").stdout
    assert "machines.terminate" in text
    assert "machines.stop" not in text
    assert "machines.stop" in ask("example").stdout
    assert "machines.tag" in ask("example", "--tag").stdout
    assert "machines.tag" not in ask("example").stdout
    missing = ask("nowhere")
    assert (missing.returncode, "example" in missing.stderr) == (2, True)


@pytest.fixture
def guarded(agent: Agent, cloud: Cloud, machine: Machine) -> Agent:
    """An agent on that machine."""
    sysfs = next(setting for setting in agent.settings if setting.startswith("host.sysfs=")).partition("=")[2]
    dmi = Path(sysfs) / "class/dmi/id"
    dmi.mkdir(parents=True, exist_ok=True)
    for file in (machine.folder / "sys/class/dmi/id").iterdir():
        (dmi / file.name).write_text(file.read_text())
    agent.environment["PYTHONPATH"] = str(EXAMPLE)
    agent.settings += [setting for setting in machine.settings if not setting.startswith("host.sysfs=")]
    return agent


def test_through_the_agent_it_is_an_incident_like_any_other(guarded: Agent, cloud: Cloud) -> None:
    """The agent decides, acts, tells and remembers; the person gets the receipt."""
    guarded.start("mode=live")
    guarded.until(lambda report: any(plan["verdict"] == "go" for plan in report["plans"]))
    done = guarded.ask("stop", "--yes", "--json")
    assert done.returncode == 0, done.stderr + (guarded.folder / "log").read_text()
    fate = answer(done)
    assert fate["status"] in {"accepted", "done"}
    assert len(cloud.asked) == 1
    attempt = fate["receipt"]["attempt"]
    assert cloud.asked[0].endswith(attempt)
    log = (guarded.folder / "log").read_text()
    assert '"instance":"m-42"' in log.replace("\\", "")
    assert attempt in log


def test_in_dry_run_the_agent_is_not_asked(guarded: Agent, cloud: Cloud) -> None:
    """Nothing happens, and the exit code does not claim otherwise."""
    guarded.start()
    done = guarded.ask("stop", "--yes", "--json")
    assert (done.returncode, cloud.asked) == (3, [])
    fate = json.loads(done.stdout)
    assert (fate["status"], fate["plan"]["verdict"]) == ("refused", "go"), "it looks where the agent runs"
    assert "DRY RUN" in fate["detail"]


def test_what_the_cloud_announces_and_asks_for_reaches_people(guarded: Agent, cloud: Cloud) -> None:
    """Who this machine is, what it costs, a notice within a tick or two, and the escape hatch of a tag."""
    cloud.tags["costguard"] = "off"
    guarded.start("mode=live")
    report = guarded.until(lambda report: bool(report["vetoes"]))
    assert report["vetoes"][0]["reason"] == "costguard = off"
    assert report["agent"]["cloud"]["identity"]["instance"] == "m-42"
    assert report["agent"]["cloud"]["price"]["amount"] == 4.0
    assert "machine: Example Cloud m-42, gpu.large in north-1" in guarded.ask("status").stdout
    cloud.notices = [{"id": "n1", "kind": "stop", "at": None, "words": "the spot market takes it back"}]
    guarded.until(lambda _: "takes it back" in (guarded.folder / "log").read_text())
    log = (guarded.folder / "log").read_text()
    assert "Example Cloud announces: the spot market takes it back" in log
    assert cloud.asked == []


def test_a_right_that_is_lost_is_told_with_its_name(guarded: Agent, cloud: Cloud) -> None:
    """The plan of the start says what is missing, long before it is needed."""
    cloud.machine["rights"] = ["machines.read"]
    guarded.start("mode=live")
    report = guarded.until(lambda report: bool(report["plans"]))
    assert (report["plans"][0]["action"], report["plans"][0]["verdict"]) == ("stop", "refuse")
    guarded.until(lambda _: "machines.stop is missing" in (guarded.folder / "log").read_text())
    doctor = guarded.ask("doctor", "--json")
    assert doctor.returncode == 1
    assert "machines.stop is missing" in doctor.stdout


def test_an_idle_machine_is_stopped_through_its_cloud(guarded: Agent, cloud: Cloud) -> None:
    """From quiet GPUs to the accepted request, with the receipt in the message and in the history."""
    guarded.hurry(RATE)
    guarded.settings = [setting for setting in guarded.settings if not setting.startswith(("interval", "arm_"))]
    guarded.start("kill_action=stop", "arm_duration=off", options=("--live", "--preset", "gpu-sentinel"))
    assert cloud.took.wait(50), (guarded.folder / "log").read_text()
    report = guarded.until(lambda report: bool(report["incident"] and report["incident"]["proof"]))
    assert (report["incident"]["reason"], report["incident"]["action"]) == ("idle", "stop")
    receipt = json.loads(report["incident"]["receipt"])
    assert cloud.asked == [f"POST /machines/m-42/stop?attempt={receipt['attempt']}"]
    story = guarded.ask("history", report["incident"]["id"])
    while "stop accepted" not in story.stdout:  # the history is written a moment later, by a process of its own
        guarded.until(lambda report: bool(report["incident"]))
        story = guarded.ask("history", report["incident"]["id"])
    assert '"instance":"m-42"' in story.stdout.replace("\n", "").replace(" ", "")


def test_the_incident_is_in_the_machines_tag_before_its_end_is_asked_for(machine: Machine, cloud: Cloud) -> None:
    """Whoever looks at the stopped machine sees why; other tags stay."""
    cloud.tags["owner"] = "ml"
    machine.settings.append("sink.tag=true")
    done = machine.run("stop", "--live", "--yes", "--json")
    assert done.returncode == 0, done.stderr
    incident = answer(done)["receipt"]["incident"]
    assert cloud.tags["costguard-incident"].split()[1:] == ["stop", "person", incident]
    assert cloud.tags["owner"] == "ml"
    written = next(i for i, call in enumerate(cloud.calls) if call.startswith("PUT"))
    assert written < cloud.calls.index(cloud.asked[0])


def test_the_agents_heartbeat_stands_in_the_machines_tag(guarded: Agent, cloud: Cloud) -> None:
    """Written while every reader answers; costguard takes it for no wish of anybody."""
    cloud.identity["id"] = "m-70"  # whose own moment within the 30 s is the first
    (guarded.folder / "sys/class/dmi/id/board_asset_tag").write_text("m-70\n")
    guarded.start("mode=live", "heartbeat.tag=true", "heartbeat.every=30s")
    report = guarded.until(lambda _: "costguard-heartbeat" in cloud.tags)
    date, state = cloud.tags["costguard-heartbeat"].split()
    assert abs(datetime.fromisoformat(date).timestamp() - time.time()) < 60.0
    assert state == report["state"]
    assert not guarded.until(lambda found: bool(found["gpus"]))["vetoes"]


def test_a_right_for_tags_that_is_missing_is_told_long_before(guarded: Agent, cloud: Cloud) -> None:
    """In a message, in the status and by the doctor; the action itself may be carried out."""
    cloud.machine["rights"].remove("machines.tag")
    guarded.start("sink.tag=true")
    report = guarded.until(lambda found: bool(found["plans"]))
    plan = next(plan for plan in report["plans"] if plan["action"] == "stop")
    assert plan["verdict"] == "consequences"
    assert "tag_denied" in {finding[0] for finding in plan["findings"]}
    sections = answer(guarded.ask("doctor", "--json"))["sections"]
    said = next(check for checks in sections.values() for check in checks if "costguard-incident" in check["text"])
    assert (said["level"], "--tag" in said["hint"]) == ("warn", True)
    end = time.monotonic() + 10.0
    while "note:" not in (log := (guarded.folder / "log").read_text()):
        assert time.monotonic() < end, log
        time.sleep(0.1)
    assert cloud.tags == {}


@pytest.mark.thorough
def test_doctor_names_the_call_of_a_cloud_that_hangs(machine: Machine, tmp_path: Path) -> None:
    """It waits longer than the plan may ask: a worker that is killed in the middle says nothing."""
    hanging = tmp_path / "hanging"
    shutil.copytree(EXAMPLE, hanging)
    with (hanging / "costguard_example/__init__.py").open("a") as file:
        file.write("\nimport time\nExample.identify = lambda *_: time.sleep(90)\n")
    machine.environment["PYTHONPATH"] = str(hanging)
    shown = answer(machine.run("doctor", "--json"))
    words = str(shown["sections"]["Actions"])
    assert "did not return from `identify`" in words, words
