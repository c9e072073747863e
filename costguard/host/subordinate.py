"""Whose a subordinate user id is: one person may have tens of thousands of them (subuid(5)), and counts as one.

Read from files alone, because a user database may be a server that hangs. Nobody gains a right by it: no number that was
given away counts as root or as the agent's own user.
"""

import os
from collections.abc import Iterator

from costguard.host.limits import SUBORDINATE

MOST = 1 << 20
"""Bytes of a file that are looked at: tens of thousands of users."""


def person(uid: int, etc: str = "/etc") -> int:
    """The user to whom ``subuid`` gives this id; the first id of its range, where that is nobody known here; else itself."""
    if uid < SUBORDINATE:
        return uid
    for owner, first, count, *_ in _rows(f"{etc}/subuid", 3):
        if first.isdecimal() and count.isdecimal() and int(first) <= uid < int(first) + int(count):
            found = owner if owner.isdecimal() else _number(owner, etc)
            return int(first) if found is None or int(found) in {0, os.getuid()} else int(found)
    return uid


def _number(name: str, etc: str) -> str | None:
    known = (row[2] for row in _rows(f"{etc}/passwd", 3) if row[0] == name and row[2].isdecimal())
    return next(known, None)


def _rows(path: str, fields: int) -> Iterator[list[str]]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read(MOST)
    except OSError:
        return
    for line in text.splitlines():
        row = line.strip().split(":")
        if len(row) >= fields:
            yield row
