"""The Compute Engine API for one machine."""

import json
import re
import ssl
import time
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from costguard.testing.web import CUT, Answer, Request, Server
from costguard_gcp.testing import resources
from costguard_gcp.testing.discovery import NotInDiscoveryError, Route, compute_v1
from costguard_gcp.testing.machine import Machine
from costguard_gcp.testing.metadata import TOKEN

Kind = Literal[
    "deny",
    "throttle_403",
    "throttle_429",
    "error_500",
    "error_503",
    "unauthorized",
    "cut_before",
    "cut_after",
    "nothing",
    "fail_at_once",
    "fail_later",
    "fail_but_act",
    "slow",
    "drip",
    "relabelled",
]


class Fault(NamedTuple):
    """What happens to the next ``times`` requests whose method id ends with ``method``.

    ``nothing`` accepts and does nothing; ``fail_at_once`` answers with an operation that holds an error,
    ``fail_later`` with one that gets it afterwards; ``fail_but_act`` answers 500 and acts; ``cut_before`` and
    ``cut_after`` close the connection before and after acting; ``slow`` waits ``seconds``; ``drip`` acts and answers with
    one byte a second; ``relabelled``: somebody else
    changes a label just before. ``code`` and
    ``message`` are those of an operation's error.
    """

    kind: Kind
    method: str = ""
    times: int = 1
    code: str = "UNSUPPORTED_OPERATION"
    message: str = "The operation is not supported for this machine."
    seconds: float = 0.0


class RefusedError(Exception):
    """The API says no, with a status, its reason and its words."""

    def __init__(self, status: int, reason: str, words: str) -> None:
        super().__init__(words)
        self.status, self.reason, self.words = status, reason, words


_EFFECTS = {"stop": "stop", "delete": "delete", "suspend": "suspend"}
_GROUP_EFFECTS = {"stopInstances": "stop", "deleteInstances": "delete", "suspendInstances": "suspend"}
_RIGHTS = {
    "zoneOperations.get": "compute.zoneOperations.get",
    "instanceGroupManagers.get": "compute.instanceGroupManagers.get",
    "regionInstanceGroupManagers.get": "compute.instanceGroupManagers.get",
    "autoscalers.get": "compute.autoscalers.get",
    "regionAutoscalers.get": "compute.autoscalers.get",
}
_KEY, _VALUE = re.compile(r"[a-z][a-z0-9_-]{0,62}"), re.compile(r"[a-z0-9_-]{0,63}")
_MOST_LABELS = 64
_WRITE = {"https://www.googleapis.com/auth/cloud-platform", "https://www.googleapis.com/auth/compute"}
_READ = _WRITE | {"https://www.googleapis.com/auth/compute.readonly"}


