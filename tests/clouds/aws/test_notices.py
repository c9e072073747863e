"""What EC2 announces."""

import json

import pytest

from costguard.cloud.api import CloudError
from costguard_aws import notices
from costguard_aws.metadata import Imds as Client
from costguard_aws.notices import moment
from costguard_aws.testing import Imds

SPOT = "meta-data/spot/instance-action"
EVENTS = "meta-data/events/maintenance/scheduled"
GROUP = "meta-data/autoscaling/target-lifecycle-state"
EVENT = {
    "NotBefore": "21 Jan 2027 09:00:43 GMT",
    "Code": "system-reboot",
    "Description": "scheduled reboot",
    "EventId": "instance-event-0d59937288b749b32",
    "State": "active",
}


def ask(imds: Imds) -> tuple[tuple[str, float | None], ...]:
    return tuple((found.kind, found.at) for found in notices.notices(Client(imds.url, timeout=0.2)))


def test_nothing_is_announced(imds: Imds) -> None:
    """Four absent keys are no trouble."""
    assert ask(imds) == ()


@pytest.mark.parametrize(
    ("action", "kind"),
    [("stop", "stop"), ("terminate", "terminate"), ("hibernate", "hibernate"), ("vaporise", "terminate")],
)
def test_an_interruption(imds: Imds, action: str, kind: str) -> None:
    """A word that nobody knows means the worst."""
    imds.values[SPOT] = json.dumps({"action": action, "time": "2027-09-18T08:22:00Z"})
    assert ask(imds) == ((kind, 1821255720.0),)


def test_a_rebalance_recommendation_has_no_date(imds: Imds) -> None:
    """Its time is when it was said, not when something happens."""
    imds.values["meta-data/events/recommendations/rebalance"] = json.dumps({"noticeTime": "2027-09-18T08:22:00Z"})
    assert ask(imds) == (("rebalance", None),)


@pytest.mark.parametrize(
    ("change", "kinds"),
    [
        ({}, ("reboot",)),
        ({"Code": "system-maintenance"}, ("freeze",)),
        ({"Code": "instance-retirement"}, ("stop",)),
        ({"Code": "something-new"}, ("stop",)),
        ({"Description": "[Completed] scheduled reboot"}, ()),
        ({"Description": "[Canceled] scheduled reboot"}, ()),
        ({"State": "completed"}, ()),
    ],
    ids=str,
)
def test_scheduled_events(imds: Imds, change: dict[str, str], kinds: tuple[str, ...]) -> None:
    """Those that are over are none."""
    imds.values[EVENTS] = json.dumps([{**EVENT, **change}])
    assert tuple(kind for kind, _ in ask(imds)) == kinds


@pytest.mark.parametrize(
    ("state", "kinds"),
    [("Terminated", ("terminate",)), ("Warmed:Stopped", ("stop",)), ("InService", ()), ("Standby", ())],
)
def test_the_group_takes_it_away(imds: Imds, state: str, kinds: tuple[str, ...]) -> None:
    """Only the states that end it."""
    imds.values[GROUP] = state
    assert tuple(kind for kind, _ in ask(imds)) == kinds


def test_the_same_notice_keeps_its_id(imds: Imds) -> None:
    """People are told once."""
    imds.values[SPOT] = json.dumps({"action": "stop", "time": "2027-09-18T08:22:00Z"})
    first, second = (notices.notices(Client(imds.url))[0].id for _ in range(2))
    assert first == second


def test_one_broken_source_hides_no_other(imds: Imds) -> None:
    """A notice is worth more than an error."""
    imds.garbage[SPOT] = b"\xff"
    imds.values[GROUP] = "Terminated"
    assert ask(imds) == (("terminate", None),)


def test_no_notice_and_a_broken_source_is_an_error(imds: Imds) -> None:
    """Nothing heard is not nothing said."""
    imds.garbage[SPOT] = b"\xff"
    with pytest.raises(CloudError):
        ask(imds)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2027-09-18T08:22:00Z", 1821255720.0), ("21 Jan 2027 09:00:43 GMT", 1800522043.0), ("soon", None), ("", None)],
)
def test_moments(text: str, seconds: float | None) -> None:
    """Both ways in which EC2 writes a time; anything else is no time."""
    assert moment(text) == seconds
