"""The control socket: ``status``, ``hold`` and the other verbs talk to the guard here.

One request line and one answer line per connection. Every user of the machine may connect; the kernel says who it is,
and the loop decides what that user may do. Requests are rate-limited per user before anything is read; a flood of
connections takes a small share of one core, whoever sends it. Root and the agent's own user have a socket of their own:
a queue in the kernel that nobody else can fill. What comes through it is treated as what comes through the other.
"""

import os
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from costguard.host.address import address
from costguard.host.limits import TokenBucket
from costguard.host.poller import READ, WRITE, Poller
from costguard.host.ports import HostEvent, Request
from costguard.host.subordinate import person

SOCKET = "control.sock"
OWNERS_SOCKET = "owner.sock"
_SOCKETS = ((OWNERS_SOCKET, 0o600), (SOCKET, 0o666))
"""Who may connect, by the mode of each; everybody's comes last: who sees it finds the other one, too. ("status" is for
everybody, and the loop checks the user of each request.)"""

CLIENTS = 16
"""Connections at a time; one user's flood pushes out that user's own."""

BACKLOG = 128
"""Connections that wait in the kernel; further clients wait for a place among them."""

USER_BURST, USER_EVERY_SECONDS = 20, 0.5
ALL_BURST, ALL_EVERY_SECONDS = 60, 0.05
OWN_BURST, OWN_EVERY_SECONDS = 100, 0.02
"""Rate limits (burst, and time per further request) of one user, of all users together (and again of all subordinate
user ids), and of root and the agent's own user."""

ACCEPTS_PER_TURN = 32
"""Connections that are accepted before the guard does anything else."""

FLOOD_SHARE = 0.05
"""Of one core: what turning away a flood may cost."""

LINE_LIMIT_BYTES = 65536
READS_LIMIT = 16
"""A request in more pieces than this is dropped: each piece wakes the guard, and our own client sends one."""

REQUEST_SECONDS = 5.0
"""How long a client may take to send its line, and to take its answer."""

PAUSE_SECONDS = 1.0
"""How long no client is accepted after the kernel had no descriptor for one."""

ANSWER_SECONDS = 30.0
"""How long a client may wait for the loop: some answers need a worker."""


class Reply(NamedTuple):
    """The answer to a request that changes anything: whether it was granted, and a message for the user."""

    done: bool
    words: str


class _Client:
    __slots__ = ("expires", "number", "reads", "requested", "socket", "text", "uid")

    def __init__(self, number: int, connection: socket.socket, uid: int, expires: float) -> None:
        self.number, self.socket, self.uid, self.expires = number, connection, uid, expires
        self.text = b""  # the request so far, then what is left of the answer
        self.requested = False  # its whole request was read
        self.reads = 0


class _Listener:
    """A socket that listens at a path."""

    __slots__ = ("_identity", "mode", "path", "paused_until", "server")

    def __init__(self, path: str, mode: int) -> None:
        self.path, self.mode = path, mode
        self.server: socket.socket | None = None
        self.paused_until: float | None = None  # nobody is accepted until then
        self._identity: tuple[int, int] | None = None

    def open(self) -> int:
        """Listen, replacing what lies at the path; the descriptor. Raises OSError."""
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        temporary = self.path + ".new"  # at its final path the socket accepts connections at once
        try:
            if os.path.lexists(temporary):
                os.unlink(temporary)
            with address(temporary) as name:
                server.bind(name)
            os.chmod(temporary, self.mode)
            server.listen(BACKLOG)
            os.rename(temporary, self.path)
            status = os.stat(self.path)
        except OSError:
            server.close()
            raise
        self.server, self._identity, self.paused_until = server, (status.st_dev, status.st_ino), None
        return server.fileno()

    def lost(self) -> bool:
        """Whether the path no longer leads to this socket (somebody cleaned the directory)."""
        try:
            status = os.stat(self.path)
        except OSError:
            return True
        return self._identity != (status.st_dev, status.st_ino)


