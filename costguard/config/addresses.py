"""Whether the addresses of channels are where the configuration says: a look at the place, not into it, at start and reload."""

import os
import stat
from collections.abc import Mapping
from typing import Any

OTHERS = 0o077


def missing(effective: Mapping[str, Any]) -> str | None:
    """Why messages over some channels cannot leave the machine; None where nothing is known against it. Never an address."""
    channels = effective["notify"]["channels"]
    found = [f"{name}: {why}" for name, channel in channels.items() if (why := _why(str(channel.get("urls", ""))))]
    if not found:
        return None
    who = "nobody beyond this machine is told" if len(found) == len(channels) else "not all channels are told"
    return f"{who}: {'; '.join(found)}; mend it, then `sudo systemctl restart costguard`"


def _why(reference: str) -> str:
    """Why the addresses of one channel cannot be read; empty where they can, or nobody knows before it is tried."""
    kind, _, place = reference.partition(":")
    if kind == "env":
        return "" if place in os.environ else f"the environment variable {place} is not set"
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
        return f"{path} is no file"
    if private and found.st_mode & OTHERS:
        return f"other users can read or change {path} (sudo chmod 600 {path})"
    return "" if found.st_size else f"{path} is empty"
