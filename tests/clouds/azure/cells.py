"""Action × circumstance on Azure, as data: what the plan must say, and the fact it rests on."""

from typing import Any, NamedTuple

from costguard.cloud.api import Verb
from costguard.plans import Verdict
from costguard_azure.testing import Disk, LockOn, ScaleSet
from costguard_azure.testing.world import ALL_RIGHTS, GROUP_RIGHTS

NV6 = "Standard_NV6ads_A10_v5"
HIBERNATES: dict[str, Any] = {"size": NV6, "hibernation": True}
GROUPED: dict[str, Any] = {"rights": [*ALL_RIGHTS, *GROUP_RIGHTS]}
LEAVE = {"group": "leave"}
BASE = ("bill_ends", "disks_go_on")
KEPT = ("disks_go_on",)  # of what is not done nobody says that the bill ends


def _without(right: str) -> dict[str, Any]:
    return {"rights": [each for each in ALL_RIGHTS if not each.endswith(right)]}


class Cell(NamedTuple):
    """One circumstance. ``faults`` are operations that are throttled for longer than a plan waits. ``disk`` is a local disk: its device, mount point and files (None: cannot be looked at)."""

    verb: Verb
    world: dict[str, Any]
    settings: dict[str, str]
    verdict: Verdict
    codes: tuple[str, ...]
    fact: str
    disk: tuple[str, str, tuple[str, ...]] | None = None
    faults: tuple[str, ...] = ()


BILLING = "States and billing status of Azure Virtual Machines"
SPOT = "Azure Spot Virtual Machines"
HIBERNATE = "Hibernate a virtual machine (limits)"
EPHEMERAL = "Ephemeral OS disks: stop-deallocate is not supported"
RESERVED = "On-demand capacity reservation: billed while reserved"
LOCKS = "Lock your resources: ReadOnly blocks POST, CanNotDelete blocks DELETE"
RIGHTS = "Permissions - List For Resource (2022-04-01); RBAC troubleshooting: assignments take minutes"
SCALE = "Scale sets: a member that is off is still a member; automatic repairs replace it"
AKS = "AKS FAQ: changes to nodes outside of AKS are not supported"
LOCAL = "Temporary disk: lost on deallocation"

