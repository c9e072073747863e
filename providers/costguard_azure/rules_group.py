"""Rules about a service or a scale set that owns this machine.

Sources: AKS documentation "FAQ" (changes of nodes by hand are not supported); Azure documentation "Automatic
instance repairs" (a member that is not healthy is replaced), "Instance protection" and "Overview of autoscale".
"""

from costguard.cloud import hints, rules
from costguard.cloud.api import Verb
from costguard.cloud.managed import finding
from costguard.cloud.rules import Found, follows, instead, refuse
from costguard_azure import nodes, permissions
from costguard_azure.facts import AzureCase, Group


def managed(case: AzureCase) -> Found:
    """A node of a managed service is the service's own."""
    if case.vm.owner:
        yield finding(case.vm.owner, case.settings, nodes.POWER_DOWN)


def member(case: AzureCase) -> Found:
    """A scale set keeps its size: it is told only, unless the owner lets this machine leave."""
    group = case.vm.group
    if group is None:
        return
    if case.settings.get("group", "notify") != "leave":
        hint = f'lower the scale set (`az vmss scale --name {group.name}`), or set cloud.group = "leave"'
        yield rules.member(f"scale set {group.name}", hint)
        return
    if group.protected:
        yield rules.protected(
            f"instance protection in the scale set {group.name}",
            f"az vmss update --name {group.name} --protect-from-scale-set-actions false",
        )
    yield from _unknown(case, group)
    if case.verb == "terminate":
        yield from _leaves(group)
    else:
        yield from _stays(case.verb, group)


def _leaves(group: Group) -> Found:
    """Deleting a member lowers the size by one."""
    if group.minimum and group.capacity is not None and group.capacity <= group.minimum:
        text = f"the scale set {group.name} is at autoscale's minimum of {group.minimum}: it would replace this machine"
        yield refuse("group_at_minimum", text, "lower the minimum of the autoscale setting first")
    text = f"this machine is deleted from the scale set {group.name}, which becomes one smaller"
    yield follows("group_member", text, "autoscale may enlarge it again: `az vmss list-instances`")


def _stays(verb: Verb, group: Group) -> Found:
    """A deallocated member still counts, and is not healthy."""
    if group.repairs:
        text = f"automatic repairs of the scale set {group.name} would replace this machine once it is off: the bill would go on"
        yield instead("group_member", text, 'set kill_action = "terminate", which makes the scale set smaller')
        return
    doing = "hibernated" if verb == "hibernate" else "deallocated"
    text = f"this machine is {doing} and stays in the scale set {group.name}; autoscale may start another one"
    yield follows("group_member", text, f"look with `az vmss list-instances --name {group.name}`")


def _unknown(case: AzureCase, group: Group) -> Found:
    """What could not be read of the scale set. Its minimum decides about a deletion alone."""
    for name, value, right, decides in (
        ("the scale set", group.repairs, permissions.SEE_SCALE_SET, True),
        ("the autoscale settings", group.minimum, permissions.SEE_AUTOSCALE, case.verb == "terminate"),
    ):
        if value is not None:
            continue
        passes = case.facts.passes(name)
        yield rules.unread(
            "facts_missing" if passes else "permission_unknown",
            f"whether the scale set {group.name} would replace this machine: {name} cannot be read",
            case.facts.unknown.get(name, ""),
            hints.AGAIN if passes else f"needed: {right}, with the resource group as scope",
            passes=passes and decides,
            otherwise="consequences",
        )
