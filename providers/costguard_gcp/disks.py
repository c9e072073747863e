"""Whether a local SSD holds something.

Source: Compute Engine documentation "Add Local SSD" (NVMe devices with model ``nvme_card``, numbered from 0 on some
types; SCSI devices with model ``EphemeralDisk``; persistent disks are ``nvme_card-pd`` and ``PersistentDisk``).
"""

import re

from costguard.cloud.access import HostPaths
from costguard.cloud.local_disks import Use, devices, look

_MODEL = re.compile(r"nvme_card\d*|EphemeralDisk")


def use(place: HostPaths, expected: int) -> Use:
    """What the local SSDs are used for; *unknown* when fewer than ``expected`` of them can be seen."""
    names = devices(place.sysfs, lambda model, _: bool(_MODEL.fullmatch(model))) or ()
    return look(place, names) if len(names) >= expected else Use("unknown")
