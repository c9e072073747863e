"""What came of a policy on a recording: three numbers that are honest only together.

How many stops; after how many of them work came back; how many idle hours they would have saved, those of stops after
which nothing came (clean) apart from those that interrupted somebody. A sample stands for the time since the one before;
what lies in a hole, or cannot be read, is neither idle nor work. Work is any sample above the policy's threshold, also a burst
that its window rule would have tolerated, so that no stop looks better than it was.
"""

from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from costguard.engine.rules import Rules, rules_of
from costguard.replay.levels import BUSY, QUIET, UNKNOWN, Levels, changes
from costguard.replay.outline import Mark, Outline
from costguard.replay.prefix_sums import BLIND, IDLE, WORK, StateTimes, state_times
from costguard.replay.run import TimelineEntry, Walked

HOUR = 3600.0

_ALL = bytes(WORK if bits & BUSY else BLIND if bits & UNKNOWN else IDLE for bits in range(256))
_ANY = bytes(IDLE if bits & QUIET else BLIND if bits & UNKNOWN else WORK for bits in range(256))


class Stop(NamedTuple):
    """One stop that would have happened. Dates in seconds since the epoch; ``recovered`` idle seconds after it."""

    wall: float
    back: float | None  # the first sample with work after it
    recovered: float


class ReplaySummary(NamedTuple):
    """Of one policy on one machine or several; all durations in hours.

    ``in_doubt`` counts cancelled warnings that may have been stops: the countdown ended between two samples, and the later
    one shows work. Each would have been a stop after which work came back, ``in_doubt_within_hour`` of them within an hour.
    """

    machines: int
    hours: float
    idle: float
    work: float
    unknown: float
    warnings: int
    cancelled: int
    stops: int
    back_within_hour: int
    back_ever: int
    in_doubt: int
    in_doubt_within_hour: int
    recovered: float
    recovered_clean: float
    recovered_interrupted: float

    @property
    def share(self) -> float | None:
        """Recovered of all idle hours."""
        return self.recovered / self.idle if self.idle else None


class Tally(NamedTuple):
    """A summary and the stops it was made of."""

    summary: ReplaySummary
    stops: tuple[Stop, ...]


def account(levels: Levels, walked: Walked) -> Tally:
    """Count what came of a policy on one trace."""
    return _count(levels.times, _state_times(levels, rules_of(walked.policy), walked), walked.decisions)


def account_of(times: "array[float]", found: Outline, holes: Sequence[int]) -> Tally:
    """The same from an outline."""
    assert (IDLE, WORK) == (0, 1)  # as the levels of its machine
    busy = found.busy
    return _count(times, state_times(busy.levels, busy.changes, times, holes), found.marks)


def _count(times: "array[float]", found: StateTimes, decisions: "Sequence[TimelineEntry | Mark]") -> Tally:
    machine, all_idle = found.machine, found.idle(len(times) - 1)
    whole = times[-1] - times[0]
    stops = []
    for decision in decisions:
        if decision.kind == "stop":
            back = machine.find(bytes([WORK]), decision.tick + 1)
            until = back - 1 if back >= 0 else len(times) - 1
            date = times[back] if back >= 0 else None
            recovered = found.idle(until) - found.idle(decision.tick)
            if recovered > 0:  # a stop between two samples
                recovered -= min(recovered, decision.wall - times[decision.tick])
            stops.append(Stop(decision.wall, date, recovered))
    kinds = [decision.kind for decision in decisions]
    clean, torn, back, within, doubts, doubts_within = 0.0, 0.0, 0, 0, 0, 0
    for stop in stops:
        if stop.back is None:
            clean += stop.recovered
        else:
            torn, back, within = torn + stop.recovered, back + 1, within + (stop.back - stop.wall <= HOUR)
    for decision in decisions:
        if decision.in_doubt:
            doubts, doubts_within = doubts + 1, doubts_within + (times[decision.tick + 1] - decision.wall <= HOUR)
    summary = ReplaySummary(
        machines=1,
        hours=whole / HOUR,
        idle=all_idle / HOUR,
        work=found.work / HOUR,
        unknown=max(0.0, whole - all_idle - found.work) / HOUR,
        warnings=kinds.count("warning"),
        cancelled=kinds.count("cancelled"),
        stops=len(stops),
        back_within_hour=within,
        back_ever=back,
        in_doubt=doubts,
        in_doubt_within_hour=doubts_within,
        recovered=(clean + torn) / HOUR,
        recovered_clean=clean / HOUR,
        recovered_interrupted=torn / HOUR,
    )
    return Tally(summary, tuple(stops))


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
