"""Why a program of the owner could not be started, in words: which one, as whom, and what to do about it."""

import errno
import os
import pwd
import shutil
import stat
from collections.abc import Mapping

from costguard.accounts import Account


def explained(program: str, error: OSError, environ: Mapping[str, str], account: Account | None) -> str:
    """``/opt/save: Permission denied, run as ann; it is not executable: `chmod a+x /opt/save```."""
    path = found(program, environ)
    return f"{path}: {error.strerror}, run as {name_of(account)}; {_next_step(path, error.errno or 0, account)}"


def found(program: str, environ: Mapping[str, str]) -> str:
    """Where it is, whether or not it can be executed; as it is written where it is nowhere."""
    if "/" in program:
        return program
    return shutil.which(program, mode=os.F_OK, path=environ.get("PATH", os.defpath)) or program


def name_of(account: Account | None) -> str:
    """Whom a program runs as; by number where the user has no name."""
    if account is not None and account.name:
        return account.name
    uid = account.uid if account is not None else os.geteuid()
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def refused(path: str, account: Account | None) -> str:
    """What keeps this user from executing it, and the next step; empty where nothing is seen, as of an access list."""
    name = name_of(account)
    folder = os.path.dirname(path)
    for part in [*reversed(_above(folder)), folder]:
        if part and not _may(part, account):
            return f"{name} may not enter {part}: put the program where {name} can reach it, such as /usr/local/bin"
    if os.path.isdir(path):
        return "it is a folder: name a program"
    return "" if _may(path, account) else f"{name} may not execute it: `chmod a+rx {path}`"


def _next_step(path: str, number: int, account: Account | None) -> str:
    if number == errno.ENOENT:
        there = os.path.exists(path)
        return (
            f"its first line names a program that does not exist: `head -1 {path}`"
            if there
            else "there is no such program"
        )
    if number == errno.ENOEXEC:
        return "it is not a program; a script begins with a line such as #!/bin/sh"
    again = f"`sudo -u {name_of(account)} {path}` shows why" if account else f"`{path}` shows why"
    return refused(path, account) or again


def _above(folder: str) -> list[str]:
    """The folders above one, the nearest first."""
    above = []
    while (parent := os.path.dirname(folder)) != folder:
        above.append(folder := parent)
    return above


def _may(path: str, account: Account | None) -> bool:
    """Whether the mode lets this user execute a file, or enter a folder; what cannot be looked at counts as allowed."""
    try:
        about = os.stat(path)
    except OSError:
        return True
    uid = account.uid if account is not None else os.geteuid()
    groups = (account.gid, *account.groups) if account is not None else (os.getegid(), *os.getgroups())
    if uid == 0:
        return stat.S_ISDIR(about.st_mode) or bool(about.st_mode & 0o111)
    bit = stat.S_IXUSR if about.st_uid == uid else stat.S_IXGRP if about.st_gid in groups else stat.S_IXOTH
    return bool(about.st_mode & bit)
