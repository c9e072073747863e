"""When the summary is due: at nine in the morning of the machine's zone, every day or every Monday. Resident: no heavy imports."""

import time

HOUR_OF_DAY = 9
MONDAY = 0


def next_due(after: float, every: str) -> float:
    """The first moment later than the date ``after`` at which a summary is due; ``every``: daily or weekly."""
    now = time.localtime(after)
    days = (MONDAY - now.tm_wday) % 7 if every == "weekly" else 0
    due = _morning(now, days)
    return due if due > after else _morning(now, days + (7 if every == "weekly" else 1))


def _morning(now: time.struct_time, days: int) -> float:
    """Nine o'clock so many days after that day, also across a change of the clocks."""
    return time.mktime((now.tm_year, now.tm_mon, now.tm_mday + days, HOUR_OF_DAY, 0, 0, 0, 0, -1))
