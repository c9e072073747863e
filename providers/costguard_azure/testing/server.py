"""A server on loopback that answers from one function and writes down every request."""

import contextlib
import itertools
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit


class Request(NamedTuple):
    """One request, with the names of its headers in lower case."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes


class Answer(NamedTuple):
    """What goes back; ``cut`` ends the connection without an answer, ``delay`` is seconds before it.

    ``drips``: one byte of it a second, from the first line on.
    """

    status: int
    body: Any = None
    headers: Mapping[str, str] = {}
    cut: bool = False
    delay: float = 0.0
    drips: bool = False


class Entry(NamedTuple):
    """One line of the log. ``at`` is a moment of the monotonic clock; ``status`` is 0 when the connection was cut.

    ``connection`` counts the connections of its server, from 1.
    """

    at: float
    server: str
    operation: str
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    status: int
    connection: int = 0


class Server:
    """Serves from its own thread until `close`."""

    def __init__(
        self, name: str, respond: Callable[[Request], tuple[str, Answer]], log: list[Entry], tls: ssl.SSLContext | None
    ) -> None:
        self._open: set[socket.socket] = set()
        open_now, numbers = self._open, itertools.count(1)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            timeout = 10

            def setup(self) -> None:
                self.number = next(numbers)
                open_now.add(self.request)
                super().setup()

            def finish(self) -> None:
                super().finish()
                open_now.discard(self.request)

            def handle_one_request(self) -> None:
                self.raw_requestline = self.rfile.readline(65537)
                if not self.raw_requestline or not self.parse_request():
                    self.close_connection = True
                    return
                request = _read(self)
                operation, answer = respond(request)
                if answer.delay:
                    time.sleep(answer.delay)
                status = 0 if answer.cut else answer.status
                log.append(Entry(time.monotonic(), name, operation, *request[:4], status, self.number))
                if answer.cut:
                    self.close_connection = True
                else:
                    _write(self, answer)

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

            def handle_error(self, *_: object) -> None:
                """A client that went away is part of many tests."""

        self._server = Quiet(("127.0.0.1", 0), Handler)
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving, and end the connections that are open. Once is enough, twice is no harm."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def _read(handler: BaseHTTPRequestHandler) -> Request:
    where = urlsplit(handler.path)
    headers = {name.lower(): value for name, value in handler.headers.items()}
    body = handler.rfile.read(int(headers.get("content-length", 0)))
    return Request(handler.command, where.path, dict(parse_qsl(where.query, keep_blank_values=True)), headers, body)


def _write(handler: BaseHTTPRequestHandler, answer: Answer) -> None:
    """The whole answer in one piece, so that no small packet waits for another one."""
    body = b"" if answer.body is None else answer.body
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    headers = {
        "Date": handler.date_time_string(),
        "Content-Type": "application/json; charset=utf-8",
        "Content-Length": str(len(body)),
        **answer.headers,
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    first = f"HTTP/1.1 {answer.status} X\r\n{head}\r\n".encode()
    if not answer.drips:
        handler.wfile.write(first + body)
        return
    with contextlib.suppress(OSError):  # nobody listens any more
        for byte in first + body:
            handler.wfile.write(bytes((byte,)))
            time.sleep(1.0)
