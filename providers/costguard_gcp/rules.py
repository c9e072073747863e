"""What follows from the facts: a list of small rules, each of which sees one circumstance. No I/O.

Sources stand with the rules; "life cycle" is Compute Engine documentation "Compute Engine instance lifecycle"
and "Suspend, stop, or reset Compute Engine instances".
"""

from collections.abc import Callable, Mapping

from costguard.cloud import hints, managed, rules
from costguard.cloud.age import is_young
from costguard.cloud.api import Verb
from costguard.cloud.rules import Found, PlanCase, follows, refuse
from costguard.plans import Plan, PlanFinding
from costguard_gcp import nodes, permissions
from costguard_gcp.facts import Facts

GcpCase = PlanCase[Facts]

_GPU_TYPES = ("a2-", "a3-", "a4-", "a4x-", "g2-", "g4-")  # their GPUs are part of the type
_ENDING = frozenset(("PENDING_STOP", "STOPPING", "STOPPED", "TERMINATED", "SUSPENDING", "SUSPENDED"))


def plan(verb: Verb, facts: Facts, settings: Mapping[str, object]) -> Plan:
    """Ask every rule."""
    ends_bill, already = None if facts.vm is None else not _reserved(facts), None
    if facts.vm is not None and facts.vm.status in _ENDING:
        already = rules.ends_already(f"Google Cloud shows this machine as {facts.vm.status}", ends_bill=ends_bill)
    return rules.decide(
        GcpCase(verb, facts, settings),
        _identity,
        _RULES,
        already=already,
        ends_bill=ends_bill,
        keeps_disks=_keeps_disks(verb, facts),
    )


def _identity(case: GcpCase) -> Found:
    """The numeric id is given once; a name may have been used again."""
    vm, mine = case.facts.vm, case.facts.identity
    trouble = case.facts.troubles.get("vm")
    if trouble and trouble.trouble == "gone":
        text = f"Google Cloud knows no machine {mine.details['resource']}, so nothing is sent"
        yield refuse("not_this_machine", text, permissions.COMPARE)
    if vm and vm.instance != mine.instance:
        text = f"Google Cloud's `{mine.details['name']}` has the id {vm.instance}, this machine has {mine.instance}"
        yield refuse("not_this_machine", text, hints.RESTART)


def _running(case: GcpCase) -> Found:
    vm = case.facts.vm
    if vm is not None and vm.status != "RUNNING":
        yield rules.not_running("Google Cloud", vm.status, "wait, or look with `gcloud compute instances describe`")


def _managed_node(case: GcpCase) -> Found:
    """A service that made the machine makes another one, and loses work that it believes to run here."""
    owner = case.facts.owner
    if owner:
        yield managed.finding(owner, case.settings, nodes.POWER_DOWN)


def _group(case: GcpCase) -> Found:
    """A group repairs what disappears. Source: "About repairing VMs for high availability" in a managed group."""
    group = case.facts.group
    if group is None:
        return
    name = f"managed instance group {group.name}"
    if case.settings.get("group") != "leave":
        yield rules.member(name, 'to let the group take this machine out and become smaller: cloud.group = "leave"')
        return
    size, trouble = case.facts.size, case.facts.troubles.get("size")
    if size is None:
        hint = "grant compute.instanceGroupManagers.get and compute.autoscalers.get"
        passes = trouble is not None and trouble.technical
        yield rules.unread("facts_missing", f"the size of the {name}", trouble or "", hint, passes=passes)
    elif size.least is not None and size.target <= size.least:
        text = f"the {name} is at its autoscaler's minimum of {size.least}: it would replace this machine"
        yield refuse("group_at_minimum", text, 'lower the autoscaler\'s minimum, or set cloud.group = "notify"')
    else:
        back = "" if size.least is None else "; its autoscaler may enlarge it again"
        text = f"the {name} {permissions.CALLS[case.verb]}s this machine and becomes one smaller{back}"
        yield follows("group_member", text)
        right = "compute.instanceGroupManagers.update"
        text = f"unknown: whether the right {right} is granted; only the request itself can show it"
        yield follows("permission_unknown", text, permissions.ADMIT)


def _scopes(case: GcpCase) -> Found:
    """A scope limits what a role allows. Source: "Service accounts", access scopes."""
    scopes = case.facts.scopes
    if scopes is None:
        yield follows("permission_unknown", "unknown: the access scopes of this machine", hints.DOCTOR)
    elif not permissions.SCOPES & set(scopes):
        details = case.facts.identity.details
        place = f" {details['name']} --project={details['project']} --zone={case.facts.identity.zone}"
        yield refuse("scopes_missing", permissions.NO_SCOPE, permissions.set_scopes(place))


