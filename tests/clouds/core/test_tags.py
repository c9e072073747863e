"""What the machine's tags get: the incident before the request, the heartbeat, and the question whether they can be written."""

import importlib
import json
import os
import subprocess
import sys

import pytest

from costguard.cloud.api import Site
from costguard.readers.cloud.tags import asks, settings
from costguard.testing.contract import check_marks
from tests.clouds.core.conftest import EXAMPLE, NO_PAUSE, Answers, Rented, codes
from tests.contract.cloud_server import Cloud

INCIDENT, HEARTBEAT = "costguard-incident", "costguard-heartbeat"
TAG: dict[str, object] = {"tag": True}


@pytest.fixture
def tagging(rented: Rented) -> Rented:
    """Its sink is the tag."""
    rented.sink = dict(TAG)
    return rented


def beat(rented: Rented, **more: object) -> Answers:
    """The worker of the heartbeat, with the tag."""
    job = rented.job("plan")
    record = {"kind": "heartbeat", "state": "IDLE", "at": 1927994400.0}
    asked = {
        "settings": {},
        "record": record,
        "deadline": 20,
        "mode": "live",
        "tag": {n: job[n] for n in ("providers", "cloud", "host")},
    }
    done = subprocess.run(
        [sys.executable, "-m", "costguard.actions.beat"], input=json.dumps(asked | more) + "\n", text=True,
        capture_output=True, check=False, timeout=30, env={**os.environ, "PYTHONPATH": str(EXAMPLE)},
    )  # fmt: skip
    answer = json.loads(done.stdout)
    assert isinstance(answer, dict)
    return answer


def test_the_incident_stands_in_the_tag_before_the_request(tagging: Rented, cloud: Cloud) -> None:
    """Date, action, reason and id; and nothing is written while the machine ends."""
    cloud.tags["owner"] = "ml"
    answers = tagging.ask("act", reason="idle")
    assert answers["outcome"]["status"] == "accepted"
    assert "sink_failed" not in codes(answers)
    date, *rest = cloud.tags[INCIDENT].split()
    assert (len(date), date[-1], rest) == (20, "Z", ["stop", "idle", "b-i1"])
    assert cloud.tags["owner"] == "ml"
    effects = [call.split("?")[0] for call in cloud.calls if not call.startswith("GET")]
    assert effects == [f"PUT /machines/m-42/tags/{INCIDENT}", "POST /machines/m-42/stop"]


def test_a_dry_run_writes_no_incident(tagging: Rented, cloud: Cloud) -> None:
    """Its plan asks for the right all the same."""
    tagging.ask("act", mode="dry-run")
    assert "plan" in tagging.ask("plan", mode="dry-run")
    assert cloud.tags == {}


def test_a_tag_that_cannot_be_written_holds_back_no_stop(tagging: Rented, cloud: Cloud) -> None:
    """As with every sink: it is said, and the bill ends."""
    cloud.machine["rights"].remove("machines.tag")
    answers = tagging.ask("act")
    finding = next(f for f in answers["plan"]["findings"] if f["code"] == "sink_failed")
    assert "machines.tag" in finding["text"]
    assert "--tag" in finding["hint"]
    assert answers["outcome"]["status"] == "accepted"


def test_a_tag_alone_is_no_sink_for_terminate(tagging: Rented, cloud: Cloud) -> None:
    """It ends with the machine."""
    answers = tagging.ask("act", "terminate")
    assert (answers["plan"]["verdict"], codes(answers)[0]) == ("refuse", "no_sink")
    assert cloud.asked == []


def test_terminate_waits_for_the_sink_that_outlives_it(tagging: Rented, cloud: Cloud) -> None:
    """The tag was written, the address was not reached: nothing is terminated."""
    tagging.sink["url"] = "http://127.0.0.1:1/"
    answers = tagging.ask("act", "terminate", before=NO_PAUSE)
    assert answers["plan"]["verdict"] == "failed"
    assert "url" in answers["plan"]["findings"][0]["text"]
    assert "is not terminated without it, and the bill goes on" in answers["plan"]["findings"][0]["text"]
    assert INCIDENT in cloud.tags
    assert cloud.asked == []


