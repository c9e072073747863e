"""How many messages leave the machine in an hour: a user, or a fault, that makes many must not make people mute the channel."""

from collections.abc import Mapping
from typing import NamedTuple

from costguard.agent.task import NEVER

LIMIT = 12
HOUR_SECONDS = 3600.0

ALWAYS = frozenset(("cancelled", "would_act", "acting", "closed", "done", "came_back"))
"""Kinds of level *info* that say what became of a warning; nobody can make many of them."""

BY_USERS = frozenset(("held", "hold_ended", "deadline_extended"))
"""Kinds that any user of the machine can make many of: they have a dozen of their own, and take nobody else's."""

DRY_NEVER = frozenset(("warning", "cancelled", "countdown"))
"""What a dry run tells of a countdown in which nothing happens: it stays on the machine and in the summary."""

DAY_SECONDS = 86400.0


class Counted(NamedTuple):
    """Messages that have left the machine: since when (boot clock), how many, and the incident of the last `would_act`."""

    began: float
    sent: int
    sent_of_users: int
    would_act: float
    would_act_of: str
    left_out: Mapping[str, int]


class Quota:
    """Messages of level *info*, and what readers find: so many an hour, the others as one digest at its end."""

    def __init__(self, counted: Counted | None = None) -> None:
        self._began, self._sent, self._sent_of_users = -HOUR_SECONDS, 0, 0
        self._left_out: dict[str, int] = {}
        self._would_act, self._would_act_of = -DAY_SECONDS, ""
        if counted is not None:
            self._began, self._sent, self._sent_of_users, self._would_act, self._would_act_of = counted[:5]
            self._left_out = dict(counted.left_out)

    @property
    def counted(self) -> Counted:
        """What the next guard of this boot goes on with: one that is restarted often must not write more often."""
        return Counted(
            self._began, self._sent, self._sent_of_users, self._would_act, self._would_act_of, dict(self._left_out)
        )

    def admits_dry(self, kind: str, now: float, incident: str) -> bool:
        """Whether a message of a dry run may leave now: what would have been done, once a day; the summary has the rest.

        One of the same incident is a further try of what nobody took.
        """
        if kind != "would_act":
            return kind not in DRY_NEVER
        if now < self._would_act + DAY_SECONDS:
            return bool(incident) and incident == self._would_act_of
        self._would_act, self._would_act_of = now, incident
        return True

    def admits(self, kind: str, level: str, now: float) -> bool:
        """Whether a message may leave now; one that may not is counted for the digest."""
        if kind in ALWAYS or (level != "info" and kind != "finding"):
            return True
        if now >= self._began + HOUR_SECONDS and not self._left_out:
            self._began, self._sent, self._sent_of_users = now, 0, 0
        if kind in BY_USERS:
            self._sent_of_users += 1
            if self._sent_of_users <= LIMIT:
                return True
        elif self._sent < LIMIT:
            self._sent += 1
            return True
        self._left_out[kind] = self._left_out.get(kind, 0) + 1
        return False

    @property
    def deadline(self) -> float:
        """When the digest is due."""
        return self._began + HOUR_SECONDS if self._left_out else NEVER

    def digest(self, now: float) -> str:
        """What was left out; a new hour begins with it."""
        listed = ", ".join(f"{number} × {kind}" for kind, number in self._left_out.items())
        self._began, self._sent, self._sent_of_users, self._left_out = now, 0, 0, {}
        return listed
