"""The state machine: one event in, a new state and the effects it asks for out.

Invariants (I1 to I9) are stated in DESIGN and held here: nothing acts for *idle* or *unused* unless
every judged GPU was known and quiet over the window; nothing acts without a warning `grace` earlier;
every attempt is decided on the readings of the tick that releases it; unknown never counts as quiet.
"""

from typing import NamedTuple

from costguard.engine import incident, people, restart
from costguard.engine.ahead import tell_deadline
from costguard.engine.alarm import raise_alarm, raise_weak
from costguard.engine.effects import Effect
from costguard.engine.events import (
    AskExtend,
    AskHold,
    AskRelease,
    AskStop,
    Began,
    Devices,
    Event,
    Finding,
    Leaving,
    Notice,
    Outcome,
    Tick,
)
from costguard.engine.forecast import next_decision
from costguard.engine.invariants import check
from costguard.engine.kept import raise_kept
from costguard.engine.narrate import Sentence
from costguard.engine.observation import Known, Reading
from costguard.engine.obstacles import bridged
from costguard.engine.plans import preflight
from costguard.engine.policy import Policy
from costguard.engine.pre_stop_hook import hook_works
from costguard.engine.rules import (
    CLOCK_NOISE_SECONDS,
    NOTICE_KEPT_SECONDS,
    RESUME_JUMP_SECONDS,
    Rules,
    reached,
    rules_of,
)
from costguard.engine.state import UNDATED, Core, State
from costguard.engine.tracks import above_arm, is_strong, observe
from costguard.engine.turn import Turn, label
from costguard.engine.window import NEVER, Track

WORK_FORGIVES_SECONDS = 60.0
"""Seconds of uninterrupted work after which earlier stops no longer count as *repeated*."""


class Step(NamedTuple):
    """What one event led to. ``str(sentence)`` is the one line that people read."""

    state: State
    effects: tuple[Effect, ...]
    sentence: Sentence


def step(state: State, event: Event, policy: Policy) -> Step:
    """Carry the machine over one event. Pure: equal arguments give equal answers.

    Raises InvariantError when the engine was about to break one of its own rules (a bug).
    """
    rules = rules_of(policy)
    if type(event) is Tick:
        if event.skipped_at is not None and state.at < event.skipped_at <= min(event.at, state.at + rules.gap):
            state = State(
                event.skipped_at, state.gpus, state.tracks, state.core
            )  # as after a tick that changed nothing
        quick = _unchanged(state, event, rules)
        if quick is not None:
            return Step(quick, (), Sentence(quick, rules, event.wall))
        return _tick(state, event, rules)
    core = state.core
    wall = event.wall if isinstance(event, AskHold) else core.clocks.wall + event.at - core.clocks.wall_at
    turn = Turn(state, rules, event.at, wall, synced=core.clocks.synced)
    turn.at, turn.looked_wall = state.at, wall - (event.at - state.at)  # only a tick moves the machine's own time
    _other(turn, event)
    turn.core = turn.core._replace(unchanged_until=-NEVER)
    after = turn.state
    check(state, after, turn.effects, rules)
    # the sentence dates moments by the state's own time, which is that of the last tick
    return Step(after, tuple(turn.effects), Sentence(after, rules, turn.looked_wall))


_judged: tuple[object, ...] = (None,) * 4
"""Readings, tracks, core and rules that `_unchanged` found to change nothing."""


def _unchanged(state: State, tick: Tick, rules: Rules) -> State | None:
    """The state after a tick that changes nothing but the time; None when it might change more."""
    before, gpus, tracks, core = state  # at once: every name that is looked up counts here
    at, seen, wall, suspended, synced, _stood = tick
    _began, _started, asleep, wall_then, wall_at, trusted = core.clocks
    if (
        at >= core.unchanged_until
        or at - before > rules.gap
        or seen.gpus != gpus
        or seen.vetoes != core.vetoes
        or seen.quiet_host is not core.quiet_host
        or synced is not trusted
        or not abs(suspended - asleep) <= CLOCK_NOISE_SECONDS
        or not abs(wall - wall_then - at + wall_at) <= CLOCK_NOISE_SECONDS
    ):
        return None
    global _judged  # noqa: PLW0603  # a memory of one: at rest these are the same objects in each tick
    known_readings, known_tracks, known_core, known_rules = _judged
    if seen.readings is known_readings and tracks is known_tracks and core is known_core and rules is known_rules:
        return State(at, gpus, tracks, core)
    if rules.judges_mean or not _levels_stay(seen.readings, tracks, core, rules):
        return None
    _judged = seen.readings, tracks, core, rules
    return State(at, gpus, tracks, core)


