"""Everything a plan needs, from the Resource Manager and from the guest. The only I/O before acting.

What could not be had is None, and ``unknown`` says why.
Source of the documents' form: the REST reference of Microsoft.Compute 2026-04-01, Microsoft.Authorization
permissions 2022-04-01 and locks 2016-09-01, Microsoft.Insights autoscalesettings 2022-10-01.
"""

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from costguard.cloud.age import is_young, uptime
from costguard.cloud.api import CloudError, Identity, Price, Site
from costguard.cloud.local_disks import Use
from costguard.cloud.rules import PlanCase
from costguard_azure import arm, disks, nodes, resource
from costguard_azure.permissions import Grant
from costguard_azure.prices import owners_limit
from costguard_azure.session import Session

T = TypeVar("T")

BUDGET_SECONDS = 20.0
"""Seconds for all questions of one plan."""


class Lock(NamedTuple):
    """A lock on the machine or on something around it. ``below``: only on a part of the machine."""

    name: str
    level: str
    below: bool = False


class Group(NamedTuple):
    """The scale set that this machine is a member of. None is unknown."""

    name: str
    uniform: bool
    capacity: int | None = None
    repairs: bool | None = None
    minimum: int | None = None
    protected: bool = False


class Vm(NamedTuple):
    """The machine, as the cloud describes it. ``age`` is seconds since it was made, None when not said.

    ``owner`` is the scheduler of this machine, with what shows it.
    """

    vm_id: str
    size: str
    power: str
    age: float | None = None
    spot: bool = False
    eviction: str = ""
    ephemeral_os: bool = False
    hibernation: bool = False
    availability_set: bool = False
    reservation: str = ""
    host: str = ""
    disks_deleted: tuple[str, ...] = ()
    disks_kept: tuple[str, ...] = ()
    owner: tuple[str, str] | None = None
    group: Group | None = None
    limit: Price | None = None


class Facts(NamedTuple):
    """See the module.

    ``disk`` is the use of the local disks, None where there is none.
    ``young``: the machine is so new that rights may be on their way. ``trouble`` says why there is no
    ``vm``: ``denied``, ``gone`` or ``refused``; ``unknown`` says why, for everything that is missing.
    """

    machine: resource.Resource
    expected_id: str
    vm: Vm | None
    grants: tuple[Grant, ...] | None
    locks: tuple[Lock, ...] | None
    disk: Use | None
    young: bool = False
    trouble: str = ""
    unknown: Mapping[str, CloudError] = {}

    def passes(self, what: str) -> bool:
        """Whether it is unknown for a technical reason: throttling, or a way to the cloud that broke off."""
        return what in self.unknown and self.unknown[what].technical


class AzureCase(PlanCase[Facts]):
    """What a rule looks at once the machine's own document is there."""

    @property
    def vm(self) -> Vm:
        """The machine's own document."""
        assert self.facts.vm is not None, "no rule is asked without it"
        return self.facts.vm


def gather(session: Session, site: Site, identity: Identity, within: float | None = None) -> Facts:
    """Ask for everything. Raises CloudError only when nothing can be known (no network, no credentials).

    ``within`` is seconds, at most `BUDGET_SECONDS`.
    """
    end = time.monotonic() + min(BUDGET_SECONDS, BUDGET_SECONDS if within is None else within)
    machine = session.machine
    unknown: dict[str, CloudError] = {}

    def ask(what: str, question: Callable[[], T]) -> T | None:
        try:
            return session.ask(end, f"looking at {what}", question)
        except CloudError as error:
            unknown[what] = error
            return None

    vm, trouble = None, ""
    try:
        found = session.ask(end, "reading the machine's state", lambda: arm.machine(session))
    except CloudError as error:
        if error.trouble not in {"denied", "gone", "refused"}:
            raise
        trouble, unknown["the machine"] = error.trouble, error
    else:
        vm = _vm(found, machine)
        # A member of a uniform scale set does not say that it is Spot; its metadata does.
        vm = vm._replace(group=_group(session, vm, identity, ask), spot=vm.spot or identity.market == "spot")
        vm = vm._replace(limit=owners_limit(found, identity.region) if vm.spot else None)
    grants = ask("the rights", lambda: arm.permissions(session))
    locks = ask("the locks", lambda: arm.locks(session))
    age = vm.age if vm and vm.age is not None else uptime(site.procfs)
    return Facts(
        machine=machine,
        expected_id=identity.details.get("vm_id", identity.instance),
        vm=vm,
        grants=None if grants is None else tuple(map(grant, grants)),
        locks=None if locks is None else tuple(lock for row in locks if (lock := _lock(row, machine.id))),
        disk=disks.look(site.procfs, site.sysfs, identity.details.get("temp_disk_kb", ""), site.devfs),
        young=is_young(age),
        trouble=trouble,
        unknown=unknown,
    )


def refresh(facts: Facts, site: Site, identity: Identity) -> Facts:
    """Look again at what may change from one moment to the next and costs no request: the use of the local disk."""
    return facts._replace(
        disk=disks.look(site.procfs, site.sysfs, identity.details.get("temp_disk_kb", ""), site.devfs)
    )


