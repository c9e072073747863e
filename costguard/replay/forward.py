"""While a machine works, its GPUs go up and down without a decision being near: carry the tracks over that at once.

`possible` says how far. It leaves out no sample in which a reason could hold, the guard could be armed, an alarm could
begin, or something falls due; from there on the engine is asked again. Whatever `carry` gives, the engine would
have come to sample by sample, but for loud seconds that have left the window already.
"""

from bisect import bisect_left, bisect_right

from costguard.engine import reasons
from costguard.engine.rules import Rules
from costguard.engine.state import State
from costguard.engine.window import BUCKETS, NEVER, Track
from costguard.replay.levels import LOUD, Levels, Runs, Signal, first_at

WORTH = 4
"""Fewer changes than this are stepped through."""

SLACK = 1.0
"""Seconds by which every bound is taken too generously."""


class Forward:
    """For one policy on one trace."""

    def __init__(self, levels: Levels, rules: Rules) -> None:
        self._levels = levels
        self._rules = rules
        self._times = levels.times
        self._start = levels.times[0] if levels.times else 0.0
        self._stops: dict[bool, list[Runs]] = {}

    def possible(self, state: State, k: int) -> int:
        """The sample that must be asked about next; 0 when nothing is gained, or the state does not allow it."""
        core, rules = state.core, self._rules
        changes = self._levels.any_change(rules)
        i = bisect_left(changes, k) + WORTH
        least = changes[i] if i < len(changes) else len(self._times)
        if core.next <= state.at:
            least = min(least, k + WORTH)  # the engine would be asked about every single sample
        if least >= len(self._times):
            return 0
        armed = core.armed is not None or rules.policy.arm_duration is None
        unused = rules.policy.unused_after
        if not armed and unused is not None and unused < rules.policy.kill_duration:
            return 0  # the engine's alarm looks at the shorter window in the buckets of the longer one
        busy_with_people = core.holds or core.stops or core.held or core.notice is not None or core.vetoes
        if core.alarm is not None or core.blind is not None or core.lacking or busy_with_people or not core.judged:
            return 0
        if core.work is None or core.shadow is None or (rules.judges_mean and core.mean is None):
            return 0
        to = len(self._times)
        for runs in self._runs(state, armed=armed):
            found = runs.at_or_after(k)
            to = to if found is None else min(to, found)
            if to <= least:
                return 0
        to = min(to, self._next_hole(k), self._next_blind(k), self._due(state, k))
        return to if to > least else 0

    def _runs(self, state: State, *, armed: bool) -> list[Runs]:
        """Where a reason could hold, an alarm begin or, before that, the guard be armed."""
        if armed not in self._stops:
            core, rules, levels = state.core, self._rules, self._levels
            policy, judged = rules.policy, core.judged
            window = policy.kill_duration
            if not armed and policy.unused_after is not None:
                window = min(window, policy.unused_after)
            most, name = rules.tolerance + SLACK, (rules.quiet_threshold, rules.heeds_signs)
            window -= SLACK
            busy = levels.busy(rules, judged).levels
            found = [levels.rare((*name, "busy", judged), busy, window, most)]
            if rules.judges_mean:
                mean = levels.mean(rules, core.picked).levels
                found.append(levels.rare((*name, "mean", core.picked), mean, window, most, LOUD))
            elif policy.aggregate == "any" and not rules.ends_machine:
                each = [(i, levels.gpus(rules)[i].levels) for i in judged]
                found += [levels.rare((*name, "one", i), column, window, most, LOUD) for i, column in each]
            if not armed and policy.arm_duration is not None:
                above = levels.above(rules, core.picked)
                least = policy.arm_duration - SLACK
                found.append(levels.long((policy.arm_threshold, rules.by_mean, core.picked), above, least))
            self._stops[armed] = found
        return self._stops[armed]

    def _next_hole(self, k: int) -> int:
        holes = self._levels.holes(self._rules.gap)
        i = bisect_left(holes, k)
        return holes[i] if i < len(holes) else len(self._times)

    def _next_blind(self, k: int) -> int:
        found = self._levels.blind.find(b"\1", k)
        return found if found >= 0 else len(self._times)

    def _due(self, state: State, k: int) -> int:
        """The sample before the first date: the daily check, or a deadline."""
        core, dates = state.core, [state.core.check]
        deadline = reasons.deadline_at(state, self._rules, state.at + self._start, synced=None)
        limit = len(self._times)
        if deadline > state.at:
            dates.append(deadline)
        elif self._rules.policy.stop_busy:
            return k
        else:  # passed: it waits for the end of the work, and is told from time to time
            dates.append(core.deadline_told)
            pause = self._levels.busy(self._rules, core.judged).levels.find(b"\0", k)
            limit = pause if pause >= 0 else limit
        due = min(dates)
        return min(limit, max(k, first_at(self._times, due + self._start, k) - 1)) if due < NEVER else limit

    # -- the state afterwards --------------------------------------------------------------------------------

    def carry(self, state: State, k: int, to: int) -> State:
        """The state after the samples from ``k`` up to, not with, ``to``."""
        core, rules, levels = state.core, self._rules, self._levels
        policy, last = rules.policy, to - 1
        at = self._times[last] - self._start
        window = policy.kill_duration
        tracks = tuple(
            self._follow(track, found, LOUD, k, last, window)
            for track, found in zip(state.tracks, levels.gpus(rules), strict=True)
        )
        busy = levels.busy(rules, core.judged)
        work, shadow, mean = core.work, core.shadow, core.mean
        assert work is not None  # `possible` saw to it
        assert shadow is not None
        if rules.judges_mean and mean is not None:
            mean = self._follow(mean, levels.mean(rules, core.picked), LOUD, k, last, window)
        core = core._replace(
            work=self._follow(work, busy, 1, k, last, policy.unused_after or window),
            shadow=self._follow(shadow, busy, 1, k, last, window),
            mean=mean,
            saved_wall=self._times[last],
            saved_at=at,
            next=-NEVER,
        )
        if core.armed is None and policy.arm_duration is not None:
            core = core._replace(arm_since=self._arming(core.arm_since, levels.above(rules, core.picked), k, last))
        return State(at, state.gpus, tracks, core)

    def _follow(self, track: Track, found: Signal, bit: int, k: int, last: int, window: float) -> Track:
        """One track over the changes of its level; those that left the window are not counted any more."""
        changes, levels = found.changes, found.levels
        begin, end = bisect_left(changes, k), bisect_right(changes, last)
        if begin == end:
            return track
        oldest = self._times[last] - window * (1 + 3 / BUCKETS)
        first = max(begin, bisect_left(changes, first_at(self._times, oldest, k)) - 2)
        loud, since, past = track.loud, track.since, dict(track.past)
        if first > begin:
            loud, since, past = bool(levels[changes[first - 1]] & bit), self._before(changes[first - 1]), {}
        for position in changes[first:end]:
            now, before = bool(levels[position] & bit), self._before(position)
            if now != loud:
                if loud:
                    _count(past, max(since, oldest - self._start), before, window / BUCKETS)
                loud, since = now, before
        return Track(loud, since, track.known_since, tuple(sorted(past.items())))

    def _before(self, position: int) -> float:
        return self._times[position - 1] - self._start

    def _arming(self, since: float | None, above: Signal, k: int, last: int) -> float | None:
        """Since when the load has been above the arm threshold."""
        if not above.levels[last]:
            return None
        i = bisect_right(above.changes, last) - 1
        return self._before(above.changes[i]) if i >= 0 and above.changes[i] >= k else since


def _count(past: dict[int, float], start: float, end: float, size: float) -> None:
    """Put a loud stretch into its buckets, with the engine's own arithmetic, down to the last bit."""
    while start < end:
        bucket = int(start // size)
        stop = min(end, (bucket + 1) * size)
        if stop <= start:
            bucket, stop = bucket + 1, min(end, (bucket + 2) * size)
        past[bucket] = past.get(bucket, 0.0) + stop - start
        start = stop
