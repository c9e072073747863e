"""Ask the running agent: what the verbs of the command line use."""

import json
import os
import socket
import struct
import time
from contextlib import suppress

from costguard.errors import REFUSED, CostguardError
from costguard.host.address import address
from costguard.host.control import LINE_LIMIT, SOCKET


class AgentUnreachableError(CostguardError):
    """No agent answers."""


class AgentBusyError(CostguardError):
    """The agent turned this user away: it is asked too often. Nothing was done."""


FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""Seconds before a further try, while an agent has no time for this user."""

ANSWER_LIMIT = 8 << 20
"""Bytes; whoever sends more is no agent."""


def ask(runtime: str, request: dict[str, object], timeout: float = 10.0) -> dict[str, object]:
    """Send one request to the agent of this runtime directory and give its answer.

    Raises AgentUnreachableError when none runs there, none answers within ``timeout`` seconds, or the answer
    cannot be read; AgentBusyError when it did not let this user in all that time; ValueError when the request is longer than 64 KiB.
    """
    line = json.dumps(request, separators=(",", ":")).encode() + b"\n"
    if len(line) > LINE_LIMIT:
        raise ValueError("the request is longer than 64 KiB")
    path = os.path.join(runtime, SOCKET)
    end, pause = time.monotonic() + timeout, FIRST_PAUSE
    while True:
        answer = _try(path, line, runtime, end)
        wait = answer.get("busy") if answer is not None else pause
        if answer is not None and wait is None:
            return answer
        left = end - time.monotonic()
        if left <= 0:
            break
        asked = float(wait) if isinstance(wait, int | float) else pause
        time.sleep(min(max(asked, pause), LONGEST_PAUSE, left))
        pause = min(LONGEST_PAUSE, pause * 2.0)
    raise AgentBusyError(
        f"the costguard agent at {path} had no time for uid {os.geteuid()} within {timeout:g} s, because it is asked too often; "
        "nothing was done",
        "see which program asks it all the time, then try again",
        REFUSED,
    )


def _try(path: str, line: bytes, runtime: str, end: float) -> dict[str, object] | None:
    """One connection: the answer, or None when there was no place for it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            if not _connected(connection, path, end):
                return None
            with suppress(BrokenPipeError, ConnectionResetError):  # turned away: its answer says so
                connection.sendall(line)
            answer = _read_line(connection)
        except (FileNotFoundError, ConnectionRefusedError) as error:
            raise AgentUnreachableError(
                f"no costguard agent runs with its runtime directory at {runtime}",
                "start one with `costguard run`, or name another one's folder with --state-dir",
                REFUSED,
            ) from error
        except OSError as error:
            raise AgentUnreachableError(
                f"the costguard agent at {path} did not answer ({error})",
                "see what it says: `journalctl -t costguard` where it is a service, else the terminal where it runs",
                REFUSED,
            ) from error
    return _decode(answer, path)


def _connected(connection: socket.socket, path: str, end: float) -> bool:
    """Connect, waiting in the kernel's own queue: a connection that does not wait fails while that is full."""
    left = max(0.001, end - time.monotonic())
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(left), int(left % 1 * 1e6)))
    try:
        with address(path) as name:
            connection.connect(name)
    except BlockingIOError:
        return False
    connection.settimeout(max(0.001, end - time.monotonic()))
    return True


def _read_line(connection: socket.socket) -> bytes:
    text = b""
    while not text.endswith(b"\n"):
        data = connection.recv(LINE_LIMIT)
        if not data:
            break
        text += data
        if len(text) > ANSWER_LIMIT:
            raise OSError("its answer has no end")
    return text


def _decode(answer: bytes, path: str) -> dict[str, object]:
    try:
        value = json.loads(answer)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise AgentUnreachableError(
            f"the costguard agent at {path} hung up without an answer",
            "it may be ending or busy: try again, then see what it says: `journalctl -t costguard` where it is a service",
            REFUSED,
        )
    return value
