"""What the API says of the machine, its group and its operations, in the fields of the discovery document."""

import itertools
from typing import Any

from costguard_gcp.testing.machine import Machine, now

_ROOT = "https://www.googleapis.com/compute/v1"
_numbers = itertools.count(1)


def instance(machine: Machine) -> dict[str, Any]:
    """The resource ``Instance``; fields without a value are left out, as the API does."""
    zone = _zone(machine)
    status: dict[str, Any] = {"scheduling": {}}
    if machine.ends_at:
        status["scheduling"]["terminationTimestamp"] = machine.ends_at
    if machine.reservation:
        status["reservationConsumptionInfo"] = {"consumedReservation": f"{zone}/reservations/{machine.reservation}"}
    found: dict[str, Any] = {
        "kind": "compute#instance",
        "id": str(machine.number),
        "name": machine.name,
        "status": machine.status,
        "zone": zone,
        "selfLink": f"{zone}/instances/{machine.name}",
        "machineType": f"{zone}/machineTypes/{machine.type}",
        "creationTimestamp": now(machine.age),
        "lastStartTimestamp": now(machine.age),
        "deletionProtection": machine.protected,
        "disks": _disks(machine),
        "scheduling": _scheduling(machine),
        "reservationAffinity": _affinity(machine),
        "resourceStatus": status,
    }
    if machine.gpus:
        kinds = [(f"{zone}/acceleratorTypes/{kind}", count) for kind, count in machine.gpus.items()]
        found["guestAccelerators"] = [{"acceleratorType": kind, "acceleratorCount": count} for kind, count in kinds]
    if machine.confidential:
        found["confidentialInstanceConfig"] = {"enableConfidentialCompute": True, "confidentialInstanceType": "SEV"}
    found["labelFingerprint"] = machine.fingerprint
    if machine.labels:
        found["labels"] = dict(machine.labels)
    if machine.last_stop:
        found["lastStopTimestamp"] = machine.last_stop
    return found


def operation(machine: Machine, effect: str) -> dict[str, Any]:
    """A fresh resource ``Operation`` that runs."""
    number = next(_numbers)
    return {
        "kind": "compute#operation",
        "id": str(7_000_000_000_000_000_000 + number),
        "name": f"operation-1795000000000-{number:013x}",
        "operationType": effect,
        "status": "RUNNING",
        "progress": 0,
        "insertTime": now(),
        "zone": _zone(machine),
        "targetId": str(machine.number),
        "targetLink": f"{_zone(machine)}/instances/{machine.name}",
        "user": f"trainer@{machine.project}.iam.gserviceaccount.com",
    }


def manager(machine: Machine) -> dict[str, Any]:
    """The resource ``InstanceGroupManager``."""
    group = machine.group
    assert group is not None
    status: dict[str, Any] = {"isStable": True}
    if group.least is not None:
        status["autoscaler"] = f"{_place(machine)}/autoscalers/{group.name}-scaler"
    return {
        "kind": "compute#instanceGroupManager",
        "name": group.name,
        "baseInstanceName": group.name,
        "targetSize": group.size,
        "selfLink": f"{_place(machine)}/instanceGroupManagers/{group.name}",
        "status": status,
    }


def autoscaler(machine: Machine) -> dict[str, Any]:
    """The resource ``Autoscaler``."""
    group = machine.group
    assert group is not None
    policy = {"mode": "ON", "minNumReplicas": group.least or 0, "maxNumReplicas": 10}
    return {
        "kind": "compute#autoscaler",
        "name": f"{group.name}-scaler",
        "autoscalingPolicy": policy,
        "status": "ACTIVE",
    }


def _disks(machine: Machine) -> list[dict[str, Any]]:
    source = f"{_zone(machine)}/disks/"
    boot = {"type": "PERSISTENT", "boot": True, "source": source + machine.name, "autoDelete": machine.boot_auto_delete}
    data = [
        {"type": "PERSISTENT", "boot": False, "source": source + name, "autoDelete": goes}
        for name, goes in machine.data_disks.items()
    ]
    local = [
        {"type": "SCRATCH", "boot": False, "interface": "NVME", "autoDelete": True, "deviceName": f"local-ssd-{number}"}
        for number, _ in enumerate(machine.local_ssds)
    ]
    return [{"kind": "compute#attachedDisk", "mode": "READ_WRITE", **disk} for disk in (boot, *data, *local)]


def _scheduling(machine: Machine) -> dict[str, Any]:
    found: dict[str, Any] = {
        "onHostMaintenance": "TERMINATE",
        "automaticRestart": not machine.preemptible,
        "preemptible": machine.preemptible,
        "provisioningModel": machine.model,
    }
    if machine.node_group:
        label = "compute.googleapis.com/node-group-name"
        found["nodeAffinities"] = [{"key": label, "operator": "IN", "values": [machine.node_group]}]
    if machine.graceful:
        found["gracefulShutdown"] = {"enabled": True, "maxDuration": {"seconds": str(machine.graceful)}}
    if machine.termination:
        found["instanceTerminationAction"] = machine.termination
    return found


def _affinity(machine: Machine) -> dict[str, Any]:
    found: dict[str, Any] = {"consumeReservationType": machine.affinity}
    if machine.affinity == "SPECIFIC_RESERVATION":
        found.update(key="compute.googleapis.com/reservation-name", values=[machine.reservation or "block-7"])
    return found


def _zone(machine: Machine) -> str:
    return f"{_ROOT}/projects/{machine.project}/zones/{machine.zone}"


def _place(machine: Machine) -> str:
    if machine.group and machine.group.region:
        return f"{_ROOT}/projects/{machine.project}/regions/{machine.group.region}"
    return _zone(machine)
