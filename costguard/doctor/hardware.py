"""Which GPUs there are, whether the driver answers, and what to do about a GPU that cannot be read."""

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from costguard.agent import decode
from costguard.doctor.finding import CheckResult, bad, note, ok, warn
from costguard.files import text_of
from costguard.process.child import EndedError, SilentError, first_line
from costguard.readers.nvml.job import NvmlJob
from costguard.readers.nvml.pci import Bus
from costguard.readers.question import Question

PROBE_SECONDS = 20.0
"""For one reading by a fresh process: without persistence mode the driver takes 1 to 3 s for each GPU."""

_VERSION = re.compile(r"\b\d{3}\.\d+(?:\.\d+)?\b")
_CODE = re.compile(r"NVML (\d+)")
_DMESG = "sudo dmesg | grep -e NVRM -e Xid"

ADVICE = {
    1: f"the reader restarts by itself; if the error stays: {_DMESG}",
    3: "its activity cannot be read (MIG, vGPU or an old driver): `nvidia-smi -q -d UTILIZATION` shows the same",
    4: "run costguard as root, or let its user open the devices: `ls -l /dev/nvidia*`",
    9: "load the driver: `sudo modprobe nvidia`, then `nvidia-smi`",
    12: "install the driver's library (libnvidia-ml.so.1) of the kernel module's version; in a container, use NVIDIA's "
    "runtime with NVIDIA_DRIVER_CAPABILITIES=utility",
    13: "the driver is too old for this reading: `nvidia-smi` names its version",
    15: f"it fell off the bus; other GPUs keep working. See `{_DMESG}`, then reboot when no job runs",
    16: "it needs a reset: `sudo nvidia-smi --gpu-reset` when nothing uses it, or reboot",
    17: "the system denies costguard the device: a service needs `DeviceAllow=char-nvidia* rw`, a container its devices",
    18: "the driver was upgraded on the running system; jobs continue, new programs fail: reboot when no job runs",
    27: "the driver is still starting this GPU: run `costguard doctor` again in a minute",
    999: f"in a container: recreate it, it lost its devices (or run costguard on the host). Otherwise: {_DMESG}",
}
"""What to do about an NVML code."""


class Hardware(NamedTuple):
    """What the bus and the driver show. ``present``: whether there is an NVIDIA GPU (None: unknown)."""

    present: bool | None
    addresses: tuple[str, ...]
    elsewhere: tuple[str, ...]
    driver: str


def look(places: Mapping[str, str]) -> Hardware:
    """Count without the driver's library."""
    bus = Bus(places["sysfs"], places["devfs"])
    bus.look()
    loaded = re.search(_VERSION, text_of(os.path.join(places["procfs"], "driver/nvidia/version")))
    return Hardware(bus.hardware(), tuple(bus.expected), tuple(bus.elsewhere), loaded[0] if loaded else "")


def checks(found: Hardware, places: Mapping[str, str], *, read: bool = False) -> Iterator[CheckResult]:
    """Check the bus, the driver and the device nodes. ``read``: GPUs were read in any case."""
    if found.addresses:
        yield ok(f"NVIDIA GPUs on the PCI bus: {', '.join(found.addresses)}")
    elif found.present is False and not read:
        yield bad("no NVIDIA GPU on this machine, so there is nothing to guard", "see `lspci -d 10de:`")
    else:
        yield note("the PCI bus shows no NVIDIA GPU, but there may be one elsewhere", "`nvidia-smi -L`")
    for address in found.elsewhere:
        yield note(
            f"{address} is not bound to NVIDIA's driver (passed through to a virtual machine, or nouveau); not watched"
        )
    if found.driver:
        yield ok(f"NVIDIA kernel module {found.driver}")
    elif found.addresses:
        yield warn(f"the NVIDIA kernel module is not loaded ({places['procfs']}/driver/nvidia)", ADVICE[9])
    if found.addresses and not os.path.exists(os.path.join(places["devfs"], "nvidiactl")):
        text = f"{places['devfs']}/nvidiactl is missing: programs here cannot reach the driver"
        yield warn(text, "`sudo nvidia-smi` creates the devices; a container must be given them")


def probe(places: Mapping[str, str], seconds: float = PROBE_SECONDS) -> dict[str, Any]:
    """One reading in a child process, as the agent makes it; ``error`` says why there is none."""
    job = NvmlJob(sysfs=places["sysfs"], devfs=places["devfs"])
    try:
        answer = decode.message(first_line("nvml", [job, Question(1)], seconds)) or {}
    except SilentError:
        return {"error": f"the driver did not answer within {seconds:.0f} s; the reader was killed", "gpus": []}
    except EndedError:
        answer = {}
    if "gpus" in answer:
        return answer
    last = answer.get("last_words")
    return {"error": "the reader ended without an answer" + (f": {last}" if last else ""), "gpus": []}


def advice(message: str) -> str:
    """What to do about a GPU that cannot be read, from the reader's message."""
    code = _CODE.search(message)
    if code and int(code[1]) in ADVICE:
        return ADVICE[int(code[1])]
    if "did not answer" in message or "hang" in message:
        return f"the driver hangs; jobs may continue, but only a reboot fixes it. See `{_DMESG}`"
    if "detached" in message:
        return "the driver was released with `costguard detach`; `sudo costguard attach` uses it again"
    if "not listed" in message:
        return f"the driver lost it: {_DMESG}"
    return f"see `nvidia-smi` and `{_DMESG}`"
