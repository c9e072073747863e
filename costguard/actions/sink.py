"""Where the record of an incident goes before this machine may end, so that it outlives the machine.

A web address that takes JSON (a webhook, or with ``method = "PUT"`` a place that keeps each record under its own name), a
syslog server over TCP, and a tag of the machine, which its caller writes: it ends with the machine. Credentials stand in files, never in the configuration.
"""

import contextlib
import http.client
import json
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import IO, NamedTuple

from costguard import record_address
from costguard.masking import mask

PAUSE_SECONDS = (0.2, 1.0, 3.0)
"""Seconds before each further try after a technical failure, while there is time."""

TRY_SECONDS = 10.0
"""The longest single try."""

TAG_SECONDS = 10.0
"""The longest that the tag takes: it comes first, and the other places need their time."""

_AGAIN = frozenset((408, 425, 429, 500, 502, 503, 504))
_PUT_AGAIN = frozenset((409,))  # another request for this name was under way: an earlier try
_THERE = 412
_SYSLOG_PRIORITY = 10 * 8 + 5  # security/authorisation (10), notice (5); RFC 5424, section 6.2.1


class SinkError(Exception):
    """A record could not be delivered. ``again`` says whether another try may help."""

    def __init__(self, message: str, *, again: bool) -> None:
        super().__init__(message)
        self.again = again


class SinkOutcome(NamedTuple):
    """What became of one sink: ``trouble`` is empty when it has the record, ``proof`` is its own answer."""

    sink: str
    trouble: str = ""
    proof: str = ""


def deliver(
    settings: Mapping[str, object],
    record: Mapping[str, object],
    deadline: float,
    tag: Callable[[float], str] | None = None,
    called: str = "the sink",
) -> tuple[SinkOutcome, ...]:
    """Give the record to every configured sink, one after the other, within ``deadline`` seconds together. Never raises.

    ``tag`` writes the machine's tag within so many seconds, and returns a message when it could not; else empty.
    ``called``: what messages call the address.
    """
    end = time.monotonic() + deadline
    data = json.dumps(record, separators=(",", ":")).encode()
    found = []
    if tag is not None:
        found.append(SinkOutcome("tag", tag(min(deadline, TAG_SECONDS))))
    if settings.get("url") and (mistake := record_address.overwrites(settings)):
        found.append(SinkOutcome("url", mistake))
    elif settings.get("url"):
        method, url = str(settings.get("method") or "POST"), str(settings["url"])
        where = record_address.address(url, record, time.time()) if method == "PUT" else url
        request = SinkRequest(where, method, data, settings.get("token_file"), called)
        found.append(_persist("url", lambda left, number: _send(request, left, number), end))
    if settings.get("syslog"):
        found.append(_persist("syslog", lambda left, _: _log(str(settings["syslog"]), record, data, left), end))
    return tuple(found)


class SinkRequest(NamedTuple):
    """One record on its way; every try goes to the same address."""

    url: str
    method: str
    data: bytes
    token_file: object
    called: str


def _persist(name: str, attempt: Callable[[float, int], str], end: float) -> SinkOutcome:
    """Try again after a technical failure until the time is over; a try gets its seconds and its number, from 0."""
    message = "no time was left for it"
    for number, pause in enumerate((*PAUSE_SECONDS, None)):
        left = end - time.monotonic()
        if left <= 0:
            break
        try:
            return SinkOutcome(name, "", attempt(min(left, TRY_SECONDS), number))
        except SinkError as error:
            message = str(error)
            if not error.again or pause is None or time.monotonic() + pause >= end:
                break
        time.sleep(pause)
    return SinkOutcome(name, message)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirected POST would arrive as a GET without its record."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> None:
        """None makes the answer an error with its own code."""


def _send(request: SinkRequest, seconds: float, number: int) -> str:
    put = request.method == "PUT"
    headers = {"Content-Type": "application/json", "User-Agent": "costguard", **_authorisation(request.token_file)}
    if put:
        headers["If-None-Match"] = "*"  # nothing that is there is overwritten
    sent = urllib.request.Request(request.url, request.data, headers, method=request.method)  # noqa: S310 - http and https only
    opener = urllib.request.build_opener(_NoRedirect)
    try:
        with opener.open(sent, timeout=seconds) as answer:
            with contextlib.suppress(OSError, http.client.HTTPException):
                answer.read(65536)
            return f"HTTP {answer.status}"
    except urllib.error.HTTPError as error:
        error.close()
        if put and error.code == _THERE and number:
            return f"HTTP {error.code}: an earlier try had already arrived"  # the name is this record's own
        if put and error.code == _THERE:
            raise SinkError(
                f"{request.called} already has a different record with this name, which is not overwritten", again=False
            ) from None
        raise SinkError(
            f"{request.called} answered HTTP {error.code}", again=error.code in (_AGAIN | _PUT_AGAIN if put else _AGAIN)
        ) from None
    except urllib.error.URLError as error:
        refused = isinstance(error.reason, ssl.SSLCertVerificationError)
        message = mask(str(error.reason), [request.url])
        raise SinkError(f"{request.called} cannot be reached: {message}", again=not refused) from None
    except (OSError, http.client.HTTPException) as error:
        message = mask(str(error), [request.url]) or type(error).__name__
        raise SinkError(f"{request.called} did not answer: {message}", again=True) from None


def _authorisation(path: object) -> dict[str, str]:
    if not path:
        return {}
    try:
        with open(str(path), encoding="utf-8") as file:
            token = file.read().strip()
    except (OSError, ValueError) as error:
        message = error.strerror if isinstance(error, OSError) else "it is not text"
        raise SinkError(f"the token in {path} cannot be read: {message}", again=False) from None
    if not token.isascii() or not token.isprintable():
        raise SinkError(
            f"the token in {path} has more than one line, or characters that HTTP headers do not allow", again=False
        )
    return {"Authorization": f"Bearer {token}"}


def _log(address: str, record: Mapping[str, object], data: bytes, seconds: float) -> str:
    """RFC 5424 over TCP with counted octets (RFC 6587, section 3.4.1)."""
    host, _, port = address.rpartition(":")
    name = str(record.get("machine") or "-").replace(" ", "-")[:255]
    when = datetime.now(UTC).isoformat(timespec="milliseconds")
    line = f"<{_SYSLOG_PRIORITY}>1 {when} {name} costguard - incident - ".encode() + data
    try:
        with socket.create_connection((host.strip("[]"), int(port)), seconds) as connection:
            connection.sendall(b"%d " % len(line) + line)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):  # its own close says that it took everything
                pass
    except OSError as error:
        raise SinkError(f"the syslog server {address} did not take it: {error}", again=True) from None
    return "connection closed by the server"
