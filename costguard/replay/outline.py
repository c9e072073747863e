"""What a plain recording comes to: when people would have been warned, and what became of that, without a step for each sample.

Between two changes of a level nothing but the end of a window, of the boot's grace or of a countdown can decide anything, and
these are dates that the engine's own windows give. So `outline` goes from change to change; it has no sentences and no
other messages. It is for a fleet of short recordings, where the engine's answers to every turn cost more than all else.
What is not plain (unknown readings, evidence that bridges holes, means, deadlines, selected GPUs) is left to the engine.
"""

from bisect import bisect_left
from itertools import pairwise
from typing import NamedTuple

from costguard.engine.reasons import IDLE, OWN_REASONS, UNUSED, Reason
from costguard.engine.reasons import UNKNOWN as UNREADABLE
from costguard.engine.rules import EPSILON_SECONDS, Rules
from costguard.engine.state import DONE, WARNING, WATCHING
from costguard.engine.time_limits import stale
from costguard.engine.window import BUCKETS, NEVER, Track, advance, begin, busy_seconds, quiet_at, tolerates
from costguard.replay.levels import BUSY, UNKNOWN, Levels, LevelSignal
from costguard.replay.windows import SLACK

DRAWN = (IDLE, UNUSED, UNREADABLE)
"""The reasons that an outline knows; where all can be read, the last one never holds."""

YES, BLOCKED, NO = "yes", "blocked", "no"


class Mark(NamedTuple):
    """A decision without its words; the fields are those of `costguard.replay.run.TimelineEntry`."""

    tick: int
    wall: float
    kind: str  # warning | cancelled | stop
    in_doubt: bool = False


class Outline(NamedTuple):
    """The decisions that are counted, and where the machine works (1) and is idle (0), as in `costguard.replay.prefix_sums`."""

    marks: tuple[Mark, ...]
    busy: LevelSignal


def is_plain(rules: Rules) -> bool:
    """Whether `outline` knows every rule of a policy."""
    policy = rules.policy
    every = rules.ends_machine or policy.aggregate == "all"
    few = all(reason in DRAWN for reason in OWN_REASONS if reason.applies(policy))
    return every and few and not policy.admin_hold and not policy.gpu_devices


def outline(levels: Levels, rules: Rules, look: float) -> Outline | None:
    """What `walk` decides under a plain policy; None where only the engine can tell. ``look``: the interval of the guard."""
    columns = levels.gpus(rules)
    if any(UNKNOWN in found.levels for found in columns) or levels.reach > rules.gap:
        return None
    busy = levels.busy(rules, tuple(range(len(columns))))
    sketch = _Sketch(levels, rules, look, busy, [found.levels for found in columns])
    return Outline(tuple(sketch.marks), busy) if sketch.draw() else None


