"""Proof: the three grades, in their words, and what the cloud shows when there is none."""

import pytest

from costguard.cloud.api import CloudError, Ticket
from costguard.plans import Result
from costguard_azure import Azure
from costguard_azure.machine import AzureMachine
from costguard_azure.testing import FakeAzure

TICKET = Ticket("incident-1", "attempt-1", 3.0)
ACCEPTED = Result("accepted", "accepted: Azure will deallocate this machine", "request-1")


def test_the_first_answer_counts(azure: FakeAzure, machine: AzureMachine) -> None:
    """The machine is gone long before a deallocation ends: what is seen is told at once, and asked again later."""
    azure.world.settles = 600.0
    machine.execute("stop", machine.facts("stop"), TICKET)
    for deadline in (110.0, 3.0, 0.1):
        azure.log.clear()
        outcome = machine.confirm("stop", TICKET._replace(deadline=deadline), ACCEPTED)
        assert (outcome.status, outcome.proof, len(azure.sent("instance_view"))) == ("pending", "request-1", 1)
        assert "seen stopping: Azure shows deallocating" in outcome.detail
    azure.world.power = "deallocated"
    outcome = machine.confirm("stop", TICKET, ACCEPTED)
    assert (outcome.status, outcome.proof) == ("done", "request-1")
    assert outcome.detail.startswith("closed: Azure shows deallocated")


def test_a_trouble_that_passes_is_no_answer(azure: FakeAzure, machine: AzureMachine) -> None:
    """A question has no effect: it is asked again, within its time."""
    machine.execute("stop", machine.facts("stop"), TICKET)
    azure.world.power = "deallocated"
    azure.faults.add("instance_view", "error", status=503, code="ServiceUnavailable")
    assert machine.confirm("stop", TICKET, ACCEPTED).status == "done"


def test_it_is_seen_stopping(azure: FakeAzure, machine: AzureMachine) -> None:
    """Deallocating is not the end of the bill."""
    azure.world.settles = 60.0
    machine.execute("stop", machine.facts("stop"), TICKET)
    outcome = machine.confirm("stop", TICKET._replace(deadline=0.2), ACCEPTED)
    assert outcome.status == "pending"
    assert "seen stopping" in outcome.detail


def test_accepted_and_nothing_happens(azure: FakeAzure, machine: AzureMachine) -> None:
    """What was recorded stays, with what the cloud shows."""
    azure.faults.add("deallocate", "nothing")
    accepted = machine.execute("stop", machine.facts("stop"), TICKET)
    outcome = machine.confirm("stop", TICKET._replace(deadline=0.2), accepted)
    assert outcome.status == "accepted"
    assert "Azure shows running" in outcome.detail


def test_stopped_is_not_deallocated(azure: FakeAzure, machine: AzureMachine) -> None:
    """A machine that was shut down from inside is billed in full; the words say so, with the command."""
    azure.world.power = "stopped"
    outcome = machine.confirm("stop", TICKET._replace(deadline=0.1), ACCEPTED)
    assert outcome.status == "accepted"
    assert "billed in full" in outcome.detail
    assert "az vm deallocate" in outcome.detail


def test_hibernated(azure: FakeAzure, machine: AzureMachine) -> None:
    """A hibernated machine is a deallocated one with one more state."""
    azure.world.size, azure.world.hibernation = "Standard_NV6ads_A10_v5", True
    machine.execute("hibernate", machine.facts("hibernate"), TICKET)
    outcome = machine.confirm("hibernate", TICKET, ACCEPTED)
    assert outcome.status == "done"
    assert "hibernated" in outcome.detail


def test_deleted(azure: FakeAzure, machine: AzureMachine) -> None:
    """First on its way, then not there any more."""
    azure.world.settles = 600.0
    machine.execute("terminate", machine.facts("terminate"), TICKET)
    early = machine.confirm("terminate", TICKET, ACCEPTED)
    azure.world.hurry()
    late = machine.confirm("terminate", TICKET, ACCEPTED)
    assert (early.status, late.status) == ("pending", "done")
    assert "no longer knows" in late.detail


def test_deallocated_is_not_deleted(azure: FakeAzure, machine: AzureMachine) -> None:
    """Who asked for a deletion is told that computing has ended and the machine is still there."""
    azure.world.power = "deallocated"
    outcome = machine.confirm("terminate", TICKET._replace(deadline=0.1), ACCEPTED)
    assert outcome.status == "pending"
    assert "not deleted yet" in outcome.detail


