"""Read and write durations, shares, dates and commands as people do. Readers raise ValueError with a message for people."""

import math
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

_SECONDS: Mapping[str, float] = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})")
_NUMBER = r"\d+(?:\.\d+)?"
_BARE = re.compile(_NUMBER)
_PART = re.compile(rf"({_NUMBER})\s*([dhms])")
_DURATION = re.compile(rf"(?:{_NUMBER}\s*[dhms]\s*)+")
REFERENCE = re.compile(
    r"file:(?P<file>/\S+)|env:(?P<env>[A-Za-z_]\w*)|credential:(?P<credential>[\w.-]+)"
    r"|secret:(?P<secret>[A-Za-z0-9_+=.@:/-]{1,2048})"
)
"""Where secrets stand: a file, a variable of the environment, a credential of systemd, or the store of the machine's own cloud."""

_HOURS_MEANT = 48
"""A bare number up to this may mean hours; above it, minutes or seconds."""

LONGEST_SECONDS = 36500 * 86400.0
"""A longer duration is a slip, and beyond the end of dates."""

_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*(%?)")


def seconds(value: object) -> float:
    """Read ``30`` (seconds), ``30s``, ``10m``, ``2h``, ``1d`` or ``1h30m``."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{value!r} is not a duration")
    if isinstance(value, str):
        value = _written(value)
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{value} is not a duration")
    if value > LONGEST_SECONDS:
        raise ValueError(f"{value:g} s is longer than {show_seconds(LONGEST_SECONDS)}")
    return float(value)


_RATE = re.compile(rf"({_NUMBER})\s*([kMG]?B)(?:/s)?", re.IGNORECASE)
_BYTES = {"b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9}


def rate(value: object) -> float:
    """Read ``1MB/s``, ``500 kB/s`` or a number of bytes per second."""
    if isinstance(value, str) and (found := _RATE.fullmatch(value.strip())):
        return float(found[1]) * _BYTES[found[2].lower()]
    if isinstance(value, str) and _BARE.fullmatch(value.strip()):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ValueError(f"{value!r} is not a rate")
    return float(value)


def _written(text: str) -> float:
    """Numbers with units, the largest unit first and each at most once; or one bare number of seconds."""
    text = text.strip().lower()
    if _BARE.fullmatch(text):
        return float(text)
    parts = _PART.findall(text) if _DURATION.fullmatch(text) else []
    sizes = [_SECONDS[unit] for _number, unit in parts]
    if not parts or sizes != sorted(set(sizes), reverse=True):
        raise ValueError(f"{text!r} is not a duration")
    return sum(float(number) * size for (number, _unit), size in zip(parts, sizes, strict=True))


def spoken_seconds(text: str) -> float:
    """As `seconds`, from a person: a bare number is refused, because its unit is unclear."""
    number = text.strip()
    if _BARE.fullmatch(number) and float(number) > 0:
        large, small = ("h", "m") if float(number) <= _HOURS_MEANT else ("m", "s")
        raise ValueError(f"{number} has no unit: write {number}{large} or {number}{small}")
    return seconds(text)


def seconds_or_off(value: object) -> float | None:
    """As `seconds`; ``off`` (in TOML also ``false``) is None."""
    if value is None or value is False or (isinstance(value, str) and value.strip().lower() == "off"):
        return None
    return seconds(value)


def share(value: object) -> float:
    """Read ``0.7``, ``"70%"`` or ``"70 %"`` as 0.7.

    A bare number above 1 is refused (``80`` may mean 80 % or a slip), and so is a bare ``1``,
    which half of its readers take for 1 %.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{value!r} is not a share")
    percent = False
    number: float
    if isinstance(value, str):
        match = _SHARE.fullmatch(value.strip())
        if match is None:
            raise ValueError(f"{value!r} is not a share")
        number, percent = float(match[1]), bool(match[2])
    else:
        number = float(value)
    if percent and number <= 100:
        return round(number / 100, 12)
    if percent or not math.isfinite(number) or number < 0:
        raise ValueError(f"{value} is not a share")
    if number == 1 and "." not in str(value):
        raise ValueError(f"{value} alone is ambiguous; write 1% or 100%")
    if number > 1:
        advice = f"; write {_plain(number)}% or {_plain(number / 100)}" if number <= 100 else ""
        raise ValueError(f"{value} is not a share{advice}")
    return number


