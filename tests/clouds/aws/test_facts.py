"""Facts and plan through the real SDK: what AWS says becomes what the plan says."""

import os
import time

import pytest

from costguard.cloud import retry
from costguard.cloud.api import CloudError, Ticket
from costguard_aws import PROVIDER
from costguard_aws import facts as gathering
from costguard_aws.session import LOOK_TRIES
from costguard_aws.testing import FakeMachine, Nature
from tests.clouds.aws.conftest import Launch, codes, looked, opened


def test_a_plain_machine_may_stop(here: FakeMachine) -> None:
    """Everything is known, and nothing has an effect."""
    facts, made = looked(here)
    assert (facts.unknown, facts.permitted, facts.in_group, facts.uptime) == ({}, True, False, 86400.0)
    assert (made.verdict, made.ends_bill, made.keeps_disks) == ("go", True, True)
    assert here.api.calls() == []
    assert [request.action for request in here.api.calls(dry=True)] == ["StopInstances"]
    assert here.state == "running"


@pytest.mark.parametrize(
    ("kind", "nature", "verb", "verdict", "code"),
    [
        ("g5g.xlarge", Nature(spot="one-time"), "stop", "another", "one_time_spot"),
        ("g5g.xlarge", Nature(spot="persistent"), "stop", "consequences", "spot_may_not_return"),
        ("g5g.xlarge", Nature(spot="persistent"), "terminate", "another", "persistent_spot"),
        ("g5g.xlarge", Nature(spot="persistent", launch_group="lg"), "stop", "another", "one_time_spot"),
        ("g5g.xlarge", Nature(block="cb-1", reservation="cr-1"), "stop", "refuse", "prepaid"),
        ("g5g.xlarge", Nature(reservation="cr-1"), "stop", "refuse", "reservation_goes_on"),
        ("g5g.xlarge", Nature(tenancy="host"), "stop", "refuse", "reservation_goes_on"),
        ("g5g.xlarge", Nature(operator="eks.amazonaws.com"), "stop", "refuse", "managed_node"),
        ("g5g.xlarge", Nature(root_device="instance-store"), "stop", "another", "instance_store_root"),
        ("g5.xlarge", Nature(hibernation=True), "hibernate", "another", "cannot_hibernate"),
        ("m5.large", Nature(), "hibernate", "another", "cannot_hibernate"),
        ("m5.large", Nature(hibernation=True), "hibernate", "go", "bill_ends"),
    ],
)
def test_the_nature_of_the_instance(
    launch: Launch, kind: str, nature: Nature, verb: str, verdict: str, code: str
) -> None:
    """Each comes from a field of DescribeInstances, DescribeSpotInstanceRequests or DescribeInstanceTypes."""
    facts, made = looked(launch(kind, nature), verb)
    assert facts.unknown == {}
    assert (made.verdict, made.findings[0].code) == (verdict, code)


@pytest.mark.parametrize(
    ("attribute", "verb", "verdict"),
    [
        ("DisableApiStop", "stop", "refuse"),
        ("DisableApiStop", "terminate", "refuse"),
        ("DisableApiTermination", "stop", "go"),
        ("DisableApiTermination", "terminate", "refuse"),
    ],
)
def test_protection(here: FakeMachine, attribute: str, verb: str, verdict: str) -> None:
    """Read one attribute at a time."""
    here.ec2.modify_instance_attribute(InstanceId=here.id, **{attribute: {"Value": True}})
    _, made = looked(here, verb)
    assert made.verdict == verdict
    assert ("protected" in codes(made)) is (verdict == "refuse")


def test_what_a_shutdown_from_inside_does(here: FakeMachine) -> None:
    """For those who have it in the fall-back list."""
    here.ec2.modify_instance_attribute(
        InstanceId=here.id, Attribute="instanceInitiatedShutdownBehavior", Value="terminate"
    )
    assert "shutdown_terminates" in codes(looked(here)[1])


def test_a_group_member(here: FakeMachine) -> None:
    """Known from Auto Scaling itself; leaving is opt-in."""
    here.join(minimum=0, desired=1)
    facts, made = looked(here)
    assert facts.in_group is True
    assert facts.group is not None
    assert (facts.group.name, facts.group.minimum, facts.group.desired) == ("gpus", 0, 1)
    assert (made.verdict, made.findings[0].code) == ("refuse", "group_member")
    assert looked(here, "terminate", group="leave")[1].verdict == "consequences"


