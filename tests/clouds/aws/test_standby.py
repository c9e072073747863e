"""A member of a group is stopped through standby: in this order, once each, and never without it."""

import time
from itertools import product

import pytest

from costguard.cloud.api import Ticket
from costguard.plans import Result
from costguard_aws.testing import FakeMachine
from tests.clouds.aws.conftest import TICKET, codes, looked, opened

SOON = Ticket("inc", "inc.1", 2.0)
BOTH = ["EnterStandby", "StopInstances"]


@pytest.fixture
def member(here: FakeMachine) -> FakeMachine:
    """One of two, in a group that may shrink to one."""
    here.join(minimum=1, desired=2)
    return here


def act(here: FakeMachine, ticket: Ticket = TICKET) -> Result:
    with opened(here, group="leave") as session:
        return session.execute("stop", session.facts("stop"), ticket)


def sent(here: FakeMachine) -> list[str]:
    return [call.action for call in here.api.calls()]


def test_the_plan_says_how_it_comes_back(member: FakeMachine) -> None:
    """In words and with the commands, before anything is done."""
    made = looked(member, group="leave")[1]
    assert (made.verdict, made.ends_bill) == ("consequences", True)
    (finding,) = [one for one in made.findings if one.code == "group_member"]
    assert "standby" in finding.text
    assert f"aws ec2 start-instances --instance-ids {member.id}" in finding.hint
    assert f"aws autoscaling exit-standby --instance-ids {member.id} --auto-scaling-group-name gpus" in finding.hint
    assert member.api.calls() == []


def test_first_standby_then_the_stop(member: FakeMachine) -> None:
    """The group is one smaller and keeps it; the outcome names the way back."""
    member.api.entering = 3
    with opened(member, group="leave") as session:
        outcome = session.execute("stop", session.facts("stop"), TICKET)
        seen = [session.confirm("stop", TICKET, outcome).status for _ in range(2)]
    assert (outcome.status, seen) == ("accepted", ["pending", "done"])
    assert sent(member) == BOTH
    assert member.state == "stopped"
    assert "exit-standby" in outcome.detail
    (request,) = member.api.calls("EnterStandby")
    assert request.parameters["ShouldDecrementDesiredCapacity"] == "true"


def test_without_standby_the_group_would_end_it(member: FakeMachine) -> None:
    """What the stand-in does to whoever stops a member that is in service."""
    member.ec2.stop_instances(InstanceIds=[member.id])
    assert member.state == "terminated"


@pytest.mark.parametrize("entering", [0, 2])
def test_a_crash_between_the_two_steps(member: FakeMachine, entering: int) -> None:
    """The next attempt goes on from where the first one ended: the group shrinks once."""
    member.api.entering = entering
    member.api.fail("internal", "StopInstances", 99)
    assert act(member, SOON).status == "failed"
    member.api.heal()
    member.api.log.clear()
    made = looked(member, group="leave")[1]
    assert (made.verdict, "group_at_minimum" in codes(made)) == ("consequences", False)
    assert act(member).status == "accepted"
    assert (sent(member), member.state) == (["StopInstances"], "stopped")


def test_standby_that_takes_too_long(member: FakeMachine) -> None:
    """Nothing was stopped, and nothing else was sent; the next attempt goes on."""
    member.api.entering = 1000
    began = time.monotonic()
    outcome = act(member, SOON)
    assert time.monotonic() - began < 8.0
    assert (outcome.status, sent(member), member.state) == ("failed", ["EnterStandby"], "running")
    assert "still putting this member into standby" in outcome.detail
    assert "exit-standby" in outcome.detail
    member.api.entering = 0
    member.api._enter = 0
    assert act(member).status == "accepted"


FAULTS = ("", "throttle", "internal", "internal_after", "cut_before", "cut_after", "page_after")


@pytest.mark.parametrize(("first", "second"), list(product(FAULTS, FAULTS)))
def test_any_trouble_on_either_step(member: FakeMachine, first: str, second: str) -> None:
    """Stopped once, through standby, and the group is smaller by one."""
    for action, fault in zip(BOTH, (first, second), strict=True):
        if fault:
            member.api.fail(fault, action)  # type: ignore[arg-type]  # the table is data
    outcome = act(member)
    assert (outcome.status, member.state) == ("accepted", "stopped")
    assert member.desired == 1


