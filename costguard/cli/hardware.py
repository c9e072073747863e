"""Is there NVIDIA hardware at all? For short-lived commands; "cannot tell" is never "no"."""

import json
import os
import select
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress

from costguard.agent.programs import command_lines

PROBE_SECONDS = 15.0
"""How long one reading may take before the driver counts as hanging (so there is one)."""

KILL_SECONDS = 2.0
"""How long a killed reader is waited for; this process becomes the guard, which would keep it as a zombie."""

_NVIDIA = "0x10de"
_DISPLAY = "0x03"  # PCI base class: display controllers, VGA and 3D


def nvidia_hardware(places: Mapping[str, str], seconds: float = PROBE_SECONDS) -> bool | None:
    """True, False, or None when it cannot be told.

    ``places``: procfs, sysfs and devfs of the machine; ``seconds``: the patience with the driver.
    False needs both witnesses: no display device of NVIDIA on the PCI bus, and NVML saying that it has none.
    """
    if _on_pci_bus(places.get("sysfs", "/sys")):
        return True
    answer = _first_reading(places, seconds)
    if answer.get("gpus"):
        return True
    return False if answer.get("hardware") is False else None


def _on_pci_bus(sysfs: str) -> bool:
    root = os.path.join(sysfs, "bus/pci/devices")
    try:
        names = os.listdir(root)
    except OSError:
        return False
    return any(
        _text(root, name, "vendor") == _NVIDIA and _text(root, name, "class").startswith(_DISPLAY) for name in names
    )


def _text(*parts: str) -> str:
    try:
        with open(os.path.join(*parts), encoding="ascii") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _first_reading(places: Mapping[str, str], seconds: float) -> dict[str, object]:
    """What the NVML reader says first; empty when it says nothing in time."""
    job = {
        name: places.get(name, f"/{short}") for name, short in (("sysfs", "sys"), ("procfs", "proc"), ("devfs", "dev"))
    }
    lines = json.dumps(job | {"counters": None}) + '\n{"read":1}\n'
    try:
        reader = subprocess.Popen(
            command_lines()["nvml"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
        )
    except OSError:
        return {}
    assert reader.stdin is not None
    assert reader.stdout is not None
    try:
        reader.stdin.write(lines.encode())
        answer = json.loads(_line(reader.stdout.fileno(), time.monotonic() + seconds) or b"{}")
    except (OSError, ValueError):
        return {}
    finally:
        reader.stdin.close()
        reader.stdout.close()
        reader.kill()
        with suppress(subprocess.TimeoutExpired):  # in a sick driver it may not be killable
            reader.wait(KILL_SECONDS)
    return answer if isinstance(answer, dict) else {}


def _line(fd: int, deadline: float) -> bytes:
    """One line, or what came of it before the deadline or the end of the output."""
    text = b""
    while b"\n" not in text:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([fd], [], [], left)[0]:
            break
        data = os.read(fd, 65536)
        if not data:
            break
        text += data
    return text.partition(b"\n")[0]
