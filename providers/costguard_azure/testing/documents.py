"""The Resource Manager's documents, from the facts of the world. Source: REST reference, Microsoft.Compute 2026-04-01."""

from datetime import UTC, datetime, timedelta
from typing import Any

from costguard_azure.testing.world import Disk, LockOn, World


def machine(world: World, *, view: bool) -> dict[str, Any]:
    """A machine, or an instance of a uniform scale set."""
    created = datetime.now(UTC) - timedelta(seconds=world.age)
    body: dict[str, Any] = {
        "vmId": world.vm_id,
        "storageProfile": {
            "osDisk": {
                **_disk(world, world.system_disk),
                "osType": "Linux",
                "createOption": "FromImage",
                **({"diffDiskSettings": {"option": "Local"}} if world.ephemeral_os else {}),
            },
            "dataDisks": [
                {**_disk(world, disk), "lun": lun, "createOption": "Empty"} for lun, disk in enumerate(world.data_disks)
            ],
        },
        "provisioningState": "Deleting" if world.deleting else "Succeeded",
        "timeCreated": created.isoformat().replace("+00:00", "Z"),
    }
    if world.hibernation:
        body["additionalCapabilities"] = {"hibernationEnabled": True}
    if world.reservation:
        group = f"{world.group_id}/providers/Microsoft.Compute/capacityReservationGroups/{world.reservation}"
        body["capacityReservation"] = {"capacityReservationGroup": {"id": group}}
    if view:
        body["instanceView"] = instance_view(world)
    found: dict[str, Any] = {"id": world.id, "location": world.location, "tags": world.tags, "properties": body}
    if world.uniform and world.scale_set:
        body["protectionPolicy"] = {"protectFromScaleSetActions": world.scale_set.protected}
        return {**found, "instanceId": "0", "name": f"{world.scale_set.name}_0", "sku": {"name": world.size}}
    body["hardwareProfile"] = {"vmSize": world.size}
    body["priority"] = world.priority
    if world.priority == "Spot":
        body["billingProfile"] = {"maxPrice": world.max_price}
    if world.eviction:
        body["evictionPolicy"] = world.eviction
    if world.availability_set:
        body["availabilitySet"] = {"id": f"{world.group_id}/providers/Microsoft.Compute/availabilitySets/PAIR"}
    if world.host:
        body["host"] = {"id": f"{world.group_id}/providers/Microsoft.Compute/hostGroups/own/hosts/{world.host}"}
    if world.scale_set:
        body["virtualMachineScaleSet"] = {"id": world.scale_set_id}
        body["protectionPolicy"] = {"protectFromScaleSetActions": world.scale_set.protected}
    return {**found, "name": world.name, "type": "Microsoft.Compute/virtualMachines", "zones": [world.zone]}


def instance_view(world: World) -> dict[str, Any]:
    """The states; a hibernated machine is a deallocated one with one more."""
    statuses = [
        {"code": f"ProvisioningState/{'deleting' if world.deleting else 'succeeded'}", "level": "Info"},
        {"code": f"PowerState/{world.power}", "level": "Info", "displayStatus": f"VM {world.power}"},
    ]
    if world.hibernated and world.power == "deallocated":
        statuses.append({"code": "HibernationState/Hibernated", "level": "Info"})
    return {"vmAgent": {"vmAgentVersion": "2.9.1.1"}, "statuses": statuses}


def locks(world: World) -> list[dict[str, Any]]:
    """The locks on the machine, around it and on its parts."""
    return [
        {
            "id": f"{scope(world, lock)}/providers/Microsoft.Authorization/locks/{lock.name}",
            "name": lock.name,
            "type": "Microsoft.Authorization/locks",
            "properties": {"level": lock.level},
        }
        for lock in world.locks
    ]


def scope(world: World, lock: LockOn) -> str:
    """What a lock holds."""
    return {
        "machine": world.id,
        "group": world.group_id,
        "subscription": f"/subscriptions/{world.subscription}",
        "part": f"{world.id}/extensions/monitor",
    }[lock.scope]


def scale_set(world: World) -> dict[str, Any]:
    """The scale set of the machine."""
    held = world.scale_set
    if held is None:
        return {}
    body = {
        "orchestrationMode": "Uniform" if held.uniform else "Flexible",
        "automaticRepairsPolicy": {"enabled": held.repairs},
    }
    sku = {"name": world.size, "tier": "Standard", "capacity": held.capacity}
    return {"id": world.scale_set_id, "name": held.name, "location": world.location, "sku": sku, "properties": body}


def autoscale(world: World) -> list[dict[str, Any]]:
    """The autoscale settings of the group; numbers are text there."""
    held = world.scale_set
    if held is None or not held.minimum:
        return []
    capacity = {"minimum": str(held.minimum), "maximum": "10", "default": str(held.minimum)}
    body = {
        "enabled": True,
        "targetResourceUri": world.scale_set_id,
        "profiles": [{"name": "all", "capacity": capacity}],
    }
    return [{"name": "autoscale", "location": world.location, "properties": body}]


def _disk(world: World, disk: Disk) -> dict[str, Any]:
    return (
        {"name": disk.name}
        if world.uniform
        else {"name": disk.name, "deleteOption": "Delete" if disk.delete else "Detach"}
    )
