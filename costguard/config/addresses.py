"""Whether the addresses of channels are where the configuration says, and look like addresses: a look at start and reload.

What a service takes is another matter: only a message shows it.
"""

import os
import stat
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from costguard.files import is_closed, open_file

OTHERS = 0o077
LONGEST_BYTES = 64 << 10
"""How much of a file with addresses is read."""


class Lack(NamedTuple):
    """Why the addresses of a channel are of no use. ``certain``: for every process of this machine, not for this one alone.

    ``partly``: others of the channel may be.
    """

    channel: str
    why: str
    certain: bool
    partly: bool = False


def address_lines(text: str) -> list[str]:
    """The addresses in a text, one a line; empty lines and those that begin with ``#`` are none."""
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def gets_warnings(level: object, kinds: Sequence[object]) -> bool:
    """Whether a channel with this level, or these kinds, gets the warning of a stop."""
    return "warning" in kinds if kinds else level != "critical"


def no_warnings(channels: Mapping[str, Mapping[str, Any]]) -> str:
    """Why no channel gets warnings, though there are channels; empty where one does."""
    if not channels or any(gets_warnings(one["level"], one["kinds"]) for one in channels.values()):
        return ""
    each = [f"{name} has {'kinds without it' if one['kinds'] else 'level critical'}" for name, one in channels.items()]
    return f"no channel gets the warning of a stop: {', '.join(each)}"


def lacks(channels: Mapping[str, Mapping[str, object]]) -> list[Lack]:
    """What is known against channels beyond this machine, as this process sees it. Never an address."""
    found = []
    for name, channel in channels.items():
        kind, _, place = str(channel.get("urls", "")).partition(":")
        if why := _why(kind, place):
            found.append(Lack(name, why, certain=kind == "file" and not is_closed(place)))
    return found


def missing(effective: Mapping[str, Any]) -> str | None:
    """Why the agent's messages over some channels cannot leave the machine; None where nothing is known against it."""
    channels = effective["notify"]["channels"]
    found = [f"{lack.channel}: {lack.why}" for lack in lacks(channels)]
    if not found:
        return None
    who = (
        "nobody outside this machine gets messages"
        if len(found) == len(channels)
        else "not every channel gets messages"
    )
    return f"{who}: {'; '.join(found)}; fix it, then `sudo systemctl restart costguard`"


def _why(kind: str, place: str) -> str:
    """Why the addresses of one channel are of no use; empty where they may be, or nobody knows before it is tried."""
    if kind == "env":
        text = os.environ.get(place)
        return f"the environment variable {place} is not set" if text is None else _of_text(place, text)
    if kind == "credential":
        folder = os.environ.get("CREDENTIALS_DIRECTORY")
        return _of_file(os.path.join(folder, place), private=False) if folder else f"systemd gave no credential {place}"
    return _of_file(place, private=True) if kind == "file" else ""


def _of_file(path: str, *, private: bool) -> str:
    try:
        found = os.stat(path)
    except OSError as error:
        return f"{path}: {error.strerror or 'it cannot be read'}"
    if not stat.S_ISREG(found.st_mode):
        return f"{path} is not a file"
    if private and found.st_mode & OTHERS:
        return f"other users can read or change {path} (sudo chmod 600 {path})"
    try:
        with open_file(path) as file:
            return _of_text(path, file.read(LONGEST_BYTES).decode("utf-8", "replace"))
    except OSError as error:
        return f"{path}: {error.strerror or 'it cannot be read'}"


def _of_text(place: str, text: str) -> str:
    """Why no line of a text can be an address."""
    urls = address_lines(text)
    if not urls:
        return f"{place} contains no address" if text else f"{place} is empty"
    return "" if any("://" in url for url in urls) else f"{place} contains no address such as SERVICE://…"
