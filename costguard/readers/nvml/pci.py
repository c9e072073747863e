"""Which GPUs the machine has, from the PCI bus alone: a count that needs no driver.

Sources: sysfs(5), Documentation/ABI/testing/sysfs-bus-pci (vendor, class, driver, physfn).
"""

import os

_VENDOR = "0x10de"
_CLASSES = ("0x0300", "0x0302")  # VGA and 3D controllers
_WORD = 64  # bytes of a file, at most
_NODES = ("nvidiactl", "nvidia0", "dxg", "nvgpu", "nvhost-gpu")  # GPUs that need not be on a PCI bus: WSL, Jetson


class Bus:
    """What is on the PCI bus below a sysfs root; looks closely only when the bus has changed."""

    def __init__(self, sysfs: str, devfs: str = "/dev") -> None:
        self._root = f"{sysfs}/bus"
        self._devfs = devfs
        self._module = f"{sysfs}/module/nvidia"  # loaded: there is, or was, something to drive
        self._seen: tuple[list[str], list[str]] | None = None
        self._whole = False  # every device of the bus could be looked at
        self.expected: list[str] = []
        """Addresses of the NVIDIA display devices that NVIDIA's driver has, or could have."""
        self.elsewhere: list[str] = []
        """Those which another driver has (passed through to a virtual machine, nouveau) or a parent stands for."""

    def look(self) -> bool:
        """Look at the bus; whether anything may have changed."""
        try:
            seen = _names(f"{self._root}/pci/devices"), _names(f"{self._root}/pci/drivers/nvidia")
        except OSError:  # which GPUs there are is not known; what was known stays
            self._whole, self._seen = False, None
            return False
        if seen == self._seen:
            return False
        self._seen, self._whole = seen, True
        self.expected, self.elsewhere = [], []
        for address in seen[0]:
            device = f"{self._root}/pci/devices/{address}"
            vendor, kind = _text(f"{device}/vendor"), _text(f"{device}/class")
            self._whole = self._whole and vendor is not None and kind is not None
            if vendor == _VENDOR and kind is not None and kind.startswith(_CLASSES):
                (self.expected if _ours(device) else self.elsewhere).append(address.lower())
        return True

    def hardware(self) -> bool | None:
        """Whether this machine has an NVIDIA GPU; None: cannot tell. False is said only of a bus that was seen whole."""
        if self.expected or self.elsewhere:
            return True
        if not self._whole or not os.path.isdir(self._root) or os.path.exists(self._module):
            return None
        return None if any(os.path.exists(f"{self._devfs}/{name}") for name in _NODES) else False


def _ours(device: str) -> bool:
    if os.path.lexists(f"{device}/physfn"):  # a virtual function: its parent is what NVML lists
        return False
    try:
        driver = os.readlink(f"{device}/driver")
    except OSError:  # no driver yet: NVIDIA's may come
        return True
    return driver.rpartition("/")[2] == "nvidia"


def _names(folder: str) -> list[str]:
    """Raises OSError for a folder that is there and cannot be listed."""
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _text(path: str) -> str | None:
    """Empty when it was removed while we looked, None when it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(_WORD).decode("ascii", "replace").strip()
    except FileNotFoundError:
        return ""
    except OSError:
        return None
