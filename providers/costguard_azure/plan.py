"""What may be done and what follows from it, decided from the facts alone.

A plan is a list of small rules. Each looks at one circumstance and gives a verdict with a finding; the
gravest verdict is the plan's. Sources of the rules: docs/clouds-azure.md, row by row.
"""

from collections.abc import Callable, Mapping

from costguard.actions import hints
from costguard.actions.base import Finding, Plan, without_promises, worst
from costguard.actions.provider import Verb
from costguard_azure import permissions, rules_bill, rules_group
from costguard_azure.case import Case, Found
from costguard_azure.facts import Facts


def plan(verb: Verb, facts: Facts, settings: Mapping[str, object]) -> Plan:
    """Ask every rule. Facts that decide everything end the list."""
    found = [*_seen(facts, permissions.look(facts.machine.kind)[0])]
    if facts.vm is not None:
        case = Case(verb, facts.vm, facts, settings)
        found += [row for rule in ((_same, _already) if _ends(facts) else RULES) for row in rule(case)]
    verdict = worst(*(grade for grade, _ in found))
    made = Plan(
        action=verb,
        verdict=verdict,
        findings=tuple(finding for _, finding in found),
        ends_bill=None if facts.vm is None else not (facts.vm.reservation or facts.vm.host),
        keeps_disks=None if facts.vm is None or _ends(facts) else verb != "terminate" or not facts.vm.disks_deleted,
    )
    return without_promises(made)


def _seen(facts: Facts, read: str) -> Found:
    """Without the machine's own document nothing else can be judged."""
    if facts.vm is not None:
        return
    said = facts.unknown.get("the machine", "")
    if facts.trouble == "denied" and facts.young:
        text = f"this machine may not see itself yet; rights take some minutes to arrive at a new machine ({said})"
        yield (
            "consequences",
            Finding("rights_may_be_late", text, f"needed: {read}; {hints.RIGHTS_ARRIVE}"),
        )
    elif facts.trouble == "denied":
        text = f"this machine may not see itself, so it would stay up and be billed ({said})"
        yield "refuse", Finding("not_permitted", text, _grant(facts, read))
    elif facts.trouble == "gone":
        text = f"the cloud has no machine of this name: {facts.machine.id} ({said})"
        yield "refuse", Finding("not_this_machine", text, "run `costguard doctor`; was the machine moved or renamed?")
    else:
        text = f"the cloud does not say what this machine is, so nothing is done to it ({said})"
        yield "refuse", Finding("facts_missing", text, "run `costguard doctor` again")


def _same(case: Case) -> Found:
    """A name can be given to another machine; the id cannot."""
    if case.vm.vm_id != case.facts.expected_id.lower():
        text = f"the cloud's machine of this name is {case.vm.vm_id or 'without an id'}, this one is {case.facts.expected_id}"
        yield (
            "refuse",
            Finding("not_this_machine", text, "run `costguard doctor`; restart costguard if the machine was made anew"),
        )


def _ends(facts: Facts) -> bool:
    """Whether somebody else, or an earlier attempt, has ended it. Source: "States and billing status"."""
    return facts.vm is not None and facts.vm.power in {"deallocating", "deallocated"}


def _already(case: Case) -> Found:
    bill = "something else is billed on" if case.vm.reservation or case.vm.host else "its bill ends with that"
    text = f"Azure shows this machine as {case.vm.power} already: it is not ended a second time, and {bill}"
    yield "go", Finding("ends_already", text)


def _running(case: Case) -> Found:
    """Source: "States and billing status": what is stopped is still billed, what is deallocated is not."""
    if case.vm.power in {"stopping", "stopped"}:
        text = (
            f"Azure shows this machine as {case.vm.power} from inside: nothing is sent, and it is billed in full until "
            "somebody deallocates it"
        )
        yield "refuse", Finding("not_running", text, f"run `{_deallocate(case.facts)}`")


def _deallocate(facts: Facts) -> str:
    """The command by which a person ends the bill."""
    where = facts.machine
    if where.scale_set:
        return f"az vmss deallocate -g {where.group} -n {where.scale_set} --instance-ids {where.name}"
    return f"az vm deallocate --ids {where.id}"


def _rights(case: Case) -> Found:
    """Azure has no dry run of a deallocation; the list of the caller's permissions is the next best."""
    facts = case.facts
    right = permissions.right(case.verb, facts.machine.kind)
    if facts.grants is None:
        text = f"whether this machine may do it is not known ({facts.unknown.get('the rights', '')})"
        if facts.passes("the rights"):
            yield "failed", Finding("permission_unknown", text, hints.AGAIN)
        else:
            yield "consequences", Finding("permission_unknown", text, _grant(facts, permissions.SEE_RIGHTS))
        return
    if not any(grant.allows(right) for grant in facts.grants):
        if facts.young:
            text = f"the right {right} is missing; rights take some minutes to arrive at a new machine"
            yield (
                "consequences",
                Finding("rights_may_be_late", text, f"needed: {right}; {hints.RIGHTS_ARRIVE}"),
            )
        else:
            text = f"the right {right} is missing: the machine would stay up and be billed"
            yield "refuse", Finding("not_permitted", text, _grant(facts, right))
    view = permissions.look(facts.machine.kind)[1]
    if not any(grant.allows(view) for grant in facts.grants):
        text = f"the right {view} is missing: nobody could prove that the bill has ended"
        yield "consequences", Finding("permission_unknown", text, _grant(facts, view))


def _locks(case: Case) -> Found:
    """Source: "Lock your resources": ReadOnly blocks every POST; CanNotDelete is made for deletion only."""
    facts = case.facts
    if facts.locks is None:
        text = f"whether a lock holds this machine is not known ({facts.unknown.get('the locks', '')})"
        if facts.passes("the locks"):
            yield "failed", Finding("facts_missing", text, hints.AGAIN)
        else:
            yield "consequences", Finding("permission_unknown", text, _grant(facts, permissions.SEE_LOCKS))
        return
    hint = f"see it with `az lock list --resource {facts.machine.id}`; costguard never removes one"
    for lock in facts.locks:
        if case.verb == "terminate":
            text = f"the lock {lock.name} ({lock.level}) forbids to delete this machine or a part of it"
            yield "refuse", Finding("locked", text, hint)
        elif lock.level.lower() == "readonly" and not lock.below:
            text = f"the lock {lock.name} (ReadOnly) forbids to deallocate this machine, so it would be billed on"
            yield "refuse", Finding("locked", text, hint)
        elif not lock.below:
            text = f"the lock {lock.name} ({lock.level}) is meant for deletion; Azure was seen to refuse a stop because of one"
            yield "consequences", Finding("locked", text, hint)


def _grant(facts: Facts, right: str) -> str:
    """The command that gives a right."""
    return (
        f"needed: {right}. `costguard permissions azure` prints the role; assign it with `az role assignment create` "
        f"and --scope {facts.machine.id}"
    )


RULES: tuple[Callable[[Case], Found], ...] = (
    _same,
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
