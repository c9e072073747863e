"""Answers that come one byte a second: no time-out of the SDK sees them, and every step is back in time all the same."""

import json

import pytest

from costguard.cloud.api import CloudError, Ticket
from costguard.plans import Result
from costguard_aws import PROVIDER
from costguard_aws import facts as gathering
from costguard_aws import session as sessions
from costguard_aws.testing import FakeMachine
from costguard_aws.testing.machine import ROLE
from tests.clouds.aws.conftest import opened
from tests.clouds.wire import within

SHORT = Ticket("inc", "inc.1", 2.0)
ACCEPTED = Result("accepted", "accepted: StopInstances", "r-1")


def test_a_question(here: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that decides everything: an error that names it."""
    monkeypatch.setattr(gathering, "BUDGET_SECONDS", 1.5)
    here.api.fail("drip", "DescribeInstances", 9)
    with opened(here) as session, within(4.0), pytest.raises(CloudError) as caught:
        session.facts("stop")
    assert (caught.value.trouble, caught.value.code) == ("unreachable", "no_answer")
    assert "ec2:DescribeInstances" in str(caught.value)


def test_every_other_question(here: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them together stay within the budget of the plan, and the finding names the call."""
    monkeypatch.setattr(gathering, "BUDGET_SECONDS", 1.5)
    for call in ("DescribeInstanceAttribute", "DescribeInstanceTypes", "DescribeAutoScalingInstances"):
        here.api.fail("drip", call, 9)
    with opened(here) as session, within(4.0):
        made = session.plan("stop", session.facts("stop"))
    assert made.verdict == "failed"
    said = " ".join(finding.text for finding in made.findings)
    assert "autoscaling:DescribeAutoScalingInstances" in said
    assert "no complete answer" in said


def test_the_request(here: FakeMachine) -> None:
    """It took effect, and neither its answer nor a look shows it: nobody can say, and nobody says *failed*."""
    with opened(here) as session:
        facts = session.facts("stop")
        here.api.fail("drip", "StopInstances", 9)
        here.api.fail("drip", "DescribeInstances", 9)
        with within(SHORT.deadline + 1.5):
            outcome = session.execute("stop", facts, SHORT)
    assert outcome.status == "unknown"
    assert here.state == "stopped"
    assert len(here.api.calls()) == 1


def test_the_request_alone(here: FakeMachine) -> None:
    """The look shows what became of it."""
    with opened(here) as session:
        facts = session.facts("stop")
        here.api.fail("drip", "StopInstances", 9)
        with within(SHORT.deadline + 1.5):
            outcome = session.execute("stop", facts, SHORT)
    assert (outcome.status, len(here.api.calls())) == ("accepted", 1)


def test_the_poll_afterwards(here: FakeMachine) -> None:
    """The core makes *unknown* of an acceptance that cannot be followed up."""
    here.api.fail("drip", "DescribeInstances", 9)
    with opened(here) as session, within(4.0), pytest.raises(CloudError) as caught:
        session.confirm("stop", SHORT, ACCEPTED)
    assert caught.value.code == "no_answer"


def test_the_question_from_elsewhere(here: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    """`costguard stop --verify` says that it does not know."""
    monkeypatch.setattr(sessions, "WHOLE_SECONDS", 1.5)
    here.api.fail("drip", "DescribeInstances", 9)
    with within(4.0), pytest.raises(CloudError) as caught:
        PROVIDER.verify(here.site(), {"instance": here.id, "region": "us-east-1"})
    assert caught.value.technical


def test_the_token(here: FakeMachine) -> None:
    """Of the metadata service, and with it the credentials: nothing opens."""
    site = here.site()
    who = PROVIDER.identify(site)
    here.imds.expire_tokens()
    here.imds.drip = 1.0
    with within(20.0), pytest.raises(CloudError) as caught:
        PROVIDER.open(site, who)
    assert caught.value.technical


def test_the_token_of_the_request(here: FakeMachine) -> None:
    """They grow old during the countdown and their renewal drips: the old ones still serve, after half of the time."""
    place = f"meta-data/iam/security-credentials/{ROLE}"
    role = json.loads(here.imds.values[place])
    here.imds.values[place] = json.dumps({**role, "Expiration": "2020-01-01T00:00:00Z"})
    with opened(here) as session:
        facts = session.facts("stop")
        here.imds.drip = 1.0
        with within(SHORT.deadline + 2.0):
            outcome = session.execute("stop", facts, SHORT)
    assert (outcome.status, here.state) == ("accepted", "stopped")
