"""The API: one request at a time over a connection of its own, with one limit for the whole of it. No proxy, no redirect."""

import http.client
import itertools
import json
import time
from typing import Any
from urllib.parse import urlsplit

from costguard import __version__
from costguard.cloud.api import CloudError, Site, Ticket
from costguard.cloud.errors import no_answer, unreachable
from costguard.cloud.plain import retry_after
from costguard.cloud.retry import LateError, bounded, until

from . import errors

API = "https://cloud.lambda.ai/api/v1"
CALL_SECONDS = 10.0
"""Seconds for one call, however its answer drips."""

TRIES = 2
"""How often a question is asked before its answer counts as unknown; throttled tries do not count."""

_LARGEST_BYTES = 1 << 20  # bytes of an answer; a list of all instances of an account is a small part of it
_KEY = "make one at https://cloud.lambda.ai/api-keys; `costguard permissions lambda` says how it comes to this machine"


class Session:
    """Calls of one account. Each raises CloudError and nothing else."""

    def __init__(self, site: Site) -> None:
        self._agent = f"costguard/{__version__}"
        self._key = _key(site)
        self._where = urlsplit(str(site.settings.get("api_endpoint") or API))
        loopback = self._where.hostname in {"127.0.0.1", "::1", "localhost"}
        if self._where.scheme != "https" and not (loopback and self._where.scheme == "http"):
            text = f"`{self._where.geturl()}` is not encrypted; costguard does not send a key there"
            raise CloudError("refused", text, code="endpoint", hint="set cloud.api_endpoint to an https address")

    def stamp(self, ticket: Ticket) -> None:
        """From now on requests name this attempt, as far as a header takes it."""
        ids = "".join(sign for sign in f"{ticket.incident} {ticket.attempt}" if " " < sign <= "~" or sign == " ")
        self._agent = f"costguard/{__version__} ({ids})"

    def instances(self, end: float) -> list[dict[str, Any]]:
        """All instances of the account. ``end`` is a moment of the monotonic clock, here and below."""
        found = self._ask("GET", "/instances", end)
        if not isinstance(found, list) or not all(isinstance(one, dict) and one.get("id") for one in found):
            raise errors.garbage("GET /instances")
        return found

    def instance(self, number: str, end: float) -> dict[str, Any]:
        """One of them."""
        found = self._ask("GET", f"/instances/{number}", end)
        if not isinstance(found, dict) or found.get("id") != number or not found.get("status"):
            raise errors.garbage("GET /instances")
        return found

    def terminate(self, number: str, within: float) -> dict[str, Any]:
        """Once. The answer names the instance, or it is none."""
        doing = "POST /instance-operations/terminate"
        found = self.call("POST", "/instance-operations/terminate", within, {"instance_ids": [number]})
        ended = found.get("terminated_instances") if isinstance(found, dict) else None
        for one in ended if isinstance(ended, list) else ():
            if isinstance(one, dict) and one.get("id") == number:
                return one
        raise errors.garbage(doing)

    def _ask(self, method: str, path: str, end: float) -> Any:
        """A question, again after what passes. Who is throttled goes on asking: the account has one request a second."""
        tries = itertools.count(1)

        def again(error: CloudError) -> float | None:
            return error.retry_after if error.trouble == "throttled" or next(tries) < TRIES else None

        return until(end, lambda left: self.call(method, path, left), again)

    def call(self, method: str, path: str, within: float, body: object = None) -> Any:
        """One request, once."""
        doing, end = f"{method} {path.partition('?')[0]}", time.monotonic() + min(within, CALL_SECONDS)
        connection = self._connection(min(within, CALL_SECONDS))
        try:
            try:
                bounded(connection.connect, end - time.monotonic())
            except (OSError, http.client.HTTPException) as error:
                raise unreachable(errors.CLOUD, doing, error) from error
            try:
                return bounded(lambda: self._exchange(connection, method, path, body), end - time.monotonic())
            except (LateError, OSError, http.client.HTTPException) as error:
                raise no_answer(doing, error) from error
        finally:
            connection.close()

    def _exchange(self, connection: http.client.HTTPConnection, method: str, path: str, body: object) -> Any:
        headers = {"Authorization": f"Bearer {self._key}", "Accept": "application/json", "User-Agent": self._agent}
        data = None
        if body is not None:
            headers["Content-Type"], data = "application/json", json.dumps(body).encode()
        connection.request(method, f"{self._where.path.rstrip('/')}{path}", body=data, headers=headers)
        answer = connection.getresponse()
        raw = answer.read(_LARGEST_BYTES)
        if answer.length:
            raise http.client.IncompleteRead(raw, answer.length)
        try:
            found = json.loads(raw)
        except ValueError:
            found = None
        if answer.status != 200:
            raise errors.answered(
                f"{method} {path}", answer.status, found, retry_after(answer.getheader("Retry-After"))
            )
        if not isinstance(found, dict) or "data" not in found:
            raise errors.garbage(f"{method} {path}")
        return found["data"]

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._where.scheme == "https" else http.client.HTTPConnection
        return kind(self._where.hostname or "", self._where.port, timeout=max(0.1, timeout))


def _key(site: Site) -> str:
    """The key, from its file; it stands nowhere else."""
    path = str(site.settings.get("api_key_file") or "")
    if not path:
        raise CloudError(
            "credentials", "cloud.lambda.api_key_file names no file with an API key", code="no_key", hint=_KEY
        )
    try:
        with open(path, encoding="ascii") as file:
            key = file.read(1024).strip()
    except (OSError, ValueError) as error:
        text = f"the API key in {path} cannot be read ({type(error).__name__})"
        raise CloudError("credentials", text, code="no_key", hint=_KEY) from None
    if not key or not all(" " < sign <= "~" for sign in key):
        raise CloudError("credentials", f"there is no API key in {path}", code="no_key", hint=_KEY)
    return key
