"""Answers that come one byte a second: no time-out of the SDK sees them, and every step is back in time all the same."""

import pytest

from costguard.cloud.api import CloudError, Ticket
from costguard.plans import Result
from costguard_azure import Azure, metadata, session
from costguard_azure import facts as gathering
from costguard_azure.machine import AzureMachine
from costguard_azure.testing import FakeAzure
from tests.clouds.wire import within

SHORT = Ticket("i", "a", 2.0)
ACCEPTED = Result("accepted", "accepted: Azure will deallocate this machine", "r-1")


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds in place of tens of them."""
    monkeypatch.setattr(gathering, "BUDGET_SECONDS", 2.0)
    monkeypatch.setattr(session, "WHOLE_SECONDS", 1.5)


def test_a_question(azure: FakeAzure, machine: AzureMachine) -> None:
    """The one that decides everything: an error that names it."""
    azure.faults.add("get", "drip", times=9)
    with within(4.0), pytest.raises(CloudError) as caught:
        machine.facts("stop")
    assert (caught.value.trouble, caught.value.code) == ("unreachable", "no_answer")
    assert "reading the machine's state" in str(caught.value)


def test_another_question(azure: FakeAzure, machine: AzureMachine) -> None:
    """The plan goes on without it, and the finding names it."""
    azure.faults.add("locks", "drip", times=9)
    with within(4.0):
        made = machine.plan("stop", machine.facts("stop"))
    (finding,) = [one for one in made.findings if one.code == "facts_missing"]
    assert "no complete answer" in finding.text


def test_the_request(azure: FakeAzure, machine: AzureMachine) -> None:
    """It took effect, and neither its answer nor a look shows it: nobody can say, and nobody says *failed*."""
    facts = machine.facts("stop")
    azure.faults.add("deallocate", "drip", times=9)
    azure.faults.add("instance_view", "drip", times=9)
    with within(SHORT.deadline + 2.0):
        outcome = machine.execute("stop", facts, SHORT)
    assert outcome.status == "unknown"
    assert azure.world.power != "running"
    assert len(azure.sent("deallocate")) == 1


def test_the_request_alone(azure: FakeAzure, machine: AzureMachine) -> None:
    """The look shows what became of it."""
    facts = machine.facts("stop")
    azure.faults.add("deallocate", "drip", times=9)
    with within(SHORT.deadline + 2.0):
        outcome = machine.execute("stop", facts, SHORT)
    assert (outcome.status, len(azure.sent("deallocate"))) == ("accepted", 1)


def test_the_poll_afterwards(azure: FakeAzure, machine: AzureMachine) -> None:
    """What is recorded stays, with the reason; no *done*, no *failed*."""
    azure.faults.add("instance_view", "drip", times=9)
    with within(SHORT.deadline + 2.0):
        outcome = machine.confirm("stop", SHORT, ACCEPTED)
    assert (outcome.status, outcome.proof) == ("accepted", "r-1")
    assert "no complete answer" in outcome.detail


def test_the_question_from_elsewhere(azure: FakeAzure) -> None:
    """`costguard stop --verify` says that it does not know."""
    who = Azure().identify(azure.site())
    azure.faults.add("get", "drip", times=9)
    with within(4.0), pytest.raises(CloudError) as caught:
        Azure().verify(azure.site(), {**who.details, "instance": who.instance})
    assert (caught.value.trouble, caught.value.code) == ("unreachable", "no_answer")
    assert "az vm get-instance-view" in caught.value.hint


def test_the_token(azure: FakeAzure, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing opens without it."""
    monkeypatch.setattr(metadata, "TOKEN_BUDGET_SECONDS", 1.5)
    who = Azure().identify(azure.site())
    azure.faults.add("token", "drip", times=99)
    with within(4.0), pytest.raises(CloudError) as caught:
        AzureMachine(azure.site(), who)
    assert caught.value.technical


def test_the_token_of_the_request(azure: FakeAzure, machine: AzureMachine) -> None:
    """It ran out during the countdown: nothing was sent, so nothing is in doubt."""
    facts = machine.facts("stop")
    azure.faults.add("token", "drip", times=99)
    machine._session.credential.forget()
    with within(SHORT.deadline + 2.0):
        outcome = machine.execute("stop", facts, SHORT)
    assert outcome.status == "failed"
    assert "getting a token" in outcome.detail
    assert azure.sent("deallocate") == []