def _levels_stay(readings: tuple[Reading, ...], tracks: tuple[Track, ...], core: Core, rules: Rules) -> bool:
    """Whether every signal stays as it is: that of each GPU, that of signs, and the one that arms."""
    limit, heeds, top, signals = rules.quiet_threshold, rules.heeds_signs, 0.0, core.signals
    for reading, track in zip(readings, tracks, strict=True):
        if type(reading) is Known:
            load = reading.load
            quiet = load < limit and load >= 0.0 and not (heeds and reading.signs)  # at work the first look is enough
            if quiet is track.busy or track.unknown_since is not None:
                return False
            if load > top:  # noqa: PLR1730 - a call of max() costs five times as much, and this is the hot path
                top = load
        elif track.unknown_since is None:
            return False
    strong = signals.strong_work
    if strong is not None and (top >= limit or _more_than_one_sign(core, readings, rules)) is not strong.busy:
        return False
    if signals.armed_at is not None or rules.policy.arm_duration is None:
        return True
    simple = not rules.by_mean and len(core.selection.picked) == len(tracks)
    above = top > rules.policy.arm_threshold if simple else above_arm(readings, core.selection.picked, rules)
    return above is not (signals.above_arm_since is None)


def _more_than_one_sign(core: Core, readings: tuple[Reading, ...], rules: Rules) -> bool:
    work = core.signals.work
    return work is not None and work.busy and is_strong(readings, rules)


def _tick(state: State, tick: Tick, rules: Rules) -> Step:
    before = state
    turn = Turn(state, rules, tick.at, tick.wall, synced=tick.synced)
    gap, first = tick.at - state.at, state.core.signals.work is None
    if first:
        state = state._replace(at=max(state.at, tick.at - rules.policy.interval))  # nobody looked before: not unknown
    if first and state.core.fresh_start in {"", "lost"}:
        turn.clocks = turn.clocks._replace(began=tick.at, suspended=tick.suspended)
    elif tick.suspended - state.core.clocks.suspended >= RESUME_JUMP_SECONDS and state.core.fresh_start != "boot":
        restart.resume(turn, tick.suspended - state.core.clocks.suspended)
        state, gap = turn.state._replace(at=tick.at - rules.policy.interval), rules.policy.interval
    if state.core.fresh_start == "boot":
        turn.clocks = turn.clocks._replace(began=tick.at)
        restart.close_after_boot(turn)
    elif state.core.fresh_start == "lost":
        restart.without_state(turn)
    if not state.gpus and not turn.core.clocks.started and tick.suspended >= RESUME_JUMP_SECONDS:
        # the machine slept in this boot, and the state that knew when is lost (I9)
        turn.clocks = turn.clocks._replace(started=tick.at)
    turn.hook_works = hook_works(turn.core, state.at)
    seen, readings, restarted = observe(state._replace(core=turn.core), tick, rules)
    turn.gpus, turn.tracks, turn.core = seen.gpus, seen.tracks, seen.core
    contiguous = bool(state.gpus) and gap <= rules.gap
    _arm(turn, readings, state.at if contiguous else tick.at - rules.policy.interval, hole=not contiguous)
    _expire(turn)
    _date_stops(turn)
    _budget(turn)
    raise_alarm(turn)
    raise_weak(turn, state.core, readings)
    raise_kept(turn)
    preflight(turn)
    incident.advance(
        turn,
        # a boot has no past to bridge; within the boot a lost state is a hole
        bridged=state.core.fresh_start != "lost" and (bridged(gap, rules, restarted=restarted) or first),
        watched=bridged(gap, rules, restarted=False) or first,
    )
    tell_deadline(turn)
    turn.core = turn.core._replace(fresh_start="", unchanged_until=next_decision(turn.situation))
    after = turn.state
    check(before, after, turn.effects, rules)
    return Step(after, tuple(turn.effects), Sentence(after, rules, tick.wall))


