"""What tags of the machine ask for, read from the tags themselves."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tests.simulation.terms import NEVER


def asked_by(tags: Mapping[str, str], at: float, wall: float) -> float:
    """Until when a tag keeps the machine up, in true seconds; in the past when none does."""
    if tags.get("costguard") == "off":
        return NEVER
    if until := tags.get("costguard-hold"):
        return at + datetime.fromisoformat(until).timestamp() - wall
    return -NEVER


TIMES = {
    "costguard-kill-duration": "kill_duration",
    "costguard-grace": "grace",
    "costguard-boot-grace": "boot_grace",
    "costguard-unused-after": "unused_after",
}
"""Tags with a time, in minutes, and what they name."""


def wanted_by(tags: Mapping[str, str]) -> dict[str, float]:
    """The settings that tags name, milder or harsher: minutes, and the threshold, are all that a story writes."""
    wanted = {name: 60.0 * float(tags[tag].removesuffix("m")) for tag, name in TIMES.items() if tag in tags}
    threshold = tags.get("costguard-kill-threshold")
    return {**wanted, "kill_threshold": float(threshold)} if threshold else wanted


def changed_by(wanted: Mapping[str, float], policy: Mapping[str, Any]) -> dict[str, float]:
    """The settings that this changes: times that are longer, and a threshold that is lower. Each change is a reload, whatever comes of it."""
    longer = {
        name: value for name, value in wanted.items() if name in TIMES.values() and value > (policy[name] or value)
    }
    lower = {name: value for name, value in wanted.items() if name == "kill_threshold" and value < policy[name]}
    return {**longer, **lower}