CELLS: dict[str, Cell] = {
    # What ends and what goes on
    "a plain machine is stopped": Cell("stop", {}, {}, "go", BASE, BILLING),
    "a plain machine is deleted, its disks stay": Cell("terminate", {}, {}, "go", BASE, "Delete options: Detach"),
    "a machine is deleted with its system disk": Cell(
        *("terminate", {"system_disk": Disk("os", delete=True)}, {}, "consequences", ("bill_ends", "loses_disks")),
        "Delete options: Delete",
    ),
    "a machine is deleted, one of two disks goes": Cell(
        *("terminate", {"data_disks": [Disk("data", delete=True)]}, {}, "consequences"),
        *(("bill_ends", "disks_go_on", "loses_disks"), "Delete options of each disk"),
    ),
    # Hibernation
    "a small NV machine hibernates": Cell("hibernate", HIBERNATES, {}, "go", BASE, HIBERNATE),
    "hibernation is not enabled": Cell(
        *("hibernate", {"size": NV6}, {}, "another", (*KEPT, "cannot_hibernate")), "additionalCapabilities"
    ),
    "a T4 machine cannot hibernate": Cell(
        *("hibernate", {"hibernation": True}, {}, "another", (*KEPT, "cannot_hibernate")),
        f"{HIBERNATE}: NVv4 and NVads",
    ),
    "too much memory to hibernate": Cell(
        *("hibernate", {**HIBERNATES, "size": "Standard_NV18ads_A10_v5"}, {}, "another", (*KEPT, "cannot_hibernate")),
        f"{HIBERNATE}: at most 112 GB",
    ),
    "a size without a GPU is believed": Cell(
        "hibernate",
        {**HIBERNATES, "size": "Standard_D4s_v5"},
        {},
        "go",
        BASE,
        "Azure checked the size when it was enabled",
    ),
    "Spot cannot hibernate": Cell(
        *("hibernate", {**HIBERNATES, "priority": "Spot", "eviction": "Deallocate"}, {}, "another"),
        *((*KEPT, "cannot_hibernate", "spot_may_not_return"), f"{HIBERNATE}: not Spot"),
    ),
    "an availability set cannot hibernate": Cell(
        *("hibernate", {**HIBERNATES, "availability_set": True}, {}, "another", (*KEPT, "cannot_hibernate")), HIBERNATE
    ),
    "an ephemeral system disk cannot hibernate": Cell(
        *("hibernate", {**HIBERNATES, "ephemeral_os": True}, {}, "another"),
        *((*KEPT, "cannot_hibernate", "instance_store_root"), EPHEMERAL),
    ),
    "a reserved machine cannot hibernate": Cell(
        *("hibernate", {**HIBERNATES, "reservation": "block"}, {"prepaid": "act"}, "another"),
        *(("cannot_hibernate", "disks_go_on", "reservation_goes_on"), f"{HIBERNATE}: not in capacity reservations"),
    ),
    # Ephemeral system disks
    "an ephemeral system disk cannot be deallocated": Cell(
        *("stop", {"ephemeral_os": True}, {}, "another", (*KEPT, "instance_store_root")), EPHEMERAL
    ),
    "an ephemeral system disk can be deleted": Cell(
        *("terminate", {"ephemeral_os": True, "system_disk": Disk("os", delete=True)}, {}, "consequences"),
        *(("bill_ends", "loses_disks"), EPHEMERAL),
    ),
    # Local disks
    "an unmounted local disk": Cell(
        *("stop", {"temp_disk_kb": 184549376}, {}, "consequences", (*BASE, "local_data_lost"), LOCAL), ("sdb", "", ())
    ),
    "a mounted, empty local disk": Cell(
        *("stop", {"temp_disk_kb": 184549376}, {}, "consequences", (*BASE, "local_data_lost")),
        *(
            "cloud-init mounts it at /mnt with a warning",
            ("sdb", "/mnt", ("lost+found", "DATALOSS_WARNING_README.txt")),
        ),
    ),
    "a local disk with data": Cell(
        *("stop", {"temp_disk_kb": 184549376}, {}, "refuse", (*KEPT, "local_data_kept"), LOCAL),
        ("sdb", "/mnt", ("lost+found", "checkpoint.pt")),
    ),
    "a local disk with data, to be discarded": Cell(
        *("stop", {"temp_disk_kb": 184549376}, {"local_data": "discard"}, "consequences", (*BASE, "local_data_lost")),
        *(LOCAL, ("sdb", "/mnt", ("checkpoint.pt",))),
    ),
    "a local NVMe disk with data": Cell(
        *("terminate", {}, {}, "refuse", (*KEPT, "local_data_kept"), "azure-vm-utils: Microsoft NVMe Direct Disk"),
        ("nvme0n1", "/scratch", ("checkpoint.pt",)),
    ),
    "hibernation empties the local disk as well": Cell(
        *("hibernate", HIBERNATES, {}, "refuse", (*KEPT, "local_data_kept"), LOCAL), ("sdb", "/mnt", ("x",))
    ),
    # Spot
    "Spot is stopped": Cell(
        *("stop", {"priority": "Spot", "eviction": "Deallocate"}, {}, "consequences", (*BASE, "spot_may_not_return")),
        SPOT,
    ),
    "Spot is deleted": Cell("terminate", {"priority": "Spot", "eviction": "Delete"}, {}, "go", BASE, SPOT),
    # Prepaid
    "a reservation is billed anyway": Cell(
        "stop", {"reservation": "block"}, {}, "refuse", ("disks_go_on", "prepaid"), RESERVED
    ),
    "a reservation, and the owner wants it": Cell(
        *("stop", {"reservation": "block"}, {"prepaid": "act"}, "consequences", ("disks_go_on", "reservation_goes_on")),
        RESERVED,
    ),
    "a dedicated host is billed anyway": Cell(
        *("terminate", {"host": "host-1"}, {}, "refuse", ("disks_go_on", "prepaid")),
        "Dedicated hosts: billed by the host",
    ),
    # Rights
    "no right to deallocate": Cell(
        "stop", _without("deallocate/action"), {}, "refuse", (*KEPT, "not_permitted"), RIGHTS
    ),
    "no right to delete": Cell(
        "terminate", _without("virtualMachines/delete"), {}, "refuse", (*KEPT, "not_permitted"), RIGHTS
    ),
    "the right to deallocate is not needed to delete": Cell(
        "terminate", _without("deallocate/action"), {}, "go", BASE, RIGHTS
    ),
    "a right that is taken away again": Cell(
        *("stop", {"rights": ["*"], "not_rights": ["Microsoft.Compute/*/deallocate/action"]}, {}, "refuse"),
        *((*KEPT, "not_permitted"), "Role definitions: notActions are subtracted"),
    ),
    "a wide right is enough": Cell(
        "stop", {"rights": ["*/read", "microsoft.compute/virtualMachines/*"]}, {}, "go", BASE, "Compared without case"
    ),
    "a right that is late": Cell(
        "stop",
        {**_without("deallocate/action"), "age": 60.0},
        {},
        "consequences",
        (*BASE, "rights_may_be_late"),
        RIGHTS,
    ),
    "rights cannot be listed": Cell(
        "stop", _without("permissions/read"), {}, "consequences", (*BASE, "permission_unknown"), RIGHTS
    ),
    "locks cannot be listed": Cell(
        "stop", _without("locks/read"), {}, "consequences", (*BASE, "permission_unknown"), LOCKS
    ),
    "nobody could prove it": Cell(
        "stop", _without("instanceView/read"), {}, "consequences", (*BASE, "permission_unknown"), "Instance view"
    ),
    "the machine may not see itself": Cell(
        "stop", _without("virtualMachines/read"), {}, "refuse", ("not_permitted",), RIGHTS
    ),
    # Locks
    "a read-only lock": Cell("stop", {"locks": [LockOn()]}, {}, "refuse", (*KEPT, "locked"), LOCKS),
    "a read-only lock on the group": Cell(
        "hibernate", {**HIBERNATES, "locks": [LockOn(scope="group")]}, {}, "refuse", (*KEPT, "locked"), LOCKS
    ),
    "a lock against deletion, and a stop": Cell(
        *("stop", {"locks": [LockOn("CanNotDelete", "subscription")]}, {}, "consequences", (*BASE, "locked")),
        "azure-docs issue 50385: a stop was refused all the same",
    ),
    "a lock against deletion, and a deletion": Cell(
        "terminate", {"locks": [LockOn("CanNotDelete")]}, {}, "refuse", (*KEPT, "locked"), LOCKS
    ),
    "a lock on an extension, and a stop": Cell("stop", {"locks": [LockOn(scope="part")]}, {}, "go", BASE, LOCKS),
    "a lock on an extension, and a deletion": Cell(
        "terminate", {"locks": [LockOn("CanNotDelete", "part")]}, {}, "refuse", (*KEPT, "locked"), LOCKS
    ),
    # Scale sets
    "a member is told only": Cell(
        "stop", {**GROUPED, "scale_set": ScaleSet()}, {}, "refuse", (*KEPT, "group_member"), SCALE
    ),
    "a uniform member is told only": Cell(
        "terminate",
        {**GROUPED, "scale_set": ScaleSet(uniform=True)},
        {},
        "refuse",
        ("group_member", "loses_disks"),
        SCALE,
    ),
    "a member leaves": Cell(
        "terminate", {**GROUPED, "scale_set": ScaleSet()}, LEAVE, "consequences", (*BASE, "group_member"), SCALE
    ),
    "a uniform member leaves": Cell(
        *("terminate", {**GROUPED, "scale_set": ScaleSet(uniform=True)}, LEAVE, "consequences"),
        *(("bill_ends", "group_member", "loses_disks"), "Virtual Machine Scale Set VMs - Delete lowers the capacity"),
    ),
    "a member is stopped": Cell(
        "stop", {**GROUPED, "scale_set": ScaleSet(uniform=True)}, LEAVE, "consequences", (*BASE, "group_member"), SCALE
    ),
    "a member would be repaired": Cell(
        "stop", {**GROUPED, "scale_set": ScaleSet(repairs=True)}, LEAVE, "another", (*KEPT, "group_member"), SCALE
    ),
    "the set is at its minimum": Cell(
        *("terminate", {**GROUPED, "scale_set": ScaleSet(capacity=2, minimum=2)}, LEAVE, "refuse"),
        *((*KEPT, "group_at_minimum", "group_member"), "Autoscale: minimum of a profile"),
    ),
    "the set is above its minimum": Cell(
        *("terminate", {**GROUPED, "scale_set": ScaleSet(capacity=3, minimum=2)}, LEAVE, "consequences"),
        *((*BASE, "group_member"), "Autoscale: minimum of a profile"),
    ),
    "a protected member": Cell(
        *("terminate", {**GROUPED, "scale_set": ScaleSet(protected=True)}, LEAVE, "refuse"),
        *((*KEPT, "group_member", "protected"), "Instance protection: protectFromScaleSetActions"),
    ),
    "the set cannot be read": Cell(
        "stop", {"scale_set": ScaleSet()}, LEAVE, "consequences", (*BASE, "group_member", "permission_unknown"), SCALE
    ),
    "a uniform member cannot hibernate": Cell(
        *("hibernate", {**GROUPED, **HIBERNATES, "scale_set": ScaleSet(uniform=True)}, LEAVE, "another"),
        *((*KEPT, "cannot_hibernate", "group_member"), f"{HIBERNATE}: not uniform scale sets"),
    ),
    "a uniform Spot member says so in its metadata alone": Cell(
        *("stop", {**GROUPED, "priority": "Spot", "scale_set": ScaleSet(uniform=True)}, LEAVE, "consequences"),
        *((*BASE, "group_member", "spot_may_not_return"), "The instance's document has no priority"),
    ),
    # Managed nodes
    "a node of AKS by its group": Cell(
        "stop", {"group": "MC_lab_cluster_eastus"}, LEAVE, "refuse", (*KEPT, "managed_node"), AKS
    ),
    "a node of AKS by its tags": Cell(
        *(
            "terminate",
            {**GROUPED, "tags": {"aks-managed-poolName": "gpu"}, "scale_set": ScaleSet(uniform=True)},
            LEAVE,
        ),
        *("refuse", ("group_member", "loses_disks", "managed_node"), AKS),
    ),
    "a node of AKS by its scale set": Cell(
        *("stop", {**GROUPED, "scale_set": ScaleSet("aks-gpu-12345678-vmss")}, LEAVE, "refuse"),
        *((*KEPT, "group_member", "managed_node"), AKS),
    ),
    "a node of Databricks": Cell(
        "stop", {"tags": {"Vendor": "Databricks"}}, {}, "refuse", (*KEPT, "managed_node"), "Databricks: default tags"
    ),
    "a node of CycleCloud": Cell(
        *("stop", {"tags": {"CycleCloudCluster": "/sites/1/clusters/c", "CycleOwner": "ann"}}, {}, "refuse"),
        *((*KEPT, "managed_node"), "CycleCloud: tag nodes"),
    ),
    "a node of CycleCloud before 8.2": Cell(
        *("stop", {"tags": {"ClusterId": "1", "ClusterName": "c", "Name": "execute-1"}}, {}, "refuse"),
        *((*KEPT, "managed_node"), "CycleCloud: tag nodes"),
    ),
    "a cluster's name alone is anybody's": Cell(
        "stop", {"tags": {"ClusterName": "c"}}, {}, "go", BASE, "CycleCloud: tag nodes"
    ),
    "a node of Ray": Cell(
        *("terminate", {"tags": {"ray-cluster-name": "c", "ray-node-type": "worker"}}, {}, "refuse"),
        *((*KEPT, "managed_node"), "ray: tags.py"),
    ),
    "a node of SkyPilot": Cell(
        *("stop", {"tags": {"skypilot-cluster-name": "c", "ray-cluster-name": "c"}}, {}, "refuse"),
        *((*KEPT, "managed_node"), "SkyPilot: provision/constants.py"),
    ),
    "a node of dstack": Cell(
        "stop", {"tags": {"owner": "dstack", "dstack_project": "p"}}, {}, "refuse", (*KEPT, "managed_node"), "dstack"
    ),
    "a node of Batch": Cell(
        "stop", {"group": "azurebatch-11112222"}, LEAVE, "refuse", (*KEPT, "managed_node"), "Batch: user subscription"
    ),
    "a node of Ray, and the owner says that it is none": Cell(
        *("stop", {"tags": {"ray-cluster-name": "c"}}, {"managed": "standalone"}, "consequences"),
        *((*BASE, "managed_node"), "the owner's own word"),
    ),
    # Identity and state
    "it is going already": Cell("stop", {"power": "deallocating"}, {}, "go", ("ends_already",), BILLING),
    "it is gone already": Cell("terminate", {"power": "deallocated"}, {}, "go", ("ends_already",), BILLING),
    "it goes already, without a right": Cell(
        "stop", {"power": "deallocating", **_without("deallocate/action")}, {}, "go", ("ends_already",), BILLING
    ),
    "it is stopped from inside, which is billed": Cell(
        "stop", {"power": "stopped"}, {}, "refuse", (*KEPT, "not_running"), BILLING
    ),
    # Facts that a technical failure hides
    "rights unread": Cell(
        "stop", {}, {}, "failed", (*KEPT, "permission_unknown"), "throttling passes", faults=("permissions",)
    ),
    "locks unread": Cell("stop", {}, {}, "failed", (*KEPT, "facts_missing"), "throttling passes", faults=("locks",)),
    "locks unread, and a deletion": Cell(
        "terminate", {}, {}, "failed", (*KEPT, "facts_missing"), "throttling passes", faults=("locks",)
    ),
    "a right is missing, and locks unread": Cell(
        *("stop", _without("deallocate/action"), {}, "refuse", (*KEPT, "facts_missing", "not_permitted")),
        "a veto that is known needs nothing else",
        faults=("locks",),
    ),
    "the set is unread": Cell(
        *("stop", {**GROUPED, "scale_set": ScaleSet()}, LEAVE, "failed", (*KEPT, "facts_missing", "group_member")),
        "throttling passes; whether the set repairs is not known",
        faults=("scale_set",),
    ),
    "the set is unread, and a deletion": Cell(
        *("terminate", {**GROUPED, "scale_set": ScaleSet()}, LEAVE, "failed"),
        *((*KEPT, "facts_missing", "group_member"), "throttling passes; its capacity is not known"),
        faults=("scale_set",),
    ),
    "its minimum is unread": Cell(
        *("terminate", {**GROUPED, "scale_set": ScaleSet()}, LEAVE, "failed"),
        *((*KEPT, "facts_missing", "group_member"), "Autoscale: minimum of a profile"),
        faults=("autoscale",),
    ),
    "its minimum is unread, and a stop": Cell(
        *("stop", {**GROUPED, "scale_set": ScaleSet()}, LEAVE, "consequences"),
        *((*BASE, "facts_missing", "group_member"), "a stop leaves the size as it is"),
        faults=("autoscale",),
    ),
    "a member that is told only, and the set unread": Cell(
        *("stop", {**GROUPED, "scale_set": ScaleSet()}, {}, "refuse", (*KEPT, "group_member"), SCALE),
        faults=("scale_set",),
    ),
    "it is starting": Cell("stop", {"power": "starting"}, {}, "go", BASE, BILLING),
}