def _arm(turn: Turn, readings: tuple[Reading, ...], since: float, *, hole: bool) -> None:
    """Armed once the load stayed above the threshold for long enough; armed for the rest of the boot."""
    duration, old = turn.rules.policy.arm_duration, turn.core.signals
    began = None if hole else old.above_arm_since
    armed_at = old.armed_at
    if armed_at is None and duration is not None:
        if duration <= 0 or above_arm(readings, turn.core.selection.picked, turn.rules):
            began = since if began is None else began
            armed_at = turn.at if reached(turn.at, began + duration) else None
        else:
            began = None
    if (began, armed_at) != (old.above_arm_since, old.armed_at):
        turn.signals = old._replace(above_arm_since=began, armed_at=armed_at)
    if turn.rules.policy.tell_armed and old.armed_at is None and armed_at is not None and duration:
        turn.tell("armed", "info")
    work = old.known_work  # work beside a GPU that cannot be read is work
    worked = work is not None and work.busy and turn.at - work.since >= WORK_FORGIVES_SECONDS
    if (turn.core.ledger.stops or turn.core.people.charged) and (worked or (armed_at == turn.at and duration)):
        turn.ledger = turn.core.ledger._replace(stops=())
        people.forgive(turn)


def _expire(turn: Turn) -> None:
    """Holds end by themselves; a notice that did not come true is forgotten."""
    holds, due = turn.core.people.holds, turn.core.notice.due
    left = tuple(hold for hold in holds if hold.until > turn.at)
    if len(left) < len(holds):
        turn.people = turn.core.people._replace(holds=left)
        if not left:
            last = max(holds, key=lambda hold: hold.until)
            turn.tell("hold_ended", "info", owner=last.owner, hold=last.reason)
    if due is not None and turn.at > due + NOTICE_KEPT_SECONDS:
        turn.notice = turn.core.notice._replace(due=None)
        turn.tell("notes", "info", text=NOTICE_OVER, takes_back="critical")


NOTICE_OVER = "what the cloud announced has not happened; the machine's own rules apply again"


def _date_stops(turn: Turn) -> None:
    """A stop of unknown date gets the first certain date after it: later than it was, so the wait is longer rather than shorter."""
    stops = turn.core.ledger.stops
    if turn.synced and UNDATED in stops:
        turn.ledger = turn.core.ledger._replace(stops=tuple(turn.wall if date == UNDATED else date for date in stops))


def _budget(turn: Turn) -> None:
    """A new budget period begins: what earlier ones cost no longer counts."""
    policy, ledger, clocks = turn.rules.policy, turn.core.ledger, turn.core.clocks
    if policy.budget is None or turn.synced is False:
        return
    ran = turn.at - clocks.suspended
    if not ledger.spent_since:
        # what was spent before there was a budget belongs to none
        turn.ledger = ledger._replace(spent_since=turn.wall, spent=-(turn.cost(ran) or 0.0))
        return
    periods = (turn.wall - ledger.spent_since) // policy.budget_period
    if periods >= 1:
        since = ledger.spent_since + periods * policy.budget_period
        awake = min(turn.wall - since, turn.at - clocks.started)  # of the new period; `started`: no longer than awake
        turn.ledger = ledger._replace(spent_since=since, spent=-(turn.cost(max(0.0, ran - awake)) or 0.0))


def _other(turn: Turn, event: Event) -> None:
    """Everything that is not a tick."""
    match event:
        case Devices():
            # the next tick selects by the new names
            turn.selection = turn.core.selection._replace(devices=event.devices, picked=())
        case Began():
            restart.begin_again(turn, event)
        case Outcome():
            incident.outcome(turn, event)
        case AskHold():
            people.hold(turn, event)
        case AskExtend():
            people.extend(turn, event)
        case AskRelease():
            people.release(turn, event)
        case AskStop():
            people.stop(turn, event)
        case Notice():
            incident.notice(turn, event)
        case Leaving():
            incident.leave(turn)
        case Finding():
            subjects = [label(turn.core, subject) for subject in event.subjects]
            turn.tell("finding", "warning", subjects=subjects, code=event.code, text=event.words)
        case Tick():
            message = "a tick is handled by step"
            raise TypeError(message)
