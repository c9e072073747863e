"""Alarms about what delays a stop and is not seen to be work: unknown readings (I6), ever more rarely, and a single weak sign."""

from costguard.engine.idleness import idle_floor, only_weak_sign, quiet_enough_at, unused_after, works_now
from costguard.engine.observation import Known, Reading
from costguard.engine.obstacles import heeded, in_boot_grace, obstacle
from costguard.engine.rules import DAY_SECONDS, Rules
from costguard.engine.standstill import unmatched_names
from costguard.engine.state import WARNING, WATCHING, Alarm, Core, State
from costguard.engine.time_limits import DOUBLINGS
from costguard.engine.turn import Turn, label
from costguard.engine.window import NEVER, Track, busy_seconds, quiet_at, tolerates


def would_have_stopped_at(core: Core, rules: Rules, track: Track | None) -> float:
    """When the window would have been quiet by this track: known work, as if everything unknown had been quiet; or strong work."""
    if track is None:
        return NEVER
    idle = quiet_at(track, idle_floor(core, rules), rules.policy.kill_duration, rules.tolerance)
    after = unused_after(core, rules)
    if after is None:
        return idle
    # the buckets of the track are those of `kill_duration`: without them this is late at most, and never too early
    return min(idle, quiet_at(track, -NEVER, after, 0.0))


def delayed(state: State, rules: Rules, would: float) -> bool:
    """Whether what was unknown is all that stands in the way of a stop that ``would`` have been due already."""
    core = state.core
    if not would <= state.at or core.phase not in {WATCHING, WARNING}:
        return False
    if obstacle(core, rules) or in_boot_grace(state, rules):
        return False
    vetoes = heeded(state, rules)
    if vetoes:
        return vetoes[0].unknown
    return quiet_enough_at(state, rules) > state.at


def raise_alarm(turn: Turn) -> None:
    """Begin, repeat or end the alarm."""
    core, rules, at = turn.core, turn.rules, turn.at
    alarm, since = core.alarms.unknown, _delayed_since(turn)
    if since == NEVER:
        if alarm is not None:
            turn.alarms = turn.alarms._replace(unknown=_ended_or_paused(turn, alarm))
        return
    if alarm is None or alarm.next == NEVER:
        told, lasted = (alarm.told, alarm.lasted) if alarm is not None else (0, 0.0)
        alarm = scheduled(Alarm(since, told, NEVER, since, lasted), rules)
    if at >= alarm.next:
        _tell(turn, alarm)
        alarm = scheduled(alarm._replace(told=alarm.told + 1, counted=at), rules)
    if alarm != core.alarms.unknown:
        turn.alarms = turn.alarms._replace(unknown=alarm)


def scheduled(alarm: Alarm, rules: Rules) -> Alarm:
    """The alarm with the moment of its next message: backoff of 1, 2, 4 ... times `unknown_alarm`, then daily."""
    after = rules.policy.unknown_alarm
    pause = after if alarm.counted == alarm.since else min(DAY_SECONDS, after * 2.0 ** min(alarm.told - 1, DOUBLINGS))
    return alarm._replace(next=alarm.counted + pause)


def paused(alarm: Alarm | None, until: float) -> Alarm | None:
    """Something else delays the stop from now on. Whoever was told of the alarm is told when it ends."""
    if alarm is None or not alarm.told:
        return None
    return alarm if alarm.next == NEVER else alarm._replace(next=NEVER, lasted=alarm.lasted + until - alarm.since)


def _delayed_since(turn: Turn) -> float:
    """Since when unknown has been what delays a stop; NEVER when it is not."""
    core, rules, at, alarm = turn.core, turn.rules, turn.at, turn.core.alarms.unknown
    if core.signals.unknown_since is not None:
        return core.signals.unknown_since
    if alarm is not None and alarm.next < NEVER and _but_for_a_burst(core, rules, at):
        return alarm.since if delayed(turn.state, rules, at) else NEVER
    would = would_have_stopped_at(core, rules, core.signals.known_work)
    # a hold, a veto or a latch may have delayed the stop before: only what is unknown from now on counts
    return max(would, at - rules.policy.interval) if delayed(turn.state, rules, would) else NEVER