class Control:
    """The server side. ``now`` is a clock in seconds that does not jump; ``whose`` maps a user id to the person behind it."""

    def __init__(
        self, poller: Poller, directory: str, now: Callable[[], float], whose: Callable[[int], int] = person
    ) -> None:
        self._poller, self._now, self._whose = poller, now, whose
        self._listeners = [_Listener(os.path.join(directory, name), mode) for name, mode in _SOCKETS]
        self._clients: dict[int, _Client] = {}  # by descriptor, oldest first
        self._numbers: dict[int, _Client] = {}
        self._count = 0
        self._each = TokenBucket(USER_BURST, USER_EVERY_SECONDS)
        self._all = TokenBucket(ALL_BURST, ALL_EVERY_SECONDS, together=True)
        self._own = TokenBucket(OWN_BURST, OWN_EVERY_SECONDS)

    def open(self) -> str | None:
        """Listen, replacing what lies at the paths; only for the holder of the lock. Returns an error message or None."""
        self._close_doors()
        for listener in self._listeners:
            try:
                listening = listener.open()
            except OSError as error:
                self._close_doors()
                return f"no control socket {listener.path}: {error.strerror or error}; status and hold cannot reach this agent"
            self._poller.add(listening, READ, partial(self._accept, listener))
        return None

    def lost(self) -> bool:
        """Whether a path no longer leads to its socket (somebody cleaned the directory)."""
        return any(listener.lost() for listener in self._listeners)

    def answer(self, number: int, line: bytes) -> None:
        """Send the answer and close; nothing when the client has gone."""
        client = self._numbers.get(number)
        if client is None or not client.requested:
            return
        client.text, client.expires = line + b"\n", self._now() + REQUEST_SECONDS
        self._flush(client)

    def next_expiry(self) -> float | None:
        """When `expire` has something to do next; None for never."""
        times = [client.expires for client in self._clients.values()]
        times += [listener.paused_until for listener in self._listeners if listener.paused_until is not None]
        return min(times, default=None)

    def expire(self) -> None:
        """Drop the clients whose time is over; accept others again after a pause."""
        now = self._now()
        for listener in self._listeners:
            if listener.paused_until is not None and listener.paused_until <= now and listener.server is not None:
                listener.paused_until = None
                self._poller.change(listener.server.fileno(), READ)
        for client in [client for client in self._clients.values() if client.expires <= now]:
            self._drop(client)

    def close(self) -> None:
        """Drop everybody and remove the sockets."""
        for client in list(self._clients.values()):
            self._drop(client)
        for listener in self._listeners:
            if listener.server is not None and not listener.lost():
                with suppress(OSError):  # a stale socket refuses connections, and clients say so
                    os.unlink(listener.path)
        self._close_doors()

    def _close_doors(self) -> None:
        for listener in self._listeners:
            if listener.server is not None:
                self._poller.drop(listener.server.fileno())
                listener.server.close()
                listener.server, listener.paused_until = None, None

    def _accept(self, listener: _Listener, _fd: int, _events: list[HostEvent]) -> None:
        assert listener.server is not None
        began, turned_away = self._now(), False
        for _ in range(ACCEPTS_PER_TURN):
            try:
                connection, _address = listener.server.accept()
            except (BlockingIOError, ConnectionAbortedError):
                break  # no further one, or gone again
            except OSError:  # out of descriptors: trying again at once would only burn a core
                self._stop_accepting(listener, PAUSE_SECONDS)
                return
            turned_away = not self._admit(connection) or turned_away
        if turned_away:
            self._stop_accepting(listener, (self._now() - began) / FLOOD_SHARE)

    def _stop_accepting(self, listener: _Listener, seconds: float) -> None:
        assert listener.server is not None
        self._poller.change(listener.server.fileno(), 0)
        listener.paused_until = self._now() + seconds

    def _admit(self, connection: socket.socket) -> bool:
        """Admit a client; False when it was turned away with the seconds until it may try again."""
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        uid = self._whose(int(struct.unpack("3I", credentials)[1]))
        wait = self._rate_limited(uid)
        connection.setblocking(False)
        if wait or not self._make_room(uid):
            with suppress(OSError):
                connection.send(b'{"busy":%.3f}\n' % (wait or USER_EVERY_SECONDS), socket.MSG_NOSIGNAL)
            connection.close()
            return False
        self._count += 1
        client = _Client(self._count, connection, uid, self._now() + REQUEST_SECONDS)
        self._clients[connection.fileno()] = self._numbers[client.number] = client
        self._poller.add(connection.fileno(), READ, self._ready)
        return True

    def _rate_limited(self, uid: int) -> float:
        """Seconds until this user may send a request; 0 when that is now."""
        now = self._now()
        if uid in {0, os.getuid()}:
            return self._own.take(uid, now)
        return self._each.take(uid, now) or self._all.take(uid, now)

    def _make_room(self, uid: int) -> bool:
        """Make room for one more, at the cost of the user with the most connections."""
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
        if client.requested:
            if client.text:
                self._flush(client)
            else:
                self._drop(client)  # it hung up before its answer
            return
        try:
            data = client.socket.recv(LINE_LIMIT_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        client.text += data
        client.reads += 1
        line, newline, _more = client.text.partition(b"\n")
        if newline and len(line) <= LINE_LIMIT_BYTES:
            client.requested, client.text, client.expires = True, b"", self._now() + ANSWER_SECONDS
            self._poller.change(fd, 0)
            events.append(Request(client.number, client.uid, line))
        elif newline or not data or len(client.text) > LINE_LIMIT_BYTES or client.reads >= READS_LIMIT:
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
