"""The installed command on each cloud's own stand-ins: plan, stop, receipt, and the question whether the bill has ended."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import costguard_aws.testing as aws
import costguard_azure.testing as azure
import costguard_gcp.testing as gcp

COMMAND = [sys.executable, "-m", "costguard"]
PATIENCE = 60.0


class Rented(NamedTuple):
    """A machine: where its files are, what leads to its cloud, what the cloud was asked, and how to take a right away.

    ``tags`` are its tags as the cloud shows them, ``may_tag`` gives the right to write them.
    """

    sysfs: str
    procfs: str
    cloud: Mapping[str, str]
    environ: Mapping[str, str]
    effects: Callable[[], int]
    deny: Callable[[], object]
    tags: Callable[[], Mapping[str, str]]
    may_tag: Callable[[], object]

    def run(self, folder: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        """A verb of costguard on it."""
        given = {"host.sysfs": self.sysfs, "host.procfs": self.procfs, "host.stands_for_host": "true"}
        given |= {f"cloud.{name}": value for name, value in self.cloud.items()} | settings
        sets = [part for name, value in given.items() for part in ("--set", f"{name}={value}")]
        return subprocess.run(
            [*COMMAND, *arguments, "--state-dir", str(folder / "state"), *sets],
            env={**os.environ, **self.environ}, capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip


@contextmanager
def on_aws(folder: Path) -> Iterator[Rented]:
    with aws.machine(str(folder), "g5g.xlarge") as here:
        section = {"metadata_endpoint": here.imds.url, "api_endpoint": here.api.url}
        effects = ("StopInstances", "TerminateInstances")
        here.api.denied.add("CreateTags")

        def tags() -> Mapping[str, str]:
            rows = here.ec2.describe_tags(Filters=[{"Name": "resource-id", "Values": [here.id]}])["Tags"]
            return {row["Key"]: row["Value"] for row in rows}

        yield Rented(
            f"{folder}/sys", f"{folder}/proc", section, here.environ(),
            lambda: sum(1 for call in here.api.calls() if call.action in effects),
            lambda: here.api.denied.update(effects), tags, lambda: here.api.denied.discard("CreateTags"),
        )  # fmt: skip


@contextmanager
def on_gcp(folder: Path) -> Iterator[Rented]:
    machine = gcp.Machine()
    with gcp.MetadataServer(machine) as metadata, gcp.ComputeApi(machine) as api:
        sysfs, procfs = gcp.firmware(folder, machine)
        section = {"metadata_endpoint": metadata.url, "api_endpoint": api.url}
        yield Rented(
            sysfs, procfs, section, {}, lambda: len(api.effects), lambda: api.granted.discard("compute.instances.stop"),
            lambda: machine.labels, lambda: api.granted.add("compute.instances.setLabels"),
        )  # fmt: skip


@contextmanager
def on_azure(folder: Path) -> Iterator[Rented]:
    del folder
    with azure.FakeAzure(azure.World()) as here:
        section = {name: here.settings[name] for name in ("metadata_endpoint", "api_endpoint")}
        root, right = here.folder, "Microsoft.Compute/virtualMachines/deallocate/action"
        yield Rented(
            f"{root}/sys", f"{root}/proc", section, here.environ,
            lambda: len(here.sent("deallocate", "delete")), lambda: here.world.rights.remove(right),
            lambda: here.world.tags, lambda: here.world.rights.append("Microsoft.Resources/tags/write"),
        )  # fmt: skip


CLOUDS = {"aws": on_aws, "gcp": on_gcp, "azure": on_azure}
QUICK = "azure"
"""One for every change, with the smallest SDK: each verb loads it again. The others run before a merge, as do the tests of
rules that `tests/e2e/test_stop.py` holds on a cloud without an SDK."""


@pytest.fixture(params=[pytest.param(name, marks=[] if name == QUICK else pytest.mark.thorough) for name in CLOUDS])
def rented(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rented]:
    with CLOUDS[request.param](tmp_path) as machine:
        yield machine


def answer(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def test_it_is_stopped_once_and_the_receipt_proves_it(rented: Rented, tmp_path: Path) -> None:
    """Accepted, with a request id; then closed, asked with nothing but the receipt."""
    done = rented.run(tmp_path, "stop", "--live", "--yes", "--json")
    assert done.returncode == 0, done.stderr
    fate = answer(done)
    assert (fate["status"], rented.effects()) == ("accepted", 1)
    assert "accepted" in fate["detail"]
    assert fate["receipt"]["request"] == fate["proof"] != ""
    receipt = tmp_path / "receipt"
    receipt.write_text(json.dumps(fate["receipt"]))
    for _ in range(3):  # each cloud shows the machine ending for a look or two
        shown = rented.run(tmp_path, "stop", "--verify", str(receipt), "--json")
        if shown.returncode == 0:
            break
    assert (shown.returncode, answer(shown)["closed"]) == (0, True), shown.stdout + shown.stderr
    assert "closed" in answer(shown)["detail"]
    assert rented.effects() == 1


@pytest.mark.thorough
def test_a_dry_run_shows_the_plan_and_sends_nothing(rented: Rented, tmp_path: Path) -> None:
    """The plan is made with the real questions."""
    done = rented.run(tmp_path, "stop", "--yes")
    assert (done.returncode, rented.effects()) == (3, 0)
    assert "DRY RUN: nothing was done" in done.stderr
    assert "stop: may be carried out" in done.stderr


@pytest.mark.thorough
def test_a_missing_right_is_named_before_it_is_needed(rented: Rented, tmp_path: Path) -> None:
    """Nothing is sent, and the words name what to grant."""
    rented.deny()
    done = rented.run(tmp_path, "stop", "--live", "--yes")
    assert done.returncode == 3, done.stdout
    assert rented.effects() == 0
    doctor = answer(rented.run(tmp_path, "doctor", "--json"))
    plan = next(plan for plan in doctor["plans"] if plan["action"] == "stop")
    assert plan["verdict"] == "refuse"
    assert "not_permitted" in {finding[0] for finding in plan["findings"]}
    assert any(finding[2] for finding in plan["findings"])


@pytest.mark.thorough
def test_a_terminate_without_a_sink_is_refused(rented: Rented, tmp_path: Path) -> None:
    """On every cloud alike."""
    done = rented.run(tmp_path, "stop", "--live", "--yes", "--action", "terminate")
    assert (done.returncode, rented.effects()) == (3, 0)
    assert "[sink]" in done.stderr


@pytest.mark.thorough
def test_the_incident_stands_in_the_machines_tag(rented: Rented, tmp_path: Path) -> None:
    """Where the right for it was given; where not, the doctor says so before it is needed."""
    wanted = {"sink.tag": "true", "heartbeat.tag": "true"}
    doctor = answer(rented.run(tmp_path, "doctor", "--json", **wanted))
    plan = next(plan for plan in doctor["plans"] if plan["action"] == "stop")
    assert (plan["verdict"], "tag_denied" in {f[0] for f in plan["findings"]}) == ("consequences", True)
    rented.may_tag()
    doctor = answer(rented.run(tmp_path, "doctor", "--json", **wanted))
    plan = next(plan for plan in doctor["plans"] if plan["action"] == "stop")
    assert not {"tag_denied", "tag_unknown"} & {finding[0] for finding in plan["findings"]}
    assert rented.tags() == {}
    fate = answer(rented.run(tmp_path, "stop", "--live", "--yes", "--json", **wanted))
    assert fate["status"] == "accepted"
    said = rented.tags()["costguard-incident"].replace("_", " ").split()
    assert said[1:] == ["stop", "person", fate["receipt"]["incident"]]


@pytest.mark.parametrize("name", CLOUDS)
def test_the_least_policy_can_be_printed(name: str) -> None:
    """Nothing of a cloud is asked for it."""
    done = subprocess.run(
        [*COMMAND, "permissions", name, "--json"], capture_output=True, text=True, timeout=30, check=True
    )
    shown = json.loads(done.stdout)
    assert shown["actions"] == ["stop"]
    assert all(right["name"] in shown["policy"] for right in shown["permissions"] if right["needed"])
    assert shown["commands"].startswith(f"costguard permissions {name} --action stop --policy > ")


READER = """\
import atexit, sys
atexit.register(lambda: print(*sorted(sys.modules), file=sys.stderr))
from costguard.readers.cloud.reader import main
sys.exit(main())
"""
NEVER_RESIDENT = {
    "ssl", "http", "email", "urllib.parse", "ipaddress", "unicodedata", "threading", "random", "datetime", "logging", "subprocess",
    "boto3", "google", "azure",
}  # fmt: skip


def test_the_resident_reader_loads_nothing_heavy(rented: Rented, request: pytest.FixtureRequest) -> None:
    """It stays beside a training job for weeks: TLS and the parser of mail alone were 4 MB of it."""
    plug_in = request.node.callspec.params["rented"]
    place = {
        "providers": [f"{plug_in}=costguard_{plug_in}"],
        "cloud": rented.cloud,
        "host": {"sysfs": rented.sysfs, "procfs": rented.procfs, "stands_for_host": True},
    }
    lines = [json.dumps({"place": place}), *(f'{{"read":{number}}}' for number in (1, 2)), ""]
    done = subprocess.run(
        [sys.executable, "-c", READER], input="\n".join(lines), env={**os.environ, **rented.environ},
        capture_output=True, text=True, timeout=PATIENCE, check=True,
    )  # fmt: skip
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["identity"], done.stdout
    assert found["asks"] == []
    assert "error" not in found
    assert not NEVER_RESIDENT & set(done.stderr.split())
