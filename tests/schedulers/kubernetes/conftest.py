"""A cluster of a single namespace, and workloads of every kind in it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.schedulers.kubernetes.standin import Cluster

LABELS = {"app": "train"}
SELECTOR = {"matchLabels": LABELS}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """An API server that answers."""
    with Cluster(tmp_path).served() as made:
        yield made


def bare(cluster: Cluster) -> Any:
    return cluster.pod()


def job(cluster: Cluster, **spec: Any) -> Any:
    made = cluster.add(
        "batch",
        "Job",
        "train",
        spec={"parallelism": 1, "completions": 1, "suspend": False, "selector": SELECTOR, **spec},
    )
    cluster.pod(owner=made, labels=LABELS)
    return made


def job_of_a_schedule(cluster: Cluster) -> Any:
    schedule = cluster.add("batch", "CronJob", "nightly")
    made = cluster.add("batch", "Job", "train", owner=schedule, spec={"selector": SELECTOR})
    cluster.pod(owner=made, labels=LABELS)
    return made


def job_set(cluster: Cluster, replicas: int = 1, parallelism: int = 1) -> Any:
    jobs = [{"name": "w", "replicas": replicas, "template": {"spec": {"parallelism": parallelism}}}]
    made = cluster.add("jobset.x-k8s.io", "JobSet", "train", spec={"replicatedJobs": jobs})
    below = cluster.add("batch", "Job", "train-w-0", owner=made, spec={"selector": SELECTOR})
    cluster.pod(owner=below, labels={**LABELS, "jobset.sigs.k8s.io/jobset-name": "train"})
    return made


def deployment(cluster: Cluster, replicas: int = 1) -> Any:
    made = cluster.add("apps", "Deployment", "train", spec={"replicas": replicas, "selector": SELECTOR})
    below = cluster.add("apps", "ReplicaSet", "train-5d", owner=made, spec={"replicas": replicas, "selector": SELECTOR})
    cluster.pod(owner=below, labels=LABELS)
    return made


def stateful_set(cluster: Cluster, replicas: int = 1) -> Any:
    made = cluster.add("apps", "StatefulSet", "train", spec={"replicas": replicas, "selector": SELECTOR})
    cluster.pod(owner=made, labels=LABELS)
    return made


def leader_worker_set(cluster: Cluster, replicas: int = 1, size: int = 1) -> Any:
    """The pod is the leader of the first group."""
    spec = {"replicas": replicas, "leaderWorkerTemplate": {"size": size}}
    made = cluster.add("leaderworkerset.x-k8s.io", "LeaderWorkerSet", "train", spec=spec)
    below = cluster.add("apps", "StatefulSet", "train", owner=made, spec={"replicas": replicas, "selector": SELECTOR})
    cluster.pod(owner=below, labels={**LABELS, "leaderworkerset.sigs.k8s.io/name": "train"})
    return made


def worker_of_a_set(cluster: Cluster) -> Any:
    """The pod is a worker: its StatefulSet is the leader's, which is a pod itself."""
    spec = {"replicas": 1, "leaderWorkerTemplate": {"size": 2}}
    labels = {**LABELS, "leaderworkerset.sigs.k8s.io/name": "train"}
    made = cluster.add("leaderworkerset.x-k8s.io", "LeaderWorkerSet", "train", spec=spec)
    leaders = cluster.add("apps", "StatefulSet", "train", owner=made, spec={"replicas": 1, "selector": SELECTOR})
    leader = cluster.pod("train-0", owner=leaders, labels=labels)
    workers = cluster.add("apps", "StatefulSet", "train-0", owner=leader, spec={"replicas": 1, "selector": SELECTOR})
    cluster.pod(owner=workers, labels=labels)
    return made


def notebook(cluster: Cluster) -> Any:
    made = cluster.add("kubeflow.org", "Notebook", "train", spec={"template": {}})
    below = cluster.add("apps", "StatefulSet", "train", owner=made, spec={"replicas": 1, "selector": SELECTOR})
    cluster.pod(owner=below, labels=LABELS)
    return made


Workload = Callable[[Cluster], Any]

WORKLOADS: dict[Workload, str] = {
    bare: "evict train-x7k",
    job: "patch Job train",
    job_of_a_schedule: "patch Job train",
    job_set: "patch JobSet train",
    deployment: "patch Deployment train",
    stateful_set: "patch StatefulSet train",
    leader_worker_set: "patch LeaderWorkerSet train",
    notebook: "patch Notebook train",
}
"""Each kind of owner, and the one change that ends it."""
