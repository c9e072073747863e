"""The one request that ends a workload, so that it can go on later; and the words for people about it."""

import datetime as dt
import hashlib
from typing import Any, NamedTuple

from costguard_kubernetes.api import MERGE, Request
from costguard_kubernetes.kinds import STOPPED, Data, Object, at, path_of

_MANAGERS = ("", "kubernetes.io/job-controller", "jobset.sigs.k8s.io/jobset-controller")
QUEUE = "kueue.x-k8s.io/queue-name"


class Change(NamedTuple):
    """``verb`` and ``resource``: the right that it needs. ``words``: what was asked for. ``back``: the command that undoes it."""

    request: Request
    verb: str
    resource: str
    words: str
    back: str


def of(target: Object, namespace: str, *, dry: bool = False) -> Change:
    """It names an owner by its uid and by the version in which it was looked at: one that has changed since is left alone."""
    kind, way = target.kind, target.kind.way
    part = {"scale": "scale", "evict": "eviction"}.get(way, "")
    query = "?fieldManager=costguard" + ("&dryRun=All" if dry else "")
    path = path_of(kind, target.version, namespace, target.name, part) + query
    resource = f"{kind.plural}/{part}" if part else kind.plural
    if way == "evict":
        request = Request("POST", path, f"evicting {target.words}", _eviction(target, namespace), effect=not dry)
        words = f"eviction of {target.words}"
        return Change(request, "create", resource, words, "nothing starts it again: create it anew")
    meta: dict[str, Any] = {"uid": target.uid, "resourceVersion": target.revision}
    what = f"{kind.plural}.{kind.group}/{target.name} -n {namespace}"
    if way == "suspend":
        body: Data = {"metadata": meta, "spec": {"suspend": True}}
        words = f"suspension of {target.words} (spec.suspend = true)"
        back = f"""kubectl patch {what} --type=merge -p '{{"spec":{{"suspend":false}}}}'"""
        doing = f"suspending {target.words}"
    elif way == "scale":
        body = {"metadata": meta, "spec": {"replicas": 0}}
        words, doing = f"scaling of {target.words} to zero (spec.replicas = 0)", f"scaling {target.words} to zero"
        back = f"kubectl scale {what} --replicas={target.number('spec', 'replicas', missing=1)}"
    else:
        now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        body = {"metadata": {**meta, "annotations": {STOPPED: now}}}
        words, doing = f"stop of {target.words} (annotation {STOPPED})", f"stopping {target.words}"
        back = f"kubectl annotate {what} {STOPPED}-"
    return Change(Request("PATCH", path, doing, body, MERGE, effect=not dry), "patch", resource, words, back)


def _eviction(pod: Object, namespace: str) -> Data:
    """By its uid alone: a budget counts the disruption before the version is compared, so a request refused for that would use it up."""
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": namespace},
        "deleteOptions": {"preconditions": {"uid": pod.uid}},
    }


def taken(target: Object, answer: Data) -> bool:
    """Whether an answer shows the change: an API that does not know a field drops it, and says that all went well."""
    way = target.kind.way
    if way == "suspend":
        return at(answer, "spec", "suspend") is True
    if way == "scale":
        return at(answer, "kind") == "Scale" and not at(answer, "spec", "replicas")  # a zero is left out there
    if way == "evict":
        return bool(at(answer, "status") != "Failure")
    return STOPPED in (at(answer, "metadata", "annotations") or {})


def governor(target: Object) -> str:
    """Who would undo a suspension at once, in words; empty for nobody."""
    if target.kind.way != "suspend":
        return ""
    if queue := target.label(QUEUE):
        return f"Kueue (queue {queue})"
    manager = str(at(target.data, "spec", "managedBy") or "")
    return "" if manager in _MANAGERS else manager


def scratch(pod: Object) -> tuple[str, ...]:
    """Volumes of the pod that go with it, each with its kind."""
    kinds = ("emptyDir", "ephemeral")
    volumes = at(pod.data, "spec", "volumes") or ()
    return tuple(f"{at(one, 'name')} ({kind})" for one in volumes for kind in kinds if at(one, kind) is not None)


def deleted(target: Object, chain: tuple[Object, ...]) -> str:
    """Whose volumes would be deleted for good, in words; empty for nobody's.

    A StatefulSet may have them deleted when it is scaled down; one below a LeaderWorkerSet is itself deleted then.
    """
    for one in chain:
        policy = at(one.data, "spec", "persistentVolumeClaimRetentionPolicy")
        ends = ("whenScaled", "whenDeleted") if target.kind.name == "LeaderWorkerSet" else ("whenScaled",)
        if at(one.data, "spec", "volumeClaimTemplates") and any(at(policy, end) == "Delete" for end in ends):
            return one.words
    return ""


def event(pod: Object | None, namespace: str, name: str, uid: str, text: str) -> Data:
    """A message among the pod's events. The same text of the same second has the same name, and stands there once."""
    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    digest = hashlib.sha256(f"{now} {text}".encode()).hexdigest()[:16]
    version = {"resourceVersion": pod.revision} if pod is not None else {}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name[:200]}.{digest}", "namespace": namespace},
        "involvedObject": {
            "apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name, "uid": uid, **version,
        },
        "reason": "Costguard",
        "message": text[:1024],
        "type": "Warning",
        "source": {"component": "costguard"},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }  # fmt: skip
