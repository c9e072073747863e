"""When this machine asks its cloud, which throttles a fleet that asks together.

Each machine has a moment of its own, from its id: no machine knows how many others there are, and none asks another.
"""

import zlib
from collections.abc import Mapping
from typing import Any

from costguard.engine import deadlines
from costguard.engine.effects import Check, Prepare
from costguard.engine.policy import CLOUD_ACTIONS
from costguard.engine.state import PERSON

ATTENDED = 10.0
"""Seconds over which checks are spread while a person waits at the terminal of the agent."""


_MIX = 2654435761  # odd: what was near each other is far apart afterwards


def share(instance: str, tries: int = 0) -> float:
    """A number from 0 to 1 that is this machine's own: what a fleet does at once is spread by it.

    Another one for each further try: machines that were throttled together do not meet again.
    """
    return zlib.crc32(instance.encode()) * pow(_MIX, tries, 2**32) % 2**32 / 2**32


class Jitter:
    """Those of one machine. ``attended``: a person started the agent at a terminal, and waits."""

    def __init__(self, instance: str, *, attended: bool) -> None:
        self._instance, self._attended = instance, attended

    def of(self, effect: Check | Prepare, now: float, config: Mapping[str, Any], reason: str) -> float:
        """The moment of the boot clock at which this effect is due. A person who stops the machine waits for nobody."""
        if effect.action not in CLOUD_ACTIONS or not config.get("providers") or reason == PERSON:
            return now
        cloud = config.get("cloud", {})
        whole = float(cloud.get("spread") or 0.0)
        if not whole:
            return now
        if isinstance(effect, Prepare):
            return now + share(self._instance) * float(cloud.get("action_spread") or 0.0)
        return effect.since + share(self._instance, effect.tries) * self._width(effect, whole)

    def _width(self, check: Check, whole: float) -> float:
        """Seconds over which a fleet makes this check."""
        if self._attended:
            return min(whole, ATTENDED)
        if check.tries:
            return deadlines.pause(check.tries)
        return whole if check.known else whole * deadlines.EARLY_SHARE