class ComputeApi(Server):
    """``granted`` are the caller's rights on the machine, ``on_project`` those on the whole project.

    ``requests`` logs every request, ``effects`` what was really done, ``troubles`` what the stand-in itself got wrong.
    """

    def __init__(
        self,
        machine: Machine,
        *,
        granted: Iterable[str] = ("get", "stop", "delete", "suspend"),
        on_project: Iterable[str] = (),
        context: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(self._answer, tls=context, host="localhost" if context else "127.0.0.1")
        self.machine = machine
        self.granted = {f"compute.instances.{word}" for word in granted}
        self.on_project = set(on_project)
        self.faults: list[Fault] = []
        self.effects: list[str] = []
        self.troubles: list[str] = []
        self.token = TOKEN
        self.denial = ("forbidden", "Required permission is missing for this resource")
        self.extra: Mapping[str, object] = {}
        self._operations: dict[str, dict[str, Any]] = {}
        self._by_request: dict[str, str] = {}
        self._discovery = compute_v1()

    def calls(self, method: str) -> list[Request]:
        """The requests whose path ends with ``method``, or whose HTTP method it is."""
        return [one for one in self.requests if one.path.endswith(method) or one.method == method]

    def _answer(self, request: Request) -> Answer:
        if (request.method, request.path) == ("POST", "/token"):  # Google's sign-in for a service account's key
            token = {"access_token": self.token, "expires_in": 3599, "token_type": "Bearer"}
            return Answer(200, json.dumps(token).encode(), {"Content-Type": "application/json"})
        route = self._discovery.route(request.method, request.path)
        if route is None:
            return _error(404, "notFound", f"there is no {request.method} {request.path} in the API")
        fault = self._fault(route)
        try:
            if fault:
                time.sleep(fault.seconds)
            early = _early(fault, self.denial)
            if early:
                return early
            said = self._handle(route, request, fault)
            self._discovery.check_answer(route, said)
        except RefusedError as error:
            return _error(error.status, error.reason, error.words)
        except NotInDiscoveryError as error:
            self.troubles.append(str(error))
            return _error(500, "standInError", str(error))
        if fault and fault.kind == "cut_after":
            return CUT
        if fault and fault.kind == "fail_but_act":
            return _error(500, "backendError", "Internal error.")
        kind = {"Content-Type": "application/json; charset=UTF-8"}
        return Answer(
            200, json.dumps(said).encode(), kind, drips=1.0 if fault is not None and fault.kind == "drip" else 0.0
        )

    def _fault(self, route: Route) -> Fault | None:
        for index, fault in enumerate(self.faults):
            if route.id.endswith(fault.method):
                left = fault._replace(times=fault.times - 1)
                self.faults[index : index + 1] = [left] if left.times else []
                return fault
        return None

    def _handle(self, route: Route, request: Request, fault: Fault | None) -> dict[str, Any]:
        method = route.id.removeprefix("compute.")
        word = method.rpartition(".")[2]
        trouble = self._discovery.request_trouble(route, request.query, request.body)
        if trouble:
            raise RefusedError(400, "invalid", trouble)
        self._admit(request, word in _EFFECTS or word in _GROUP_EFFECTS or word == "setLabels")
        if method.startswith("instances."):
            return self._instance(route, word, request, fault)
        right = _RIGHTS.get(method, "compute.instanceGroupManagers.update")
        if right not in self.on_project:
            raise _denied(right, route.path)
        if method == "zoneOperations.get":
            return self._operation(route.path["operation"])
        if (
            self.machine.group is None
            or route.path.get("instanceGroupManager", self.machine.group.name) != self.machine.group.name
        ):
            raise RefusedError(404, "notFound", "The resource was not found")
        if "utoscalers." in method:
            return resources.autoscaler(self.machine)
        if word == "get":
            return resources.manager(self.machine)
        return self._in_group(_GROUP_EFFECTS[word], request, fault)

    def _admit(self, request: Request, writes: bool) -> None:
        """Token first, then the scopes that came with it."""
        if request.headers.get("authorization") != f"Bearer {self.token}":
            raise RefusedError(401, "authError", "Invalid Credentials")
        if not (_WRITE if writes else _READ) & set(self.machine.scopes):
            raise RefusedError(403, "insufficientPermissions", "Request had insufficient authentication scopes.")

    def _instance(self, route: Route, word: str, request: Request, fault: Fault | None) -> dict[str, Any]:
        machine = self.machine
        named = route.path.get("instance") or route.path["resource"]
        here = (machine.project, machine.zone) == (route.path["project"], route.path["zone"])
        if word == "testIamPermissions":
            asked = json.loads(request.body)["permissions"]
            held = [one for one in asked if one in self.granted]
            return {"permissions": held} if held else {}
        if f"compute.instances.{word}" not in self.granted:
            raise _denied(f"compute.instances.{word}", route.path)
        if machine.deleted or not here or named not in {machine.name, str(machine.number)}:
            words = f"The resource '{route.path['project']}/{route.path['zone']}/{named}' was not found"
            raise RefusedError(404, "notFound", words)
        if word == "get":
            machine.look()
            if machine.deleted:
                raise RefusedError(404, "notFound", f"The resource '{machine.name}' was not found")
            return {**resources.instance(machine), **self.extra}
        if word == "setLabels":
            return self._label(request, fault)
        return self._do(_EFFECTS[word], request, fault)

    def _label(self, request: Request, fault: Fault | None) -> dict[str, Any]:
        """All labels are replaced, if nobody changed them since the fingerprint was read."""
        machine, kind = self.machine, fault.kind if fault else None
        if kind == "relabelled":
            machine.labels["somebody"] = f"else-{len(machine.labels)}"
        asked = json.loads(request.body)
        if asked.get("labelFingerprint") != machine.fingerprint:
            words = "Labels fingerprint either invalid or resource labels have changed"
            raise RefusedError(412, "conditionNotMet", words)
        wrong = [
            name for name, value in asked["labels"].items() if not (_KEY.fullmatch(name) and _VALUE.fullmatch(value))
        ]
        if wrong or len(asked["labels"]) > _MOST_LABELS:
            raise RefusedError(400, "invalid", f"Invalid value for field 'labels': {wrong or 'too many of them'}")
        operation = resources.operation(machine, "setLabels")
        if kind == "fail_at_once" and fault:
            return _fail(operation, fault)
        if kind != "nothing":
            machine.labels = dict(asked["labels"])
        return operation

    def _in_group(self, effect: str, request: Request, fault: Fault | None) -> dict[str, Any]:
        machine = self.machine
        asked = json.loads(request.body).get("instances", [])
        if asked != [f"zones/{machine.zone}/instances/{machine.name}"]:
            raise RefusedError(400, "invalid", f"Invalid value for field 'instances': {asked}")
        before = len(self.effects)
        said = self._do(effect, request, fault, through="group ")
        if machine.group and len(self.effects) > before:
            machine.group.size -= 1
        return said

    def _do(self, effect: str, request: Request, fault: Fault | None, through: str = "") -> dict[str, Any]:
        """Carry it out once for a ``requestId``, as the real API does."""
        known = self._by_request.get(request.query.get("requestId", ""))
        if known:
            return self._operation(known)
        if not through:
            self._refuse(effect, request)
        operation = resources.operation(self.machine, effect)
        kind = fault.kind if fault else None
        if kind == "fail_at_once" or (effect == "suspend" and self.machine.gpus):
            _fail(
                operation, fault or Fault("fail_at_once", message="Suspend is not supported for instances with GPUs.")
            )
        elif kind == "fail_later" and fault:
            self._operations[operation["name"]] = _fail({**operation}, fault)
        elif kind != "nothing":
            self.effects.append(through + effect)
            self.machine.begin(effect)
        self._operations.setdefault(operation["name"], {**operation, "status": "DONE", "progress": 100})
        if request.query.get("requestId"):
            self._by_request[str(uuid.UUID(request.query["requestId"]))] = operation["name"]
        return operation

    def _refuse(self, effect: str, request: Request) -> None:
        """The refusals that depend on the machine. The words are the real API's."""
        machine = self.machine
        if effect == "delete" and machine.protected:
            words = "Invalid resource usage: 'Resource cannot be deleted if it's protected against deletion.'."
            raise RefusedError(400, "invalidResourceUsage", words)
        if effect == "suspend" and machine.status != "RUNNING":
            raise RefusedError(
                400, "unsupportedOperation", "You cannot suspend an instance that is stopped or terminated."
            )
        if effect != "delete" and machine.local_ssds and "discardLocalSsd" not in request.query:
            words = (
                "VM has a Local SSD attached but an undefined value for `discard-local-ssd`. If using gcloud, please add "
                "`--discard-local-ssd=false` or `--discard-local-ssd=true` to your command."
            )
            raise RefusedError(400, "badRequest", words)

    def _operation(self, name: str) -> dict[str, Any]:
        if name not in self._operations:
            raise RefusedError(404, "notFound", f"The resource '{name}' was not found")
        return self._operations[name]


def _early(fault: Fault | None, denial: tuple[str, str]) -> Answer | None:
    """Faults that keep the request from being looked at."""
    kind = fault.kind if fault else None
    if kind == "cut_before":
        return CUT
    if kind in {"error_500", "error_503"}:
        return _error(int(kind[-3:]), "backendError", "Internal error.")
    if kind == "throttle_403":
        return _error(403, "rateLimitExceeded", "Rate Limit Exceeded")
    if kind == "throttle_429":
        return _error(429, "rateLimitExceeded", "Quota exceeded for quota metric 'Queries'")
    if kind == "unauthorized":
        return _error(401, "authError", "Invalid Credentials")
    if kind == "deny":
        return _error(403, *denial)
    return None


def _fail(operation: dict[str, Any], fault: Fault) -> dict[str, Any]:
    errors = [{"code": fault.code, "message": fault.message}]
    operation.update(status="DONE", progress=100, error={"errors": errors})
    operation.update(httpErrorStatusCode=400, httpErrorMessage="BAD REQUEST")
    return operation


def _denied(right: str, path: Mapping[str, str]) -> RefusedError:
    words = f"Required '{right}' permission for 'projects/{path['project']}'"
    return RefusedError(403, "forbidden", words)


def _error(status: int, reason: str, words: str) -> Answer:
    inner = {"message": words, "domain": "global", "reason": reason}
    body = {"error": {"code": status, "message": words, "errors": [inner]}}
    return Answer(status, json.dumps(body).encode(), {"Content-Type": "application/json; charset=UTF-8"})
