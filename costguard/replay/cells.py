"""What one cell of a table says: a moment, or a load."""

import math
import re
from collections.abc import Sequence
from datetime import datetime

from costguard.engine.observation import Reading
from costguard.replay.trace import percent, unknown

NOTHING = frozenset({"", "-", "n/a", "na", "nan", "none", "null", "err!", "error", "not supported", "unknown error"})
"""Words for a value that could not be read, beside everything in square brackets."""

_SMI = re.compile(r"(\d{4})[/-](\d\d)[/-](\d\d)[ T](\d\d):(\d\d):(\d\d(?:[.,]\d+)?)")
_MINUTE = re.compile(r"\d{4}[/-]\d\d[/-]\d\d[ T]\d\d:[0-5]\d:")
_SECONDS = re.compile(r"[0-5]\d(?:[.,]\d+)?|60(?:[.,]\d+)?")
_NUMBER = re.compile(r"[-+]?\d+(\.\d*)?([eE][-+]?\d+)?")

MILLISECONDS = 1e11
"""A number of seconds since the epoch this large is one of milliseconds."""


def load(cell: str) -> Reading:
    """A load in per cent, with or without its sign, or unknown; raises ValueError in words."""
    text = cell.strip()
    if text.lower() in NOTHING or (text.startswith("[") and text.endswith("]")):
        return unknown(f"recorded as {text or 'an empty cell'}")
    number = text.removesuffix("%").rstrip()
    if not _NUMBER.fullmatch(number):
        raise ValueError(f"{text!r} is no load; allowed: 0 to 100, with or without %, or [N/A] and its like")
    try:
        return percent(float(number))
    except ValueError as error:
        raise ValueError(f"{text!r} is no load: {error}") from None


def moment(cell: str) -> float:
    """A date in seconds since the epoch; raises ValueError in words. One without a zone is local time."""
    text = cell.strip()
    if _NUMBER.fullmatch(text):
        number = float(text)
        if number < 0 or not math.isfinite(number):
            raise ValueError(f"{text!r} is no time")
        return number / 1000 if number >= MILLISECONDS else number
    if match := _SMI.fullmatch(text):
        year, month, day, hour, minute = (int(part) for part in match.groups()[:5])
        try:
            return datetime(year, month, day, hour, minute).timestamp() + float(match[6].replace(",", "."))  # noqa: DTZ001 - nvidia-smi writes local time
        except (ValueError, OverflowError, OSError):
            raise ValueError(f"{text!r} is no date") from None
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        raise ValueError(
            f"{text!r} is no time; allowed: 2026/01/31 15:04:05.678, 2026-01-31T15:04:05+01:00, or seconds since the epoch"
        ) from None


class _Minutes(dict[str, float]):
    """``2026/01/31 15:04:`` to seconds since the epoch."""

    def __init__(self) -> None:
        super().__init__()
        self._hours: dict[str, float] = {}

    def __missing__(self, head: str) -> float:
        if not _MINUTE.fullmatch(head):
            raise ValueError(f"{head!r} is no date")
        hour = self._hours.get(head[:14])
        if hour is None:
            hour = self._hours[head[:14]] = moment(head[:14] + "00:00")
        found = self[head] = hour + 60.0 * int(head[14:16])
        return found


class _Seconds(dict[str, float]):
    """``05.678`` to a number."""

    def __missing__(self, tail: str) -> float:
        if not _SECONDS.fullmatch(tail):
            raise ValueError(f"{tail!r} is no number of seconds")
        found = self[tail] = float(tail.replace(",", "."))
        return found


class Moments:
    """Times of whole columns: a minute is looked up once, as is a text of seconds."""

    def __init__(self) -> None:
        self._minutes = _Minutes()
        self._seconds = _Seconds()

    def column(self, cells: Sequence[str]) -> list[float]:
        """The moments of many cells; raises ValueError when one is none."""
        if cells and ":" not in cells[0]:
            try:
                numbers = list(map(float, cells))
            except ValueError:
                numbers = []
            if numbers and min(numbers) >= 0.0 and max(numbers) < MILLISECONDS and sum(numbers) >= 0.0:
                return numbers
        minutes, seconds = self._minutes, self._seconds
        try:
            return [minutes[cell[:17]] + seconds[cell[17:]] for cell in cells]
        except ValueError:
            return [moment(cell) for cell in cells]
