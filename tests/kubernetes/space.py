"""A namespace with a service account of its own, workloads of every kind in it, and what a kubelet says of their pods."""

import base64
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from costguard.tasks.api import Place, Task
from costguard_kubernetes import Kubernetes
from costguard_kubernetes.session import PodSession
from tests.kubernetes.cluster import Cluster, path

ACCOUNT = "trainer"
LABELS = {"app": "train"}
NODE = "node-1"

PLURALS = {
    "Pod": "pods", "Job": "jobs", "JobSet": "jobsets", "Deployment": "deployments", "ReplicaSet": "replicasets",
    "StatefulSet": "statefulsets", "LeaderWorkerSet": "leaderworkersets", "Notebook": "notebooks",
}  # fmt: skip

DEFINED = {
    "JobSet": ("jobset.x-k8s.io", "v1alpha2"),
    "LeaderWorkerSet": ("leaderworkerset.x-k8s.io", "v1"),
    "Notebook": ("kubeflow.org", "v1"),
}
"""Kinds that a cluster learns from whoever installs them; their controllers are not here, so a test makes what they would."""


def definition(kind: str, *versions: str) -> dict[str, Any]:
    """A CustomResourceDefinition as theirs are, without the schema of every field."""
    group, version = DEFINED[kind]
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    parts: dict[str, Any] = {"status": {}}
    if kind == "LeaderWorkerSet":
        parts["scale"] = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    listed = [
        {
            "name": one, "served": True, "storage": one == version, "subresources": parts,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": free, "status": free}}},
        }
        for one in (version, *versions)
    ]  # fmt: skip
    plural = PLURALS[kind]
    names = {"kind": kind, "plural": plural, "singular": kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": listed},
    }  # fmt: skip


def template(gpus: str = "1", **labels: str) -> dict[str, Any]:
    """What the pods of an owner are made from."""
    main = {"name": "main", "image": "train", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    return {
        "metadata": {"labels": {**LABELS, **labels}},
        "spec": {"containers": [main], "serviceAccountName": ACCOUNT},
    }


class Space:
    """One namespace. ``guarded`` is the pod in which costguard runs."""

    def __init__(self, cluster: Cluster, name: str, folder: Path, port: int) -> None:
        self.cluster, self.name, self.folder, self.port = cluster, name, folder, port
        self.guarded: dict[str, Any] = {}
        self.settings: dict[str, object] = {"service_account": str(folder)}
        self.user = f"system:serviceaccount:{name}:{ACCOUNT}"
        folder.mkdir()
        (folder / "ca.crt").write_bytes((cluster.folder / "ca.crt").read_bytes())
        (folder / "namespace").write_text(name)
        cluster.done("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        self.make("v1", "serviceaccounts", {"metadata": {"name": ACCOUNT}})

    # objects

    def path(self, version: str, plural: str, *rest: str) -> str:
        return path(version, plural, self.name, *rest)

    def make(self, version: str, plural: str, body: dict[str, Any]) -> Any:
        """An object, as the administrator."""
        return self.cluster.done("POST", self.path(version, plural), body)

    def get(self, one: dict[str, Any]) -> Any:
        """The same object, as it is now."""
        return self.cluster.done("GET", self.at(one))

    def at(self, one: dict[str, Any], *rest: str) -> str:
        """Where an object is."""
        return self.path(one["apiVersion"], PLURALS[one["kind"]], one["metadata"]["name"], *rest)

    def change(self, one: dict[str, Any], patch: dict[str, Any], *rest: str) -> Any:
        return self.cluster.done("PATCH", self.at(one, *rest), patch)

    def own(
        self,
        kind: str,
        version: str,
        spec: dict[str, Any],
        owner: dict[str, Any] | None = None,
        name: str = "train",
        **meta: Any,
    ) -> Any:
        """An object of a kind, with its controller."""
        if owner is not None:
            named = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True}
            meta["ownerReferences"] = [{**named, "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}]
        body = {"apiVersion": version, "kind": kind, "metadata": {"name": name, **meta}, "spec": spec}
        return self.make(version, PLURALS[kind], body)

    # what a kubelet says

    def pods(self) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = self.cluster.done("GET", self.path("v1", "pods"))["items"]
        return [{"apiVersion": "v1", "kind": "Pod", **one} for one in listed]

    def pod(self) -> dict[str, Any]:
        """The one pod that a controller has made, once it is there."""
        self.cluster.until(lambda: bool(self.pods()))
        (found,) = self.pods()
        return found

    def runs(self, pod: dict[str, Any], address: str = "127.0.0.1") -> dict[str, Any]:
        """It is placed on a node, and its containers have started."""
        target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod["metadata"]["name"]},
            "target": target,
        }
        self.cluster.done("POST", self.at(pod, "binding"), binding)
        ready = [{"type": "Ready", "status": "True"}]
        said = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": ready}
        self.change(pod, {"status": said}, "status")
        found: dict[str, Any] = self.get(pod)
        return found

    def ends(self, pod: dict[str, Any]) -> None:
        """Its containers have ended, and the kubelet takes it away."""
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
        self.cluster.done("DELETE", self.at(pod), body)

    def gone(self, pod: dict[str, Any]) -> bool:
        return self.cluster.ask("GET", self.at(pod)).code == 404

    def dying(self, pod: dict[str, Any]) -> bool:
        return bool(self.get(pod)["metadata"].get("deletionTimestamp"))

    # costguard in a pod

    def guard(self, pod: dict[str, Any]) -> None:
        """From now on this is its pod, with a token that is bound to it."""
        self.guarded = pod
        self.token(pod)

    def token(self, pod: dict[str, Any] | None) -> str:
        """A new one from the server, bound to a pod; where the container reads it."""
        named = pod and {
            "kind": "Pod",
            "apiVersion": "v1",
            "name": pod["metadata"]["name"],
            "uid": pod["metadata"]["uid"],
        }
        spec = {"expirationSeconds": 600, **({"boundObjectRef": named} if named else {})}
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        made = self.cluster.done("POST", self.path("v1", "serviceaccounts", ACCOUNT, "token"), asked)
        (self.folder / "token").write_text(made["status"]["token"])
        return str(made["status"]["token"])

    def signed(self, **claims: Any) -> str:
        """The token that is there, with other claims: signed with the server's own key, which only a test has."""
        head, body, _ = (self.folder / "token").read_text().split(".")
        meant = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))) | claims
        key = serialization.load_pem_private_key((self.cluster.folder / "accounts.key").read_bytes(), None)
        assert isinstance(key, rsa.RSAPrivateKey)
        text = f"{head}.{_coded(json.dumps(meant).encode())}"
        return f"{text}.{_coded(key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256()))}"

    def environment(self, **more: str) -> dict[str, str]:
        """What Kubernetes gives to each container; the pod is named by the token alone."""
        return {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(self.port)} | more

    def task(self, **more: str) -> tuple[Place, Task]:
        place = Place(self.environment(**more), self.settings, "/nowhere")
        return place, Kubernetes().identify(place)

    def session(self, **more: str) -> PodSession:
        place, task = self.task(**more)
        opened = Kubernetes().open(place, task)
        assert isinstance(opened, PodSession)
        return opened

    def asked(self) -> set[tuple[str, str, str]]:
        """Verb, resource and group of what was asked with the service account, by the server's audit log."""
        named = [one["objectRef"] | {"verb": one["verb"]} for one in self.cluster.audited(self.user)]
        return {
            (one["verb"], "/".join(filter(None, (one["resource"], one.get("subresource")))), one.get("apiGroup", ""))
            for one in named
        }


