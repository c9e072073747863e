"""The state machine: one event in, a new state and the effects it asks for out.

Invariants (I1 to I9) are stated in DESIGN and held here: nothing acts for *idle* or *unused* unless
every judged GPU was known and quiet over the window; nothing acts without a warning `grace` earlier;
every attempt is decided on the readings of the tick that releases it; unknown never counts as quiet.
"""

from typing import NamedTuple

from costguard.engine import incident as handle
from costguard.engine import people
from costguard.engine.alarm import raise_alarm, raise_weak
from costguard.engine.effects import Check, Effect
from costguard.engine.events import AskHold, AskRelease, AskStop, Began, Devices, Event, Finding, Notice, Outcome, Tick
from costguard.engine.forecast import next_decision
from costguard.engine.invariants import check
from costguard.engine.narrate import Sentence
from costguard.engine.observation import Known, Reading
from costguard.engine.obstacles import bridged
from costguard.engine.policy import Policy
from costguard.engine.rules import CLOCK_NOISE, RESUME_JUMP, Rules, reached, rules_of
from costguard.engine.state import ACTING, CONFIRMING, PASSED, UNDATED, Core, State
from costguard.engine.tracks import above_arm, is_strong, observe
from costguard.engine.turn import Turn, label
from costguard.engine.window import NEVER

PREFLIGHT_EVERY = 86400.0
WORK_FORGETS_STOPS = 60.0
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
        quick = _unchanged(state, event, rules)
        if quick is not None:
            return Step(quick, (), Sentence(quick, rules, event.wall))
        return _tick(state, event, rules)
    core = state.core
    wall = event.wall if isinstance(event, AskHold) else core.saved_wall + event.at - core.saved_at
    turn = Turn(state, rules, event.at, wall, synced=core.synced)
    turn.at = state.at  # only a tick moves the machine's own time
    _other(turn, event)
    turn.core = turn.core._replace(next=-NEVER)
    after = turn.state
    check(state, after, turn.effects, rules)
    return Step(after, tuple(turn.effects), Sentence(after, rules, turn.wall))


_judged: tuple[object, ...] = (None,) * 4
"""Readings, tracks, core and rules that `_unchanged` found to change nothing."""


def _unchanged(state: State, tick: Tick, rules: Rules) -> State | None:
    """The state after a tick that changes nothing but the time; None when it might change more."""
    before, gpus, tracks, core = state  # at once: every name that is looked up counts here
    at, seen, wall, suspended, synced = tick
    if (
        at >= core.next
        or at - before > rules.gap
        or seen.gpus != gpus
        or seen.vetoes != core.vetoes
        or seen.quiet_host is not core.quiet_host
        or synced is not core.synced
        or not abs(suspended - core.suspended) <= CLOCK_NOISE
        or not abs(wall - core.saved_wall - at + core.saved_at) <= CLOCK_NOISE
    ):
        return None
    global _judged  # noqa: PLW0603  # a memory of one: at rest these are the same objects in each tick
    judged = _judged
    if seen.readings is judged[0] and tracks is judged[1] and core is judged[2] and rules is judged[3]:
        return State(at, gpus, tracks, core)
    limit, heeds, top = rules.quiet_threshold, rules.heeds_signs, 0.0
    for reading, track in zip(seen.readings, tracks, strict=True):
        if type(reading) is Known:
            load = reading.load
            if (0.0 <= load < limit and not (heeds and reading.signs)) is track.loud or track.lost is not None:
                return None
            if load > top:  # noqa: PLR1730 - a call of max() costs five times as much, and this is the hot path
                top = load
        elif track.lost is None:
            return None
    if rules.judges_mean:
        return None
    strong = core.strong
    if strong is not None and (top >= limit or (_loud(core) and is_strong(seen.readings, rules))) is not strong.loud:
        return None
    if core.armed is None and rules.policy.arm_duration is not None:
        simple = not rules.by_mean and len(core.picked) == len(tracks)
        above = top > rules.policy.arm_threshold if simple else above_arm(seen.readings, core.picked, rules)
        if above is (core.arm_since is None):
            return None
    _judged = seen.readings, tracks, core, rules
    return State(at, gpus, tracks, core)


def _loud(core: Core) -> bool:
    return core.work is not None and core.work.loud


def _tick(state: State, tick: Tick, rules: Rules) -> Step:
    before = state
    turn = Turn(state, rules, tick.at, tick.wall, synced=tick.synced)
    gap, first = tick.at - state.at, state.core.work is None
    if first:
        state = state._replace(at=max(state.at, tick.at - rules.policy.interval))  # nobody looked before: not unknown
    if first and state.core.fresh in {"", "lost"}:
        turn.core = turn.core._replace(began=tick.at, suspended=tick.suspended)
    elif tick.suspended - state.core.suspended >= RESUME_JUMP and state.core.fresh != "boot":
        handle.resume(turn, tick.suspended - state.core.suspended)
        state, gap = turn.state._replace(at=tick.at - rules.policy.interval), rules.policy.interval
    if state.core.fresh == "boot":
        turn.core = turn.core._replace(began=tick.at)
        handle.close_after_boot(turn)
    elif state.core.fresh == "lost":
        handle.without_state(turn)
    if not state.gpus and not turn.core.started and tick.suspended >= RESUME_JUMP:
        turn.core = turn.core._replace(
            started=tick.at
        )  # the machine slept in this boot, and the state that knew when is lost (I9)
    seen = observe(State(state.at, state.gpus, state.tracks, turn.core), tick, rules)
    turn.gpus, turn.tracks, turn.core = seen.gpus, seen.tracks, seen.core
    contiguous = bool(state.gpus) and gap <= rules.gap
    _arm(turn, seen.readings, state.at if contiguous else tick.at - rules.policy.interval, hole=not contiguous)
    _expire(turn)
    _date_stops(turn)
    _budget(turn)
    raise_alarm(turn)
    raise_weak(turn, state.core, seen.readings)
    _preflight(turn)
    handle.advance(
        turn,
        # a boot has no past to bridge; within the boot a lost state is a hole
        bridged=state.core.fresh != "lost" and (bridged(gap, rules, restarted=seen.restarted) or first),
        watched=bridged(gap, rules, restarted=False) or first,
    )
    turn.core = turn.core._replace(fresh="", next=next_decision(turn.state, rules, tick.wall, synced=tick.synced))
    after = turn.state
    check(before, after, turn.effects, rules)
    return Step(after, tuple(turn.effects), Sentence(after, rules, tick.wall))


