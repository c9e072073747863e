"""Whether a local SSD holds something.

Source: Compute Engine documentation "Add Local SSD" (NVMe devices with model ``nvme_card``, numbered from 0 on some
types; SCSI devices with model ``EphemeralDisk``; persistent disks are ``nvme_card-pd`` and ``PersistentDisk``).
"""

import os
import re

from costguard.cloud.local_disks import Place, Use, look

_MODEL = re.compile(r"nvme_card\d*|EphemeralDisk")


def use(place: Place, expected: int) -> Use:
    """What the local SSDs are used for; *unknown* when fewer than ``expected`` of them can be seen."""
    try:
        found = _devices(place.sysfs)
    except OSError:
        return Use("unknown")
    return look(place, found) if len(found) >= expected else Use("unknown")


def _devices(sysfs: str) -> list[str]:
    block = os.path.join(sysfs, "block")
    found = []
    for name in sorted(os.listdir(block)):
        path = os.path.join(block, name, "device/model")
        if os.path.exists(path) and _MODEL.fullmatch(_read(path)):
            found.append(name)
    return found


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().strip()
