"""Ask a server on this machine for one page, without ever waiting for it.

A request is begun in one look and its answer read in later ones. Only loopback addresses are asked, no proxy is used and no
redirect followed; an answer may have 1 MiB and takes no longer than its time.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from costguard.answers import AnswerError, HttpAnswer, parse
from costguard.readers.host.listening import make_socket

if TYPE_CHECKING:
    import socket

LIMIT_BYTES = 1 << 20
"""Largest page that is read: one server with eight engines writes some 500 kB."""

WITHIN_SECONDS = 30.0
"""Seconds for an answer: two or three looks."""

_READ_BYTES = 1 << 16
RESTS_SECONDS = 30.0
"""A server that was just seen at work is asked again after this time; its work counts for longer."""

TURNS = 16
"""How often a request goes on when data comes; then it waits for the next look, so that a dripping server costs nothing."""


class PageError(Exception):
    """Why there is no page: *does not answer*. ``refused``: nobody listens there."""

    def __init__(self, words: str, *, refused: bool = False) -> None:
        super().__init__(words)
        self.refused = refused


class Fetched(NamedTuple):
    """A whole answer, and when it was asked for, on the boot clock."""

    status: int
    body: bytes
    asked: float


def is_loopback(address: str) -> bool:
    """Whether nothing sent to this numeric address leaves the machine."""
    import socket  # here and below: a machine on which nobody is asked does not load it

    if address == "::1":
        return True
    try:
        return socket.inet_pton(socket.AF_INET, address)[0] == 127
    except OSError:
        return False


class Page:
    """One page of one server, asked for again and again. ``header`` is one more line of the request, which may hold a secret.

    ``keep``: keep the connection between two requests. ``refuse``: called once connected, before anything is sent; why nothing may
    be sent, or empty. ``tls``: speak it without checking the certificate, since on loopback nobody can stand
    in between. ``beside``: the process in whose network the server is, 0 for this process's own.
    """

    def __init__(
        self,
        address: str,
        port: int,
        path: str,
        *,
        header: str = "",
        keep: bool = False,
        limit: int = LIMIT_BYTES,
        within: float = WITHIN_SECONDS,
        refuse: Callable[[], str] = lambda: "",
        tls: bool = False,
        proc: str = "/proc",
        beside: int = 0,
    ) -> None:
        if not is_loopback(address):
            raise ValueError("only addresses of this machine are asked")
        self._address, self._port = address, port
        host = f"[{address}]" if ":" in address else address
        lines = (f"GET {path} HTTP/1.1", f"Host: {host}:{port}", "Accept: */*", "User-Agent: costguard")
        kept = "keep-alive" if keep else "close"
        self._request = "\r\n".join((*lines, *([header] if header else []), f"Connection: {kept}", "", "")).encode()
        self._keep, self._limit, self._within, self._refuse = keep, limit, within, refuse
        self._tls, self._proc, self._beside = tls, proc, beside
        self._waits: tuple[type[OSError], ...] = (BlockingIOError,)  # what says that there is nothing to do yet
        self._socket: socket.socket | None = None
        self._used = False  # whether this connection has carried an answer
        self._asked: float | None = None
        self._turns = 0
        self._left = b""  # of the request, to be sent
        self._raw = b""  # of the answer
        self._sent = False  # whether the connection was looked at, and sending has begun

    def __repr__(self) -> str:
        """Without the request, which may hold a secret."""
        return f"Page({self._address!r}, {self._port})"

    @property
    def asked(self) -> float | None:
        """When the request under way was begun; None when there is none."""
        return self._asked

    def fileno(self) -> int:
        """The socket of a request under way, else -1."""
        waits = self._socket is not None and self._asked is not None and self._turns < TURNS
        return self._socket.fileno() if waits and self._socket is not None else -1

    def close(self) -> None:
        """End the request and the connection."""
        self._asked = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def ask(self, now: float) -> None:
        """Begin a request, if none is under way. Raises PageError."""
        if self._asked is not None:
            return
        self._asked, self._left, self._raw, self._turns = now, self._request, b"", 0
        try:
            if self._socket is None or self._is_stale(self._socket):
                self._connect()
        except OSError as error:
            self._fail(error)

    def look(self, now: float) -> Fetched | None:
        """Go on with the request under way; the answer once it is complete. If it raises PageError, the request is over."""
        if self._asked is None:
            return None
        self._turns += 1
        try:
            found = self._go_on()
        except OSError as error:
            self._fail(error)
        except AnswerError as error:
            self.close()
            raise PageError(str(error)) from error
        except PageError:
            self.close()
            raise
        if found is None:
            if now - self._asked >= self._within:
                self.close()
                raise PageError("does not answer")
            return None
        asked = self._asked
        self._asked, self._used = None, True
        if not (found.kept and self._keep):
            self.close()
        return Fetched(found.status, found.body, asked)

    def _fail(self, error: OSError) -> None:
        import errno

        self.close()
        if error.errno == errno.ECONNREFUSED:
            raise PageError("refuses the connection", refused=True) from error
        if type(error).__name__.startswith("SSL"):
            raise PageError("does not speak TLS") from error
        raise PageError(f"cannot be asked ({error.strerror})") from error

    def _is_stale(self, connection: "socket.socket") -> bool:
        """Whether a kept connection was closed meanwhile, or has data that nobody asked for."""
        try:
            connection.recv(1)
        except self._waits:
            return False
        except OSError:
            return True
        return True

    def _connect(self) -> None:
        import socket

        if self._socket is not None:
            self._socket.close()
        self._used = self._sent = False
        family = socket.AF_INET6 if ":" in self._address else socket.AF_INET
        self._socket = make_socket(family, socket.SOCK_STREAM, proc=self._proc, beside=self._beside)
        try:
            self._socket.connect((self._address, self._port))
        except BlockingIOError:  # under way
            return

    def _go_on(self) -> HttpAnswer | None:
        """Send, or read what is there. Raises OSError, AnswerError and PageError."""
        if self._left:
            self._send()
            return None
        assert self._socket is not None  # while a request is under way
        while True:
            try:
                data = self._socket.recv(_READ_BYTES)
            except self._waits:
                return None
            except ConnectionResetError:
                data = b""
            if not data and self._used and not self._raw:  # the server gave the kept connection up at that moment
                self._left = self._request
                self._connect()
                self._send()
                return None
            self._raw += data
            if (found := parse(self._raw, closed=not data, limit=self._limit)) is not None:
                return found

    def _send(self) -> None:
        """Send what is left of the request, once the connection stands. Raises OSError and PageError."""
        assert self._socket is not None  # while a request is under way
        if not self._sent:
            if not self._stands(self._socket):
                return
            if words := self._refuse():
                raise PageError(words)
            self._sent = True
            if self._tls:
                self._socket = self._secured(self._socket)
        try:
            self._left = self._left[self._socket.send(self._left) :]
        except self._waits:
            return
        except (BrokenPipeError, ConnectionResetError):
            if not self._used:
                raise
            self._left = b""  # `_go_on` sees its end, and tries anew

    def _secured(self, connection: "socket.socket") -> "socket.socket":
        """The connection with TLS, whose handshake the first send begins."""
        import ssl  # here: it is large, and few servers need it

        self._waits = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context.wrap_socket(connection, do_handshake_on_connect=False)

    @staticmethod
    def _stands(connection: "socket.socket") -> bool:
        """Whether it is connected. Raises OSError when it will not be."""
        import os
        import socket

        if failed := connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(failed, os.strerror(failed))
        try:
            connection.getpeername()
        except OSError:
            return False
        return True
