"""Which pod this process belongs to: by the downward API, by the service account's token, by its control group, else by the host's name."""

import base64
import json
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from costguard.files import text_of
from costguard.tasks.api import Advice, Place, SchedulerError, Task

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where Kubernetes mounts a pod's service account."""

LONGEST_TOKEN = 64 << 10
"""Bytes of a token that are read."""

_ADDRESS = "KUBERNETES_SERVICE_HOST"
_UID = r"[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}"
_GROUP = re.compile(rf"kubepods[^\n]*[/-]pod({_UID})(?:\.slice)?(?:/|$)", re.MULTILINE)
"""Both drivers of control groups: `kubepods/burstable/podUID` and `kubepods-burstable-podUID.slice`, with `_` for `-`."""

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
_HINT = "give the container POD_NAME, POD_NAMESPACE and POD_UID by the downward API, as docs/tasks.md shows"


class Fact(NamedTuple):
    """What one source says of this pod; empty where it says nothing."""

    source: str
    namespace: str = ""
    pod: str = ""
    uid: str = ""


def folder(place: Place) -> str:
    """Where the service account's files are."""
    return str(place.settings.get("service_account") or ACCOUNT)


def in_a_pod(place: Place) -> bool:
    """Whether Kubernetes started this container."""
    return bool(place.environ.get(_ADDRESS))


def pod_of(procfs: str, pid: str) -> str:
    """The id of the pod in whose control group a process is; empty where that is not to be seen."""
    found = {match[1].replace("_", "-") for match in _GROUP.finditer(text_of(f"{procfs}/{pid}/cgroup", limit=-1))}
    return found.pop() if len(found) == 1 else ""


def identify(place: Place) -> Task:
    """The pod. Raises SchedulerError where none is named, or where two facts do not agree."""
    if not in_a_pod(place):
        raise SchedulerError("refused", f"no {_ADDRESS} says that this is a pod of Kubernetes", hint=_HINT)
    facts = list(_facts(place))
    pod = _agreed("pod", [(one.source, one.pod) for one in facts])
    if not pod:
        facts.append(Fact("the host's name", pod=_host_name(place.environ)))
        pod = facts[-1].pod
    namespace = _agreed("namespace", [(one.source, one.namespace) for one in facts])
    uid = _agreed("uid", [(one.source, one.uid) for one in facts])
    for what, name in (("pod", pod), ("namespace", namespace)):
        if not _NAME.fullmatch(name):
            text = f"{name!r} is not the name of a {what}" if name else f"nothing says which {what} this is"
            raise SchedulerError("refused", text, hint=_HINT)
    details = {"namespace": namespace, "pod": pod, "uid": uid, "run": uid}  # a StatefulSet's next pod has the same name
    evidence = tuple(f"{one.source}: {' '.join(filter(None, one[1:]))}" for one in facts if any(one[1:]))
    named = {name: one for name, one in details.items() if one}
    # how it starts again depends on the owner: the plan says that
    advice = Advice(
        reach=f"kubectl exec -n {namespace} {pod} [-c CONTAINER] -- {{}}",
        end="`kubectl`, at its owner (`costguard status` names that)",
        show=f"`kubectl get pod -n {namespace} {pod}`",
    )
    return Task(f"{namespace}/{pod}", f"pod {namespace}/{pod}", details=named, evidence=evidence, advice=advice)


def _facts(place: Place) -> Iterator[Fact]:
    environ = place.environ
    names = [environ.get(name, "") for name in ("POD_NAMESPACE", "POD_NAME", "POD_UID")]
    yield Fact("downward API", *names)
    yield _claimed(text_of(f"{folder(place)}/token", limit=LONGEST_TOKEN))
    yield Fact("service account", text_of(f"{folder(place)}/namespace", limit=LONGEST_TOKEN).strip())
    yield Fact("control group", uid=pod_of(place.procfs, "self"))


def _claimed(token: str) -> Fact:
    """What the API server wrote into a token for this pod alone; nobody here checks its signature, and nothing else of it is kept."""
    source = "token"
    try:
        middle = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(middle + "=" * (-len(middle) % 4)))["kubernetes.io"]
        pod = claims.get("pod", {})
        return Fact(source, str(claims.get("namespace", "")), str(pod.get("name", "")), str(pod.get("uid", "")))
    except (IndexError, ValueError, KeyError, TypeError, AttributeError):
        return Fact(source)  # an older kind of token names no pod


def _agreed(what: str, said: list[tuple[str, str]]) -> str:
    named = [(source, value) for source, value in said if value]
    if len({value for _, value in named}) > 1:
        text = " and ".join(f"{source} says {value}" for source, value in named)
        hint = "give the container the facts of its own pod, by the downward API"
        raise SchedulerError("changed", f"two facts about the {what} disagree: {text}", hint=hint)
    return named[0][1] if named else ""


def _host_name(environ: Mapping[str, str]) -> str:
    import socket

    return environ.get("HOSTNAME") or socket.gethostname()
