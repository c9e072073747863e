"""A time of their own for programs that tests start: when the machine was booted, how fast its clocks run, what is passed over.

Nothing then depends on the uptime of the machine that runs the tests, and nothing waits longer than it has to.
"""

import mmap
import struct
import time
from pathlib import Path

import pytest

from tests.libraries import Libraries

UPTIME = 7200.0
"""Seconds since boot where a test does not say: past the grace after a boot, and before "unused since boot"."""


class Clock:
    """Of a machine that is up for ``uptime`` seconds now; from now on its time runs ``rate`` times as fast.

    ``hands``: a file for `pass_over`.
    """

    def __init__(self, library: Path, hands: Path, uptime: float = UPTIME, rate: int = 1) -> None:
        self._library, self._hands = library, hands
        hands.write_bytes(bytes(8))
        with hands.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), 8)
        self._passed = 0
        self._longer = int(uptime * 1e9) - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self._rate, self._origin = 1, 0
        self.run(rate)

    def run(self, rate: int) -> None:
        """Another pace, for programs that start from now on."""
        self._rate, self._origin = rate, time.monotonic_ns()

    def pass_over(self, seconds: float) -> None:
        """So much later, at once. Nobody who waits is woken: for programs that do something only when they are asked."""
        self._passed += int(seconds * 1e9)
        self._page[:8] = struct.pack("=q", self._passed)

    def boottime(self) -> float:
        """Seconds since boot, suspended time included, as those programs see them."""
        ahead = (time.monotonic_ns() - self._origin) * (self._rate - 1) + self._passed
        return (time.clock_gettime_ns(time.CLOCK_BOOTTIME) + self._longer + ahead) / 1e9

    def environment(self) -> dict[str, str]:
        """What to add to the environment of a program."""
        given = f"{self._rate} {self._origin} {self._longer} {self._hands}"
        return {"LD_PRELOAD": str(self._library), "TESTS_CLOCK": given}


@pytest.fixture
def clock(tmp_path_factory: pytest.TempPathFactory, libraries: Libraries) -> Clock:
    """The time of one test."""
    return Clock(libraries.clock(), tmp_path_factory.mktemp("hands") / "passed")
