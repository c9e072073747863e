"""A stand-in of an API server: objects with versions, rights, dry runs, evictions, and faults; it refuses what Kubernetes refuses.

Its answers are those of Kubernetes' API conventions: codes, reasons and causes of a `Status`, and a `Scale` that leaves out a zero;
where they differ, those of a real server (`tests/kubernetes`).
"""

import base64
import copy
import json
import ssl
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import trustme
import yaml

from costguard_kubernetes.kinds import KINDS
from costguard_kubernetes.permissions import role

NAMESPACE = "ml"
POD = "train-x7k"
VERSIONS = {"jobset.x-k8s.io": "v1alpha2", "autoscaling": "v1", "": "v1"}
PLURALS = {(group, kind): one.plural for (group, kind), one in KINDS.items()} | {
    ("autoscaling", "HorizontalPodAutoscaler"): "horizontalpodautoscalers",
    ("", "Event"): "events",
}
REASONS = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 409: "Conflict", 410: "Expired",
    422: "Invalid", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout",
}  # fmt: skip

VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."


class RefusedError(Exception):
    """The answer is a `Status` with this code. ``name``: of the object that it is about, where it is about one."""

    def __init__(
        self,
        code: int,
        message: str,
        pause: int = 0,
        causes: tuple[str, ...] = (),
        name: str = "",
        reason: str = "",
    ) -> None:
        self.code, self.message, self.pause, self.causes, self.name = code, message, pause, causes, name
        self.reason = reason or REASONS.get(code, "Unknown")


class NoPathError(Exception):
    """Nobody serves this path: a line of text, and no `Status`."""


class PressureError(Exception):
    """More requests at a time than the server takes: a line of text as well, and how long to wait."""


class Dropped(Exception):
    """The connection ends without a whole answer."""


