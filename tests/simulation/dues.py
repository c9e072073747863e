"""What must happen, and when it is late. Whatever may have kept the guard from seeing counts in its favour."""

from typing import TYPE_CHECKING, Any

from costguard.host.ports import Instant
from tests.simulation.terms import LONG, NEVER, is_loud

if TYPE_CHECKING:
    from tests.simulation.judge import Judge

DAY = 86400.0
LATE = 90.0
"""Seconds that anything may come late, beside two ticks."""

REST = 300.0
RESTED = 30.0
WISH_WITHIN = 5400.0
"""Seconds in which a stop by hand must have been tried, or given up aloud: one attempt that is lost takes 70 minutes."""

ATTEMPT_WITHIN = 6000.0
CHECK_AGAIN = 4200.0
"""Seconds in which an action's outcome is known; in which a check that failed is made again."""

ASKED_ABOUT = 7200.0
"""Seconds for which the guard may be busy with a request."""

CONFIRMED_FROM = 300.0
"""Seconds after its acceptance in which somebody asks what came of a request."""

COUNTED_EVERY, COMMITTED_EVERY = 600.0, 3600.0
"""Seconds in which running time reaches the disk, where a deadline counts it, and where none does."""

UNCHECKED = 3600.0
"""Seconds for which nothing but failed checks is nobody's business."""

WRITTEN_WITHIN = 400.0
"""Seconds in which commitments that could not be written are tried again."""

CHILDREN, PENDING, TOLD_WITHIN = 16, 16, 60.0
"""Children at once; messages of guards before it that one which begins tells again beside them, and seconds for that."""

TRIES, AGAIN_WITHIN = 3, 120.0
"""So often a warning is tried that nobody gets, and seconds in which it is sent again."""

SPREAD = 600.0
"""Seconds over which a fleet spreads its checks."""


