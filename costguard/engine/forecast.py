"""When the next decision could fall, so that what changes nothing in between may be skipped."""

from costguard.engine.ahead import deadline_told_at
from costguard.engine.alarm import but_for_weak_at, delayed, would_have_stopped_at
from costguard.engine.deadline import Situation, period_over, waits_for_work
from costguard.engine.idleness import idle_at, only_weak_sign, quiet_enough_at, work_seen, works_now
from costguard.engine.incident import HEARD_WITHIN_SECONDS
from costguard.engine.obstacles import may_warn_at, powerless_at
from costguard.engine.reasons import OWN_REASONS, earliest
from costguard.engine.rules import NOTICE_KEPT_SECONDS, Rules
from costguard.engine.state import DONE, FAILED, WATCHING, State
from costguard.engine.window import NEVER

EARLY_SECONDS = 0.25
"""Seconds by which a decision may come before its moment: the date may be off by CLOCK_NOISE_SECONDS twice, durations have their EPSILON_SECONDS."""


def next_decision(situation: Situation) -> float:
    """The earliest boot-clock time at which a tick could change anything but the time, if every GPU stays as it is.

    -inf when the very next tick may. Never too late; by `EARLY_SECONDS` or more too early.
    """
    return _decided(situation) - EARLY_SECONDS


def _decided(situation: Situation) -> float:
    state, rules, core = situation.state, situation.rules, situation.state.core
    if core.phase not in {WATCHING, DONE, FAILED}:
        return -NEVER
    times = [core.plans.check_at, core.ending.remind_at, core.ending.retry_at, core.ending.disproved_at]
    times += [_arming(state, rules), _alarm(state, rules), *[hold.until for hold in core.people.holds]]
    times.append(_kept(state, rules))
    times.append(deadline_told_at(situation))
    if core.notice.due is not None:
        times.append(core.notice.due + NOTICE_KEPT_SECONDS)
    if rules.policy.budget is not None:
        times.append(_ahead(state.at + period_over(core, rules) - situation.wall, state.at))
    return min(*times, _watching(situation) if core.phase == WATCHING else _latched(state, rules))


def _watching(situation: Situation) -> float:
    """When a reason could begin, or a message beside it is due; work forgives stops and holds at any moment."""
    state, rules, core = situation.state, situation.rules, situation.state.core
    if (core.ledger.stops or core.people.charged) and works_now(state):
        return -NEVER
    told = core.alarms.deadline_at if waits_for_work(situation) else NEVER
    return min(told, _weak(state, rules), *[earliest(reason, situation) for reason in OWN_REASONS])


def _latched(state: State, rules: Rules) -> float:
    """When DONE or FAILED could end: at any moment while work is seen."""
    core, incident = state.core, state.core.incident
    if any(track.busy for track in state.tracks) or rules.judges_mean or work_seen(state, rules):
        return -NEVER
    if core.alarms.weak_sign is not None:
        return -NEVER
    idle = _ahead(idle_at(state, rules), state.at)
    unheard = incident is not None and incident.by_person and incident.announcement.effect
    return min(idle, core.ending.since + HEARD_WITHIN_SECONDS) if unheard else idle


def _arming(state: State, rules: Rules) -> float:
    core, duration = state.core, rules.policy.arm_duration
    if core.signals.armed_at is not None or duration is None:
        return NEVER
    return core.signals.above_arm_since + duration if core.signals.above_arm_since is not None else NEVER


def _alarm(state: State, rules: Rules) -> float:
    """When the alarm could begin, be told or end."""
    core, alarm, over = state.core, state.core.alarms.unknown, NEVER
    work, known = core.signals.known_work, core.signals.unknown_since is None
    if alarm is not None:
        if known and core.phase in {DONE, FAILED}:
            return -NEVER  # nothing is delayed any more: the alarm ends with the next tick
        if known and work is not None and work.busy:
            return -NEVER  # a burst, until it is too long to be one
        over = quiet_enough_at(state, rules)
        if alarm.next < NEVER:
            return min(alarm.next, over)
    would = would_have_stopped_at(core, rules, work)
    return min(over, _delay(state, rules, max(would, may_warn_at(core, rules))))


def _weak(state: State, rules: Rules) -> float:
    """When a weak sign that is alone could begin to count, or be told."""
    core, weak = state.core, state.core.alarms.weak_sign
    if not (only_weak_sign(core) and works_now(state)):
        return NEVER
    if weak is None:
        return -NEVER
    return _delay(state, rules, max(weak.next, but_for_weak_at(core, rules), may_warn_at(core, rules)))


def _kept(state: State, rules: Rules) -> float:
    """When what senses see could begin to keep the machine up, be told, lose its power, or be over."""
    core, kept = state.core, state.core.alarms.kept
    sensed = any(veto.sense for veto in core.vetoes)
    if kept is None:
        return _ahead(quiet_enough_at(state, rules), state.at) if sensed else NEVER
    work = core.signals.known_work
    if core.phase != WATCHING or (work is not None and work.busy):
        return -NEVER
    active = any(veto.sense and not veto.unknown for veto in core.vetoes)
    return min(kept.next if active else NEVER, _ahead(powerless_at(core, rules), state.at))


def _delay(state: State, rules: Rules, moment: float) -> float:
    """When something that would delay a stop from this moment on, and does not yet, could begin to."""
    if moment > state.at:
        return moment
    return -NEVER if delayed(state, rules, moment) else NEVER


def _ahead(moment: float, at: float) -> float:
    """A moment to come; one that has passed was dealt with."""
    return moment if moment > at else NEVER
