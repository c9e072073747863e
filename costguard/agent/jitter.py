"""Jitter of cloud requests: a cloud throttles a fleet that sends them together.

It comes from the instance id, so that machines spread without knowing of each other.
"""

import zlib
from collections.abc import Mapping
from typing import Any

from costguard.engine import time_limits
from costguard.engine.effects import Check, Prepare, Tell
from costguard.engine.policy import CLOUD_ACTIONS
from costguard.engine.state import PERSON

ATTENDED_SPREAD_SECONDS = 10.0
"""Over which checks are spread while a person waits at the terminal of the agent."""

MESSAGE_SPREAD_SECONDS = 10.0
"""Over which a fleet's messages are spread, but never over more than a twentieth of `grace`."""

AT_ONCE = frozenset((
    "held", "hold_ended", "deadline_extended", "acting", "accepted", "stopping", "asking", "next_action", "done",
    "notice", "unguarded", "armed",
))  # fmt: skip
"""What a person did, and what ends the machine or the agent, waits for nothing; all else may befall many machines at once."""

_MIX = 2654435761  # odd, and far from small multiples: neighbouring values end up far apart


def jitter_of(instance: str, tries: int = 0) -> float:
    """Stable jitter of this instance in [0, 1), another one for each further try.

    So machines that were throttled together do not retry together.
    """
    return zlib.crc32(instance.encode()) * pow(_MIX, tries, 2**32) % 2**32 / 2**32


class Jitter:
    """The jitter of one machine. ``attended``: a person started the agent at a terminal, and waits."""

    def __init__(self, instance: str, *, attended: bool) -> None:
        self._instance, self._attended = instance, attended

    def before_message(self, effect: Tell, config: Mapping[str, Any]) -> float:
        """Seconds to wait before a message leaves the machine: what befalls a fleet at once must not flood its chat at once."""
        spread = float(config.get("cloud", {}).get("spread") or 0.0)
        if self._attended or effect.kind in AT_ONCE or effect.facts.get("reason") == PERSON:
            return 0.0
        grace = float(config.get("policy", {}).get("grace") or 0.0)
        return jitter_of(self._instance, 1) * min(spread, MESSAGE_SPREAD_SECONDS, grace / 20.0)

    def due_at(self, effect: Check | Prepare, now: float, config: Mapping[str, Any], reason: str) -> float:
        """When to start this effect, on the boot clock. What a person asked for starts at once."""
        if effect.action not in CLOUD_ACTIONS or not config.get("providers") or reason == PERSON:
            return now
        cloud = config.get("cloud", {})
        spread = float(cloud.get("spread") or 0.0)
        if not spread:
            return now
        if isinstance(effect, Prepare):
            return now + jitter_of(self._instance) * float(cloud.get("action_spread") or 0.0)
        return effect.since + jitter_of(self._instance, effect.tries) * self._spread_of(effect, spread)

    def _spread_of(self, check: Check, spread: float) -> float:
        """Seconds over which a fleet makes this check."""
        if self._attended:
            return min(spread, ATTENDED_SPREAD_SECONDS)
        if check.tries:
            return time_limits.pause(check.tries)
        return spread if check.known else spread * time_limits.EARLY_SHARE
