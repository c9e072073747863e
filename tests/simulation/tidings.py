"""What people must hear soon after it happened, and what they must not hear because it is not true."""

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from costguard.host.ports import Instant
from tests.simulation.terms import NEVER, is_loud

if TYPE_CHECKING:
    from tests.simulation.judge import Judge

DAY = 86400.0
BAD = frozenset(("cannot", "outcome_unknown", "failed"))
"""Ends that somebody has to look after."""

AHEAD = 3900.0
"""Seconds before a deadline in which people hear that it comes: the last hour, and a little."""

TRIES, AGAIN_WITHIN = 3, 900.0
"""So often an end that somebody has to look after is told where nobody gets it, and seconds in which that is told again."""

LATE = 90.0
"""Seconds that anything may come late, beside two ticks."""


class Tidings:
    """Kinds of messages that are owed, each since a moment; and what was told before."""

    def __init__(self, judge: "Judge") -> None:
        self._judge = judge
        self._owed: dict[str, float] = {}
        self._heard: dict[str, float] = {}  # when each kind was told last
        self._deadline_told = self._deadline_heard = -NEVER
        self._weak: float | None = None  # one sign alone has kept the machine up since
        self._weak_told = self._weak_heard = -NEVER
        self._reminded = -NEVER
        self._latched_by = ""
        self._unreached: float | None = None  # nobody got word of an end; since then
        self._countdowns: list[float] = []  # when people were told again of one that runs
        self._delayed_by: float | None = None  # an alarm was told of what certainly delayed a stop; when

    # -- what happened ---------------------------------------------------------------------------------------

    def disturbed(self) -> None:
        """The guard may have lost what it had to say, or the machine what it was about."""
        self._owed.clear()
        self._weak = None
        self._weak_heard = -NEVER
        self._delayed_by = self._unreached = None
        self._deadline_heard = -NEVER
        self._deadline_told = max(self._deadline_told, self._judge.at - DAY + 300.0)

    def unheard(self) -> None:
        """The guard was killed as it was about to say something, and takes it for said: that is not missed for a day."""
        self._deadline_told = self._weak_told = self._judge.at

    def owes(self, kind: str) -> None:
        """People must hear of this now, unless they just have."""
        if self._heard.get(kind, -NEVER) < self._judge.at:
            self._owed.setdefault(kind, self._judge.at)

    def told(self, kind: str, facts: dict[str, Any]) -> None:
        """People were told something."""
        judge, at = self._judge, self._judge.at
        self._owed.pop(kind, None)
        if kind in {"held", "cancelled", *BAD}:  # somebody was quicker than the look that sees that it slept
            self._owed.pop("came_back", None)
        self._heard[kind] = at
        if kind in BAD or kind in {"done", "would_act"}:
            self._latched_by = kind
        self._not_again(kind, at)
        if kind == "countdown":
            self._countdowns = [*self._countdowns[-9:], at]
        if kind == "unknown_alarm":
            self._delayed_by = at if judge.dues.delays_a_stop() else None
        elif kind == "unknown_recovered":
            self._recovered()
        elif kind == "reminder":
            if at - self._reminded < DAY - 60.0 and judge.guard_at < self._reminded:
                judge.breaks(f"what stands in the way is told again after {at - self._reminded:.0f} s")
            self._reminded = at
        elif kind == "hold_ended" and facts.get("hold") != "released":
            self._hold_over()
        # what failed may be waiting for its next try, and whoever has just woken up does not know that it slept
        elif kind == "unguarded" and judge.stage not in {"warned", "gone", "unsure"} and not judge.drowsy:
            judge.breaks("the guard of a countdown is missed that does not run")
        elif kind == "done":
            self._done(facts)

    def _hold_over(self) -> None:
        """That nobody holds the machine any more: no hold lasts that anybody was promised; those of an earlier boot are told one by one."""
        holds, at = self._judge.holds, self._judge.at
        first, last = min(holds.until.values(), default=-NEVER), holds.latest
        if first > at + 1.0 and holds.settled:
            self._judge.breaks(f"I8: a hold that lasts {first - at:.0f} s more is said to be over")
        if last > at + 1.0 and holds.settled and holds.certain and at > self._judge.first_tick + 1.0:
            self._judge.breaks(f"the end of a hold is told, and somebody holds it for {last - at:.0f} s more")

    def delivered(self, message: dict[str, Any], *, done: bool) -> None:
        """A message reached somebody, or nobody."""
        if message["kind"] in BAD:
            last = message["facts"].get("attempts", 1) >= TRIES
            self._unreached = None if done or last else self._judge.at

    def _unheard_end(self) -> None:
        """That something needs somebody is told once more where nobody got it."""
        judge, since = self._judge, self._unreached
        if since is None or judge.stage not in {"done", "failed"} or judge.stage_at > since:
            self._unreached = None
        elif judge.at - max(since, judge.stalled, judge.guard_at) > AGAIN_WITHIN + 2 * judge.law.interval:
            judge.breaks(
                f"nobody got word of {self._latched_by}, and it is not told again for {judge.at - since:.0f} s"
            )

    def leaves(self) -> None:
        """The guard ends as it was told to: in a countdown people hear that nobody carries it out now."""
        judge = self._judge
        told = judge.warned.get(judge.incident)
        if judge.stage != "warned" or judge.reason == "person" or not told or not judge.law.live or judge.drowsy:
            return
        disturbed = max(judge.stalled, judge.configured_at, judge.stage_at) > judge.at - 60.0 or judge.unsaved
        if not disturbed and self._heard.get("unguarded", -NEVER) < judge.at - 60.0:
            judge.breaks("the guard ends in a countdown, and nobody hears of that")

    def told_ahead(self) -> bool:
        """Whether people were told that a deadline comes, in the last hour before it."""
        return self._judge.at - self._heard.get("deadline_ahead", -NEVER) < AHEAD

    def reminded(self, since: float) -> int:
        """How often people were told of a countdown since then."""
        return sum(one > since for one in self._countdowns)

    def _not_again(self, kind: str, at: float) -> None:
        """What goes on is told at most daily."""
        judge = self._judge
        if kind == "deadline_passed":
            if at - self._deadline_heard < DAY - 60.0:
                judge.breaks(f"a deadline that waits for work is told again after {at - self._deadline_heard:.0f} s")
            self._deadline_told = self._deadline_heard = at
        elif kind == "weak_sign":
            if at - self._weak_heard < DAY - 60.0 and self._alone_since(self._weak_heard):
                judge.breaks(f"one weak sign alone is told again after {at - self._weak_heard:.0f} s")
            self._weak_told = self._weak_heard = at

    def _alone_since(self, since: float) -> bool:
        """Whether the sign has been all that the guard saw since then: neither quiet nor a countdown came between."""
        judge, loud = self._judge, self._judge.rest.loud
        return loud is not None and loud < since and judge.stage == "watching" and judge.stage_at < since

    def _done(self, facts: dict[str, Any]) -> None:
        """*Done* is what was carried out: neither accepted alone, nor perhaps."""
        judge, incident = self._judge, facts["incident"]
        if facts["action"] == "end_process":
            return
        tried = [entry for key, entries in judge.gone.items() if key[0] == incident for entry in entries]
        results = judge.story.world.results
        shown = any(attempt in judge.shown_done for _, attempt in tried)
        if not shown and not any(results.get(attempt, {}).get("status") == "done" for _, attempt in tried):
            judge.breaks(f"{facts['action']} is called done, and nothing says that it was")

    def _recovered(self) -> None:
        """I6: nothing ends what cannot be read but that it can be; and no hold ends what has delayed a stop."""
        judge, at = self._judge, self._judge.at
        law, since, self._delayed_by = judge.law, self._delayed_by, None
        if at - judge.anew < 3 * law.interval or judge.stage == "gone":
            return
        last = judge.sights.looks[-1] if judge.sights.looks else None
        if last is None or at - last.at > 1.0:
            return
        before = judge.ticks[-1] if judge.ticks else last.at
        heard = [look.seen for look in judge.sights.looks if look is last or look.at > before]  # of one tick, as a rule
        if judge.rest.blind is not None and any(
            all(seen[gpu] is None for seen in heard) for gpu in judge.sights.there(law)
        ):
            judge.breaks("I6: GPUs are said to be readable that cannot be read")
        if since is None or judge.stage != "watching" or judge.stage_at > since or judge.graced_at > since:
            return
        looks = [look for look in judge.sights.looks if look.at >= since - law.window - law.interval]
        if any(one is not None and is_loud(one, law) for look in looks for one in look.seen):
            return
        ticks = [tick for tick in judge.ticks if tick >= since]
        whole = all(b - a <= 1.5 * law.interval for a, b in pairwise(ticks))
        known = max(judge.sights.known_from(gpu, law, at, at - law.window) for gpu in law.judged)
        if whole and at - known < law.window - 2 * law.interval:
            judge.breaks(f"I6: nothing is said to be delayed any more {at - known:.0f} s after a GPU was unknown")

    # -- every tick ------------------------------------------------------------------------------------------

    def tick(self, now: Instant) -> None:
        """Nothing is owed for long."""
        judge, at = self._judge, self._judge.at
        limit = 2 * judge.law.interval + LATE
        for kind, since in self._owed.items():
            if at - max(since, judge.stalled) > limit:
                judge.breaks(f"silence: nobody is told {kind} for {at - since:.0f} s")
        self._deadline(now)
        self._weak_sign()
        self._remembered()
        self._unheard_end()

    def _deadline(self, now: Instant) -> None:
        """A deadline that passes while work goes on is told, at most daily."""
        judge, at, law = self._judge, self._judge.at, self._judge.law
        loud = judge.rest.loud
        works = judge.stage == "watching" and loud is not None and law.together != "mean" and not law.lacking
        if not works or law.stop_busy or at - self._deadline_told < DAY + 60.0 or not judge.dues.deadline_passed(now):
            self._owed.pop("deadline_passed", None)
            return
        self.owes("deadline_passed")

    def _remembered(self) -> None:
        """What could not be done is told again, rarely."""
        judge, at = self._judge, self._judge.at
        latched = judge.stage in {"done", "failed"} and self._latched_by in BAD
        since = max(judge.stage_at, self._reminded, judge.stalled)
        if latched and at - since > DAY + 2 * judge.law.interval + LATE:
            judge.breaks(f"nobody is told for {at - since:.0f} s that {self._latched_by} still holds")

    def _weak_sign(self) -> None:
        """What keeps a machine up by one weak sign alone for a whole window is told."""
        judge, at, law = self._judge, self._judge.at, self._judge.law
        look = judge.sights.looks[-1] if judge.sights.looks else None
        seen = [look.seen[gpu] for gpu in law.judged] if look is not None and look.at > at - 4.0 else [None]
        signs = any(one is not None and one[1] for one in seen)
        alone = law.signs and signs and all(one is not None and one[0] < law.limit for one in seen)
        if any(one is not None and one[0] >= law.limit for one in seen):
            self._weak_heard = -NEVER  # after work, a sign that is alone is news
        if not alone or judge.stage != "watching" or judge.stage_at >= at or judge.dues.blocked():
            self._weak = None
            self._owed.pop("weak_sign", None)
            return
        self._weak = at if self._weak is None else self._weak
        armed = law.arm_for is None or (judge.arming.surely and at - judge.arming.since > law.window * 61 / 60)
        if armed and at - self._weak_told > DAY + 60.0 and at - self._weak > law.window * 61 / 60 + law.interval:
            self.owes("weak_sign")


def due_again(judge: "Judge", reason: str) -> None:
    """A new warning: what is done is latched until work is seen, and what failed waits as long as it said."""
    at, promise = judge.at, judge.dues.promise
    if reason == "person" or judge.reason == "person" or judge.stage not in {"done", "failed"}:
        return
    if judge.drowsy or judge.stage_at < judge.began + 2 * judge.law.interval:
        return  # the guard may have told it before it saw that the machine had slept
    looks = [look for look in judge.sights.looks if look.at > judge.stage_at - 2 * judge.law.interval]
    law = judge.law
    if any(one is not None and is_loud(one, law._replace(signs=True)) for look in looks for one in look.seen):
        return
    if judge.stage == "done":
        judge.breaks(f"people are warned again {at - judge.stage_at:.0f} s after it was done, and no work was seen")
    if at < promise - law.interval:  # it counts from the last look
        judge.breaks(f"what failed is tried again {promise - at:.0f} s before the time that was named")
