"""What may be done and what follows from it, decided from the facts alone.

A plan is a list of small rules. Each looks at one circumstance and gives a verdict with a finding; the
gravest verdict is the plan's. Sources of the rules: docs/clouds-azure.md, row by row.
"""

from collections.abc import Callable, Mapping

from costguard.cloud import hints, rules
from costguard.cloud.api import Verb
from costguard.cloud.rules import Found, Row, follows, refuse
from costguard.plans import Plan
from costguard_azure import permissions, rules_bill, rules_group
from costguard_azure.facts import AzureCase, Facts
from costguard_azure.permissions import SEE_LOCKS, SEE_RIGHTS


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
        text = f"Azure's machine of this name has the id {vm.vm_id or '(none)'}, this machine has {expected}"
        yield refuse("not_this_machine", text, f"{hints.RESTART}; if that does not help, {hints.DOCTOR}")


def _unseen(facts: Facts, read: str) -> Found:
    """Without the machine's own document nothing else can be judged."""
    why = facts.unknown.get("the machine", "")
    if facts.trouble == "denied" and facts.young:
        yield rules.rights_late(f"the right {read} is missing ({why})", read)
    elif facts.trouble == "denied":
        yield rules.right_missing(read, _grant(facts, read), why)
    elif facts.trouble == "gone":
        text = f"Azure knows no machine {facts.machine.id} ({why})"
        yield refuse("not_this_machine", text, f"was it moved or renamed? {hints.RESTART}, {hints.THEN_DOCTOR}")
    else:
        yield rules.unread("facts_missing", "what Azure knows of this machine", why, hints.DOCTOR, passes=False)


def _running(case: AzureCase) -> Found:
    """Source: "States and billing status": what is stopped is still billed, what is deallocated is not."""
    if case.vm.power in {"stopping", "stopped"}:
        text = f"this machine is {case.vm.power} from inside, but still allocated and billed in full: nothing is sent"
        yield refuse("not_running", text, f"to end the bill: `{_deallocate(case.facts)}`")


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
        yield unread(facts, "permission_unknown", "the rights", f"whether the right {right} is granted", SEE_RIGHTS)
        return
    if not any(grant.allows(right) for grant in facts.grants):
        if facts.young:
            yield rules.rights_late(f"the right {right} is missing", right)
        else:
            yield rules.right_missing(right, _grant(facts, right))
    view = permissions.look(facts.machine.kind)[1]
    if not any(grant.allows(view) for grant in facts.grants):
        text = f"the right {view} is missing: the end of the bill could not be proved"
        yield follows("permission_unknown", text, _grant(facts, view))


def _locks(case: AzureCase) -> Found:
    """Source: "Lock your resources": ReadOnly blocks every POST; CanNotDelete is made for deletion only."""
    facts = case.facts
    if facts.locks is None:
        yield unread(facts, "facts_missing", "the locks", "whether a lock holds this machine", SEE_LOCKS)
        return
    hint = f"see it with `az lock list --resource {facts.machine.id}`; costguard never removes one"
    for lock in facts.locks:
        if case.verb == "terminate":
            text = (
                f"the lock {lock.name} ({lock.level}) forbids deleting this machine or a part of it: the bill goes on"
            )
            yield refuse("locked", text, hint)
        elif lock.level.lower() == "readonly" and not lock.below:
            text = f"the lock {lock.name} (ReadOnly) forbids deallocating this machine: the bill goes on"
            yield refuse("locked", text, hint)
        elif not lock.below:
            text = f"the lock {lock.name} ({lock.level}) should only forbid deletion, but Azure has refused stops because of one"
            yield follows("locked", text, hint)


def unread(facts: Facts, code: str, name: str, what: str, right: str) -> Row:
    """Of ``name``, a part of the facts that is unknown: asked again where that passes, else the ``right`` to read it is missing."""
    if facts.passes(name):
        return rules.unread(code, what, facts.unknown[name], "", passes=True)
    why, hint = facts.unknown.get(name, ""), _grant(facts, right)
    return rules.unread("permission_unknown", what, why, hint, passes=False, otherwise="consequences")


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