def _rights(case: GcpCase) -> Found:
    facts = case.facts
    bind = permissions.binding(facts.identity.details["resource"], facts.account)
    denied = facts.troubles.get("vm")
    if denied and denied.trouble != "gone":  # without this answer neither identity nor disks are known
        if denied.code == "scopes_missing" and any(_scopes(case)):
            return  # said already
        hint = f"grant compute.instances.get: {bind}" if denied.hint == permissions.ADMIT else denied.hint
        if denied.trouble == "denied":
            yield rules.right_missing("`compute.instances.get`", hint, denied)
        else:
            yield refuse("facts_missing", f"unknown: what Google Cloud knows of this machine ({denied})", hint)
        yield from _late(case, "compute.instances.get")
        return
    trouble = facts.troubles.get("granted")
    if trouble and not facts.group:
        what = "which rights this machine has"
        hint = permissions.ADMIT
        yield rules.unread(
            "permission_unknown", what, trouble, hint, passes=trouble.technical, otherwise="consequences"
        )
    if facts.granted is None or (facts.group and case.settings.get("group") == "leave"):
        return  # the group's call needs a right on the group
    for right in permissions.on_machine([case.verb]):
        if right.name not in facts.granted:
            hint = f"run `costguard permissions gcp`, create the role, then: {bind}"
            yield from list(_late(case, right.name)) or [rules.right_missing(f"`{right.name}`", hint)]


def _late(case: GcpCase, name: str) -> Found:
    """A role is often bound after the machine was made, and needs minutes to spread."""
    if is_young(case.facts.age):
        yield rules.rights_late(f"the right `{name}` is missing", name)


def _protected(case: GcpCase) -> Found:
    """Blocks deletion alone. Source: "Prevent accidental VM deletion"."""
    if case.verb == "terminate" and case.facts.vm is not None and case.facts.vm.protected:
        yield rules.protected("deletion protection", "gcloud compute instances update --no-deletion-protection")


def _prepaid(case: GcpCase) -> Found:
    """Reserved capacity is billed whether it is used or not. Source: "Reservations of Compute Engine zonal resources".

    So are sole-tenant nodes. Source: "Sole-tenancy overview", pricing.
    """
    yield from rules.prepaid(case, _reserved(case.facts))


def _reserved(facts: Facts) -> str:
    """What this machine runs on and is paid for anyway; empty for nothing."""
    if facts.vm is None:
        return ""
    if facts.vm.model == "RESERVATION_BOUND":
        return "the reservation to which this machine is bound"
    if facts.vm.sole_tenant:
        return "the sole-tenant node of this machine"
    return f"the reservation {facts.vm.reservation}" if facts.vm.reservation else ""


def _local_data(case: GcpCase) -> Found:
    """Local SSDs lose their data when a machine stops. Source: "About Local SSD", data persistence."""
    vm = case.facts.vm
    if vm and any(disk.local for disk in vm.disks):
        yield from rules.local_data(case, "the local SSDs", case.facts.local)


def _hibernation(case: GcpCase) -> Found:
    """Limits of suspending. Source: "Suspend or resume a Compute Engine instance", limitations."""
    vm = case.facts.vm
    if case.verb != "hibernate" or vm is None:
        return
    if vm.gpus or case.facts.identity.type.startswith(_GPU_TYPES):
        yield rules.cannot_hibernate(f"it has GPUs ({', '.join(vm.gpus) or case.facts.identity.type})")
    elif vm.confidential:
        yield rules.cannot_hibernate("it is a Confidential VM")
    else:
        text = "the memory is kept for 60 days at most, then Google Cloud stops the machine; its image is billed like a disk"
        yield follows("disks_go_on", text)


def _comes_back(case: GcpCase) -> Found:
    """Whether the capacity returns. Source: "Spot VMs" and "About Flex-start VMs"."""
    vm = case.facts.vm
    if vm is not None and case.verb != "terminate" and (vm.spot or vm.model == "FLEX_START"):
        yield rules.may_not_return("Google Cloud", "Spot" if vm.spot else "Flex-start")


def _run_limit(case: GcpCase) -> Found:
    vm = case.facts.vm
    if vm is not None and vm.ends_at:
        does = "deletes" if vm.termination == "DELETE" else "stops"
        yield "go", PlanFinding("run_limit", f"Google Cloud {does} this machine by itself at {vm.ends_at}")


def _disks(case: GcpCase) -> Found:
    """Deleting takes the disks with it whose autoDelete is set. Source: the API's description of AttachedDisk."""
    if case.verb == "terminate" and case.facts.vm is not None:
        network = [disk for disk in case.facts.vm.disks if not disk.local]
        yield from rules.disks_deleted([disk.name for disk in network if disk.goes_with_it])
        yield from rules.disks_kept([disk.name for disk in network if not disk.goes_with_it])


def _bill(case: GcpCase) -> Found:
    """TERMINATED and SUSPENDED machines are not billed for processors, memory or GPUs. Source: life cycle."""
    vm = case.facts.vm
    if vm is None or _reserved(case.facts):
        return
    state, rest = {
        "stop": ("stopped", "disks and static addresses; starting it again needs free capacity"),
        "terminate": ("deleted", "static addresses"),
        "hibernate": ("suspended", "disks, static addresses and the memory's image"),
    }[case.verb]
    later = f" (a graceful shutdown may take up to {vm.graceful} s)" if vm.graceful and case.verb != "hibernate" else ""
    text = f"computing is not billed once the machine is {state}{later}; still billed: {rest}"
    yield "go", PlanFinding("bill_ends", text)


def _keeps_disks(verb: Verb, facts: Facts) -> bool | None:
    if verb != "terminate":
        return True
    return None if facts.vm is None else not any(disk.goes_with_it and not disk.local for disk in facts.vm.disks)


_RULES: tuple[Callable[[GcpCase], Found], ...] = (
    *(_running, _managed_node, _group, _scopes, _rights, _protected, _prepaid),
    *(_local_data, _hibernation, _comes_back, _run_limit, _disks, _bill),
)