def test_nobody_can_say_whether_it_entered(member: FakeMachine) -> None:
    """The answer is lost and the group cannot be asked: unknown, and it is not stopped."""
    with opened(member, group="leave") as session:
        facts = session.facts("stop")
        member.api.fail("drip", "EnterStandby", 9)
        outcome = session.execute("stop", facts, SOON)
    assert outcome.status == "unknown"
    assert "StopInstances" not in sent(member)
    assert member.state == "running"


def test_a_question_that_never_answers(member: FakeMachine) -> None:
    """Before the request: nothing was sent, so nothing is in doubt."""
    with opened(member, group="leave") as session:
        facts = session.facts("stop")
        member.api.fail("drip", "DescribeAutoScalingInstances", 9)
        outcome = session.execute("stop", facts, SOON)
    assert (outcome.status, sent(member)) == ("failed", [])


def test_at_the_minimum_it_is_refused(here: FakeMachine) -> None:
    """By the plan; and by the group, where the sizes could not be read."""
    here.join(minimum=1, desired=1)
    made = looked(here, group="leave")[1]
    assert (made.verdict, "group_at_minimum" in codes(made)) == ("refuse", True)
    here.api.denied = {"DescribeAutoScalingGroups"}
    outcome = act(here)
    assert (outcome.status, sent(here), here.state) == ("refused", ["EnterStandby"], "running")
    assert "min-size=1" in outcome.detail


def test_a_denied_right_is_a_veto(member: FakeMachine) -> None:
    """It is not stopped behind the group's back."""
    member.api.denied = {"EnterStandby"}
    outcome = act(member)
    assert (outcome.status, sent(member), member.state) == ("refused", ["EnterStandby"], "running")
    assert "autoscaling:EnterStandby" in outcome.detail


def test_a_right_that_has_not_arrived_yet(member: FakeMachine) -> None:
    """A young machine asks again within its deadline; in the end it is a veto all the same."""
    member.write("proc/uptime", "60.00 10.00\n")
    member.api.denied = {"EnterStandby"}
    outcome = act(member, SOON)
    assert (outcome.status, member.state) == ("refused", "running")
    assert len(sent(member)) > 1
    member.api.denied = set()
    assert act(member).status == "accepted"


@pytest.mark.parametrize("cause", ["protected", "denied"])
def test_a_stop_that_is_refused_in_standby(member: FakeMachine, cause: str) -> None:
    """It runs and is billed, the group is one smaller: that is said, with what refused and the way back."""
    with opened(member, group="leave") as session:
        facts = session.facts("stop")
        if cause == "protected":
            member.ec2.modify_instance_attribute(InstanceId=member.id, DisableApiStop={"Value": True})
        else:
            member.api.denied = {"StopInstances"}
        outcome = session.execute("stop", facts, TICKET)
    assert (outcome.status, member.state, member.desired) == ("refused", "running", 1)
    assert ("disableApiStop" if cause == "protected" else "ec2:StopInstances") in outcome.detail
    assert "it runs in standby and is billed, and the Auto Scaling group gpus is one smaller" in outcome.detail
    assert f"`aws autoscaling exit-standby --instance-ids {member.id}" in outcome.detail
    assert "start-instances" not in outcome.detail
    assert "it is in standby in" not in outcome.detail
    again = looked(member, group="leave")[1]
    assert again.verdict == "refuse"
    (finding,) = [one for one in again.findings if one.code == "group_member"]
    assert "runs and is billed, and the group is one smaller" in finding.text


def test_a_stop_without_an_answer_in_standby(member: FakeMachine) -> None:
    """Nobody can say whether it stops: then neither is claimed."""
    with opened(member, group="leave") as session:
        facts = session.facts("stop")
        member.api.fail("cut_before", "StopInstances", 99)
        outcome = session.execute("stop", facts, SOON)
    assert outcome.status == "unknown"
    assert "unless it stops, it runs in standby and is billed" in outcome.detail


def test_a_member_that_left_the_service_since(member: FakeMachine) -> None:
    """The state is looked at again when the action is released."""
    with opened(member, group="leave") as session:
        facts = session.facts("stop")
        member.leave()
        outcome = session.execute("stop", facts, TICKET)
    assert (outcome.status, sent(member), member.state) == ("refused", [], "running")
