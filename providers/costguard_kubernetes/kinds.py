"""Kinds of objects that may own a pod, and how each is ended so that it can go on later."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from costguard.tasks.api import SchedulerError

Way = Literal["step", "suspend", "scale", "annotate", "evict", "none"]
"""``step``: it only stands between a pod and its owner. ``none``: it goes on, and what it owns is ended."""

STOPPED = "kubeflow-resource-stopped"
"""The annotation of a Notebook that its controller keeps at zero. Source: Kubeflow's notebook-controller, pkg/culler."""


class Kind(NamedTuple):
    """``label``: what its controller writes on each of its pods, where it has no selector of its own."""

    group: str
    name: str
    plural: str
    way: Way
    label: str = ""


POD = Kind("", "Pod", "pods", "evict")
CRON_JOB = Kind("batch", "CronJob", "cronjobs", "none")
JOB_SET = Kind("jobset.x-k8s.io", "JobSet", "jobsets", "suspend", "jobset.sigs.k8s.io/jobset-name")

KINDS: Mapping[tuple[str, str], Kind] = {
    (kind.group, kind.name): kind
    for kind in (
        POD,
        CRON_JOB,
        Kind("apps", "ReplicaSet", "replicasets", "step"),
        Kind("apps", "Deployment", "deployments", "scale"),
        Kind("apps", "StatefulSet", "statefulsets", "scale"),
        Kind("batch", "Job", "jobs", "suspend"),
        JOB_SET,
        Kind(
            "leaderworkerset.x-k8s.io",
            "LeaderWorkerSet",
            "leaderworkersets",
            "scale",
            "leaderworkerset.sigs.k8s.io/name",
        ),
        Kind("kubeflow.org", "Notebook", "notebooks", "annotate"),
    )
}
"""By group and kind, as the reference to an owner has them."""

Data = Mapping[str, Any]
"""One object of the API, as JSON."""


class Owner(NamedTuple):
    """A reference from an object to the controller that made it."""

    group: str
    version: str
    name_of_kind: str
    name: str
    uid: str

    @property
    def words(self) -> str:
        """For people."""
        return f"{self.name_of_kind} {self.name}"


class Object(NamedTuple):
    """One object, in the version of the API in which it was read."""

    kind: Kind
    version: str
    data: Data

    @property
    def name(self) -> str:
        """Unique among those of its kind that exist."""
        return str(at(self.data, "metadata", "name") or "")

    @property
    def uid(self) -> str:
        """Unique for ever."""
        return str(at(self.data, "metadata", "uid") or "")

    @property
    def revision(self) -> str:
        """Its resource version: another one after each change, of its state too."""
        return str(at(self.data, "metadata", "resourceVersion") or "")

    @property
    def generation(self) -> str:
        """Another one after each change of what is wanted; empty for what has none."""
        return str(at(self.data, "metadata", "generation") or "")

    @property
    def words(self) -> str:
        """For people."""
        return f"{self.kind.name} {self.name}"

    @property
    def owner(self) -> Owner | None:
        """The one controller; whoever else is named there only takes it along when it goes."""
        found = at(self.data, "metadata", "ownerReferences")
        for one in found if isinstance(found, list) else ():
            if isinstance(one, Mapping) and one.get("controller") is True:
                group, _, version = f"/{one.get('apiVersion', '')}".rpartition("/")
                named = (str(one.get(key, "")) for key in ("kind", "name", "uid"))
                return Owner(group.strip("/"), version, *named)
        return None

    def label(self, name: str) -> str:
        """One of its labels; empty for none."""
        return str(at(self.data, "metadata", "labels", name) or "")

    def number(self, *path: str, missing: int) -> int:
        """A whole number. Raises SchedulerError for anything else: a guess could hide a pod that works."""
        found = at(self.data, *path)
        if found is None:
            return missing
        if type(found) is not int or found < 0:
            raise SchedulerError("internal", f"{self.words} has no number in {'.'.join(path)}", code="garbage")
        return found


def at(data: object, *path: str) -> Any:
    """What stands at a place of nested objects; None where there is nothing."""
    for key in path:
        if not isinstance(data, Mapping):
            return None
        data = data.get(key)
    return data


def path_of(kind: Kind, version: str, namespace: str, name: str = "", part: str = "") -> str:
    """Where the API has the objects of a kind, one of them, or a part of that."""
    root = f"/apis/{quote(kind.group, safe='')}" if kind.group else "/api"
    parts = [root, quote(version, safe=""), "namespaces", quote(namespace, safe=""), kind.plural]
    return "/".join([*parts, *(quote(one, safe="") for one in (name, part) if one)])
