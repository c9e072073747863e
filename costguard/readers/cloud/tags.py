"""What the tags of the machine ask for. A tag can only postpone, or make a setting milder: whoever writes it is not the owner.

``costguard = off`` keeps the machine up, ``costguard-hold`` does so until a moment (RFC 3339). Where the owner allows it
(``cloud.tag_settings``), ``costguard-kill-duration = 2h`` and its kin change a setting, each in one direction alone.
"""

from collections.abc import Mapping
from typing import Any

DURATIONS = ("kill_duration", "grace", "boot_grace", "unused_after")
"""Settings that a tag may make longer; ``unused_after`` may also be switched off."""

SHARES = ("kill_threshold",)
"""Settings that a tag may make lower."""


def asks(tags: Mapping[str, str], wall: float) -> list[tuple[str, float | None]]:
    """What tags ask for at this date, each with the seconds that are left of it."""
    wanted = _wanted(tags)
    found: list[tuple[str, float | None]] = []
    if wanted.get("costguard", "").lower() in {"off", "false", "no"}:
        found.append((f"costguard = {wanted['costguard']}", None))
    until = wanted.get("costguard-hold", "")
    end = _moment(until)
    if end is not None and end > wall:
        found.append((f"costguard-hold until {until}", end - wall))
    return found


def mistakes(tags: Mapping[str, str]) -> list[str]:
    """Words for a hold that holds nothing: whoever wrote it believes that the machine stays up."""
    until = _wanted(tags).get("costguard-hold", "")
    if not until or _moment(until) is not None:
        return []
    return [f"tag costguard-hold: {until!r} is not a date with its offset; write it as 2027-01-31T18:00:00+01:00"]


def settings(tags: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """The settings that tags name, as the engine counts (seconds, shares, None for off), and words for each that makes no sense."""
    names = {f"costguard-{name.replace('_', '-')}": name for name in (*DURATIONS, *SHARES)}
    wanted = _wanted(tags)
    found: dict[str, Any] = {}
    nonsense = []
    for tag in sorted(wanted.keys() & names):
        name = names[tag]
        try:
            found[name] = _value(name, wanted[tag])
        except ValueError as error:
            nonsense.append(f"tag {tag}: {error}")
    return found, nonsense


def _wanted(tags: Mapping[str, str]) -> dict[str, str]:
    """The tags by their names in one spelling."""
    return {name.lower().replace("_", "-"): value.strip() for name, value in tags.items()}


def _value(name: str, text: str) -> float | None:
    """Raises ValueError in words."""
    from costguard.config import values  # here: a machine without such a tag does not load it

    if name == "unused_after":
        return values.seconds_or_off(text)
    return values.seconds(text) if name in DURATIONS else values.share(text)


def _moment(text: str) -> float | None:
    """A date with its offset, in seconds since the epoch; None for what is none."""
    if not text:
        return None
    from datetime import datetime  # here: a machine without such a tag does not load it

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo is not None else None
