"""The stand-ins refuse what the real services refuse; asked with nothing of the plug-in."""

import http.client
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.exceptions import ClientError

from costguard_aws.testing import FakeMachine, Imds, Nature
from tests.clouds.aws.conftest import Launch

TTL = "X-aws-ec2-metadata-token-ttl-seconds"
TOKEN = "X-aws-ec2-metadata-token"


def ask(imds: Imds, method: str, path: str, **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(urlsplit(imds.url).netloc, timeout=5)
    connection.request(method, path, headers=headers)
    with connection.getresponse() as response:
        found = response.status, response.read().decode()
    connection.close()
    return found


def token(imds: Imds) -> str:
    return ask(imds, "PUT", "/latest/api/token", **{TTL: "60"})[1]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({TTL: "1"}, 200),
        ({TTL: "21600"}, 200),
        ({TTL: "21601"}, 400),
        ({TTL: "0"}, 400),
        ({TTL: "soon"}, 400),
        ({}, 400),
        ({TTL: "60", "X-Forwarded-For": "10.0.0.1"}, 403),
    ],
    ids=str,
)
def test_tokens(imds: Imds, headers: dict[str, str], status: int) -> None:
    """A life within the range, and no proxy on the way."""
    assert ask(imds, "PUT", "/latest/api/token", **headers)[0] == status


@pytest.mark.parametrize("headers", [{}, {TOKEN: "made-up"}, {TOKEN: ""}], ids=str)
def test_nothing_without_a_token(imds: Imds, headers: dict[str, str]) -> None:
    """Version 1 is off."""
    imds.values["meta-data/instance-id"] = "i-1"
    assert ask(imds, "GET", "/latest/meta-data/instance-id", **headers)[0] == 401


def test_folders_are_lists(imds: Imds) -> None:
    """Names below a folder, folders with a slash."""
    imds.values |= {"meta-data/a": "1", "meta-data/b/c": "2"}
    assert ask(imds, "GET", "/latest/meta-data/", **{TOKEN: token(imds)}) == (200, "a\nb/")
    assert ask(imds, "GET", "/latest/other", **{TOKEN: token(imds)})[0] == 404


def refused(here: FakeMachine, call: str = "stop_instances", **more: Any) -> tuple[int, str, str]:
    with pytest.raises(ClientError) as caught:
        getattr(here.ec2, call)(InstanceIds=[here.id], **more)
    response = caught.value.response
    return response["ResponseMetadata"]["HTTPStatusCode"], response["Error"]["Code"], response["Error"]["Message"]


@pytest.mark.parametrize(
    ("kind", "nature", "more", "code", "words"),
    [
        ("g5g.xlarge", Nature(spot="one-time"), {}, "UnsupportedOperation", "one-time Spot Instance request"),
        ("g5g.xlarge", Nature(), {"Hibernate": True}, "UnsupportedHibernationConfiguration", "not hibernation enabled"),
        ("g5.xlarge", Nature(hibernation=True), {"Hibernate": True}, "UnsupportedHibernationConfiguration", "not hib"),
        ("g5g.xlarge", Nature(root_device="instance-store"), {}, "UnsupportedOperation", "root device type"),
    ],
)
def test_what_cannot_stop(
    launch: Launch, kind: str, nature: Nature, more: dict[str, Any], code: str, words: str
) -> None:
    """With the codes and words of EC2, and without an effect."""
    here = launch(kind, nature)
    status, said, message = refused(here, **more)
    assert (status, said) == (400, code)
    assert words in message
    assert here.state == "running"


def test_a_persistent_spot_request_can_stop(launch: Launch) -> None:
    """And its instance is seen stopping first."""
    here = launch("g5g.xlarge", Nature(spot="persistent"))
    here.ec2.stop_instances(InstanceIds=[here.id])
    seen = [here.ec2.describe_instances(InstanceIds=[here.id]) for _ in range(2)]
    states = [answer["Reservations"][0]["Instances"][0]["State"]["Name"] for answer in seen]
    assert states == ["stopping", "stopped"]


def test_the_terminated_stay_so(here: FakeMachine) -> None:
    """The test server alone would bring it back to *stopped*."""
    here.ec2.terminate_instances(InstanceIds=[here.id])
    assert refused(here)[1] == "IncorrectInstanceState"
    assert here.state == "terminated"


@pytest.mark.parametrize(
    ("call", "attribute", "done"),
    [
        ("stop_instances", "disableApiStop", "stopped"),
        ("terminate_instances", "disableApiStop", "terminated"),
        ("terminate_instances", "disableApiTermination", "terminated"),
    ],
)
def test_protection(here: FakeMachine, call: str, attribute: str, done: str) -> None:
    """Each flag in its own words."""
    name = attribute[0].upper() + attribute[1:]
    here.ec2.modify_instance_attribute(InstanceId=here.id, **{name: {"Value": True}})
    status, code, message = refused(here, call)
    assert (status, code) == (400, "OperationNotPermitted")
    assert message == (
        f"The instance '{here.id}' may not be {done}. Modify its '{attribute}' instance attribute and try again."
    )


def test_a_dry_run_sees_rights_alone(launch: Launch) -> None:
    """Neither the market nor anything else; a denied right is 403."""
    here = launch("g5g.xlarge", Nature(spot="one-time"))
    assert refused(here, DryRun=True)[:2] == (412, "DryRunOperation")
    here.api.denied = {"StopInstances"}
    assert refused(here, DryRun=True)[:2] == (403, "UnauthorizedOperation")


@pytest.mark.parametrize("value", ["x" * 257, "a\nb", "<b>"])
def test_a_tag_that_ec2_would_not_take(here: FakeMachine, value: str) -> None:
    """Too long, or with other characters than it documents."""
    with pytest.raises(ClientError) as caught:
        here.ec2.create_tags(Resources=[here.id], Tags=[{"Key": "k", "Value": value}])
    assert caught.value.response["Error"]["Code"] == "InvalidParameterValue"
