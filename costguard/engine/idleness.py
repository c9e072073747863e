"""When the GPUs count as idle, as unused or as unreadable for too long, and whether work is seen."""

from costguard.engine.rules import EPSILON_SECONDS, Rules
from costguard.engine.state import Alarm, Core, State
from costguard.engine.window import NEVER, Track, busy_seconds, quiet_at, tolerates


def idle_floor(core: Core, rules: Rules) -> float:
    """The earliest moment at which an idle window may begin."""
    policy = rules.policy
    armed = core.signals.armed_at if policy.arm_duration is not None else -NEVER
    if armed is None:
        return NEVER
    return max(armed, core.clocks.began - policy.interval + policy.delay) if policy.delay else armed


def idle_at(state: State, rules: Rules) -> float:
    """When the idle window will be quiet if nothing changes; NEVER while it cannot be."""
    core, window, tolerance = state.core, rules.policy.kill_duration, rules.tolerance
    floor = idle_floor(core, rules)
    if floor == NEVER or not core.selection.judged or core.selection.unmatched:
        return NEVER
    if not (rules.judges_any or rules.judges_mean) and core.signals.work is not None and core.signals.work.busy:
        return NEVER  # the common case: a GPU works
    if rules.judges_mean:
        return quiet_at(core.signals.mean, floor, window, tolerance) if core.signals.mean else NEVER
    tracks = state.tracks
    if rules.judges_any:
        return min([quiet_at(tracks[i], floor, window, tolerance) for i in core.selection.judged])
    together = all_together(core, rules)
    latest = quiet_at(together, floor, window, tolerance) if together else -NEVER
    for i in core.selection.judged:
        moment = quiet_at(tracks[i], floor, window, tolerance)
        if moment == NEVER:
            return NEVER
        latest = max(latest, moment)
    return latest


def all_together(core: Core, rules: Rules) -> Track | None:
    """When any GPU was busy: bursts that each GPU may have must not add up to work of the machine. None if they cannot."""
    alone = rules.judges_mean or len(core.selection.judged) < 2
    return None if alone or rules.tolerance <= 0 else core.signals.known_work


def unused_after(core: Core, rules: Rules) -> float | None:
    """Seconds without work after which the machine counts as unused; None where that is no reason."""
    armed = core.signals.armed_at is not None or rules.policy.arm_duration is None
    return None if armed else rules.policy.unused_after


def unused_at(state: State, rules: Rules) -> float:
    """When the machine counts as unused if nothing changes."""
    work, after = state.core.signals.work, unused_after(state.core, rules)
    return NEVER if after is None or work is None else quiet_at(work, -NEVER, after, rules.tolerance)


def quiet_enough_at(state: State, rules: Rules) -> float:
    """When the machine counts as idle or as unused if nothing changes."""
    return min(idle_at(state, rules), unused_at(state, rules))


def unknown_at(state: State, rules: Rules) -> float:
    """When *unknown too long* becomes a reason, if nothing changes (opt-in)."""
    core, after = state.core, rules.policy.unknown_stop_after
    if (
        after is None
        or core.signals.unknown_since is None
        or core.signals.host is None
        or core.signals.host.busy
        or works_now(state)
    ):
        return NEVER
    if core.signals.known_work is None or core.signals.known_work.busy:
        return NEVER
    # no work in the meantime, where it can be seen
    return max(core.signals.unknown_since, core.signals.host.since, core.signals.known_work.since) + after


def concerned(state: State, rules: Rules) -> tuple[int, ...]:
    """The positions of the GPUs that a reason rests on: those that are idle where `any` decides, else all judged."""
    judged = state.core.selection.judged
    if not rules.judges_any:
        return judged
    tracks = state.tracks
    return tuple(i for i in judged if tracks[i].unknown_since is None and not tracks[i].busy)


def works_now(state: State) -> bool:
    """Whether some judged GPU is seen working in this very tick."""
    tracks = state.tracks
    return any(tracks[i].busy and tracks[i].unknown_since is None for i in state.core.selection.judged)


def work_seen(state: State, rules: Rules, after: float = -NEVER) -> bool:
    """Whether work, not a tolerated blip, lies in the window, after that moment: what unlatches DONE and FAILED."""
    core, at, window = state.core, state.at, rules.policy.kill_duration
    if rules.judges_mean:
        relevant = [core.signals.mean] if core.signals.mean else []
    else:
        relevant = [state.tracks[i] for i in core.selection.judged]
    busy = [t.unknown_since is None and busy_seconds(t, window, at, after) > rules.tolerance for t in relevant]
    if rules.judges_any:
        return all(busy) and bool(busy)
    together = all_together(core, rules)
    return any(busy) or (together is not None and busy_seconds(together, window, at, after) > rules.tolerance)


def idle_tolerated(state: State, rules: Rules) -> bool:
    """Whether a burst that the window tolerates is all that keeps it from being quiet."""
    core, at, window = state.core, state.at + EPSILON_SECONDS, rules.policy.kill_duration
    floor = idle_floor(core, rules)
    if rules.judges_mean:
        return core.signals.mean is not None and tolerates(core.signals.mean, floor, window, rules.tolerance, at)
    held = [tolerates(state.tracks[i], floor, window, rules.tolerance, at) for i in core.selection.judged]
    if rules.judges_any:
        return any(held)
    together = all_together(core, rules)
    return all(held) and (together is None or tolerates(together, floor, window, rules.tolerance, at))


def unused_tolerated(state: State, rules: Rules) -> bool:
    """As `idle_tolerated`, for the time without work."""
    work, after = state.core.signals.work, unused_after(state.core, rules)
    if work is None or after is None:
        return False
    return tolerates(work, -NEVER, after, rules.tolerance, state.at + EPSILON_SECONDS)


def only_weak_sign(core: Core) -> bool:
    """Whether all that shows work is one weak sign: no load, and no sign of a second kind."""
    strong, work = core.signals.strong_work, core.signals.work
    return strong is not None and not strong.busy and work is not None and work.busy


def weak_sign_alone(core: Core) -> Alarm | None:
    """The alarm about a single weak sign, where nothing else shows work now."""
    return core.alarms.weak_sign if only_weak_sign(core) else None
