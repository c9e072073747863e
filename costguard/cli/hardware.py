"""Whether there is NVIDIA hardware. For short-lived commands; "unknown" is never "no"."""

import os
from collections.abc import Mapping

from costguard.doctor.hardware import probe
from costguard.files import names_in, text_of

PROBE_SECONDS = 15.0
"""How long a reading may take before the driver counts as hanging (so there is one)."""

_NVIDIA = "0x10de"
_DISPLAY = "0x03"  # PCI base class: display controllers, VGA and 3D


def nvidia_hardware(places: Mapping[str, str], seconds: float = PROBE_SECONDS) -> bool | None:
    """True, False, or None when it is unknown.

    ``places``: procfs, sysfs and devfs of the machine; ``seconds``: how long to wait for the driver.
    False needs two sources: no display device of NVIDIA on the PCI bus, and NVML reporting none.
    """
    if _on_pci_bus(places.get("sysfs", "/sys")):
        return True
    answer = probe({"sysfs": "/sys", "devfs": "/dev", **places}, seconds)
    if answer.get("gpus"):
        return True
    return False if answer.get("hardware") is False else None


def _on_pci_bus(sysfs: str) -> bool:
    root = os.path.join(sysfs, "bus/pci/devices")
    return any(
        text_of(f"{root}/{name}/vendor").strip() == _NVIDIA and text_of(f"{root}/{name}/class").startswith(_DISPLAY)
        for name in names_in(root)
    )
