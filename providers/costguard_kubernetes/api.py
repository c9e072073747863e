"""Requests to the API server: the service account's token, read for each of them since it is replaced while a pod runs, over TLS.

The standard library alone: neither proxies nor redirects, one deadline for the whole, an answer of bounded size.
"""

import http.client
import json
import re
import socket
import ssl
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from costguard.cloud.api import Ticket
from costguard.cloud.http import LONGEST_BYTES, DeadlineConnection, whole
from costguard.cloud.retry import until
from costguard.files import text_of
from costguard.tasks.api import Place
from costguard_kubernetes import errors, identity
from costguard_kubernetes.kinds import Data

CALL_SECONDS = 5.0
"""For one request, of which the API server needs a small part."""

MERGE, JSON = "application/merge-patch+json", "application/json"
"""Kinds of bodies: a change, and an object."""

_TOKEN = re.compile(r"[\w.~+/=-]{1,65536}", re.ASCII)


class Answer(NamedTuple):
    """``address``: from which of this machine's addresses it was asked."""

    data: Data
    address: str


class Request(NamedTuple):
    """``doing``: what it is, for people. ``effect``: whether it changes anything."""

    method: str
    path: str
    doing: str
    body: Data | None = None
    form: str = JSON
    effect: bool = False


class Api:
    """The API server of this pod's cluster."""

    def __init__(self, place: Place) -> None:
        environ = place.environ
        self._host = environ.get("KUBERNETES_SERVICE_HOST", "")
        self._port = environ.get("KUBERNETES_SERVICE_PORT_HTTPS") or environ.get("KUBERNETES_SERVICE_PORT") or "443"
        self._folder = identity.folder(place)
        self._agent = "costguard"

    def named(self, ticket: Ticket) -> None:
        """From now on the server's audit log names this attempt."""
        self._agent = f"costguard (incident {ticket.incident}; attempt {ticket.attempt})"

    def ask(self, request: Request, end: float) -> Data:
        """Ask without an effect, and again after what passes, until the moment ``end`` of the monotonic clock. Raises SchedulerError."""
        return self._repeated(request, end).data

    def get(self, path: str, doing: str, end: float) -> Answer:
        """Read, in the same way."""
        return self._repeated(Request("GET", path, doing), end)

    def _repeated(self, request: Request, end: float) -> Answer:
        return until(end, lambda left: self.send(request, left))

    def send(self, request: Request, within: float) -> Answer:
        """One request. Raises SchedulerError."""
        token = _token(self._folder)
        connection = _Secured(self._host, _port(self._port), min(CALL_SECONDS, within), _context(self._folder))
        try:
            return self._sent(connection, request, token)
        except Exception as error:
            _blank(error, token)
            raise
        finally:
            connection.close()

    def _sent(self, connection: "_Secured", request: Request, token: str) -> Answer:
        doing, effect = request.doing, request.effect
        try:
            connection.connect()
        except (OSError, ValueError) as error:  # ValueError: a host name that cannot be one
            raise errors.unreachable(doing, error) from None
        body = None if request.body is None else json.dumps(request.body)
        headers = {
            "Authorization": f"Bearer {token}",
            "Accept": JSON,
            "User-Agent": self._agent,
            **({} if body is None else {"Content-Type": request.form}),
        }
        try:
            connection.request(request.method, request.path, body, headers)
            answer = connection.getresponse()
            text = whole(answer, LONGEST_BYTES)
        except (OSError, http.client.HTTPException) as error:
            raise errors.no_answer(doing, f"{type(error).__name__}: {error}", effect) from None
        data = _parsed(text)
        if 200 <= answer.status < 300:
            if data is None:
                raise errors.garbage(doing, effect)
            return Answer(data, connection.address)
        status = data if data is not None and data.get("kind") == "Status" else None
        raise errors.explain(errors.Said(answer.status, status, answer.getheader("Retry-After"), text), doing, effect)


class _Secured(DeadlineConnection):
    """See `costguard.cloud.http.DeadlineConnection`; over TLS, with the cluster's own authority alone."""

    def __init__(self, host: str, port: int, seconds: float, context: ssl.SSLContext) -> None:
        super().__init__(host, port, max(seconds, 0.001))
        self._context = context
        self.address = ""

    def secured(self, plain: socket.socket) -> socket.socket:
        """Shake hands; the certificate must be for the address that Kubernetes gave."""
        self.address = str(plain.getsockname()[0])
        return self._context.wrap_socket(plain, server_hostname=self.host)


def _token(folder: str) -> str:
    token = text_of(f"{folder}/token", identity.LONGEST_TOKEN).strip()
    if not _TOKEN.fullmatch(token):
        raise errors.no_account(f"{folder}/token holds no token" if token else f"{folder}/token cannot be read")
    return token


def _context(folder: str) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=f"{folder}/ca.crt")
    except (OSError, ssl.SSLError) as error:
        raise errors.no_account(f"{folder}/ca.crt holds no certificate ({type(error).__name__})") from None
    # Authorities of many clusters lack an extension that newer versions of Python demand.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _port(said: str) -> int:
    return int(said) if re.fullmatch(r"\d{1,5}", said, re.ASCII) else 443


def _blank(error: Exception, token: str) -> None:
    """Whoever repeats the token in an answer does not get it into a message."""
    error.args = tuple(one.replace(token, "***") if isinstance(one, str) else one for one in error.args)


def _parsed(text: bytes) -> Mapping[str, Any] | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def ends_at(within: float) -> float:
    """A moment of the monotonic clock."""
    return time.monotonic() + within
