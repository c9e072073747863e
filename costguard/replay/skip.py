"""GPUs go up and down without a decision being near: carry the tracks over that at once.

`possible` says how far, while the machine is watched or its stop is latched. It leaves out no sample in which a reason could
hold, work could unlatch, the guard could be armed, an alarm could begin, a GPU is lost or found, or something falls due; from
there on the engine is asked again. Whatever `carry` gives, the engine would have come to sample by sample, but for loud
seconds that have left the window already.
"""

from bisect import bisect_left, bisect_right

from costguard.engine.ahead import deadline_told_at
from costguard.engine.deadline import Situation, deadline_at, period_over, work_over_seconds
from costguard.engine.observation import Known
from costguard.engine.reasons import DEADLINE, IDLE, OWN_REASONS, UNKNOWN, UNUSED, reason_of
from costguard.engine.rules import Rules
from costguard.engine.state import DONE, WATCHING, Core, State
from costguard.engine.window import BUCKETS, NEVER, Track, by_bucket
from costguard.replay.levels import BUSY, Levels, LevelSignal, first_at
from costguard.replay.windows import Runs

WORTH = 4
"""Fewer changes than this are stepped through."""


KNOWN = (DEADLINE, IDLE, UNUSED, UNKNOWN)
"""The reasons that this module can look ahead for; with any other one the engine itself says what may be left out."""


