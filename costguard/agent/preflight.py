"""Preflight checks that keep failing for a technical reason: then it is unknown whether the action would work.

A single failure is ignored. One that lasts is reported, because expired credentials or a lost route show here long
before the action is needed. So are tags that may not be written, although the action itself would work.
"""

from costguard.engine.events import Finding, Outcome
from costguard.engine.state import Core
from costguard.engine.words import duration
from costguard.plans import VERDICT_WORDS

REPORTED_AFTER_SECONDS = 3600.0
"""Of nothing but failed checks; then daily."""

DAY_SECONDS = 86400.0

DENIED, UNKNOWN = "tag_denied", "tag_unknown"
"""The codes of `costguard.cloud.tags`: the right to write tags is missing; it is unknown whether it is."""
ALLOWED = "tag_allowed"

TAGS = "the tags"


class Preflight:
    """Since when each action could not be checked, and when that was reported."""

    def __init__(self) -> None:
        self._failing_since: dict[str, float] = {}
        self._reported: dict[str, float] = {}
        self._denied = ""  # the last report of tags that may not be written
        self._denied_reported = 0.0

    def finding(self, event: Outcome, before: Core) -> Finding | None:
        """What to report after this outcome, if anything; ``before`` is the engine's core when it came."""
        entry = next((entry for entry in before.plans.checking if entry.startswith(event.effect + " ")), "")
        action = entry.partition(" ")[2]
        if not action:
            return None
        if event.status != "failed":
            self._failing_since.pop(action, None)
            tags = self._tags(event)
            if self._reported.pop(action, None) is None or (tags is not None and tags.code == DENIED):
                return tags
            return Finding(
                event.at, (f"the plan for {action}",), "checked", f"it {VERDICT_WORDS.get(event.status, event.status)}"
            )
        since = self._failing_since.setdefault(action, event.at)
        reported = self._reported.get(action)
        if event.at - since < REPORTED_AFTER_SECONDS or (reported is not None and event.at - reported < DAY_SECONDS):
            return None
        self._reported[action] = event.at
        text = f"it could not be checked for {duration(event.at - since)}: {event.detail}"
        return Finding(event.at, (f"the plan for {action}",), "unchecked", text)

    def _tags(self, event: Outcome) -> Finding | None:
        """Tags that may not be written: reported at once, when the text changes, and daily."""
        _, text, hint = next((row for row in event.findings if row[0] == DENIED), ("", "", ""))
        if any(code == UNKNOWN for code, _, _ in event.findings):
            return None  # an earlier report stands
        if text == self._denied and (not text or event.at - self._denied_reported < DAY_SECONDS):
            return None
        self._denied, self._denied_reported = text, event.at
        if not text:
            return Finding(event.at, (TAGS,), ALLOWED, "the missing permission has been granted")
        return Finding(event.at, (TAGS,), DENIED, f"{text}; {hint}" if hint else text)
