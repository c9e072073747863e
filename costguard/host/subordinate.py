"""The owner of a subordinate user id: one person may have tens of thousands of them (subuid(5)), and counts as one.

Read from files alone, because a user database may be a server that hangs. It grants no right: no subordinate id counts
as root or as the agent's own user.
"""

import os
from collections.abc import Iterator

from costguard.host.limits import SUBORDINATE

READ_LIMIT_BYTES = 1 << 20
"""Of a file, which is enough for tens of thousands of users."""


def person(uid: int, etc: str = "/etc") -> int:
    """The owner of this id in ``subuid``; the first id of its range if that user is unknown here; any other id as it is."""
    if uid < SUBORDINATE:
        return uid
    for owner, first, count, *_ in _rows(f"{etc}/subuid", 3):
        if first.isdecimal() and count.isdecimal() and int(first) <= uid < int(first) + int(count):
            found = owner if owner.isdecimal() else _uid_of(owner, etc)
            return int(first) if found is None or int(found) in {0, os.getuid()} else int(found)
    return uid


def _uid_of(name: str, etc: str) -> str | None:
    uids = (row[2] for row in _rows(f"{etc}/passwd", 3) if row[0] == name and row[2].isdecimal())
    return next(uids, None)


def _rows(path: str, fields: int) -> Iterator[list[str]]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read(READ_LIMIT_BYTES)
    except OSError:
        return
    for line in text.splitlines():
        row = line.strip().split(":")
        if len(row) >= fields:
            yield row
