"""A control group for the tree, where this user was given one to divide (cgroups(7), Delegation). It has every member, whoever its parent is."""

import os
from collections.abc import Iterator
from contextlib import suppress

PROCS = "cgroup.procs"
KILL = "cgroup.kill"
_DELEGATED = ("user.delegate", "trusted.delegate")  # set by systemd on what it hands over


def make(name: str) -> str:
    """The folder of a new group of this name below this process's own; empty where that is not ours to divide."""
    own = _own()
    if not own or not _delegated(own):
        return ""
    folder = f"{own}/{name}"
    try:
        os.mkdir(folder)
    except OSError:
        return ""
    return folder


def join(folder: str) -> bool:
    """Move this process there."""
    try:
        with open(f"{folder}/{PROCS}", "wb", buffering=0) as file:
            file.write(b"0")
    except OSError:
        return False
    return True


def members(folder: str) -> list[int]:
    """The numbers of all processes in it and in the groups that they made."""
    found: list[int] = []
    for place in _folders(folder):
        with suppress(OSError, ValueError), open(f"{place}/{PROCS}", "rb", buffering=0) as file:
            found += [int(line) for line in file.readall().split()]
    return found


def kill(folder: str) -> None:
    """SIGKILL for all at once, where the kernel can (5.14); whom it misses is killed one by one."""
    with suppress(OSError), open(f"{folder}/{KILL}", "wb", buffering=0) as file:
        file.write(b"1")


def remove(folder: str) -> None:
    """Remove it once it is empty."""
    for place in reversed(list(_folders(folder))):
        with suppress(OSError):
            os.rmdir(place)


def _folders(folder: str) -> Iterator[str]:
    yield folder
    try:
        inside = [entry.path for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return
    for one in inside:
        yield from _folders(one)


def _own() -> str:
    """The folder of this process's own group in the unified hierarchy."""
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            path = next((line[3:].rstrip("\n") for line in file if line.startswith("0::")), "")
        with open("/proc/self/mountinfo", encoding="utf-8") as file:
            mounts = [line.split() for line in file]
    except OSError:
        return ""
    for fields in mounts:
        if "cgroup2" in fields[fields.index("-") + 1 :][:1] and path:
            root, place = fields[3], fields[4]
            inside = path.removeprefix(root) if root != "/" else path
            return (place + "/" + inside.strip("/")).rstrip("/")
    return ""


def _delegated(folder: str) -> bool:
    """Whether it is ours: that of an ordinary user who may write it, or of root where somebody said so."""
    if os.geteuid() != 0:
        return os.access(folder, os.W_OK) and os.access(f"{folder}/{PROCS}", os.W_OK)
    for name in _DELEGATED:
        with suppress(OSError):
            if os.getxattr(folder, name) == b"1":
                return True
    # the top of a container's own hierarchy looks like an inner group: the real top has no such file
    with suppress(OSError), open("/proc/self/cgroup", encoding="utf-8") as file:
        return "0::/\n" in file and os.path.exists(f"{folder}/cgroup.events")
    return False
