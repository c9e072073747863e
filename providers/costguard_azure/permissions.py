"""The rights that each action needs, and the role that grants exactly these.

Sources: Azure documentation "Azure permissions for Compute" (names of the rights) and "Azure custom roles"
(form of a role; it can be assigned to one machine, but must be *assignable* in a group or a subscription).
"""

import json
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from costguard.cloud.api import Permission, Verb, policy_command

COMPUTE = "Microsoft.Compute"
TAGS = "Microsoft.Resources/tags/write"
SEE_RIGHTS = "Microsoft.Authorization/permissions/read"
SEE_LOCKS = "Microsoft.Authorization/locks/read"
SEE_SCALE_SET = "Microsoft.Compute/virtualMachineScaleSets/read"
SEE_AUTOSCALE = "Microsoft.Insights/autoscaleSettings/read"

_MACHINE = "virtualMachines"
_PLACE = "/subscriptions/SUBSCRIPTION/resourceGroups/RESOURCE_GROUP"
_VM = f"{_PLACE}/providers/Microsoft.Compute/virtualMachines/VM"
_WHY = {
    "stop": "stop: ends the bill for computing and keeps the disks",
    "hibernate": "hibernate: as stop, and keeps the memory's content on the system disk",
    "terminate": "terminate: deletes the machine",
}


class Grant(NamedTuple):
    """One entry of the permissions that the cloud says the caller has: patterns with ``*``."""

    actions: tuple[str, ...]
    not_actions: tuple[str, ...] = ()

    def allows(self, right: str) -> bool:
        """Whether this entry grants a right. Azure compares without regard to case."""
        return _matches(right, self.actions) and not _matches(right, self.not_actions)


def right(verb: Verb, kind: str = _MACHINE) -> str:
    """The right that an action itself needs; ``kind`` is the resource type below Microsoft.Compute."""
    return f"{COMPUTE}/{kind}/delete" if verb == "terminate" else f"{COMPUTE}/{kind}/deallocate/action"


def look(kind: str = _MACHINE) -> tuple[str, str]:
    """The rights to see the machine and what became of it."""
    return f"{COMPUTE}/{kind}/read", f"{COMPUTE}/{kind}/instanceView/read"


def permissions(verbs: Sequence[Verb], kind: str = _MACHINE, *, tag: bool = False) -> tuple[Permission, ...]:
    """All rights of these actions, each of them once; ``tag`` adds the one to write the machine's tags."""
    see, view = look(kind)
    found = {
        see: Permission(see, "compare the machine's id before acting; spot, disks, reservation, hibernation"),
        view: Permission(view, "prove that the bill has ended"),
    }
    for verb in verbs:
        name = right(verb, kind)
        why = f"{found[name].why}; {_WHY[verb]}" if name in found else _WHY[verb]
        found[name] = Permission(name, why)
    if tag:
        found[TAGS] = Permission(TAGS, "write the tags costguard-incident and costguard-heartbeat of this machine")
    extra = {SEE_RIGHTS: "find a missing right before it is needed", SEE_LOCKS: "find a lock before it refuses"}
    return (*found.values(), *(Permission(name, why, needed=False) for name, why in extra.items()))


def policy(verbs: Sequence[Verb], kind: str = _MACHINE, *, tag: bool = False) -> str:
    """The custom role, as ``az role definition create --role-definition @FILE`` takes it."""
    role = {
        "Name": role_name([*verbs, "tag"] if tag else verbs),
        "IsCustom": True,
        "Description": "Lets a machine see itself and end its own bill. Assign it to the machine's own identity, "
        "with the machine as scope.",
        "Actions": [permission.name for permission in permissions(verbs, kind, tag=tag)],
        "NotActions": [],
        "DataActions": [],
        "NotDataActions": [],
        "AssignableScopes": [_PLACE],
    }
    return json.dumps(role, indent=2)


def commands(verbs: Sequence[Verb], machine: str = _VM, *, tag: bool = False) -> str:
    """The commands that create the role and give it to one machine's own identity. SUBSCRIPTION, RESOURCE_GROUP and VM are to be put in."""
    principal = f'"$(az vm show --ids {machine} --query identity.principalId --output tsv)"'
    name = role_name([*verbs, "tag"] if tag else verbs)
    assign = f"az role assignment create --role '{name}' --scope {machine}"
    return "\n".join(
        (
            f"{policy_command('azure', verbs, tag=tag)} > costguard-role.json",
            "# put your own SUBSCRIPTION and RESOURCE_GROUP into that file, too",
            "az role definition create --role-definition @costguard-role.json",
            f"az vm identity assign --ids {machine}",
            f"{assign} --assignee-principal-type ServicePrincipal --assignee-object-id {principal}",
        )
    )


def role_name(verbs: Sequence[str]) -> str:
    """One name for each set of actions: role names are unique in a directory."""
    return f"costguard {' '.join(sorted(set(verbs)))}".strip()


def _matches(right: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(right.lower(), pattern.lower()) for pattern in patterns)
