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
    """Messages that have left the machine: since when (boot clock), how many, and when the last `would_act` left and of which incident."""

    began: float = -HOUR_SECONDS
    sent: int = 0
    sent_of_users: int = 0
    would_act: float = -DAY_SECONDS  # when the last one left, boot clock
    would_act_of: str = ""
    left_out: Mapping[str, int] = {}


class Quota:
    """Messages of level *info*, and what readers find: so many an hour, the others as one digest at its end."""

    def __init__(self, counted: Counted | None = None) -> None:
        self.counted = counted or Counted()
        """What the next guard of this boot goes on with: one that is restarted often must not write more often."""

    def admit_dry_run(self, kind: str, now: float, incident: str) -> bool:
        """Whether a message of a dry run may leave now: what would have been done, once a day; the summary has the rest.

        One of the same incident is a further try of what nobody took.
        """
        if kind != "would_act":
            return kind not in DRY_NEVER
        if now < self.counted.would_act + DAY_SECONDS:
            return bool(incident) and incident == self.counted.would_act_of
        self.counted = self.counted._replace(would_act=now, would_act_of=incident)
        return True

    def admit(self, kind: str, level: str, now: float) -> bool:
        """Whether a message may leave now; one that may not is counted for the digest."""
        if kind in ALWAYS or (level != "info" and kind != "finding"):
            return True
        if now >= self.counted.began + HOUR_SECONDS and not self.counted.left_out:
            self._begin(now)
        if kind in BY_USERS and self.counted.sent_of_users < LIMIT:
            self.counted = self.counted._replace(sent_of_users=self.counted.sent_of_users + 1)
            return True
        if kind not in BY_USERS and self.counted.sent < LIMIT:
            self.counted = self.counted._replace(sent=self.counted.sent + 1)
            return True
        left_out = {**self.counted.left_out, kind: self.counted.left_out.get(kind, 0) + 1}
        self.counted = self.counted._replace(left_out=left_out)
        return False

    def _begin(self, now: float) -> None:
        self.counted = self.counted._replace(began=now, sent=0, sent_of_users=0, left_out={})

    @property
    def deadline(self) -> float:
        """When the digest is due."""
        return self.counted.began + HOUR_SECONDS if self.counted.left_out else NEVER

    def digest_id(self, boot: str) -> str:
        """The id of this hour's digest: of one hour there is one, whichever guard of the boot sends it."""
        return f"{boot}-digest{self.counted.began:.0f}"

    def take_digest(self, now: float) -> str:
        """Return what was left out, and begin a new hour."""
        listed = ", ".join(f"{number} × {kind}" for kind, number in self.counted.left_out.items())
        self._begin(now)
        return listed
