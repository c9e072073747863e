"""What the API says about the instance, as values. Pure: the SDK's dictionaries in, named tuples out.

Sources: EC2 API reference ``Instance``, ``InstanceTypeInfo``, ``SpotInstanceRequest``, ``SpotPrice``; Auto Scaling API
reference ``AutoScalingInstanceDetails``, ``AutoScalingGroup``.
"""

from collections.abc import Mapping
from datetime import UTC
from typing import Any, NamedTuple

from costguard.cloud.api import Price
from costguard_aws.errors import senseless

LINUX = "Linux/UNIX"
"""The product whose Spot prices are asked for."""


class Volume(NamedTuple):
    """A network disk, and whether it is deleted with the instance."""

    id: str
    deleted: bool


class Instance(NamedTuple):
    """DescribeInstances, as far as plans and proofs need it. An empty text means that the cloud said nothing."""

    id: str
    state: str
    owner: str = ""
    type: str = ""
    image: str = ""
    launched: float | None = None
    transition: str = ""
    root_device: str = "ebs"
    lifecycle: str = ""
    spot_request: str = ""
    hibernation: bool = False
    reservation: str = ""
    block: str = ""
    tenancy: str = "default"
    operator: str = ""
    tags: Mapping[str, str] = {}
    volumes: tuple[Volume, ...] = ()
    addresses: int = 0


class SpotRequest(NamedTuple):
    """DescribeSpotInstanceRequests. ``type`` is ``one-time`` or ``persistent``."""

    type: str
    state: str = "active"
    launch_group: str = ""


class Group(NamedTuple):
    """The Auto Scaling group of this instance; ``minimum`` and ``desired`` are None when they could not be read."""

    name: str
    state: str = ""
    protected: bool = False
    minimum: int | None = None
    desired: int | None = None


def instance(response: Mapping[str, Any], wanted: str) -> Instance | None:
    """The instance of that id, None when EC2 names none. Raises CloudError when the answer is none of EC2's."""
    if "Reservations" not in response:  # EC2 sends the list also when it is empty
        raise senseless("ec2:DescribeInstances")
    for reservation in response["Reservations"] or ():
        for found in reservation.get("Instances") or ():
            if found.get("InstanceId") == wanted:
                return _instance(found, str(reservation.get("OwnerId", "")))
    return None


def _instance(found: Mapping[str, Any], owner: str) -> Instance:
    launched = found.get("LaunchTime")
    operator = found.get("Operator") or {}
    return Instance(
        id=str(found["InstanceId"]),
        state=str((found.get("State") or {}).get("Name", "")),
        owner=owner,
        type=str(found.get("InstanceType", "")),
        image=str(found.get("ImageId", "")),
        launched=launched.timestamp() if launched is not None else None,
        transition=str(found.get("StateTransitionReason", "")),
        root_device=str(found.get("RootDeviceType", "ebs")),
        lifecycle=str(found.get("InstanceLifecycle", "")),
        spot_request=str(found.get("SpotInstanceRequestId", "")),
        hibernation=(found.get("HibernationOptions") or {}).get("Configured") is True,
        reservation=str(found.get("CapacityReservationId", "")),
        block=str(found.get("CapacityBlockId", "")),
        tenancy=str((found.get("Placement") or {}).get("Tenancy") or "default"),
        operator=str(operator.get("Principal") or "an AWS service") if operator.get("Managed") is True else "",
        tags={str(tag["Key"]): str(tag.get("Value", "")) for tag in found.get("Tags") or ()},
        volumes=tuple(_volumes(found)),
        addresses=_addresses(found),
    )


def _volumes(found: Mapping[str, Any]) -> list[Volume]:
    disks = [mapping.get("Ebs") or {} for mapping in found.get("BlockDeviceMappings") or ()]
    return [Volume(str(disk.get("VolumeId", "")), disk.get("DeleteOnTermination") is True) for disk in disks if disk]


def _addresses(found: Mapping[str, Any]) -> int:
    """Addresses that the account owns and pays for; EC2's own are given back at a stop."""
    return sum(
        (address.get("Association") or {}).get("IpOwnerId", "amazon") != "amazon"
        for interface in found.get("NetworkInterfaces") or ()
        for address in interface.get("PrivateIpAddresses") or ()
    )


def spot_request(response: Mapping[str, Any]) -> SpotRequest | None:
    """The request that an instance came from."""
    for found in response["SpotInstanceRequests"]:
        return SpotRequest(str(found.get("Type", "")), str(found.get("State", "")), str(found.get("LaunchGroup", "")))
    return None


def spot_price(response: Mapping[str, Any], kind: str, zone: str) -> Price | None:
    """The newest price of a type in a zone, None when there is none. EC2 promises no order."""
    rows = [
        row
        for row in response["SpotPriceHistory"]
        if (row["InstanceType"], row["AvailabilityZone"], row["ProductDescription"]) == (kind, zone, LINUX)
    ]
    newest = max(rows, key=lambda row: row["Timestamp"], default=None)
    if newest is None:
        return None
    date = newest["Timestamp"].astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Price(float(newest["SpotPrice"]), "USD", zone, date, f"ec2:DescribeSpotPriceHistory, {LINUX}", "spot")


def membership(response: Mapping[str, Any], wanted: str) -> Group | None:
    """The group of an instance, without its sizes; None when it is in none."""
    for found in response.get("AutoScalingInstances") or ():
        if found.get("InstanceId") == wanted:
            protected = found.get("ProtectedFromScaleIn") is True
            return Group(str(found.get("AutoScalingGroupName", "")), str(found.get("LifecycleState", "")), protected)
    return None


def sizes(response: Mapping[str, Any]) -> tuple[int, int] | None:
    """The minimum and the desired size of a group."""
    for found in response.get("AutoScalingGroups") or ():
        return int(found.get("MinSize", 0)), int(found.get("DesiredCapacity", 0))
    return None
