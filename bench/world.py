"""The machine that is measured: a bus with 8 GPUs and the stand-in library."""

from pathlib import Path
from typing import NamedTuple

from costguard.testing.nvml import Process, Script, Values, build, write_sysfs

GPUS = 8


class World(NamedTuple):
    """Where everything is."""

    folder: Path
    sysfs: Path
    library: Path
    script: Script
    log: Path

    def environment(self, *, logging: bool = False) -> dict[str, str]:
        """For programs that shall see the stand-in; the call log costs time, so only on demand."""
        return self.script.environment(self.library, self.log if logging else None)


DRIVER = {
    "nvmlDeviceGetSamples": 0.0020,
    "nvmlDeviceGetTotalEnergyConsumption": 0.0036,
    "nvmlDeviceGetProcessUtilization": 0.0025,
    "nvmlDeviceGetFieldValues": 0.00027,
    "nvmlDeviceGetComputeRunningProcesses_v3": 0.00014,
    "nvmlDeviceGetMigMode": 0.00014,
    "nvmlDeviceGetMaxMigDeviceCount": 0.00014,
    "nvmlDeviceGetMemoryInfo_v2": 0.00009,
    "nvmlGpmSampleGet": 0.00028,
}
"""Seconds of a processor for which a real driver keeps it busy: the calls that it passes on to the GPU's own processor.

Medians on an H100 80GB HBM3 with driver 580.159.04, each call after a pause, as an agent makes them. All other calls of the reader took 0.07 ms
at most, Python's own part included.
"""

REST: Values = {
    "util": 0,
    "power": 120,
    "memory_used": 1000,
    "processes": [Process(4000, 1000)],
    "gpm": True,
    "gpm_metrics": {2: 0.0, 5: 0.0, 10: 0.0, 20: 0.2, 21: 0.01},
}
"""What GPUs show that nobody uses, each with one process that holds memory: the usual case."""

WORK: Values = {
    "util": 93,
    "memory_util": 40,
    "power": 420,
    "memory_used": 60000,
    "processes": [Process(4000, 60000, sm=90, mem=40)],
    "gpm_metrics": {2: 90.0, 5: 40.0, 10: 30.0, 20: 6.0, 21: 28.0},
}
"""What GPUs show while a job does the same all the time."""


def make(folder: Path) -> World:
    """8 GPUs at rest."""
    addresses = [f"0000:{number:02x}:00.0" for number in range(1, GPUS + 1)]
    sysfs = write_sysfs(folder / "sys", addresses)
    library = build(folder / "lib")
    script = Script(folder / "gpus", gpus=GPUS, **REST)
    for function, seconds in DRIVER.items():
        script.cost(function, seconds)
    return World(folder, sysfs, library, script, folder / "calls")
