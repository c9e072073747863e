"""Answers that come one byte a second: no time-out of the SDK sees them, and every step is back in time all the same."""

import pytest

from costguard.cloud.api import CloudError, Ticket
from costguard.plans import Result
from costguard_gcp import PROVIDER, act, session
from costguard_gcp import facts as looks
from costguard_gcp.testing import Fault
from tests.clouds.gcp.conftest import World
from tests.clouds.wire import within

SHORT = Ticket("i", "a", 2.0)
ACCEPTED = Result("accepted", "accepted by Google Cloud as operation operation-1", "operation-1")


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds in place of tens of them."""
    monkeypatch.setattr(looks, "BUDGET_SECONDS", 4.5)
    monkeypatch.setattr(looks, "LOOK_SECONDS", 1.5)
    monkeypatch.setattr(looks, "TRY_SECONDS", 1.0)
    monkeypatch.setattr(session, "CALL_SECONDS", 1.5)
    monkeypatch.setattr(act, "CALL_SECONDS", 1.5)
    monkeypatch.setattr(act, "LOOK_SECONDS", 1.5)


def test_a_question(world: World) -> None:
    """The one that decides everything: an error that names it."""
    opened = world.open()
    world.api.faults.append(Fault("drip", "instances.get", 9))
    with within(3.0), pytest.raises(CloudError) as caught:
        opened.facts("stop")
    assert (caught.value.trouble, caught.value.code) == ("unreachable", "no_answer")
    assert "instances.get" in str(caught.value)


def test_another_question(world: World) -> None:
    """The plan goes on without it, and the finding names the call."""
    opened = world.open()
    world.api.faults.append(Fault("drip", "testIamPermissions", 9))
    with within(3.0):
        made = opened.plan("stop", opened.facts("stop"))
    (finding,) = [one for one in made.findings if one.code == "permission_unknown"]
    assert "instances.testIamPermissions" in finding.text


def test_the_request(world: World) -> None:
    """It took effect, and neither its answer nor a look shows it: nobody can say, and nobody says *failed*."""
    opened = world.open()
    facts = opened.facts("stop")
    world.api.faults += [Fault("drip", ".stop", 9), Fault("drip", "instances.get", 9)]
    with within(SHORT.deadline + 0.5):
        outcome = opened.execute("stop", facts, SHORT)
    assert (outcome.status, outcome.proof) == ("unknown", "")
    assert world.api.effects == ["stop"]


def test_the_request_alone(world: World) -> None:
    """The look shows what became of it."""
    opened = world.open()
    facts = opened.facts("stop")
    world.api.faults.append(Fault("drip", ".stop", 9))
    with within(SHORT.deadline + 0.5):
        outcome = opened.execute("stop", facts, SHORT)
    assert (outcome.status, world.api.effects) == ("accepted", ["stop"])


def test_the_poll_afterwards(world: World) -> None:
    """What is recorded stays, with the reason; no *done*, no *failed*."""
    opened = world.open()
    world.api.faults.append(Fault("drip", "instances.get", 9))
    with within(3.0):
        outcome = opened.confirm("stop", SHORT, ACCEPTED)
    assert (outcome.status, outcome.proof) == ("accepted", "operation-1")
    assert "cannot be read" in outcome.detail


def test_the_question_from_elsewhere(world: World) -> None:
    """`costguard stop --verify` says that it does not know."""
    opened = world.open()
    receipt = {"resource": opened.identity.details["resource"], "instance": opened.identity.instance}
    world.api.faults.append(Fault("drip", "instances.get", 9))
    with within(3.0):
        outcome = PROVIDER.verify(world.site(), receipt)
    assert outcome.status == "unknown"


def test_the_token(world: World) -> None:
    """Nothing opens without it."""
    site = world.site()
    who = PROVIDER.identify(site)
    world.metadata.drips = True
    with within(5.0), pytest.raises(CloudError) as caught:
        PROVIDER.open(site, who)
    assert caught.value.technical


def test_the_token_of_the_request(world: World) -> None:
    """It ran out during the countdown: nothing was sent, so nothing is in doubt."""
    opened = world.open()
    facts = opened.facts("stop")
    world.metadata.drips = True
    opened.api._credentials.token = None
    with within(SHORT.deadline + 0.5):
        outcome = opened.execute("stop", facts, SHORT)
    assert outcome.status == "failed"
    assert world.api.effects == []
