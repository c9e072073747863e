"""Real servers on loopback for the senses that ask: what one answers is scripted, and every request is kept."""

import contextlib
import select
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterable
from typing import Protocol

from costguard.readers.host.page import Page

WITHIN = 10.0
"""Real seconds that a test waits at most; an answer takes a millisecond."""

Script = Callable[[socket.socket, bytes], None]


class Server:
    """One address; ``script`` gets each connection and each request on it, and closes it or not."""

    def __init__(
        self, script: Script, *, address: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
    ) -> None:
        self.script, self._tls = script, tls
        self.requests: list[bytes] = []
        self.connections = 0
        self._open: list[socket.socket] = []
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._listener = socket.create_server((address, port), family=family)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.hang_up()

    def hang_up(self, *, reset: bool = False) -> None:
        """End every connection; ``reset``: as of a server that is killed while there is something to read."""
        for one in self._open:
            with contextlib.suppress(OSError):
                if reset:
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                one.shutdown(socket.SHUT_RD if reset else socket.SHUT_RDWR)
            one.close()
        self._open.clear()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
                self._open.append(connection)
            while True:
                request = b""
                while b"\r\n\r\n" not in request:
                    data = connection.recv(65536)
                    if not data:
                        return
                    request += data
                self.requests.append(request)
                self.script(connection, request)


def page(body: bytes, status: str = "200 OK", *headers: str) -> Script:
    """A whole answer, after which the connection stays."""
    head = "\r\n".join((f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""))

    def script(connection: socket.socket, _request: bytes) -> None:
        connection.sendall(head.encode() + body)

    return script


def raw(data: bytes, *, close: bool = True) -> Script:
    """Just these bytes."""

    def script(connection: socket.socket, _request: bytes) -> None:
        connection.sendall(data)
        if close:
            connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    return script


def flood(head: bytes, size: int = 100 << 20) -> Script:
    """A page of 100 MB."""

    def script(connection: socket.socket, _request: bytes) -> None:
        connection.sendall(head)
        for _ in range(size >> 20):
            connection.sendall(b"x" * (1 << 20))

    return script


def reset(connection: socket.socket, _request: bytes) -> None:
    """Break the connection off, as the kernel does for a program that is killed."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def silence(_connection: socket.socket, _request: bytes) -> None:
    """Take the request, and never answer."""


class Asks(Protocol):
    """A sense that asks."""

    def filenos(self) -> list[int]: ...


def settle(sense: Asks, go_on: Callable[[], None], patience: Callable[[], float] = lambda: WITHIN) -> None:
    """Let what is under way end, as the reader does between two looks; ``patience``: real seconds without anything to read."""
    while waiting := sense.filenos():
        if not select.select(waiting, [], [], patience())[0]:
            return
        go_on()


def answered(pages: Iterable[Page], patience: float) -> None:
    """Wait until every request under way has its answer, which the next look reads."""
    for one in pages:
        if one.fileno() >= 0:
            select.select([one.fileno()], [], [], patience)