@pytest.mark.parametrize("action", ["stop", "reboot"])
def test_the_plan_says_beforehand_that_the_right_is_missing(tagging: Rented, cloud: Cloud, action: str) -> None:
    """Whatever the action is: both features ask, and nothing is written."""
    host = tagging.job("plan")["host"] | {"stands_for_host": True}
    assert not {"tag_denied", "tag_unknown"} & set(codes(tagging.ask("plan", action, heartbeat=TAG, host=host)))
    cloud.machine["rights"].remove("machines.tag")
    answers = tagging.ask("plan", action, heartbeat=TAG, host=host)
    finding = next(f for f in answers["plan"]["findings"] if f["code"] == "tag_denied")
    assert INCIDENT in finding["text"]
    assert HEARTBEAT in finding["text"]
    assert "costguard permissions CLOUD --tag" in finding["hint"]
    assert answers["plan"]["verdict"] != "go"
    assert "tag_denied" not in codes(tagging.ask("plan", action, sink={}, host=host))
    assert cloud.tags == {}


def test_a_cloud_in_trouble_leaves_it_open(tagging: Rented, cloud: Cloud) -> None:
    """Nobody is told that a right is missing because a service is."""
    cloud.fail["/token"] = 503
    assert "tag_unknown" in codes(tagging.ask("plan", "command", settings={"run": ["/bin/true"]}))


def test_a_container_does_not_write_its_hosts_tags(tagging: Rented, cloud: Cloud) -> None:
    """The host belongs to somebody else."""
    (tagging.root / "proc/1/cgroup").write_text("0::/docker/abc\n")
    assert "tag_denied" in codes(tagging.ask("plan", "command", settings={"run": ["/bin/true"]}))
    assert "container" in str(beat(tagging)["error"])
    assert cloud.calls == []


def test_the_heartbeat_is_a_date_and_a_state(rented: Rented, cloud: Cloud) -> None:
    """RFC 3339, as watchers compare it with now."""
    assert beat(rented) == {"error": ""}
    assert cloud.tags == {HEARTBEAT: "2031-02-04T18:00:00Z IDLE"}
    cloud.machine["rights"].remove("machines.tag")
    assert "machines.tag" in str(beat(rented)["error"])


def test_a_tag_that_fails_does_not_keep_the_address_from_its_beat(rented: Rented, cloud: Cloud) -> None:
    """Each place has its own trouble."""
    cloud.machine["rights"].remove("machines.tag")
    failed = str(beat(rented, settings={"url": "http://127.0.0.1:1/"}, deadline=3)["error"])
    assert "machines.tag" in failed
    assert "cannot be reached" in failed


def test_a_cloud_that_hangs_costs_no_more_than_its_time(rented: Rented, cloud: Cloud) -> None:
    """Each question takes a second, and together they may take two."""
    cloud.slow = 1.0
    assert "no complete answer" in str(beat(rented, deadline=2)["error"])


def test_what_costguard_writes_asks_for_nothing(tagging: Rented, cloud: Cloud) -> None:
    """Its own reader of tags sees neither a hold nor a setting in them."""
    tagging.ask("act", reason="idle")
    beat(tagging)
    assert cloud.tags.keys() == {INCIDENT, HEARTBEAT}
    assert asks(cloud.tags, 0.0) == []
    assert settings(cloud.tags) == ({}, [])


def test_the_example_keeps_the_contract_of_marks(cloud: Cloud, monkeypatch: pytest.MonkeyPatch, rented: Rented) -> None:
    """As every plug-in of this project does."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    provider = importlib.import_module("costguard_example").PROVIDER
    cloud.tags["owner"] = "ml"
    site = Site({"board_asset_tag": "m-42"}, cloud.settings, {}, str(rented.root / "proc"), str(rented.root / "sys"))
    check_marks(provider.open(site, provider.identify(site)), lambda: cloud.tags)
