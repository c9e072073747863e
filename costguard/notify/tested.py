"""Which channels a person has tested, when, and with which settings: a channel that was never tried is a promise."""

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

FILE = "channels-tested.json"
LONGEST_BYTES = 1 << 20


def digest(channel: Mapping[str, object]) -> str:
    """A number for the settings of a channel; with others it was not tested. They hold no secret, only where one stands."""
    return hashlib.sha256(json.dumps(dict(channel), sort_keys=True).encode()).hexdigest()[:16]


def keep(state: str, settings: Mapping[str, Mapping[str, object]], results: Mapping[str, bool], now: float) -> bool:
    """Remember what a test came to; ``now`` is a date. False when it cannot be written down."""
    path = os.path.join(state, FILE)
    try:
        found = known(state)
        for name, fine in results.items():
            found[name] = {"at": now, "ok": fine, "settings": digest(settings[name])}
        os.makedirs(state, mode=0o700, exist_ok=True)
        descriptor = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(found, file)
        os.replace(f"{path}.new", path)
    except OSError:
        with suppress(OSError):
            os.unlink(f"{path}.new")
        return False
    return True


def known(state: str) -> dict[str, Any]:
    """Every channel that was tested. Raises PermissionError where this user may not know."""
    try:
        descriptor = os.open(os.path.join(state, FILE), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, encoding="utf-8") as file:
            found = json.loads(file.read(LONGEST_BYTES)) if stat.S_ISREG(os.fstat(descriptor).st_mode) else {}
    except PermissionError:
        raise
    except (OSError, ValueError):
        return {}
    return {str(name): one for name, one in found.items() if isinstance(one, dict)} if isinstance(found, dict) else {}


def last(state: str, name: str, channel: Mapping[str, object]) -> tuple[bool, float] | None:
    """Whether the last test of this channel, with these settings, arrived, and its date; None where it was never tested.

    Raises PermissionError.
    """
    found = known(state).get(name, {})
    at = found.get("at")
    if found.get("settings") != digest(channel) or not isinstance(at, int | float):
        return None
    return found.get("ok") is True, float(at)
