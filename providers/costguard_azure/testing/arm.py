"""The Resource Manager, as far as costguard asks it. Source: the REST reference of the API versions named here."""

import json
import re
import threading
import time
import uuid
from fnmatch import fnmatchcase
from typing import NamedTuple

from costguard.testing.web import CUT, Answer, Request
from costguard_azure.testing import documents
from costguard_azure.testing.faults import Fault, Faults
from costguard_azure.testing.limits import Bucket
from costguard_azure.testing.world import World

COMPUTE = frozenset(("2024-07-01", "2024-11-01", "2025-04-01", "2025-11-01", "2026-04-01"))
_FLAGS = frozenset(("true", "false"))


class Route(NamedTuple):
    """One operation: the end of its path after the resource, its method, versions, parameters and right."""

    operation: str
    method: str
    path: str
    versions: frozenset[str]
    right: str
    parameters: frozenset[str] = frozenset()
    body: bool = False


def routes(world: World) -> tuple[Route, ...]:
    """Everything that this machine's cloud has. Uniform members have no path of their own under virtualMachines."""
    kind = "virtualMachineScaleSets/virtualMachines" if world.uniform else "virtualMachines"
    right = f"Microsoft.Compute/{kind}"
    hibernate = frozenset(("forceDeallocate",) if world.uniform else ("hibernate", "forceDeallocate"))
    authorization = f"{world.id}/providers/Microsoft.Authorization"
    place = f"/subscriptions/{world.subscription}/providers/Microsoft.Compute/locations/{world.location}/operations"
    found = [
        Route("get", "GET", world.id, COMPUTE, f"{right}/read", frozenset(("$expand",))),
        Route("instance_view", "GET", f"{world.id}/instanceView", COMPUTE, f"{right}/instanceView/read"),
        Route("deallocate", "POST", f"{world.id}/deallocate", COMPUTE, f"{right}/deallocate/action", hibernate),
        Route("delete", "DELETE", world.id, COMPUTE, f"{right}/delete", frozenset(("forceDeletion",))),
        Route(
            *("permissions", "GET", f"{authorization}/permissions", frozenset(("2022-04-01", "2018-07-01"))),
            "Microsoft.Authorization/permissions/read",
        ),
        Route(
            *("locks", "GET", f"{authorization}/locks", frozenset(("2016-09-01", "2020-05-01"))),
            "Microsoft.Authorization/locks/read",
            frozenset(("$filter",)),
        ),
        Route(
            *("tags", "PATCH", f"{world.id}/providers/Microsoft.Resources/tags/default", frozenset(("2021-04-01",))),
            "Microsoft.Resources/tags/write",
            body=True,
        ),
        *(
            Route("operation", "GET", f"{place}/{name}", COMPUTE, "Microsoft.Compute/locations/operations/read")
            for name in world.operations
        ),
    ]
    if world.scale_set:
        see = "Microsoft.Compute/virtualMachineScaleSets/read"
        found.append(Route("scale_set", "GET", world.scale_set_id, COMPUTE, see, frozenset(("$expand",))))
    scaling = f"{world.group_id}/providers/Microsoft.Insights/autoscalesettings"
    versions = frozenset(("2015-04-01", "2022-10-01"))
    found.append(Route("autoscale", "GET", scaling, versions, "Microsoft.Insights/autoscaleSettings/read"))
    return tuple(found)


