"""Tags of the instance itself, written with the real SDK: others stay, refusals are named, and again is the same."""

import json

import pytest

from costguard.cloud.api import CloudError
from costguard.testing.contract import check_marks
from costguard_aws import PROVIDER
from costguard_aws.testing import FakeMachine
from tests.clouds.aws.conftest import opened

TAGS = {"costguard-incident": "2031-01-31T18:00:00Z stop idle b-i1"}


def tags(here: FakeMachine) -> dict[str, str]:
    rows = here.ec2.describe_tags(Filters=[{"Name": "resource-id", "Values": [here.id]}])["Tags"]
    return {row["Key"]: row["Value"] for row in rows}


def give(here: FakeMachine, **more: str) -> None:
    here.ec2.create_tags(Resources=[here.id], Tags=[{"Key": name, "Value": value} for name, value in more.items()])
    here.api.log.clear()


def test_it_keeps_the_contract_of_marks(here: FakeMachine) -> None:
    """The one that is public, on this cloud's stand-in."""
    give(here, owner="ml", costguard="on")
    with opened(here) as machine:
        check_marks(machine, lambda: tags(here))


def test_a_value_is_what_ec2_takes(here: FakeMachine) -> None:
    """256 characters of the documented ones."""
    with opened(here) as machine:
        machine.mark({"costguard-incident": "a<b>\n€" + "x" * 400}, 10.0)
    assert tags(here)["costguard-incident"] == "a-b---" + "x" * 250


@pytest.mark.parametrize("kind", ["throttle", "internal", "internal_after", "cut_before", "cut_after"])
def test_a_technical_failure_is_tried_again(here: FakeMachine, kind: str) -> None:
    """Whether or not it had its effect."""
    here.api.fail(kind, "CreateTags", 2)  # type: ignore[arg-type]  # the tests spell the kinds
    with opened(here) as machine:
        machine.mark(TAGS, 10.0)
    assert tags(here) == TAGS
    assert len(here.api.calls("CreateTags")) == 3


@pytest.mark.parametrize("dry", [True, False])
def test_a_missing_right_has_its_command(here: FakeMachine, dry: bool) -> None:
    """Also when it is only asked for."""
    here.api.denied.add("CreateTags")
    with opened(here) as machine, pytest.raises(CloudError) as caught:
        machine.mark(TAGS, 10.0, dry=dry)
    assert caught.value.trouble == "denied"
    assert "costguard permissions aws --tag" in caught.value.hint
    assert tags(here) == {}


def test_fifty_tags_are_the_limit(here: FakeMachine) -> None:
    """Nobody's tag makes room for ours; a tag that is there already is written."""
    give(here, **{f"t{number}": "x" for number in range(49)})
    with opened(here) as machine:
        machine.mark(TAGS, 10.0)
        with pytest.raises(CloudError) as caught:
            machine.mark({"costguard-heartbeat": "x"}, 10.0)
        machine.mark({"costguard-incident": "again"}, 10.0)
    assert (caught.value.trouble, caught.value.code) == ("refused", "TagLimitExceeded")
    assert "delete-tags" in caught.value.hint
    assert len(tags(here)) == 50
    assert tags(here)["costguard-incident"] == "again"


def test_the_policy_allows_two_tags_of_the_instance_itself() -> None:
    """No other key, and not without a key."""
    statements = {each["Sid"]: each for each in json.loads(PROVIDER.policy(("stop",), tag=True))["Statement"]}
    marks = statements["CostguardMarksItself"]
    assert (marks["Action"], marks["Resource"]) == (["ec2:CreateTags"], "arn:*:ec2:*:*:instance/*")
    assert marks["Condition"] == {
        "StringLike": {"aws:userid": "*:${ec2:InstanceID}"},
        "ForAllValues:StringEquals": {"aws:TagKeys": ["costguard-incident", "costguard-heartbeat"]},
        "Null": {"aws:TagKeys": "false"},
    }
    assert "ec2:CreateTags" not in PROVIDER.policy(("stop",))
