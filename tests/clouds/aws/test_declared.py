"""Rights, policy and prices: what is declared."""

import csv
import json
import re
import shlex
import subprocess
from fnmatch import fnmatchcase
from itertools import combinations
from pathlib import Path

import pytest

import costguard_aws
from costguard.cloud.api import Identity, Verb
from costguard_aws import PROVIDER
from costguard_aws.permissions import group_policy
from costguard_aws.testing import FakeMachine
from tests.clouds.aws.cases import CELLS
from tests.clouds.aws.conftest import opened

VERBS: tuple[Verb, ...] = ("stop", "terminate", "hibernate")
SETS = [verbs for count in (1, 2, 3) for verbs in combinations(VERBS, count)]


def who(kind: str, region: str = "us-east-1", market: str = "on-demand") -> Identity:
    return Identity("AWS", "i-1", region, f"{region}a", kind, market, {}, ())


@pytest.mark.parametrize("verbs", SETS, ids="+".join)
def test_the_policy_grants_what_is_declared_and_nothing_else(verbs: tuple[Verb, ...]) -> None:
    """Rights with an effect hold for the instance itself only; looks take no resource."""
    statements = json.loads(PROVIDER.policy(verbs))["Statement"]
    granted = [action for statement in statements for action in statement["Action"]]
    in_group = {"autoscaling:EnterStandby", "autoscaling:TerminateInstanceInAutoScalingGroup"}
    declared = {right.name for right in PROVIDER.permissions(verbs)}
    assert sorted(granted) == sorted(declared - in_group)
    for statement in statements:
        if statement["Resource"] == "*":
            assert all(action.partition(":")[2].startswith("Describe") for action in statement["Action"])
        else:
            assert statement["Condition"] == {"StringLike": {"aws:userid": "*:${ec2:InstanceID}"}}


@pytest.mark.parametrize("verbs", SETS, ids="+".join)
def test_the_rights_on_a_group_are_granted_apart(verbs: tuple[Verb, ...]) -> None:
    """Only who sets cloud.group = "leave" needs them, and they hold for one group."""
    text = group_policy(verbs)
    declared = [right.name for right in PROVIDER.permissions(verbs) if right.why.endswith('cloud.group = "leave"')]
    assert bool(text) == bool(declared) == bool({"stop", "terminate"} & set(verbs))
    for statement in json.loads(text)["Statement"] if text else ():
        assert statement["Action"] == declared
        assert statement["Resource"].endswith(":autoScalingGroupName/GROUP")


def test_the_commands_are_whole() -> None:
    """A policy that a shell takes as it stands: nothing in it but the group's name is left to fill in."""
    lines = PROVIDER.commands(("stop", "terminate")).splitlines()
    documents = [part for line in lines for part in shlex.split(line, comments=True) if part.startswith("{")]
    assert [len(json.loads(text)["Statement"]) for text in documents] == [1, 1]
    assert [line.split()[:3] for line in lines if "put-role-policy" in line] == [["aws", "iam", "put-role-policy"]] * 2
    assert "GROUP" not in PROVIDER.commands(("hibernate",))


@pytest.mark.parametrize("partition", ["aws", "aws-cn", "aws-us-gov", "aws-iso", "aws-eusc"])
def test_the_policies_match_in_every_partition(partition: str) -> None:
    """A name of an instance, or of a group, begins with its partition: China and GovCloud have their own."""
    statements = [
        *json.loads(PROVIDER.policy(VERBS, tag=True))["Statement"],
        *json.loads(group_policy(VERBS))["Statement"],
    ]
    names = {
        "ec2": f"arn:{partition}:ec2:xx-north-1:123456789012:instance/i-0123456789abcdef0",
        "autoscaling": f"arn:{partition}:autoscaling:xx-north-1:123456789012:autoScalingGroup:uuid:autoScalingGroupName/GROUP",
    }
    effects = [statement for statement in statements if statement["Resource"] != "*"]
    assert len(effects) == 3
    for statement in effects:
        (service,) = {action.partition(":")[0] for action in statement["Action"]}
        assert fnmatchcase(names[service], statement["Resource"])
        assert not fnmatchcase(f"arn:{partition}:ec2:xx-north-1:123456789012:volume/vol-1", statement["Resource"])


def test_the_role_of_china_has_a_service_of_its_own() -> None:
    """One line to change, and the shell puts it into the role."""
    commands = PROVIDER.commands(("stop",))
    assert "in the regions of China the service is ec2.amazonaws.com.cn" in commands
    (create,) = [line for line in commands.splitlines() if "create-role" in line]
    script = f"SERVICE=ec2.amazonaws.com.cn; aws() {{ printf '%s' \"$6\"; }}; {create}"
    role = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout
    assert json.loads(role)["Statement"][0]["Principal"] == {"Service": "ec2.amazonaws.com.cn"}
    assert "arn:aws:" not in commands


@pytest.mark.parametrize("verb", VERBS)
def test_no_right_is_used_that_is_not_declared(here: FakeMachine, verb: Verb) -> None:
    """What the plug-in really calls."""
    here.join()
    with opened(here) as session:
        session.plan(verb, session.facts(verb))
    declared = {right.name.partition(":")[2] for right in PROVIDER.permissions((verb,))}
    assert {request.action for request in here.api.log} <= declared


def test_prices_are_the_table() -> None:
    """Every row can be asked for, and names its region, date and source."""
    table = Path(costguard_aws.__file__).with_name("prices.csv")
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert len(rows) >= 60
    for row in rows:
        price = PROVIDER.price(who(row["type"], row["region"]))
        assert price is not None
        assert (price.amount, price.currency, price.region) == (float(row["usd_per_hour"]), "USD", row["region"])
        assert price.date
        assert price.source


def test_a_price_of_another_region_says_so() -> None:
    """An estimate of the right size, under its own region's name."""
    price = PROVIDER.price(who("g5.xlarge", "eu-central-1"))
    assert price is not None
    assert price.region == "us-east-1"


def test_a_list_price_is_not_what_they_pay() -> None:
    """A Spot machine costs that much at most; what a prepaid one costs is unknown."""
    assert PROVIDER.price(who("g5.xlarge", market="reserved")) is None
    listed, spot = PROVIDER.price(who("g5.xlarge")), PROVIDER.price(who("g5.xlarge", market="spot"))
    assert listed is not None
    assert listed.kind == "list"
    assert spot == listed._replace(kind="limit")


def test_the_page_says_what_the_code_does() -> None:
    """Policy, rights and codes of the documentation."""
    page = (Path(__file__).parents[3] / "docs/clouds-aws.md").read_text(encoding="utf-8")
    assert f"```json\n{PROVIDER.policy(('stop',))}\n```" in page
    assert f"```sh\n{PROVIDER.commands(('stop',))}\n```" in page
    for right in PROVIDER.permissions(VERBS):
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `{right.name}`")]
        assert row.endswith("| yes |" if right.needed else "| no |")
    written = set(re.findall(r"`([a-z_]+)`", page.partition("## Codes of the plan")[2].partition("## Limits")[0]))
    used = {code for cell in CELLS for code in cell.codes.split()}
    assert used <= written
    assert written - used <= {"disks_go_on", "stop", "terminate"}
