"""What GPUs there are, whether the driver answers, and what to do about one that cannot be read."""

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from costguard.doctor.finding import CheckResult
from costguard.process.child import first_answer
from costguard.readers.nvml.job import NvmlJob
from costguard.readers.nvml.pci import Bus

PROBE_SECONDS = 20.0
"""For one reading by a fresh process: without persistence mode the driver takes 1 to 3 s for each GPU."""

_VERSION = re.compile(r"\b\d{3}\.\d+(?:\.\d+)?\b")
_CODE = re.compile(r"NVML (\d+)")
_DMESG = "sudo dmesg | grep -e NVRM -e Xid"

ADVICE = {
    1: f"the reader starts anew by itself; if it stays: {_DMESG}",
    3: "it shows no activity that can be read (MIG, vGPU or an old driver): `nvidia-smi -q -d UTILIZATION` shows the same",
    4: "run costguard as root, or let its user open the devices: `ls -l /dev/nvidia*`",
    9: "load the driver: `sudo modprobe nvidia`, then `nvidia-smi`",
    12: "install the driver's library (libnvidia-ml.so.1) of the kernel module's version; in a container, use NVIDIA's "
    "runtime with NVIDIA_DRIVER_CAPABILITIES=utility",
    13: "the driver is too old for this reading: `nvidia-smi` names its version",
    15: f"it fell off the bus; other GPUs work on. See `{_DMESG}`, then reboot when no job runs",
    16: "it needs a reset: `sudo nvidia-smi --gpu-reset` when nothing uses it, or reboot",
    17: "the system keeps the device from costguard: a service needs `DeviceAllow=char-nvidia* rw`, a container its devices",
    18: "the driver was upgraded under the running system; jobs go on, new programs fail: reboot when no job runs",
    27: "the driver still starts this GPU: look again in a minute with `costguard doctor`",
    999: f"in a container: create it again, it lost its devices (or run costguard on the host). Otherwise: {_DMESG}",
}
"""What to do about an NVML code."""


class Hardware(NamedTuple):
    """What the bus and the driver say. ``present``: whether there is an NVIDIA GPU (None: cannot tell)."""

    present: bool | None
    addresses: tuple[str, ...]
    elsewhere: tuple[str, ...]
    driver: str


def look(places: Mapping[str, str]) -> Hardware:
    """Count without the driver's library."""
    bus = Bus(places["sysfs"], places["devfs"])
    bus.look()
    loaded = re.search(_VERSION, _text(os.path.join(places["procfs"], "driver/nvidia/version")))
    return Hardware(bus.hardware(), tuple(bus.expected), tuple(bus.elsewhere), loaded[0] if loaded else "")


def checks(found: Hardware, places: Mapping[str, str], *, read: bool = False) -> Iterator[CheckResult]:
    """The bus, the driver, and the device nodes. ``read``: somebody reads GPUs all the same."""
    if found.addresses:
        yield CheckResult("ok", f"NVIDIA GPUs on the PCI bus: {', '.join(found.addresses)}")
    elif found.present is False and not read:
        yield CheckResult(
            "bad", "no NVIDIA GPU on this machine: there is nothing to guard", "see what there is: `lspci -d 10de:`"
        )
    else:
        yield CheckResult(
            "note", "the PCI bus shows no NVIDIA GPU, and this machine may have one elsewhere", "`nvidia-smi -L`"
        )
    for address in found.elsewhere:
        yield CheckResult(
            "note", f"{address} is not NVIDIA's driver's (passed on to a virtual machine, or nouveau); not watched"
        )
    if found.driver:
        yield CheckResult("ok", f"the driver's kernel module is {found.driver}")
    elif found.addresses:
        yield CheckResult("warn", f"no kernel module of NVIDIA shows in {places['procfs']}/driver/nvidia", ADVICE[9])
    if found.addresses and not os.path.exists(os.path.join(places["devfs"], "nvidiactl")):
        text = f"{places['devfs']}/nvidiactl is missing: programs here cannot reach the driver"
        yield CheckResult("warn", text, "`nvidia-smi` as root makes the devices; a container must be given them")


def probe(places: Mapping[str, str], seconds: float = PROBE_SECONDS) -> dict[str, Any]:
    """One reading by a process of its own, as the agent would make it; ``error`` says why there is none."""
    job = NvmlJob(sysfs=places["sysfs"], devfs=places["devfs"])
    answer = first_answer("nvml", [job, {"read": 1}], seconds)
    if answer is None:
        return {"error": f"the driver did not answer within {seconds:.0f} s; the reader was killed", "gpus": []}
    if "gpus" in answer:
        return answer
    words = answer.get("last_words")
    return {"error": "the reader ended without an answer" + (f": {words}" if words else ""), "gpus": []}


def advice(words: str) -> str:
    """What to do about a GPU that cannot be read, from the reader's words."""
    code = _CODE.search(words)
    if code and int(code[1]) in ADVICE:
        return ADVICE[int(code[1])]
    if "did not answer" in words or "hang" in words:
        return f"the driver hangs; jobs may work on, and only a reboot ends it. See `{_DMESG}`"
    if "detached" in words:
        return "it was let go for work on the driver; `sudo costguard attach` takes it back"
    if "not listed" in words:
        return f"the driver lost it: {_DMESG}"
    return f"see what the driver says: `nvidia-smi`, and {_DMESG}"


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(4096)
    except OSError:
        return ""
