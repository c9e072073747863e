"""The table of circumstances, as data: in which circumstance which verb gets which verdict and codes, and why.

A circumstance is a change to `BASE` (or, for hibernation, to `SLEEPER`) and to the settings. Codes are complete.
"""

from collections.abc import Mapping
from typing import NamedTuple

from costguard.cloud.api import Identity, Verb
from costguard.plans import Verdict
from costguard_aws.described import Group, Instance, SpotRequest, Volume
from costguard_aws.disks import Store
from costguard_aws.facts import Facts, Unknown

WHO = Identity(
    "AWS",
    "i-0123456789abcdef0",
    "eu-west-1",
    "eu-west-1a",
    "p3.2xlarge",
    "on-demand",
    {"account": "123456789012", "image": "ami-1", "lifecycle": "on-demand"},
    ("metadata", "firmware"),
)
INSTANCE = Instance(
    id=WHO.instance,
    state="running",
    owner="123456789012",
    type="p3.2xlarge",
    image="ami-1",
    volumes=(Volume("vol-1", True),),
)
BASE = Facts(verb="stop", identity=WHO, instance=INSTANCE, permitted=True, uptime=86400.0)
SLEEPER = BASE._replace(
    identity=WHO._replace(type="m5.large"),
    instance=INSTANCE._replace(type="m5.large", hibernation=True),
    type_hibernates=True,
)
"""A machine that can hibernate; no GPU type can."""

DENIED = Unknown("ec2:DescribeInstances", "ec2:DescribeInstances: AWS denies the right")
NO_GROUPS = Unknown(
    "autoscaling:DescribeAutoScalingInstances", "autoscaling:DescribeAutoScalingInstances: AWS denies the right"
)
WAITS = Unknown("", "AWS throttles this account (RequestLimitExceeded)", technical=True)
NO_ATTRIBUTES = Unknown("ec2:DescribeInstanceAttribute", "ec2:DescribeInstanceAttribute: AWS denies the right")
NO_TYPES = Unknown("ec2:DescribeInstanceTypes", "ec2:DescribeInstanceTypes: AWS denies the right")
NO_REQUESTS = Unknown("ec2:DescribeSpotInstanceRequests", "ec2:DescribeSpotInstanceRequests: AWS denies the right")
DISK = Store(("nvme1n1",), ())
EMPTY = Store(("nvme1n1",), (), ("/opt/dlami/nvme",))
MOUNTED = Store(("nvme1n1",), ("/scratch",))
BLOCK = WHO._replace(market="reserved", details={**WHO.details, "lifecycle": "capacity-block"})
SHARED = WHO._replace(market="reserved", details={**WHO.details, "lifecycle": "interruptible-capacity-reservation"})
ONCE, AGAIN = SpotRequest("one-time"), SpotRequest("persistent")


class Circumstance(NamedTuple):
    """``facts`` and ``instance`` are changed fields, ``fact`` is what AWS does, and where that stands."""

    fact: str
    facts: Mapping[str, object] = {}
    instance: Mapping[str, object] = {}
    settings: Mapping[str, object] = {}


class Cell(NamedTuple):
    """One expectation."""

    circumstance: str
    verb: Verb
    verdict: Verdict
    codes: str


SPOT = {"lifecycle": "spot", "spot_request": "sir-1"}
MEMBER = {"in_group": True, "group": Group("gpus", "InService", False, 0, 2)}
LEAVE = {"group": "leave"}