class Arm:
    """Answers as the service does. ``url`` is its own address, for the headers of long operations."""

    def __init__(self, world: World, faults: Faults) -> None:
        self._world, self._faults = world, faults
        self._lock = threading.Lock()
        self._looks, self._deletes = Bucket(36, 12 / 60), Bucket(12, 4 / 60)
        self.url = ""

    def respond(self, request: Request) -> tuple[str, Answer]:
        """The operation and the answer, with the headers that every answer has."""
        with self._lock:
            self._world.settle()
            operation, answer = self._respond(request)
        ids = {"x-ms-request-id": str(uuid.uuid4()), "x-ms-correlation-request-id": str(uuid.uuid4())}
        return operation, answer._replace(headers={**ids, **answer.headers})

    def _respond(self, request: Request) -> tuple[str, Answer]:
        denied = self._unauthenticated(request)
        if denied:
            return "", denied
        place = [route for route in routes(self._world) if route.path.lower() == request.path.lower()]
        route = next((route for route in place if route.method == request.method), None)
        if route is None:
            missing = _error(404, "ResourceNotFound", f"The Resource '{request.path}' was not found.")
            return "", _error(405, "HttpMethodNotSupported", "not this method") if place else missing
        wrong = _malformed(route, request)
        if wrong:
            return route.operation, wrong
        fault = self._faults.take(route.operation)
        if fault is None:
            return route.operation, self._act(route, request)
        return route.operation, self._fault(fault, route, request)

    def _unauthenticated(self, request: Request) -> Answer | None:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        challenge = {"WWW-Authenticate": 'Bearer authorization_uri="https://login.example", error="invalid_token"'}
        if kind != "Bearer" or token not in self._world.tokens:
            return _error(401, "InvalidAuthenticationToken", "The access token is invalid.")._replace(headers=challenge)
        if self._world.tokens[token] < time.time():
            words = "The access token expiry UTC time is earlier than current UTC time."
            return _error(401, "ExpiredAuthenticationToken", words)._replace(headers=challenge)
        return None

    def _fault(self, fault: Fault, route: Route, request: Request) -> Answer:
        match fault.kind:
            case "throttle":
                headers = {"Retry-After": f"{fault.seconds:g}"} if fault.seconds else {}
                return _error(429, "TooManyRequests", "The request is being throttled.")._replace(headers=headers)
            case "deny":
                return self._denied(route.right)
            case "error":
                return _error(fault.status, fault.code, fault.message)
            case "cut_before":
                return CUT
            case "cut_after":
                return self._act(route, request)._replace(cut=True)
            case "nothing":
                return self._accepted(self._world.operation(0))
            case "fails_but_acts":
                self._act(route, request)
                return _error(fault.status, fault.code, fault.message)
            case "slow":
                return self._act(route, request)._replace(delay=fault.seconds)
            case "drip":
                return self._act(route, request)._replace(drips=1.0)
            case "garbage":
                return Answer(200, b"<html>a proxy's page</html>")

    def _act(self, route: Route, request: Request) -> Answer:
        """Rights, limits, locks, and then the operation itself."""
        world = self._world
        if not self._granted(route.right):
            return self._denied(route.right)
        if route.operation in {"get", "instance_view", "deallocate", "delete"}:
            changes = route.operation in {"deallocate", "delete"}
            if not (self._deletes if changes else self._looks).take():
                late = {"Retry-After": "15" if changes else "5"}
                return _error(429, "TooManyRequests", "The limit of the machine is used up.")._replace(headers=late)
            if not world.exists:
                words = f"The Resource 'Microsoft.Compute/virtualMachines/{world.name}' was not found."
                return _error(404, "ResourceNotFound", words)
        match route.operation:
            case "get":
                return Answer(200, documents.machine(world, view=request.query.get("$expand") == "instanceView"))
            case "instance_view":
                return Answer(200, documents.instance_view(world))
            case "deallocate" | "delete" | "tags":
                return self._merge(request) if route.operation == "tags" else self._end(route.operation, request)
            case "permissions":
                return Answer(200, {"value": [{"actions": world.rights, "notActions": world.not_rights}]})
            case "locks":
                return Answer(200, {"value": documents.locks(world)})
            case "scale_set":
                return Answer(200, documents.scale_set(world))
            case "autoscale":
                return Answer(200, {"value": documents.autoscale(world)})
        ended = time.monotonic() >= world.operations[request.path.rpartition("/")[2]]
        return Answer(200 if ended else 202, {"status": "Succeeded" if ended else "InProgress"})

    def _merge(self, request: Request) -> Answer:
        """Add to the tags; names are the same in any case. The code for too many of them is a guess."""
        world, asked = self._world, json.loads(request.body)
        if held := [lock for lock in world.locks if lock.level == "ReadOnly" and lock.scope != "part"]:
            words = f"The scope '{world.id}' cannot perform write operation because following scope(s) are locked: "
            return _error(409, "ScopeLocked", f"{words}'{documents.scope(world, held[0])}'.")
        given = asked.get("properties", {}).get("tags")
        if (
            asked.get("operation") != "Merge"
            or not isinstance(given, dict)
            or set(asked) != {"operation", "properties"}
        ):
            return _error(400, "InvalidRequestContent", "The tags operation makes no sense.")
        if any(len(name) > 512 or len(value) > 256 or set(name) & set("<>%&\\?/") for name, value in given.items()):
            return _error(400, "InvalidTagNameOrValue", "A tag has too many characters, or one that is not allowed.")
        merged = {
            name: value for name, value in world.tags.items() if name.lower() not in map(str.lower, given)
        } | given
        if len(merged) > 50:
            return _error(400, "TagCountExceeded", "A resource has at most 50 tags.")
        world.tags = merged
        return Answer(200, {"properties": {"tags": merged}, "type": "Microsoft.Resources/tags", "name": "default"})

    def _end(self, operation: str, request: Request) -> Answer:
        """Deallocate or delete, unless Azure would not."""
        world = self._world
        hibernate = request.query.get("hibernate") == "true"
        held = [lock for lock in world.locks if lock.level == "ReadOnly" or operation == "delete"]
        if held and (operation == "delete" or held[0].scope != "part"):
            words = (
                f"The scope '{world.id}' cannot perform {'delete' if operation == 'delete' else 'write'} operation because "
                f"following scope(s) are locked: '{documents.scope(world, held[0])}'. Please remove the lock and try again."
            )
            return _error(409, "ScopeLocked", words)
        if operation == "delete":
            return self._accepted(world.begin("deleted"))
        if world.ephemeral_os:
            words = "Deallocate is not supported for a VM with an ephemeral OS disk."
            return _error(409, "OperationNotAllowed", words)
        if hibernate and (not world.hibernation or world.priority == "Spot" or world.uniform):
            words = f"The VM '{world.name}' cannot be hibernated as hibernation is not enabled."
            return _error(409, "OperationNotAllowed", words)
        return self._accepted(world.begin("deallocated", hibernate=hibernate))

    def _accepted(self, operation: str) -> Answer:
        """202 in one of the two styles of long operations."""
        world = self._world
        place = f"/subscriptions/{world.subscription}/providers/Microsoft.Compute/locations/{world.location}/operations"
        url = f"{self.url}{place}/{operation}?api-version={max(COMPUTE)}"
        headers = {"Location": url, "Retry-After": "1"}
        if world.style == "async":
            headers["Azure-AsyncOperation"] = url
        return Answer(202, b"", headers)

    def _granted(self, right: str) -> bool:
        def matches(patterns: list[str]) -> bool:
            return any(fnmatchcase(right.lower(), pattern.lower()) for pattern in patterns)

        return matches(self._world.rights) and not matches(self._world.not_rights)

    def _denied(self, right: str) -> Answer:
        words = (
            f"The client '{self._world.client_id}' with object id '{self._world.client_id}' does not have authorization to "
            f"perform action '{right}' over scope '{self._world.id}' or the scope is invalid. "
            "If access was recently granted, please refresh your credentials."
        )
        return _error(403, "AuthorizationFailed", words)


def _malformed(route: Route, request: Request) -> Answer | None:
    """A request that the API's description does not have."""
    version = request.query.get("api-version")
    if version is None:
        return _error(400, "MissingApiVersionParameter", "The api-version query parameter (?api-version=) is required.")
    if version not in route.versions:
        words = (
            f"The api-version '{version}' is invalid. The supported versions are '{', '.join(sorted(route.versions))}'."
        )
        return _error(400, "InvalidApiVersionParameter", words)
    unknown = set(request.query) - route.parameters - {"api-version"}
    flags = {name: value for name, value in request.query.items() if name in {"hibernate", "forceDeletion"}}
    if unknown or not set(flags.values()) <= _FLAGS or request.query.get("$expand", "instanceView") != "instanceView":
        return _error(400, "InvalidParameter", f"The query {dict(request.query)} is not valid here.")
    if request.body and not route.body:
        return _error(400, "InvalidRequestContent", "A body is not expected here.")
    client = request.headers.get("x-ms-client-request-id", "")
    if not re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", client):
        return _error(400, "InvalidClientRequestId", f"'{client}' is no GUID.")
    return None


def _error(status: int, code: str, message: str) -> Answer:
    return Answer(status, {"error": {"code": code, "message": message}})
