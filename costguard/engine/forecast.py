"""When the next decision could fall, so that what changes nothing in between may be skipped."""

from costguard.engine.alarm import alone, delayed, weak_would, would_have_stopped_at
from costguard.engine.idleness import idle_at, unused_at, work_seen, works_now
from costguard.engine.incident import HEARD_WITHIN
from costguard.engine.obstacles import boot_grace_over
from costguard.engine.overdue import period_over, waits_for_work
from costguard.engine.reasons import OWN, Moment, begins
from costguard.engine.rules import Rules
from costguard.engine.state import DONE, FAILED, WATCHING, State
from costguard.engine.window import NEVER

MARGIN = 0.25
"""Seconds by which a decision may come before its moment: the date may be off by CLOCK_NOISE twice, durations have their EPSILON."""


def next_decision(state: State, rules: Rules, wall: float, *, synced: bool | None) -> float:
    """The earliest boot-clock time at which a tick could change anything but the time, if every GPU stays as it is.

    -inf when the very next tick may. Never too late; by `MARGIN` or more too early.
    """
    return _decided(state, rules, wall, synced=synced) - MARGIN


def _decided(state: State, rules: Rules, wall: float, *, synced: bool | None) -> float:
    core = state.core
    if core.phase not in {WATCHING, DONE, FAILED}:
        return -NEVER
    times = [core.check, core.remind, core.again, _arming(state, rules), _alarm(state, rules)]
    if core.holds:
        times.extend([hold.until for hold in core.holds])
    if core.notice is not None:
        times.append(core.notice + 600.0)
    if rules.policy.budget is not None and (left := period_over(core, rules) - wall) > 0:
        times.append(state.at + left)
    if core.phase != WATCHING:
        if any(track.loud for track in state.tracks) or rules.judges_mean or work_seen(state, rules):
            return -NEVER
        if core.weak is not None:
            return -NEVER
        now = core.incident
        if now is not None and now.by_person and now.told:
            times.append(core.closed + HEARD_WITHIN)
        idle = idle_at(state, rules)
        return min(times) if idle <= state.at else min(*times, idle)
    moment = Moment(state, rules, wall, synced)
    times += [begins(reason, moment) for reason in OWN]
    times.append(_weak(state, rules))
    if waits_for_work(state, rules, wall, synced=synced):
        times.append(core.deadline_told)
    if (core.stops or core.held) and works_now(state):
        return -NEVER
    return min(times)


def _arming(state: State, rules: Rules) -> float:
    core, duration = state.core, rules.policy.arm_duration
    if core.armed is not None or duration is None:
        return NEVER
    return core.arm_since + duration if core.arm_since is not None else NEVER


def _alarm(state: State, rules: Rules) -> float:
    """When the alarm could begin, be told or end."""
    core = state.core
    if core.alarm is not None and core.blind is None and core.phase in {DONE, FAILED}:
        return -NEVER  # nothing is delayed any more: the alarm ends with the next tick
    over = NEVER
    if core.alarm is not None:
        if core.blind is None and core.shadow is not None and core.shadow.loud:
            return -NEVER  # a blip, until it is too long to be one
        over = min(idle_at(state, rules), unused_at(state, rules))
        if core.alarm.next < NEVER:
            return min(core.alarm.next, over)
    would = would_have_stopped_at(core, rules, core.shadow)
    if would > state.at:
        return min(would, over)
    if delayed(state, rules, would):
        return -NEVER
    grace_over = boot_grace_over(core, rules) if rules.ends_machine else -NEVER
    return min(grace_over, over) if grace_over > state.at else over


def _weak(state: State, rules: Rules) -> float:
    """When a weak sign that is alone could begin to count, or be told."""
    core = state.core
    seen = alone(core) and works_now(state)
    if core.weak is None:
        return -NEVER if seen else NEVER
    soonest = max(core.weak.next, weak_would(core, rules))
    if soonest > state.at or not seen:
        return soonest if soonest > state.at else NEVER
    if delayed(state, rules, soonest):
        return -NEVER
    grace_over = boot_grace_over(core, rules) if rules.ends_machine else -NEVER
    return grace_over if grace_over > state.at else NEVER
