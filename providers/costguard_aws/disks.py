"""What this machine itself shows of its instance store disks, and their use.

Sources: EC2 user guide "Identify instance store volumes" (the NVMe model name).
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from costguard.cloud import local_disks, mounts
from costguard.cloud.access import HostPaths
from costguard.cloud.local_disks import Use
from costguard.cloud.mounts import Mount

MODEL = "Amazon EC2 NVMe Instance Storage"
_PARTITION = re.compile(r"^(/dev/nvme\d+n\d+)p\d+$|^(/dev/xvd[a-z]+)\d+$")


class Store(NamedTuple):
    """The instance store disks by kernel name, None where the kernel's list cannot be read.

    ``used`` says where they hold data. With no disk in the list it has the mount points of everything that is not on the
    root disk, and not empty: a local disk that is not recognised could be there. ``empty`` are mount points of empty
    file systems, ``swap`` whether memory is paged out to the disks.
    """

    disks: tuple[str, ...] | None
    used: tuple[str, ...]
    empty: tuple[str, ...] = ()
    swap: bool = False

    @property
    def use(self) -> Use:
        """The same in the words of every cloud."""
        return Use("used" if self.used else "empty" if self.empty else "unused", self.used or self.empty, self.swap)


def store(procfs: str, sysfs: str, devfs: str = "") -> Store | None:
    """None when the mounts cannot be seen."""
    place = HostPaths(procfs, sysfs, devfs)
    every = mounts.read(procfs)
    if every is None:
        return None
    disks = local_disks.devices(sysfs, lambda model, _: MODEL in model)
    use = local_disks.look(place, disks) if disks else local_disks.points(place, _elsewhere(every))
    full = use.state == "used"
    return Store(disks, use.where if full else (), () if full else use.where, use.swap)


def _elsewhere(every: Sequence[Mount]) -> list[Mount]:
    """Mounts of devices other than the root disk's."""
    roots = {_disk(mount.source) for mount in every if mount.target == "/"}
    return [
        mount
        for mount in every
        if mount.source.startswith("/dev/")
        and not mount.source.startswith(("/dev/loop", "/dev/root"))
        and _disk(mount.source) not in roots
        and not mount.target.startswith(("/boot", "/etc/"))  # a container has files of its host there
    ]


def _disk(source: str) -> str:
    """The whole disk of a partition."""
    found = _PARTITION.match(source)
    return (found[1] or found[2]) if found else source
