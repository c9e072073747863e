"""What follows from the facts: a list of small rules, each of which sees one circumstance. No I/O.

Sources stand with the rules; "life cycle" is Compute Engine documentation "Compute Engine instance lifecycle"
and "Suspend, stop, or reset Compute Engine instances".
"""

from collections.abc import Callable, Mapping

from costguard.cloud import hints, managed, rules
from costguard.cloud.age import is_young
from costguard.cloud.api import Verb
from costguard.cloud.rules import Case, Row
from costguard.plans import Plan, PlanFinding
from costguard_gcp import nodes, permissions
from costguard_gcp.facts import Facts

GcpCase = Case[Facts]

_GPU_TYPES = ("a2-", "a3-", "a4-", "a4x-", "g2-", "g4-")  # their GPUs are part of the type
_ENDING = frozenset(("PENDING_STOP", "STOPPING", "STOPPED", "TERMINATED", "SUSPENDING", "SUSPENDED"))
_DOING = {"stop": "stopping", "terminate": "deleting", "hibernate": "suspending"}


def plan(verb: Verb, facts: Facts, settings: Mapping[str, object]) -> Plan:
    """Ask every rule."""
    ends_bill, already = None if facts.vm is None else not _prepaid_words(facts), None
    if facts.vm is not None and facts.vm.status in _ENDING:
        shows = f"Google Cloud says that this machine is {facts.vm.status}"
        already = rules.ends_already(shows, ends_bill=ends_bill)
    return rules.decide(
        GcpCase(verb, facts, settings),
        _identity,
        _RULES,
        already=already,
        ends_bill=ends_bill,
        keeps_disks=_keeps_disks(verb, facts),
    )


def _identity(case: GcpCase) -> list[Row]:
    """The numeric id is given once; a name may have been used again."""
    vm, mine = case.facts.vm, case.facts.identity
    trouble = case.facts.troubles.get("vm")
    if trouble and trouble.trouble == "gone":
        text = f"Google Cloud knows no machine at {mine.details['resource']}, so costguard cannot be sure which one it is on"
        return [_refuse("not_this_machine", text, "compare `gcloud compute instances list` with `costguard doctor`")]
    if vm and vm.instance != mine.instance:
        text = f"Google Cloud's `{mine.details['name']}` has the id {vm.instance}, this machine has {mine.instance}"
        return [_refuse("not_this_machine", text, "restart the service: `systemctl restart costguard`")]
    return []


def _running(case: GcpCase) -> list[Row]:
    vm = case.facts.vm
    if vm is None or vm.status == "RUNNING":
        return []
    text = f"Google Cloud says that this machine is {vm.status}, not running: nothing is sent"
    return [_refuse("not_running", text, "look with `gcloud compute instances describe`")]


def _managed_node(case: GcpCase) -> list[Row]:
    """A service that made the machine makes another one, and loses work that it believes to run here."""
    owner = case.facts.owner
    return [managed.finding(*owner, case.settings, nodes.power_down(owner[0]))] if owner else []


def _group(case: GcpCase) -> list[Row]:
    """A group repairs what disappears. Source: "About repairing VMs for high availability" in a managed group."""
    group = case.facts.group
    if group is None:
        return []
    if case.settings.get("group") != "leave":
        text = f"this machine belongs to the managed instance group `{group.name}`, which would make it anew"
        hint = 'set cloud.group = "leave" to let the group take it out and become smaller'
        return [_refuse("group_member", text, hint)]
    size, trouble = case.facts.size, case.facts.troubles.get("size")
    if size is None:
        words = f": {trouble}" if trouble else ""
        text = f"the size of the managed instance group `{group.name}` cannot be read{words}"
        if trouble and trouble.technical:
            return [("failed", PlanFinding("facts_missing", text, trouble.hint or hints.AGAIN))]
        return [_refuse("facts_missing", text, "grant compute.instanceGroupManagers.get and compute.autoscalers.get")]
    if size.least is not None and size.target <= size.least:
        text = f"the group `{group.name}` has {size.target} machines and its autoscaler's minimum is {size.least}: it would make this one anew"
        return [_refuse("group_at_minimum", text, 'lower the autoscaler\'s minimum, or set cloud.group to "notify"')]
    text = f"{_DOING[case.verb]} goes through the managed instance group `{group.name}`, which becomes smaller by one"
    back = "" if size.least is None else "; its autoscaler may make it larger again"
    unknown = "whether the right compute.instanceGroupManagers.update is there can only be seen by using it"
    return [
        ("consequences", PlanFinding("group_member", text + back)),
        ("consequences", PlanFinding("permission_unknown", unknown, permissions.ADMIT)),
    ]


