"""The engine carried over a recording: the same steps as on a machine, in dry run.

Two ways with the same decisions: every sample a step; or only the samples at which something can change. The
second way leaves out what the engine itself would have answered with *nothing changed*, and while a machine works
it carries the engine's tracks over the ups and downs without asking for a decision that cannot fall.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from operator import itemgetter
from typing import NamedTuple

from costguard.engine.ahead import deadline_told_at
from costguard.engine.alarm import would_have_stopped_at
from costguard.engine.deadline import Situation, period_over
from costguard.engine.effects import Effect, Tell
from costguard.engine.events import Devices, Outcome, Tick
from costguard.engine.idleness import idle_at, unused_at, work_seen
from costguard.engine.machine import Step, step
from costguard.engine.observation import Observation, Veto
from costguard.engine.obstacles import due_at
from costguard.engine.policy import Policy
from costguard.engine.reasons import reason_of, standing
from costguard.engine.rules import EPSILON_SECONDS, rules_of
from costguard.engine.saved import initial
from costguard.engine.state import DONE, WARNING, WATCHING, Core, Incident, State
from costguard.engine.window import NEVER
from costguard.replay.levels import Levels, first_at
from costguard.replay.skip import LookAhead
from costguard.replay.trace import Trace

PROGRESS_EVERY = 2048
"""Turns of the loop between two reports of progress."""


class TimelineEntry(NamedTuple):
    """One line of the time line. ``tick`` is the position in the trace at or before it, ``wall`` its date.

    ``in_doubt``: a countdown that ended between two samples, or in a hole, was cancelled by the later one; whether work began
    before or after its end, the recording does not say.
    """

    tick: int
    wall: float
    kind: str  # begin | armed | warning | cancelled | stop | work | or the kind of another message
    state: str
    sentence: str
    in_doubt: bool = False


class Ignored(NamedTuple):
    """What recorded senses saw that does not count: all of the ``senses``, of others only that they could not see (``blind``)."""

    senses: frozenset[str] = frozenset()
    blind: frozenset[str] = frozenset()

    def counts(self, veto: Veto) -> bool:
        """Whether something that a sense saw keeps the machine up."""
        return veto.source not in self.senses and not (veto.unknown and veto.source in self.blind)

    def and_without(self, sense: str) -> "Ignored":
        """One sense less."""
        return self._replace(senses=self.senses | {sense})


EVERYTHING_COUNTS = Ignored()


class Walked(NamedTuple):
    """What the engine decided; ``steps`` is how often it was asked."""

    policy: Policy
    decisions: tuple[TimelineEntry, ...]
    judged: tuple[int, ...]
    state: State
    steps: int


def policy_for(policy: Policy, trace: Trace) -> Policy:
    """The policy as it is replayed: in dry run, and with no closer look than the recording took."""
    return policy._replace(mode="dry-run", interval=max(policy.interval, trace.interval))


def walk(
    levels: Levels,
    policy: Policy,
    *,
    ignored: Ignored = EVERYTHING_COUNTS,
    every_sample: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Walked:
    """Decide on a whole trace. The first sample counts as the boot of the machine."""
    walker = _Walker(levels, policy_for(policy, levels.trace), policy.interval, ignored)
    count, k, turns = len(levels.times), 0, 0
    while k < count:
        walker.between(k)
        before = walker.state
        walker.tick(k)
        k += 1
        if not every_sample and k < count:
            k = walker.skip(k, before)
        turns += 1
        if progress is not None and turns % PROGRESS_EVERY == 0:
            progress(k)
    return Walked(
        walker.policy, tuple(walker.decisions), walker.state.core.selection.judged, walker.state, walker.steps
    )


class _Walker:
    def __init__(self, levels: Levels, policy: Policy, look: float, ignored: Ignored) -> None:
        self.levels = levels
        self.trace = levels.trace
        self.times = levels.times
        self.start = levels.times[0] if levels.times else 0.0
        self.policy = policy
        self.look = look  # how often a guard would have looked
        self.rules = rules_of(policy)
        self.decisions: list[TimelineEntry] = []
        self.steps = 0
        state = initial("replay", self.trace.name)
        self.state = step(state, Devices(0.0, self.trace.devices), policy).state
        self.look_ahead = LookAhead(levels, self.rules)
        self._seen = [
            (seen.wall, tuple([veto for veto in seen.vetoes if ignored.counts(veto)])) for seen in levels.trace.vetoes
        ]
        self._changes: list[list[int]] = []
        self._unarmed: list[int] = []

    # -- one sample ------------------------------------------------------------------------------------------

    def between(self, k: int) -> None:
        """When a countdown ends well before sample ``k``: the guard, which looks more often, would not have waited.

        What it would have seen is what the sample says, because a sample stands for the time since the one before. Work
        in that sample may have begun after the stop all the same, which is why such a cancellation is in doubt.
        """
        state, core = self.state, self.state.core
        now = core.incident
        if core.phase != WARNING or now is None or now.warned is None or k == 0:
            return
        at = self.times[k] - self.start
        due = max(due_at(core, self.rules), state.at + self.look)
        if at - due > self.look and at - state.at <= self.rules.gap:
            first = len(self.decisions)
            self._ask(k, self._wall(due), k - 1)
            self._doubt(first, k)

    def tick(self, k: int) -> None:
        """Ask the engine about one sample."""
        in_hole, first = self._ends_in_hole(k), len(self.decisions)
        self._ask(k, self.times[k], k)
        if in_hole:
            self._doubt(first, k)

    def _ends_in_hole(self, k: int) -> bool:
        """Whether a countdown ends in a hole before sample ``k``: nobody knows what a guard would have seen there."""
        state, core = self.state, self.state.core
        if core.phase != WARNING or core.incident is None or core.incident.warned is None:
            return False
        at = self.times[k] - self.start
        return at - state.at > self.rules.gap and due_at(core, self.rules) < at

    def _doubt(self, first: int, k: int) -> None:
        """The cancellations since then are in doubt, and belong to the time before sample ``k``."""
        self.decisions[first:] = [
            decision._replace(in_doubt=True, tick=k - 1) if decision.kind == "cancelled" else decision
            for decision in self.decisions[first:]
        ]

    def _ask(self, k: int, wall: float, tick: int) -> None:
        """Ask the engine, tell it that people got its messages, note what it decided."""
        trace, before = self.trace, self.state
        readings = tuple([trace.readings[column[k]] for column in trace.codes])
        seen = Tick(wall - self.start, Observation(trace.gpus, readings, self._vetoes(wall)), wall)
        done = step(before, seen, self.policy)
        self.steps += 1
        self.state = done.state
        if done.state.core is before.core:
            return
        self._note(tick, wall, before, done)
        for effect in done.effects:
            if type(effect) is Tell:
                self.state = step(self.state, Outcome(seen.at, effect.id, "delivered"), self.policy).state

    def _vetoes(self, wall: float) -> tuple[Veto, ...]:
        """What senses saw at that date, where that was recorded."""
        if not self._seen:
            return ()
        place = bisect_right(self._seen, wall, key=itemgetter(0))
        return self._seen[place - 1][1] if place else ()

    def _note(self, k: int, wall: float, before: State, done: Step) -> None:
        old, new = before.core, done.state.core
        kinds = ["begin"] if before.core.signals.work is None else []
        if old.phase == DONE and new.phase != DONE:
            kinds.append("work")
        if new.signals.armed_at is not None and old.signals.armed_at is None:
            kinds.append("armed")
        kinds += [kind for effect in done.effects if (kind := _kind(effect))]
        if kinds:
            sentence = done.sentence
            self.decisions += [TimelineEntry(k, wall, kind, sentence.word, str(sentence)) for kind in kinds]

    # -- what may be left out --------------------------------------------------------------------------------

    def skip(self, k: int, before: State) -> int:
        """The next sample to ask about, from ``k`` on; the state is carried to the one before it."""
        core, state = self.state.core, self.state
        if not self._seen and (to := self.look_ahead.possible(state, k)):
            self.state = self.look_ahead.carry(state, k, to)
            return to
        end = self._steady_until(k)
        if end <= k:
            return k
        if core is before.core and state.tracks is before.tracks:
            until = core.unchanged_until  # the engine just said that such a tick changes nothing
        else:
            told = deadline_told_at(Situation(state, self.rules, self._wall(state.at), None))
            until = min(self._calm_until(state), told) - 2 * EPSILON_SECONDS  # which the engine adds to the time
        if self.policy.budget is not None:
            until = min(until, period_over(core, self.rules) - self.start)
        end = min(end, first_at(self.times, self._wall(until), k))
        while end > k and self.times[end - 1] - self.start >= until:
            end -= 1  # a date is not exact to the last bit
        if end > k:
            self.state = state._replace(at=self.times[end - 1] - self.start)
        return end

    def _wall(self, at: float) -> float:
        return at + self.start

    def _steady_until(self, k: int) -> int:
        """The first sample from ``k`` on that differs in a level, or comes after a hole."""
        if not self._changes:
            rules, core = self.rules, self.state.core
            self._changes = [self.levels.any_change(rules), self.levels.holes(rules.gap)]
            if rules.judges_mean:
                self._changes.append(self.levels.mean(rules, core.selection.picked).changes)
            if self._seen:
                self._changes.append([bisect_left(self.times, wall) for wall, _ in self._seen])
            self._unarmed = self.levels.above(rules, core.selection.picked).changes
        columns = self._changes if self.state.core.signals.armed_at is not None else [*self._changes, self._unarmed]
        end = len(self.times)
        for column in columns:
            i = bisect_left(column, k)
            if i < len(column):
                end = min(end, column[i])
        return end

    def _calm_until(self, state: State) -> float:
        """Until when a tick of equal levels changes nothing, where the engine does not say so itself."""
        core, incident = state.core, state.core.incident
        if not self._is_settled(core):
            return -1.0
        if core.phase == WARNING and incident is not None and incident.warned is not None:
            return self._countdown_until(state, incident)
        if core.phase == DONE and incident is not None and reason_of(incident).by_date:
            return self._dated_latch_until(state)
        return self._quiet_mean_until(state)

    def _is_settled(self, core: Core) -> bool:
        signals, alarms = core.signals, core.alarms
        armed = signals.armed_at is not None or self.policy.arm_duration is None
        told_of = alarms.unknown is not None or alarms.weak_sign is not None
        all_seen = signals.unknown_since is None and not self._seen
        return armed and all_seen and not told_of and not core.people.holds and self.look_ahead.knows_reasons

    def _countdown_until(self, state: State, incident: Incident) -> float:
        core, rules = state.core, self.rules
        if standing(incident, Situation(state, rules, self._wall(state.at), None)).state != "yes":
            return -1.0
        alarming = (
            would_have_stopped_at(core, rules, core.signals.known_work),
            idle_at(state, rules),
            unused_at(state, rules),
        )
        return min(core.plans.check_at, due_at(core, rules), *[date for date in alarming if date > state.at])

    def _dated_latch_until(self, state: State) -> float:
        if any(track.busy for track in state.tracks):  # only work that is seen now ends it
            return -1.0
        idle = idle_at(state, self.rules)  # or work that came later and has ended
        return min(self._next_of_latch(state.core), idle if idle > state.at else NEVER)

    def _quiet_mean_until(self, state: State) -> float:
        core, mean = state.core, state.core.signals.mean
        if not self.rules.judges_mean or mean is None or mean.busy or mean.unknown_since is not None:
            return -1.0
        if core.phase == WATCHING:
            return core.unchanged_until
        latched = core.phase == DONE and not work_seen(state, self.rules, core.ending.since)
        return self._next_of_latch(core) if latched else -1.0

    def _next_of_latch(self, core: Core) -> float:
        return min(core.plans.check_at, core.ending.remind_at, core.ending.retry_at)


def _kind(effect: Effect) -> str:
    """The word for a message on the time line; the message that the action would happen now is the stop."""
    if type(effect) is not Tell:
        return ""
    return "stop" if effect.kind == "would_act" else effect.kind
