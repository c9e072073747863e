"""Two facts must agree."""

import json

import pytest

from costguard.cloud.api import CloudError, start_command
from costguard_aws import PROVIDER
from costguard_aws.testing import FakeMachine, Nature
from tests.clouds.aws.conftest import Launch


@pytest.mark.parametrize(
    ("tag", "name"),
    [("i-0123456789abcdef0", "i-0123456789abcdef0"), ("i-1234abcd", "i-1234abcd"), ("Not Specified", ""), ("", "")],
)
def test_the_firmware_of_nitro_names_the_instance(tag: str, name: str) -> None:
    """The board's asset tag, old and new length; bare metal may have its maker's tag there."""
    assert PROVIDER.instance_of({"sys_vendor": "Amazon EC2", "board_asset_tag": tag}) == name


def rewrite(here: FakeMachine, **change: object) -> None:
    path = "dynamic/instance-identity/document"
    here.imds.values[path] = json.dumps({**json.loads(here.imds.values[path]), **change})


def test_the_firmware_confirms_the_document(here: FakeMachine) -> None:
    """On Nitro the board's asset tag is the instance id."""
    who = PROVIDER.identify(here.site())
    assert (who.cloud, who.instance, who.region, who.zone, who.type) == (
        "AWS",
        here.id,
        "us-east-1",
        "us-east-1a",
        "g5g.xlarge",
    )
    assert who.market == "on-demand"
    assert who.details["account"] == "123456789012"
    assert any("firmware" in fact for fact in who.evidence)
    assert "meta-data/instance-id" not in here.imds.paths()


def test_without_it_the_metadata_must_agree_with_itself(here: FakeMachine) -> None:
    """On Xen the firmware does not know the id."""
    here.write("sys/class/dmi/id/board_asset_tag", "Not Specified\n")
    assert any("instance-id" in fact for fact in PROVIDER.identify(here.site()).evidence)


@pytest.mark.parametrize("tag", ["i-0fffffffffffffff0", ""])
def test_two_machines_are_none(here: FakeMachine, tag: str) -> None:
    """Something answers in place of the metadata service: nothing is done to either machine."""
    here.write("sys/class/dmi/id/board_asset_tag", f"{tag}\n")
    here.imds.values["meta-data/instance-id"] = "i-0fffffffffffffff0"
    with pytest.raises(CloudError, match="neither is touched") as caught:
        PROVIDER.identify(here.site())
    assert (caught.value.trouble, caught.value.technical) == ("changed", False)
    assert here.id in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [{"instanceId": "web-1"}, {"instanceId": 7}, {"instanceId": ""}, {"region": "moon"}, {"region": None}],
    ids=str,
)
def test_a_document_without_sense(here: FakeMachine, change: dict[str, object]) -> None:
    """Names of nothing are no identity."""
    rewrite(here, **change)
    with pytest.raises(CloudError) as caught:
        PROVIDER.identify(here.site())
    assert caught.value.code == "identity_garbage"


def test_another_cloud_that_imitates_ec2(here: FakeMachine) -> None:
    """It has instance-id and no identity document."""
    del here.imds.values["dynamic/instance-identity/document"]
    with pytest.raises(CloudError, match="may imitate EC2"):
        PROVIDER.identify(here.site())


@pytest.mark.parametrize(
    ("nature", "market"),
    [(Nature(spot="one-time"), "spot"), (Nature(block="cb-1"), "reserved"), (Nature(), "on-demand")],
)
def test_the_market(launch: Launch, nature: Nature, market: str) -> None:
    """From instance-life-cycle."""
    here = launch("g5g.xlarge", nature)
    assert PROVIDER.identify(here.site()).market == market


@pytest.mark.parametrize("said", ["", "something-new"])
def test_an_unknown_market_stays_unknown(here: FakeMachine, said: str) -> None:
    """A word of next year is not on-demand."""
    here.imds.values["meta-data/instance-life-cycle"] = said
    assert PROVIDER.identify(here.site()).market == ""


def test_the_command_that_starts_it_again_names_this_machine(here: FakeMachine) -> None:
    """As the AWS CLI takes it."""
    command = start_command(PROVIDER, PROVIDER.identify(here.site()))
    assert command == f"aws ec2 start-instances --region us-east-1 --instance-ids {here.id}"