class _Sketch:
    """One policy on one trace. Times are seconds since the first sample, as the engine has them."""

    def __init__(self, levels: Levels, rules: Rules, look: float, busy: LevelSignal, gpus: list[bytes]) -> None:
        policy = rules.policy
        self.marks: list[Mark] = []
        self._levels = levels
        self._rules = rules
        self._look_seconds = look
        self._times = levels.times
        self._start = levels.times[0]
        self._gpus = gpus
        self._busy = busy
        self._holes = levels.holes(rules.gap)
        self._anew = frozenset((0, *self._holes))  # samples at which every window begins anew
        self._window = policy.kill_duration
        self._tolerance = rules.tolerance
        self._unused_after = policy.unused_after if policy.arm_duration is not None else None
        self._kept = self._can_count(max(self._window, self._unused_after or 0.0))
        self._grace_over = policy.boot_grace - policy.grace if rules.ends_machine else -NEVER
        self._acts = policy.boot_grace if rules.ends_machine else -NEVER
        self._phase = WATCHING
        self._reason = IDLE
        self._warned = 0.0
        self._closed = 0.0
        self._arm(None)
        self._tracks: list[Track] = []
        self._shadow: Track | None = None  # as the engine's, where it counts
        self._work: Track | None = None  # while the machine may be unused
        self._idle = self._unused = NEVER  # when these become a reason, if nothing changes

    def _arm(self, at: float | None) -> None:
        """Since when the guard is armed; with that, how long a rest must be at least for a reason to stop."""
        self._armed = at
        idle = self._window if at is not None or self._rules.policy.arm_duration is None else NEVER
        unused = self._unused_after if at is None and self._unused_after is not None else NEVER
        self._least = min(idle, unused)

    def draw(self) -> bool:
        """Go through the whole trace; False when the engine must."""
        arming = self._arming()
        single = len(self._gpus) == 1  # of several, what each of them did would have to be found again
        changes = self._busy.changes if single else self._levels.any_change(self._rules)
        edges = [0, *changes, len(self._times)]
        if self._holes or arming is not None:
            edges = sorted({*edges, *self._holes, *([] if arming is None else [arming])})
        passed = 0  # blocks that were passed over just now
        busy = self._busy.levels
        for place in range(len(edges) - 1):
            first, end = edges[place], edges[place + 1]
            if first == arming:
                if self._phase == WARNING:
                    return False  # the guard may have been armed by a look between two samples
                self._arm(self._at(first))
            if single and self._phase == WATCHING and (busy[first] or self._rests_too_little(edges, place)):
                passed += 1
                continue
            if passed:
                self._catch_up(edges, place)
                passed = 0
            self._see(first)
            loud = self._busy.levels[first] == 1
            self._judge(loud=loud)
            self._pass(first, end, loud=loud, hole=first in self._anew)
        return True

    # -- what may be passed over -----------------------------------------------------------------------------

    def _rests_too_little(self, edges: list[int], place: int) -> bool:
        """Whether nothing can be decided in a rest before the next change, whatever was before: it is too short after that work."""
        times, first = self._times, edges[place]
        if first in self._anew:
            quiet = times[first] - self._rules.policy.interval
        else:
            quiet, before = times[first - 1], edges[place - 1]
            if not self._busy.levels[before] or quiet - times[max(0, before - 1)] <= self._tolerance:
                return False  # a burst that is tolerated may begin no window
        return times[edges[place + 1] - 1] < quiet + self._least - self._kept - SLACK

    def _catch_up(self, edges: list[int], place: int) -> None:
        """The tracks before a block, after some were passed over: work that is long enough says all about what was before it."""
        start = place - 1
        while edges[start] not in self._anew and not (self._busy.levels[edges[start]] and self._lasts(edges, start)):
            start -= 1
        first = edges[start]
        if first not in self._anew:
            hole = bisect_left(self._holes, first) - 1
            since = (self._at(self._holes[hole]) if hole >= 0 else 0.0) - self._rules.policy.interval
            self._tracks = [Track(True, self._at(first - 1), since)]
            self._work = Track(True, self._at(first - 1), since if hole >= 0 else 0.0)
            start += 1
        for skipped in edges[start:place]:
            self._see(skipped)

    def _lasts(self, edges: list[int], place: int) -> bool:
        return self._times[edges[place + 1] - 1] - self._times[edges[place] - 1] > self._kept

    def _can_count(self, window: float) -> float:
        """Of what was loud without a break, the last seconds that can count in a window."""
        return self._tolerance + 2 * window / BUCKETS

    def _at(self, k: int) -> float:
        return self._times[k] - self._start

    def _first(self, moment: float, k: int) -> int:
        """The first sample from ``k`` on that is not before a moment, as the engine compares."""
        if moment == NEVER:
            return len(self._times)
        at = bisect_left(self._times, moment + self._start - EPSILON_SECONDS, k)
        while at > k and self._at(at - 1) + EPSILON_SECONDS >= moment:
            at -= 1
        while at < len(self._times) and self._at(at) + EPSILON_SECONDS < moment:
            at += 1
        return at

    # -- what is seen ----------------------------------------------------------------------------------------

    def _arming(self) -> int | None:
        """The sample by which the load has been above its threshold for long enough."""
        policy = self._rules.policy
        if policy.arm_duration is None:
            return None
        if policy.arm_duration <= 0:
            return 0
        levels = self._levels.raised(self._rules, tuple(range(len(self._gpus))))
        start = levels.find(1)
        while start >= 0:
            end = levels.find(0, start)
            end = len(levels) if end < 0 else end
            for first, until in pairwise([start, *[hole for hole in self._holes if start < hole < end], end]):
                whole = first > 0 and first not in self._holes
                began = self._at(first - 1) if whole else self._at(first) - policy.interval
                found = self._first(began + policy.arm_duration, first)
                if found < until:
                    return found
            start = levels.find(1, end)
        return None

    def _see(self, k: int) -> None:
        """Carry the tracks to a sample at which something changes."""
        at, loud = self._at(k), self._busy.levels[k] == 1
        unused = self._unused_after is not None and self._armed is None
        if k in self._anew:
            since = at - self._rules.policy.interval
            self._tracks = [begin(levels[k] & BUSY == BUSY, since) for levels in self._gpus]
            self._work = begin(loud, since if k else 0.0) if unused else None
            if k == 0:
                together = self._tolerance > 0 and len(self._gpus) > 1
                self._shadow = begin(loud, 0.0) if together else None
                return
        else:
            for place, levels in enumerate(self._gpus):
                if (now := levels[k] & BUSY == BUSY) is not self._tracks[place].busy:
                    self._tracks[place] = self._advance(self._tracks[place], now, k, self._window)
            if unused:
                self._work = self._follow(self._work, loud, k, self._unused_after or self._window)
        self._shadow = self._follow(self._shadow, loud, k, self._window)

    def _follow(self, track: Track | None, loud: bool, k: int, window: float) -> Track | None:
        return track if track is None or track.busy is loud else self._advance(track, loud, k, window)

    def _advance(self, track: Track, loud: bool, k: int, window: float) -> Track:
        """A level that changes with this sample; of what was loud, no more is kept than can count."""
        before = self._at(k - 1)
        since = before - self._can_count(window)
        if track.busy and track.since < since:
            track = Track(True, since, track.known_since, track.past)
        return advance(track, loud, before, window)

    def _judge(self, *, loud: bool) -> None:
        """When the machine will be idle or unused, if nothing changes."""
        self._idle = self._unused = NEVER
        if loud or self._phase == DONE:
            return
        floor = self._floor()
        if floor < NEVER:
            tracks = self._tracks if self._shadow is None else [*self._tracks, self._shadow]
            self._idle = max([quiet_at(track, floor, self._window, self._tolerance) for track in tracks])
        if self._work is not None and self._armed is None and self._unused_after is not None:
            self._unused = quiet_at(self._work, -NEVER, self._unused_after, self._tolerance)

    def _floor(self) -> float:
        """The earliest moment at which an idle window may begin."""
        policy = self._rules.policy
        armed = self._armed if policy.arm_duration is not None else -NEVER
        if armed is None:
            return NEVER
        return max(armed, policy.delay - policy.interval) if policy.delay else armed

    # -- what is decided -------------------------------------------------------------------------------------

    def _pass(self, k: int, end: int, *, loud: bool, hole: bool) -> None:
        """The samples up to the next change; only those at which something is decided are looked at."""
        while k < end:
            if self._phase == WATCHING:
                if loud:
                    return
                k = self._first(max(min(self._idle, self._unused), self._grace_over), k)
            elif self._phase == WARNING and not loud and not hole and self._standing(self._at(k)) == YES:
                k = self._first(self._due(), k)
            if k >= end:
                return
            latched = self._phase == DONE
            self._look(k, hole=hole)
            hole, k = False, k + 1
            if latched and self._phase == DONE and not loud:
                return  # what was loud only leaves the window now

    def _due(self) -> float:
        return max(self._warned + self._rules.policy.grace, self._acts)

    def _look(self, k: int, *, hole: bool) -> None:
        """One sample; before it the end of a countdown, where the guard would have looked then (see `walk`)."""
        at = self._at(k)
        if self._phase == WARNING and not hole:
            due = max(self._due(), self._at(k - 1) + self._look_seconds)
            if at - due > self._look_seconds:
                wall = due + self._start
                self._decide(wall - self._start, wall, k - 1, hole=False, between=True)
        self._decide(at, self._times[k], k, hole=hole)

    def _decide(self, at: float, wall: float, tick: int, *, hole: bool, between: bool = False) -> None:
        if self._phase == WARNING:
            self._count_down(at, wall, tick, hole=hole, between=between)
        elif self._phase == DONE and self._worked(at):
            self._phase = WATCHING
            self._judge(loud=any(track.busy for track in self._tracks))
        if self._phase == WATCHING and at + EPSILON_SECONDS >= self._grace_over:
            if at + EPSILON_SECONDS >= self._idle:
                self._warn(IDLE, at, wall, tick)
            elif at + EPSILON_SECONDS >= self._unused:
                self._warn(UNUSED, at, wall, tick)

    def _warn(self, reason: Reason, at: float, wall: float, tick: int) -> None:
        self._phase, self._reason, self._warned = WARNING, reason, at
        self.marks.append(Mark(tick, wall, "warning"))

    def _count_down(self, at: float, wall: float, tick: int, *, hole: bool, between: bool) -> None:
        standing = NO if hole else self._standing(at)
        late = at > self._due() + stale(self._rules.policy.grace)
        if standing == NO or (late and standing == BLOCKED):
            self._phase = WATCHING
            in_doubt = between or (hole and self._due() < at)
            self.marks.append(Mark(tick - 1 if in_doubt and hole else tick, wall, "cancelled", in_doubt))
        elif late:
            self._warn(self._reason, at, wall, tick)
        elif standing == YES and at + EPSILON_SECONDS >= self._due():
            self._phase, self._closed = DONE, at
            self.marks.append(Mark(tick, wall, "stop"))

    def _standing(self, at: float) -> str:
        """Whether the reason of a warning still holds."""
        now = at + EPSILON_SECONDS
        if now >= (self._idle if self._reason is IDLE else self._unused):
            return YES
        if self._reason is UNUSED:
            if self._work is None or self._armed is not None or self._unused_after is None:
                return NO
            held = tolerates(self._work, -NEVER, self._unused_after, self._tolerance, now)
            return BLOCKED if held else NO
        tracks, floor = [*self._tracks, *([] if self._shadow is None else [self._shadow])], self._floor()
        held = all(tolerates(track, floor, self._window, self._tolerance, now) for track in tracks)
        return BLOCKED if held else NO

    def _worked(self, at: float) -> bool:
        """Whether more work than is tolerated lies in the window, after the stop, which ends a latch."""
        tracks = self._tracks if self._shadow is None else [*self._tracks, self._shadow]
        for track in tracks:  # noqa: SIM110 - many looks follow a stop, and `any` takes twice as long
            if busy_seconds(track, self._window, at, self._closed) > self._tolerance:
                return True
        return False