CIRCUMSTANCES: Mapping[str, Circumstance] = {
    "plain": Circumstance(
        "a stopped or terminated instance is not billed; volumes are (EC2 guide, instance lifecycle)"
    ),
    "addresses": Circumstance("an Elastic IP is billed on its own (VPC pricing)", instance={"addresses": 1}),
    "kept volume": Circumstance(
        "DeleteOnTermination=false keeps a volume (EC2 guide, preserve data)",
        instance={"volumes": (Volume("vol-1", True), Volume("vol-2", False))},
    ),
    "no volume is lost": Circumstance(
        "DeleteOnTermination=false keeps a volume (EC2 guide, preserve data)",
        instance={"volumes": (Volume("vol-1", False),)},
    ),
    "guest terminates": Circumstance(
        "InstanceInitiatedShutdownBehavior=terminate (EC2 guide, shutdown behavior)", {"shutdown_behavior": "terminate"}
    ),
    "guest unknown": Circumstance("the attribute may not be read", {"shutdown_behavior": None}),
    "stop protection": Circumstance(
        "DisableApiStop blocks stop and terminate (EC2 guide, stop protection)", {"api_stop_disabled": True}
    ),
    "termination protection": Circumstance(
        "DisableApiTermination blocks terminate only (EC2 guide)", {"api_termination_disabled": True}
    ),
    "protection unknown": Circumstance(
        "DescribeInstanceAttribute is a right of its own", {"api_stop_disabled": None, "api_termination_disabled": None}
    ),
    "denied": Circumstance("a dry run answers 403 UnauthorizedOperation (EC2 API, errors)", {"permitted": False}),
    "denied, young": Circumstance(
        "role changes take a while to arrive (IAM, eventual consistency)", {"permitted": False, "uptime": 120.0}
    ),
    "denied, age unknown": Circumstance("youth is no excuse that is assumed", {"permitted": False, "uptime": None}),
    "right not asked": Circumstance(
        "a dry run answers 412 DryRunOperation, and nothing else says yes", {"permitted": None}
    ),
    "right unread": Circumstance(
        "a dry run may be throttled like any call", {"permitted": None, "unknown": {"permitted": WAITS}}
    ),
    "protection denied": Circumstance(
        "DescribeInstanceAttribute is a right of its own; EC2 refuses what is protected",
        {"api_stop_disabled": None, "unknown": {"disableApiStop": NO_ATTRIBUTES}},
    ),
    "stop protection unread": Circumstance(
        "throttling passes", {"api_stop_disabled": None, "unknown": {"disableApiStop": WAITS}}
    ),
    "termination protection unread": Circumstance(
        "throttling passes; it holds back no stop",
        {"api_termination_disabled": None, "unknown": {"disableApiTermination": WAITS}},
    ),
    "guest unread": Circumstance(
        "no veto rests on it", {"shutdown_behavior": None, "unknown": {"instanceInitiatedShutdownBehavior": WAITS}}
    ),
    "spot price unread": Circumstance("no veto rests on it", {"spot": ONCE, "unknown": {"price": WAITS}}, SPOT),
    "spot unread": Circumstance("throttling passes", {"spot": None, "unknown": {"spot": WAITS}}, SPOT),
    "spot denied": Circumstance(
        "DescribeSpotInstanceRequests is a right of its own", {"spot": None, "unknown": {"spot": NO_REQUESTS}}, SPOT
    ),
    "group unread": Circumstance(
        "neither tags nor Auto Scaling answered", {"in_group": None, "unknown": {"group": WAITS}}
    ),
    "group denied": Circumstance(
        "DescribeAutoScalingInstances is a right of its own", {"in_group": None, "unknown": {"group": NO_GROUPS}}
    ),
    "no group by its tags, unread": Circumstance("throttling passes", {"unknown": {"group": WAITS}}),
    "no group by its tags, denied": Circumstance(
        "EC2 lets nobody remove the tag of a group", {"unknown": {"group": NO_GROUPS}}
    ),
    "member by its tag, unread": Circumstance(
        "it is a member, whatever else could be read",
        {"in_group": True, "group": Group("gpus"), "unknown": {"group": WAITS}},
    ),
    "member, sizes throttled, leaves": Circumstance(
        "throttling passes",
        {**MEMBER, "group": Group("gpus", "InService"), "unknown": {"sizes": WAITS}},
        settings=LEAVE,
    ),
    "type denied": Circumstance(
        "DescribeInstanceTypes is a right of its own; EC2 refuses what cannot hibernate",
        {"type_hibernates": None, "has_store": None, "unknown": {"type": NO_TYPES}},
    ),
    "type unread": Circumstance(
        "throttling passes; Nitro shows each local disk",
        {"type_hibernates": None, "has_store": None, "unknown": {"type": WAITS}},
    ),
    "type unread, disks unseen": Circumstance(
        "throttling passes", {"has_store": None, "store": Store(None, ("/data",)), "unknown": {"type": WAITS}}
    ),
    "type unread, kernel unknown": Circumstance(
        "throttling passes", {"has_store": None, "store": None, "unknown": {"type": WAITS}}
    ),
    "type unread, kernel unknown, discard": Circumstance(
        "the owner may lose it",
        {"has_store": None, "store": None, "unknown": {"type": WAITS}},
        settings={"local_data": "discard"},
    ),
    "type denied, kernel unknown": Circumstance(
        "DescribeInstanceTypes is a right of its own", {"has_store": None, "store": None, "unknown": {"type": NO_TYPES}}
    ),
    "type unread, disk mounted": Circumstance(
        "what the kernel shows needs no type",
        {"has_store": None, "store": MOUNTED, "unknown": {"type": WAITS}},
    ),
    "stop protection, type unread": Circumstance(
        "a veto that is known needs nothing else",
        {"api_stop_disabled": True, "has_store": None, "store": None, "unknown": {"type": WAITS}},
    ),
    "stopping, right unread": Circumstance(
        "what ends already needs no right", {"permitted": None, "unknown": {"permitted": WAITS}}, {"state": "stopping"}
    ),
    "stopping, other account": Circumstance(
        "OwnerId is the account (EC2 API, Reservation)", instance={"state": "stopping", "owner": "999999999999"}
    ),
    "stopped": Circumstance("a stopped instance is not billed (EC2 guide)", instance={"state": "stopped"}),
    "stopping member": Circumstance("the group replaces it", MEMBER, {"state": "stopping"}),
    "describe denied": Circumstance(
        "DescribeInstances says market, group and disks; without it nobody knows",
        {"instance": None, "unknown": {"instance": DENIED}},
    ),
    "unknown instance": Circumstance("InvalidInstanceID.NotFound: another account or region", {"instance": None}),
    "other account": Circumstance("OwnerId is the account (EC2 API, Reservation)", instance={"owner": "999999999999"}),
    "stopping": Circumstance("a stopped instance is not billed (EC2 guide)", instance={"state": "stopping"}),
    "shutting down": Circumstance("a terminated instance is not billed", instance={"state": "shutting-down"}),
    "pending": Circumstance("only a running instance can be ended", instance={"state": "pending"}),
    "one-time spot": Circumstance(
        "StopInstances: UnsupportedOperation for one-time requests (EC2 guide, stop a Spot Instance)",
        {"spot": ONCE},
        SPOT,
    ),
    "persistent spot": Circumstance(
        "a persistent request starts a new instance after a termination (EC2 guide, Spot requests)",
        {"spot": AGAIN},
        SPOT,
    ),
    "cancelled persistent spot": Circumstance(
        "a cancelled request starts nothing", {"spot": SpotRequest("persistent", "cancelled")}, SPOT
    ),
    "spot in a launch group": Circumstance(
        "members of a launch group cannot be stopped (EC2 guide)",
        {"spot": SpotRequest("persistent", "active", "lg")},
        SPOT,
    ),
    "spot unknown": Circumstance("DescribeSpotInstanceRequests is a right of its own", {"spot": None}, SPOT),
    "spot by metadata alone": Circumstance("instance-life-cycle says spot", {"identity": WHO._replace(market="spot")}),
    "member": Circumstance("a stopped member fails its health check and is replaced (Auto Scaling guide)", MEMBER),
    "member leaves": Circumstance(
        "TerminateInstanceInAutoScalingGroup with decrement shrinks the group", MEMBER, settings=LEAVE
    ),
    "member in standby": Circumstance(
        "no health checks in standby (Auto Scaling guide)",
        {"in_group": True, "group": Group("gpus", "Standby", False, 1, 1)},
        settings=LEAVE,
    ),
    "member on its way into standby": Circumstance(
        "EnterStandby is asynchronous (Auto Scaling guide)",
        {"in_group": True, "group": Group("gpus", "EnteringStandby", False, 1, 1)},
        settings=LEAVE,
    ),
    "member not in service": Circumstance(
        "only InService may enter standby (Auto Scaling guide)",
        {"in_group": True, "group": Group("gpus", "Pending:Wait", False, 0, 2)},
        settings=LEAVE,
    ),
    "member, state unknown, leaves": Circumstance(
        "DescribeAutoScalingInstances is a right of its own; the tag names the group alone",
        {"in_group": True, "group": Group("gpus"), "unknown": {"group": NO_GROUPS}},
        settings=LEAVE,
    ),
    "member, state unread, leaves": Circumstance(
        "throttling passes",
        {"in_group": True, "group": Group("gpus"), "unknown": {"group": NO_GROUPS._replace(technical=True)}},
        settings=LEAVE,
    ),
    "member, sizes unread, leaves": Circumstance(
        "at MinSize EnterStandby answers ValidationError",
        {**MEMBER, "group": Group("gpus", "InService"), "unknown": {"sizes": NO_GROUPS}},
        settings=LEAVE,
    ),
    "spot member leaves": Circumstance(
        "launch templates make one-time requests", {**MEMBER, "spot": ONCE}, SPOT, settings=LEAVE
    ),
    "member leaves at minimum": Circumstance(
        "at MinSize it answers ValidationError",
        {"in_group": True, "group": Group("gpus", "InService", False, 2, 2)},
        settings=LEAVE,
    ),
    "member leaves, sizes unknown": Circumstance(
        "DescribeAutoScalingGroups is a right of its own", {"in_group": True, "group": Group("gpus")}, settings=LEAVE
    ),
    "member leaves, right denied": Circumstance(
        "the dry run was of EC2's call, not of the group's", {**MEMBER, "permitted": False}, settings=LEAVE
    ),
    "member, name unknown": Circumstance("target-lifecycle-state exists for members only", {"in_group": True}),
    "member protected": Circumstance(
        "ProtectedFromScaleIn is a person's decision",
        {"in_group": True, "group": Group("gpus", "InService", True, 0, 2)},
        settings=LEAVE,
    ),
    "group unknown": Circumstance("neither tags nor Auto Scaling could be read", {"in_group": None}),
    "fleet": Circumstance(
        "a fleet of type maintain replaces its instances (EC2 guide, EC2 Fleet)",
        instance={"tags": {"aws:ec2:fleet-id": "fleet-1"}},
    ),
    "fleet leaves": Circumstance(
        "fleets of type instant and request replace nothing",
        instance={"tags": {"aws:ec2:fleet-id": "fleet-1"}},
        settings=LEAVE,
    ),
    "EKS node": Circumstance("node groups replace nodes (EKS guide)", instance={"tags": {"eks:cluster-name": "c"}}),
    "cluster tag": Circumstance("the cloud controller's tag", instance={"tags": {"kubernetes.io/cluster/c": "owned"}}),
    "Batch node": Circumstance("Batch scales its own instances", instance={"tags": {"AWSBatchServiceTag": "batch"}}),
    "ParallelCluster node": Circumstance(
        "Slurm of ParallelCluster replaces nodes", instance={"tags": {"parallelcluster:cluster-name": "c"}}
    ),
    "PCS node": Circumstance("Slurm as a service", instance={"tags": {"aws:pcs:cluster-id": "pcs_1"}}),
    "Ray node": Circumstance(
        "the cluster launcher's tags (ray, tags.py)",
        instance={"tags": {"ray-cluster-name": "c", "ray-node-type": "worker"}},
    ),
    "SkyPilot node": Circumstance(
        "SkyPilot tags its nodes, and Ray's tags stand beside (provision/constants.py)",
        instance={"tags": {"skypilot-cluster-name": "c", "ray-cluster-name": "c"}},
    ),
    "dstack node": Circumstance("dstack's AWS backend", instance={"tags": {"owner": "dstack", "dstack_project": "p"}}),
    "somebody's owner": Circumstance("an owner that is no scheduler", instance={"tags": {"owner": "ann"}}),
    "Ray node, standalone": Circumstance(
        "the owner knows better", instance={"tags": {"ray-cluster-name": "c"}}, settings={"managed": "standalone"}
    ),
    "Ray node, leaves": Circumstance(
        "cloud.group says nothing of schedulers", instance={"tags": {"ray-cluster-name": "c"}}, settings=LEAVE
    ),
    "operator": Circumstance(
        "Operator.Managed=true: a service owns it (EC2 API)", instance={"operator": "eks.amazonaws.com"}
    ),
    "EKS node leaves": Circumstance(
        "a managed node is a veto, whatever group says",
        MEMBER,
        {"tags": {"eks:cluster-name": "c"}},
        LEAVE,
    ),
    "capacity block": Circumstance(
        "a Capacity Block is paid in advance (EC2 guide, Capacity Blocks)", {"identity": BLOCK}, {"block": "cb-1"}
    ),
    "capacity block, act": Circumstance(
        "the owner may end it all the same", {"identity": BLOCK}, {"block": "cb-1"}, {"prepaid": "act"}
    ),
    "reservation": Circumstance("an ODCR is billed used or not (EC2 guide)", instance={"reservation": "cr-1"}),
    "reservation, act": Circumstance("the owner may", instance={"reservation": "cr-1"}, settings={"prepaid": "act"}),
    "shared reservation": Circumstance("lifecycle interruptible-capacity-reservation", {"identity": SHARED}),
    "dedicated host": Circumstance(
        "a dedicated host is billed while allocated (EC2 guide)", instance={"tenancy": "host"}
    ),
    "mounted disk": Circumstance(
        "instance store data is lost at stop (EC2 guide)", {"has_store": True, "store": MOUNTED}
    ),
    "mounted disk, discard": Circumstance(
        "the owner may lose it", {"has_store": True, "store": MOUNTED}, settings={"local_data": "discard"}
    ),
    "empty disk": Circumstance(
        "the deep learning images mount an empty file system", {"has_store": True, "store": EMPTY}
    ),
    "empty disk, swap": Circumstance(
        "what is paged out is a part of the memory", {"has_store": True, "store": EMPTY._replace(swap=True)}
    ),
    "unmounted disk": Circumstance("instance store data is lost at stop", {"has_store": True, "store": DISK}),
    "mounts unknown": Circumstance("nobody can say that it is unused", {"has_store": True, "store": None}),
    "mounts unknown, discard": Circumstance(
        "the owner may lose it", {"has_store": True, "store": None}, settings={"local_data": "discard"}
    ),
    "disk unseen, others mounted": Circumstance(
        "the type has local disks, the kernel names none, something is mounted",
        {"has_store": True, "store": Store((), ("/data",))},
    ),
    "disk unseen, nothing mounted": Circumstance(
        "the type has local disks, only the root disk is mounted", {"has_store": True, "store": Store(None, ())}
    ),
    "type unknown, kernel sees none": Circumstance("Nitro shows each local disk", {"has_store": None}),
    "type unknown, kernel unknown": Circumstance("neither says no", {"has_store": None, "store": None}),
    "no local disk, mounts unknown": Circumstance("the type has none", {"has_store": False, "store": None}),
    "store root": Circumstance(
        "an instance-store-backed instance cannot stop (EC2 guide, root device)",
        instance={"root_device": "instance-store"},
    ),
    "GPU type": Circumstance("HibernationSupported=false for every GPU type", {"type_hibernates": False}),
    "not configured": Circumstance("hibernation is set at launch only (EC2 guide)", instance={"hibernation": False}),
    "type unreadable": Circumstance("DescribeInstanceTypes is a right of its own", {"type_hibernates": None}),
}

