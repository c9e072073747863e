"""What this machine itself shows: instance store disks and their use, a Kubernetes node, its age.

Sources: EC2 user guide "Identify instance store volumes" (the NVMe model name); sysfs-block and
proc(5) (``mountinfo``, ``uptime``, ``status``).
"""

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

MODEL = "Amazon EC2 NVMe Instance Storage"
_PARTITION = re.compile(r"^(/dev/nvme\d+n\d+)p\d+$|^(/dev/xvd[a-z]+)\d+$")


class Store(NamedTuple):
    """The instance store disks by kernel name, None where the kernel's list cannot be read.

    ``used`` are the mount points of their data, or what holds it. With no disk in the list they are the mount
    points of everything that is not on the root disk: a local disk that is not recognised could be there.
    """

    disks: tuple[str, ...] | None
    used: tuple[str, ...]


def store(procfs: str, sysfs: str) -> Store | None:
    """None when the mounts cannot be seen."""
    mounts = _mounts(procfs)
    if mounts is None:
        return None
    block = os.path.join(sysfs, "block")
    try:
        names = sorted(os.listdir(block))
    except OSError:
        return Store(None, tuple(_elsewhere(mounts)))
    disks = tuple(name for name in names if MODEL in _read(os.path.join(block, name, "device/model")))
    used = [use for disk in disks for use in _uses(block, disk, mounts)] if disks else _elsewhere(mounts)
    return Store(disks, tuple(dict.fromkeys(used)))


def uptime(procfs: str) -> float | None:
    """Seconds since boot; None when unknown."""
    try:
        return float(_read(os.path.join(procfs, "uptime")).split()[0])
    except (ValueError, IndexError):
        return None


def kubelet(procfs: str) -> bool:
    """Whether a Kubernetes node agent runs on this host; one inside a container (a test cluster) does not count."""
    try:
        numbers = [name for name in os.listdir(procfs) if name.isdigit()]
    except OSError:
        return False
    for number in numbers:
        if _read(os.path.join(procfs, number, "comm")).strip() == "kubelet":
            nested = [
                line
                for line in _read(os.path.join(procfs, number, "status")).splitlines()
                if line.startswith("NSpid:") and len(line.split()) > 2
            ]
            if not nested:
                return True
    return False


class _Mount(NamedTuple):
    number: str
    source: str
    kind: str
    target: str


def _mounts(procfs: str) -> list[_Mount] | None:
    """The mounts of the host's first process and of this one, which may see more or fewer of them."""
    found: list[_Mount] = []
    seen = False
    for name in ("1/mountinfo", "self/mountinfo"):
        text = _read(os.path.join(procfs, name))
        seen = seen or bool(text)
        for line in text.splitlines():
            left, _, right = line.partition(" - ")
            first, last = left.split(), right.split()
            if len(first) > 4 and len(last) > 1:
                found.append(_Mount(first[2], last[1], last[0], first[4]))
    for name in ("1/mounts", "self/mounts", "mounts"):
        text = _read(os.path.join(procfs, name))
        seen = seen or bool(text)
        rows = (line.split() for line in text.splitlines())
        found += [_Mount("", row[0], row[2], row[1]) for row in rows if len(row) > 2]
    return found if seen else None


def _elsewhere(mounts: list[_Mount]) -> list[str]:
    """Mount points on devices other than the root disk's."""
    roots = {_disk(mount.source) for mount in mounts if mount.target == "/"}
    return list(
        dict.fromkeys(
            mount.target
            for mount in mounts
            if mount.source.startswith("/dev/")
            and not mount.source.startswith(("/dev/loop", "/dev/root"))
            and _disk(mount.source) not in roots
            and not mount.target.startswith(("/boot", "/etc/"))  # a container has files of its host there
        )
    )


def _disk(source: str) -> str:
    """The whole disk of a partition."""
    found = _PARTITION.match(source)
    return (found[1] or found[2]) if found else source


def _uses(block: str, disk: str, mounts: list[_Mount]) -> Iterator[str]:
    """Mount points of a disk, its partitions and everything built on them; a holder that is not mounted counts too."""
    for name, path in _stack(block, disk):
        number = _read(os.path.join(path, "dev")).strip()
        label = _read(os.path.join(path, "dm/name")).strip()
        sources = {f"/dev/{name}", f"/dev/mapper/{label}"}
        points = [mount.target for mount in mounts if mount.source in sources or (number and mount.number == number)]
        yield from points
        if name != disk and not points and not name.startswith(disk):
            yield f"{name} (holds {disk})"
        # A pool names no device in the mount table; its partitions are the only trace.
        if name != disk and name.startswith(disk) and any(mount.kind == "zfs" for mount in mounts):
            yield f"{name} (perhaps a ZFS pool)"


def _stack(block: str, disk: str) -> Iterator[tuple[str, str]]:
    """A disk, its partitions, and the device mapper, LVM and RAID devices on top: names and folders."""
    waiting = [(disk, os.path.join(block, disk))]
    seen: set[str] = set()
    while waiting:
        name, path = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        yield name, path
        inside = _names(path)
        waiting += [(part, os.path.join(path, part)) for part in inside if part.startswith(f"{name}p")]
        holders = _names(os.path.join(path, "holders"))
        waiting += [(holder, os.path.join(block, holder)) for holder in holders]


def _names(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
