"""Where an agent keeps its files: the one rule by which every verb finds it. No heavy imports."""

import os
from collections.abc import Mapping
from typing import NamedTuple

DEFAULT_CONFIG = "/etc/costguard/config.toml"
"""Read when it exists and no other file is named."""

DROP_INS = "config.d"
"""The folder beside a configuration file whose files are read over it."""

MEMORY = "/dev/shm/"  # noqa: S108 - any user may write there; the agent checks that its folder is its own
NO_HOME = "/nonexistent"
"""The home of a user without one, as systems write it; the agent reports that it cannot be used."""


class Paths(NamedTuple):
    """``state`` survives boots (commitments, history); ``runtime`` is on tmpfs and ends with the boot."""

    state: str
    runtime: str


def resolve(state_dir: str | None, environment: Mapping[str, str], uid: int | None = None) -> Paths:
    """The folders of the agent of this user, or of the one that was started with ``state_dir``.

    root: /var/lib/costguard and /run/costguard. Others: the XDG folders; without XDG_RUNTIME_DIR, /dev/shm, or where
    another user has taken that name, a folder beside the state.
    Each other state folder has its own runtime folder, named after a digest of its real path.
    """
    user = os.geteuid() if uid is None else uid
    runtime = _runtime_base(user, environment)
    if not state_dir:
        state = _state_base(user, environment)
    else:
        import hashlib

        state = os.path.realpath(os.path.expanduser(state_dir))
        runtime = f"{runtime}-{hashlib.sha256(os.fsencode(state)).hexdigest()[:10]}"
    return Paths(state, os.path.join(state, "run") if _is_anothers(runtime, user) else runtime)


def _is_anothers(runtime: str, uid: int) -> bool:
    """Whether another user took this name in a world-writable folder, which would lock the agent out for ever."""
    if not runtime.startswith(MEMORY):
        return False
    try:
        return os.lstat(runtime).st_uid != uid
    except OSError:
        return False


def _state_base(uid: int, environment: Mapping[str, str]) -> str:
    if uid == 0:
        return "/var/lib/costguard"
    home = environment.get("XDG_STATE_HOME", "")
    if not os.path.isabs(home):  # the XDG rule: a relative path is ignored
        home = os.path.join(_home(uid, environment), ".local", "state")
    return os.path.join(home, "costguard")


def _home(uid: int, environment: Mapping[str, str]) -> str:
    """Never a relative path, which would depend on where a verb is run."""
    home = environment.get("HOME", "")
    if os.path.isabs(home):
        return home
    import pwd

    try:
        return pwd.getpwuid(uid).pw_dir
    except KeyError:
        return NO_HOME


def _runtime_base(uid: int, environment: Mapping[str, str]) -> str:
    memory = f"{MEMORY}costguard-{uid}"
    if uid == 0:
        # In a service /run itself may be read-only, and its own folder there not.
        return "/run/costguard" if any(os.access(at, os.W_OK) for at in ("/run/costguard", "/run")) else memory
    folder = environment.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(folder) and os.access(folder, os.W_OK):
        return os.path.join(folder, "costguard")
    return memory
