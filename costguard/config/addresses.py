"""Whether the addresses of channels are where the configuration says: a look at the place, not into it, at start and reload."""

import os
import stat
from collections.abc import Mapping
from typing import Any, NamedTuple

OTHERS = 0o077


class Lack(NamedTuple):
    """Why the addresses of a channel cannot be read. ``certain``: for every process of this machine, not for this one alone."""

    channel: str
    why: str
    certain: bool


def lacks(channels: Mapping[str, Mapping[str, object]]) -> list[Lack]:
    """What is known against channels beyond this machine, as this process sees it. Never an address."""
    found = []
    for name, channel in channels.items():
        kind, _, place = str(channel.get("urls", "")).partition(":")
        if why := _why(kind, place):
            found.append(Lack(name, why, certain=kind == "file" and not _closed(place)))
    return found


def missing(effective: Mapping[str, Any]) -> str | None:
    """Why the agent's messages over some channels cannot leave the machine; None where nothing is known against it."""
    channels = effective["notify"]["channels"]
    found = [f"{lack.channel}: {lack.why}" for lack in lacks(channels)]
    if not found:
        return None
    who = "nobody beyond this machine is told" if len(found) == len(channels) else "not all channels are told"
    return f"{who}: {'; '.join(found)}; mend it, then `sudo systemctl restart costguard`"


def _why(kind: str, place: str) -> str:
    """Why the addresses of one channel cannot be read; empty where they can, or nobody knows before it is tried."""
    if kind == "env":
        return "" if place in os.environ else f"the environment variable {place} is not set"
    if kind == "credential":
        folder = os.environ.get("CREDENTIALS_DIRECTORY")
        return _of_file(os.path.join(folder, place), private=False) if folder else f"systemd gave no credential {place}"
    return _of_file(place, private=True) if kind == "file" else ""


def _closed(path: str) -> bool:
    """Whether this user may not even look for a file."""
    try:
        os.stat(path)
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def _of_file(path: str, *, private: bool) -> str:
    try:
        found = os.stat(path)
    except OSError as error:
        return f"{path}: {error.strerror or 'it cannot be read'}"
    if not stat.S_ISREG(found.st_mode):
        return f"{path} is no file"
    if private and found.st_mode & OTHERS:
        return f"other users can read or change {path} (sudo chmod 600 {path})"
    return "" if found.st_size else f"{path} is empty"
