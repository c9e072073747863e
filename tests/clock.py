"""A time of their own for programs that tests start: when the machine was booted, and how fast its clocks run.

Nothing then depends on the uptime of the machine that runs the tests, and what waits need not wait as long.
"""

import subprocess
import time
from pathlib import Path

SOURCE = Path(__file__).with_name("clock.c")
UPTIME = 7200.0
"""Seconds since boot where a test does not say: past the grace after a boot, and before "unused since boot"."""


def build(folder: Path) -> Path:
    """The library that gives it, compiled."""
    made = folder / "clock.so"
    subprocess.run(["cc", "-std=gnu11", "-O2", "-shared", "-fPIC", "-o", made, SOURCE], check=True)
    return made


class Clock:
    """Of a machine that is up for ``uptime`` seconds now; from now on its time runs ``rate`` times as fast."""

    def __init__(self, library: Path, uptime: float = UPTIME, rate: int = 1) -> None:
        self._library = library
        self._longer = int(uptime * 1e9) - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self._rate, self._origin = 1, 0
        self.run(rate)

    def run(self, rate: int) -> None:
        """Another pace, for programs that start from now on."""
        self._rate, self._origin = rate, time.monotonic_ns()

    def boottime(self) -> float:
        """Seconds since boot, suspended time included, as those programs see them."""
        ahead = (time.monotonic_ns() - self._origin) * (self._rate - 1)
        return (time.clock_gettime_ns(time.CLOCK_BOOTTIME) + self._longer + ahead) / 1e9

    def environment(self) -> dict[str, str]:
        """What to add to the environment of a program."""
        return {"LD_PRELOAD": str(self._library), "TESTS_CLOCK": f"{self._rate} {self._origin} {self._longer}"}
