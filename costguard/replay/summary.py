"""What came of a policy on a recording: three numbers that are honest only together.

How many stops; after how many of them work came back; how many idle hours they would have saved, those of stops after
which nothing came (clean) apart from those that interrupted somebody. A sample stands for the time since the one before;
what lies in a hole, or cannot be read, is neither idle nor work. Work is any sample above the policy's threshold, also a burst
that its window rule would have tolerated, so that no stop looks better than it was.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from costguard.engine.policy import Policy
from costguard.engine.rules import Rules, rules_of
from costguard.engine.wording import may_end_bill
from costguard.replay.levels import BUSY, QUIET, UNKNOWN, Levels, changes
from costguard.replay.outline import Mark, Outline
from costguard.replay.prefix_sums import BLIND, IDLE, WORK, StateTimes, state_times
from costguard.replay.run import TimelineEntry, Walked

HOUR = 3600.0
SLACK = 1e-3
"""Seconds by which sums of dates may differ."""

_ALL = bytes(WORK if bits & BUSY else BLIND if bits & UNKNOWN else IDLE for bits in range(256))
_ANY = bytes(IDLE if bits & QUIET else BLIND if bits & UNKNOWN else WORK for bits in range(256))


class Stop(NamedTuple):
    """One stop that would have happened. Dates in seconds since the epoch.

    ``back`` is the first sample with work after it, ``recovered`` how many idle seconds lie before that or the end.
    ``seen``: the recording says whether work came back within an hour; it does not where it ends, has a hole or a GPU that cannot
    be read before that, or where the first sample with work stands for time on both sides of the hour.
    """

    wall: float
    back: float | None
    recovered: float
    seen: bool

    @property
    def within_hour(self) -> bool:
        """Whether work came back within an hour, for certain."""
        return self.back is not None and self.back - self.wall <= HOUR


class ReplaySummary(NamedTuple):
    """Of one policy on one machine or several; all durations in hours.

    ``holes`` are the hours of which nothing was recorded; they are part of ``hours`` and of ``unknown``. ``unseen_within_hour`` counts
    the stops of which the recording does not say whether work came back within an hour.
    ``in_doubt`` counts cancelled warnings that may have been stops: the countdown ended between two samples, or in a hole. After
    ``in_doubt_ever`` of these work came back, after ``in_doubt_within_hour`` within an hour.
    ``counted_clean`` and ``counted_interrupted`` are the recovered hours whose money counts: of each stop at most `saving_limit`, and
    none where the action ends no bill.
    """

    machines: int
    hours: float
    holes: float
    idle: float
    work: float
    unknown: float
    warnings: int
    cancelled: int
    stops: int
    back_within_hour: int
    unseen_within_hour: int
    back_ever: int
    in_doubt: int
    in_doubt_within_hour: int
    in_doubt_ever: int
    recovered: float
    recovered_clean: float
    recovered_interrupted: float
    counted_clean: float
    counted_interrupted: float

    @property
    def share(self) -> float | None:
        """Recovered of all idle hours."""
        return self.recovered / self.idle if self.idle else None

    @property
    def counted(self) -> float:
        """The recovered hours whose money counts."""
        return self.counted_clean + self.counted_interrupted


class Tally(NamedTuple):
    """A summary and the stops it was made of."""

    summary: ReplaySummary
    stops: tuple[Stop, ...]


def account(levels: Levels, walked: Walked) -> Tally:
    """Count what came of a policy on one trace."""
    found = _state_times(levels, rules_of(walked.policy), walked)
    return _count(found, walked.decisions, _counts_for(walked.policy))


def account_of(levels: Levels, found: Outline, rules: Rules) -> Tally:
    """The same from an outline."""
    assert (IDLE, WORK) == (0, 1)  # as the levels of its machine
    busy = found.busy
    parts = state_times(busy.levels, busy.changes, levels.times, levels.holes(rules.gap))
    return _count(parts, found.marks, _counts_for(rules.policy))


def _count(found: StateTimes, decisions: "Sequence[TimelineEntry | Mark]", limit: float | None) -> Tally:
    """``limit``: of each stop at most so many seconds count as money."""
    times = found.times
    all_idle, whole = found.idle(len(times) - 1), times[-1] - times[0]
    kinds = [decision.kind for decision in decisions]
    stops = [_stop(found, decision) for decision in decisions if decision.kind == "stop"]
    clean = [stop.recovered for stop in stops if stop.back is None]
    torn = [stop.recovered for stop in stops if stop.back is not None]
    recovered_clean, recovered_torn = sum(clean), sum(torn)
    doubts = [decision for decision in decisions if decision.in_doubt]
    back = [(date, doubt.wall) for doubt in doubts if (date := _work_after(found, doubt.tick)) is not None]
    summary = ReplaySummary(
        machines=1,
        hours=whole / HOUR,
        holes=found.lost[-1] / HOUR,
        idle=all_idle / HOUR,
        work=found.work / HOUR,
        unknown=max(0.0, whole - all_idle - found.work) / HOUR,
        warnings=kinds.count("warning"),
        cancelled=kinds.count("cancelled"),
        stops=len(stops),
        back_within_hour=sum([stop.within_hour for stop in stops]),
        unseen_within_hour=sum([not stop.seen for stop in stops]),
        back_ever=len(torn),
        in_doubt=len(doubts),
        in_doubt_within_hour=sum([date - wall <= HOUR for date, wall in back]),
        in_doubt_ever=len(back),
        recovered=(recovered_clean + recovered_torn) / HOUR,
        recovered_clean=recovered_clean / HOUR,
        recovered_interrupted=recovered_torn / HOUR,
        counted_clean=_counted(clean, limit) / HOUR,
        counted_interrupted=_counted(torn, limit) / HOUR,
    )
    return Tally(summary, tuple(stops))


def _counts_for(policy: Policy) -> float | None:
    """For how many seconds at most the time after a stop saves money; None: for all of them."""
    return policy.saving_limit if may_end_bill(policy.kill_action) else 0.0


def _counted(recovered: Iterable[float], limit: float | None) -> float:
    return sum(recovered) if limit is None else sum([min(seconds, limit) for seconds in recovered])


def _work_after(found: StateTimes, tick: int) -> float | None:
    """The date of the first sample with work after a tick."""
    back = found.machine.find(bytes([WORK]), tick + 1)
    return found.times[back] if back >= 0 else None


def _stop(found: StateTimes, decision: "TimelineEntry | Mark") -> Stop:
    """What came of a stop."""
    times, wall, tick = found.times, decision.wall, decision.tick
    back = found.machine.find(bytes([WORK]), tick + 1)
    until = back - 1 if back >= 0 else len(times) - 1
    start = found.idle(tick) + min(wall - times[tick], found.idle(min(tick + 1, until)) - found.idle(tick))
    date = times[back] if back >= 0 else None
    seen = (date is not None and date - wall <= HOUR) or _idle_until(found, wall + HOUR) - start >= HOUR - SLACK
    return Stop(wall, date, found.idle(until) - start, seen)


def _idle_until(found: StateTimes, wall: float) -> float:
    """The idle seconds up to a date."""
    tick = bisect_right(found.times, wall) - 1
    if tick + 1 == len(found.times):
        return found.idle(tick)
    return min(found.idle(tick) + wall - found.times[tick], found.idle(tick + 1))


def total(summaries: Iterable[ReplaySummary]) -> ReplaySummary:
    """Several machines together."""
    sums = [sum(column) for column in zip(*summaries, strict=True)]
    return ReplaySummary(*sums)


def _state_times(levels: Levels, rules: Rules, walked: Walked) -> StateTimes:
    """What the machine was, and for how long."""
    some = rules.judges_any
    core = walked.state.core
    which = core.selection.picked if rules.judges_mean else walked.judged
    key = (
        rules.quiet_threshold,
        rules.heeds_signs,
        rules.judges_mean,
        some,
        which,
        core.selection.unmatched,
        rules.gap,
    )
    if key not in levels.state_times:
        machine = _machine(levels, rules, walked)
        levels.state_times[key] = state_times(machine, changes(machine), levels.times, levels.holes(rules.gap))
    return levels.state_times[key]


def _machine(levels: Levels, rules: Rules, walked: Walked) -> bytes:
    """Idle, work or unknown for every tick, in the eyes of the policy; never idle where a GPU that it names is missing."""
    core = walked.state.core
    if not walked.judged:
        return bytes([BLIND]) * len(levels.times)
    if rules.judges_mean:
        found = levels.mean(rules, core.selection.picked).levels.translate(_ALL)
    else:
        some = rules.judges_any
        found = levels.joined(rules, walked.judged).levels.translate(_ANY if some else _ALL)
    return found.replace(bytes([IDLE]), bytes([BLIND])) if core.selection.unmatched else found
