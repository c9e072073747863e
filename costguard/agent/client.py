"""Ask the running agent: what the verbs of the command line use."""

import json
import os
import pwd
import socket

from costguard.agent.control import LINE_LIMIT, SOCKET
from costguard.errors import REFUSED, CostguardError


class AgentUnreachableError(CostguardError):
    """No agent answers."""


def ask(runtime: str, request: dict[str, object], timeout: float = 10.0) -> dict[str, object]:
    """Send one request to the agent of this runtime directory and give its answer.

    Raises AgentUnreachableError when none runs there, none answers within ``timeout`` seconds, or the answer
    cannot be read; ValueError when the request is longer than 64 KiB.
    """
    line = json.dumps(request, separators=(",", ":")).encode() + b"\n"
    if len(line) > LINE_LIMIT:
        raise ValueError("the request is longer than 64 KiB")
    path = os.path.join(runtime, SOCKET)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout)
        try:
            connection.connect(path)
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
                "see its messages: `journalctl -u costguard` or the terminal where it runs",
                REFUSED,
            ) from error
    return _decode(answer, path)


def login() -> str:
    """The login name of the user who asks, empty when the machine knows none; it may ask a directory server."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return ""


def _read_line(connection: socket.socket) -> bytes:
    text = b""
    while not text.endswith(b"\n"):
        data = connection.recv(LINE_LIMIT)
        if not data:
            break
        text += data
    return text


def _decode(answer: bytes, path: str) -> dict[str, object]:
    try:
        value = json.loads(answer)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise AgentUnreachableError(
            f"the costguard agent at {path} hung up without an answer",
            "it may be ending or busy: try again, then see `journalctl -u costguard`",
            REFUSED,
        )
    return value
