"""List prices, from the table beside this file. Every one is an estimate with its region, date and source."""

import os
from collections import Counter

from costguard.cloud.api import Identity, Price
from costguard.cloud.prices import listed
from costguard.files import names_in, text_of

_GPUS = {"0x1eb8": "T4", "0x1db1": "V100", "0x15f8": "P100", "0x1bb3": "P4"}
"""GPUs that are attached to an N1 machine, by PCI device id. Source: the PCI ID repository (pci.ids)."""

_NVIDIA = "0x10de"


def price(identity: Identity) -> Price | None:
    """See `costguard.cloud.prices.listed`; None as well while nothing says whether this is a Spot machine.

    Source: Compute Engine documentation "Spot VMs" (Spot prices are below those on demand, and change).
    """
    if not identity.market:
        return None
    gpu = identity.details.get("gpu", "")
    return listed(__file__, identity, f"{identity.type}+{gpu}" if gpu else "")


def attached_gpus(sysfs: str) -> str:
    """The GPUs of an N1 machine as the table writes them (``1xT4``); empty when there are none or several kinds.

    The metadata server does not know them, and the type's name does not say them.
    """
    folder = os.path.join(sysfs, "bus/pci/devices")
    found: Counter[str] = Counter()
    for name in names_in(folder):
        vendor, device = (text_of(os.path.join(folder, name, part)).strip() for part in ("vendor", "device"))
        if vendor == _NVIDIA:
            found[_GPUS.get(device, "other")] += 1
    if len(found) != 1 or "other" in found:
        return "" if not found else "unknown"
    ((model, count),) = found.items()
    return f"{count}x{model}"