@pytest.mark.parametrize("gone", ["tag", "metadata", "both"])
def test_membership_without_the_right_to_ask(here: FakeMachine, gone: str) -> None:
    """The reserved tag and the metadata each tell it; without all three nothing says no."""
    here.join()
    here.api.denied = {"DescribeAutoScalingInstances", "DescribeAutoScalingGroups"}
    if gone in {"tag", "both"}:
        here.ec2.delete_tags(Resources=[here.id], Tags=[{"Key": "aws:autoscaling:groupName"}])
    if gone in {"metadata", "both"}:
        del here.imds.values["meta-data/autoscaling/target-lifecycle-state"]
    facts, made = looked(here)
    assert facts.in_group is (gone != "both")  # EC2 lets nobody remove that tag: its absence counts
    assert made.verdict == ("refuse" if gone != "both" else "consequences")
    assert "permission_unknown" in codes(made) or gone != "both"  # nobody takes it for certain


def test_a_detached_instance_is_in_no_group(here: FakeMachine) -> None:
    """The metadata goes on naming a state after that, and Auto Scaling no longer replaces it."""
    here.imds.values["meta-data/autoscaling/target-lifecycle-state"] = "Detached"
    facts, made = looked(here)
    assert facts.in_group is False
    assert made.verdict == "go"


def test_a_group_whose_sizes_cannot_be_read(here: FakeMachine) -> None:
    """It may be at its minimum, where its own call is refused: the plan says so beforehand, with the right."""
    here.join(minimum=1, desired=1)
    here.api.denied = {"DescribeAutoScalingGroups"}
    made = looked(here, "terminate", group="leave")[1]
    assert made.verdict == "consequences"
    assert any("minimum" in found.text and "DescribeAutoScalingGroups" in found.hint for found in made.findings)


@pytest.mark.parametrize("verb", ["stop", "terminate"])
def test_a_denied_right(here: FakeMachine, verb: str) -> None:
    """Found by the dry run; named exactly; the coded message of AWS does not travel on."""
    action = "StopInstances" if verb == "stop" else "TerminateInstances"
    here.api.denied = {action}
    facts, made = looked(here, verb)
    assert facts.permitted is False
    assert (made.verdict, made.findings[0].code) == ("refuse", "not_permitted")
    assert f"ec2:{action}" in made.findings[0].hint
    assert "gXK5secret" not in str((facts, made))


def test_a_denied_right_of_a_young_machine(here: FakeMachine) -> None:
    """Role assignments arrive late; the age is the machine's own."""
    here.api.denied = {"StopInstances"}
    here.write("proc/uptime", "300.00 10.00\n")
    assert codes(looked(here)[1]) == {"rights_may_be_late", "bill_ends", "shutdown_stops"}


def test_each_denied_question_is_named(here: FakeMachine) -> None:
    """Rights that only make the plan better do not stand in its way."""
    here.api.denied = {"DescribeInstanceAttribute", "DescribeInstanceTypes", "DescribeAutoScalingInstances"}
    facts, made = looked(here)
    assert made.verdict == "consequences"
    assert {unknown.permission for unknown in facts.unknown.values()} == {
        "ec2:DescribeInstanceAttribute",
        "ec2:DescribeInstanceTypes",
        "autoscaling:DescribeAutoScalingInstances",
    }


def test_without_describe_instances_nothing_is_decided(here: FakeMachine) -> None:
    """Market, group and disks would be guesses."""
    here.api.denied = {"DescribeInstances"}
    _, made = looked(here)
    assert (made.verdict, made.findings[0].code) == ("refuse", "facts_missing")
    assert "ec2:DescribeInstances" in made.findings[0].hint


