"""Which scheduler or service a machine belongs to, by its labels and by the attributes of its metadata.

Sources: GKE, Dataproc, Dataflow and Batch documentation (their own labels); slurm-gcp (``slurm_cluster_name`` as label and
as attribute) and Cluster Toolkit (``ghpc_…``); OpenShift and cluster API (labels of their nodes).
"""

from collections.abc import Mapping
from typing import Any

from costguard.cloud.managed import POWER_DOWN as COMMON
from costguard.cloud.managed import by_tags

_GKE = "Google Kubernetes Engine"
_ATTRIBUTES = {
    "cluster-name": _GKE,
    "kube-env": _GKE,
    "kube-labels": _GKE,
    "dataproc-cluster-name": "Dataproc",
    "slurm_cluster_name": "Slurm",
    "slurm_instance_role": "Slurm",
    "slurm_bucket_path": "Slurm",
}
_LABELS = {
    "goog-gke-node": _GKE,
    "goog-k8s-cluster-name": _GKE,
    "goog-dataproc-cluster-name": "Dataproc",
    "goog-dataflow-job-id": "Dataflow",
    "goog-batch-worker": "Google Cloud Batch",
    "batch-job-uid": "Google Cloud Batch",
    "k8s-io-cluster-name": "Kubernetes",
    "slurm_cluster_name": "Slurm",
    "slurm_instance_role": "Slurm",
    "ghpc_deployment": "the Cluster Toolkit",
    "ghpc_blueprint": "the Cluster Toolkit",
}
_PREFIXES = {"kubernetes-io-cluster-": "Kubernetes", "capg-": "Kubernetes"}
POWER_DOWN = {
    _GKE: "make its node pool smaller: `gcloud container clusters resize`, or let the cluster autoscaler do it",
    "Dataproc": "`gcloud dataproc clusters update CLUSTER --num-workers=N`, or schedule its deletion (`--max-idle`)",
    "the Cluster Toolkit": COMMON["Slurm"],
}
"""How services of Google Cloud end their idle nodes themselves."""


def owner(attributes: Mapping[str, Any], labels: Mapping[str, str]) -> tuple[str, str] | None:
    """The scheduler and what shows it; the most telling one first."""
    shown = by_tags(attributes, _ATTRIBUTES, kind="attribute")
    return shown or by_tags(labels, _LABELS, _PREFIXES, kind="label")
