"""Key vaults as a machine asks them: a token for their audience, one path, one version of the API.

Sources: REST reference "Get Secret"; Azure documentation "Key Vault REST API error codes".
"""

from costguard.testing.web import CUT, Answer, Request
from costguard_azure.testing.faults import Faults
from costguard_azure.testing.world import World

VERSIONS = frozenset(("7.3", "7.4", "7.5"))
AUDIENCES = {
    "AzurePublicCloud": "https://vault.azure.net",
    "AzureUSGovernmentCloud": "https://vault.usgovcloudapi.net",
    "AzureChinaCloud": "https://vault.azure.cn",
}


class Vault:
    """Answers as the one vault that `World.secrets` has, whatever its name is. Operation ``secret`` of the faults."""

    def __init__(self, world: World, faults: Faults) -> None:
        self._world, self._faults = world, faults

    def respond(self, request: Request) -> tuple[str, Answer]:
        """The operation and the answer."""
        return "secret", self._answer(request)

    def _answer(self, request: Request) -> Answer:
        world, fault = self._world, self._faults.take("secret")
        if fault is not None:
            if fault.kind in {"cut_before", "cut_after"}:
                return CUT
            if fault.kind == "garbage":
                return Answer(200, f"<html>{next(iter(world.secrets.values()), '')}</html>".encode())
            if fault.kind == "throttle":
                return _error(429, "Throttled", "Request was not processed because too many requests were received.")
            if fault.kind not in {"slow", "drip"}:
                return _error(fault.status, fault.code, f"while handling {next(iter(world.secrets.values()), '')}")
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if world.audiences.get(token) != AUDIENCES[world.environment]:
            return _error(401, "Unauthorized", "AKV10022: Invalid audience.")
        if request.method != "GET" or request.query.get("api-version") not in VERSIONS or len(request.query) != 1:
            return _error(400, "BadParameter", "The request is malformed.")
        if not world.reads_secrets:
            return _error(403, "Forbidden", "Caller is not authorized to perform action on resource. (ForbiddenByRbac)")
        name = request.path.removeprefix("/secrets/")
        if name not in world.secrets:
            return _error(404, "SecretNotFound", f"A secret with (name/id) {name} was not found in this key vault.")
        answer = Answer(
            200, {"value": world.secrets[name], "id": f"https://v/secrets/{name}/1", "attributes": {"enabled": True}}
        )
        late = fault.seconds if fault is not None and fault.kind == "slow" else 0.0
        return answer._replace(delay=late, drips=1.0 if fault is not None and fault.kind == "drip" else 0.0)


def _error(status: int, code: str, message: str) -> Answer:
    return Answer(
        status,
        {"error": {"code": code, "message": message}},
        {"x-ms-request-id": "00000000-0000-4000-8000-000000000009"},
    )
