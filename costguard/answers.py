"""What a server of HTTP answers, out of the bytes that have come so far.

`http.client` brings TLS and the parser of mail into a process that stays: 4 MB.
"""

from collections.abc import Mapping
from typing import NamedTuple

HEAD_BYTES = 1 << 13
"""Of a status line and its fields."""

_CHUNKS = 4096
"""Of one answer; more are no page but an attempt to take time."""


class AnswerError(Exception):
    """These bytes are no answer, and why: *does not speak HTTP*. ``long``: they are more than was to be taken."""

    def __init__(self, words: str, *, long: bool = False) -> None:
        super().__init__(words)
        self.long = long


class HttpAnswer(NamedTuple):
    """A whole answer. ``fields``: names in small letters. ``kept``: whether the connection can carry another one."""

    status: int
    body: bytes
    kept: bool
    fields: Mapping[bytes, bytes]

    def field(self, name: str) -> str:
        """One of the head; empty where there is none."""
        return self.fields.get(name.lower().encode(), b"").decode("latin-1")


def parse(raw: bytes, *, closed: bool, limit: int) -> HttpAnswer | None:
    """None while something is missing. ``closed``: nothing more will come. Raises AnswerError."""
    if raw[:5] != b"HTTP/"[: len(raw)]:
        raise AnswerError("does not speak HTTP")
    head, end, body = raw.partition(b"\r\n\r\n")
    if not end:
        if closed or len(raw) > HEAD_BYTES:
            raise AnswerError("closes the connection without an answer" if closed else "does not speak HTTP")
        return None
    first, *lines = head.split(b"\r\n")
    words = first.split(None, 2)
    if len(words) < 2 or not words[1].isdigit() or len(words[1]) != 3:
        raise AnswerError("does not speak HTTP")
    status = int(words[1])
    fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
    kept = words[0] == b"HTTP/1.1" and fields.get(b"connection", b"").lower() != b"close"
    if status in (204, 304):
        return HttpAnswer(status, b"", kept, fields)
    if fields.get(b"transfer-encoding", b"").lower() == b"chunked":
        whole = _chunked(body, limit)
    elif b"content-length" in fields:
        whole = _measured(body, fields[b"content-length"], limit)
    else:
        if len(body) > limit:
            raise _long(limit)
        whole, kept = (body if closed else None), False
    if whole is not None:
        return HttpAnswer(status, whole, kept, fields)
    if closed:
        raise AnswerError("closes the connection in the middle of its answer")
    return None


def _long(limit: int) -> AnswerError:
    return AnswerError(f"sends more than {limit >> 10} kB", long=True)


def _measured(body: bytes, length: bytes, limit: int) -> bytes | None:
    if not length.isdigit() or len(length) > 15:
        raise AnswerError("does not speak HTTP")
    size = int(length)
    if size > limit:
        raise _long(limit)
    return body[:size] if len(body) >= size else None


def _chunked(body: bytes, limit: int) -> bytes | None:
    parts: list[bytes] = []
    at = size = 0
    for _ in range(_CHUNKS):
        end = body.find(b"\r\n", at, at + 64)
        if end < 0:
            if len(body) - at > 64:
                raise AnswerError("does not speak HTTP")
            return None
        try:
            length = int(body[at:end].partition(b";")[0], 16)
        except ValueError as error:
            raise AnswerError("does not speak HTTP") from error
        size += length
        if length < 0 or size > limit:
            raise _long(limit)
        at = end + 2
        if length == 0:
            return b"".join(parts) if len(body) >= at + 2 else None
        if len(body) < at + length + 2:
            return None
        parts.append(body[at : at + length])
        at += length + 2
    raise AnswerError("sends its page in too many pieces")
