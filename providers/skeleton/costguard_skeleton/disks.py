"""Disks that are part of the machine and lose their data when it stops: which ones they are; the core looks at their use."""

import os

from costguard.cloud.api import Site
from costguard.cloud.local_disks import Place, look

MODEL = "Skeleton Scratch"


def state(site: Site) -> str:
    """``none``, or what `costguard.cloud.local_disks.look` says of them."""
    block = os.path.join(site.sysfs, "block")
    try:
        names = [name for name in sorted(os.listdir(block)) if _model(os.path.join(block, name)) == MODEL]
    except OSError:
        return "none"
    return look(Place(site.procfs, site.sysfs, site.devfs), names).state if names else "none"


def _model(device: str) -> str:
    try:
        with open(os.path.join(device, "device/model"), encoding="ascii", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