def _vm(found: Mapping[str, Any], machine: resource.Resource) -> Vm:
    """Read the machine's document, with its instance view."""
    body = found.get("properties") or {}
    storage = body.get("storageProfile") or {}
    system = storage.get("osDisk") or {}
    by_option: dict[bool, list[str]] = {True: [], False: []}
    for disk in (system, *(storage.get("dataDisks") or ())):
        # A uniform scale set makes and deletes its members' disks; elsewhere a disk stays unless it says otherwise.
        option = str(disk.get("deleteOption") or ("Delete" if machine.scale_set else "Detach"))
        deleted = option.lower() == "delete"
        by_option[deleted].append(str(disk.get("name") or "a disk"))
    return Vm(
        vm_id=str(body.get("vmId") or "").lower(),
        size=str(_at(body, "hardwareProfile", "vmSize") or _at(found, "sku", "name") or ""),
        power=arm.view(body.get("instanceView") or {}).power,
        age=_age(body.get("timeCreated")),
        spot=str(body.get("priority")).lower() in {"spot", "low"},
        eviction=str(body.get("evictionPolicy") or ""),
        ephemeral_os=str(_at(system, "diffDiskSettings", "option")).lower() == "local",
        hibernation=_at(body, "additionalCapabilities", "hibernationEnabled") is True,
        availability_set=bool(_at(body, "availabilitySet", "id")),
        reservation=_last(_at(body, "capacityReservation", "capacityReservationGroup", "id")),
        host=_last(_at(body, "host", "id") or _at(body, "hostGroup", "id")),
        disks_deleted=tuple(by_option[True]),
        disks_kept=tuple(by_option[False]),
        owner=_owner(found, machine),
        group=_membership(found, machine),
    )


def _membership(found: Mapping[str, Any], machine: resource.Resource) -> Group | None:
    """The scale set's name as the machine itself says it."""
    body = found.get("properties") or {}
    protected = _at(body, "protectionPolicy", "protectFromScaleSetActions") is True
    if machine.scale_set:
        return Group(machine.scale_set, uniform=True, protected=protected)
    name = _last(_at(body, "virtualMachineScaleSet", "id"))
    return Group(name, uniform=False, protected=protected) if name else None


def _group(session: Session, vm: Vm, identity: Identity, ask: Callable[..., Any]) -> Group | None:
    """What the scale set says of itself. Its name in the metadata counts when the machine's own is missing."""
    name = vm.group.name if vm.group else identity.details.get("scale_set", "")
    if not name:
        return None
    group = vm.group or Group(name, uniform=bool(session.machine.scale_set))
    path = resource.scale_set_id(session.machine, name)
    found = ask("the scale set", lambda: arm.scale_set(session, name))
    if found is not None:
        repairs = _at(found, "properties", "automaticRepairsPolicy", "enabled") is True
        group = group._replace(capacity=_whole(_at(found, "sku", "capacity")), repairs=repairs)
    rules = ask("the autoscale settings", lambda: arm.autoscale(session))
    if rules is not None:
        group = group._replace(minimum=_minimum(rules, path))
    return group


def _minimum(rules: list[Mapping[str, Any]], scale_set: str) -> int:
    """The least number of members that any enabled profile keeps; 0 when nothing scales this set."""
    least = [0]
    for rule in rules:
        body = rule.get("properties") or {}
        if body.get("enabled") and str(body.get("targetResourceUri") or "").lower() == scale_set.lower():
            least += [_whole(_at(profile, "capacity", "minimum")) or 0 for profile in body.get("profiles") or ()]
    return max(least)


def _owner(found: Mapping[str, Any], machine: resource.Resource) -> tuple[str, str] | None:
    tags = {str(name): str(value) for name, value in (found.get("tags") or {}).items()}
    scale_set = machine.scale_set or _last(_at(found, "properties", "virtualMachineScaleSet", "id"))
    return nodes.owner(tags, machine.group, scale_set)


def grant(row: Mapping[str, Any]) -> Grant:
    """One entry of the list of the caller's permissions."""
    return Grant(tuple(map(str, row.get("actions") or ())), tuple(map(str, row.get("notActions") or ())))


def _lock(row: Mapping[str, Any], machine: str) -> Lock | None:
    """A lock that concerns the machine: on it, on something around it, or on a part of it."""
    scope = str(row.get("id") or "").lower().partition("/providers/microsoft.authorization/locks/")[0]
    below = scope.startswith(machine.lower() + "/")
    if not below and scope and machine.lower() != scope and not machine.lower().startswith(scope + "/"):
        return None
    return Lock(str(row.get("name") or "a lock"), str(_at(row, "properties", "level") or ""), below)


def _age(created: object) -> float | None:
    try:
        return max(0.0, time.time() - datetime.fromisoformat(str(created)[:19] + "+00:00").timestamp())
    except ValueError:
        return None


def _at(found: object, *path: str) -> Any:
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _last(resource_id: object) -> str:
    return str(resource_id or "").rstrip("/").rpartition("/")[2]


def _whole(value: object) -> int | None:
    try:
        return int(str(value))
    except ValueError:
        return None
