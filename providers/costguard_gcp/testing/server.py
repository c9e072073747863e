"""An HTTP server on loopback that logs what comes and can be cut."""

import contextlib
import http.server
import socket
import ssl
import threading
import time
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self


class Request(NamedTuple):
    """One request as it came, and the status it got; 0 when the connection was cut."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    at: float
    status: int = 0


class Answer(NamedTuple):
    """What to send; ``cut`` closes the connection instead, without a word; ``drips`` sends one byte a second."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = {}
    cut: bool = False
    drips: bool = False


class Server:
    """Answers with ``answer`` until it is closed; use it as a context manager."""

    def __init__(self, answer: Callable[[Request], Answer], *, context: ssl.SSLContext | None = None) -> None:
        self.requests: list[Request] = []
        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(answer, self.requests))
        self._http.daemon_threads = True
        if context:
            self._http.socket = context.wrap_socket(self._http.socket, server_side=True)
        scheme = "https" if context else "http"
        self.url = f"{scheme}://{'localhost' if context else '127.0.0.1'}:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


def _handler(answer: Callable[[Request], Answer], log: list[Request]) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # otherwise an answer in two pieces waits 40 ms

        def do_GET(self) -> None:
            """Read, log, answer."""
            parts = urllib.parse.urlsplit(self.path)
            query = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(self.command, parts.path, query, headers, body, time.time())
            said = answer(request)
            log.append(request._replace(status=0 if said.cut else said.status))
            if said.cut:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            self.send_response(said.status)
            for name, value in said.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(said.body)))
            self.end_headers()
            if not said.drips:
                self.wfile.write(said.body)
                return
            with contextlib.suppress(OSError):  # nobody listens any more
                for byte in said.body:
                    self.wfile.write(bytes((byte,)))
                    time.sleep(1.0)

        do_POST = do_DELETE = do_GET

        def log_message(self, *_: Any) -> None:
            """The log is kept as values."""

    return Handler
