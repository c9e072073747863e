"""Other users, as which root's agent runs the owner's programs."""

import os
import pwd
from collections.abc import Mapping
from typing import NamedTuple


class NoAccountError(Exception):
    """A program cannot run as a user, and why."""


class Account(NamedTuple):
    """Another user, as which root runs a program; ``variables`` are those of a login."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    name: str = ""
    variables: Mapping[str, str] = {}


def account_of(user: str) -> Account | None:
    """Whom a program of this user runs as; None: as this process. Raises NoAccountError."""
    if not user:
        return None
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        raise NoAccountError(f"there is no user {user} on this machine") from None
    if os.geteuid() == entry.pw_uid:
        return None
    if os.geteuid() != 0:
        raise NoAccountError(f"only root's agent can run it as {user}")
    groups = tuple(os.getgrouplist(user, entry.pw_gid))
    variables = {"HOME": entry.pw_dir, "USER": user, "LOGNAME": user, "SHELL": entry.pw_shell or "/bin/sh"}
    return Account(entry.pw_uid, entry.pw_gid, groups, user, variables)
