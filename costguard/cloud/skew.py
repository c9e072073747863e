"""How far this machine's clock is from the cloud's."""

import time
from email.utils import parsedate_to_datetime

_UNITS = ((36 * 3600.0, 86400.0, "days"), (5400.0, 3600.0, "h"), (90.0, 60.0, "min"), (0.0, 1.0, "s"))
"""From how many seconds on, the unit's seconds, and its name."""


def ahead_of_us(date: object) -> float:
    """Seconds that the cloud's clock is ahead of this machine's, by the header ``Date`` of its answer; 0 without one."""
    try:
        return parsedate_to_datetime(str(date)).timestamp() - time.time()
    except ValueError:
        return 0.0


def skew(ahead: float) -> str:
    """Text for the cloud's clock that is ``ahead`` seconds of this machine's: ``this machine's clock is 3 h behind``."""
    far = abs(ahead)
    size, name = next((size, name) for least, size, name in _UNITS if far >= least)
    return f"this machine's clock is {round(far / size, 1):g} {name} {'behind' if ahead > 0 else 'ahead'}"
