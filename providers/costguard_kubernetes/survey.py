"""What the API server shows of this pod: its state, what owns it, and the other pods that would end with it."""

from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import quote, urlencode

from costguard.tasks.api import SchedulerError, State, Task
from costguard_kubernetes import change
from costguard_kubernetes.api import Api
from costguard_kubernetes.errors import UNSERVED
from costguard_kubernetes.kinds import CRON_JOB, JOB_SET, KINDS, POD, STOPPED, Kind, Object, Owner, at, path_of

DEEPEST = 8
"""Owners above each other: a worker of a LeaderWorkerSet has four."""

MOST_PODS = 50
"""Pods of an owner that are listed, of those that have not ended; with more there are others in any case."""

NAMED = 4
"""So many of them are named one by one."""

GPU = "nvidia.com/gpu"
_GROUPS = ("kueue.x-k8s.io/pod-group-name", "scheduling.x-k8s.io/pod-group", "scheduling.k8s.io/group-name")
"""Labels and annotations with which schedulers place several pods together (Kueue, the scheduler's plug-ins, Volcano)."""

_DONE = ("Succeeded", "Failed")
_LIVING = ",".join(f"status.phase!={one}" for one in _DONE)
"""For the server: it keeps hundreds that have ended, and a page of them would hide one that lives."""


class Seen(NamedTuple):
    """``pod``: None where there is no such pod any more. ``target``: what is to be changed, None where nobody knows how.

    ``above``: the controller that goes on, which is why there is no target, or, with one, that may start another. ``others``: the
    other pods that live and would end as well, ``more``: and further ones that were not listed; ``wanted``: how many the target asks
    for. ``together``: the group of pods that the pod was placed with. ``deleted``: what would be deleted with it for good, see
    `change.deleted`.
    """

    state: State
    said: str
    pod: Object | None = None
    target: Object | None = None
    above: Owner | None = None
    others: tuple[Object, ...] = ()
    more: bool = False
    wanted: int = 1
    together: str = ""
    deleted: str = ""

    @property
    def identity(self) -> str:
        """What tells pod and owner from later ones of the same names."""
        return " ".join(one.uid for one in (self.pod, self.target) if one is not None)

    @property
    def stamp(self) -> str:
        """The same, and what must not have changed since it was looked at: what is wanted of the owner, and its pods."""
        wanted = self.target.generation if self.target is not None else ""
        return f"{self.identity}|{wanted} {' '.join(sorted(one.uid for one in self.others))}"