def _arm(turn: Turn, readings: tuple[Reading, ...], since: float, *, hole: bool) -> None:
    """Armed once the load stayed above the threshold for long enough; armed for the rest of the boot."""
    policy = turn.rules.policy
    if hole:
        turn.core = turn.core._replace(arm_since=None)
    core = turn.core
    if core.armed is None and policy.arm_duration is not None:
        above = above_arm(readings, core.picked, turn.rules)
        if not above and policy.arm_duration > 0:
            if core.arm_since is not None:
                turn.core = turn.core._replace(arm_since=None)
        else:
            began = core.arm_since if core.arm_since is not None else since
            armed = reached(turn.at, began + policy.arm_duration)
            turn.core = turn.core._replace(arm_since=began, armed=turn.at if armed else None)
    core = turn.core
    seen = core.shadow  # work beside a GPU that cannot be read is work
    worked = seen is not None and seen.loud and turn.at - seen.since >= WORK_FORGETS_STOPS
    if (core.stops or core.held) and (worked or (core.armed == turn.at and policy.arm_duration)):
        turn.core = turn.core._replace(stops=())
        people.forgive(turn)


def _expire(turn: Turn) -> None:
    """Holds end by themselves; a notice that did not come true is forgotten."""
    core = turn.core
    over = [hold for hold in core.holds if hold.until <= turn.at]
    if over:
        turn.core = turn.core._replace(holds=tuple(hold for hold in core.holds if hold.until > turn.at))
        if not turn.core.holds:
            last = max(over, key=lambda hold: hold.until)
            turn.tell("hold_ended", "info", owner=last.owner, hold=last.reason)
    if core.notice is not None and turn.at > core.notice + 600.0:
        turn.core = turn.core._replace(notice=None)


def _date_stops(turn: Turn) -> None:
    """A stop of which nobody knew the date counts from the first date that is sure: later than it was, so longer."""
    if turn.synced and UNDATED in turn.core.stops:
        turn.core = turn.core._replace(stops=tuple(turn.wall if date == UNDATED else date for date in turn.core.stops))


def _budget(turn: Turn) -> None:
    """A new budget period begins: what earlier ones cost no longer counts."""
    policy, core = turn.rules.policy, turn.core
    if policy.budget is None or turn.synced is False:
        return
    if not core.spent_since:
        # what was spent before there was a budget belongs to none
        turn.core = turn.core._replace(spent_since=turn.wall, spent=-_cost(turn, turn.at - core.suspended))
        return
    periods = (turn.wall - core.spent_since) // policy.budget_period
    if periods >= 1:
        since = core.spent_since + periods * policy.budget_period
        awake = min(turn.wall - since, turn.at - core.started)  # of the new period; `started`: no longer than awake
        earlier = max(0.0, turn.at - core.suspended - awake)  # running seconds of this boot before it
        turn.core = turn.core._replace(spent_since=since, spent=-_cost(turn, earlier))


def _cost(turn: Turn, seconds: float) -> float:
    return seconds / 3600.0 * (turn.rules.policy.price_per_hour or 0.0)


def _preflight(turn: Turn) -> None:
    """At the start and daily: may every configured action, and what would it do?"""
    if turn.at < turn.core.check or turn.core.phase in {ACTING, CONFIRMING}:  # a machine that stops can do nothing else
        return
    core = turn.core
    since = turn.at if core.check_since is None else core.check_since  # a restart makes nobody wait anew
    passed = {plan.action for plan in core.plans if plan.verdict in PASSED}
    asked = []
    for action in turn.rules.actions:
        if action != "end_process":
            effect_id = turn.serial("c")
            turn.effects.append(Check(effect_id, action, since, known=action in passed, tries=core.check_tries))
            asked.append(f"{effect_id} {action}")
    turn.core = turn.core._replace(check=turn.at + PREFLIGHT_EVERY, checking=tuple(asked))
    turn.core = turn.core._replace(check_since=since if asked else None, check_soon=False)


def _other(turn: Turn, event: Event) -> None:
    """Everything that is not a tick."""
    match event:
        case Devices():
            turn.core = turn.core._replace(devices=event.devices, picked=())  # the next tick selects by the new names
        case Began():
            handle.begin_again(turn, event)
        case Outcome():
            handle.outcome(turn, event)
        case AskHold():
            people.hold(turn, event)
        case AskRelease():
            people.release(turn, event)
        case AskStop():
            people.stop(turn, event)
        case Notice():
            handle.notice(turn, event)
        case Finding():
            turn.tell("finding", "warning", gpu=label(turn.core, event.gpu), code=event.code, text=event.words)
        case Tick():
            message = "a tick is handled by step"
            raise TypeError(message)
