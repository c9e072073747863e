"""What tags of the machine ask for, read from the tags themselves."""

from collections.abc import Mapping
from datetime import datetime

from tests.simulation.terms import NEVER


def asked_by(tags: Mapping[str, str], at: float, wall: float) -> float:
    """Until when a tag keeps the machine up, in true seconds; in the past when none does."""
    if tags.get("costguard") == "off":
        return NEVER
    if until := tags.get("costguard-hold"):
        return at + datetime.fromisoformat(until).timestamp() - wall
    return -NEVER


def wanted_by(tags: Mapping[str, str]) -> dict[str, float]:
    """The settings that tags name: minutes are all that a story writes."""
    minutes = tags.get("costguard-kill-duration")
    return {"kill_duration": 60.0 * float(minutes.removesuffix("m"))} if minutes else {}