def test_throttling_is_waited_out(here: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refusals for haste change no fact, and who asks ever slower is answered in the end; other trouble is not waited for so long."""
    monkeypatch.setattr(retry, "FIRST_PAUSE_SECONDS", 0.01)
    here.api.fail("throttle", "DescribeInstances", 6)
    assert looked(here)[1].verdict == "go"
    here.api.fail("internal", "DescribeInstanceTypes", 6)
    assert set(looked(here)[0].unknown) == {"type"}
    assert len(here.api.calls("DescribeInstanceTypes")) == 1 + LOOK_TRIES


@pytest.mark.parametrize(
    ("fault", "trouble"),
    [
        ("throttle", "throttled"),
        ("internal", "internal"),
        ("cut_before", "unreachable"),
        ("expired", "credentials"),
        ("skewed", "clock"),
    ],
)
def test_when_aws_cannot_be_asked(here: FakeMachine, monkeypatch: pytest.MonkeyPatch, fault: str, trouble: str) -> None:
    """Each kind has its name and its next command."""
    monkeypatch.setattr(gathering, "BUDGET_SECONDS", 2.0)
    here.api.fail(fault, "*", 100)  # type: ignore[arg-type]  # the table is data
    with opened(here) as session, pytest.raises(CloudError) as caught:
        session.facts("stop")
    assert (caught.value.trouble, caught.value.technical) == (trouble, True)
    assert caught.value.hint


def test_local_disks(launch: Launch) -> None:
    """The deep learning images mount an empty file system: that holds no stop up. With data in it the owner decides."""
    here = launch("g5.xlarge")
    here.local_disk(mounted="/opt/dlami/nvme")
    _, made = looked(here)
    assert (made.verdict, made.ends_bill, made.findings[0].code) == ("consequences", True, "local_data_lost")
    assert "mounted (/opt/dlami/nvme) and empty" in made.findings[0].text
    here.file("/opt/dlami/nvme/checkpoint.pt")
    _, made = looked(here)
    assert (made.verdict, made.findings[0].code) == ("refuse", "local_data_kept")
    assert "/opt/dlami/nvme" in made.findings[0].text
    assert looked(here, local_data="discard")[1].findings[0].code == "local_data_lost"


def test_data_that_came_during_the_countdown_is_kept(launch: Launch) -> None:
    """The facts are as old as the countdown; local disks are looked at again before the request."""
    here = launch("g5.xlarge")
    here.local_disk(mounted="/opt/dlami/nvme")
    with opened(here) as session:
        facts = session.facts("stop")
        here.file("/opt/dlami/nvme/checkpoint.pt")
        outcome = session.execute("stop", facts, Ticket("i", "a", 10.0))
    assert (outcome.status, here.state) == ("refused", "running")
    assert "/opt/dlami/nvme" in outcome.detail


def test_credentials_of_another_account(here: FakeMachine) -> None:
    """EC2 does not know the instance: nothing is done in its name, and no replacement is guessed."""
    site = here.site()
    who = PROVIDER.identify(site)
    other = who._replace(instance="i-0fffffffffffffff0")
    machine = PROVIDER.open(site, other)
    try:
        with pytest.raises(CloudError) as caught:
            machine.facts("stop")
    finally:
        machine.close()  # type: ignore[attr-defined]  # of this plug-in
    assert caught.value.trouble == "gone"
    assert "sts get-caller-identity" in caught.value.hint


def test_a_page_in_place_of_the_facts(here: FakeMachine) -> None:
    """It does not say that the instance is unknown: it says nothing."""
    here.api.fail("page", "DescribeInstances", 9)
    with opened(here) as asking, pytest.raises(CloudError) as caught:
        asking.facts("stop")
    assert (caught.value.trouble, caught.value.code) == ("unreachable", "no_answer")


def test_questions_that_hang_have_one_budget(here: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan must say which call failed before its worker is given up: each try would wait as long as the first."""
    monkeypatch.setattr(gathering, "BUDGET_SECONDS", 1.0)
    with opened(here) as asking:
        here.api.fail("silent", "DescribeInstances", 9)
        began = time.monotonic()
        with pytest.raises(CloudError) as caught:
            asking.facts("stop")
        assert time.monotonic() - began < 2.5
    assert caught.value.code == "no_answer"
    assert "ec2:DescribeInstances" in str(caught.value)
    assert len(here.api.calls("DescribeInstances")) == 1


@pytest.mark.parametrize("fault", ["throttle", "internal", "cut_before", "page"])
@pytest.mark.parametrize(
    ("question", "code", "denied"),
    [
        ("DryRun", "permission_unknown", "refuse"),
        ("DescribeInstanceAttribute", "facts_missing", "consequences"),
        ("DescribeAutoScalingInstances", "facts_missing", "consequences"),
        ("DescribeSpotInstanceRequests", "facts_missing", "consequences"),
        ("DescribeInstanceTypes", "facts_missing", "refuse"),
    ],
)
def test_a_technical_failure_is_no_veto_and_no_denied_right(
    launch: Launch, monkeypatch: pytest.MonkeyPatch, question: str, code: str, denied: str, fault: str
) -> None:
    """A fact that a veto rests on and that nobody could read for now leaves the plan *failed*, which is tried again."""
    whole = gathering.BUDGET_SECONDS
    monkeypatch.setattr(gathering, "BUDGET_SECONDS", 4.0)
    monkeypatch.setattr(retry, "FIRST_PAUSE_SECONDS", 0.01)
    here = launch(nature=Nature(spot="persistent"))
    os.remove(os.path.join(here.root, "proc/1/mountinfo"))  # so that the type alone says whether there are local disks
    here.api.fail(fault, question, 999)  # type: ignore[arg-type]  # the table is data
    made = looked(here)[1]
    assert (made.verdict, made.findings[0].code) == ("failed", code), made
    assert "grant" not in made.findings[0].hint
    here.api.heal()
    monkeypatch.setattr(gathering, "BUDGET_SECONDS", whole)
    right = "StopInstances" if question == "DryRun" else question
    here.api.denied = {right}
    made = looked(here)[1]
    assert made.verdict == denied, made
    assert any(right in found.hint for found in made.findings)
