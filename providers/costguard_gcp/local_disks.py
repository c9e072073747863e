"""Whether a local SSD holds something: what the kernel shows of its use.

Sources: Compute Engine documentation "Add Local SSD" (NVMe devices with model ``nvme_card``, numbered from 0 on
some types; SCSI devices with model ``EphemeralDisk``; persistent disks are ``nvme_card-pd`` and
``PersistentDisk``); kernel documentation block/stat (the seventh number counts written sectors).
"""

import os
import re

_MODEL = re.compile(r"nvme_card\d*|EphemeralDisk")
_WRITTEN = 6  # the column of block/stat


def in_use(sysfs: str, procfs: str, expected: int) -> bool | None:
    """Whether any local SSD is mounted, swap, part of another device, partitioned or was written since boot.

    None when fewer than ``expected`` of them can be seen, or a file that decides cannot be read.
    """
    try:
        found = _devices(sysfs)
        if len(found) < expected:
            return None
        taken = _mounted(procfs)
        return any(_used(os.path.join(sysfs, "block", name), name, taken) for name in found)
    except (OSError, ValueError, IndexError):
        return None


def _devices(sysfs: str) -> list[str]:
    block = os.path.join(sysfs, "block")
    found = []
    for name in sorted(os.listdir(block)):
        path = os.path.join(block, name, "device/model")
        if os.path.exists(path) and _MODEL.fullmatch(_read(path)):
            found.append(name)
    return found


def _used(path: str, name: str, taken: set[str]) -> bool:
    parts = [part for part in os.listdir(path) if part.startswith(name)]
    written = int(_read(os.path.join(path, "stat")).split()[_WRITTEN])
    holders = os.path.join(path, "holders")
    return bool(parts or written or name in taken or (os.path.isdir(holders) and os.listdir(holders)))


def _mounted(procfs: str) -> set[str]:
    """Names of devices that are mounted or swap; a mount of the whole disk names it so."""
    lines = _read(os.path.join(procfs, "swaps")).splitlines() + _mounts(procfs)
    sources = {line.split(" ")[0] for line in lines}
    return {os.path.basename(os.path.realpath(source)) for source in sources if source.startswith("/dev/")}


def _mounts(procfs: str) -> list[str]:
    """Mounts that this process sees, and those of the machine: a service or a container may have its own."""
    try:
        machines = _read(os.path.join(procfs, "1/mounts"))
    except OSError:  # for root alone
        machines = ""
    return (machines + "\n" + _read(os.path.join(procfs, "self/mounts"))).splitlines()


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().strip()
