"""A strict instance metadata service, version 2, on loopback.

It refuses what the real one refuses: a question without a token or with an old one (401), a token request
without a life or with one out of range (400), or through a proxy (403), any path that is not there (404).
"""

import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

_TTL = "X-aws-ec2-metadata-token-ttl-seconds"
_TOKEN = "X-aws-ec2-metadata-token"  # noqa: S105 - the name of a header
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
        server = _server(self)
        self.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._released.set()
            server.shutdown()
            server.server_close()
            thread.join()

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
        if headers.get("X-Forwarded-For"):
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


def _server(imds: Imds) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Answer one question."""
            answer = imds.answer(self.command, self.path, dict(self.headers))
            imds.log.append(Asked(self.command, self.path.removeprefix(_PREFIX), answer[0] if answer else 0))
            if answer is None:
                self.close_connection = True
                return
            status, body = answer
            self.send_response(status)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", str(len(body)))
            if status == 302:
                self.send_header("Location", imds.redirect)
            if imds.proxied:
                self.send_header("Via", "1.1 corporate-proxy")
            if self.command == "PUT" and status == 200:
                self.send_header(_TTL, self.headers[_TTL])
            self.end_headers()
            self.close_connection = imds.cut > 0
            self._pour(body[: len(body) - imds.cut])

        def _pour(self, body: bytes) -> None:
            """All at once, or byte by byte until nobody listens any more."""
            if not imds.drip:
                self.wfile.write(body)
                return
            with suppress(OSError):
                for byte in body:
                    self.wfile.write(bytes((byte,)))
                    time.sleep(imds.drip)

        do_PUT = do_GET

        def log_message(self, *_: object) -> None:
            """Nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

    return Server(("127.0.0.1", 0), Handler)
