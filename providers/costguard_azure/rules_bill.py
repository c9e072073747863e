"""Rules about the machine itself: what it costs when it is off, what is lost, whether it can come back.

Sources: Azure documentation "States and billing status", "Ephemeral OS disks" (cannot be deallocated),
"Hibernate a virtual machine", "On-demand capacity reservation" and "Dedicated hosts" (billed while they
exist), "Spot virtual machines", "Delete a machine and attached resources" (delete options of disks).
"""

import re

from costguard.cloud import rules
from costguard.cloud.rules import Found, disks_deleted, disks_kept, instead
from costguard.plans import PlanFinding
from costguard_azure.facts import AzureCase, Vm

HIBERNATES = re.compile(r"standard_nv(?:(?:4|8|16|32)as_v4|(?:6|12)ads_a10_v5|(?:4|8|12)ads_v710_v5)", re.IGNORECASE)
"""GPU sizes that can hibernate: NVv4, NVadsA10_v5 and NVadsV710_v5 with at most 112 GB of memory."""
_GPU = re.compile(r"standard_n", re.IGNORECASE)


def prepaid(case: AzureCase) -> Found:
    """What is reserved is billed whether it is used or not."""
    vm = case.vm
    group = f"the capacity reservation group {vm.reservation}" if vm.reservation else ""
    yield from rules.prepaid(case, group or (f"the dedicated host {vm.host}" if vm.host else ""))


def system_disk(case: AzureCase) -> Found:
    """A machine whose system disk is on the host cannot be deallocated."""
    if case.vm.ephemeral_os and case.verb != "terminate":
        text = f"this machine cannot {case.verb}, only be deleted: its system disk is ephemeral"
        yield instead("instance_store_root", text, 'set kill_action = "terminate" if its disks may be deleted')


def hibernation(case: AzureCase) -> Found:
    """Hardly any GPU machine can hibernate."""
    why = _cannot_hibernate(case.vm) if case.verb == "hibernate" else ""
    if why:
        yield rules.cannot_hibernate(why)


def _cannot_hibernate(vm: Vm) -> str:
    """The first reason, in words; empty when there is none."""
    reasons = (
        (bool(_GPU.match(vm.size)) and not HIBERNATES.fullmatch(vm.size), f"the size {vm.size} does not support it"),
        (vm.spot, "it is a Spot machine"),
        (vm.group is not None and vm.group.uniform, "it is in a uniform scale set"),
        (bool(vm.reservation), "it is in a capacity reservation"),
        (vm.ephemeral_os, "its system disk is ephemeral"),
        (vm.availability_set, "it is in an availability set"),
        (not vm.hibernation, "it is not enabled (`az vm update --enable-hibernation true` while deallocated)"),
    )
    return next((message for applies, message in reasons if applies), "")


def local_disk(case: AzureCase) -> Found:
    """Deallocation and deletion both empty the local disk."""
    if case.facts.disk is not None:
        yield from rules.local_data(case, "the local disks", case.facts.disk)


def spot(case: AzureCase) -> Found:
    """Source: "Spot virtual machines": a deallocated one starts again only when there is room at its price."""
    if case.vm.spot and case.verb != "terminate":
        yield rules.may_not_return("Azure")


def bill(case: AzureCase) -> Found:
    """What ends, and what goes on."""
    vm = case.vm
    if not (vm.reservation or vm.host):
        state = "deleted" if case.verb == "terminate" else "deallocated"
        text = f"computing is not billed once the machine is {state}; still billed: static addresses and snapshots"
        yield "go", PlanFinding("bill_ends", text)
    if case.verb != "terminate":
        yield from disks_kept((*vm.disks_deleted, *vm.disks_kept))
        return
    yield from disks_deleted(
        vm.disks_deleted, "to keep a disk: `az vm update --set storageProfile.osDisk.deleteOption=Detach`"
    )
    yield from disks_kept(vm.disks_kept, "when nobody needs them: `az disk delete`")