class Dues:
    """Since when something is due, by its name."""

    def __init__(self, judge: "Judge") -> None:
        self._judge = judge
        self._since: dict[str, float] = {}
        self._waited = 0.0
        self.promise = NEVER  # when FAILED tries again
        self._checked: dict[str, float] = {}
        self._unchecked: dict[str, float] = {}
        self._checks_from = 0.0
        self._alarmed: list[float] = []
        self._earlier = 0  # so often the alarm under way was told before the machine slept
        self._again_at = -NEVER  # when an alarm was told again that an earlier guard, which was killed, had decided
        self._unheard = False  # whether that is over nobody knows: the guard was killed as it was about to say so
        self._paused = False  # something else has delayed the stop since the alarm began
        self._latch_loud = False
        self._pace = judge.law.interval
        self._moved = False  # the alarm under way is of another policy
        self._unchecked_told = -NEVER
        self._written = -NEVER  # they were, or that was tried
        self._beat = -NEVER  # the last sign of life
        self._writes: float | None = None  # commitments are to be on the disk, since the last try

    # -- what happened ---------------------------------------------------------------------------------------

    @property
    def alarmed_since(self) -> float:
        """When the alarm under way was told first; now, when there is none."""
        return self._alarmed[0] if self._alarmed else self._judge.at

    def checks_anew(self) -> None:
        """A guard, or another policy, begins: every plan is made anew."""
        self._checked.clear()
        self._checks_from = self._judge.at

    def wait(self) -> None:
        """Something disturbed the guard: whatever is due gets its time anew."""
        self._since.clear()
        self._waited = self._judge.at
        self._unchecked.clear()

    def afresh(self) -> None:
        """The guard remembers nothing of before: alarms begin anew."""
        self._forget()
        self.wait()

    def slept(self) -> None:
        """The machine slept: an alarm under way goes on, and is told anew once that has lasted; then as rarely as before."""
        self._earlier += len(self._alarmed)
        self._alarmed.clear()
        self.wait()

    def _forget(self) -> None:
        self._alarmed.clear()
        self._earlier, self._paused, self._unheard = 0, False, False
        self._moved = False

    def doubts(self) -> None:
        """Nobody knows what the guard remembers of the alarm under way."""
        self._moved = bool(self._alarmed) or self._judge.rest.blind is not None or self._moved
        self.wait()

    def unheard(self) -> None:
        """The guard was killed as it was about to say something, and does not say it again."""
        self._unheard = True
        self.doubts()

    def ruled_anew(self) -> None:
        """Another policy: an alarm under way keeps its time."""
        self.doubts()

    def told(self, kind: str, facts: dict[str, Any]) -> None:
        """People were told something."""
        at = self._judge.at
        if kind == "unknown_alarm":
            last = self._alarmed[-1] if self._alarmed else -NEVER
            if not facts.get("told_again") or at - last > self._judge.law.alarm:  # else the same, by the next guard
                self._alarmed.append(at)
            self._again_at = at if facts.get("told_again") else self._again_at
            self._unheard = False
        elif kind == "unknown_recovered":
            self._forget()
        elif kind == "hold_ended":
            self._judge.holds.ends = None
        elif kind == "finding" and facts["code"] == "unchecked":
            self._unchecked_told = at
        elif kind == "failed":
            self.promise = at + facts["retry_in_seconds"] if "retry_in_seconds" in facts else NEVER
        if kind in {"done", "would_act", "cannot", "outcome_unknown", "failed", "reminder"}:
            self._latch_loud = self._latch_loud if kind == "reminder" else False

    def beats(self) -> None:
        """A sign of life is sent."""
        self._beat = self._judge.at

    def writes(self) -> None:
        """Commitments begin to be written."""
        self._writes = self._written = self._judge.at

    def stored(self, data: dict[str, Any]) -> None:
        """They are on the disk: every own stop that was certainly requested before stands in them."""
        judge, self._writes = self._judge, None
        results, wall = judge.story.world.results, judge.story.world.instant().wall
        self._dated(data)
        if judge.jumped > judge.guard_at or judge.doubted > judge.began - DAY or judge.stage != "gone":
            return
        looks = [look.seen for look in judge.sights.looks if look.at > judge.stage_at - judge.law.interval]
        if any(one is not None and is_loud(one, judge.law._replace(signs=True)) for seen in looks for one in seen):
            return  # work forgives it
        if judge.arming.latest > judge.stage_at - judge.law.interval:
            return  # so does a load that arms, however small
        for at, attempt in [one for one in judge.requests if one[0] == judge.stage_at and one[0] in judge.tried_stops]:
            known = data["wall"] > judge.dates[at] + 1.0 and -1.0 < wall - data["wall"] < 5.0
            under_way = results.get(attempt, {}).get("status") in {"started", "accepted"}
            if known and under_way and not any(abs(date - judge.dates[at]) < 5.0 for date in data["stops"]):
                judge.breaks("I8: an own stop is not among the commitments")

    def _dated(self, data: dict[str, Any]) -> None:
        """I9: a stop on a date that was known to be wrong is not kept with that date, by which it might be long ago."""
        judge = self._judge
        wrong = [judge.dates[at] for at in judge.undated if at in judge.tried_stops]
        if data["boot_id"] == judge.story.world.boot_id and any(
            abs(kept - date) < 0.5 for kept in data["stops"] for date in wrong
        ):
            judge.breaks("I9: a stop on a date that is known to be wrong is kept with that date")

    def checks(self, action: str) -> None:
        """A check of an action begins."""
        self._checked[action] = self._judge.at
        self._unchecked.setdefault(action, self._judge.at)

    def checked(self, action: str) -> None:
        """A check of an action said something."""
        self._unchecked.pop(action, None)

    # -- every tick ------------------------------------------------------------------------------------------

    def tick(self, now: Instant, before: float, *, doubtful: bool) -> None:
        """Whatever is due is not late."""
        judge, at = self._judge, self._judge.at
        law = judge.law
        late = at - max(before, judge.stalled, judge.guard_at, judge.began)
        pace = max(law.interval, self._pace if before <= judge.anew else 0.0)
        self._pace = law.interval
        if late > 2 * pace + 45.0:  # every second reading of a calm machine may stay unsaid
            judge.breaks(f"liveness: no tick for {late:.0f} s")
        if at - before > 1.5 * law.interval + 5.0 or doubtful:
            self._since.clear()
        self._latches()
        self._due("a warning", self._owed(now), 2 * law.interval + LATE)
        self._due("word of what is not seen", self._delayed(), law.alarm + 2 * law.interval + LATE)
        self._due("the end of a hold", self._hold_over(), law.interval + 30.0)
        self._attempts()
        tried = self._writes if self._writes is not None and self._writes >= judge.guard_at else at
        if (
            at - max(tried, judge.stalled, self._waited) > WRITTEN_WITHIN + 2 * law.interval
            and not judge.story.host.undead
        ):
            judge.breaks(f"I8: commitments failed to be written {at - tried:.0f} s ago, and it is not tried again")
        self._kept_up()
        self._alarm()
        self._signs_of_life()
        self._checks()
        self._leaks()

    def _kept_up(self) -> None:
        """Running time reaches the disk now and then, also where nothing else happens."""
        judge, at, law = self._judge, self._judge.at, self._judge.law
        counts = law.lifetime < NEVER or law.budget < NEVER
        since = max(self._written, judge.guard_at, judge.began, judge.stalled, judge.ruled_at, self._waited)
        limit = (COUNTED_EVERY if counts else COMMITTED_EVERY) + WRITTEN_WITHIN + 2 * law.interval + LATE
        if self._writes is None and at - since > limit and not judge.story.host.undead:
            judge.breaks(f"I8: running time was not stored for {at - since:.0f} s")

    def _signs_of_life(self) -> None:
        """Whoever watches from outside hears from a guard whose reader answers."""
        judge, at = self._judge, self._judge.at
        every = (judge.story.ruled.get("heartbeat") or {}).get("every")
        silent = judge.story.troubles.failed_last("nvml", "cloud", "spawn:nvml", "spawn:cloud", "beat", "send")
        disturbed = max(judge.guard_at, judge.began, judge.stalled, judge.ruled_at, judge.hazy_at, self._waited)
        since = max(self._beat, disturbed, silent)
        if every and at - since > 2 * every + 4 * judge.law.interval + LATE:
            judge.breaks(f"no sign of life for {at - since:.0f} s")

    def _due(self, name: str, why: str, within: float) -> None:
        if not why:
            self._since.pop(name, None)
            return
        since = self._since.setdefault(name, self._judge.at)
        if self._judge.at - since > within:
            self._judge.breaks(f"silence: {name} is due for {self._judge.at - since:.0f} s: {why}")

    def _latches(self) -> None:
        """DONE and FAILED end when work is seen; a little work may or may not be enough."""
        judge, at = self._judge, self._judge.at
        if judge.stage not in {"done", "failed"}:
            self._latch_loud = False
            return
        law, loud = judge.law, judge.rest.loud
        if loud is None or loud < judge.stage_at:
            if self._latch_loud or (loud is not None):
                judge.enter("unsure")
            return
        self._latch_loud = True
        by_work = judge.reason in {"idle", "unused"} and not judge.endings.open  # nobody works on what has ended
        if by_work and at - loud > law.tolerance + 2 * law.interval:
            judge.enter("watching")
            self._latch_loud = False

    def blocked(self) -> bool:
        """Whether anything may keep the guard from warning people."""
        judge, at = self._judge, self._judge.at
        law, tick = judge.law, judge.law.interval
        return (
            law.forbidden
            or bool(judge.story.world.hatch)
            or at < max(judge.holds.latest, judge.holds.perhaps) + tick
            or judge.asks
            or at < judge.noticed_until + 2 * tick
            or at < judge.graced_at + max(law.boot_grace - law.grace, 0.0) + 2 * tick
            or at < self._waited + 2 * tick
        )

    def _owed(self, now: Instant) -> str:
        """Why people must be warned now; empty when they need not."""
        judge, at, law = self._judge, self._judge.at, self._judge.law
        retry = judge.stage == "failed" and at > self.promise + law.interval
        if not (judge.stage == "watching" or retry) or self.blocked():
            return ""
        quiet, bucket = judge.rest.quiet(law, at), law.window / 60.0 + 1.0
        if self.deadline_passed(now) and (
            law.stop_busy or judge.rest.unworked(law, at) >= min(REST, law.window) + 2 * law.interval
        ):
            return "a deadline has passed"
        armed = judge.arming.surely or law.arm_for is None
        since_armed = NEVER if law.arm_for is None else at - judge.arming.since
        if armed and min(quiet, since_armed) >= law.window + bucket:
            return "idle after work"
        if not judge.arming.maybe and law.unused is not None and judge.unused() >= law.unused + bucket:
            return "unused"
        return ""

    def _delayed(self) -> str:
        """I6: had everything unknown been quiet, it would be idle; scattered unknown is told, or there is a warning."""
        if self._alarmed or self._moved:
            return ""
        return "it would be idle" if self.delays_a_stop() else ""

    def delays_a_stop(self) -> bool:
        """Whether it would be idle, had everything unknown been quiet, and nothing else stands in the way."""
        judge, at, law = self._judge, self._judge.at, self._judge.law
        if judge.stage != "watching" or law.together != "all" or self.blocked():
            return False
        if law.lacking or not law.judged or not (judge.arming.surely or law.arm_for is None):
            return False
        anew = max(judge.anew, judge.graced_at)  # of a sleep the guard may learn late
        since = max(judge.rest.worked(law), anew, judge.arming.since if law.arm_for is not None else -NEVER)
        return at - since >= law.window * 61 / 60 + law.interval

    def deadline_passed(self, now: Instant) -> bool:
        """Whether one has certainly passed."""
        judge = self._judge
        law, ran = judge.law, judge.ran_stored + judge.awake() - 2 * judge.law.interval
        if judge.at < judge.extensions.latest + law.interval:
            return False
        spent = ran - (judge.budget_since if judge.budget_since is not None else ran)
        period = judge.period if judge.period is not None and judge.period.length == law.period else None
        # where no date is sure, nobody knows which period it is
        within = law.period >= LONG or (period is not None and now.wall < period.began + period.length - 1.0)
        return ran > law.lifetime or (within and spent > law.budget) or (now.wall > law.lease and now.synced is True)

    def _hold_over(self) -> str:
        judge = self._judge
        ends = judge.holds.ends
        return "it is over" if ends is not None and judge.at > ends else ""

    def _attempts(self) -> None:
        """A countdown ends in time, and so does what was requested."""
        judge, at, law = self._judge, self._judge.at, self._judge.law
        stage = judge.stage
        if stage == "gone" and at - judge.stage_at > ATTEMPT_WITHIN:
            judge.breaks(f"leak: nothing is known of a request for {at - judge.stage_at:.0f} s")
        accepted, attempt = judge.accepted
        of_now = stage == "gone" and any((judge.stage_at, attempt) in entries for entries in judge.gone.values())
        since = max(accepted, judge.guard_at, judge.stalled, judge.ruled_at, judge.began)
        if of_now and attempt not in judge.asked_about and at - since > CONFIRMED_FROM + 2 * law.interval:
            judge.breaks(f"nobody asks what came of a request that was accepted {at - accepted:.0f} s ago")
        if stage == "warned" and judge.reason != "person":
            self._countdown(at, max(judge.stage_at, self._waited))
            tried = judge.tried.get(judge.incident, [at])
            if judge.incident not in judge.warned and len(tried) < 3 and tried[-1] < judge.guard_at:
                self._due("a warning that nobody got", "the guard died meanwhile", law.interval + LATE)
            self._again(judge.tries)
            loud = judge.rest.loud
            if loud is not None and loud > judge.stage_at and (judge.reason != "deadline" or not law.stop_busy):
                why = "work goes on" if at - loud > law.tolerance + law.interval else ""
                self._due("the end of a countdown", why, 2 * law.interval + LATE)
                return
        self._due("the end of a countdown", "", 0.0)
        if judge.wish is not None and at - judge.wish > WISH_WITHIN:
            judge.breaks(f"a stop by hand was neither tried nor given up aloud for {at - judge.wish:.0f} s")

    def _again(self, tries: tuple[str, list[float]]) -> None:
        """I2: a warning that nobody got is sent again, until its delivery rule is exhausted."""
        judge, at, (failed, incident) = self._judge, self._judge.at, self._judge.unreached
        waits = incident == judge.incident == tries[0] and incident not in judge.warned and 0 < len(tries[1]) < TRIES
        if not waits or tries[1][-1] > failed:
            return
        since = max(failed, judge.guard_at, judge.stalled, judge.ruled_at, self._waited)
        if at - since > AGAIN_WITHIN + 2 * judge.law.interval:
            judge.breaks(f"silence: a warning that nobody got is not sent again for {at - failed:.0f} s")

    def _countdown(self, at: float, since: float) -> None:
        judge, law = self._judge, self._judge.law
        grace = max(law.grace, judge.graced_at + law.boot_grace - since)
        calm = judge.story.troubles.last < since - 300.0 and judge.rest.unworked(law, at) > at - since
        limit = grace + 2 * law.interval + LATE + 30.0 if calm else 2 * grace + law.boot_grace + 3600.0
        if at - since > limit:
            judge.breaks(f"leak: a countdown of {law.grace:.0f} s lasts for {at - since:.0f} s")

    # -- unknown ---------------------------------------------------------------------------------------------

    def _alarm(self) -> None:
        """I6: told once it lasted, then after twice as long, at most daily; and when it is over."""
        judge, at, law = self._judge, self._judge.at, self._judge.law
        blind = judge.rest.blind
        if blind is not None:
            waited = max(self._waited, judge.stalled)
            since = max(blind, waited)
            if not self._alarmed and not self._moved and at - since > law.alarm + 2 * law.interval + LATE:
                judge.breaks(f"I6: GPUs cannot be read for {at - since:.0f} s, and nobody is told")
            if len(self._alarmed) > 1 and self._alarmed[-1] == at and self._alarmed[-2] != self._again_at:
                self._not_too_often()
            if self._alarmed and not self._moved:
                pause = min(DAY, law.alarm * 2.0 ** (self._earlier + len(self._alarmed) - 1))
                due = max(self._alarmed[-1], waited) + pause
                due = max(due, blind + law.alarm) if self._paused else due
                if at > due + 2 * law.interval + LATE:
                    judge.breaks(f"I6: nobody was told again for {at - self._alarmed[-1]:.0f} s")
        elif self._alarmed and (
            self.blocked() or judge.stage not in {"watching", "warned"} or judge.rest.worked(law) >= at - law.interval
        ):
            self._paused = True  # what cannot be read after that delays the stop from then on
        known = judge.rest.all_known
        if known is not None and not self._alarmed and at - known > law.window + (law.unused or 0.0) + 600.0:
            self._moved = False
        if known is not None and self._alarmed and not self._unheard:
            # a burst that the window tolerates is neither rest nor work until it is over, or too long
            enough = max(law.window, law.unused or 0.0) * 61 / 60 + law.tolerance + 4 * law.interval + LATE
            begun = max(known, self._waited, self._alarmed[-1], judge.arming.latest, judge.anew)
            if at - begun > enough and judge.stage != "gone":
                judge.breaks(f"I6: GPUs can be read again for {at - known:.0f} s, and nobody is told")

    def _not_too_often(self) -> None:
        judge, times = self._judge, len(self._alarmed) - 2 + self._earlier
        before, last = self._alarmed[-2:]
        alarm, blind = judge.law.alarm, judge.rest.blind
        steady = not self._paused and blind is not None and blind <= self._alarmed[0] - alarm + 2 * judge.law.interval
        pause = min(DAY, alarm * 2.0**times if steady else alarm)
        if last - before < pause - 1.0 and not self._moved:
            judge.breaks(f"I6: an alarm again after {last - before:.0f} s")

    # -- checks ----------------------------------------------------------------------------------------------

    def _checks(self) -> None:
        """Rights are checked at the start and daily; what failed is checked again."""
        judge, at = self._judge, self._judge.at
        if judge.stage == "gone":
            self._checks_from = at
            return
        for action in judge.law.actions:
            if action == "end_process":
                continue
            last = self._checked.get(action, max(self._checks_from, judge.stalled, judge.began))
            asked_about = at - judge.went < ASKED_ABOUT  # a machine that stops can do nothing else
            if not asked_about and action not in self._checked and at - last > SPREAD + 2 * judge.law.interval + LATE:
                judge.breaks(f"the plan of {action} was not checked at the start, {at - last:.0f} s ago")
            if at - max(last, judge.began - DAY) > DAY + SPREAD + LATE:
                judge.breaks(f"the plan of {action} was not checked for {at - last:.0f} s")
            asked = self._unchecked.get(action)
            if asked is not None and at - self._checked.get(action, at) > CHECK_AGAIN + SPREAD:
                judge.breaks(f"the plan of {action} failed, and is not checked again for {at - asked:.0f} s")
            unheard = asked is not None and at - asked > UNCHECKED + CHECK_AGAIN + SPREAD
            if unheard and at - self._unchecked_told > DAY + CHECK_AGAIN + SPREAD:
                judge.breaks(f"the plan of {action} cannot be checked, and nobody is told")

    def _leaks(self) -> None:
        host = self._judge.story.host
        told_again = PENDING if self._judge.at - self._judge.guard_at < TOLD_WITHIN else 0
        if len(host.children) > CHILDREN + told_again:
            self._judge.breaks(f"{len(host.children)} children at once")
        if len(self._judge.story.world.runtime.get("state.json", b"")) > 65536:
            self._judge.breaks("the state file grows without bound")
