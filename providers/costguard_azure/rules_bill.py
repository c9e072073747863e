"""Rules about the machine itself: what it costs when it is off, what is lost, whether it can come back.

Sources: Azure documentation "States and billing status", "Ephemeral OS disks" (cannot be deallocated),
"Hibernate a virtual machine", "On-demand capacity reservation" and "Dedicated hosts" (billed while they
exist), "Spot virtual machines", "Delete a machine and attached resources" (delete options of disks).
"""

import re

from costguard.cloud.rules import Found
from costguard.plans import PlanFinding
from costguard_azure.facts import AzureCase, Vm

HIBERNATES = re.compile(r"standard_nv(?:(?:4|8|16|32)as_v4|(?:6|12)ads_a10_v5|(?:4|8|12)ads_v710_v5)", re.IGNORECASE)
"""GPU sizes that can hibernate: NVv4, NVadsA10_v5 and NVadsV710_v5 with at most 112 GB of memory."""
_GPU = re.compile(r"standard_n", re.IGNORECASE)


def prepaid(case: AzureCase) -> Found:
    """What is reserved is billed whether it is used or not."""
    vm = case.vm
    if not (vm.reservation or vm.host):
        return
    what = f"the capacity reservation group {vm.reservation}" if vm.reservation else f"the dedicated host {vm.host}"
    if case.settings.get("prepaid", "notify") == "act":
        text = f"{what} is billed on while it exists; only what comes on top of it ends"
        yield "consequences", PlanFinding("reservation_goes_on", text, "give it back yourself when nobody needs it")
    else:
        text = f"this machine uses {what}, which is billed whether the machine runs or not: nothing would be saved"
        yield "refuse", PlanFinding("prepaid", text, 'give it back, or set [cloud] prepaid = "act"')


def system_disk(case: AzureCase) -> Found:
    """A machine whose system disk is on the host cannot be deallocated."""
    if case.vm.ephemeral_os and case.verb != "terminate":
        text = f"the system disk is ephemeral, and Azure does not deallocate such a machine ({case.verb} is impossible)"
        yield (
            "another",
            PlanFinding("instance_store_root", text, 'use kill_action = "terminate", which deletes the machine'),
        )


def hibernation(case: AzureCase) -> Found:
    """Hardly any GPU machine can hibernate."""
    why = _cannot_hibernate(case.vm) if case.verb == "hibernate" else ""
    if why:
        text = f"this machine cannot hibernate: {why}"
        yield "another", PlanFinding("cannot_hibernate", text, 'use kill_action = "stop", or list it after hibernate')


def _cannot_hibernate(vm: Vm) -> str:
    """The first reason, in words; empty when there is none."""
    reasons = (
        (bool(_GPU.match(vm.size)) and not HIBERNATES.fullmatch(vm.size), f"the size {vm.size} does not support it"),
        (vm.spot, "Spot machines do not"),
        (vm.group is not None and vm.group.uniform, "members of a uniform scale set do not"),
        (bool(vm.reservation), "machines of a capacity reservation do not"),
        (vm.ephemeral_os, "its system disk is ephemeral"),
        (vm.availability_set, "machines of an availability set do not"),
        (not vm.hibernation, "it is not enabled (`az vm update --enable-hibernation true` while deallocated)"),
    )
    return next((words for applies, words in reasons if applies), "")


def local_disk(case: AzureCase) -> Found:
    """Deallocation and deletion both empty the local disk."""
    disk = case.facts.disk
    if disk.state == "none":
        return
    discard = case.settings.get("local_data", "keep") == "discard"
    hint = 'copy what is needed, unmount it, or set [cloud] local_data = "discard"'
    paged = disk.swap and case.verb == "hibernate"  # then the memory that is kept is not whole without it
    if (disk.state == "used" or paged) and not discard:
        where = disk.where if disk.state == "used" else "swap"
        text = f"the local disk holds data ({where}) that would be lost for good"
        yield "refuse", PlanFinding("local_data_kept", text, hint)
    elif disk.state == "unknown" and not discard:
        text = "whether the local disk is mounted is not known, and its data would be lost for good"
        yield "refuse", PlanFinding("facts_missing", text, f"set host.procfs to a readable /proc; {hint}")
    else:
        what = {"unused": "is not mounted", "empty": f"is mounted ({disk.where}) and empty"}.get(
            disk.state, "is discarded"
        )
        yield "consequences", PlanFinding("local_data_lost", f"the local disk {what}; whatever is on it is lost", hint)


def spot(case: AzureCase) -> Found:
    """Source: "Spot virtual machines": a deallocated one starts again only when there is room at its price."""
    if case.vm.spot and case.verb != "terminate":
        text = "a Spot machine starts again only when Azure has room for it at its price"
        yield "consequences", PlanFinding("spot_may_not_return", text, "")


def bill(case: AzureCase) -> Found:
    """What ends, and what goes on."""
    vm = case.vm
    if not (vm.reservation or vm.host):
        state = "deleted" if case.verb == "terminate" else "deallocated"
        text = f"computing is not billed once the machine is {state}; static addresses, snapshots and reservations are"
        yield "go", PlanFinding("bill_ends", text)
    if case.verb != "terminate":
        text = f"the disks stay and are billed on: {', '.join((*vm.disks_deleted, *vm.disks_kept))}"
        yield "go", PlanFinding("disks_go_on", text)
        return
    if vm.disks_deleted:
        text = f"deleted with the machine, for good: {', '.join(vm.disks_deleted)}"
        hint = "to keep a disk: `az vm update --set storageProfile.osDisk.deleteOption=Detach`"
        yield "consequences", PlanFinding("loses_disks", text, hint)
    if vm.disks_kept:
        text = f"these disks stay and are billed on: {', '.join(vm.disks_kept)}"
        yield "go", PlanFinding("disks_go_on", text, "delete them with `az disk delete` when nobody needs them")
