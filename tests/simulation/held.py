"""What people were promised: until when the machine stays up."""

import json
from typing import TYPE_CHECKING, Any

from costguard.host.files import COMMITMENTS
from tests.simulation.accounts import Account
from tests.simulation.terms import NEVER

if TYPE_CHECKING:
    from tests.simulation.judge import Judge

DAY = 86400.0
EXACT = 5.0
"""Seconds by which a hold may be longer or shorter than it should."""

WISHES, WISHES_WITHIN = 8, 1800.0
"""Wishes of one user within so many seconds that are certainly not too many."""

NEWS, TOLD_EVERY = 660.0, 180.0
"""A hold that moves its end by more, or comes so long after the last one of the same user, is told."""


UNSEEN = 150.0
"""Seconds from the last look to the end of a boot, and from the next one's beginning to its first look: they use up nothing of a hold."""


class Holds:
    """Each user's hold, in true seconds."""

    def __init__(self, judge: "Judge") -> None:
        self._judge = judge
        self.until: dict[int, float] = {}
        self.ends: float | None = None
        """When the end of the last hold must be told, and that is certain."""
        self.perhaps = -NEVER
        """Until when a hold may last of which nobody knows for sure."""
        self._most: dict[int, Account] = {}  # what users may have used
        self._least: dict[int, Account] = {}  # and what they have used for sure
        self._wishes: dict[int, list[float]] = {}
        self._told: dict[int, float] = {}
        self._sure = True  # no hold was lost, or perhaps granted
        self._changed = -NEVER  # when a hold was granted or ended last
        self._carried: set[int] = set()  # whose hold is of an earlier boot
        self._looked: float | None = -NEVER  # the first look, which carries it over; None while that is to come
        self._longest = NEVER  # and the latest end that it may have since then
        self._promised: dict[int, float] = {}  # when holds of an earlier boot end, where no date was ever in doubt
        self._forgiven = -NEVER  # when work took something off what was used

    @property
    def latest(self) -> float:
        """Until when somebody's hold lasts."""
        return max(self.until.values(), default=-NEVER)

    @property
    def settled(self) -> bool:
        """Whether nobody has asked for a hold just now: what is told then was decided before."""
        return self._judge.at - self._changed > EXACT

    @property
    def certain(self) -> bool:
        """Whether the guard certainly knows of every hold, and of no other one."""
        return self._sure and self.perhaps < self._judge.at

    # -- what may be asked -----------------------------------------------------------------------------------

    def asked(self, uid: int) -> None:
        """A user wants to hold, or to release."""
        self._wishes.setdefault(uid, []).append(self._judge.at)

    def asks_often(self, uid: int) -> bool:
        """Whether a user asks so often that nobody listens."""
        wishes = [one for one in self._wishes.get(uid, ()) if self._judge.at - one < WISHES_WITHIN]
        return len(wishes) > WISHES and uid != 0

    def _free(self, accounts: dict[int, Account], uid: int, *, most: bool) -> float:
        """Seconds that a user may still hold, by these accounts."""
        given = self._judge.story.ruled["policy"]
        total: float = given["hold_total"]
        own: float | None = given["hold_per_user"]
        share: float = total * 2.0 / 3.0 if own is None else min(own, total)
        used = {user: account.most if most else account.least for user, account in accounts.items()}
        return max(0.0, min(share - used.get(uid, 0.0), total - sum(used.values())))

    def used(self) -> tuple[float, float]:
        """Seconds that users have used at least, and at most."""
        return sum(one.least for one in self._least.values()), sum(one.most for one in self._most.values())

    def slack(self) -> float:
        """What is given back is counted from look to look."""
        return EXACT + self._judge.law.interval * sum(account.grants for account in self._most.values())

    def refused(self, uid: int, asked: float) -> None:
        """A hold was refused: only when a request is out or was carried out, the time is used up, or the user asks all the time."""
        judge, at = self._judge, self._judge.at
        slept = judge.drowsy or at - judge.began < 2 * judge.law.interval + EXACT
        if (
            judge.stage in {"gone", "unsure"}
            or (judge.stage == "done" and judge.carried_out)
            or self.asks_often(uid)
            or slept
            or not self._sure
        ):
            return
        if uid == 0 or self._free(self._most, uid, most=True) > self.slack():
            judge.breaks(f"a hold of user {uid} is refused, and nothing stands against it")

    def _bounded(self, uid: int, asked: float, until: float) -> None:
        """A hold is as long as asked for, as far as the limits allow; and no longer."""
        judge, at = self._judge, self._judge.at
        wish, before = min(asked, judge.law.hold_max), self.until.get(uid, -NEVER)
        if until < before - EXACT:
            judge.breaks(f"a hold of user {uid} is cut short by {before - until:.0f} s by another one")
        if uid == 0:
            if until < at + wish - EXACT:
                judge.breaks(f"root asked for {wish:.0f} s and got {until - at:.0f} s")
            return
        mine, slack = max(0.0, before - at), self.slack()
        if self._sure and until < at + min(wish, mine + self._free(self._most, uid, most=True)) - slack:
            judge.breaks(
                f"user {uid} asked for {wish:.0f} s and got {until - at:.0f} s, and less than the limit was used"
            )
        if until > max(before, self.perhaps, at + mine + self._free(self._least, uid, most=False)) + slack:
            judge.breaks(f"user {uid} holds the machine for longer than the limit")

    def _charge(self, uid: int, until: float) -> None:
        judge, at = self._judge, self._judge.at
        least = max(judge.law.grace, judge.law.interval)
        before = max(self.until.get(uid, -NEVER), at)
        if uid and until > before:
            self._most.setdefault(uid, Account()).granted(at, until, least)
            self._least.setdefault(uid, Account()).granted(at, until, 0.0)
        news = until > before + NEWS or (until > before + EXACT and at - self._told.get(uid, -NEVER) > TOLD_EVERY)
        if news:
            judge.tidings.owes("held")
        self._told[uid] = self._changed = at

    @property
    def counts(self) -> bool:
        """Whether anybody has used anything."""
        return bool(self._most or self._least)

    def forgive(self, *, sure: bool) -> None:
        """Work was seen, or perhaps: of earlier holds only the time that is still to come counts."""
        self._sure = self._sure or sure
        self._forgiven = self._judge.at
        for account in (self._most if sure else self._least).values():
            account.forgiven(self._judge.at)

    def doubt(self) -> None:
        """What the guard remembers of holds is not sure, until work is seen."""
        self._least.clear()
        self._sure = False

    # -- what was answered -----------------------------------------------------------------------------------

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
        self._bounded(uid, asked, until)
        self._carried.discard(uid)
        if until <= at + min(asked, judge.law.hold_max) + 2.0:  # else an earlier one lasts longer, and stays
            self._charge(uid, until)
        elif uid in self._most:
            self._most[uid].reaches(at, until)
        self.until[uid] = until
        self.ends = self.latest if self.perhaps < at else None

    def stored(self, kept: dict[str, Any]) -> None:
        """The commitments are on the disk: each promise stands in them, and one of an earlier boot for no longer than this one allows."""
        judge, at = self._judge, self._judge.at
        if judge.drowsy or not self._sure or not self.settled or kept["boot_id"] != judge.story.world.boot_id:
            return
        if self._looked is None or at < self._looked + EXACT:
            return  # what was on its way before the first look is still of the boot before
        zero, holders = judge.story.world.boot_zero, kept.get("holders", ())
        ends = {holder[0]: hold[2] + zero for hold, holder in zip(kept["holds"], holders, strict=True)}
        for uid, until in self.until.items():
            if until > at + EXACT and ends.get(uid, at) < until - EXACT:
                judge.breaks(
                    f"I8: user {uid} was promised {until - at:.0f} s, and {ends.get(uid, at) - at:.0f} are kept"
                )
        for uid, until in ends.items():
            if uid in self._carried and until > self._promised.get(uid, NEVER) + EXACT:
                judge.breaks(f"I8: a hold lasts {until - self._promised[uid]:.0f} s longer, for a boot came between")
            if uid in self._carried and until > self._longest:
                judge.breaks(f"I8: a hold of an earlier boot lasts {until - at:.0f} s, longer than the policy allows")

    def _kept(self, uid: int) -> float | None:
        """The end of a user's hold, as the commitments have it; when they cannot be written, as the guard has it."""
        world = self._judge.story.world
        if self._judge.story.troubles.unstored:
            loop = self._judge.story.loop
            assert loop is not None
            found = [(hold.uid, hold.until) for hold in loop.last.state.core.people.holds]
        else:
            file = world.runtime.get(COMMITMENTS) or world.disk.get(
                COMMITMENTS, b"{}"
            )  # as a guard that starts reads it
            try:
                kept = json.loads(file).get("data", {})
            except ValueError:  # torn
                kept = {}
            found = [
                (holder[0], hold[2])
                for hold, holder in zip(kept.get("holds", ()), kept.get("holders", ()), strict=True)
            ]
        return next((until + world.boot_zero for owner, until in found if owner == uid), None)

    def kept(self, uid: int) -> None:
        """A user was told that no hold of his ended."""
        if uid and self._sure and not self.asks_often(uid) and self.until.get(uid, -NEVER) > self._judge.at + EXACT:
            self._judge.breaks(f"user {uid} cannot end the own hold")

    def ended(self, uid: int) -> None:
        """A user was told that the own hold ended, or root that every one did."""
        left = [user for user in ([uid] if uid else [*self.until]) if self._kept(user) is not None]
        if left:
            self._judge.breaks(f"user {uid} ended the hold of {left}, and it goes on")
        for other, until in self.until.items() if uid else ():
            if other != uid and until > self._judge.at + 1.0 and self._kept(other) is None:
                self._judge.breaks(f"I8: user {uid} ended the hold of user {other}")
        self.released(uid)

    def released(self, uid: int) -> None:
        """A user ended the own hold, or root everything."""
        self._changed = self._judge.at
        for user in [uid] if uid else [*self._most]:
            for accounts in (self._most, self._least):
                if user in accounts:
                    accounts[user].released(self._judge.at)
        if uid:
            self.until.pop(uid, None)
        else:
            self.until.clear()
            self.perhaps = -NEVER
        self.ends = None

    def booted(self, kept: dict[str, Any]) -> None:
        """What a hold has left is bounded by the policy of this boot."""
        lasted = max(self.latest, self.perhaps)
        judge, holders = self._judge, {holder[0] for holder in kept.get("holders", ())}
        surely = self._sure and self.perhaps < judge.off_at and self._changed < judge.stored_at - 1.0
        surely &= judge.story.world.synced is True and max(judge.jumped, judge.doubted) < self._changed
        self._promised = {uid: end for uid, end in self.until.items() if surely and uid in holders}
        self.lost(kept)
        stored = min(self._judge.off_at, self._judge.stored_at)
        for account in self._most.values():  # where no date is sure, what was left of it then
            account.lasts(stored, self._judge.at - stored + UNSEEN)
        longest = self._judge.at + self._judge.law.hold_max
        self.until = {uid: min(until, longest) for uid, until in self.until.items()}
        self._carried, self._looked = holders, None
        # where no date is sure, what was left counts that was written last
        known = self._judge.off_at if judge.story.world.synced is True else stored
        self.perhaps = longest + UNSEEN if lasted > known else -NEVER

    def begins(self) -> None:
        """Another guard: unless it knows of the first look of this boot, its own carries holds over."""
        if self._looked is not None and (self._judge.unsaved or self._judge.saved_at < self._looked):
            self._looked = None

    def looked(self) -> None:
        """A look: with the first one of a boot what a hold has left is bounded by the policy, however late that comes."""
        if self._looked is not None:
            return
        self._looked = self._judge.at
        self._longest = self._looked + self._judge.law.hold_max + EXACT
        if self.perhaps > self._looked:
            self.perhaps = max(self.perhaps, self._longest)
        if any(end < self._looked - EXACT for end in self._promised.values()):
            self._judge.tidings.owes("hold_ended")

    def lost(self, kept: dict[str, Any]) -> None:
        """What no directory holds any more is lost, and nobody can be blamed."""
        self.ends = None
        if self.until or max(self._changed, self._forgiven) > self._judge.stored_at - 1.0:
            self.doubt()
        self._least.clear()
        if self.until:
            self.perhaps = max(self.perhaps, self.latest + DAY)
        moved = self._judge.jumped > self.latest - 3 * DAY and self._judge.story.world.synced is True
        if not kept.get("holds") or moved:
            self.until.clear()  # or its end is a date now, and the date was set; one that is not sure shortens nothing
        elif kept.get("boot_id") == (world := self._judge.story.world).boot_id:  # what was granted last may not be kept
            holds = zip(kept["holds"], kept.get("holders", ()), strict=True)
            ends = {holder[0]: hold[2] + world.boot_zero for hold, holder in holds}
            self.until = {uid: min(until, ends[uid]) for uid, until in self.until.items() if uid in ends}
        elif self._changed > self._judge.stored_at - 1.0:
            self.until.clear()
