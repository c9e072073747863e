"""The control socket: ``status``, ``hold`` and the other verbs talk to the guard here.

One request line and one answer line per connection. Anybody on the machine may connect; who it is comes from
the kernel, and the loop decides what that user may do.
"""

import os
import socket
import struct
from collections.abc import Callable
from contextlib import suppress

from costguard.agent.poller import READ, WRITE, Poller
from costguard.agent.ports import HostEvent, Request

SOCKET = "control.sock"
CLIENTS = 16
"""Connections at a time; one user's flood pushes out that user's own."""

LINE_LIMIT = 65536
REQUEST_SECONDS = 5.0
"""How long a client may take to send its line, and to take its answer."""

PAUSE_SECONDS = 1.0
"""How long nobody is let in after the kernel had no descriptor for a client."""

ANSWER_SECONDS = 30.0
"""How long a client may wait for the loop: some answers need a worker."""


class _Client:
    __slots__ = ("asked", "expires", "number", "socket", "text", "uid")

    def __init__(self, number: int, connection: socket.socket, uid: int, expires: float) -> None:
        self.number, self.socket, self.uid, self.expires = number, connection, uid, expires
        self.text = b""  # the request so far, then what is left of the answer
        self.asked = False


class Control:
    """The server side. ``now`` is any clock that does not jump, in seconds."""

    def __init__(self, poller: Poller, directory: str, now: Callable[[], float]) -> None:
        self._poller, self._now = poller, now
        self.path = os.path.join(directory, SOCKET)
        self._clients: dict[int, _Client] = {}  # by descriptor, oldest first
        self._numbers: dict[int, _Client] = {}
        self._count = 0
        self._server: socket.socket | None = None
        self._identity: tuple[int, int] | None = None
        self._pause: float | None = None

    def open(self) -> str | None:
        """Listen, replacing what lies at the path; only for the holder of the lock. Words when that failed."""
        self._close_server()
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            if os.path.lexists(self.path):
                os.unlink(self.path)
            server.bind(self.path)
            os.chmod(self.path, 0o666)  # noqa: S103 - "status" is for everybody, and the loop checks the user of each request
            server.listen(CLIENTS)
            status = os.stat(self.path)
        except OSError as error:
            server.close()
            return (
                f"no control socket at {self.path}: {error.strerror or error}; status and hold cannot reach this agent"
            )
        self._server, self._identity = server, (status.st_dev, status.st_ino)
        self._poller.add(server.fileno(), READ, self._accept)
        return None

    def lost(self) -> bool:
        """Whether the path no longer leads to this socket (somebody cleaned the directory)."""
        try:
            status = os.stat(self.path)
        except OSError:
            return True
        return self._identity != (status.st_dev, status.st_ino)

    def answer(self, number: int, line: bytes) -> None:
        """Send the answer and close; nothing when the client has gone."""
        client = self._numbers.get(number)
        if client is None or not client.asked:
            return
        client.text, client.expires = line + b"\n", self._now() + REQUEST_SECONDS
        self._flush(client)

    def next_expiry(self) -> float | None:
        """When `expire` has something to do next."""
        times = [client.expires for client in self._clients.values()]
        return min(times if self._pause is None else [*times, self._pause], default=None)

    def expire(self) -> None:
        """Drop the clients whose time is over; let others in again after a pause."""
        now = self._now()
        if self._pause is not None and self._pause <= now and self._server is not None:
            self._pause = None
            self._poller.change(self._server.fileno(), READ)
        for client in [client for client in self._clients.values() if client.expires <= now]:
            self._drop(client)

    def close(self) -> None:
        """Drop everybody and remove the socket."""
        for client in list(self._clients.values()):
            self._drop(client)
        if self._server is not None and not self.lost():
            with suppress(OSError):  # a stale socket refuses connections, and clients say so
                os.unlink(self.path)
        self._close_server()

    def _close_server(self) -> None:
        if self._server is not None:
            self._poller.drop(self._server.fileno())
            self._server.close()
            self._server = None

    def _accept(self, fd: int, _events: list[HostEvent]) -> None:
        assert self._server is not None
        try:
            connection, _address = self._server.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return  # gone again
        except OSError:  # out of descriptors: asking again at once would only burn a core
            self._poller.change(fd, 0)
            self._pause = self._now() + PAUSE_SECONDS
            return
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        uid = int(struct.unpack("3I", credentials)[1])
        if not self._room(uid):
            connection.close()
            return
        connection.setblocking(False)
        self._count += 1
        client = _Client(self._count, connection, uid, self._now() + REQUEST_SECONDS)
        self._clients[connection.fileno()] = self._numbers[client.number] = client
        self._poller.add(connection.fileno(), READ, self._ready)

    def _room(self, uid: int) -> bool:
        """Make room for one more, at the cost of the user who has most connections."""
        if len(self._clients) < CLIENTS:
            return True
        uids = [client.uid for client in self._clients.values()]
        greediest = max(uids, key=uids.count)
        if uids.count(greediest) <= uids.count(uid):
            return False
        self._drop(next(client for client in self._clients.values() if client.uid == greediest))
        return True

    def _ready(self, fd: int, events: list[HostEvent]) -> None:
        client = self._clients[fd]
        if client.asked:
            if client.text:
                self._flush(client)
            else:
                self._drop(client)  # it hung up before its answer
            return
        try:
            data = client.socket.recv(LINE_LIMIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        client.text += data
        line, newline, _more = client.text.partition(b"\n")
        if newline and len(line) <= LINE_LIMIT:
            client.asked, client.text, client.expires = True, b"", self._now() + ANSWER_SECONDS
            self._poller.change(fd, 0)
            events.append(Request(client.number, client.uid, line))
        elif newline or not data or len(client.text) > LINE_LIMIT:
            self._drop(client)

    def _flush(self, client: _Client) -> None:
        try:
            sent = client.socket.send(client.text, socket.MSG_NOSIGNAL)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._drop(client)
            return
        client.text = client.text[sent:]
        if client.text:
            self._poller.change(client.socket.fileno(), WRITE)
        else:
            self._drop(client)

    def _drop(self, client: _Client) -> None:
        fd = client.socket.fileno()
        self._poller.drop(fd)
        del self._clients[fd], self._numbers[client.number]
        client.socket.close()