class Survey:
    """Questions about one pod."""

    def __init__(self, api: Api, task: Task) -> None:
        self._api, self._task = api, task
        self._namespace, self._name = task.details["namespace"], task.details["pod"]
        self._uid = task.details.get("uid", "")

    def take(self, end: float) -> Seen:
        """Everything, until the moment ``end``. Raises SchedulerError."""
        pod = self._pod(end)
        if pod is None:
            return Seen("ended", "that it knows no such pod")
        if (seen := _of_pod(pod)) is not None:
            return seen
        chain, above = self._owners(pod, end)
        if chain is None:
            return Seen("ending", f"that {above.words if above else 'its owner'} is gone", pod)
        target = _target(pod, chain, above)
        if target is None:
            return Seen("running", "phase Running", pod, None, above)
        if ending := shows(target):
            return Seen("ending", ending, pod, target, above)
        deleted = change.deleted(target, chain)
        seen = Seen("running", "phase Running", pod, target, above, together=_together(pod), deleted=deleted)
        return self._others(seen, target, chain, end) if target.kind is not POD else seen

    def _pod(self, end: float) -> Object | None:
        """Find this pod, and no other one of its name; None where it is gone."""
        path = path_of(POD, "v1", self._namespace, self._name)
        try:
            answer = self._api.get(path, f"reading {self._task.words}", end)
        except SchedulerError as error:
            if error.trouble == "gone" and self._uid:
                return None
            if error.trouble == "gone":
                raise _unproven(f"Kubernetes knows no {self._task.words}") from None
            raise
        pod = Object(POD, "v1", answer.data)
        _sound(pod)
        if self._uid and pod.uid != self._uid:
            return None  # the name is another pod's by now
        listed = at(pod.data, "status", "podIPs")
        own = {at(one, "ip") for one in listed} if isinstance(listed, list) else set()
        if not self._uid and answer.address not in own | {at(pod.data, "status", "podIP")}:
            raise _unproven(f"{self._task.words} has another address than this container ({answer.address})")
        return pod

    def _owners(self, pod: Object, end: float) -> tuple[tuple[Object, ...] | None, Owner | None]:
        """The controllers above a pod, as far as their kinds are known, and the first one that is not; no chain where one is gone."""
        chain: list[Object] = []
        below = pod
        while (owner := below.owner) is not None:
            kind = KINDS.get((owner.group, owner.name_of_kind))
            if kind is None or kind is CRON_JOB or len(chain) == DEEPEST:
                return tuple(chain), owner
            try:
                below = self._read(kind, owner, end)
            except SchedulerError as error:
                if error.trouble != "gone":
                    raise
                return None, owner
            _sound(below)
            if below.uid != owner.uid:
                return None, owner  # made anew under the same name
            chain.append(below)
        return tuple(chain), None

    def _read(self, kind: Kind, owner: Owner, end: float) -> Object:
        """An owner. A pod keeps the version in which it was made; where the server has that one no more, its own counts."""
        version, doing = owner.version, f"reading {owner.words}"
        try:
            found = self._api.get(path_of(kind, version, self._namespace, owner.name), doing, end)
        except SchedulerError as error:
            if error.code != UNSERVED:
                raise
            group = self._api.get(f"/apis/{quote(kind.group, safe='')}", doing, end).data
            version = str(at(group, "preferredVersion", "version") or "")
            if version in {"", owner.version}:
                raise
            found = self._api.get(path_of(kind, version, self._namespace, owner.name), doing, end)
        return Object(kind, version, found.data)

    def _others(self, seen: Seen, target: Object, chain: tuple[Object, ...], end: float) -> Seen:
        """The same, with the other pods of the owner that have not ended; and how many it asks for."""
        selector = _selector(target, chain)
        listed, more = self._listed(target, selector, _LIVING, end)
        own = seen.pod.uid if seen.pod is not None else ""
        if own not in {one.uid for one in listed} and not more:
            text = f"the pods of {target.words} ({selector}) do not include {self._task.words}, so its other pods are not known"
            raise SchedulerError("internal", text, code="garbage")
        others = tuple(one for one in listed if one.uid != own and _lives(one))
        done = len(self._listed(target, selector, "status.phase=Succeeded", end)[0]) if target.kind is JOB_SET else 0
        return seen._replace(others=others, more=more, wanted=_wanted(target, done))

    def _listed(self, target: Object, selector: str, fields: str, end: float) -> tuple[tuple[Object, ...], bool]:
        """Pods of an owner, and whether there are more of them."""
        query = urlencode({"labelSelector": selector, "fieldSelector": fields, "limit": MOST_PODS})
        path = path_of(POD, "v1", self._namespace)
        data = self._api.get(f"{path}?{query}", f"listing the pods of {target.words}", end).data
        items = data.get("items")
        listed = [Object(POD, "v1", one) for one in items if isinstance(one, dict)] if isinstance(items, list) else []
        for one in listed:
            _sound(one)
        return tuple(listed), bool(at(data, "metadata", "continue"))


def _unproven(text: str) -> SchedulerError:
    hint = "give the container POD_NAME, POD_NAMESPACE and POD_UID by the downward API, as docs/tasks.md shows"
    return SchedulerError("changed", f"{text}, so it is not certain which pod this is", hint=hint)


def _sound(one: Object) -> None:
    if not (one.uid and one.name and one.revision):
        raise SchedulerError("internal", f"the API server shows a {one.kind.name} without name, uid or version")


def _of_pod(pod: Object) -> Seen | None:
    """What its own state says, before anything else is asked; None for a pod that runs."""
    phase = str(at(pod.data, "status", "phase") or "none")
    if phase in _DONE:
        return Seen("ended", f"phase {phase}", pod)
    if at(pod.data, "metadata", "deletionTimestamp"):
        return Seen("ending", "that it is being deleted", pod)
    if phase == "Pending":
        return Seen("waiting", "phase Pending", pod)
    if phase != "Running":
        raise SchedulerError("internal", f"Kubernetes shows an unknown phase of the pod: {phase}")
    return None


def _lives(pod: Object) -> bool:
    """Whether it may work, or is going to; one that is being deleted ends in any case."""
    return at(pod.data, "status", "phase") not in _DONE and not at(pod.data, "metadata", "deletionTimestamp")


def _target(pod: Object, chain: tuple[Object, ...], above: Owner | None) -> Object | None:
    """The topmost controller, if it is of a kind that can be ended, and nothing unknown above it puts it back."""
    if above is not None and KINDS.get((above.group, above.name_of_kind)) is not CRON_JOB:
        return None
    if above is not None and not chain:
        return None
    top = chain[-1] if chain else pod
    if top.kind is POD and top.uid != pod.uid:
        return None  # another pod made this one: it has work of its own
    return None if top.kind.way == "step" else top


