"""Unknown that delays a stop is told, ever more rarely, with the money so far (I6)."""

from costguard.engine.narrate import lacking
from costguard.engine.reasons import delayed, idle_floor
from costguard.engine.rules import Rules
from costguard.engine.state import Alarm, Core
from costguard.engine.turn import Turn, label
from costguard.engine.window import NEVER, clear_at

DAY = 86400.0


def would_have_stopped_at(core: Core, rules: Rules) -> float:
    """When the window would have been clear, had everything unknown been quiet."""
    if core.shadow is None:
        return NEVER
    idle = clear_at(core.shadow, idle_floor(core, rules), rules.policy.kill_duration, rules.tolerance)
    after = rules.policy.unused_after
    if after is None or core.armed is not None or rules.policy.arm_duration is None:
        return idle
    # the buckets of the shadow are those of `kill_duration`: without them this is late at most, and never too early
    return min(idle, clear_at(core.shadow, -NEVER, after, 0.0))


def raise_alarm(turn: Turn) -> None:
    """Begin, repeat or end the alarm."""
    core, rules = turn.core, turn.rules
    would, at = would_have_stopped_at(core, rules), turn.at
    # a hold, a veto or a latch may have delayed the stop before: only what is unknown from now on counts
    soonest = max(would, at - rules.policy.interval)
    since = core.blind if core.blind is not None else soonest if delayed(turn.state, rules, would) else NEVER
    alarm = core.alarm
    if since == NEVER:
        if alarm is not None:
            if alarm.told:
                turn.tell("unknown_recovered", "info", unknown_seconds=at - alarm.since)
            turn.set(alarm=None)
        return
    if alarm is None:
        alarm = Alarm(since, 0, since + rules.policy.unknown_alarm)
    if at >= alarm.next:
        _tell(turn, alarm)
        told = alarm.told + 1
        pause = min(DAY, rules.policy.unknown_alarm * 2.0 ** (told - 1))
        alarm = Alarm(alarm.since, told, at + pause)
    if alarm != core.alarm:
        turn.set(alarm=alarm)


def _tell(turn: Turn, alarm: Alarm) -> None:
    core, price = turn.core, turn.rules.policy.price_per_hour
    seconds = turn.at - alarm.since
    unknown = [label(core, key) for key, track in zip(turn.gpus, turn.tracks, strict=True) if track.lost is not None]
    turn.tell(
        "unknown_alarm",
        "critical",
        unknown_seconds=seconds,
        unknown_gpus=unknown,
        lacking=lacking(core, turn.gpus) if core.lacking else "",
        money=None if price is None else seconds / 3600.0 * price,
    )
