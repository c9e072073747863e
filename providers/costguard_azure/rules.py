"""What may be done and what follows from it, decided from the facts alone.

A plan is a list of small rules. Each looks at one circumstance and gives a verdict with a finding; the
gravest verdict is the plan's. Sources of the rules: docs/clouds-azure.md, row by row.
"""

from collections.abc import Callable, Mapping

from costguard.cloud import hints, rules
from costguard.cloud.api import Verb
from costguard.cloud.rules import Found
from costguard.plans import Plan, PlanFinding
from costguard_azure import permissions, rules_bill, rules_group
from costguard_azure.facts import AzureCase, Facts


def plan(verb: Verb, facts: Facts, settings: Mapping[str, object]) -> Plan:
    """Ask every rule; without the machine's own document only whether it is this one."""
    vm, already = facts.vm, None
    prepaid = vm is not None and bool(vm.reservation or vm.host)
    if vm is not None and vm.power in _ENDS:
        already = rules.ends_already(f"Azure shows this machine as {vm.power}", ends_bill=not prepaid)
    return rules.decide(
        AzureCase(verb, facts, settings),
        _same,
        RULES if vm is not None else (),
        already=already,
        ends_bill=None if vm is None else not prepaid,
        keeps_disks=None if vm is None else verb != "terminate" or not vm.disks_deleted,
    )


def _same(case: AzureCase) -> Found:
    """A name can be given to another machine; the id cannot."""
    vm, expected = case.facts.vm, case.facts.expected_id
    if vm is None:
        yield from _unseen(case.facts, permissions.look(case.facts.machine.kind)[0])
    elif vm.vm_id != expected.lower():
        text = f"the cloud's machine of this name is {vm.vm_id or 'without an id'}, this one is {expected}"
        hint = "run `costguard doctor`; restart costguard if the machine was made anew"
        yield "refuse", PlanFinding("not_this_machine", text, hint)


def _unseen(facts: Facts, read: str) -> Found:
    """Without the machine's own document nothing else can be judged."""
    said = facts.unknown.get("the machine", "")
    if facts.trouble == "denied" and facts.young:
        yield rules.rights_late(f"this machine may not see itself yet ({said})", read)
    elif facts.trouble == "denied":
        text = f"this machine may not see itself, so it would stay up and be billed ({said})"
        yield "refuse", PlanFinding("not_permitted", text, _grant(facts, read))
    elif facts.trouble == "gone":
        text = f"the cloud has no machine of this name: {facts.machine.id} ({said})"
        yield (
            "refuse",
            PlanFinding("not_this_machine", text, "run `costguard doctor`; was the machine moved or renamed?"),
        )
    else:
        text = f"the cloud does not say what this machine is, so nothing is done to it ({said})"
        yield "refuse", PlanFinding("facts_missing", text, "run `costguard doctor` again")


def _running(case: AzureCase) -> Found:
    """Source: "States and billing status": what is stopped is still billed, what is deallocated is not."""
    if case.vm.power in {"stopping", "stopped"}:
        text = (
            f"Azure shows this machine as {case.vm.power} from inside: nothing is sent, and it is billed in full until "
            "somebody deallocates it"
        )
        yield "refuse", PlanFinding("not_running", text, f"run `{_deallocate(case.facts)}`")


def _deallocate(facts: Facts) -> str:
    """The command by which a person ends the bill."""
    where = facts.machine
    if where.scale_set:
        return f"az vmss deallocate -g {where.group} -n {where.scale_set} --instance-ids {where.name}"
    return f"az vm deallocate --ids {where.id}"


def _rights(case: AzureCase) -> Found:
    """Azure has no dry run of a deallocation; the list of the caller's permissions is the next best."""
    facts = case.facts
    right = permissions.right(case.verb, facts.machine.kind)
    if facts.grants is None:
        text = f"whether this machine may do it is not known ({facts.unknown.get('the rights', '')})"
        if facts.passes("the rights"):
            yield "failed", PlanFinding("permission_unknown", text, hints.AGAIN)
        else:
            yield "consequences", PlanFinding("permission_unknown", text, _grant(facts, permissions.SEE_RIGHTS))
        return
    if not any(grant.allows(right) for grant in facts.grants):
        if facts.young:
            yield rules.rights_late(f"the right {right} is missing", right)
        else:
            text = f"the right {right} is missing: the machine would stay up and be billed"
            yield "refuse", PlanFinding("not_permitted", text, _grant(facts, right))
    view = permissions.look(facts.machine.kind)[1]
    if not any(grant.allows(view) for grant in facts.grants):
        text = f"the right {view} is missing: nobody could prove that the bill has ended"
        yield "consequences", PlanFinding("permission_unknown", text, _grant(facts, view))


def _locks(case: AzureCase) -> Found:
    """Source: "Lock your resources": ReadOnly blocks every POST; CanNotDelete is made for deletion only."""
    facts = case.facts
    if facts.locks is None:
        text = f"whether a lock holds this machine is not known ({facts.unknown.get('the locks', '')})"
        if facts.passes("the locks"):
            yield "failed", PlanFinding("facts_missing", text, hints.AGAIN)
        else:
            yield "consequences", PlanFinding("permission_unknown", text, _grant(facts, permissions.SEE_LOCKS))
        return
    hint = f"see it with `az lock list --resource {facts.machine.id}`; costguard never removes one"
    for lock in facts.locks:
        if case.verb == "terminate":
            text = f"the lock {lock.name} ({lock.level}) forbids to delete this machine or a part of it"
            yield "refuse", PlanFinding("locked", text, hint)
        elif lock.level.lower() == "readonly" and not lock.below:
            text = f"the lock {lock.name} (ReadOnly) forbids to deallocate this machine, so it would be billed on"
            yield "refuse", PlanFinding("locked", text, hint)
        elif not lock.below:
            text = f"the lock {lock.name} ({lock.level}) is meant for deletion; Azure was seen to refuse a stop because of one"
            yield "consequences", PlanFinding("locked", text, hint)


def _grant(facts: Facts, right: str) -> str:
    """The command that gives a right."""
    return (
        f"needed: {right}. `costguard permissions azure` prints the role; assign it with `az role assignment create` "
        f"and --scope {facts.machine.id}"
    )


_ENDS = frozenset(("deallocating", "deallocated"))
"""Somebody else, or an earlier attempt, has ended it. Source: "States and billing status"."""

RULES: tuple[Callable[[AzureCase], Found], ...] = (
    _running,
    _rights,
    _locks,
    rules_group.managed,
    rules_group.member,
    rules_bill.prepaid,
    rules_bill.system_disk,
    rules_bill.hibernation,
    rules_bill.local_disk,
    rules_bill.spot,
    rules_bill.bill,
)
