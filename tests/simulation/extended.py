"""A deadline that somebody moved: until when it is no reason to stop, and that this is remembered."""

import json
from typing import TYPE_CHECKING, Any

from costguard.host.files import COMMITMENTS
from tests.simulation.terms import NEVER

if TYPE_CHECKING:
    from tests.simulation.judge import Judge

EXACT = 5.0
"""Seconds by which a deadline may be moved further, or less far, than it should."""

UNSEEN = 150.0
"""Seconds around a boot in which nobody looks: they use up nothing."""

ROOT = 0


class Extensions:
    """Until when each user has moved the deadline, in true seconds."""

    def __init__(self, judge: "Judge") -> None:
        self._judge = judge
        self._until: dict[int, float] = {}
        self._perhaps = -NEVER  # until when it may be moved, and nobody knows that for sure
        self._changed = -NEVER  # when that changed last
        self._carried: set[int] = set()  # whose is of an earlier boot

    @property
    def surely(self) -> float:
        """Until then no deadline is a reason."""
        return max(self._until.values(), default=-NEVER)

    @property
    def latest(self) -> float:
        """Until then it may be none."""
        return max(self.surely, self._perhaps)

    @property
    def settled(self) -> bool:
        """Whether nobody has moved it just now."""
        return self._judge.at - self._changed > EXACT

    # -- when the deadline is --------------------------------------------------------------------------------

    @property
    def soonest(self) -> float:
        """When a deadline may come at the earliest."""
        return max(self.surely, self.soonest_limit())

    def soonest_limit(self) -> float:
        """When the first limit is reached at the earliest."""
        judge, law = self._judge, self._judge.law
        ran = judge.ran + judge.awake()
        wall = judge.story.world.instant().wall
        left = (law.lifetime - ran, law.budget - ran + (judge.budget_from or 0.0), law.lease - wall)
        return judge.at + min(left)

    def latest_limit(self) -> float:
        """The same at the latest; a lease counts where the date is sure, and a budget not in every period."""
        judge, law, world = self._judge, self._judge.law, self._judge.story.world
        dated = world.synced is True and max(judge.jumped, judge.doubted) < judge.at - 2 * law.interval
        lease = law.lease - world.instant().wall if dated else NEVER
        return judge.at + min(law.lifetime - judge.ran_stored - judge.awake(), lease)

    def _furthest(self, seconds: float) -> float:
        """Until when somebody may have moved it who asks for so many seconds."""
        return max(self._judge.at, self.latest_limit(), self.latest) + seconds

    @property
    def _most(self) -> float:
        """By how much users may move it."""
        return float(self._judge.story.ruled["policy"]["extend_max"])

    # -- what was answered -----------------------------------------------------------------------------------

    def granted(self, uid: int, seconds: float) -> None:
        """A person was told that it is moved: at once that is remembered, and by as much as was asked for."""
        judge, at = self._judge, self._judge.at
        if judge.is_out():
            judge.breaks("I3: a deadline is moved although the request is out")
        until = self._kept().get(uid)
        if until is None:
            judge.breaks("I8: a deadline is moved, and that is not remembered")
            return
        if not judge.drowsy:  # whoever has just woken up does not know that the limit has moved with the sleep
            self._bounded(uid, seconds, until)
        self._until[uid], self._changed = until, at
        self._carried.discard(uid)
        if uid == ROOT:
            judge.tidings.owes("deadline_extended")

    def _bounded(self, uid: int, seconds: float, until: float) -> None:
        """It is moved by as much as was asked for, from where it was, as far as the owner lets users."""
        judge, at = self._judge, self._judge.at
        slack = EXACT + judge.law.interval
        moved = max(at, self.soonest) + seconds
        least = moved if uid == ROOT else min(moved, self.soonest_limit() + self._most)
        if until < max(least, self.surely) - slack:
            judge.breaks(f"user {uid} moved the deadline by {seconds:.0f} s, and it is in {until - at:.0f} s")
        if until > self._furthest(seconds) + slack:
            judge.breaks(f"user {uid} moved the deadline by {seconds:.0f} s, and it is only in {until - at:.0f} s")
        if uid != ROOT and until > self.latest_limit() + self._most + slack:
            judge.breaks(f"user {uid} moved the deadline further than users may, to {until - at:.0f} s from now")

    def refused(self, uid: int) -> None:
        """It is not moved: only where there is none, where a request is out, or where users have moved it enough."""
        judge, law, at = self._judge, self._judge.law, self._judge.at
        slept = judge.drowsy or at - judge.began < 2 * law.interval + EXACT
        over = judge.stage in {"gone", "unsure"} or (judge.stage == "done" and judge.carried_out)
        if slept or over or law.lifetime == NEVER or at <= judge.stalled or judge.holds.asks_often(uid):
            return
        due = max(at, self.latest_limit(), self.latest)
        if uid == ROOT or self.soonest_limit() + self._most > due + EXACT + law.interval:
            judge.breaks(f"user {uid} may not move the deadline, and nothing stands against it")

    def asked(self, seconds: float) -> None:
        """A guard died before it answered: perhaps it is moved."""
        self._perhaps = max(self._perhaps, self._furthest(seconds))

    def released(self, uid: int, *, sure: bool = True) -> None:
        """A user takes the own one back, or root each."""
        left = self._kept() if sure else {}
        if any(user in left for user in ([uid] if uid else [*self._until])):
            self._judge.breaks(f"user {uid} took back that the deadline was moved, and it still is")
        if not sure:
            self._perhaps = self.latest
        elif uid == ROOT:
            self._perhaps = -NEVER
        self._until = {user: until for user, until in self._until.items() if uid not in {user, ROOT}}
        self._changed = self._judge.at

    # -- what is kept ----------------------------------------------------------------------------------------

    def _kept(self) -> dict[int, float]:
        """The ends by their users, as the guard has them for the next one."""
        world, troubles = self._judge.story.world, self._judge.story.troubles
        if troubles.unstored:
            loop = self._judge.story.loop
            assert loop is not None
            standing = loop.last.state.core.deadline.extensions
            return {one.uid: one.until + world.boot_zero for one in standing if one.uid is not None}
        try:
            file = world.runtime.get(COMMITMENTS) or world.disk.get(COMMITMENTS, b"{}")
            kept = json.loads(file).get("data", {})
        except ValueError:  # torn
            kept = {}
        return self._ends(kept)

    def _ends(self, kept: dict[str, Any]) -> dict[int, float]:
        """The ends in commitments of this boot, by their users."""
        zero = self._judge.story.world.boot_zero
        return {row[4]: row[2] + zero for row in (kept.get("deadline") or {}).get("extensions", ())}

    def stored(self, kept: dict[str, Any]) -> None:
        """The commitments are on the disk: what people were told stands in them (I8), and a boot makes it no longer."""
        judge, at = self._judge, self._judge.at
        if judge.drowsy or at - self._changed < EXACT or kept["boot_id"] != judge.story.world.boot_id:
            return
        if judge.ticks[0] > at - EXACT:
            return  # what was on its way before the first look is still of the boot before
        ends = self._ends(kept)
        for uid, until in self._until.items():
            end = ends.get(uid, at)
            if until > at + EXACT and end < until - EXACT:
                judge.breaks(f"I8: user {uid} moved the deadline to {until - at:.0f} s, and {end - at:.0f} are kept")
            if uid in ends and uid in self._carried and end > until + EXACT:
                judge.breaks(f"I8: a deadline is moved {end - until:.0f} s further, for a boot came between")

    def booted(self, kept: dict[str, Any]) -> None:
        """Another boot: an end is a date where every date was sure; else it has left what it had."""
        judge, lasted = self._judge, self.latest
        written = self._changed < judge.stored_at - 1.0
        dated = judge.story.world.synced is True and max(judge.jumped, judge.doubted) < self._changed
        users = {row[4] for row in (kept.get("deadline") or {}).get("extensions", ())}
        self._until = {uid: end for uid, end in self._until.items() if written and dated and uid in users}
        self._carried = {*self._until}
        left = lasted - min(judge.off_at, judge.stored_at)
        self._perhaps = judge.at + left + UNSEEN if left > 0.0 else -NEVER

    def lost(self, kept: dict[str, Any]) -> None:
        """A guard begins without the state of this boot: what the commitments lack is lost, and nobody can be blamed."""
        if kept and kept.get("boot_id") != self._judge.story.world.boot_id:
            self._until = {uid: until for uid, until in self._until.items() if uid in self._carried}
            return  # the first guard of a boot goes on with those of before
        self._perhaps, ends = self.latest, self._ends(kept)
        self._until = {uid: min(until, ends[uid]) for uid, until in self._until.items() if uid in ends}
