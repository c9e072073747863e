"""What is mounted, and whether a mounted file system is empty: for disks whose data ends with the machine.

Sources: proc_pid_mountinfo(5) (ids of mounts and of their parents), proc(5) (``mounts``, ``swaps``, ``root``). Root sees the mounts of process 1, which are the
host's; everybody sees those of this process. Each mount is looked at through the root of the process that has it.
"""

import os
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

VIEWS = ("1", "self")
LOST = "lost+found"
"""A folder that mkfs makes; it is empty unless a repair of the file system put something there."""


class Mount(NamedTuple):
    """One line of a table of mounts. ``number``, ``id`` and ``parent`` are empty in the old table.

    ``view``: the process whose table it is (`VIEWS`). ``number``: the device's ``major:minor``. ``source``: what is mounted.
    ``kind``: the file system. ``whole``: whether its root is mounted, not a folder of it. ``parent``: the id of the mount below.
    """

    view: str
    number: str
    source: str
    kind: str
    target: str
    whole: bool = True
    id: str = ""
    parent: str = ""


def read(procfs: str) -> tuple[Mount, ...] | None:
    """The mounts of the host and of this process; None when neither can be seen. Never raises."""
    found: list[Mount] = []
    seen = False
    for view in VIEWS:
        rows = _lines(procfs, f"{view}/mountinfo")
        mounts = [mount for line in rows or () if (mount := _info(view, line))]
        if not mounts:
            rows = _lines(procfs, f"{view}/mounts")
            mounts = [mount for line in rows or () if (mount := _row(view, line))]
        seen = seen or bool(rows)
        found += mounts
    return tuple(found) if seen else None


def swaps(procfs: str) -> frozenset[str]:
    """Paths of the devices and files that are swap now."""
    rows = [line.split() for line in (_lines(procfs, "swaps") or ())[1:]]
    return frozenset(_plain(row[0]) for row in rows if row)


def is_empty(procfs: str, mounts: Collection[Mount], mount: Mount, nothing: Collection[str]) -> bool:
    """Whether nothing but ``nothing`` (names), a bare ``lost+found`` and active swap is in a mounted file system.

    What cannot be looked at, or is hidden below another mount, is not empty. Only its root is looked at, up to the
    first name that counts. ``nothing`` and swap are files; ``lost+found`` is a folder.
    """
    if not mount.whole or _hidden([other for other in mounts if other.view == mount.view], mount):
        return False
    root = os.path.join(procfs, mount.view, "root")
    folder = os.path.join(root, mount.target.lstrip("/")) if os.path.lexists(root) else mount.target
    try:
        return not any(_counts(entry, mount.target, nothing, swaps(procfs)) for entry in _entries(folder))
    except OSError:
        return False


def _hidden(view: Sequence[Mount], mount: Mount) -> bool:
    """Whether its mount point shows something else: another mount lies on it, or on a folder above it.

    Ids tell who lies on whom, whatever the order. A table without them, or with a parent that nobody sees, is in the
    order in which the mounts were made.
    """
    by_id = {one.id: one for one in view}
    later = [one for one in view[view.index(mount) + 1 :] if _covers(one.target, mount.target)]
    if "" in by_id or len(by_id) < len(view):
        return bool(later)
    if mount.parent not in by_id:
        return any(one.parent in {mount.id, mount.parent} for one in later)
    beside = [one for one in view if one.parent == mount.parent and one.id != mount.id]
    above = [one for one in beside if one.target != mount.target and _covers(one.target, mount.target)]
    on_top = [one for one in view if one.target == mount.target and one.parent == mount.id]
    return bool(above or on_top or any(one in beside for one in later)) or _hidden(
        [one for one in view if one.id != mount.id], by_id[mount.parent]
    )


def _covers(folder: str, target: str) -> bool:
    return target == folder or target.startswith(folder.rstrip("/") + "/")


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        yield from entries


def _counts(entry: os.DirEntry[str], target: str, nothing: Collection[str], swap: Collection[str]) -> bool:
    if entry.is_dir(follow_symlinks=False):
        return entry.name != LOST or _holds_something(entry.path)
    file = entry.is_file(follow_symlinks=False)
    return not (file and (entry.name in nothing or os.path.join(target, entry.name) in swap))


def _holds_something(folder: str) -> bool:
    """Of ``lost+found``, which is root's alone: what another user cannot see there, a fresh file system does not have."""
    try:
        return any(True for _ in _entries(folder))
    except OSError:
        return False


def _info(view: str, line: str) -> Mount | None:
    left, _, right = line.partition(" - ")
    first, last = left.split(), right.split()
    if len(first) < 5 or len(last) < 2:
        return None
    return Mount(
        view, first[2], _plain(last[1]), last[0], _plain(first[4]), whole=first[3] == "/", id=first[0], parent=first[1]
    )


def _row(view: str, line: str) -> Mount | None:
    row = line.split()
    return Mount(view, "", _plain(row[0]), row[2], _plain(row[1])) if len(row) > 2 else None


def _plain(text: str) -> str:
    """The kernel writes a space, a tab, a line's end and a backslash as three octal digits."""
    for code, sign in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, sign)
    return text


def _lines(procfs: str, name: str) -> list[str] | None:
    try:
        with open(os.path.join(procfs, name), encoding="utf-8", errors="surrogateescape") as file:
            return file.read().splitlines()
    except OSError:
        return None