def rights_of(text: str) -> set[tuple[str, str, str]]:
    """Verb, resource and group of each right that the Role of a manifest grants."""
    (found,) = [one for one in yaml.safe_load_all(text) if one["kind"] == "Role"]
    return {
        (verb, resource, group)
        for rule in found["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


class Cluster:
    """One namespace of a cluster with one GPU pod in it, as its API server shows it to that pod's service account."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "account"
        self.folder.mkdir()
        self.objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.rights = rights_of(role())
        self.asked: list[tuple[str, str, str]] = []
        self.changes: list[str] = []
        self.agents: list[str] = []
        self.faults: dict[str, list[Any]] = {}
        self.budgets: dict[str, str] = {}
        self.reckoning = False
        self.allowed = 1000
        """How many disruptions the budgets allow."""
        self.unknown_fields = False
        self.unserved: set[str] = set()
        self.after = "marks"
        self.released = threading.Event()
        self.port = 0
        self._revision = 100
        self._lock = threading.RLock()
        self._authority = trustme.CA()
        self._authority.cert_pem.write_to_path(str(self.folder / "ca.crt"))
        (self.folder / "namespace").write_text(NAMESPACE)
        self.token = ""
        self.rotate()

    def rotate(self, claims: Mapping[str, Any] | None = None) -> None:
        """A new token: the one before is not accepted any more."""
        body = json.dumps({"jti": str(uuid.uuid4()), **({"kubernetes.io": claims} if claims else {})}).encode()
        self.token = f"head.{base64.urlsafe_b64encode(body).decode().rstrip('=')}.signature-{uuid.uuid4()}"
        (self.folder / "token").write_text(self.token + "\n")

    def environment(self, **more: str) -> dict[str, str]:
        """What Kubernetes and a downward API give to the container."""
        address = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(self.port)}
        uid = self.objects.get(("", "pods", POD), {}).get("metadata", {}).get("uid", "")
        return address | {"POD_NAME": POD, "POD_NAMESPACE": NAMESPACE, "POD_UID": uid} | more

    def add(self, group: str, kind: str, name: str, *, owner: dict[str, Any] | None = None, **fields: Any) -> Any:
        """Make an object; ``owner`` is its controller."""
        version = VERSIONS.get(group, "v1")
        meta: dict[str, Any] = {
            "name": name, "namespace": NAMESPACE, "uid": str(uuid.uuid4()), "generation": 1, **fields.pop("metadata", {}),
        }  # fmt: skip
        if owner is not None:
            named = {key: owner[key] for key in ("apiVersion", "kind")}
            named |= {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
            meta["ownerReferences"] = [{"kind": "Other", "name": "x", "uid": "y"}, {**named, "controller": True}]
        made = {"apiVersion": f"{group}/{version}" if group else version, "kind": kind, "metadata": meta, **fields}
        self.objects[group, PLURALS[group, kind], name] = made
        self.touch(made)
        return made

    def pod(self, name: str = POD, owner: dict[str, Any] | None = None, gpus: str = "1", **metadata: Any) -> Any:
        """A pod that runs, with a GPU."""
        spec = {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": gpus, "cpu": "4"}}}]}
        status = {"phase": "Running", "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}]}
        return self.add("", "Pod", name, owner=owner, spec=spec, status=status, metadata=metadata)

    def touch(self, one: dict[str, Any]) -> None:
        """It has changed."""
        self._revision += 1
        one["metadata"]["resourceVersion"] = str(self._revision)

    def get(self, group: str, plural: str, name: str) -> Any:
        return self.objects[group, plural, name]

    def fails(self, right: str, *faults: Any) -> None:
        """``patch jobs``: what becomes of the next such requests, one after another; see `_fault`."""
        self.faults[right] = list(faults)

    @contextmanager
    def served(self) -> Iterator["Cluster"]:
        """Over TLS, as it has to be."""
        cluster = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                try:
                    cluster._serve(self)
                except (Dropped, OSError):
                    self.close_connection = True

            do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = answer

            def log_message(self, *_: object) -> None:
                """Nothing is printed."""

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._authority.issue_cert("127.0.0.1").configure_cert(context)

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def finish_request(self, request: Any, client_address: Any) -> None:
                try:
                    with context.wrap_socket(request, server_side=True) as secured:
                        super().finish_request(secured, client_address)
                except OSError:
                    return

        server = Server(("127.0.0.1", self.port), Handler)
        self.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield self
        finally:
            self.released.set()
            server.shutdown()
            thread.join()
            server.server_close()

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers.get("Content-Length") or 0)
        body = handler.rfile.read(length)
        cut: Any = None
        try:
            with self._lock:
                verb, resource, fault = self._called(handler)
            if fault == "slow":
                self.released.wait(30)
                raise Dropped
            with self._lock:
                data = self._carried_out(handler, body, verb, resource, fault)
            if fault in ("dropped-after", "cut"):
                cut = fault
            code = 201 if handler.command == "POST" else 200
        except RefusedError as refused:
            code, data = refused.code, _status(refused)
            pause = refused.pause
        except NoPathError:
            code, data, pause = 404, "no-path", 0
        except PressureError:
            code, data, pause = 429, "pressure", 1
        else:
            pause = 0
        self._write(handler, code, data, pause, cut)

    def _called(self, handler: BaseHTTPRequestHandler) -> tuple[str, str, Any]:
        """Which right it takes, and what is to go wrong. Raises RefusedError without that right."""
        if handler.headers["Authorization"] != f"Bearer {self.token}":
            raise RefusedError(401, "Unauthorized")
        self.agents.append(handler.headers["User-Agent"])
        if set(handler.path.split("/")) & self.unserved:
            raise NoPathError
        if urlsplit(handler.path).path.count("/") == 2:
            return "get", "groups", None  # what everybody may ask who has a token
        group, plural, name, part, _ = _parsed(handler.path)
        verb = {"GET": "get" if name else "list", "POST": "create", "PATCH": "patch"}.get(handler.command, "delete")
        resource = f"{plural}/{part}" if part else plural
        query = parse_qs(urlsplit(handler.path).query)
        if resource != "selfsubjectaccessreviews":
            self.asked.append((verb, resource, group))
            if (verb, resource, group) not in self.rights:
                user = "system:serviceaccount:ml:default"
                text = f'{resource} "{name}" is forbidden: User "{user}" cannot {verb} resource "{resource}" in API group "{group}" in the namespace "{NAMESPACE}"'
                raise RefusedError(403, text)
        kind = f"dry {verb} {resource}" if "dryRun" in query else f"{verb} {resource}"
        waiting = self.faults.get(kind, [])
        fault = waiting.pop(0) if waiting else None
        return verb, resource, fault

    def _carried_out(self, handler: BaseHTTPRequestHandler, body: bytes, verb: str, resource: str, fault: Any) -> Any:
        if fault == "dropped-before":
            raise Dropped
        if isinstance(fault, RefusedError | PressureError):
            raise fault
        if fault == "html-502":
            return fault
        if callable(fault):
            fault()
        if resource == "selfsubjectaccessreviews":
            return self._review(json.loads(body))
        if resource == "groups":
            return _group(handler.path.rpartition("/")[2])
        group, plural, name, _, namespace = _parsed(handler.path)
        if namespace != NAMESPACE:
            raise RefusedError(404, f'namespaces "{namespace}" not found')
        if verb == "list":
            return self._listed(group, plural, parse_qs(urlsplit(handler.path).query))
        if plural == "events":
            return self._event(json.loads(body))
        one = self.objects.get((group, plural, name))
        if one is None:
            raise RefusedError(404, f'{plural} "{name}" not found', name=name)
        return copy.deepcopy(one) if verb == "get" else self._changed(handler, one, body)

    def _changed(self, handler: BaseHTTPRequestHandler, one: dict[str, Any], body: bytes) -> Any:
        query = parse_qs(urlsplit(handler.path).query)
        if query.get("dryRun", ["All"]) != ["All"]:
            raise RefusedError(400, "invalid dryRun")
        if handler.command == "POST":
            return self._evicted(one, json.loads(body), dry="dryRun" in query)
        if handler.headers["Content-Type"] != "application/merge-patch+json":
            raise RefusedError(415, "the body of the request was in an unknown format")
        return self._patched(one, _parsed(handler.path)[3], json.loads(body), dry="dryRun" in query)

    def _review(self, body: Any) -> Any:
        asked = body["spec"]["resourceAttributes"]
        assert set(asked) == {"namespace", "verb", "group", "resource", "subresource", "name"}
        resource = f"{asked['resource']}/{asked['subresource']}" if asked["subresource"] else asked["resource"]
        return {**body, "status": {"allowed": (asked["verb"], resource, asked["group"]) in self.rights}}

    def _listed(self, group: str, plural: str, query: Mapping[str, list[str]]) -> Any:
        found = [one for (g, p, _), one in self.objects.items() if (g, p) == (group, plural)]
        for part in filter(None, query.get("labelSelector", [""])[0].split(",")):
            key, sign, value = part.partition("=")
            if not sign:
                raise RefusedError(400, "unable to parse requirement")
            found = [one for one in found if one["metadata"].get("labels", {}).get(key) == value]
        for part in filter(None, query.get("fieldSelector", [""])[0].split(",")):
            key, sign, value = part.partition("!=") if "!=" in part else part.partition("=")
            if key != "status.phase":
                raise RefusedError(400, f'field label "{key}" not supported for {plural}')
            found = [one for one in found if (one["status"]["phase"] == value) == (sign == "=")]
        found.sort(key=lambda one: one["metadata"]["name"])
        most = int(query.get("limit", ["500"])[0])
        more = {"continue": "abc"} if len(found) > most else {}
        return {"kind": "List", "metadata": {"resourceVersion": "1", **more}, "items": copy.deepcopy(found[:most])}

    def _event(self, body: Any) -> Any:
        if body["involvedObject"]["namespace"] != body["metadata"]["namespace"]:
            raise RefusedError(422, "involvedObject.namespace: Invalid value")
        name = body["metadata"]["name"]
        if ("", "events", name) in self.objects:
            raise RefusedError(409, f'events "{name}" already exists', name=name, reason="AlreadyExists")
        self.objects["", "events", name] = body
        return body

    def _evicted(self, pod: dict[str, Any], body: Any, dry: bool) -> Any:
        assert body["metadata"] == {"name": pod["metadata"]["name"], "namespace": NAMESPACE}
        if (body["apiVersion"], body["kind"]) != ("policy/v1", "Eviction"):
            raise RefusedError(400, "no kind of that name is registered")
        if self.budgets.get(pod["metadata"]["name"]) == "two":
            text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            raise RefusedError(500, text)
        if budget := self.budgets.get(pod["metadata"]["name"]):
            text = f"The disruption budget {budget} needs 1 healthy pods and has 1 currently"
            if self.reckoning:
                text = f"The disruption budget {budget} is still being processed by the server."
            raise RefusedError(429, VIOLATES, causes=(text,))
        if not self.allowed:
            raise RefusedError(
                429, VIOLATES, causes=("The disruption budget web needs 1 healthy pods and has 1 currently",)
            )
        self.allowed -= not dry  # counted before the pod itself is looked at
        for name, value in body["deleteOptions"]["preconditions"].items():
            if pod["metadata"][name] != value:
                text = f'Operation cannot be fulfilled on Pod "{pod["metadata"]["name"]}": the {name} in the precondition ({value}) does not match'
                raise RefusedError(409, text, name=pod["metadata"]["name"])
        if not dry:
            self.changes.append(f"evict {pod['metadata']['name']}")
            self._end(pod)
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}

    def _patched(self, one: dict[str, Any], part: str, patch: Any, dry: bool) -> Any:
        meta = patch.pop("metadata")
        if (
            meta.pop("resourceVersion") != one["metadata"]["resourceVersion"]
            or meta.pop("uid") != one["metadata"]["uid"]
        ):
            raise RefusedError(409, "the object has been modified; please apply your changes to the latest version")
        made = copy.deepcopy(one) if dry else one
        spec = patch.pop("spec", {})
        assert not patch
        assert set(spec) <= ({"replicas"} if part == "scale" else {"suspend"})
        if not self.unknown_fields:
            made.setdefault("spec", {}).update(spec)
            made["metadata"].setdefault("annotations", {}).update(meta.pop("annotations", {}))
            made["metadata"]["generation"] += bool(spec)
        if not dry:
            self.touch(made)
            self.changes.append(f"patch {one['kind']} {one['metadata']['name']}")
            for pod in [each for (_, plural, _), each in self.objects.items() if plural == "pods"]:
                if made["metadata"]["uid"] in self._above(pod):
                    self._end(pod)
        if part != "scale":
            return copy.deepcopy(made)
        replicas = made["spec"]["replicas"]
        return {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": made["metadata"],
            "spec": {"replicas": replicas} if replicas else {},
        }

    def _above(self, one: dict[str, Any]) -> set[str]:
        """The uids of all controllers of an object."""
        owners = {each["uid"] for each in one["metadata"].get("ownerReferences", ()) if each.get("controller")}
        above = [each for each in self.objects.values() if each["metadata"].get("uid") in owners]
        return owners.union(*(self._above(each) for each in above))

    def _end(self, pod: dict[str, Any]) -> None:
        """What the controllers and the kubelet do next."""
        if self.after == "marks":
            pod["metadata"]["deletionTimestamp"] = "2026-11-23T10:00:00Z"
            self.touch(pod)
        elif self.after == "removes":
            self.objects.pop(("", "pods", pod["metadata"]["name"]), None)

    def _write(self, handler: BaseHTTPRequestHandler, code: int, data: Any, pause: int, cut: Any) -> None:
        if cut == "dropped-after":
            raise Dropped
        pages = {
            "html-502": b"<html>a proxy</html>",
            "no-path": b"404 page not found\n",
            "pressure": b"Too many requests, please try again later.\n",
        }
        text = pages[data] if isinstance(data, str) else json.dumps(data).encode()
        handler.send_response(502 if data == "html-502" else code)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(text)))
        if pause:
            handler.send_header("Retry-After", str(pause))
        handler.end_headers()
        handler.wfile.write(text[: len(text) // 2] if cut == "cut" else text)
        if cut:
            raise Dropped


def _status(refused: RefusedError) -> Any:
    causes = [{"reason": "DisruptionBudget", "message": text} for text in refused.causes]
    details = ({"causes": causes} if causes else {}) | ({"name": refused.name} if refused.name else {})
    return {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": refused.message,
        "reason": refused.reason, "code": refused.code, "details": details,
    }  # fmt: skip


def _group(name: str) -> Any:
    """What a server says of a group of kinds: which version it prefers."""
    version = VERSIONS.get(name, "v1")
    served = {"groupVersion": f"{name}/{version}", "version": version}
    return {"kind": "APIGroup", "apiVersion": "v1", "name": name, "versions": [served], "preferredVersion": served}


def _parsed(path: str) -> tuple[str, str, str, str, str]:
    """Group, plural, name, subresource and namespace.

    Raises RefusedError for another path; NoPathError where kinds that somebody installed would be.
    """
    parts = [unquote(one) for one in urlsplit(path).path.strip("/").split("/")]
    group = parts[1] if parts[0] == "apis" else ""
    rest = parts[2:] if group == "" else parts[3:]
    version = parts[1] if group == "" else parts[2]
    if version != VERSIONS.get(group, "v1"):
        if "." in group:
            raise NoPathError
        raise RefusedError(404, "the server could not find the requested resource")
    if rest == ["selfsubjectaccessreviews"]:
        return group, rest[0], "", "", ""
    if rest[0] != "namespaces" or not 3 <= len(rest) <= 5:
        raise RefusedError(404, "the server could not find the requested resource")
    padded = [*rest[1:], "", ""]
    return group, padded[1], padded[2], padded[3], padded[0]