class LookAhead:
    """The look ahead for one policy on one trace."""

    def __init__(self, levels: Levels, rules: Rules) -> None:
        self._levels = levels
        self._rules = rules
        self._times = levels.times
        self._start = levels.times[0] if levels.times else 0.0
        self.knows_reasons = all(reason in KNOWN for reason in OWN_REASONS if reason.applies(rules.policy))
        self._some = rules.judges_any

    def possible(self, state: State, k: int) -> int:
        """The sample that must be asked about next; 0 when nothing is gained, or the state does not allow it."""
        core, rules = state.core, self._rules
        changes = self._levels.any_change(rules)
        i = bisect_left(changes, k) + WORTH
        least = changes[i] if i < len(changes) else len(self._times)
        if core.unchanged_until <= state.at:
            least = min(least, k + WORTH)  # the engine would be asked about every single sample
        if least >= len(self._times) or not self.knows_reasons or not self._plain(core):
            return 0
        to = min(self._next_of(self._levels.holes(rules.gap), k), self._next_of(self._levels.blind, k))
        for runs in self._runs(state):
            if to <= least:
                return 0
            found = runs.at_or_after(k)
            to = to if found is None else min(to, found)
        if to > least:
            to = min(to, self._due(state, k))
        if to > least and core.phase == DONE:
            to = min(to, self._unlatched(state, k))
        return to if to > least else 0

    def _plain(self, core: Core) -> bool:
        """Whether nothing but the GPUs and dates can change anything."""
        if core.phase not in {WATCHING, DONE} or core.signals.work is None or core.signals.known_work is None:
            return False
        if core.alarms.unknown is not None and core.signals.unknown_since is None:
            return False  # it ends, or goes by what a window would have been
        if core.signals.host is None or not core.signals.host.busy:
            return False  # then what is unknown for too long may be a reason
        mean_known = core.signals.mean is not None or not self._rules.judges_mean
        return mean_known and not (
            core.people.holds or core.ledger.stops or core.people.charged or core.notice.due is not None or core.vetoes
        )

    def _next_of(self, positions: list[int], k: int) -> int:
        i = bisect_left(positions, k)
        return positions[i] if i < len(positions) else len(self._times)

    def _runs(self, state: State) -> list[Runs]:
        """Where a reason could hold, or an alarm begin; before that, where the guard could be armed."""
        core, policy, levels = state.core, self._rules.policy, self._levels
        found = []
        armed = core.signals.armed_at is not None or policy.arm_duration is None
        if not armed and policy.arm_duration is not None:
            found.append(levels.long(levels.above(self._rules, core.selection.picked), policy.arm_duration))
        by_date = core.incident is not None and reason_of(core.incident).by_date
        if core.phase == DONE and not (by_date and policy.stop_busy):
            return found
        if armed:
            found += self._idle_runs(state)
        elif policy.unused_after is not None and core.signals.unknown_since is None:
            busy = levels.busy(self._rules, core.selection.judged)
            found.append(levels.rare(busy, policy.unused_after, self._rules.tolerance))
        return found

    def _idle_runs(self, state: State) -> list[Runs]:
        """Where the window could be clear. It cannot be of what is unknown."""
        core, rules, levels = state.core, self._rules, self._levels
        window, most = rules.policy.kill_duration, rules.tolerance
        if self._some:
            known = [i for i in core.selection.judged if state.tracks[i].unknown_since is None]
            found = [levels.rare(levels.gpus(rules)[i], window, most) for i in known]
        elif core.signals.unknown_since is not None:
            return []
        else:
            found = [levels.rare(levels.mean(rules, core.selection.picked), window, most)] if rules.judges_mean else []
        return (
            found
            if core.signals.unknown_since is not None
            else [*found, levels.rare(levels.busy(rules, core.selection.judged), window, most)]
        )

    def _unlatched(self, state: State, k: int) -> int:
        """The sample in which work could end the latch."""
        core, rules, levels, end = state.core, self._rules, self._levels, len(self._times)
        if core.incident is not None and reason_of(core.incident).by_date:
            back = -1 if rules.policy.stop_busy else levels.busy(rules, core.selection.judged).levels.find(b"\1", k)
            return back if back >= 0 else end
        if rules.judges_mean:
            signals = [levels.mean(rules, core.selection.picked)]
        elif self._some and any(state.tracks[i].unknown_since is not None for i in core.selection.judged):
            return end  # every GPU would have to be seen working
        elif self._some:
            signals = [levels.gpus(rules)[i] for i in core.selection.judged]
        else:
            signals = [levels.joined(rules, core.selection.judged)]
        policy = rules.policy
        every = [levels.full(found, policy.kill_duration, rules.tolerance, policy.interval) for found in signals]
        while True:  # all of them must be full at once
            places = [runs.at_or_after(k) for runs in every]
            if None in places or not places:
                return end
            latest = max(place for place in places if place is not None)
            if latest == k or min(place for place in places if place is not None) == latest:
                return latest
            k = latest

    def _due(self, state: State, k: int) -> int:
        """The sample before the first date: a check, a reminder, an alarm, a deadline, the end of a budget's period."""
        core, policy = state.core, self._rules.policy
        situation = Situation(state, self._rules, state.at + self._start, None)
        dates = [core.plans.check_at, core.ending.remind_at, core.ending.retry_at, deadline_told_at(situation)]
        if core.alarms.unknown is not None:
            dates.append(core.alarms.unknown.next)
        if policy.budget is not None:
            dates.append(period_over(core, self._rules) - self._start)
        limit = len(self._times)
        if core.phase == WATCHING:
            deadline = deadline_at(situation)
            if deadline > state.at:
                dates.append(deadline)
            elif policy.stop_busy:
                return k
            else:  # passed: it waits for the end of the work, and is told from time to time
                dates.append(core.alarms.deadline_at)
                limit = self._pause(core, k)
        due = min(dates)
        return min(limit, max(k, first_at(self._times, due + self._start, k) - 1)) if due < NEVER else limit

    def _pause(self, core: Core, k: int) -> int:
        """The sample in which work may have been over for long enough for a deadline that has passed."""
        busy, end = self._levels.busy(self._rules, core.selection.judged), len(self._times)
        if core.signals.unknown_since is not None:
            pause = busy.levels.find(b"\0", k)
            return pause if pause >= 0 else end
        found = self._levels.rare(busy, work_over_seconds(self._rules), 0.0).at_or_after(k)
        return end if found is None else found

    # -- the state afterwards --------------------------------------------------------------------------------

    def carry(self, state: State, k: int, to: int) -> State:
        """The state after the samples from ``k`` up to, not with, ``to``."""
        core, rules, levels = state.core, self._rules, self._levels
        policy, last = rules.policy, to - 1
        at = self._times[last] - self._start
        window = policy.kill_duration
        tracks = tuple(
            self._follow(track, found, BUSY, k, last, window)
            for track, found in zip(state.tracks, levels.gpus(rules), strict=True)
        )
        busy, signals = levels.busy(rules, core.selection.judged), core.signals
        work, known_work, mean, above = signals.work, signals.known_work, signals.mean, signals.above_arm_since
        assert work is not None  # `possible` saw to it
        assert known_work is not None
        if signals.unknown_since is not None:
            work, mean = self._work_beside_unknown(work, busy, k, last), self._unknown_mean(core, last, at)
        else:
            work = self._follow(work, busy, 1, k, last, policy.unused_after or window)
            if mean is not None:
                mean = self._follow(mean, levels.mean(rules, core.selection.picked), BUSY, k, last, window)
        if signals.armed_at is None and policy.arm_duration is not None:
            above = self._arming(above, levels.above(rules, core.selection.picked), k, last)
        known_work = self._follow(known_work, busy, 1, k, last, window)
        signals = signals._replace(work=work, known_work=known_work, mean=mean, above_arm_since=above)
        core = core._replace(signals=signals, unchanged_until=-NEVER)
        return State(at, state.gpus, tracks, core)

    def _follow(self, track: Track, found: LevelSignal, bit: int, k: int, last: int, window: float) -> Track:
        """One track over the changes of its level; those that left the window are not counted any more."""
        changes, levels = found.changes, found.levels
        begin, end = bisect_left(changes, k), bisect_right(changes, last)
        if begin == end:
            return track
        oldest = self._times[last] - window * (1 + 3 / BUCKETS)
        first = max(begin, bisect_left(changes, first_at(self._times, oldest, k)) - 2)
        loud, since, past = track.busy, track.since, dict(track.past)
        if first > begin:
            loud, since, past = bool(levels[changes[first - 1]] & bit), self._before(changes[first - 1]), {}
        for position in changes[first:end]:
            now, before = bool(levels[position] & bit), self._before(position)
            if now != loud:
                if loud:
                    for bucket, start, stop in by_bucket(max(since, oldest - self._start), before, window / BUCKETS):
                        past[bucket] = past.get(bucket, 0.0) + stop - start  # as the engine adds up, to the last bit
                loud, since = now, before
        return Track(loud, since, track.known_since, tuple(sorted(past.items())))

    def _work_beside_unknown(self, work: Track, busy: LevelSignal, k: int, last: int) -> Track:
        """The work of a machine of which a GPU is unknown: once some is seen, nothing before it counts any more."""
        seen = -1 if work.busy else busy.levels.find(b"\1", k, last + 1)
        return work if seen < 0 else Track(True, self._before(seen), self._before(seen), (), self._before(seen))

    def _unknown_mean(self, core: Core, last: int, at: float) -> Track | None:
        """The mean of GPUs of which one is unknown begins anew in every sample."""
        if not self._rules.judges_mean:
            return core.signals.mean
        trace = self._levels.trace
        readings = [trace.readings[trace.codes[i][last]] for i in core.selection.picked]
        loads = [reading.load for reading in readings if isinstance(reading, Known)]
        quiet = bool(loads) and 0.0 <= sum(loads) / len(loads) < self._rules.quiet_threshold
        return Track(not quiet, at, at, (), at)

    def _before(self, position: int) -> float:
        return self._times[position - 1] - self._start

    def _arming(self, since: float | None, above: LevelSignal, k: int, last: int) -> float | None:
        """Since when the load has been above the arm threshold."""
        if not above.levels[last]:
            return None
        i = bisect_right(above.changes, last) - 1
        return self._before(above.changes[i]) if i >= 0 and above.changes[i] >= k else since
