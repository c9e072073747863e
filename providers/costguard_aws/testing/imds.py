"""A strict instance metadata service, version 2, on loopback.

It refuses what the real one refuses: a question without a token or with an old one (401), a token request
without a life or with one out of range (400), or through a proxy (403), any path that is not there (404).
"""

import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from costguard.testing.web import CUT, Answer, Request, Server

_TTL = "x-aws-ec2-metadata-token-ttl-seconds"
_TOKEN = "x-aws-ec2-metadata-token"  # noqa: S105 - the name of a header
_PREFIX = "/latest/"


class Asked(NamedTuple):
    """One question, as it came, and the status of its answer (0: none)."""

    method: str
    path: str
    status: int


class Imds:
    """The service. Everything a test may change is a plain attribute.

    ``values`` maps a path below ``/latest/`` to its text. ``off`` answers 403 to everything; ``token_lost``
    takes the request for a token and never answers (a hop limit of 1 seen from a container); ``silent`` never
    answers a GET; ``busy`` is how many answers are still 503; ``proxied`` marks answers with ``Via``;
    ``prefix`` is a folder below which everything stands; ``redirect`` answers a GET with 302; ``drip`` sends each byte of a body that many seconds after the one before;
    ``cut`` ends a body so many bytes early; ``token_end`` follows each token; ``garbage`` maps a path to bytes that are sent in its place; ``wait`` is how long silence lasts, in seconds.
    """

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self.values: dict[str, str] = dict(values or {})
        self.garbage: dict[str, bytes] = {}
        self.off = self.token_lost = self.silent = self.proxied = False
        self.redirect = self.token_end = self.prefix = ""
        self.busy = self.cut = 0
        self.drip = 0.0
        self.wait = 0.6
        self.log: list[Asked] = []
        self.url = ""
        self._tokens: dict[str, float] = {}
        self._released = threading.Event()

    def expire_tokens(self) -> None:
        """Forget every token, as after a suspension or a restart of the service."""
        self._tokens.clear()

    def paths(self, method: str = "GET") -> list[str]:
        """The paths that were asked for."""
        return [asked.path for asked in self.log if asked.method == method]

    @contextmanager
    def running(self) -> Iterator["Imds"]:
        """The service on a free port of loopback; its address is then in ``url``."""
        with Server(self._served) as server:
            self.url = server.url
            try:
                yield self
            finally:
                self._released.set()

    def _served(self, request: Request) -> Answer:
        found = self.answer(request.method, request.path, request.headers)
        self.log.append(Asked(request.method, request.path.removeprefix(_PREFIX), found[0] if found else 0))
        if found is None:
            return CUT
        status, body = found
        headers = {"Content-Type": "text/plain"}
        headers |= {"Location": self.redirect} if status == 302 else {}
        headers |= {"Via": "1.1 corporate-proxy"} if self.proxied else {}
        headers |= {_TTL: request.headers[_TTL]} if request.method == "PUT" and status == 200 else {}
        return Answer(status, body, headers, drips=self.drip, short=self.cut)

    def answer(self, method: str, target: str, headers: Mapping[str, str]) -> tuple[int, bytes] | None:
        """Status and body; None for silence."""
        if not target.startswith(self.prefix + _PREFIX):
            return 404, b"Not Found"
        path = target.removeprefix(self.prefix + _PREFIX)
        if self.off:
            return 403, b"Forbidden"
        if self.busy > 0:
            self.busy -= 1
            return 503, b"Service Unavailable"
        if method == "PUT":
            return self._grant(path, headers)
        if self.silent:
            self._released.wait(self.wait)
            return None
        if self._tokens.get(headers.get(_TOKEN, ""), 0.0) < time.monotonic():
            return 401, b"Unauthorized"
        if self.redirect:
            return 302, b""
        if path in self.garbage:
            return 200, self.garbage[path]
        return self._read(path)

    def _grant(self, path: str, headers: Mapping[str, str]) -> tuple[int, bytes] | None:
        if path != "api/token":
            return 405, b"Method Not Allowed"
        if self.token_lost:
            self._released.wait(self.wait)
            return None
        if headers.get("x-forwarded-for"):
            return 403, b"Forbidden"
        life = headers.get(_TTL, "")
        if not life.isdigit() or not 1 <= int(life) <= 21600:
            return 400, b"Bad Request"
        token = secrets.token_urlsafe(42)
        self._tokens[token] = time.monotonic() + int(life)
        return 200, (token + self.token_end).encode()

    def _read(self, path: str) -> tuple[int, bytes]:
        """A value, or the names below a folder, one per line, folders with a slash."""
        if path in self.values:
            return 200, self.values[path].encode()
        folder = path.rstrip("/") + "/"
        below = {key.removeprefix(folder) for key in self.values if key.startswith(folder)}
        names = {name.partition("/")[0] + ("/" if "/" in name else "") for name in below}
        return (200, "\n".join(sorted(names)).encode()) if names else (404, b"Not Found")
