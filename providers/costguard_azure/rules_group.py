"""Rules about whoever else owns this machine: a service, or a scale set.

Sources: AKS documentation "FAQ" (changes of nodes by hand are not supported); Azure documentation "Automatic
instance repairs" (a member that is not healthy is replaced), "Instance protection" and "Overview of autoscale".
"""

from costguard.cloud import hints
from costguard.cloud.api import Verb
from costguard.cloud.managed import finding
from costguard.cloud.rules import Found
from costguard.plans import PlanFinding
from costguard_azure import nodes, permissions
from costguard_azure.facts import AzureCase, Group


def managed(case: AzureCase) -> Found:
    """A node of a managed service is the service's own."""
    owner = case.vm.owner
    if owner:
        yield finding(*owner, case.settings, nodes.power_down(owner[0]))


def member(case: AzureCase) -> Found:
    """A scale set keeps its size: it is told only, unless the owner lets this machine leave."""
    group = case.vm.group
    if group is None:
        return
    if case.settings.get("group", "notify") != "leave":
        text = f"this machine is a member of the scale set {group.name}, which may replace it"
        hint = f'lower the scale set (`az vmss scale --name {group.name}`), or set [cloud] group = "leave"'
        yield "refuse", PlanFinding("group_member", text, hint)
        return
    if group.protected:
        text = f"this member of {group.name} is protected from the scale set's actions"
        yield "refuse", PlanFinding("protected", text, "see `az vmss update --protect-from-scale-set-actions`")
    yield from _unknown(case, group)
    if case.verb == "terminate":
        yield from _leaves(group)
    else:
        yield from _stays(case.verb, group)


def _leaves(group: Group) -> Found:
    """Deleting a member lowers the size by one."""
    if group.minimum and group.capacity is not None and group.capacity <= group.minimum:
        text = f"the scale set {group.name} has {group.capacity} members and autoscale keeps at least {group.minimum}: it would make a new one"
        yield "refuse", PlanFinding("group_at_minimum", text, "lower the minimum of the autoscale setting first")
    call = "as its instance" if group.uniform else "as a machine of its own"
    text = f"this machine is deleted from the scale set {group.name} ({call}), whose size becomes one less"
    yield "consequences", PlanFinding("group_member", text, "autoscale may raise the size again")


def _stays(verb: Verb, group: Group) -> Found:
    """A deallocated member still counts, and is not healthy."""
    if group.repairs:
        text = f"the scale set {group.name} repairs its members: it would replace this one when it is off, and the bill would go on"
        yield "another", PlanFinding("group_member", text, 'use kill_action = "terminate", which lowers the size')
        return
    call = "the scale set's own call for its instance" if group.uniform else "the machine's own call"
    text = f"this member of the scale set {group.name} is deallocated by {call} ({verb}); the set's size stays, and autoscale may start another"
    yield "consequences", PlanFinding("group_member", text, f"look with `az vmss list-instances --name {group.name}`")


def _unknown(case: AzureCase, group: Group) -> Found:
    """What could not be read of the scale set. Its minimum decides about a deletion alone."""
    for what, value, right, decides in (
        ("the scale set", group.repairs, permissions.SEE_SCALE_SET, True),
        ("the autoscale settings", group.minimum, permissions.SEE_AUTOSCALE, case.verb == "terminate"),
    ):
        if value is not None:
            continue
        text = f"{what} of {group.name} cannot be read, so a replacement may be started ({case.facts.unknown.get(what, '')})"
        if case.facts.passes(what):
            yield "failed" if decides else "consequences", PlanFinding("facts_missing", text, hints.AGAIN)
        else:
            yield (
                "consequences",
                PlanFinding("permission_unknown", text, f"needed: {right}, with the resource group as scope"),
            )
