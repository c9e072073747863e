"""Scheduled events: only where the owner wants them, only those of this machine."""

import pytest

from costguard_azure import Azure
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


def test_nothing_is_announced(azure: FakeAzure) -> None:
    """One question, no more."""
    assert Azure().notices(azure.site(scheduled_events=True)) == ()
    assert [entry.operation for entry in azure.log] == ["events"]
