"""The clock that counts while a machine sleeps and that no set date moves: what every process measures moments by."""

import time


def boot_clock() -> float:
    """Seconds since boot, suspended time included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
