"""The metadata server. Source: Compute Engine documentation "About VM metadata" and google-auth's client."""

import hashlib
import json
import time
from collections.abc import Mapping
from typing import Any

from costguard.testing.web import Answer, Request, Server
from costguard_gcp.testing.machine import Machine

ROOT = "/computeMetadata/v1/"
TOKEN = "ya29.token-of-the-stand-in"  # noqa: S105 - no secret, nothing accepts it but the stand-in
_KNOWN = {"recursive", "alt", "wait_for_change", "last_etag", "timeout_sec", "scopes"}


class MetadataServer(Server):
    """``unavailable`` answers 503 so many times; ``refuse`` is a status for everything; ``silent`` is in seconds.

    ``drips``: a token comes one byte a second.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__(self._answer)
        self.machine = machine
        self.unavailable = 0
        self.refuse = 0
        self.silent = 0.0
        self.flavor = True
        self.garbage = False
        self.drips = False
        self.token_seconds = 3599.0
        self.tree_has_scopes = True

    def calls_for_token(self) -> list[Request]:
        """The requests for a token."""
        return [one for one in self.requests if one.path.endswith("/token")]

    def _answer(self, request: Request) -> Answer:
        time.sleep(self.silent)
        if self.unavailable > 0:
            self.unavailable -= 1
            return Answer(503, b"Service Unavailable")
        headers = {"Metadata-Flavor": "Google", "Server": "Metadata Server for VM"} if self.flavor else {}
        if request.headers.get("metadata-flavor") != "Google" or "x-forwarded-for" in request.headers:
            return Answer(403, b"Missing Metadata-Flavor:Google header.", {"Metadata-Flavor": "Google"})
        if self.refuse:
            return Answer(self.refuse, b"", headers)
        if not request.path.startswith(ROOT) or set(request.query) - _KNOWN:
            return Answer(400, b"", headers)
        self._wait(request)
        return self._found(request, headers)._replace(
            drips=1.0 if self.drips and request.path.endswith("/token") else 0.0
        )

    def _wait(self, request: Request) -> None:
        """Hold a request with ``wait_for_change`` until the value differs from ``last_etag``."""
        if request.query.get("wait_for_change") != "true":
            return
        end = time.monotonic() + float(request.query.get("timeout_sec", "30"))
        before = request.query.get("last_etag") or _etag(self._value(request.path))
        while time.monotonic() < end and _etag(self._value(request.path)) == before:
            time.sleep(0.01)

    def _found(self, request: Request, headers: Mapping[str, str]) -> Answer:
        found = self._value(request.path)
        if found is None:
            return Answer(404, b"", headers)
        whole = request.query.get("recursive") == "true"
        if isinstance(found, dict) and not whole and "access_token" not in found:
            if not request.path.endswith("/"):
                return Answer(301, b"", {**headers, "Location": request.path + "/"})
            names = "".join(f"{_dashed(key)}{'/' if isinstance(value, dict) else ''}\n" for key, value in found.items())
            return Answer(200, names.encode(), {**headers, "ETag": _etag(found), "Content-Type": "application/text"})
        as_json = isinstance(found, dict) or request.query.get("alt") == "json"
        hidden = {"token"} if self.tree_has_scopes else {"token", "scopes"}
        lines = "\n".join(found) if isinstance(found, list) else str(found)
        text = json.dumps(_without(hidden, found)) if as_json else lines
        kind = "application/json" if as_json else "application/text"
        body = b"<html>" if self.garbage else text.encode()
        return Answer(200, body, {**headers, "ETag": _etag(found), "Content-Type": kind})

    def _value(self, path: str) -> Any:
        found: Any = self._tree()
        for part in path.removeprefix(ROOT).strip("/").split("/"):
            if not part:
                continue
            if not isinstance(found, dict):
                return None
            found = next((value for key, value in found.items() if part in {key, _dashed(key)}), None)
        return found

    def _tree(self) -> dict[str, Any]:
        m = self.machine
        place = f"projects/{m.project_number}"
        attributes = {**m.attributes, **({"created-by": m.created_by} if m.group else {})}
        account = {
            "aliases": ["default"],
            "email": f"trainer@{m.project}.iam.gserviceaccount.com",
            "scopes": list(m.scopes),
            "token": {"access_token": TOKEN, "expires_in": self.token_seconds, "token_type": "Bearer"},
        }
        return {
            "instance": {
                "attributes": attributes,
                "hostname": f"{m.name}.{m.zone}.c.{m.project}.internal",
                "id": m.number,
                "machineType": f"{place}/machineTypes/{m.type}",
                "maintenanceEvent": m.maintenance,
                "name": m.name,
                "preempted": "TRUE" if m.preempted else "FALSE",
                "scheduling": {
                    "automaticRestart": "FALSE" if m.preemptible else "TRUE",
                    "onHostMaintenance": "TERMINATE",
                    "preemptible": "TRUE" if m.preemptible else "FALSE",
                },
                "serviceAccounts": {"default": account} if m.account else {},
                "tags": [],
                "zone": f"{place}/zones/{m.zone}",
            },
            "project": {"attributes": {}, "numericProjectId": m.project_number, "projectId": m.project},
            **({"universe": {"universeDomain": m.universe}} if m.universe else {}),
        }


def _dashed(key: str) -> str:
    """Recursive answers write names together (``machineType``), paths write them with dashes."""
    return "".join(f"-{sign.lower()}" if sign.isupper() else sign for sign in key)


def _etag(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def _without(hidden: set[str], value: Any) -> Any:
    """Tokens never stand in a recursive answer; asked for by its own path, one is the whole answer."""
    if not isinstance(value, dict):
        return value
    return {key: _without(hidden, inner) for key, inner in value.items() if key not in hidden}
