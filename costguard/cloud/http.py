"""HTTP to a cloud: one deadline for the whole exchange, and a body of bounded size.

The time-out of `http.client` is one of each step: a server that sends a byte a second is waited for without an end.
What stays resident speaks `costguard.cloud.plain` instead. An SDK reads a body of any size into memory, which belongs to the machine's jobs.
"""

import http.client
import io
import socket
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from costguard.cloud.plain import SlowError


class DeadlineConnection(http.client.HTTPConnection):
    """One request, without proxies or redirects. The whole exchange has ``seconds`` from now.

    Raises SlowError where the answer is late, and what `http.client` raises (OSError, HTTPException).
    """

    def __init__(self, host: str, port: int, seconds: float) -> None:
        super().__init__(host, port, timeout=seconds)
        self._end = time.monotonic() + seconds

    def connect(self) -> None:
        """Connect; what is read from now on has the rest of the time."""
        super().connect()
        self.sock: Any = _Socket(self.secured(self.sock), self._end)

    def secured(self, plain: socket.socket) -> socket.socket:
        """What is spoken through: the plain connection, unless a plug-in brings TLS, whose library the resident reader is spared."""
        return plain


def for_tokens(given: object, option: str) -> str:
    """The address in an option, without its last slash; empty where none is set.

    ``option``: its path in the configuration, for the hint. Raises CloudError (``refused``) for http beyond this machine.
    """
    from costguard.cloud.api import CloudError

    endpoint = str(given or "").rstrip("/")
    parts = urlsplit(endpoint)
    if parts.scheme == "http" and parts.hostname not in {"127.0.0.1", "::1", "localhost"}:
        text = f"`{endpoint}` is not encrypted: no token is sent there"
        raise CloudError("refused", text, code="endpoint", hint=f"set {option} to an https address")
    return endpoint


def whole(answer: http.client.HTTPResponse, longest: int) -> bytes:
    """The body, up to ``longest`` bytes. Raises IncompleteRead for one that is shorter than its own length says.

    `http.client` gives the beginning of a cut answer without a word, and half a name is another name.
    """
    body = answer.read(longest)
    if answer.length:
        raise http.client.IncompleteRead(body, answer.length)
    return body


class _Socket:
    """What `http.client` needs of a socket."""

    def __init__(self, inner: socket.socket, end: float) -> None:
        self._inner = inner
        self._end = end

    def sendall(self, data: bytes) -> None:
        self._inner.sendall(data)

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Body(self._inner, self._end))

    def close(self) -> None:
        self._inner.close()


class _Body(io.RawIOBase):
    """The bytes of a socket, each of them before the deadline."""

    def __init__(self, inner: socket.socket, end: float) -> None:
        self._inner = inner
        self._end = end
        self._raw = inner.makefile("rb", buffering=0)  # keeps the socket open while an answer is read

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._end - time.monotonic()
        if left <= 0:
            raise SlowError("the answer came too slowly")
        self._inner.settimeout(left)
        try:
            return self._raw.readinto(buffer)
        except TimeoutError:
            raise SlowError("the answer came too slowly") from None

    def close(self) -> None:
        self._raw.close()
        super().close()


LONGEST_BYTES = 8 * 2**20
"""Bytes of a whole answer, unpacked; what a cloud says of one machine is far less."""


class TooLongError(Exception):
    """An answer had more than `LONGEST_BYTES` bytes, so it is not what was asked for."""

    def __init__(self) -> None:
        super().__init__(f"it has more than {LONGEST_BYTES // 2**20} MB")


class Limited:
    """The ``raw`` of a response of `requests` or of the like: what is read in pieces ends at `LONGEST_BYTES`, all else is as before."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def stream(self, amount: int = 65_536, decode_content: bool | None = None) -> Iterator[bytes]:
        """The unpacked body, piece by piece. Raises TooLongError."""
        left = LONGEST_BYTES
        for piece in self._inner.stream(amount, decode_content=decode_content):
            left -= len(piece)
            if left < 0:
                self._inner.close()
                raise TooLongError
            yield piece

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def limit(response: Any, **_options: object) -> None:
    """A hook of `requests` for each response, before anything is read of it."""
    response.raw = Limited(response.raw)