def _but_for_a_burst(core: Core, rules: Rules, at: float) -> bool:
    """Whether there is load in this tick, and the window is quiet all the same, had everything unknown been quiet."""
    work, window = core.signals.known_work, rules.policy.kill_duration
    return work is not None and work.busy and tolerates(work, idle_floor(core, rules), window, rules.tolerance, at)


def _ended_or_paused(turn: Turn, alarm: Alarm) -> Alarm | None:
    """*Recovered* is told of what is over: nothing is delayed any more, work was seen, or the stop came.

    Unknown that ended before it delayed anything is over too. A hold, a veto or a reload ends nothing.
    """
    core, rules, at = turn.core, turn.rules, turn.at
    work = core.signals.known_work
    if work is not None and work.busy:  # a burst that the window tolerates neither ends an alarm nor begins it anew
        nothing = busy_seconds(work, rules.policy.kill_duration, at) > rules.tolerance
    else:
        would, first = would_have_stopped_at(core, rules, work), not alarm.lasted and core.fresh_start != "reload"
        nothing = would == NEVER or (first and would > at)
    due = quiet_enough_at(turn.state, rules) <= at and not any(veto.unknown for veto in core.vetoes)
    over = nothing or due or core.phase not in {WATCHING, WARNING}
    if not over:
        return paused(alarm, at)
    if alarm.told:
        seconds = alarm.lasted + (at - alarm.since if alarm.next < NEVER else 0.0)
        turn.tell("unknown_recovered", "info", unknown_seconds=seconds, takes_back="critical")
    return None


def _tell(turn: Turn, alarm: Alarm) -> None:
    core, seconds = turn.core, alarm.lasted + turn.at - alarm.since
    gpus = zip(turn.gpus, turn.tracks, strict=True)
    senses = [[veto.source, veto.reason] for veto in core.vetoes if veto.unknown]
    turn.tell(
        "unknown_alarm",
        "critical",
        unknown_seconds=seconds,
        unknown_gpus=[label(core, key) for key, track in gpus if track.unknown_since is not None],
        **({"unknown_senses": senses} if senses else {}),
        lacking=unmatched_names(core, turn.gpus) if core.selection.unmatched else "",
        money=turn.cost(seconds),
    )


def but_for_weak_at(core: Core, rules: Rules) -> float:
    """When the machine would have been stopped, had single weak signs been quiet."""
    return would_have_stopped_at(core, rules, core.signals.strong_work)


def raise_weak(turn: Turn, before: Core, readings: tuple[Reading, ...]) -> None:
    """Begin, tell, repeat daily or end: one weak sign alone has kept the machine up for a whole window."""
    core, rules, at, weak = turn.core, turn.rules, turn.at, turn.core.alarms.weak_sign
    watching, seen = core.phase == WATCHING, only_weak_sign(core) and works_now(turn.state)
    worked = _worked(before.signals.strong_work, core.signals.strong_work, rules)
    if worked or not watching or quiet_enough_at(turn.state, rules) <= at:
        weak = None
    if weak is None and seen and watching:
        weak = Alarm(at, next=at + rules.policy.kill_duration)
    elif weak is not None and seen and at >= weak.next and delayed(turn.state, rules, but_for_weak_at(core, rules)):
        _tell_weak(turn, weak, readings)
        weak = weak._replace(next=at + DAY_SECONDS)
    if weak != core.alarms.weak_sign:
        turn.alarms = turn.alarms._replace(weak_sign=weak)


def _worked(old: Track | None, new: Track | None, rules: Rules) -> bool:
    """Whether work that ends with this tick was more than a burst."""
    if old is None or new is None or not old.busy or new.busy:
        return False
    return new.since - old.since > rules.tolerance


def _tell_weak(turn: Turn, weak: Alarm, readings: tuple[Reading, ...]) -> None:
    known = [(key, reading.signs) for key, reading in zip(turn.gpus, readings, strict=True) if type(reading) is Known]
    key, signs = next((key, signs) for key, signs in known if signs)
    seconds = turn.at - weak.since
    turn.tell(
        "weak_sign", "warning", gpu=label(turn.core, key), sign=signs[0], weak_seconds=seconds, money=turn.cost(seconds)
    )
