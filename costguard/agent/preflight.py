"""Checks of an action that fail for a technical reason, over and over: nobody knows then whether it could be done.

A single failure passes. One that lasts is told, because expired credentials or a lost route show themselves here long
before the action is needed. So is a place for records that is denied, although the action itself may be carried out.
"""

from costguard.engine.events import Finding, Outcome
from costguard.engine.state import Core

TOLD_AFTER = 3600.0
"""Seconds of nothing but failed checks after which people are told; then daily."""

DAY = 86400.0

DENIED, UNKNOWN = "tag_denied", "tag_unknown"
"""The codes of `costguard.cloud.tags` for tags that may not be written, and for nobody knowing whether they may."""
ALLOWED = "tag_allowed"

TAGS = "the tags"


class Preflight:
    """Since when each action could not be checked, and when that was told."""

    def __init__(self) -> None:
        self._failing: dict[str, float] = {}
        self._told: dict[str, float] = {}
        self._denied = ""  # what was told last of tags that may not be written
        self._denied_told = 0.0

    def heard(self, event: Outcome, before: Core) -> Finding | None:
        """What people should know after this outcome; ``before`` is what the engine remembered when it came."""
        entry = next((entry for entry in before.plans.checking if entry.startswith(event.effect + " ")), "")
        action = entry.partition(" ")[2]
        if not action:
            return None
        if event.status != "failed":
            self._failing.pop(action, None)
            tags = self._tags(event)
            if self._told.pop(action, None) is None or (tags is not None and tags.code == DENIED):
                return tags
            return Finding(event.at, f"the plan of {action}", "checked", f"it says: {event.status}")
        since = self._failing.setdefault(action, event.at)
        told = self._told.get(action)
        if event.at - since < TOLD_AFTER or (told is not None and event.at - told < DAY):
            return None
        self._told[action] = event.at
        words = f"for {(event.at - since) / 3600.0:.0f} h nobody could say whether it can be done: {event.detail}"
        return Finding(event.at, f"the plan of {action}", "unchecked", words)

    def _tags(self, event: Outcome) -> Finding | None:
        """Tags that may not be written: told at once, when the words change, and daily."""
        _, words, hint = next((found for found in event.findings if found[0] == DENIED), ("", "", ""))
        if any(code == UNKNOWN for code, _, _ in event.findings):
            return None  # takes back nothing
        if words == self._denied and (not words or event.at - self._denied_told < DAY):
            return None
        self._denied, self._denied_told = words, event.at
        if not words:
            return Finding(event.at, TAGS, ALLOWED, "the plan found the right that was missing")
        return Finding(event.at, TAGS, DENIED, f"{words}; {hint}" if hint else words)
