"""The channel `terminal`: the terminal that costguard was started on."""

import os
import select
import stat
import time
import unicodedata
from collections.abc import Mapping, Sequence

from costguard.notify import terminals
from costguard.notify.message import AbsentError, DeliveryError, Message

DEFAULT_SECONDS = 5.0
"""How long a channel may take where the settings do not say."""

MOST_WAITING = 256
"""Terminals that block and are waited for at the same time, at most; each is an open file."""

NONE_OWN = "costguard has no terminal of its own (use the channel wall)"
UNREAD = "nobody reads it: the terminal program is stopped"
STUCK = "it blocks (stopped, or nobody reads it)"
DENIED = "it belongs to another user"


def deliver(message: Message, settings: Mapping[str, object]) -> str:
    """Write the message to the terminal named by ``settings["tty"]``, else to the one that standard error is."""
    path = settings.get("tty") or (os.ttyname(2) if os.isatty(2) else "")
    if not isinstance(path, str) or not path:
        raise AbsentError(NONE_OWN)
    procfs = str(settings.get("procfs") or "/proc")
    if failed := write_all([path], message, seconds(settings), procfs):
        raise DeliveryError(f"{path}: {failed[path]}")
    return f"the agent's own ({path})"


def seconds(settings: Mapping[str, object]) -> float:
    """How long a channel may take."""
    value = settings.get("seconds")
    return float(value) if isinstance(value, int | float) else DEFAULT_SECONDS


def write_all(paths: Sequence[str], message: Message, limit: float, procfs: str) -> dict[str, str]:
    """Write to every terminal, then wait for those that block; returns why each of the others did not get the whole text.

    Any user may open a thousand terminals that block: they must not use up the time of other people's.
    """
    end, text = time.monotonic() + limit, lines(message)
    failed: dict[str, str] = {}
    waiting: dict[int, tuple[str, bytes]] = {}
    for path in paths:
        fd = _open(path)
        if isinstance(fd, str):
            failed[path] = fd
        elif (rest := _put(fd, path, text, failed)) and len(waiting) < MOST_WAITING:
            waiting[fd] = (path, rest)
        else:
            os.close(fd)
            failed |= {path: STUCK} if rest else {}
    _wait(waiting, end, failed)
    return dict.fromkeys(terminals.unread(paths, procfs), UNREAD) | failed


def obstacle(path: str) -> str:
    """Why a message could not be written to this terminal now, or empty; nothing is written to find out."""
    fd = _open(path)
    if isinstance(fd, str):
        return fd
    try:
        poll = select.poll()
        poll.register(fd, select.POLLOUT)
        return "" if poll.poll(0) else STUCK
    finally:
        os.close(fd)


def _open(path: str) -> int | str:
    """Open a terminal that shows text; its descriptor, or why that is impossible."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except PermissionError:
        return DENIED
    except OSError as error:
        return error.strerror or "it cannot be opened"
    if not stat.S_ISCHR(os.fstat(fd).st_mode) or not os.isatty(fd):
        reason = "it is not a terminal"
    elif terminals.in_graphics_mode(fd):
        reason = "it is in graphics mode and shows no text"
    else:
        return fd
    os.close(fd)
    return reason


def _put(fd: int, path: str, data: bytes, failed: dict[str, str]) -> bytes:
    """Write what a terminal takes at once and return the rest, which is empty for a broken one."""
    try:
        return data[os.write(fd, data) :]
    except BlockingIOError:
        return data
    except OSError as error:
        failed[path] = error.strerror or "it cannot be written"
        return b""


def _wait(waiting: dict[int, tuple[str, bytes]], end: float, failed: dict[str, str]) -> None:
    """Write the rest to the terminals that take it in time."""
    poll = select.poll()
    for fd in waiting:
        poll.register(fd, select.POLLOUT)
    while waiting and (left := end - time.monotonic()) > 0:
        taken = False
        for fd, _ in poll.poll(left * 1000.0):
            path, rest = waiting[fd]
            left_over = _put(fd, path, rest, failed)
            taken = taken or left_over != rest
            waiting[fd] = (path, left_over)
            if not left_over:
                del waiting[fd]
                poll.unregister(fd)
                os.close(fd)
        if not taken:
            time.sleep(0.01)  # a terminal said that it was ready, but takes less
    for fd, (path, _) in waiting.items():
        failed[path] = STUCK
        os.close(fd)


def lines(message: Message) -> bytes:
    """The message as a terminal shows it: on lines of its own, also while a program draws in raw mode."""
    text = "\r\n".join(clean(message.text).split("\n"))
    return f"\r\n\a{text}\r\n".encode("utf-8", "replace")


def clean(text: str) -> str:
    """Remove what could control a terminal: control and format characters, lone surrogates."""
    kept = (
        char if char == "\n" or unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Co"} else " " for char in text
    )
    return "".join(kept)
