"""Which GPUs a command may use: all that the driver gives to this process, or those that its environment names.

CUDA's rules (CUDA_VISIBLE_DEVICES in the CUDA C++ programming guide): a list of numbers or of UUIDs, or beginnings of them;
it ends before the first entry that names no device, and an empty one allows none.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from costguard.engine.observation import Device, Observation, Unknown

VISIBLE, ORDER = "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"

WITHHELD = "not listed by the driver"
"""How the reader begins the reason for a GPU of the bus that the driver keeps from this process."""

_NUMBER = re.compile(r"\s*\+?(\d+)\s*")
_PART_OF = re.compile(r"(?i)MIG-(GPU-[0-9a-f-]+)(/\d+)*")


class Granted(NamedTuple):
    """The keys of those GPUs; without any, ``why`` says why. ``doubt``: why it is not sure which they are, so that all are here."""

    keys: tuple[str, ...]
    why: str = ""
    doubt: str = ""


def granted(seen: Observation, devices: Sequence[Device], environment: Mapping[str, str]) -> Granted:
    """The GPUs that a command with this environment may use."""
    given = tuple(
        key
        for key, reading in zip(seen.gpus, seen.readings, strict=True)
        if not (isinstance(reading, Unknown) and reading.reason.startswith(WITHHELD))
    )
    named = environment.get(VISIBLE)
    if not given or named is None:
        return Granted(given, "" if given else "the driver lists no GPU")
    by_key = {device.key: device for device in devices}
    known = [by_key.get(key, Device(key)) for key in given]
    chosen: list[str] = []
    for entry in named.split(","):
        number = _NUMBER.fullmatch(entry)
        if number and (doubt := _order_is_doubtful(known, environment)):
            return Granted(given, doubt=doubt)
        if re.fullmatch(r"(?i)MIG-[0-9a-f]{8}-.*", entry.strip()):
            return Granted(given, doubt=f"{VISIBLE} names a MIG instance, not the GPU that it belongs to")
        found = _numbered(int(number[1]), known) if number else _called(entry.strip(), known)
        if not found:
            break
        chosen.append(found)
    if not chosen:
        return Granted((), f"{VISIBLE}={named} allows no GPU")
    return Granted(tuple(dict.fromkeys(chosen)))


def _order_is_doubtful(known: Sequence[Device], environment: Mapping[str, str]) -> str:
    """Why CUDA's numbers need not be the driver's; empty where they are: CUDA puts the fastest model first."""
    if any(device.number is None for device in known):
        return "a GPU cannot be opened, so the numbers of the others are unknown"
    if environment.get(ORDER) == "PCI_BUS_ID" or len({device.name for device in known}) == 1:
        return ""
    return f"this machine has several GPU models, which CUDA numbers as the driver does only with {ORDER}=PCI_BUS_ID"


def _numbered(number: int, known: Sequence[Device]) -> str:
    return next((device.key for device in known if device.number == number), "")


def _called(name: str, known: Sequence[Device]) -> str:
    """The one GPU whose UUID begins like this."""
    part = _PART_OF.fullmatch(name)
    name = (part[1] if part else name).lower()
    found = [device.key for device in known if name.startswith("gpu-") and device.uuid.lower().startswith(name)]
    return found[0] if len(found) == 1 else ""