@pytest.mark.parametrize("code", ["SubscriptionNotFound", "InvalidResourceType"])
def test_not_every_404_is_an_end(azure: FakeAzure, machine: AzureMachine, code: str) -> None:
    """A subscription that nobody finds says nothing of a machine's bill."""
    azure.faults.add("instance_view", "error", times=99, status=404, code=code)
    outcome = machine.confirm("stop", TICKET._replace(deadline=0.1), ACCEPTED)
    assert outcome.status == "accepted"
    assert code in outcome.detail


def test_nothing_recorded_and_nobody_may_look(azure: FakeAzure, machine: AzureMachine) -> None:
    """Then nobody knows."""
    azure.world.rights.clear()
    outcome = machine.confirm("stop", TICKET._replace(deadline=0.1), None)
    assert outcome.status == "unknown"
    assert "AuthorizationFailed" in outcome.detail


def receipt(azure: FakeAzure, **more: str) -> dict[str, str]:
    who = Azure().identify(azure.site())
    return {**who.details, "instance": who.instance, "action": "stop", "request": "request-1", **more}


def test_verify_from_elsewhere(azure: FakeAzure, machine: AzureMachine) -> None:
    """Running, deallocating, deallocated: the words follow the cloud."""
    paper = receipt(azure)
    running = Azure().verify(azure.site(), paper)
    azure.world.settles = 600.0
    machine.execute("stop", machine.facts("stop"), TICKET)
    going = Azure().verify(azure.site(), paper)
    azure.world.hurry()
    closed = Azure().verify(azure.site(), paper)
    assert [running.status, going.status, closed.status] == ["unknown", "pending", "done"]
    assert "running" in running.detail
    assert closed.proof == "request-1"


def test_verify_a_name_that_was_given_away(azure: FakeAzure) -> None:
    """The machine of the receipt is gone, another one has its name."""
    paper = receipt(azure)
    azure.world.vm_id = "00000000-0000-4000-8000-00000000beef"
    outcome = Azure().verify(azure.site(), paper)
    assert outcome.status == "done"
    assert "another one" in outcome.detail


def test_verify_without_a_right_names_the_command(azure: FakeAzure) -> None:
    """The owner can ask by hand."""
    paper = receipt(azure)
    azure.world.rights.clear()
    with pytest.raises(CloudError) as caught:
        Azure().verify(azure.site(), paper)
    assert caught.value.trouble == "denied"
    assert "az vm get-instance-view --ids /subscriptions/" in caught.value.hint


def test_verify_without_a_login(azure: FakeAzure) -> None:
    """On a machine that is not Azure the metadata service is not asked: the owner's own login is needed."""
    site = azure.site()
    bare = site._replace(
        dmi={}, settings={"api_endpoint": site.settings["api_endpoint"]}, environ={"PATH": "/nonexistent"}
    )
    with pytest.raises(CloudError) as caught:
        Azure().verify(bare, receipt(azure))
    assert caught.value.trouble == "credentials"
    assert "az login" in caught.value.hint


def test_verify_with_the_owners_login(azure: FakeAzure, tmp_path_factory: pytest.TempPathFactory) -> None:
    """`az` gives the token: a program that prints one stands for it."""
    folder = tmp_path_factory.mktemp("bin")
    program = folder / "az"
    token = azure.world.token()
    program.write_text(f'#!/bin/sh\necho \'{{"accessToken": "{token}", "expires_on": 4102444800}}\'\n')
    program.chmod(0o755)
    site = azure.site()
    environ = {**site.environ, "PATH": f"{folder}:/bin:/usr/bin"}
    bare = site._replace(dmi={}, settings={"api_endpoint": site.settings["api_endpoint"]}, environ=environ)
    azure.world.power = "deallocated"
    paper = receipt(azure)
    azure.log.clear()
    assert Azure().verify(bare, paper).status == "done"
    assert {entry.server for entry in azure.log} == {"arm"}


def test_verify_a_receipt_of_nothing(azure: FakeAzure) -> None:
    """Said before anything is asked."""
    with pytest.raises(CloudError, match="names no machine"):
        Azure().verify(azure.site(), {"instance": "i-1"})
    assert azure.log == []
