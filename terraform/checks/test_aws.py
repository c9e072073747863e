"""The AWS module, planned and applied against a local stand-in of EC2, IAM and Auto Scaling."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer

from costguard_aws import permissions
from terraform.checks.conftest import WHEEL, Terraform

REGION = "eu-west-1"
pytestmark = pytest.mark.timeout(900)
"""Terraform starts the provider eight times in a test, each time for as long as 20 s beside other work."""


@pytest.fixture(scope="module")
def cloud() -> Iterator[str]:
    """The address of the stand-in."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


def example(modules: Path, cloud: str, name: str) -> Terraform:
    """An example, with Terraform set up for the stand-in."""
    environment = {
        "AWS_ACCESS_KEY_ID": "stand-in", "AWS_SECRET_ACCESS_KEY": "stand-in", "AWS_REGION": REGION,
        "AWS_ENDPOINT_URL": cloud, "AWS_EC2_METADATA_DISABLED": "true",
    }  # fmt: skip
    one = Terraform(modules / "aws/examples" / name, environment)
    one.run("init")
    return one


def client(cloud: str, service: str) -> boto3.client:
    """The stand-in, asked beside Terraform."""
    keys = {"aws_access_key_id": "stand-in", "aws_secret_access_key": "stand-in"}
    return boto3.client(service, region_name=REGION, endpoint_url=cloud, **keys)


@pytest.fixture(scope="module")
def ami(cloud: str) -> str:
    """Any image of the stand-in."""
    return str(client(cloud, "ec2").describe_images()["Images"][0]["ImageId"])


def test_the_complete_example_is_applied_destroyed_and_applied_again(modules: Path, cloud: str, ami: str) -> None:
    """Without a difference each time. A changed setting touches no instance, and without `ignore_changes` replaces none."""
    terraform = example(modules, cloud, "complete")
    given = {**WHEEL, "ami": ami}
    first = terraform.apply(**given)
    assert terraform.changes(**given, kill_duration="30m") == {}, "ignore_changes keeps the instance as it is"

    policy = client(cloud, "iam").get_role_policy(RoleName="training", PolicyName="costguard")["PolicyDocument"]
    wanted = json.loads(permissions.policy(("stop",), tag=True))["Statement"]
    assert policy["Statement"][:-1] == wanted
    assert policy["Statement"][-1]["Action"] == ["secretsmanager:GetSecretValue"]
    assert ":secret:costguard/team-" in policy["Statement"][-1]["Resource"]

    main = terraform.folder / "main.tf"
    written = main.read_text(encoding="utf-8")
    main.write_text(written.replace("ignore_changes = [user_data, user_data_base64]", ""), encoding="utf-8")
    try:
        changes = terraform.changes(**given, kill_duration="30m")
    finally:
        main.write_text(written, encoding="utf-8")
    assert changes == {"aws_instance.gpu": "update"}, "EC2 stops and starts it; it is not replaced"

    terraform.run("destroy", "-auto-approve", "-input=false", *(f"-var={name}={text}" for name, text in given.items()))
    second = terraform.apply(**given)
    assert terraform.changes(**given) == {}
    assert (second["config"], second["instance_id"] != first["instance_id"]) == (first["config"], True)


def test_the_group_rolls_a_changed_setting_out_without_a_restart(modules: Path, cloud: str, ami: str) -> None:
    """A new version of the launch template, in place; the right to leave is for this group alone."""
    terraform = example(modules, cloud, "group")
    subnet = client(cloud, "ec2").describe_subnets()["Subnets"][0]["SubnetId"]
    given = {**WHEEL, "ami": ami, "subnets": [subnet]}
    terraform.apply(**given)
    changes = terraform.changes(**given, kill_duration="30m")
    assert changes == {"aws_launch_template.workers": "update"}
    policy = client(cloud, "iam").get_role_policy(RoleName="costguard-workers", PolicyName="costguard-workers")
    statement = policy["PolicyDocument"]["Statement"][-1]
    assert statement["Action"] == ["autoscaling:TerminateInstanceInAutoScalingGroup"]
    assert [arn.rpartition("/")[2] for arn in statement["Resource"]] == ["gpu-workers"]


def test_the_minimal_example_is_planned_from_nothing(modules: Path, cloud: str, ami: str) -> None:
    """It creates the instance, and the identity that it asks for."""
    changes = example(modules, cloud, "minimal").changes(**WHEEL, ami=ami)
    made = ("aws_iam_instance_profile.this[0]", "aws_iam_role.this[0]", "aws_iam_role_policy.created[0]")
    assert changes == dict.fromkeys(["aws_instance.gpu", *(f"module.costguard.{name}" for name in made)], "create")
