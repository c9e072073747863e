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


WORK: Values = {
    "util": 93,
    "memory_util": 40,
    "power": 420,
    "memory_used": 60000,
    "processes": [Process(4000, 60000, sm=90, mem=40)],
}
"""What GPUs show while a job does the same all the time."""


def make(folder: Path) -> World:
    """8 idle GPUs, each with one process that holds memory: the usual case, and the dearest to read."""
    addresses = [f"0000:{number:02x}:00.0" for number in range(1, GPUS + 1)]
    sysfs = write_sysfs(folder / "sys", addresses)
    library = build(folder / "lib")
    holders = [Process(4000, 1000)]
    script = Script(folder / "gpus", gpus=GPUS, util=0, power=120, memory_used=1000, processes=holders)
    return World(folder, sysfs, library, script, folder / "calls")