def date(value: object) -> float:
    """Read an RFC 3339 date and time with its offset, as seconds since the epoch."""
    moment = value
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value.strip())
        except ValueError:
            raise ValueError(f"{value!r} is not a date and time") from None
    if not isinstance(moment, datetime):
        raise ValueError(f"{value!s} is not a date and time")
    if moment.utcoffset() is None:
        raise ValueError(f"{value!s} has no offset from UTC, so it names a different moment on every machine")
    try:
        return moment.astimezone(UTC).timestamp()
    except OverflowError:
        raise ValueError(f"{value!s} lies outside the years 1 to 9999 of UTC") from None


def command(value: object) -> tuple[str, ...]:
    """Read a list of arguments, or one string that is split as a shell would."""
    if isinstance(value, str):
        try:
            words: Sequence[object] = shlex.split(value)
        except ValueError as error:
            raise ValueError(f"{value!r} cannot be split into arguments ({error})") from None
    else:
        words = value if isinstance(value, list | tuple) else [None]
    if not all(isinstance(word, str) for word in words):
        raise ValueError(f"{value!r} is not a command")
    if words and not str(words[0]).strip():
        raise ValueError(f"the program, the first word of {value!r}, is empty")
    return tuple(map(str, words))


def names(value: object) -> tuple[str, ...]:
    """Read a list of texts; numbers count as text."""
    if not isinstance(value, list | tuple):
        raise ValueError(f"{value!r} is not a list")
    for part in value:
        if isinstance(part, bool) or not isinstance(part, int | str):
            raise ValueError(f"{part!r} is not text")
    return tuple(str(part).strip() for part in value)


def moment(text: str, now: float) -> float:
    """The date that a person means at ``now``: ``18:00`` is the next one by this machine's clock, ``2027-01-31 18:00`` that day's.

    A date may carry its offset (RFC 3339); without one, a time that the clocks show twice is the later one, so that a hold is not
    too short. In seconds since the epoch; raises ValueError with what is wrong.
    """
    written = text.strip()
    if found := _CLOCK.fullmatch(written):
        today = datetime.fromtimestamp(now).replace(second=0, microsecond=0)  # noqa: DTZ006 - local, as people mean it
        try:
            day = today.replace(hour=int(found[1]), minute=int(found[2]))
        except ValueError:
            raise ValueError(f"{text!r} is not a time of day") from None
        return _latest(day) if _latest(day) > now else _latest(day + timedelta(days=1))
    try:
        return _latest(datetime.fromisoformat(written))
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is neither a time of day nor a date") from None


def _latest(date: datetime) -> float:
    """Of what a local time may mean on the night when clocks change, the later moment."""
    return max(date.replace(fold=0).timestamp(), date.replace(fold=1).timestamp())


def show_seconds(value: float) -> str:
    """Write a duration in the largest unit that keeps it exact: ``90`` is ``90s``, ``3600`` is ``1h``."""
    return _in_largest_unit(value, {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0})


def show_share(value: float) -> str:
    """Write a share as per cent: 0.05 is ``5%``."""
    return f"{_plain(value * 100)}%"


def show_date(value: float) -> str:
    """Write a moment as RFC 3339 in UTC."""
    return datetime.fromtimestamp(value, UTC).isoformat()


def show_local(value: float) -> str:
    """Write a moment for people here, with the zone that makes it the same everywhere."""
    return datetime.fromtimestamp(value, UTC).astimezone().isoformat(" ")


def show_rate(value: float) -> str:
    """Write bytes per second in the largest unit that keeps them exact: 100000 is ``100kB/s``."""
    return _in_largest_unit(value, {"GB/s": 1e9, "MB/s": 1e6, "kB/s": 1e3, "B/s": 1.0})


FORMS: Mapping[str, Callable[[float], str]] = {
    "seconds": show_seconds,
    "share": show_share,
    "date": show_date,
    "rate": show_rate,
}
"""How people write a number of each unit; one of any other unit, or of none, stands for itself."""


def _in_largest_unit(value: float, sizes: Mapping[str, float]) -> str:
    """Exactly, in one of these units, the largest first; the last one is the smallest."""
    exact = (unit for unit, size in sizes.items() if value >= size and value % size == 0)
    unit = next(exact, [*sizes][-1])
    return f"{_plain(value / sizes[unit])}{unit}"


def _plain(number: float) -> str:
    return f"{number:.10g}"
