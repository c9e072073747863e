"""The metadata service. Source: Azure documentation "Azure Instance Metadata Service", and the pages it names."""

import time
from typing import Any

from costguard.testing.web import CUT, Answer, Request
from costguard_azure.testing import vault
from costguard_azure.testing.faults import Fault, Faults
from costguard_azure.testing.limits import Bucket
from costguard_azure.testing.world import World

VERSIONS = frozenset(("2021-11-15", "2021-12-13", "2023-07-01", "2023-11-15", "2024-03-15", "2025-04-07"))
"""The instance document with everything that costguard reads."""
TOKEN_VERSIONS = frozenset(("2018-02-01", "2019-08-01"))
EVENT_VERSIONS = frozenset(("2019-08-01", "2020-07-01"))
AUDIENCES = frozenset(
    (
        "https://management.azure.com",
        "https://management.core.windows.net",
        "https://management.core.usgovcloudapi.net",
        "https://management.usgovcloudapi.net",
        "https://management.chinacloudapi.cn",
        *vault.AUDIENCES.values(),
    )
)


class Imds:
    """Answers as the service does; one bucket for everything but tokens."""

    def __init__(self, world: World, faults: Faults, faster: float = 1.0) -> None:
        self._world, self._faults = world, faults
        self._bucket, self._token_bucket = Bucket(5 * faster, 5 * faster), Bucket(20 * faster, 20 * faster)
        self._events_from = 0.0

    def respond(self, request: Request) -> tuple[str, Answer]:
        """The operation and the answer."""
        path = request.path.rstrip("/").lower()
        known = {
            "/metadata/instance": ("instance", VERSIONS, {"format"}),
            "/metadata/instance/compute": ("instance", VERSIONS, {"format"}),
            "/metadata/identity/oauth2/token": (
                "token",
                TOKEN_VERSIONS,
                {"resource", "client_id", "object_id", "msi_res_id"},
            ),
            "/metadata/scheduledevents": ("events", EVENT_VERSIONS, set()),
        }
        operation, versions, extra = known.get(path, ("", frozenset(), set()))
        return operation, self._refused(request, operation, versions, extra) or self._answer(operation, path, request)

    def _refused(self, request: Request, operation: str, versions: frozenset[str], extra: set[str]) -> Answer | None:
        """What the service says no to, in its own order."""
        if request.headers.get("metadata", "").lower() != "true":
            return Answer(400, {"error": "Bad request. Required metadata header not specified"})
        if "x-forwarded-for" in request.headers:
            return Answer(400, {"error": "Bad request. X-Forwarded-For is not allowed"})
        if not operation:
            return Answer(404, {"error": "Not found"})
        if request.method != "GET":
            return Answer(405, {"error": "Method not allowed"})
        if request.query.get("api-version") not in versions:
            words = "Bad request. api-version is invalid or was not specified in the request."
            return Answer(400, {"error": words, "newest-versions": sorted(versions)[-3:]})
        unknown = set(request.query) - extra - {"api-version"}
        if unknown:
            return Answer(400, {"error": f"Bad request. Unknown parameter {min(unknown)}"})
        if not (self._token_bucket if operation == "token" else self._bucket).take():
            return Answer(429, {"error": "Too many requests"})
        return None

    def _answer(self, operation: str, path: str, request: Request) -> Answer:
        fault = self._faults.take(operation)
        answer = self._meet(fault, operation, path, request)
        return answer._replace(drips=1.0 if fault is not None and fault.kind == "drip" else 0.0)

    def _meet(self, fault: Fault | None, operation: str, path: str, request: Request) -> Answer:
        delay = 0.0
        if fault is not None:
            if fault.kind in {"cut_before", "cut_after"}:
                return CUT
            if fault.kind in {"slow", "drip"}:
                delay = fault.seconds
            elif fault.kind == "garbage":
                return Answer(200, b"<html>welcome to the hotel</html>")
            else:
                status = 429 if fault.kind == "throttle" else 403 if fault.kind == "deny" else fault.status
                headers = {"Retry-After": f"{fault.seconds:g}"} if fault.kind == "throttle" and fault.seconds else {}
                return Answer(status, {"error": fault.code}, headers)
        if operation == "token":
            return self._token(request)._replace(delay=delay)
        if operation == "events":
            delay = max(delay, self._switched_on())
            return Answer(200, {"DocumentIncarnation": 1, "Events": self._world.events}, delay=delay)
        found: Any = self._compute() if path.endswith("/compute") else {"compute": self._compute(), "network": {}}
        return Answer(200, found, delay=delay)

    def _switched_on(self) -> float:
        """The first call ever switches the events on, which takes a while; seconds until they answer."""
        now = time.monotonic()
        if not self._world.events_enabled:
            self._world.events_enabled, self._events_from = True, now + self._world.events_slow
        return self._events_from - now

    def _token(self, request: Request) -> Answer:
        world = self._world
        resource = request.query.get("resource", "")
        if resource.rstrip("/") not in AUDIENCES:
            return _bad("invalid_resource", f"AADSTS500011: the resource principal named {resource} was not found")
        wanted = request.query.get("client_id", world.client_id)
        if not world.managed_identity or wanted != world.client_id:
            return _bad("invalid_request", "Identity not found")
        now = int(time.time())
        body = {
            "access_token": world.token(resource.rstrip("/")),
            "client_id": world.client_id,
            "expires_in": f"{world.token_seconds:.0f}",
            "expires_on": f"{now + world.token_seconds:.0f}",
            "ext_expires_in": f"{world.token_seconds:.0f}",
            "not_before": str(now - 300),
            "resource": resource,
            "token_type": "Bearer",
        }
        return Answer(200, body)

    def _compute(self) -> dict[str, Any]:
        """The part ``compute``: every scalar is text, and what is not there is empty."""
        world = self._world
        flexible = world.scale_set is not None and not world.uniform
        return {
            "additionalCapabilities": {"hibernationEnabled": str(world.hibernation).lower()},
            "azEnvironment": world.environment,
            "evictionPolicy": world.eviction,
            "host": {"id": world.host},
            "hostGroup": {"id": ""},
            "isHostCompatibilityLayerVm": "false",
            "location": world.location,
            "name": f"{world.scale_set.name}_0" if world.scale_set and world.uniform else world.name,
            "osType": "Linux",
            "placementGroupId": "",
            "priority": world.priority,
            "resourceGroupName": world.group,
            "resourceId": world.id,
            "storageProfile": {
                "osDisk": {"diffDiskSettings": {"option": "Local" if world.ephemeral_os else ""}},
                "resourceDisk": {"size": str(world.temp_disk_kb)},
            },
            "subscriptionId": world.subscription,
            "tags": ";".join(f"{name}:{value}" for name, value in world.tags.items()),
            "tagsList": [{"name": name, "value": value} for name, value in world.tags.items()],
            "virtualMachineScaleSet": {"id": world.scale_set_id if flexible else ""},
            "vmId": world.vm_id,
            "vmScaleSetName": world.scale_set.name if world.scale_set else "",
            "vmSize": world.size,
            "zone": world.zone,
        }


def _bad(error: str, description: str) -> Answer:
    return Answer(400, {"error": error, "error_description": description})
