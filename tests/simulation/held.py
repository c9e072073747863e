"""What people were promised: until when the machine stays up."""

import json
from typing import TYPE_CHECKING, Any

from costguard.host.files import COMMITMENTS
from tests.simulation.terms import NEVER

if TYPE_CHECKING:
    from tests.simulation.judge import Judge

DAY = 86400.0


class Holds:
    """Each user's hold, in true seconds."""

    def __init__(self, judge: "Judge") -> None:
        self._judge = judge
        self.until: dict[int, float] = {}
        self.ends: float | None = None
        """When the end of the last hold must be told, and that is certain."""
        self.perhaps = -NEVER
        """Until when a hold may last of which nobody knows for sure."""

    @property
    def latest(self) -> float:
        """Until when somebody's hold lasts."""
        return max(self.until.values(), default=-NEVER)

    def granted(self, uid: int, asked: float) -> None:
        """A person was told that the machine is held: that must be true, and remembered at once."""
        judge, at = self._judge, self._judge.at
        if judge.is_out():
            judge.breaks("I3: a hold is granted although the request is out")
        before = max(self.until.get(uid, -NEVER), self.perhaps)
        until = self._kept(uid)
        if until is None:
            judge.breaks("I8: a hold is granted and not remembered")
            return
        if until <= at or until > max(before, at + min(asked, judge.law.hold_max)) + 2.0:
            judge.breaks(f"a hold of {asked:.0f} s lasts for {until - at:.0f} s")
        self.until[uid] = until
        self.ends = self.latest if self.perhaps < at else None

    def _kept(self, uid: int) -> float | None:
        """The end of a user's hold, as the commitments have it; when they cannot be written, as the guard has it."""
        world = self._judge.story.world
        if self._judge.story.troubles.failed("commitments"):
            loop = self._judge.story.loop
            assert loop is not None
            found = [(hold.uid, hold.until) for hold in loop.last.state.core.people.holds]
        else:
            file = world.runtime.get(COMMITMENTS) or world.disk.get(
                COMMITMENTS, b"{}"
            )  # as a guard that starts reads it
            kept = json.loads(file).get("data", {})
            found = [
                (holder[0], hold[2])
                for hold, holder in zip(kept.get("holds", ()), kept.get("holders", ()), strict=True)
            ]
        return next((until + world.boot_zero for owner, until in found if owner == uid), None)

    def released(self, uid: int) -> None:
        """A user ended the own hold, or root everything."""
        if uid:
            self.until.pop(uid, None)
            for other, until in self.until.items():
                if until > self._judge.at + 1.0 and self._kept(other) is None:
                    self._judge.breaks(f"I8: user {uid} ended the hold of user {other}")
        else:
            self.until.clear()
            self.perhaps = -NEVER
        self.ends = None

    def booted(self, kept: dict[str, Any]) -> None:
        """What a hold has left is bounded by the policy of this boot."""
        self.lost(kept)
        longest = self._judge.at + self._judge.law.hold_max
        self.until = {uid: min(until, longest) for uid, until in self.until.items()}

    def lost(self, kept: dict[str, Any]) -> None:
        """What no directory holds any more is lost, and nobody can be blamed."""
        self.ends = None
        if self.until:
            self.perhaps = self.latest + DAY
        if not kept.get("holds") or self._judge.jumped > self.latest - 3 * DAY:
            self.until.clear()  # or its end is a date now, and the date was set
