"""Client of the control socket: how the verbs of the command line ask the running agent."""

import json
import os
import socket
import struct
import time
from contextlib import suppress

from costguard.errors import REFUSED, CostguardError
from costguard.host.address import address
from costguard.host.control import LINE_LIMIT_BYTES, OWNERS_SOCKET, SOCKET


class AgentUnreachableError(CostguardError):
    """No agent answers."""


class AgentBusyError(CostguardError):
    """The agent turned this user away: too many requests. Nothing was done."""


FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.05, 1.0
"""Backoff between tries, while the agent turns this user away."""

ANSWER_LIMIT_BYTES = 8 << 20
"""An agent never sends more."""


LOG = "`journalctl -t costguard` if it runs as a service, else the terminal it runs in"


def ask(runtime: str, request: dict[str, object], timeout: float = 10.0) -> dict[str, object]:
    """Send one request to the agent of this runtime directory and return its answer.

    Raises AgentUnreachableError when no agent runs there, none answers within ``timeout`` seconds, or the answer
    is malformed; AgentBusyError when it turned this user away all that time; ValueError when the request exceeds 64 KiB.
    """
    line = json.dumps(request, separators=(",", ":")).encode() + b"\n"
    if len(line) > LINE_LIMIT_BYTES:
        raise ValueError("the request is longer than 64 KiB")
    path = os.path.join(runtime, SOCKET)
    end, pause = time.monotonic() + timeout, FIRST_PAUSE_SECONDS
    while True:
        answer = _try(path, line, runtime, end)
        wait = answer.get("busy") if answer is not None else pause
        if answer is not None and wait is None:
            return answer
        left = end - time.monotonic()
        if left <= 0:
            break
        wanted = float(wait) if isinstance(wait, int | float) else pause
        time.sleep(min(max(wanted, pause), LONGEST_PAUSE_SECONDS, left))
        pause = min(LONGEST_PAUSE_SECONDS, pause * 2.0)
    raise AgentBusyError(
        f"too many requests: the costguard agent at {path} turned uid {os.geteuid()} away for {timeout:g} s; nothing was done",
        "find the program that keeps asking it, then try again",
        REFUSED,
    )


def _try(path: str, line: bytes, runtime: str, end: float) -> dict[str, object] | None:
    """One connection: the answer, or None when the agent's queue is full."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            if not _connected(connection, runtime, end):
                return None
            with suppress(BrokenPipeError, ConnectionResetError):  # turned away: its answer says so
                connection.sendall(line)
            answer = _read_line(connection)
        except (FileNotFoundError, ConnectionRefusedError) as error:
            raise AgentUnreachableError(
                f"no costguard agent is running at {runtime}",
                "start one with `costguard run`, or name the folder of another one with --state-dir",
                REFUSED,
            ) from error
        except OSError as error:
            raise AgentUnreachableError(
                f"the costguard agent at {path} did not answer ({error})", f"read its log: {LOG}", REFUSED
            ) from error
    return _decode(answer, path)


def _connected(connection: socket.socket, runtime: str, end: float) -> bool:
    """Connect, waiting in the kernel's own queue: a connection that does not wait fails while that is full.

    By the door that no other user can block, for those whom it is open to; an agent of an older version has none.
    """
    left = max(0.001, end - time.monotonic())
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(left), int(left % 1 * 1e6)))
    for name in (OWNERS_SOCKET, SOCKET):
        try:
            with address(os.path.join(runtime, name)) as path:
                connection.connect(path)
        except BlockingIOError:
            return False
        except (FileNotFoundError, PermissionError, ConnectionRefusedError):
            if name == SOCKET:
                raise
        else:
            break
    connection.settimeout(max(0.001, end - time.monotonic()))
    return True


def _read_line(connection: socket.socket) -> bytes:
    text = b""
    while not text.endswith(b"\n"):
        data = connection.recv(LINE_LIMIT_BYTES)
        if not data:
            break
        text += data
        if len(text) > ANSWER_LIMIT_BYTES:
            raise OSError("its answer exceeds 8 MiB")
    return text


def _decode(answer: bytes, path: str) -> dict[str, object]:
    try:
        value = json.loads(answer)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise AgentUnreachableError(
            f"the costguard agent at {path} closed the connection without an answer",
            f"it may be shutting down: try again, then read its log: {LOG}",
            REFUSED,
        )
    return value
