"""Least privilege: the role is made from the declarations, and it is enough on the stand-ins."""

import json
from itertools import combinations
from pathlib import Path
from typing import get_args

import pytest

from costguard.cloud.api import Ticket, Verb
from costguard_azure import Azure, permissions
from costguard_azure.machine import AzureMachine
from costguard_azure.permissions import Grant
from costguard_azure.testing import FakeAzure

VERBS: tuple[Verb, ...] = get_args(Verb)
SETS = [verbs for count in (1, 2, 3) for verbs in combinations(VERBS, count)]


@pytest.mark.parametrize("verb", VERBS)
def test_the_role_is_enough_and_no_more_than_that(azure: FakeAzure, verb: Verb) -> None:
    """With exactly its rights the action works and is proven; without its own right it does not."""
    azure.world.size, azure.world.hibernation = "Standard_NV6ads_A10_v5", True
    role = json.loads(Azure().policy((verb,)))
    azure.world.rights = list(role["Actions"])
    machine = AzureMachine(azure.site(), Azure().identify(azure.site()))
    facts = machine.facts(verb)
    assert facts.unknown == {}
    assert machine.plan(verb, facts).verdict == "go"
    ticket = Ticket("i", "a", 5.0)
    assert machine.execute(verb, facts, ticket).status == "accepted"
    assert machine.confirm(verb, ticket, None).status == "done"
    machine.close()
    assert {entry.status for entry in azure.log} <= {200, 202, 404}


@pytest.mark.parametrize("verbs", SETS, ids=" ".join)
def test_the_role_grants_what_is_declared(verbs: tuple[Verb, ...]) -> None:
    """Nothing more; assignable somewhere; a name of its own."""
    role = json.loads(Azure().policy(verbs))
    assert role["Actions"] == [permission.name for permission in Azure().permissions(verbs)]
    assert ("Microsoft.Compute/virtualMachines/delete" in role["Actions"]) is ("terminate" in verbs)
    assert not any("*" in action for action in role["Actions"])
    assert role["AssignableScopes"] == ["/subscriptions/SUBSCRIPTION/resourceGroups/RESOURCE_GROUP"]
    assert len({json.loads(Azure().policy(each))["Name"] for each in SETS}) == len(SETS)


def test_only_looking_ahead_is_optional() -> None:
    """Rights that make plans better are marked so."""
    optional = {permission.name for permission in Azure().permissions(VERBS) if not permission.needed}
    assert optional == {permissions.SEE_RIGHTS, permissions.SEE_LOCKS}


def test_the_commands_name_role_and_machine() -> None:
    """What a person pastes."""
    text = permissions.commands(("stop",), "/subscriptions/s/vm")
    assert [line.split()[1:4] for line in text.splitlines() if line.startswith("az ")] == [
        ["role", "definition", "create"],
        ["vm", "identity", "assign"],
        ["role", "assignment", "create"],
    ]
    assert "--scope /subscriptions/s/vm" in text
    assert "'costguard stop'" in text


@pytest.mark.parametrize("tag", [False, True])
def test_the_commands_bind_the_role_that_the_policy_names(*, tag: bool) -> None:
    """A role of another name would grant other rights, or none."""
    name = json.loads(Azure().policy(("stop",), tag=tag))["Name"]
    assert f"--role '{name}' --scope " in Azure().commands(("stop",), tag=tag)


def test_the_page_shows_the_role_and_the_commands() -> None:
    """The documentation is compared with the code, so it cannot drift."""
    page = (Path(__file__).parents[3] / "docs/clouds-azure.md").read_text(encoding="utf-8")
    assert Azure().policy(("stop",)) in page
    assert permissions.commands(("stop",)) in page
    for permission in Azure().permissions(VERBS):
        assert f"`{permission.name}`" in page


@pytest.mark.parametrize(
    ("grant", "allowed"),
    [
        (Grant(("*",)), True),
        (Grant(("Microsoft.Compute/*/action",)), True),
        (Grant(("microsoft.compute/virtualmachines/DEALLOCATE/action",)), True),
        (Grant(("Microsoft.Compute/virtualMachines/read",)), False),
        (Grant(("*",), ("Microsoft.Compute/virtualMachines/*",)), False),
        (Grant(()), False),
    ],
)
def test_patterns(grant: Grant, *, allowed: bool) -> None:
    """As Azure compares them."""
    assert grant.allows(permissions.right("stop")) is allowed
