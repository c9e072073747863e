"""The machine's own local disk, which Azure empties whenever it deallocates the machine.

Sources: azure-vm-utils, ``80-azure-disk.rules`` (the second virtual IDE channel, or LUN 1 of the first SCSI
controller, is the temporary disk; NVMe models *Microsoft NVMe Direct Disk* are local); cloud-init mounts it at
``/mnt``, the Azure Linux agent at ``/mnt/resource``, and both leave nothing but the files named below. Before the
first of them formats it, it is an NTFS of Azure's own.
"""

import os
from typing import Literal, NamedTuple

from costguard.cloud import local_disks, mounts
from costguard.cloud.local_disks import Place

State = Literal["none", "unused", "empty", "used", "unknown"]

_IDE, _SCSI = "00000000-0001-", "f8b3781a-1e82-4818-a1c3-63d806ec15bb"
_NVME = "Microsoft NVMe Direct Disk"
_USUAL = ("/mnt", "/mnt/resource")
_NOTHING, _FOREIGN = frozenset(("DATALOSS_WARNING_README.txt", "swapfile")), frozenset(("ntfs",))


class LocalDisk(NamedTuple):
    """What the guest sees of its local disks; ``where`` are mount points or devices, for people."""

    state: State
    where: str = ""
    swap: bool = False


def look(procfs: str, sysfs: str, size_kb: str, devfs: str = "") -> LocalDisk:
    """Look at the local disks; ``size_kb`` is what the metadata says of the temporary one (``0``: there is none)."""
    devices = _local(sysfs)
    if (not devices and size_kb == "0") or (devices == [] and not size_kb):
        return LocalDisk("none")
    every = mounts.read(procfs)
    if every is None:
        return LocalDisk("unknown")
    place = Place(procfs, sysfs, devfs)
    if devices:
        use = local_disks.look(place, devices, _NOTHING, _FOREIGN)
    else:  # a disk that cannot be told by its device is where the images mount it
        usual = [mount for mount in every if mount.target in _USUAL and mount.source.startswith("/dev/")]
        use = local_disks.points(place, usual, _NOTHING)
    return LocalDisk(use.state, ", ".join(use.where), use.swap)


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
