"""What every HTTP answer of a cloud must keep: one deadline for the whole exchange, and a body of bounded size.

The time-out of `http.client` is one of each step: a server that sends a byte a second is waited for without an end.
An SDK reads a body of any size into memory, which belongs to the machine's jobs.
"""

import http.client
import io
import socket
import time
from collections.abc import Iterator
from typing import Any


class Connection(http.client.HTTPConnection):
    """One request. After ``seconds`` from here whatever still has to come raises TimeoutError. No proxy, no redirect."""

    def __init__(self, host: str, port: int, seconds: float) -> None:
        super().__init__(host, port, timeout=seconds)
        self._end = time.monotonic() + seconds

    def connect(self) -> None:
        """Connect; what is read from now on has the rest of the time."""
        super().connect()
        self.sock: Any = _Socket(self.sock, self._end)


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
            raise TimeoutError("the answer came too slowly")
        self._inner.settimeout(left)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


LONGEST = 8 * 2**20
"""Bytes of a whole answer, unpacked; what a cloud says of one machine is a small part of it."""


class TooLongError(Exception):
    """An answer had more than `LONGEST` bytes: whoever sent it, it is nothing that was asked for."""

    def __init__(self) -> None:
        super().__init__(f"it has more than {LONGEST // 2**20} MB")


class Limited:
    """The ``raw`` of a response of `requests` or of the like: what is read in pieces ends at `LONGEST`, all else is as before."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def stream(self, amount: int = 65_536, decode_content: bool | None = None) -> Iterator[bytes]:
        """The unpacked body, piece by piece. Raises TooLongError."""
        left = LONGEST
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
