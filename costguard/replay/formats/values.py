"""Parses one cell of a table: a time, or a load."""

import re
from collections.abc import Callable, Sequence
from datetime import datetime

from costguard.engine.observation import Known, Reading, Unknown
from costguard.replay.trace import ReadingCodes, percent

NOTHING = frozenset({"", "-", "n/a", "na", "nan", "none", "null", "err!", "error", "not supported", "unknown error"})
"""Words for a value that could not be read, beside everything in square brackets."""

_SMI = re.compile(r"(\d{4})[/-](\d\d)[/-](\d\d)[ T](\d\d):(\d\d):(\d\d(?:[.,]\d+)?)")
_HOUR = re.compile(r"\d{4}[/-]\d\d[/-]\d\d[ T]\d\d:")
_MINUTES = {f"{minute:02}:": 60.0 * minute for minute in range(60)}
_SECONDS = re.compile(r"[0-5]\d(?:[.,]\d+)?|60(?:[.,]\d+)?")
_ISO_HOUR = re.compile(r"20(?!0[0-4])\d\d-\d\d-\d\d[ T](?:[01]\d|2[0-3]):")
_ISO_SECONDS = re.compile(r"([0-5]\d(?:\.\d{1,6})?)(?:Z|([+-])([01]\d|2[0-3]):?([0-5]\d))")
_NUMBER = re.compile(r"[-+]?\d+([.,]\d*)?([eE][-+]?\d+)?")

EARLIEST, LATEST = 1e9, 4.2e9
"""Seconds since the epoch in September 2001 and in 2103: no recording is from before, or from after. Smaller numbers are seconds
since the beginning of a recording."""

EPOCH_UNITS = (1.0, 1e3, 1e6, 1e9)
"""Parts of a second in which people count since the epoch: their ranges are far apart, so a number tells its own."""


def load(cell: str, scale: float = 1.0) -> Reading:
    """A load, in per cent once multiplied by ``scale``, with or without a percent sign; or unknown. Raises ValueError."""
    text = cell.strip()
    if text.lower() in NOTHING or (text.startswith("[") and text.endswith("]")):
        return Unknown(f"recorded as {text or 'an empty cell'}")
    number = text.removesuffix("%").rstrip()
    if not _NUMBER.fullmatch(number):
        raise ValueError(f"{text!r} is not a load; allowed: 0 to 100, with or without %, or [N/A] and the like")
    try:
        return percent(float(number.replace(",", ".")) * scale)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a load: {error}") from None


def moment(cell: str) -> float:
    """A date in seconds since the epoch; one without a zone is local time. Small numbers stay. Raises ValueError."""
    text = cell.strip()
    if _NUMBER.fullmatch(text):
        number = float(text.replace(",", "."))
        return number if 0.0 <= number < EARLIEST else since_epoch(number)
    if match := _SMI.fullmatch(text):
        year, month, day, hour, minute = (int(part) for part in match.groups()[:5])
        try:
            found = datetime(year, month, day, hour, minute).timestamp() + float(match[6].replace(",", "."))  # noqa: DTZ001 - nvidia-smi writes local time
        except (ValueError, OverflowError, OSError):
            raise ValueError(f"{text!r} is not a date") from None
        return _plausible(found, text)
    try:
        found = datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        raise ValueError(
            f"{text!r} is not a time; allowed: 2026/01/31 15:04:05.678, 2026-01-31T15:04:05+01:00, or seconds since the epoch"
        ) from None
    return _plausible(found, text)


def since_epoch(number: float) -> float:
    """A number of seconds, or of thousandths, millionths or billionths, since the epoch, in seconds. Raises ValueError."""
    scale = _parts_of_second(number, number)
    if not scale:
        raise ValueError(
            f"{number:.15g} is not a time: read as s, ms, µs or ns since the epoch, it lies outside 2001 to 2103"
        )
    return number / scale


def _plausible(found: float, text: str) -> float:
    if not EARLIEST <= found < LATEST:
        raise ValueError(f"{text!r} is not a date from 2001 to 2103")
    return found


def is_local(cell: str) -> bool:
    """Whether a date names no zone, so that it was read from a local clock."""
    return bool(_SMI.fullmatch(cell.strip()))


class _Lookup(dict[str, float]):
    """The number of a text, worked out once; faster than a cached function. Raises ValueError where ``parse`` does."""

    def __init__(self, parse: Callable[[str], float]) -> None:
        super().__init__()
        self._parse = parse

    def __missing__(self, text: str) -> float:
        number = self[text] = self._parse(text)
        return number


def _local_hour(head: str) -> float:
    """``2026/01/31 15:`` to seconds since the epoch."""
    if not _HOUR.fullmatch(head):
        raise ValueError(f"{head!r} is not an hour")
    return moment(head + "00:00")


