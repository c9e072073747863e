"""The control socket: ``status``, ``hold`` and the other verbs talk to the guard here.

One request line and one answer line per connection. Anybody on the machine may connect; who it is comes from
the kernel, and the loop decides what that user may do. Who asks too often is told to come again, before anything is
read; a flood of connections takes a small share of one core, whoever sends it.
"""

import os
import socket
import struct
from collections.abc import Callable
from contextlib import suppress

from costguard.host.address import address
from costguard.host.limits import Limit
from costguard.host.poller import READ, WRITE, Poller
from costguard.host.ports import HostEvent, Request
from costguard.host.subordinate import person

SOCKET = "control.sock"
CLIENTS = 16
"""Connections at a time; one user's flood pushes out that user's own."""

BACKLOG = 128
"""Connections that wait in the kernel; further clients wait for a place among them."""

USER_BURST, USER_EVERY = 20, 0.5
ALL_BURST, ALL_EVERY = 60, 0.05
OWN_BURST, OWN_EVERY = 100, 0.02
"""Requests at once, and seconds per further one: of one user, of all users together (and of all subordinate numbers), of root and the agent's own user."""

AT_ONCE = 32
"""Connections that are looked at in one turn."""

FLOOD_SHARE = 0.05
"""Of one core: what turning away a flood may cost."""

LINE_LIMIT = 65536
READS = 16
"""A request that comes in more pieces than this is no client of ours; each piece wakes the guard."""

REQUEST_SECONDS = 5.0
"""How long a client may take to send its line, and to take its answer."""

PAUSE_SECONDS = 1.0
"""How long nobody is let in after the kernel had no descriptor for a client."""

ANSWER_SECONDS = 30.0
"""How long a client may wait for the loop: some answers need a worker."""


class _Client:
    __slots__ = ("asked", "expires", "number", "reads", "socket", "text", "uid")

    def __init__(self, number: int, connection: socket.socket, uid: int, expires: float) -> None:
        self.number, self.socket, self.uid, self.expires = number, connection, uid, expires
        self.text = b""  # the request so far, then what is left of the answer
        self.asked = False
        self.reads = 0


class Control:
    """The server side. ``now`` is any clock that does not jump, in seconds; ``whose`` names the person behind a user id."""

    def __init__(
        self, poller: Poller, directory: str, now: Callable[[], float], whose: Callable[[int], int] = person
    ) -> None:
        self._poller, self._now, self._whose = poller, now, whose
        self.path = os.path.join(directory, SOCKET)
        self._clients: dict[int, _Client] = {}  # by descriptor, oldest first
        self._numbers: dict[int, _Client] = {}
        self._count = 0
        self._server: socket.socket | None = None
        self._identity: tuple[int, int] | None = None
        self._pause: float | None = None
        self._each, self._all = Limit(USER_BURST, USER_EVERY), Limit(ALL_BURST, ALL_EVERY, together=True)
        self._own = Limit(OWN_BURST, OWN_EVERY)

    def open(self) -> str | None:
        """Listen, replacing what lies at the path; only for the holder of the lock. Words when that failed."""
        self._close_server()
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        coming = self.path + ".new"  # whoever sees the path can connect
        try:
            if os.path.lexists(coming):
                os.unlink(coming)
            with address(coming) as name:
                server.bind(name)
            os.chmod(coming, 0o666)  # noqa: S103 - "status" is for everybody, and the loop checks the user of each request
            server.listen(BACKLOG)
            os.rename(coming, self.path)
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
        if not self._clients:
            return self._pause
        times = [client.expires for client in self._clients.values()]
        return min(times if self._pause is None else [*times, self._pause], default=None)

    def expire(self) -> None:
        """Drop the clients whose time is over; let others in again after a pause."""
        if not self._clients and self._pause is None:
            return
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

    def _accept(self, _fd: int, _events: list[HostEvent]) -> None:
        assert self._server is not None
        began, turned_away = self._now(), False
        for _ in range(AT_ONCE):
            try:
                connection, _address = self._server.accept()
            except (BlockingIOError, ConnectionAbortedError):
                break  # nobody else, or gone again
            except OSError:  # out of descriptors: asking again at once would only burn a core
                self._close_door(PAUSE_SECONDS)
                return
            turned_away = not self._admit(connection) or turned_away
        if turned_away:
            self._close_door((self._now() - began) / FLOOD_SHARE)

    def _close_door(self, seconds: float) -> None:
        assert self._server is not None
        self._poller.change(self._server.fileno(), 0)
        self._pause = self._now() + seconds

    def _admit(self, connection: socket.socket) -> bool:
        """Let a client in; False when it was sent away, which tells it when to come again."""
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        uid = self._whose(int(struct.unpack("3I", credentials)[1]))
        wait = self._wait(uid)
        connection.setblocking(False)
        if wait or not self._room(uid):
            with suppress(OSError):
                connection.send(b'{"busy":%.3f}\n' % (wait or USER_EVERY), socket.MSG_NOSIGNAL)
            connection.close()
            return False
        self._count += 1
        client = _Client(self._count, connection, uid, self._now() + REQUEST_SECONDS)
        self._clients[connection.fileno()] = self._numbers[client.number] = client
        self._poller.add(connection.fileno(), READ, self._ready)
        return True

    def _wait(self, uid: int) -> float:
        """Seconds until this user may ask again; 0 when that is now."""
        now = self._now()
        if uid in {0, os.getuid()}:
            return self._own.take(uid, now)
        return self._each.take(uid, now) or self._all.take(uid, now)

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
        client.reads += 1
        line, newline, _more = client.text.partition(b"\n")
        if newline and len(line) <= LINE_LIMIT:
            client.asked, client.text, client.expires = True, b"", self._now() + ANSWER_SECONDS
            self._poller.change(fd, 0)
            events.append(Request(client.number, client.uid, line))
        elif newline or not data or len(client.text) > LINE_LIMIT or client.reads >= READS:
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
