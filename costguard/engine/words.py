"""Numbers as people read them."""

import time

FAR_SECONDS = 12 * 3600.0
"""Seconds from which on a time of day alone could be that of another day."""

PRECISE_SECONDS = 600.0
"""What is nearer is told to the second."""


def duration(seconds: float) -> str:
    """``75`` -> ``1m 15s``, ``5400`` -> ``1h 30m``, ``172800`` -> ``2d``; two units at most."""
    left = max(0, round(seconds))
    if left >= 600:
        left -= left % 60
    parts = []
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m"), (1, "s")):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2]) or "0s"


def clock(wall: float, now: float | None = None) -> str:
    """A date as local time of day with its zone, ``15:42 CET``; half a day or more away from ``now`` with its day."""
    far = now is not None and abs(wall - now) >= FAR_SECONDS
    return date(round(wall)) if far else time.strftime("%H:%M %Z", time.localtime(round(wall)))


def clock_and_second(wall: float) -> str:
    """The same to the second, ``15:42:07 CET``."""
    return time.strftime("%H:%M:%S %Z", time.localtime(round(wall)))


def clock_ahead(wall: float, now: float) -> str:
    """A date that is still to come: to the second where it is near, as `duration` tells how far away it is."""
    return clock_and_second(wall) if 0.0 <= wall - now < PRECISE_SECONDS else clock(wall, now)


def date(wall: float) -> str:
    """A local date with its zone, to the minute: ``2026-11-21 15:42 CET``."""
    return time.strftime("%Y-%m-%d %H:%M %Z", time.localtime(wall))


def date_and_second(wall: float) -> str:
    """A local date to the second, where the zone is named elsewhere: ``2026-11-21 15:42:07``."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(wall))


def hour(wall: float) -> str:
    """The time of day alone, for a column whose zone is named elsewhere."""
    return time.strftime("%H:%M", time.localtime(round(wall)))


def percent(share: float) -> str:
    """``0.05`` -> ``5 %``."""
    return f"{share * 100:.3g} %"


def hanging(readers: int) -> str:
    """``2 readers hang in the driver and cannot be killed``."""
    return f"{several(readers, 'reader')} hang{'s' if readers == 1 else ''} in the driver and cannot be killed"


def several(count: int, noun: str, nouns: str = "") -> str:
    """``1 GPU``, ``8 GPUs``, ``0 GPUs``; ``nouns`` where the plural has more than an s: ``3 tries``."""
    return f"{count} {noun if count == 1 else nouns or noun + 's'}"


def times(count: int) -> str:
    """How often, as people say it: ``once``, ``twice``, ``3 times``."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def spell(seconds: float) -> str:
    """A duration as `duration` has it; one of less than ten seconds with its fraction."""
    return f"{seconds:g}s" if seconds < 10 else duration(seconds)
