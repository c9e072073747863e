"""Whether other users could change what an agent runs, or reads as its instructions."""

import os
import stat
from collections.abc import Iterator, Mapping
from typing import NamedTuple

MOST_LINKS = 40
"""Symbolic links in one path that the kernel follows."""

SEARCHED = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH")
"""Variables with the search paths of programs and libraries."""


class Weakness(NamedTuple):
    """A file or folder that another user could change, why, and the command that fixes it."""

    place: str
    reason: str
    remedy: str


def weakness(path: str, uid: int, *, read_only_counts: bool = False) -> Weakness | None:
    """The first place on the way to a file or folder that users other than this one and root can change, or None.

    A folder with the sticky bit protects entries of this user and root, but not a name that does not exist yet.
    ``read_only_counts``: what is mounted read-only cannot be changed (true for containers; a service has such mounts of its own).
    """
    last = os.path.abspath(path)
    free = ""  # a world-writable folder with the sticky bit, in which the next name is looked up
    for place, status in _way(last):
        if status is None:
            break
        free = ""
        if read_only_counts and _is_read_only(place):
            continue
        if status.st_uid not in (0, uid):
            owner = "root:root" if uid == 0 else _user(uid)
            remedy = f"sudo chown {owner} {place}" if place == last and not os.path.isdir(place) else _move(last, uid)
            return Weakness(place, f"{place} belongs to {_user(status.st_uid)}", remedy)
        if stat.S_ISLNK(status.st_mode) or stat.S_ISCHR(status.st_mode):
            continue  # what is written to /dev/null is not there
        if not (who := _writers(place, status, uid)):
            continue
        if not (stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX):
            return Weakness(place, f"{who} can write {place}", f"{'sudo ' if uid == 0 else ''}chmod go-w {place}")
        free = place
    if free:
        return Weakness(free, f"any user can create files in {free}", _move(last, uid))
    return None


def clean(environment: Mapping[str, str], uid: int) -> tuple[dict[str, str], list[str]]:
    """For root: the environment without folders in which others could put a program, a library or a setting, and notes on what changed.

    The environment of any other user stays as it is.
    """
    kept, notes = dict(environment), []
    for name in SEARCHED if uid == 0 else ():
        folders = kept.get(name, "").split(os.pathsep)
        safe = [folder for folder in folders if os.path.isabs(folder) and not weakness(folder, uid)]
        if name in kept and safe != folders:
            kept[name] = os.pathsep.join(safe)
            gone = ", ".join(folder or "the working directory" for folder in folders if folder not in safe)
            notes.append(f"{name} is used without {gone}: other users could put a program or library there.")
    if uid == 0 and (found := weakness(kept.get("HOME") or "/", uid)):
        kept["HOME"] = _home(uid)
        notes.append(f"HOME is {kept['HOME']} for the agent: {found.reason}.")
    return kept, notes


def _way(path: str) -> Iterator[tuple[str, os.stat_result | None]]:
    """Everything that the kernel looks up on the way to a path, links included; None where nothing exists, which ends it."""
    left = [part for part in path.split("/") if part]
    place, links = "/", 0
    yield place, os.lstat(place)
    while left:
        part = left.pop(0)
        if part == "..":
            place = os.path.dirname(place)
            continue
        there = os.path.join(place, part)
        try:
            status = os.lstat(there)
        except OSError:
            yield there, None
            return
        yield there, status
        if not stat.S_ISLNK(status.st_mode):
            place = there
            continue
        links += 1
        target = os.readlink(there)
        if links > MOST_LINKS:
            return
        left = [piece for piece in target.split("/") if piece not in ("", ".")] + left
        place = "/" if target.startswith("/") else place


def _writers(place: str, status: os.stat_result, uid: int) -> str:
    """Who else may write it; empty: nobody."""
    if status.st_mode & stat.S_IWOTH:
        return "any user"
    if not status.st_mode & stat.S_IWGRP:
        return ""
    if _has_list(place):
        return "somebody in its access list"
    return "" if _is_own_group(status.st_gid, uid) else f"group {_group(status.st_gid)}"


def _has_list(place: str) -> bool:
    try:
        return bool(os.getxattr(place, "system.posix_acl_access", follow_symlinks=False))
    except (OSError, AttributeError):  # no list, or a system without them
        return False


def _is_own_group(gid: int, uid: int) -> bool:
    """Root's group, or the one that a user has alone and under the same name, as most systems make it."""
    return gid == 0 or (uid != 0 and _group(gid) == _user(uid))


def _is_read_only(place: str) -> bool:
    try:
        return bool(os.statvfs(place).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def _move(path: str, uid: int) -> str:
    """How to put it out of other users' reach."""
    who = "root" if uid == 0 else "you"
    if not os.path.isfile(path):
        return f"use a folder that only {who} can write to"
    if uid != 0:
        return "put it in a folder that only you can write to"
    return (
        f"sudo install -o root -g root -m {os.stat(path).st_mode & 0o755:o} {path} /etc/costguard/, and use that copy"
    )


def _user(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def _group(gid: int) -> str:
    import grp

    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return f"gid {gid}"


def _home(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_dir
    except KeyError:
        return "/"
