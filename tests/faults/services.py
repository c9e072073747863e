"""The services of the world on loopback: a proxy that answers for each of their hosts itself, with certificates of its own authority.

Whoever runs with `Services.environment` asks the real addresses (https://slack.com/api/…) and reaches nobody but this process.
"""

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple, Self

import trustme


class Asked(NamedTuple):
    """One request: its host and path, its body, and when it came (seconds of the monotonic clock)."""

    host: str
    path: str
    body: bytes
    at: float


class Answer(NamedTuple):
    """What a service says."""

    status: int = 200
    body: str = ""
    headers: Mapping[str, str] = {}


def as_json(status: int = 200, **fields: object) -> Answer:
    """An answer in JSON."""
    return Answer(status, json.dumps(fields), {"Content-Type": "application/json"})


Script = Callable[[Asked, int], Answer]
"""Answers a request, given how many came to this host before it."""


class Services:
    """A context in which hosts answer by their scripts; a host without one refuses the connection."""

    def __init__(self, folder: Path, scripts: Mapping[str, Script]) -> None:
        self.scripts = scripts
        self.asked: list[Asked] = []
        self._authority = trustme.CA()
        self._certificates: dict[str, ssl.SSLContext] = {}
        self._bundle = folder / "authority.pem"
        self._authority.cert_pem.write_to_path(str(self._bundle))
        services = self

        class Proxy(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_CONNECT(self) -> None:
                """Answer as the host that the client wants to reach."""
                host = self.path.partition(":")[0]
                if host not in services.scripts:
                    self.send_error(502)
                    return
                self.wfile.write(b"HTTP/1.1 200 here you are\r\n\r\n")
                self.close_connection = True
                try:
                    services._serve(host, self.connection)
                except OSError:
                    return

            def log_message(self, *_: object) -> None:
                """Nothing is printed."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
        self._server.daemon_threads = True

    @property
    def environment(self) -> dict[str, str]:
        """What leads a program here."""
        proxy = f"http://127.0.0.1:{self._server.server_port}"
        return {"HTTPS_PROXY": proxy, "https_proxy": proxy, "REQUESTS_CA_BUNDLE": str(self._bundle), "NO_PROXY": ""}

    def of(self, host: str) -> list[Asked]:
        """The requests that came to a host."""
        return [one for one in self.asked if one.host == host]

    def _serve(self, host: str, connection: socket.socket) -> None:
        context = self._certificates.get(host)
        if context is None:
            context = self._certificates[host] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._authority.issue_cert(host).configure_cert(context)
        with context.wrap_socket(connection, server_side=True) as secured:
            file = secured.makefile("rwb")
            while line := file.readline():
                path, headers = line.split()[1].decode(), {}
                while (header := file.readline().strip()) != b"":
                    name, _, value = header.decode().partition(":")
                    headers[name.lower()] = value.strip()
                body = file.read(int(headers.get("content-length", 0)))
                before = len(self.of(host))
                asked = Asked(host, path, body, time.monotonic())
                self.asked.append(asked)
                self._answer(file, self.scripts[host](asked, before))

    def _answer(self, file: Any, answer: Answer) -> None:
        data = answer.body.encode()
        headers = {**answer.headers, "Content-Length": str(len(data))}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        file.write(f"HTTP/1.1 {answer.status} so\r\n{lines}\r\n".encode() + data)
        file.flush()

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