def _scopes(case: GcpCase) -> list[Row]:
    """A scope limits what a role allows. Source: "Service accounts", access scopes."""
    scopes = case.facts.scopes
    if scopes is None:
        text = "the metadata server does not say which access scopes this machine has"
        return [("consequences", PlanFinding("permission_unknown", text, "run `costguard doctor`"))]
    if permissions.SCOPES & set(scopes):
        return []
    d = case.facts.identity.details
    text = "the machine's access scopes do not allow changes to machines, whatever its roles say"
    hint = (
        f"stop it once and run `gcloud compute instances set-service-account {d['name']} --project={d['project']} "
        f"--zone={case.facts.identity.zone} --scopes=cloud-platform`"
    )
    return [_refuse("scopes_missing", text, hint)]


def _rights(case: GcpCase) -> list[Row]:
    facts = case.facts
    bind = permissions.binding(facts.identity.details["resource"], facts.account)
    denied = facts.troubles.get("vm")
    if denied and denied.trouble != "gone":  # without this answer neither identity nor disks are known
        text = f"Google Cloud does not show this machine to its own service account: {denied}"
        if denied.code == "scopes_missing" and _scopes(case):
            return []  # said already
        code = "not_permitted" if denied.trouble == "denied" else "facts_missing"
        hint = f"grant compute.instances.get: {bind}" if denied.hint == permissions.ADMIT else denied.hint
        return [_refuse(code, text, hint), *_late(case, "compute.instances.get")]
    trouble = facts.troubles.get("granted")
    if trouble and not facts.group:
        text = f"whether the right is there cannot be asked: {trouble}"
        if trouble.technical:
            return [("failed", PlanFinding("permission_unknown", text, trouble.hint or hints.AGAIN))]
        return [("consequences", PlanFinding("permission_unknown", text, permissions.ADMIT))]
    if facts.granted is None:
        return []
    wanted = [one.name for one in permissions.on_machine([case.verb])]
    missing = [name for name in wanted if name not in facts.granted]
    if facts.group and case.settings.get("group") == "leave":
        missing = []  # the group's call needs a right on the group
    return [one for name in missing for one in (_late(case, name) or [_not_permitted(case, name, bind)])]


def _not_permitted(case: GcpCase, name: str, bind: str) -> Row:
    text = f"the machine's service account lacks `{name}`; {_DOING[case.verb]} would be denied and the bill would go on"
    return _refuse("not_permitted", text, f"run `costguard permissions gcp`, create the role, then: {bind}")


def _late(case: GcpCase, name: str) -> list[Row]:
    """A role is often bound after the machine was made, and needs minutes to spread."""
    age = case.facts.young
    if age is None or not is_young(age):
        return []
    text = f"`{name}` is missing, but the machine is only {age / 60:.0f} min old and a new role takes minutes to hold"
    return [("consequences", PlanFinding("rights_may_be_late", text, hints.RIGHTS_ARRIVE))]


def _protected(case: GcpCase) -> list[Row]:
    """Blocks deletion alone. Source: "Prevent accidental VM deletion"."""
    if case.verb != "terminate" or case.facts.vm is None or not case.facts.vm.protected:
        return []
    text = "somebody protected this machine against deletion; costguard never removes that"
    hint = 'use kill_action = "stop", or an owner runs `gcloud compute instances update --no-deletion-protection`'
    return [_refuse("protected", text, hint)]


def _prepaid(case: GcpCase) -> list[Row]:
    """Reserved capacity is billed whether it is used or not. Source: "Reservations of Compute Engine zonal resources".

    So are sole-tenant nodes. Source: "Sole-tenancy overview", pricing.
    """
    words = _prepaid_words(case.facts)
    if not words:
        return []
    if case.settings.get("prepaid") != "act":
        text = f"{words}: {_DOING[case.verb]} saves nothing, and the capacity may be lost"
        return [_refuse("prepaid", text, 'give the capacity back, or set cloud.prepaid = "act"')]
    text = f"{words}: the capacity goes on being billed"
    return [("consequences", PlanFinding("reservation_goes_on", text, "give the capacity back to end its bill"))]


def _prepaid_words(facts: Facts) -> str:
    if facts.vm is None:
        return ""
    if facts.vm.model == "RESERVATION_BOUND":
        return "this machine is bound to a reservation and ends with it"
    if facts.vm.sole_tenant:
        return "this machine runs on a sole-tenant node, and the node is what is billed"
    return f"this machine uses the reservation `{facts.vm.reservation}`" if facts.vm.reservation else ""


