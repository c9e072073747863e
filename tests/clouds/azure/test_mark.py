"""Tags of the machine itself, merged with the real SDK: others stay, refusals are named."""

import json

import pytest

from costguard.cloud.api import CloudError
from costguard.testing.contract import check_marks
from costguard_azure import Azure
from costguard_azure.machine import AzureMachine
from costguard_azure.testing import FakeAzure, LockOn

RIGHT = "Microsoft.Resources/tags/write"
TAGS = {"costguard-incident": "2031-01-31T18:00:00Z stop idle b-i1"}


@pytest.fixture(autouse=True)
def right(azure: FakeAzure) -> None:
    azure.world.rights.append(RIGHT)
    azure.world.tags = {"owner": "ml", "CostGuard": "on"}


def test_it_keeps_the_contract_of_marks(azure: FakeAzure, machine: AzureMachine) -> None:
    """The one that is public, on this cloud's stand-in."""
    check_marks(machine, lambda: azure.world.tags)
    assert {entry.method for entry in azure.sent("tags")} == {"PATCH"}


@pytest.mark.parametrize("kind", ["throttle", "error", "cut_before", "cut_after", "fails_but_acts"])
def test_a_technical_failure_is_tried_again(azure: FakeAzure, machine: AzureMachine, kind: str) -> None:
    """Whether or not it had its effect: merging again is the same."""
    azure.faults.add("tags", kind, times=2)  # type: ignore[arg-type]  # the tests spell the kinds
    machine.mark(TAGS, 10.0)
    assert azure.world.tags == {"owner": "ml", "CostGuard": "on", **TAGS}
    assert len(azure.sent("tags")) == 3


def test_another_change_under_way_is_waited_for(azure: FakeAzure, machine: AzureMachine) -> None:
    """A conflict passes by itself."""
    azure.faults.add("tags", "error", status=409, code="Conflict")
    machine.mark(TAGS, 10.0)
    assert azure.world.tags["costguard-incident"] == TAGS["costguard-incident"]


@pytest.mark.parametrize("dry", [True, False])
def test_a_missing_right_is_named(azure: FakeAzure, machine: AzureMachine, dry: bool) -> None:
    """Also when it is only asked for."""
    azure.world.rights.remove(RIGHT)
    with pytest.raises(CloudError) as caught:
        machine.mark(TAGS, 10.0, dry=dry)
    assert caught.value.trouble == "denied"
    assert RIGHT in caught.value.hint
    assert "costguard permissions azure --tag" in caught.value.hint
    assert TAGS.keys().isdisjoint(azure.world.tags)


def test_a_lock_is_a_veto(azure: FakeAzure, machine: AzureMachine) -> None:
    """Sent once."""
    azure.world.locks.append(LockOn("ReadOnly"))
    with pytest.raises(CloudError) as caught:
        machine.mark(TAGS, 10.0)
    assert (caught.value.trouble, caught.value.code) == ("refused", "ScopeLocked")
    assert len(azure.sent("tags")) == 1


def test_fifty_tags_are_the_limit(azure: FakeAzure, machine: AzureMachine) -> None:
    """Nobody's tag makes room for ours."""
    azure.world.tags = {f"t{number}": "x" for number in range(50)}
    with pytest.raises(CloudError) as caught:
        machine.mark(TAGS, 10.0)
    assert caught.value.trouble == "refused"
    assert len(azure.world.tags) == 50


def test_the_role_has_the_right_only_when_asked_for() -> None:
    """And a name of its own then."""
    with_it, without = (json.loads(Azure().policy(["stop"], tag=tag)) for tag in (True, False))
    assert RIGHT in with_it["Actions"]
    assert RIGHT not in without["Actions"]
    assert with_it["Name"] != without["Name"]