def shows(target: Object) -> str:
    """What an object shows of being ended already, in words; empty for nothing."""
    way = target.kind.way
    if way == "suspend" and at(target.data, "spec", "suspend") is True:
        return f"that {target.words} is suspended"
    if way == "scale" and target.number("spec", "replicas", missing=1) == 0:
        return f"that {target.words} is scaled to zero"
    if way == "annotate" and STOPPED in (at(target.data, "metadata", "annotations") or {}):
        return f"that {target.words} is marked as stopped"
    return ""


def _selector(target: Object, chain: tuple[Object, ...]) -> str:
    """The pods of an owner. Raises SchedulerError where that cannot be said: then others would not be seen."""
    if target.kind.label:
        return f"{target.kind.label}={target.name}"
    holder = target if at(target.data, "spec", "selector") is not None else chain[0]  # a Notebook has its StatefulSet's
    parts = list(_parts(at(holder.data, "spec", "selector")))
    if not parts:
        raise SchedulerError("internal", f"{holder.words} does not say which pods it has", code="garbage")
    return ",".join(parts)


def _parts(selector: object) -> Iterator[str]:
    for name, value in (at(selector, "matchLabels") or {}).items():
        yield f"{name}={value}"
    for one in at(selector, "matchExpressions") or ():
        key, values = at(one, "key"), ",".join(map(str, at(one, "values") or ()))
        forms = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }
        form = forms.get(str(at(one, "operator")))
        if not key or not form:
            raise SchedulerError("internal", "the selector of an owner has an unknown form", code="garbage")
        yield form


def _wanted(target: Object, done: int) -> int:
    """How many pods an owner asks for at this time, whether or not they are there: one may be between two pods.

    ``done``: its pods that have come to a good end.
    """
    name = target.kind.name
    if name == "Job":
        return _of_job(target)
    if name == "JobSet":
        listed = at(target.data, "spec", "replicatedJobs")
        jobs = (
            [Object(target.kind, "", one) for one in listed if isinstance(one, dict)]
            if isinstance(listed, list)
            else []
        )
        each = [
            one.number("replicas", missing=1) * one.number("template", "spec", "parallelism", missing=1) for one in jobs
        ]
        return sum(each) - done
    replicas = 1 if name == "Notebook" else target.number("spec", "replicas", missing=1)
    return replicas * (
        target.number("spec", "leaderWorkerTemplate", "size", missing=1) if name == "LeaderWorkerSet" else 1
    )


def _of_job(job: Object) -> int:
    parallel, active = job.number("spec", "parallelism", missing=1), job.number("status", "active", missing=0)
    succeeded = job.number("status", "succeeded", missing=0)
    if at(job.data, "spec", "completions") is None:  # a queue: after the first good end no pod is started any more
        return active if succeeded else max(parallel, active)
    return max(min(parallel, job.number("spec", "completions", missing=1) - succeeded), active)


def _together(pod: Object) -> str:
    for name in _GROUPS:
        if found := pod.label(name) or str(at(pod.data, "metadata", "annotations", name) or ""):
            return found
    return ""


def elsewhere(seen: Seen) -> str:
    """What would end as well, and cannot be seen from here, in words; empty for nothing."""
    target = seen.target
    if target is None:
        return ""
    if seen.others:
        names = ", ".join(one.name for one in seen.others[:NAMED])
        left = f"more than {MOST_PODS - NAMED}" if seen.more else f"{len(seen.others) - NAMED} more"
        more = f" and {left}" if seen.more or len(seen.others) > NAMED else ""
        return f"{target.words} also has the pod{'s' * (len(seen.others) > 1)} {names}{more}"
    if seen.more:
        return f"{target.words} has more than {MOST_PODS} pods"
    if seen.wanted > 1:
        return f"{target.words} asks for {seen.wanted} pods"
    return f"it was placed together with the pods of group {seen.together}" if seen.together else ""


def gpus(pod: Object) -> int | None:
    """How many GPUs the containers of a pod got, None where parts of GPUs or claims of devices stand in their place."""
    if at(pod.data, "spec", "resourceClaims"):
        return None
    containers = [*(at(pod.data, "spec", "containers") or ())]
    containers += [one for one in at(pod.data, "spec", "initContainers") or () if at(one, "restartPolicy") == "Always"]
    given = 0
    for one in containers:
        for name, count in (at(one, "resources", "limits") or {}).items():
            if name.startswith("nvidia.com/") and name != GPU:
                return None
            given += int(count) if name == GPU and str(count).isdecimal() else 0
    return given
