"""The machine's own local disk, which Azure empties whenever it deallocates the machine.

Sources: azure-vm-utils, ``80-azure-disk.rules`` (the second virtual IDE channel, or LUN 1 of the first SCSI
controller, is the temporary disk; NVMe models *Microsoft NVMe Direct Disk* are local); cloud-init mounts it at
``/mnt``, the Azure Linux agent at ``/mnt/resource``, and both leave nothing but the files named below.
"""

import os
from typing import Literal, NamedTuple

State = Literal["none", "unused", "empty", "used", "unknown"]

_IDE, _SCSI = "00000000-0001-", "f8b3781a-1e82-4818-a1c3-63d806ec15bb"
_NVME = "Microsoft NVMe Direct Disk"
_USUAL = ("/mnt", "/mnt/resource")
_NOTHING = frozenset(("lost+found", "DATALOSS_WARNING_README.txt", "swapfile"))


class LocalDisk(NamedTuple):
    """What the guest sees of its local disks; ``where`` are mount points or devices, for people."""

    state: State
    where: str = ""


def look(procfs: str, sysfs: str, size_kb: str) -> LocalDisk:
    """Look at the local disks; ``size_kb`` is what the metadata says of the temporary one (``0``: there is none)."""
    devices = _local(sysfs)
    if (not devices and size_kb == "0") or (devices == [] and not size_kb):
        return LocalDisk("none")
    mounts = _mounts(procfs)
    if mounts is None:
        return LocalDisk("unknown")
    if devices:
        points = [point for source, point in mounts if any(_on(source, device) for device in devices)]
        held = [f"/dev/{device}" for device in devices if _held(sysfs, device)]
    else:  # a disk that cannot be told by its device is where the images mount it
        points = [point for source, point in mounts if point in _USUAL and source.startswith("/dev/")]
        held = []
    if held or not points:
        return LocalDisk("used" if held else "unused", ", ".join(held))
    return LocalDisk("empty" if all(_empty(procfs, point) for point in points) else "used", ", ".join(points))


def _local(sysfs: str) -> list[str] | None:
    """Names of the block devices that are local disks; None when nobody can look."""
    root = os.path.join(sysfs, "block")
    try:
        names = sorted(os.listdir(root))
    except OSError:
        return None
    found = []
    for name in names:
        place = os.path.realpath(os.path.join(root, name, "device"))
        scsi = f"/{_SCSI}/" in place and place.rstrip("/").endswith(":0:0:1")
        if scsi or f"/{_IDE}" in place or _model(os.path.join(root, name)).startswith(_NVME):
            found.append(name)
    return found


def _model(device: str) -> str:
    try:
        with open(os.path.join(device, "device/model"), encoding="ascii", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def _mounts(procfs: str) -> list[tuple[str, str]] | None:
    """Device and mount point of each mount, of the host where it can be seen."""
    for process in ("1", "self"):
        try:
            with open(os.path.join(procfs, process, "mounts"), encoding="utf-8", errors="replace") as file:
                rows = [line.split() for line in file]
        except OSError:
            continue
        return [(row[0], row[1].encode("latin-1", "replace").decode("unicode_escape")) for row in rows if len(row) > 1]
    return None


def _on(source: str, device: str) -> bool:
    """Whether a mount's source is this device or one of its partitions."""
    rest = source.removeprefix(f"/dev/{device}")
    return (source.startswith(f"/dev/{device}") and rest.removeprefix("p").isdigit()) or source == f"/dev/{device}"


def _held(sysfs: str, device: str) -> bool:
    """Whether an array or a volume is built on this device or on a partition of it."""
    root = os.path.join(sysfs, "block", device)
    try:
        parts = [name for name in os.listdir(root) if name.startswith(device)]
        return any(os.listdir(os.path.join(root, part, "holders")) for part in ("", *parts))
    except OSError:
        return False


def _empty(procfs: str, point: str) -> bool:
    """Whether a mounted disk has nothing but what the image itself puts there. Not known is not empty."""
    seen = point if procfs == "/proc" else os.path.join(procfs, "1/root", point.lstrip("/"))
    try:
        return set(os.listdir(seen)) <= _NOTHING
    except OSError:
        return False