def _local_data(case: GcpCase) -> list[Row]:
    """Local SSDs lose their data when a machine stops. Source: "About Local SSD", data persistence."""
    vm = case.facts.vm
    count = sum(disk.local for disk in vm.disks) if vm else 0
    if not count:
        return []
    disks = "its local SSD" if count == 1 else f"its {count} local SSDs"
    if case.settings.get("local_data") == "discard":
        return [
            (
                "consequences",
                PlanFinding("local_data_lost", f"the data of {disks} is lost; the configuration allows it"),
            )
        ]
    use = case.facts.local
    paged = use.swap and case.verb == "hibernate"  # then the memory that is kept is not whole without it
    if use.state in {"unused", "empty"} and not paged:
        seen = f"mounted ({', '.join(use.where[:4])}) and empty" if use.state == "empty" else "not in use"
        text = f"{disks} would be emptied; it is {seen}"
        return [("consequences", PlanFinding("local_data_lost", text))]
    where = ", ".join(use.where[:4]) or "swap"
    why = "whether it is in use cannot be seen" if use.state == "unknown" else f"it is in use: {where}"
    text = f"{_DOING[case.verb]} would lose the data of {disks}, and {why}"
    return [_refuse("local_data_kept", text, 'save the data, or set cloud.local_data = "discard"')]


def _hibernation(case: GcpCase) -> list[Row]:
    """Limits of suspending. Source: "Suspend or resume a Compute Engine instance", limitations."""
    vm = case.facts.vm
    if case.verb != "hibernate" or vm is None:
        return []
    why = ""
    if vm.gpus or case.facts.identity.type.startswith(_GPU_TYPES):
        why = f"it has GPUs ({', '.join(vm.gpus) or case.facts.identity.type})"
    elif vm.confidential:
        why = "it is a Confidential VM"
    if not why:
        text = "memory is kept at most 60 days, then Google Cloud stops the machine; the memory's image is billed like a disk"
        return [("consequences", PlanFinding("disks_go_on", text))]
    text = f"Google Cloud cannot suspend this machine: {why}"
    return [("another", PlanFinding("cannot_hibernate", text, 'use kill_action = "stop"'))]


def _comes_back(case: GcpCase) -> list[Row]:
    """Whether the capacity returns. Source: "Spot VMs" and "About Flex-start VMs"."""
    vm = case.facts.vm
    if vm is None or case.verb == "terminate" or not (vm.spot or vm.model == "FLEX_START"):
        return []
    kind = "a Spot machine" if vm.spot else "a Flex-start machine"
    text = f"this is {kind}: it may not get its capacity back when it is started again"
    return [("consequences", PlanFinding("spot_may_not_return", text))]


def _run_limit(case: GcpCase) -> list[Row]:
    vm = case.facts.vm
    if vm is None or not vm.ends_at:
        return []
    end = "deletes" if vm.termination == "DELETE" else "stops"
    return [("go", PlanFinding("run_limit", f"Google Cloud {end} this machine by itself at {vm.ends_at}"))]


def _disks(case: GcpCase) -> list[Row]:
    """Deleting takes the disks with it whose autoDelete is set. Source: the API's description of AttachedDisk."""
    vm = case.facts.vm
    if case.verb != "terminate" or vm is None:
        return []
    lost = [disk.name for disk in vm.disks if disk.goes_with_it and not disk.local]
    kept = [disk.name for disk in vm.disks if not disk.goes_with_it and not disk.local]
    found: list[Row] = []
    if lost:
        found.append(("consequences", PlanFinding("loses_disks", f"deleted with the machine: {', '.join(lost)}")))
    if kept:
        found.append(("go", PlanFinding("disks_go_on", f"kept, and billed until you delete them: {', '.join(kept)}")))
    return found


def _bill(case: GcpCase) -> list[Row]:
    """TERMINATED and SUSPENDED machines are not billed for processors, memory or GPUs. Source: life cycle."""
    if case.facts.vm is None or _prepaid_words(case.facts):
        return []
    rest = {
        "stop": "disks and static addresses go on being billed; a later start needs free capacity",
        "terminate": "static addresses go on being billed",
        "hibernate": "disks, static addresses and the memory's image go on being billed",
    }[case.verb]
    wait = case.facts.vm.graceful if case.verb != "hibernate" else 0
    later = f", after a graceful shutdown of up to {wait} s" if wait else ""
    text = f"{_DOING[case.verb]} ends the bill for processors, memory and GPUs{later}; {rest}"
    return [("go", PlanFinding("bill_ends", text))]


def _keeps_disks(verb: Verb, facts: Facts) -> bool | None:
    if verb != "terminate":
        return True
    return None if facts.vm is None else not any(disk.goes_with_it and not disk.local for disk in facts.vm.disks)


def _refuse(code: str, text: str, hint: str) -> Row:
    return "refuse", PlanFinding(code, text, hint)


_RULES: tuple[Callable[[GcpCase], list[Row]], ...] = (
    *(_running, _managed_node, _group, _scopes, _rights, _protected, _prepaid),
    *(_local_data, _hibernation, _comes_back, _run_limit, _disks, _bill),
)