def _utc_hour(head: str) -> float:
    """``2026-01-31T15:``, taken as UTC, to seconds since the epoch."""
    if not _ISO_HOUR.fullmatch(head):
        raise ValueError(f"{head!r} is not an hour")
    return moment(head + "00:00+00:00")


def _minutes(hours: _Lookup) -> _Lookup:
    """``2026/01/31 15:04:`` to seconds since the epoch."""

    def parse(head: str) -> float:
        minute = _MINUTES.get(head[14:])
        if minute is None:
            raise ValueError(f"{head!r} is not a date")
        return hours[head[:14]] + minute

    return _Lookup(parse)


def _local_seconds(tail: str) -> float:
    """``05.678`` to a number."""
    if not _SECONDS.fullmatch(tail):
        raise ValueError(f"{tail!r} is not a number of seconds")
    return float(tail.replace(",", "."))


def _utc_seconds(tail: str) -> float:
    """``05.678+01:00`` to the seconds that are added to the minute in UTC.

    Their sum is rounded as `moment` rounds: with six digits at most and since 2005, none is near enough to a tie.
    """
    if not (match := _ISO_SECONDS.fullmatch(tail)):
        raise ValueError(f"{tail!r} is not a number of seconds with a zone")
    seconds, sign, hours, minutes = match.groups(default="0")
    east = (3600.0 * int(hours) + 60.0 * int(minutes)) * (-1.0 if sign == "-" else 1.0)
    return float(seconds) - east


HEAD = 17
"""Characters of a date up to its seconds."""


class CellTimes:
    """Times of whole columns: a minute is looked up once, as is a text of seconds."""

    def __init__(self) -> None:
        self.parts: tuple[tuple[dict[str, float], dict[str, float]], ...] = (
            (_minutes(_Lookup(_local_hour)), _Lookup(_local_seconds)),
            (_minutes(_Lookup(_utc_hour)), _Lookup(_utc_seconds)),
        )
        """Where a date is the sum of its two parts: in local time, and with a zone. A lookup raises ValueError."""

    def column(self, cells: Sequence[str]) -> list[float]:
        """The moments of many cells; raises ValueError when one is none."""
        if cells and ":" not in cells[0]:
            numbers = _numbers(cells)
            scale = scale_of(min(numbers), max(numbers)) if numbers and sum(numbers) >= 0.0 else 0.0
            if scale:
                return numbers if scale == 1.0 else [number / scale for number in numbers]
        for minutes, seconds in self.parts:
            try:
                return [minutes[cell[:HEAD]] + seconds[cell[HEAD:]] for cell in cells]
            except ValueError:
                continue
        return [moment(cell) for cell in cells]


def _numbers(cells: Sequence[str]) -> list[float]:
    """The same numbers; empty when one is no number."""
    try:
        return list(map(float, cells))
    except ValueError:
        return []


def scale_of(least: float, most: float) -> float:
    """By what numbers from ``least`` to ``most`` are divided to be seconds; 0 when it is not one for all."""
    return 1.0 if least >= 0.0 and most < EARLIEST else _parts_of_second(least, most)


def _parts_of_second(least: float, most: float) -> float:
    """The same for numbers since the epoch."""
    return next((unit for unit in EPOCH_UNITS if EARLIEST * unit <= least and most < LATEST * unit), 0.0)


class Numbers(dict[str, int]):
    """The number of a cell's reading in the palette, worked out once for every text.

    ``scales`` make per cent of the loads of each column; the first ``own`` of them are the GPU's own, the others its engines'.
    """

    def __init__(self, palette: ReadingCodes) -> None:
        super().__init__()
        self._palette = palette
        self.scales: Sequence[float] = (1.0,)
        self.own = 1
        self._several: dict[tuple[str, ...], int] = {}

    def __missing__(self, cell: str) -> int:
        found = self[cell] = self._palette.number(load(cell, self.scales[0]))
        return found

    def several(self, *cells: str) -> int:
        """The highest of several loads; unknown where none of the GPU's own can be read, whatever its engines do."""
        found = self._several.get(cells)
        if found is None:
            readings = [load(cell, scale) for cell, scale in zip(cells, self.scales, strict=True)]
            found = self._several[cells] = self._palette.number(_highest(readings, self.own))
        return found

    def cells_of(self, place: int) -> set[str]:
        """Every text that was read as a load of one column."""
        return {cells[place] for cells in self._several} if self._several else set(self)


def _highest(readings: Sequence[Reading], own: int) -> Reading:
    if not any(isinstance(reading, Known) for reading in readings[:own]):
        return readings[0]
    return max((reading for reading in readings if isinstance(reading, Known)), key=lambda known: known.load)
