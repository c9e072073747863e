"""A web server on loopback for stand-ins of clouds: one function answers, and answers can be late, cut short, or one byte at a time."""

import contextlib
import itertools
import json
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qsl, urlsplit


class Request(NamedTuple):
    """One request as it came, with the names of its headers in lower case; ``connection`` counts those of its server, from 1.

    In a log it has the ``status`` of its answer (0 where the connection was cut), the ``operation`` that it asked for, and the
    ``server`` that it came to.
    """

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    at: float
    connection: int
    status: int = 0
    operation: str = ""
    server: str = ""


class Answer(NamedTuple):
    """What goes back; what is not bytes goes as JSON.

    ``cut`` ends the connection without an answer, ``delay`` is seconds before it, ``drips`` seconds between two bytes of the
    body; ``short`` ends the connection so many bytes before the end that was announced. ``operation`` is for the log alone.
    """

    status: int
    body: Any = b""
    headers: Mapping[str, str] = {}
    cut: bool = False
    delay: float = 0.0
    drips: float = 0.0
    short: int = 0
    operation: str = ""


CUT = Answer(0, cut=True)


class Server:
    """Answers from its own thread from `start` to `close`, or as a context; ``requests`` has what came.

    ``host``: its name in ``url``. ``log``: one for several servers, where ``name`` says which one it was. ``drips_head``: whether
    an answer that drips does so from its first line on.
    """

    def __init__(
        self,
        answer: Callable[[Request], Answer],
        *,
        tls: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
        name: str = "",
        log: list[Request] | None = None,
        drips_head: bool = False,
    ) -> None:
        self._answer, self._name, self._drips_head = answer, name, drips_head
        self.requests: list[Request] = [] if log is None else log
        self.open: set[socket.socket] = set()
        self.numbers = itertools.count(1)
        self.connections = 0
        self._http = _Quiet(("127.0.0.1", 0), _handler(self))
        if tls is not None:
            self._http.socket = tls.wrap_socket(self._http.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"{'https' if tls else 'http'}://{host}:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> Self:
        """Begin to serve."""
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop serving, and end the connections that are open. Once is enough, twice is no harm."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(5)
        self.hang_up()

    def hang_up(self) -> None:
        """End every open connection, as services do with those that wait too long."""
        for connection in list(self.open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def respond(self, handler: BaseHTTPRequestHandler, number: int) -> None:
        """Read one request, log it, and answer it."""
        parts = urlsplit(handler.path)
        headers = {name.lower(): value for name, value in handler.headers.items()}
        body = handler.rfile.read(int(headers.get("content-length", 0)))
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        request = Request(handler.command, parts.path, query, headers, body, time.time(), number)
        answer = self._answer(request)
        if answer.delay:
            time.sleep(answer.delay)
        status = 0 if answer.cut else answer.status
        self.requests.append(request._replace(status=status, operation=answer.operation, server=self._name))
        if answer.cut:
            handler.close_connection = True
            with contextlib.suppress(OSError):
                handler.connection.shutdown(socket.SHUT_RDWR)
        else:
            self._write(handler, answer)

    def _write(self, handler: BaseHTTPRequestHandler, answer: Answer) -> None:
        """In one piece, so that no small packet waits for another one; else until nobody listens any more."""
        plain = isinstance(answer.body, bytes)
        body = answer.body if plain else json.dumps(answer.body).encode()
        kind = {} if plain else {"Content-Type": "application/json; charset=utf-8"}
        headers = {"Date": handler.date_time_string(), "Content-Length": str(len(body)), **kind, **answer.headers}
        lines = [f"HTTP/1.1 {answer.status} X", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        first, rest = "\r\n".join(lines).encode(), body[: len(body) - answer.short]
        whole = first if answer.drips and not self._drips_head else b"" if answer.drips else first + rest
        handler.wfile.write(whole)
        if answer.drips:
            with contextlib.suppress(OSError):
                for byte in rest if whole else first + rest:
                    handler.wfile.write(bytes((byte,)))
                    time.sleep(answer.drips)
        handler.close_connection = handler.close_connection or answer.short > 0


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, *about: Any) -> None:
        """A client that went away is part of many tests."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(*about)


def _handler(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        timeout = 30

        def setup(self) -> None:
            self.number = server.connections = next(server.numbers)
            server.open.add(self.request)
            super().setup()

        def finish(self) -> None:
            super().finish()
            server.open.discard(self.request)

        def handle_one_request(self) -> None:
            self.raw_requestline = self.rfile.readline(65537)
            if not self.raw_requestline or not self.parse_request():
                self.close_connection = True
                return
            server.respond(self, self.number)

    return Handler
