"""Times on a picture and a page: local, with the name of their zone."""

import time
from collections.abc import Iterator

DAY = 86400.0
STEPS = (300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 1209600)
"""Between two marks, in seconds."""


def ticks(since: float, until: float, most: int) -> tuple[float, list[float]]:
    """The marks of a time axis, at most so many, at whole local hours or midnights, and their distance."""
    step = next((step for step in STEPS if (until - since) / step <= most), STEPS[-1])
    return float(step), list(_days(since, until, step) if step >= DAY else _within_days(since, until, step))


def _days(since: float, until: float, step: int) -> Iterator[float]:
    wall, number = _midnight(since, 1), 0
    while wall <= until:
        if number % (step // int(DAY)) == 0:
            yield wall
        wall, number = _midnight(wall, 1), number + 1


def _within_days(since: float, until: float, step: int) -> Iterator[float]:
    """Marks counted from each midnight, so that a day of 23 or 25 hours does not move those of the next day."""
    begin = _midnight(since, 0)
    while begin <= until:
        end = _midnight(begin, 1)
        wall = begin
        while wall < end:
            if since <= wall <= until:
                yield wall
            wall += step
        begin = end


def _midnight(wall: float, days: int) -> float:
    now = time.localtime(wall)
    return time.mktime((now.tm_year, now.tm_mon, now.tm_mday + days, 0, 0, 0, 0, 0, -1))


def midnight(wall: float) -> bool:
    """Whether a day begins there."""
    return time.strftime("%H:%M", time.localtime(wall)) == "00:00"


def hour(wall: float) -> str:
    """``15:40``."""
    return time.strftime("%H:%M", time.localtime(wall))


def day(wall: float) -> str:
    """``21 Nov``."""
    return f"{time.localtime(wall).tm_mday} {_MONTHS[time.localtime(wall).tm_mon - 1]}"


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
"""In English, like every other word here, whatever the machine's locale."""


def moment(wall: float) -> str:
    """``21 Nov 15:40``."""
    return f"{day(wall)} {hour(wall)}"


def zones(since: float, until: float) -> str:
    """``CET``; both zones where summer time begins or ends in between: ``CEST/CET``."""
    return "/".join(dict.fromkeys(time.strftime("%Z", time.localtime(wall)) for wall in (since, until)))


def period(since: float, until: float) -> str:
    """``21 Nov 18:00 to 22 Nov 00:10 CET``, with its `zones`."""
    last = hour(until) if day(since) == day(until) and until - since < DAY else moment(until)
    return f"{moment(since)} to {last} {zones(since, until)}"
