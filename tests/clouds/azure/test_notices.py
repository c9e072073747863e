"""Scheduled events: only where the owner wants them, only those of this machine."""

import json
import subprocess
import sys
import time

import pytest

from costguard.cloud.api import CloudError
from costguard_azure import Azure, notices
from costguard_azure.testing import FakeAzure

EVENT: dict[str, object] = {
    "EventId": "A1",
    "EventType": "Preempt",
    "ResourceType": "VirtualMachine",
    "Resources": ["trainer"],
    "EventStatus": "Scheduled",
    "NotBefore": "Mon, 19 Sep 2016 18:29:47 GMT",
    "Description": "",
    "EventSource": "Platform",
}


def test_they_are_not_switched_on_unasked(azure: FakeAzure) -> None:
    """The first question enables the feature, which then delays restarts."""
    azure.world.events = [EVENT]
    assert Azure().notices(azure.site()) == ()
    assert not azure.world.events_enabled


@pytest.mark.parametrize(
    ("kind", "eviction", "expected"),
    [
        ("Preempt", "Deallocate", "stop"),
        ("Preempt", "Delete", "terminate"),
        ("Terminate", "", "terminate"),
        ("Reboot", "", "reboot"),
        ("Redeploy", "", "reboot"),
        ("Freeze", "", "freeze"),
    ],
)
def test_each_kind(azure: FakeAzure, kind: str, eviction: str, expected: str) -> None:
    """What it means for this machine, and when."""
    azure.world.eviction = eviction
    azure.world.events = [{**EVENT, "EventType": kind}]
    [notice] = Azure().notices(azure.site(scheduled_events=True))
    assert (notice.id, notice.kind, notice.at) == ("A1", expected, 1474309787.0)
    assert notice.words
    assert azure.world.events_enabled


def test_anothers_event_and_one_that_began(azure: FakeAzure) -> None:
    """Events of the neighbours are shown too; a begun one has no moment any more."""
    azure.world.events = [
        {**EVENT, "Resources": ["other"]},
        {**EVENT, "EventId": "B2", "NotBefore": "", "Description": "host"},
    ]
    [notice] = Azure().notices(azure.site(scheduled_events=True))
    assert (notice.id, notice.at) == ("B2", None)
    assert "host" in notice.words


def test_the_first_call_may_take_minutes(azure: FakeAzure, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for it: it is made once, beside everything else, and its answer is taken when it is there."""
    monkeypatch.setattr(notices, "GLANCE_SECONDS", 0.05)
    azure.world.events, azure.world.events_slow = [EVENT], 3.0
    site = azure.site(scheduled_events=True)
    began = time.monotonic()
    assert Azure().notices(site) == ()
    assert Azure().notices(site) == ()
    assert time.monotonic() - began < 2.7
    while not (found := Azure().notices(site)) and time.monotonic() - began < 30.0:
        time.sleep(0.1)
    assert [notice.id for notice in found] == ["A1"]
    assert len(azure.sent("events")) == 1
    assert len(Azure().notices(site)) == 1
    assert len(azure.sent("events")) == 2


def test_a_first_call_that_is_never_answered_is_told(azure: FakeAzure, monkeypatch: pytest.MonkeyPatch) -> None:
    """And made again; when it is answered then, all is well."""
    monkeypatch.setattr(notices, "FIRST_SECONDS", 1.2)
    monkeypatch.setattr(notices, "GLANCE_SECONDS", 0.05)
    azure.faults.add("events", "slow", seconds=5.0)
    site = azure.site(scheduled_events=True)
    assert Azure().notices(site) == ()
    time.sleep(1.5)
    with pytest.raises(CloudError) as caught:
        Azure().notices(site)
    assert caught.value.technical
    assert "first call" in str(caught.value)
    assert "scheduled_events = false" in caught.value.hint
    monkeypatch.setattr(notices, "GLANCE_SECONDS", 2.0)
    azure.world.events = [EVENT]
    assert len(Azure().notices(site)) == 1


def test_events_that_are_out_of_reach_are_told_at_once(azure: FakeAzure) -> None:
    """Only silence is waited for."""
    azure.faults.add("events", "error", times=9, status=403)
    with pytest.raises(CloudError):
        Azure().notices(azure.site(scheduled_events=True))


def test_the_reader_goes_on_beside_the_first_call(azure: FakeAzure) -> None:
    """As the process that the guard kills after 30 s: it says who the machine is, and what its tags ask for."""
    azure.world.events_slow, azure.world.tags = 60.0, {"costguard": "off"}
    cloud = {**azure.settings, "scheduled_events": True, "provider": "azure"}
    host = {"procfs": f"{azure.folder}/proc", "sysfs": f"{azure.folder}/sys"}
    job = {"place": {"providers": ["azure=costguard_azure"], "cloud": cloud, "host": host}, "wait": 0}
    lines = "".join(json.dumps(each) + "\n" for each in (job, {"read": 1}, {"read": 2}))
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "costguard.readers.cloud.reader"],
        input=lines,
        capture_output=True,
        text=True,
        check=True,
    )
    assert time.monotonic() - began < 20.0
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer.get("error") for answer in answers] == [None, None]
    assert answers[0]["identity"]["instance"]
    assert answers[0]["asks"]
    assert answers[0]["notices"] == []


def test_nothing_is_announced(azure: FakeAzure) -> None:
    """One question, no more."""
    assert Azure().notices(azure.site(scheduled_events=True)) == ()
    assert [entry.operation for entry in azure.log] == ["events"]
