"""The machine's own local disk, which Azure empties whenever it deallocates the machine.

Sources: azure-vm-utils, ``80-azure-disk.rules`` (the second virtual IDE channel, or LUN 1 of the first SCSI
controller, is the temporary disk; NVMe models *Microsoft NVMe Direct Disk* are local); cloud-init mounts it at
``/mnt``, the Azure Linux agent at ``/mnt/resource``, and both leave nothing but the files named below. Before the
first of them formats it, it is an NTFS of Azure's own.
"""

from costguard.cloud import local_disks, mounts
from costguard.cloud.access import HostPaths
from costguard.cloud.local_disks import Use

_IDE, _SCSI = "00000000-0001-", "f8b3781a-1e82-4818-a1c3-63d806ec15bb"
_NVME = "Microsoft NVMe Direct Disk"
_USUAL = ("/mnt", "/mnt/resource")
_NOTHING, _FOREIGN = frozenset(("DATALOSS_WARNING_README.txt", "swapfile")), frozenset(("ntfs",))


def look(procfs: str, sysfs: str, size_kb: str, devfs: str = "") -> Use | None:
    """The use of the local disks, None where there is none; ``size_kb`` is what the metadata says of the temporary one (``0``: none)."""
    devices = local_disks.devices(sysfs, _is_local)
    if (not devices and size_kb == "0") or (devices == () and not size_kb):
        return None
    every = mounts.read(procfs)
    if every is None:
        return Use("unknown")
    place = HostPaths(procfs, sysfs, devfs)
    if devices:
        return local_disks.look(place, devices, _NOTHING, _FOREIGN)
    # a disk that cannot be told by its device is where the images mount it
    usual = [mount for mount in every if mount.target in _USUAL and mount.source.startswith("/dev/")]
    return local_disks.points(place, usual, _NOTHING)


def _is_local(model: str, path: str) -> bool:
    """Whether a block device is a local disk, by its model or its place on the bus."""
    scsi = f"/{_SCSI}/" in path and path.endswith(":0:0:1")
    return scsi or f"/{_IDE}" in path or model.startswith(_NVME)
