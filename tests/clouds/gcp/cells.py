"""Circumstances of a machine and what follows, as data. ``fact`` names what the row rests on.

Sources in short: *lifecycle*, *Local SSD*, *suspend*, *repair* (of managed groups), *reservations*, *Spot*, *IAM*,
*scopes* are pages of the Compute Engine documentation; *discovery* is the API's own description.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from costguard.cloud.api import Verb
from costguard.plans import Verdict
from costguard_gcp.testing import Fault, Group, LocalSsd

STOP: Verb = "stop"
TERMINATE: Verb = "terminate"
HIBERNATE: Verb = "hibernate"

PLAIN: dict[str, Any] = {"gpus": {}, "type": "n2-standard-8"}
IN_ZONE, IN_REGION = Group(size=3), Group(region="us-central1", size=3)
AT_MINIMUM, ABOVE_MINIMUM = Group(size=2, least=2), Group(size=3, least=2)
READS_GROUPS = ("compute.instanceGroupManagers.get", "compute.instanceGroupManagers.update", "compute.autoscalers.get")
USED, BLANK = LocalSsd(mounted=True, written=True), LocalSsd()
NO_SCOPE = ("https://www.googleapis.com/auth/devstorage.read_only", "https://www.googleapis.com/auth/logging.write")
READ_SCOPE = ("https://www.googleapis.com/auth/compute.readonly",)
WRITE_SCOPE = ("https://www.googleapis.com/auth/compute",)
DISCARD, LEAVE, ACT = {"local_data": "discard"}, {"group": "leave"}, {"prepaid": "act"}
YOUNG = 120.0
TWO_DISKS = {"data_disks": {"scratch": True, "models": False}}
KEPT_BOOT = {"boot_auto_delete": False}


class Cell(NamedTuple):
    """``machine`` are fields of the stand-in's `Machine`; ``granted`` and ``on_project`` the caller's rights."""

    verb: Verb
    fact: str
    verdict: Verdict
    codes: tuple[str, ...]
    machine: Mapping[str, Any] = {}
    settings: Mapping[str, object] = {}
    granted: tuple[str, ...] = ("get", "stop", "delete", "suspend")
    on_project: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()


CELLS = {
    # what ends, and what goes on
    "stop": Cell(STOP, "lifecycle: TERMINATED bills no CPU, memory, GPU", "go", ("bill_ends",)),
    "terminate": Cell(TERMINATE, "discovery: AttachedDisk.autoDelete", "consequences", ("loses_disks", "bill_ends")),
    "terminate-keeps": Cell(TERMINATE, "discovery: autoDelete", "go", ("disks_go_on", "bill_ends"), KEPT_BOOT),
    "terminate-both": Cell(
        TERMINATE, "discovery: autoDelete", "consequences", ("loses_disks", "disks_go_on", "bill_ends"), TWO_DISKS
    ),
    "hibernate-plain": Cell(
        HIBERNATE, "suspend: memory is stored and billed, 60 days", "consequences", ("disks_go_on", "bill_ends"), PLAIN
    ),
    # can it hibernate
    "hibernate-gpu": Cell(HIBERNATE, "suspend: not with GPUs", "another", ("cannot_hibernate",)),
    "hibernate-gpu-of-type": Cell(HIBERNATE, "GPUs belong to the type", "another", ("cannot_hibernate",), {"gpus": {}}),
    "hibernate-confidential": Cell(
        *(HIBERNATE, "suspend: not Confidential VMs", "another", ("cannot_hibernate",)),
        {**PLAIN, "confidential": True},
    ),
    "stop-confidential": Cell(
        STOP, "lifecycle: a stop has no such limit", "go", ("bill_ends",), {"confidential": True}
    ),
    # rights
    "stop-denied": Cell(STOP, "IAM: stop", "refuse", ("not_permitted",), granted=("get",)),
    "stop-other-right": Cell(STOP, "IAM: stop", "refuse", ("not_permitted",), granted=("get", "delete")),
    "terminate-denied": Cell(
        TERMINATE, "IAM: delete", "refuse", ("not_permitted", "loses_disks"), granted=("get", "stop")
    ),
    "hibernate-denied": Cell(
        *(HIBERNATE, "IAM: suspend", "refuse", ("not_permitted", "disks_go_on"), PLAIN),
        granted=("get", "stop"),
    ),
    "nothing-granted": Cell(STOP, "IAM: get", "refuse", ("not_permitted",), granted=()),
    "get-denied": Cell(STOP, "IAM: get; identity is unproven", "refuse", ("not_permitted",), granted=("stop",)),
    "stop-denied-young": Cell(
        *(STOP, "IAM: a new binding takes minutes", "consequences", ("rights_may_be_late", "bill_ends")),
        machine={"age": YOUNG},
        settings={},
        granted=("get",),
    ),
    "get-denied-young": Cell(
        *(STOP, "IAM: without identity nothing is done", "refuse", ("not_permitted", "rights_may_be_late")),
        machine={"age": YOUNG},
        settings={},
        granted=(),
    ),
    "rights-unasked": Cell(
        *(STOP, "discovery: testIamPermissions may be denied", "consequences", ("permission_unknown", "bill_ends")),
        faults=(Fault("deny", "testIamPermissions", 9),),
    ),
    "rights-unread": Cell(
        *(STOP, "throttling passes", "failed", ("permission_unknown",)),
        faults=(Fault("throttle_403", "testIamPermissions", 99),),
    ),
    "rights-unanswered": Cell(
        *(STOP, "a lost answer says nothing of a right", "failed", ("permission_unknown",)),
        faults=(Fault("cut_before", "testIamPermissions", 99),),
    ),
    "protected-rights-unread": Cell(
        *(TERMINATE, "a veto that is known needs nothing else", "refuse"),
        ("protected", "permission_unknown", "loses_disks"),
        {"protected": True},
        faults=(Fault("error_503", "testIamPermissions", 99),),
    ),
    "scopes-default": Cell(
        STOP,
        "scopes: the default set lacks compute",
        "refuse",
        ("scopes_missing",),
        {"scopes": NO_SCOPE},
    ),
    "scopes-read": Cell(STOP, "scopes: compute.readonly", "refuse", ("scopes_missing",), {"scopes": READ_SCOPE}),
    "scopes-compute": Cell(STOP, "scopes: compute is enough", "go", ("bill_ends",), {"scopes": WRITE_SCOPE}),
    "terminate-scopes-read": Cell(
        *(TERMINATE, "scopes: compute.readonly", "refuse", ("scopes_missing", "loses_disks")),
        {"scopes": READ_SCOPE},
    ),
    # protection
    "stop-protected": Cell(STOP, "deletionProtection does not block a stop", "go", ("bill_ends",), {"protected": True}),
    "terminate-protected": Cell(
        *(TERMINATE, "deletionProtection", "refuse", ("protected", "loses_disks")),
        {"protected": True},
    ),
    "hibernate-protected": Cell(
        *(HIBERNATE, "deletionProtection is about deletion", "consequences", ("disks_go_on", "bill_ends")),
        {**PLAIN, "protected": True},
    ),
    # local SSDs
    "stop-local-used": Cell(STOP, "Local SSD: lost at a stop", "refuse", ("local_data_kept",), {"local_ssds": [USED]}),
    "stop-local-partition": Cell(
        *(STOP, "Local SSD: a partition may hold data", "refuse", ("local_data_kept",)),
        {"local_ssds": [LocalSsd(partitioned=True)]},
    ),
    "stop-local-written": Cell(
        *(STOP, "Local SSD: written since boot", "refuse", ("local_data_kept",)),
        {"local_ssds": [LocalSsd(written=True)]},
    ),
    "stop-local-one-of-two": Cell(
        *(STOP, "Local SSD: one in use is enough", "refuse", ("local_data_kept",)),
        {"local_ssds": [BLANK, USED]},
    ),
    "stop-local-blank": Cell(
        STOP, "Local SSD: nothing on it", "consequences", ("local_data_lost", "bill_ends"), {"local_ssds": [BLANK]}
    ),
    "stop-local-formatted": Cell(
        *(STOP, "Local SSD: formatted, mounted, and nothing on it", "consequences", ("local_data_lost", "bill_ends")),
        {"local_ssds": [LocalSsd(mounted=True, written=True, empty=True)]},
    ),
    "stop-local-one-of-two-empty": Cell(
        *(STOP, "Local SSD: one with data is enough", "refuse", ("local_data_kept",)),
        {"local_ssds": [LocalSsd(mounted=True, written=True, empty=True), USED]},
    ),
    "stop-local-discard": Cell(
        *(STOP, "Local SSD: the owner's decision", "consequences", ("local_data_lost", "bill_ends")),
        machine={"local_ssds": [USED]},
        settings=DISCARD,
    ),
    "terminate-local-used": Cell(
        *(TERMINATE, "Local SSD: lost at deletion", "refuse", ("local_data_kept", "loses_disks")),
        {"local_ssds": [USED]},
    ),
    "terminate-local-discard": Cell(
        *(TERMINATE, "Local SSD", "consequences", ("local_data_lost", "loses_disks", "bill_ends")),
        machine={"local_ssds": [USED]},
        settings=DISCARD,
    ),
    "hibernate-local-used": Cell(
        *(HIBERNATE, "Local SSD: lost at suspending", "refuse", ("local_data_kept", "disks_go_on")),
        {**PLAIN, "local_ssds": [USED]},
    ),
    # groups and nodes
    "stop-group": Cell(STOP, "repair: the group makes it anew", "refuse", ("group_member",), {"group": IN_ZONE}),
    "stop-group-region": Cell(STOP, "repair", "refuse", ("group_member",), {"group": IN_REGION}),
    "terminate-group": Cell(TERMINATE, "repair", "refuse", ("group_member", "loses_disks"), {"group": IN_ZONE}),
    "hibernate-group": Cell(
        *(HIBERNATE, "repair", "refuse", ("group_member", "disks_go_on")),
        {**PLAIN, "group": IN_ZONE},
    ),
    "stop-group-leave": Cell(
        *(STOP, "discovery: stopInstances", "consequences", ("group_member", "permission_unknown", "bill_ends")),
        machine={"group": IN_ZONE},
        settings=LEAVE,
        granted=("get",),
        on_project=READS_GROUPS,
    ),
    "terminate-group-leave": Cell(
        *(TERMINATE, "discovery: deleteInstances", "consequences"),
        ("group_member", "permission_unknown", "loses_disks", "bill_ends"),
        machine={"group": IN_REGION},
        settings=LEAVE,
        granted=("get",),
        on_project=READS_GROUPS,
    ),
    "stop-group-minimum": Cell(
        *(STOP, "the autoscaler keeps minNumReplicas", "refuse", ("group_at_minimum",)),
        machine={"group": AT_MINIMUM},
        settings=LEAVE,
        granted=("get",),
        on_project=READS_GROUPS,
    ),
    "stop-group-above-minimum": Cell(
        *(STOP, "minNumReplicas", "consequences", ("group_member", "permission_unknown", "bill_ends")),
        machine={"group": ABOVE_MINIMUM},
        settings=LEAVE,
        granted=("get",),
        on_project=READS_GROUPS,
    ),
    "stop-group-unseen": Cell(
        *(STOP, "without its size nobody knows whether it comes back", "refuse", ("facts_missing",)),
        machine={"group": IN_ZONE},
        settings=LEAVE,
    ),
    "stop-group-unread": Cell(
        *(STOP, "throttling passes", "failed", ("facts_missing",)),
        machine={"group": IN_ZONE},
        settings=LEAVE,
        granted=("get",),
        on_project=READS_GROUPS,
        faults=(Fault("throttle_429", "instanceGroupManagers.get", 99),),
    ),
    "stop-group-minimum-unread": Cell(
        *(STOP, "throttling of the autoscaler's own call passes", "failed", ("facts_missing",)),
        machine={"group": AT_MINIMUM},
        settings=LEAVE,
        granted=("get",),
        on_project=READS_GROUPS,
        faults=(Fault("error_503", "autoscalers.get", 99),),
    ),
    "created-by-other": Cell(
        *(STOP, "other tools write created-by too", "go", ("bill_ends",)),
        {"attributes": {"created-by": "test-kitchen"}},
    ),
    "stop-gke": Cell(STOP, "GKE repairs nodes", "refuse", ("managed_node",), {"attributes": {"cluster-name": "train"}}),
    "stop-gke-leave": Cell(
        *(STOP, "GKE: no opt-in", "refuse"),
        ("managed_node", "group_member", "permission_unknown"),
        machine={"group": IN_ZONE, "attributes": {"kube-env": "A: b"}},
        settings=LEAVE,
        granted=("get", "stop"),
        on_project=READS_GROUPS,
    ),
    "stop-slurm": Cell(
        *(STOP, "slurm-gcp's labels", "refuse", ("managed_node",)),
        {"labels": {"slurm_cluster_name": "c", "slurm_instance_role": "compute"}},
    ),
    "stop-slurm-attribute": Cell(
        *(STOP, "slurm-gcp's attributes", "refuse", ("managed_node",)),
        {"attributes": {"slurm_instance_role": "compute", "slurm_cluster_name": "c"}},
    ),
    "stop-toolkit": Cell(
        *(STOP, "Cluster Toolkit's labels", "refuse", ("managed_node",)),
        {"labels": {"ghpc_blueprint": "ml-slurm", "ghpc_deployment": "d", "ghpc_role": "compute"}},
    ),
    "terminate-ray": Cell(
        *(TERMINATE, "Ray's labels", "refuse", ("managed_node", "loses_disks")),
        {"labels": {"ray-cluster-name": "c", "ray-node-type": "worker"}},
    ),
    "stop-skypilot": Cell(
        *(STOP, "SkyPilot's labels", "refuse", ("managed_node",)),
        {"labels": {"skypilot-cluster-name": "c", "ray-cluster-name": "c"}},
    ),
    "stop-dstack": Cell(
        *(STOP, "dstack's labels", "refuse", ("managed_node",)),
        {"labels": {"owner": "dstack", "dstack_project": "main"}},
    ),
    "hibernate-kubernetes": Cell(
        *(HIBERNATE, "OpenShift's labels", "refuse", ("managed_node", "disks_go_on")),
        {**PLAIN, "labels": {"kubernetes-io-cluster-prod-7": "owned"}},
    ),
    "stop-batch": Cell(
        *(STOP, "Batch's labels", "refuse", ("managed_node",)), {"labels": {"goog-batch-worker": "true"}}
    ),
    "stop-slurm-standalone": Cell(
        *(STOP, "the owner knows better", "consequences", ("managed_node", "bill_ends")),
        machine={"labels": {"slurm_cluster_name": "c"}},
        settings={"managed": "standalone"},
    ),
    "stop-owner": Cell(STOP, "an owner that is no scheduler", "go", ("bill_ends",), {"labels": {"owner": "ann"}}),
    "terminate-dataproc": Cell(
        *(TERMINATE, "Dataproc's own label", "refuse", ("managed_node", "loses_disks")),
        {"labels": {"goog-dataproc-cluster-name": "spark"}},
    ),
    # prepaid
    "stop-reserved": Cell(STOP, "reservations are billed unused", "refuse", ("prepaid",), {"reservation": "block-7"}),
    "stop-specific": Cell(
        STOP, "discovery: SPECIFIC_RESERVATION", "refuse", ("prepaid",), {"affinity": "SPECIFIC_RESERVATION"}
    ),
    "stop-bound": Cell(STOP, "RESERVATION_BOUND", "refuse", ("prepaid",), {"model": "RESERVATION_BOUND"}),
    "terminate-reserved": Cell(
        TERMINATE, "reservations", "refuse", ("prepaid", "loses_disks"), {"reservation": "block-7"}
    ),
    "stop-reserved-act": Cell(
        *(STOP, "reservations", "consequences", ("reservation_goes_on",)),
        machine={"reservation": "block-7"},
        settings=ACT,
    ),
    "stop-sole-tenant": Cell(STOP, "sole tenancy: the node is billed", "refuse", ("prepaid",), {"node_group": "mine"}),
    "stop-no-reservation": Cell(
        STOP, "discovery: NO_RESERVATION", "go", ("bill_ends",), {"affinity": "NO_RESERVATION"}
    ),
    # market
    "stop-spot": Cell(
        STOP, "Spot: capacity may not return", "consequences", ("spot_may_not_return", "bill_ends"), {"model": "SPOT"}
    ),
    "terminate-spot": Cell(
        TERMINATE, "Spot may be deleted by its user", "consequences", ("loses_disks", "bill_ends"), {"model": "SPOT"}
    ),
    "stop-flex": Cell(
        *(STOP, "Flex-start: capacity came from a queue", "consequences"),
        ("spot_may_not_return", "run_limit", "bill_ends"),
        {"model": "FLEX_START", "ends_at": "2026-12-01T00:00:00-08:00", "termination": "DELETE"},
    ),
    "stop-run-limit": Cell(
        *(STOP, "discovery: maxRunDuration", "go", ("run_limit", "bill_ends")),
        {"ends_at": "2026-12-01T00:00:00-08:00", "termination": "STOP"},
    ),
    "hibernate-spot-gpu": Cell(
        *(HIBERNATE, "suspend: not with GPUs, Spot or not", "another", ("cannot_hibernate", "spot_may_not_return")),
        {"model": "SPOT"},
    ),
    "stop-spot-denied": Cell(
        *(STOP, "IAM and Spot", "refuse", ("not_permitted", "spot_may_not_return")),
        machine={"model": "SPOT"},
        granted=("get",),
    ),
    "terminate-run-limit-protected": Cell(
        *(TERMINATE, "a limit ends it although it is protected", "refuse", ("protected", "loses_disks", "run_limit")),
        {"ends_at": "2026-12-01T00:00:00-08:00", "protected": True},
    ),
    "stop-group-reserved-leave": Cell(
        *(STOP, "reservations, and the group's own call", "consequences"),
        ("group_member", "permission_unknown", "reservation_goes_on"),
        machine={"group": IN_ZONE, "reservation": "block-7"},
        settings={**LEAVE, **ACT},
        granted=("get",),
        on_project=READS_GROUPS,
    ),
    "stop-group-blank": Cell(
        *(STOP, "repair, and a blank local SSD", "refuse", ("group_member", "local_data_lost")),
        {"group": IN_ZONE, "local_ssds": [BLANK]},
    ),
    "terminate-group-minimum": Cell(
        *(TERMINATE, "minNumReplicas of a regional group", "refuse", ("group_at_minimum", "loses_disks")),
        machine={"group": Group(region="us-central1", size=1, least=1)},
        settings=LEAVE,
        granted=("get",),
        on_project=READS_GROUPS,
    ),
    # state and identity
    "stop-stopping": Cell(STOP, "lifecycle: STOPPING", "go", ("ends_already",), {"status": "STOPPING"}),
    "stop-stopped": Cell(
        STOP, "lifecycle: TERMINATED bills nothing", "go", ("ends_already",), {"status": "TERMINATED"}
    ),
    "stop-staging": Cell(STOP, "lifecycle: STAGING", "refuse", ("not_running",), {"status": "STAGING"}),
    "stop-stopping-denied": Cell(
        *(STOP, "what ends already needs no right", "go", ("ends_already",), {"status": "STOPPING"}), granted=("get",)
    ),
    "terminate-pending-stop": Cell(
        *(TERMINATE, "lifecycle: PENDING_STOP", "go", ("ends_already",)),
        {"status": "PENDING_STOP"},
    ),
    "hibernate-suspending": Cell(
        *(HIBERNATE, "suspend: only RUNNING", "go", ("ends_already",)),
        {**PLAIN, "status": "SUSPENDING"},
    ),
    "stop-unknown-machine": Cell(
        STOP, "the API knows no such name in this zone", "refuse", ("not_this_machine",), {"deleted": True}
    ),
    # several at once: every rule speaks
    "terminate-everything": Cell(
        *(TERMINATE, "every rule speaks", "refuse"),
        ("group_member", "not_permitted", "protected", "prepaid", "local_data_kept", "loses_disks"),
        {"group": IN_ZONE, "protected": True, "reservation": "b", "local_ssds": [USED]},
        granted=("get",),
    ),
}
