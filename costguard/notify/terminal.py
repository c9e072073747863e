"""The channel `terminal`: the terminal that costguard was started on."""

import os
import select
import stat
import time
import unicodedata
from collections.abc import Callable, Mapping, Sequence

from costguard.notify import terminals
from costguard.notify.message import DeliveryError, Message

DEFAULT_SECONDS = 5.0
"""Seconds a terminal may take when nothing else is said."""


UNREAD = "nobody reads it: its other side is stopped"
STUCK = "does not take the message (stopped, or nobody reads it)"
DENIED = "belongs to somebody else"


def deliver(message: Message, settings: Mapping[str, object]) -> str:
    """Write the message to the terminal named by ``settings["tty"]``, else to the one that standard error is."""
    path = settings.get("tty") or (os.ttyname(2) if os.isatty(2) else "")
    if not isinstance(path, str) or not path:
        raise DeliveryError("costguard has no terminal of its own", "use the channel wall")
    procfs = str(settings.get("procfs") or "/proc")
    for trouble in write_all([path], message, seconds(settings), procfs).values():
        raise DeliveryError(f"{path}: {trouble}")
    return f"the agent's own ({path})"


def seconds(settings: Mapping[str, object]) -> float:
    """How long a channel may take."""
    value = settings.get("seconds")
    return float(value) if isinstance(value, int | float) else DEFAULT_SECONDS


def write_all(paths: Sequence[str], message: Message, limit: float, procfs: str) -> dict[str, str]:
    """Write to every terminal without ever hanging on one; words for each at which nobody got the whole text."""
    end = time.monotonic() + limit
    troubles = {}
    for number, path in enumerate(paths):
        share = (end - time.monotonic()) / (len(paths) - number)
        if words := write(path, message, max(0.05, share)):
            troubles[path] = words
    return dict.fromkeys(terminals.unread(paths, procfs), UNREAD) | troubles


def write(path: str, message: Message, limit: float) -> str:
    """Write to one terminal; words when it did not get the whole text."""
    return _with(path, lambda fd: _write_all(fd, lines(message), time.monotonic() + limit))


def obstacle(path: str) -> str:
    """Why nothing could be written to a terminal now, without writing."""
    return _with(path, lambda fd: "" if select.select([], [fd], [], 0)[1] else STUCK)


def _with(path: str, do: Callable[[int], str]) -> str:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except PermissionError:
        return DENIED
    except OSError as error:
        return error.strerror or "cannot be opened"
    try:
        if not stat.S_ISCHR(os.fstat(fd).st_mode) or not os.isatty(fd):
            return "is not a terminal"
        return "shows pictures, and no text" if terminals.shows_pictures(fd) else do(fd)
    except OSError as error:
        return error.strerror or "cannot be written"
    finally:
        os.close(fd)


def lines(message: Message) -> bytes:
    """The message as a terminal shows it: on lines of its own, also where a program draws in raw mode."""
    text = "\r\n".join(clean(message.text).split("\n"))
    return f"\r\n\a{text}\r\n".encode("utf-8", "replace")


def clean(text: str) -> str:
    """Without anything that could steer a terminal: control characters, format characters, lone surrogates."""
    kept = (
        char if char == "\n" or unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Co"} else " " for char in text
    )
    return "".join(kept)


def _write_all(fd: int, data: bytes, end: float) -> str:
    while data:
        left = end - time.monotonic()
        if left <= 0 or not select.select([], [fd], [], left)[1]:
            return STUCK
        try:
            data = data[os.write(fd, data) :]
        except BlockingIOError:
            time.sleep(0.01)  # the terminal said it was ready for less than it was given
    return ""
