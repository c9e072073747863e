"""Plain HTTP to a metadata service, whose process stays: on sockets alone, with one deadline for the whole exchange.

Such a service is asked over a link-local address, which is no place for TLS, a proxy or a redirect.
"""

import re
import socket
import time
from collections.abc import Mapping
from math import isfinite
from types import TracebackType
from typing import Self

from costguard.answers import AnswerError, HttpAnswer, parse

_READ_BYTES = 1 << 16
_ADDRESS = re.compile(
    r"(?i)http://(\[[0-9a-f:.]+(?:%[\w.-]+)?\]|[a-z0-9._-]+)(?::([0-9]{1,5})?)?(/[!$->@-~]*)?", re.ASCII
)
_TARGET = re.compile(r"/[!-~]*", re.ASCII)
_FIELD = re.compile(r"[ -~]*", re.ASCII)
_SAFE = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-~")


class SlowError(TimeoutError):
    """The whole exchange took too long, although each of its steps may have come in time."""


class Connection:
    """One question, whose whole ends ``seconds`` from here; ``step`` limits each wait in it.

    Raises SlowError where the whole is late, TimeoutError where a step is.
    """

    def __init__(self, host: str, port: int, seconds: float, step: float | None = None) -> None:
        self._host, self._port = host, port
        self._step = seconds if step is None else step
        self._end = time.monotonic() + seconds
        self._socket: socket.socket | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._socket is not None:
            self._socket.close()

    def connect(self) -> None:
        """Raises OSError."""
        # bytes: of text the library of sockets would load the tables of Unicode
        where = (self._host.encode("ascii"), self._port)
        self._socket = socket.create_connection(where, self._step)  # type: ignore[arg-type]  # getaddrinfo takes bytes

    def ask(self, method: str, target: str, headers: Mapping[str, str], longest: int) -> HttpAnswer:
        """The whole answer, whose body has at most so many bytes; connects where that is not done. Raises OSError and AnswerError."""
        request = self._request(method, target, headers)
        if self._socket is None:
            self.connect()
        assert self._socket is not None
        self._socket.settimeout(self._wait())
        self._socket.sendall(request)
        raw = b""
        while True:
            data = self._received(self._socket)
            raw += data
            if (answer := parse(raw, closed=not data, limit=longest)) is not None:
                return answer

    def _request(self, method: str, target: str, headers: Mapping[str, str]) -> bytes:
        host = f"[{self._host}]" if ":" in self._host else self._host
        fields = {
            "Host": host if self._port == 80 else f"{host}:{self._port}",
            "Accept-Encoding": "identity",
            **headers,
        }
        lines = [f"{name}: {value}" for name, value in fields.items()]
        if not _TARGET.fullmatch(target) or not all(_FIELD.fullmatch(line) for line in lines):
            raise AnswerError("cannot be asked this: the request contains a line break, or characters other than ASCII")
        return "\r\n".join((f"{method} {target} HTTP/1.1", *lines, "", "")).encode("ascii")

    def _wait(self) -> float:
        """Seconds left for the next step. Raises SlowError."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise SlowError("the answer came too slowly")
        return min(left, self._step)

    def _received(self, inner: socket.socket) -> bytes:
        wait = self._wait()
        inner.settimeout(wait)
        try:
            return inner.recv(_READ_BYTES)
        except TimeoutError:
            raise (SlowError if wait < self._step else TimeoutError)("the answer came too slowly") from None


def address(endpoint: str) -> tuple[str, int, str] | None:
    """Host, port and path of ``http://HOST[:PORT][/PATH]``; None for anything else."""
    found = _ADDRESS.fullmatch(endpoint)
    if found is None:
        return None
    host, port, path = found.groups()
    number = int(port or 80)
    return (host.strip("[]").lower(), number, (path or "").rstrip("/")) if 0 < number < 65536 else None


def quoted(text: str) -> str:
    """A name as one part of a path or of a query."""
    return "".join(chr(byte) if byte in _SAFE else f"%{byte:02X}" for byte in text.encode())


def retry_after(header: object) -> float:
    """The seconds of a header ``Retry-After``; 0 for none, and for a date."""
    try:
        seconds = float(str(header))
    except ValueError:
        return 0.0
    return seconds if isfinite(seconds) and seconds > 0.0 else 0.0