def _coded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


# workloads: each makes an owner, lets its pod run, and makes it costguard's own


def running(space: Space, owner: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
    """The pod of an owner, or one of its own."""
    if owner is None:
        made = template()
        made["metadata"] |= {"name": "train", **meta}
        space.make("v1", "pods", {"apiVersion": "v1", "kind": "Pod", **made})
    pod = space.runs(space.pod())
    space.guard(pod)
    return pod


def bare(space: Space) -> Any:
    return running(space)


def job(space: Space, owner: dict[str, Any] | None = None, **labels: str) -> Any:
    made = space.own(
        "Job", "batch/v1", {"template": _once(template(**labels))}, owner, "train" if owner is None else "train-w-0"
    )
    running(space, made)
    return made


def _once(made: dict[str, Any]) -> dict[str, Any]:
    made["spec"]["restartPolicy"] = "Never"
    return made


def job_set(space: Space) -> Any:
    jobs = [{"name": "w", "replicas": 1, "template": {"spec": {"parallelism": 1}}}]
    made = space.own("JobSet", "jobset.x-k8s.io/v1alpha2", {"replicatedJobs": jobs})
    job(space, made, **{"jobset.sigs.k8s.io/jobset-name": "train"})
    return made


def deployment(space: Space, gpus: str = "1") -> Any:
    spec = {"replicas": 1, "selector": {"matchLabels": LABELS}, "template": template(gpus)}
    made = space.own("Deployment", "apps/v1", spec)
    running(space, made)
    return made


def stateful_set(space: Space, owner: dict[str, Any] | None = None, **labels: str) -> Any:
    spec = {"replicas": 1, "serviceName": "", "selector": {"matchLabels": LABELS}, "template": template(**labels)}
    made = space.own("StatefulSet", "apps/v1", spec, owner)
    running(space, made)
    return made


def leader_worker_set(space: Space) -> Any:
    spec = {"replicas": 1, "leaderWorkerTemplate": {"size": 1}}
    made = space.own("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", spec)
    stateful_set(space, made, **{"leaderworkerset.sigs.k8s.io/name": "train"})
    return made


def notebook(space: Space) -> Any:
    made = space.own("Notebook", "kubeflow.org/v1", {"template": {}})
    stateful_set(space, made)
    return made


Workload = Callable[[Space], Any]


def now() -> int:
    return int(time.time())
