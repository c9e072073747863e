"""Google Secret Manager for one machine: a token of its metadata server, one path, no parameter.

Sources: Secret Manager documentation "Access a secret version"; AIP-193 (the form of an error).
"""

import base64
import time
from typing import NamedTuple

from costguard.testing.web import Answer, Request, Server
from costguard_gcp.testing.machine import Machine
from costguard_gcp.testing.metadata import TOKEN

SCOPE = "https://www.googleapis.com/auth/cloud-platform"


class Refusal(NamedTuple):
    """A status, the word for it, a message, and the reason of an ``ErrorInfo``."""

    status: int
    word: str
    message: str
    reason: str = ""


DENIED = Refusal(
    403,
    "PERMISSION_DENIED",
    "Permission 'secretmanager.versions.access' denied (or it may not exist).",
    "IAM_PERMISSION_DENIED",
)
DISABLED = Refusal(
    403, "PERMISSION_DENIED", "Secret Manager API has not been used in project 1 before.", "SERVICE_DISABLED"
)
NO_VERSION = Refusal(400, "FAILED_PRECONDITION", "Secret Version [x] is in DISABLED state.")
BUSY = Refusal(429, "RESOURCE_EXHAUSTED", "Quota exceeded", "RATE_LIMIT_EXCEEDED")


class SecretApi(Server):
    """``secrets``: texts (or bytes) by ``projects/P/secrets/S``. ``said``: what the next requests are answered instead.

    ``silent``: seconds before each answer.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__(self._answer)
        self.machine = machine
        self.secrets: dict[str, str | bytes] = {}
        self.said: list[Refusal | Answer] = []
        self.silent = 0.0

    def _answer(self, request: Request) -> Answer:
        time.sleep(self.silent)
        if self.said:
            found = self.said.pop(0)
            return found if isinstance(found, Answer) else _error(found)
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return _error(Refusal(401, "UNAUTHENTICATED", "Request had invalid authentication credentials."))
        if SCOPE not in self.machine.scopes:
            words = "Request had insufficient authentication scopes."
            return _error(Refusal(403, "PERMISSION_DENIED", words, "ACCESS_TOKEN_SCOPE_INSUFFICIENT"))
        name = request.path.removeprefix("/v1/").removesuffix("/versions/latest:access")
        if request.method != "GET" or request.query or request.path != f"/v1/{name}/versions/latest:access":
            return Answer(404, b"<html>Not Found</html>")
        if name not in self.secrets:
            return _error(Refusal(404, "NOT_FOUND", f"Secret [{name}] not found or has no versions."))
        kept = self.secrets[name]
        data = base64.b64encode(kept.encode() if isinstance(kept, str) else kept).decode()
        return Answer(200, {"name": f"{name}/versions/1", "payload": {"data": data, "dataCrc32c": "1"}})


def _error(refusal: Refusal) -> Answer:
    info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": refusal.reason, "domain": "googleapis.com"}
    error = {"code": refusal.status, "message": refusal.message, "status": refusal.word}
    return Answer(refusal.status, {"error": error | ({"details": [info]} if refusal.reason else {})})