END, LOSES = "bill_ends shutdown_stops", "bill_ends shutdown_stops loses_disks"

CELLS = (
    Cell("plain", "stop", "go", END),
    Cell("plain", "terminate", "consequences", LOSES),
    Cell("plain", "hibernate", "go", END),
    Cell("addresses", "stop", "go", END),
    Cell("addresses", "terminate", "consequences", LOSES),
    Cell("kept volume", "terminate", "consequences", f"{LOSES} disks_go_on"),
    Cell("no volume is lost", "terminate", "go", f"{END} disks_go_on"),
    Cell("guest terminates", "stop", "go", "bill_ends shutdown_terminates"),
    Cell("guest unknown", "stop", "go", "bill_ends"),
    Cell("stop protection", "stop", "refuse", "protected shutdown_stops"),
    Cell("stop protection", "terminate", "refuse", "protected shutdown_stops loses_disks"),
    Cell("stop protection", "hibernate", "refuse", "protected shutdown_stops"),
    Cell("termination protection", "stop", "go", END),
    Cell("termination protection", "terminate", "refuse", "protected shutdown_stops loses_disks"),
    Cell("protection unknown", "stop", "consequences", f"permission_unknown {END}"),
    Cell("protection unknown", "terminate", "consequences", f"permission_unknown {LOSES}"),
    Cell("denied", "stop", "refuse", "not_permitted shutdown_stops"),
    Cell("denied", "terminate", "refuse", "not_permitted shutdown_stops loses_disks"),
    Cell("denied, young", "stop", "consequences", f"rights_may_be_late {END}"),
    Cell("denied, young", "terminate", "consequences", f"rights_may_be_late {LOSES}"),
    Cell("denied, age unknown", "stop", "refuse", "not_permitted shutdown_stops"),
    Cell("right not asked", "stop", "consequences", f"permission_unknown {END}"),
    Cell("right unread", "stop", "failed", "permission_unknown shutdown_stops"),
    Cell("right unread", "terminate", "failed", "permission_unknown shutdown_stops loses_disks"),
    Cell("protection denied", "stop", "consequences", f"permission_unknown {END}"),
    Cell("stop protection unread", "stop", "failed", "facts_missing shutdown_stops"),
    Cell("stop protection unread", "terminate", "failed", "facts_missing shutdown_stops loses_disks"),
    Cell("termination protection unread", "stop", "go", END),
    Cell("termination protection unread", "terminate", "failed", "facts_missing shutdown_stops loses_disks"),
    Cell("guest unread", "stop", "go", "bill_ends"),
    Cell("spot price unread", "terminate", "consequences", "bill_ends loses_disks"),
    Cell("spot unread", "stop", "failed", "facts_missing"),
    Cell("spot unread", "terminate", "failed", "facts_missing loses_disks"),
    Cell("spot denied", "stop", "consequences", "permission_unknown bill_ends"),
    Cell("spot denied", "terminate", "refuse", "facts_missing loses_disks"),
    Cell("group unread", "stop", "failed", "facts_missing"),
    Cell("group denied", "stop", "refuse", "facts_missing"),
    Cell("no group by its tags, unread", "stop", "failed", "facts_missing shutdown_stops"),
    Cell("no group by its tags, denied", "stop", "consequences", f"permission_unknown {END}"),
    Cell("member by its tag, unread", "stop", "refuse", "group_member"),
    Cell(
        "member, state unread, leaves",
        "terminate",
        "failed",
        "facts_missing group_member permission_unknown loses_disks",
    ),
    Cell(
        "member, state unknown, leaves",
        "terminate",
        "refuse",
        "facts_missing group_member permission_unknown loses_disks",
    ),
    Cell("member, sizes throttled, leaves", "stop", "failed", "facts_missing group_member permission_unknown"),
    Cell(
        "member, sizes throttled, leaves",
        "terminate",
        "failed",
        "facts_missing group_member permission_unknown loses_disks",
    ),
    Cell("type denied", "stop", "go", END),
    Cell("type denied", "hibernate", "consequences", f"permission_unknown {END}"),
    Cell("type unread", "stop", "go", END),
    Cell("type unread", "hibernate", "failed", "facts_missing shutdown_stops"),
    Cell("type unread, disks unseen", "stop", "failed", "facts_missing shutdown_stops"),
    Cell("type unread, kernel unknown", "stop", "failed", "facts_missing shutdown_stops"),
    Cell("type unread, kernel unknown", "terminate", "failed", "facts_missing shutdown_stops loses_disks"),
    Cell("type unread, kernel unknown, discard", "stop", "consequences", f"local_data_lost {END}"),
    Cell("type denied, kernel unknown", "stop", "refuse", "facts_missing shutdown_stops"),
    Cell("type unread, disk mounted", "stop", "refuse", "local_data_kept shutdown_stops"),
    Cell("stop protection, type unread", "stop", "refuse", "protected facts_missing shutdown_stops"),
    Cell("stopping, right unread", "stop", "go", "ends_already"),
    Cell("stopping, other account", "stop", "refuse", "not_this_machine ends_already"),
    Cell("stopped", "stop", "go", "ends_already"),
    Cell("stopped", "terminate", "go", "ends_already"),
    Cell("stopping member", "stop", "go", "ends_already"),
    Cell("describe denied", "stop", "refuse", "facts_missing"),
    Cell("describe denied", "terminate", "refuse", "facts_missing"),
    Cell("unknown instance", "stop", "refuse", "not_this_machine"),
    Cell("other account", "stop", "refuse", "not_this_machine shutdown_stops"),
    Cell("other account", "terminate", "refuse", "not_this_machine shutdown_stops loses_disks"),
    Cell("spot by metadata alone", "terminate", "refuse", "facts_missing loses_disks"),
    Cell("stopping", "stop", "go", "ends_already"),
    Cell("shutting down", "terminate", "go", "ends_already"),
    Cell("pending", "stop", "refuse", "not_running shutdown_stops"),
    Cell("one-time spot", "stop", "another", "one_time_spot"),
    Cell("one-time spot", "terminate", "consequences", "bill_ends loses_disks"),
    Cell("one-time spot", "hibernate", "another", "cannot_hibernate"),
    Cell("persistent spot", "stop", "consequences", "spot_may_not_return bill_ends"),
    Cell("persistent spot", "terminate", "another", "persistent_spot loses_disks"),
    Cell("cancelled persistent spot", "terminate", "consequences", "bill_ends loses_disks"),
    Cell("spot in a launch group", "stop", "another", "one_time_spot"),
    Cell("spot unknown", "stop", "consequences", "permission_unknown bill_ends"),
    Cell("spot unknown", "terminate", "refuse", "facts_missing loses_disks"),
    Cell("member", "stop", "refuse", "group_member"),
    Cell("member", "terminate", "refuse", "group_member loses_disks"),
    Cell("member leaves", "stop", "consequences", "group_member permission_unknown bill_ends"),
    Cell("member leaves", "hibernate", "another", "group_member"),
    Cell("member leaves at minimum", "stop", "refuse", "group_at_minimum group_member permission_unknown"),
    Cell("member leaves, right denied", "stop", "refuse", "not_permitted group_member permission_unknown"),
    Cell("member protected", "stop", "refuse", "protected group_member permission_unknown"),
    Cell("member in standby", "stop", "consequences", "group_member bill_ends"),
    Cell("member on its way into standby", "stop", "consequences", "group_member bill_ends"),
    Cell("member not in service", "stop", "refuse", "group_member"),
    Cell("member, state unknown, leaves", "stop", "refuse", "facts_missing"),
    Cell("member, state unread, leaves", "stop", "failed", "facts_missing"),
    Cell("member, sizes unread, leaves", "stop", "consequences", "group_member permission_unknown bill_ends"),
    Cell("spot member leaves", "stop", "another", "one_time_spot group_member permission_unknown"),
    Cell("member leaves", "terminate", "consequences", "group_member permission_unknown bill_ends loses_disks"),
    Cell(
        "member leaves at minimum",
        "terminate",
        "refuse",
        "group_at_minimum group_member permission_unknown loses_disks",
    ),
    Cell(
        "member leaves, sizes unknown",
        "terminate",
        "consequences",
        "group_member permission_unknown bill_ends loses_disks",
    ),
    Cell(
        "member leaves, right denied",
        "terminate",
        "consequences",
        "group_member permission_unknown bill_ends loses_disks",
    ),
    Cell("member, name unknown", "stop", "refuse", "group_member"),
    Cell("member protected", "terminate", "refuse", "protected group_member permission_unknown loses_disks"),
    Cell("group unknown", "stop", "refuse", "facts_missing"),
    Cell("fleet", "stop", "refuse", "group_member"),
    Cell("fleet leaves", "stop", "consequences", f"group_member {END}"),
    Cell("fleet leaves", "terminate", "consequences", f"group_member {LOSES}"),
    Cell("EKS node", "stop", "refuse", "managed_node"),
    Cell("cluster tag", "terminate", "refuse", "managed_node loses_disks"),
    Cell("Batch node", "stop", "refuse", "managed_node"),
    Cell("ParallelCluster node", "stop", "refuse", "managed_node"),
    Cell("PCS node", "stop", "refuse", "managed_node"),
    Cell("Ray node", "stop", "refuse", "managed_node"),
    Cell("Ray node", "terminate", "refuse", "managed_node loses_disks"),
    Cell("SkyPilot node", "stop", "refuse", "managed_node"),
    Cell("SkyPilot node", "hibernate", "refuse", "managed_node"),
    Cell("dstack node", "stop", "refuse", "managed_node"),
    Cell("somebody's owner", "stop", "go", END),
    Cell("Ray node, standalone", "stop", "consequences", f"managed_node {END}"),
    Cell("Ray node, leaves", "stop", "refuse", "managed_node"),
    Cell("operator", "stop", "refuse", "managed_node"),
    Cell("EKS node leaves", "terminate", "refuse", "managed_node group_member permission_unknown loses_disks"),
    Cell("capacity block", "stop", "refuse", "prepaid"),
    Cell("capacity block", "terminate", "refuse", "prepaid loses_disks"),
    Cell("capacity block, act", "stop", "consequences", "prepaid"),
    Cell("reservation", "stop", "refuse", "reservation_goes_on"),
    Cell("reservation, act", "stop", "consequences", "reservation_goes_on"),
    Cell("shared reservation", "stop", "refuse", "reservation_goes_on"),
    Cell("dedicated host", "stop", "refuse", "reservation_goes_on"),
    Cell("mounted disk", "stop", "refuse", "local_data_kept shutdown_stops"),
    Cell("mounted disk", "terminate", "refuse", "local_data_kept shutdown_stops loses_disks"),
    Cell("mounted disk, discard", "stop", "consequences", f"local_data_lost {END}"),
    Cell("empty disk", "stop", "consequences", f"local_data_lost {END}"),
    Cell("empty disk", "terminate", "consequences", f"local_data_lost {LOSES}"),
    Cell("empty disk", "hibernate", "consequences", f"local_data_lost {END}"),
    Cell("empty disk, swap", "stop", "consequences", f"local_data_lost {END}"),
    Cell("empty disk, swap", "hibernate", "refuse", "local_data_kept shutdown_stops"),
    Cell("unmounted disk", "stop", "consequences", f"local_data_lost {END}"),
    Cell("unmounted disk", "hibernate", "consequences", f"local_data_lost {END}"),
    Cell("mounts unknown", "stop", "refuse", "local_data_kept shutdown_stops"),
    Cell("mounts unknown, discard", "stop", "consequences", f"local_data_lost {END}"),
    Cell("disk unseen, others mounted", "stop", "refuse", "local_data_kept shutdown_stops"),
    Cell("disk unseen, nothing mounted", "stop", "consequences", f"local_data_lost {END}"),
    Cell("type unknown, kernel sees none", "stop", "go", END),
    Cell("type unknown, kernel unknown", "stop", "refuse", "local_data_kept shutdown_stops"),
    Cell("no local disk, mounts unknown", "stop", "go", END),
    Cell("store root", "stop", "another", "instance_store_root"),
    Cell("store root", "terminate", "consequences", "loses_disks bill_ends"),
    Cell("GPU type", "hibernate", "another", "cannot_hibernate shutdown_stops"),
    Cell("not configured", "hibernate", "another", "cannot_hibernate shutdown_stops"),
    Cell("type unreadable", "hibernate", "consequences", f"permission_unknown {END}"),
)


def facts_of(cell: Cell) -> Facts:
    """The facts of a cell: the base, changed."""
    change = CIRCUMSTANCES[cell.circumstance]
    base = SLEEPER if cell.verb == "hibernate" else BASE
    changed = base._replace(**{**change.facts, "verb": cell.verb})  # type: ignore[arg-type]  # the table is data
    if change.instance and changed.instance is not None:
        instance = changed.instance._replace(**change.instance)  # type: ignore[arg-type]  # the table is data
        changed = changed._replace(instance=instance)
    return changed
