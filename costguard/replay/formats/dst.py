"""The hour that a local clock shows twice, when summer time ends."""

from array import array
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise


def unfold(times: Sequence[float]) -> "array[float] | None":
    """Dates read from a local clock that was set back: what was recorded after that is later by the hour.

    None where that does not put every one of them in order: then the rows themselves are out of order.
    """
    found = array("d", times)
    for place in _steps_back(times):
        back = times[place - 1] - times[place]
        if back < (_second_time(times[place]) - times[place]) / 2:
            return None  # a row that is late, not a clock that was set back
        for i in range(place, len(found)):
            later = _second_time(times[i])
            if later == times[i] or (i > place and times[i] < times[i - 1]):
                break
            found[i] = later
    return None if _steps_back(found) else found


def _steps_back(times: Sequence[float]) -> list[int]:
    return [i for i, (before, at) in enumerate(pairwise(times), 1) if at < before]


def _second_time(at: float) -> float:
    """When the local clock shows the same again; the same moment when it does not."""
    local = datetime.fromtimestamp(at)  # noqa: DTZ006 - it is the local clock that is set back
    return at + local.replace(fold=1).timestamp() - local.timestamp() if not local.fold else at
