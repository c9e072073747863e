"""The plan is a function of facts: what the stand-ins cannot show is given as facts."""

import pytest

from costguard.cloud.api import CloudError, Verb
from costguard.cloud.local_disks import State, Use
from costguard.plans import Plan
from costguard_azure import resource
from costguard_azure.facts import Facts, Group, Vm
from costguard_azure.permissions import Grant
from costguard_azure.rules import plan

ID = "/subscriptions/s/resourceGroups/lab/providers/Microsoft.Compute/virtualMachines/trainer"
MACHINE = resource.parse(ID)
VM = Vm("vm-1", "Standard_NC4as_T4_v3", "running", disks_kept=("os",))


def facts(vm: Vm | None = VM, disk: State | None = None, trouble: str = "", *, young: bool = False) -> Facts:
    assert MACHINE is not None
    found = Use(disk) if disk else None
    return Facts(
        MACHINE, "vm-1", vm, (Grant(("*",)),), (), found, young, trouble, {"the machine": CloudError("denied", "words")}
    )


def outcome(made: Plan) -> tuple[str, list[str]]:
    return made.verdict, [finding.code for finding in made.findings]


@pytest.mark.parametrize(
    ("trouble", "young", "expected"),
    [
        ("gone", False, ("refuse", ["not_this_machine"])),
        ("denied", False, ("refuse", ["not_permitted"])),
        ("denied", True, ("consequences", ["rights_may_be_late"])),
        ("refused", False, ("refuse", ["facts_missing"])),
    ],
)
def test_without_the_machines_own_document(trouble: str, expected: tuple[str, list[str]], *, young: bool) -> None:
    """Nothing else is judged, and nothing is claimed about bill and disks."""
    made = plan("stop", facts(None, trouble=trouble, young=young), {})
    assert outcome(made) == expected
    assert (made.ends_bill, made.keeps_disks) == (None, None)
    assert "words" in made.findings[0].text


@pytest.mark.parametrize(
    ("disk", "settings", "verdict", "code"),
    [
        ("unknown", {}, "refuse", "local_data_kept"),
        ("unknown", {"local_data": "discard"}, "consequences", "local_data_lost"),
        ("used", {"local_data": "keep"}, "refuse", "local_data_kept"),
    ],
)
def test_a_local_disk_that_may_be_in_use(disk: State, settings: dict[str, str], verdict: str, code: str) -> None:
    """Unknown is never unused."""
    made = plan("stop", facts(disk=disk), settings)
    assert made.verdict == verdict
    assert code in {finding.code for finding in made.findings}


@pytest.mark.parametrize(
    ("vm", "verb", "ends_bill", "keeps_disks"),
    [
        (VM, "stop", True, True),
        (VM, "terminate", True, True),
        (VM._replace(disks_deleted=("os",)), "terminate", True, False),
        (VM._replace(disks_deleted=("os",)), "stop", True, True),
        (VM._replace(reservation="block"), "stop", False, True),
        (VM._replace(host="h"), "terminate", False, True),
    ],
)
def test_bill_and_disks(vm: Vm, verb: Verb, *, ends_bill: bool, keeps_disks: bool) -> None:
    """The two facts that a fall-back list goes by."""
    made = plan(verb, facts(vm), {})
    assert (made.ends_bill, made.keeps_disks) == (ends_bill, keeps_disks)


def test_another_machine_has_the_name() -> None:
    """The id is compared without regard to case, and decides."""
    assert plan("stop", facts(VM._replace(vm_id="vm-2")), {}).findings[0].code == "not_this_machine"
    assert plan("stop", facts(VM), {}).verdict == "go"


def test_a_plan_names_every_reason() -> None:
    """A person who removes one obstacle does not meet the next one afterwards."""
    vm = VM._replace(
        reservation="block", owner=("Azure Kubernetes Service", "its group"), group=Group("gpus", uniform=False)
    )
    codes = {finding.code for finding in plan("stop", facts(vm, disk="used"), {}).findings}
    assert codes >= {"prepaid", "managed_node", "group_member", "local_data_kept"}


@pytest.mark.parametrize("power", ["stopping", "stopped"])
@pytest.mark.parametrize(
    ("path", "command"),
    [
        (ID, f"az vm deallocate --ids {ID}"),
        (
            "/subscriptions/s/resourceGroups/lab/providers/Microsoft.Compute/virtualMachineScaleSets/gpus/virtualMachines/7",
            "az vmss deallocate -g lab -n gpus --instance-ids 7",
        ),
    ],
)
def test_what_is_stopped_from_inside_is_billed(power: str, path: str, command: str) -> None:
    """Nothing here ends it, so people are told that it costs as much as before, and what ends it."""
    machine = resource.parse(path)
    assert machine is not None
    made = plan("stop", facts(VM._replace(power=power))._replace(machine=machine), {})
    (found,) = [one for one in made.findings if one.code == "not_running"]
    assert "billed in full" in found.text
    assert command in found.hint
