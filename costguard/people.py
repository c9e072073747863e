"""User names for the user ids in records: looked up where they are shown, never by the guard.

The user database may be a server that hangs; without an answer in time only the id is shown.
"""

import pwd
import re
import threading
from functools import lru_cache

LOOKUP_SECONDS = 1.0
"""Deadline of the user database."""

_UID = re.compile(r"(?<![\w(])[Uu]id (\d{1,10})\b(?! \()")


def with_names(text: str) -> str:
    """``uid 1000`` becomes ``uid 1000 (ann)``, by this machine's user database."""
    return _UID.sub(lambda found: found[0][0] + _named(int(found[1]))[1:], text)


@lru_cache(maxsize=256)
def _named(uid: int) -> str:
    found: list[str] = []
    lookup = threading.Thread(target=_look_up, args=(uid, found), daemon=True)
    lookup.start()
    lookup.join(LOOKUP_SECONDS)
    name = "".join(c for c in "".join(found[:1]) if c.isprintable() and c not in "()`")[:64]
    return f"uid {uid} ({name})" if name else f"uid {uid}"


def _look_up(uid: int, found: list[str]) -> None:
    try:
        found.append(pwd.getpwuid(uid).pw_name)
    except (KeyError, OverflowError):
        return
