"""``permissions.json``: the policies of each set of actions, as ``costguard permissions`` prints them."""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

import costguard_aws.permissions
import costguard_aws.secret_store
import costguard_azure.permissions
import costguard_azure.secret_store
import costguard_gcp.permissions
import costguard_gcp.secret_store
from costguard.cloud.api import Verb

_SECRET = "NAME"  # noqa: S105 - the name of a secret to put in, not a secret


def documents() -> Mapping[str, str]:
    """The file of each cloud."""
    return {"aws": _text(_aws()), "gcp": _text(_gcp()), "azure": _text(_azure())}


def sets() -> Iterator[tuple[str, tuple[Verb, ...], bool]]:
    """Key, actions and whether tags are written: ``stop+terminate+tag``; ``none`` where no action goes through the cloud."""
    verbs: Sequence[Verb] = sorted(get_args(Verb))
    for size in range(len(verbs) + 1):
        for some in itertools.combinations(verbs, size):
            for tag in (False, True):
                yield "+".join((*(some or ("none",)), *(("tag",) if tag else ()))), some, tag


def _aws() -> dict[str, Any]:
    plug_in = costguard_aws.permissions
    alone = [(key, verbs) for key, verbs, tag in sets() if not tag]
    return {
        "policies": {key: json.loads(plug_in.policy(verbs, tag=tag)) for key, verbs, tag in sets()},
        "group": {key: json.loads(text) for key, verbs in alone if (text := plug_in.group_policy(verbs))},
        "secret": json.loads(costguard_aws.secret_store.SecretStore().policy(_SECRET)),
    }


def _gcp() -> dict[str, Any]:
    plug_in = costguard_gcp.permissions
    return {
        "roles": {key: _listed(plug_in.policy(verbs, tag=tag)) for key, verbs, tag in sets()},
        "group": [right.name for right in plug_in.permissions(()) if 'cloud.group = "leave"' in right.why],
        "secret": _listed(costguard_gcp.secret_store.SecretStore().policy(_SECRET)),
    }


def _listed(policy: str) -> list[str]:
    """The items of the one list in a role's YAML."""
    return [line.removeprefix("- ") for line in policy.splitlines() if line.startswith("- ")]


def _azure() -> dict[str, Any]:
    plug_in = costguard_azure.permissions
    kinds = ("virtualMachines", "virtualMachineScaleSets/virtualMachines")
    return {
        "roles": {
            kind: {key: json.loads(plug_in.policy(verbs, kind, tag=tag))["Actions"] for key, verbs, tag in sets()}
            for kind in kinds
        },
        "group": [plug_in.SEE_SCALE_SET, plug_in.SEE_AUTOSCALE],
        "secret": json.loads(costguard_azure.secret_store.SecretStore().policy(f"VAULT/{_SECRET}"))["DataActions"],
    }


def _text(tree: Mapping[str, Any]) -> str:
    """JSON with one line for each policy."""
    parts = []
    for key, value in tree.items():
        if isinstance(value, dict) and key != "secret":
            rows = ",\n".join(f"    {json.dumps(name)}: {json.dumps(one)}" for name, one in value.items())
            parts.append(f"  {json.dumps(key)}: {{\n{rows}\n  }}")
        else:
            parts.append(f"  {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"
