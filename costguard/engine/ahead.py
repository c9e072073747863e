"""Messages in advance: the deadline in steps, the end of a long countdown, and one that ends later than people were told."""

from typing import NamedTuple

from costguard.engine import deadline
from costguard.engine.deadline import Situation
from costguard.engine.rules import reached
from costguard.engine.state import OPEN, Incident
from costguard.engine.turn import Turn
from costguard.engine.window import NEVER

SHARES = (0.25, 0.1)
HOUR_SECONDS = 3600.0
"""People are told of the deadline when this much of its time is left, and an hour before it."""

SHORTEST_SECONDS = 300.0
"""The shortest notice: nobody is told of a deadline that is nearer."""

MOVED_SECONDS = 120.0
"""A deadline that moved later by more than this is announced again."""

LONG_COUNTDOWN_SECONDS = 1200.0
"""People are reminded of a countdown that is at least this long: halfway, and in its last minute."""

LAST_SECONDS = 60.0

PUT_OFF_SECONDS = 60.0
"""An action that comes later than people were told by more than this is announced again."""

UNREACHED_EVERY_SECONDS = 120.0
"""How often the warning of a countdown is repeated while it has reached nobody."""


class _Due(NamedTuple):
    """The next deadline: its limit, the seconds left, and the seconds that it gave in all."""

    limit: str
    left: float
    whole: float


def tell_deadline(turn: Turn) -> None:
    """Tell how much time is left, once for each step; of several steps that have passed, only the last."""
    due, known = _due(turn.situation), turn.deadline
    if due is None:
        return
    if due.left > known.told_left + MOVED_SECONDS:
        known = known._replace(told_left=NEVER)
    if due.left > known.whole + MOVED_SECONDS:
        known = known._replace(whole=due.left)
    if due.left <= _step(due.whole, known.told_left):
        facts = {"due_in_seconds": due.left, "due_wall": turn.wall + due.left, "stop_busy": turn.rules.policy.stop_busy}
        limit = deadline.first(turn.situation).at
        movable = max(0.0, limit + turn.rules.policy.extend_max - (turn.at + due.left))
        turn.tell("deadline_ahead", "warning", limit=due.limit, movable=movable, **facts)
        known = known._replace(told_left=due.left)
    if known != turn.deadline:
        turn.deadline = known


def deadline_told_at(situation: Situation) -> float:
    """When people are next told of the deadline, if nothing changes; NEVER for not at all."""
    due, state = _due(situation), situation.state
    return NEVER if due is None else state.at + due.left - _step(due.whole, state.core.deadline.told_left)


def _due(situation: Situation) -> _Due | None:
    """The deadline that is still to come; none while one is under way, or the administrator holds the machine."""
    state, rules = situation.state, situation.rules
    core, end = state.core, NEVER
    if core.phase in OPEN or rules.policy.admin_hold:
        return None
    if rules.policy.budget is not None:  # of what is not spent by then nothing is ever due
        end = state.at + deadline.period_over(core, rules) - situation.wall
    first = min(
        (limit for limit in deadline.limits(situation) if limit.name != "budget" or limit.at < end),
        key=lambda limit: limit.at,
        default=None,
    )
    if first is None:
        return None
    until = first.at if core.deadline.extension is None else max(first.at, core.deadline.extension.until)
    left = until - state.at
    return _Due(first.name, left, max(first.whole or core.deadline.whole, left)) if left > 0.0 else None


def _step(whole: float, told_left: float) -> float:
    """The next step, in seconds left; -NEVER when there is none. What is not much shorter than the whole is no step."""
    steps = [share * whole for share in SHARES] + [HOUR_SECONDS] * (whole >= 2.0 * HOUR_SECONDS)
    return max((step for step in steps if SHORTEST_SECONDS <= step < told_left), default=-NEVER)


def remind(turn: Turn, incident: Incident, due: float) -> None:
    """Remind people of a long countdown at its half and in its last minute; in dry run nothing comes of it."""
    warned, reminded, left = incident.warned, incident.announcement.reminded, due - turn.at
    if warned is None or incident.by_person or not turn.live:
        return
    if _put_off(turn, due) or due - warned < LONG_COUNTDOWN_SECONDS:
        return
    if incident.announcement.exhausted:  # nobody knows of it: tried until somebody does
        passed = 1 + int((turn.at - warned) // UNREACHED_EVERY_SECONDS)
    else:
        passed = sum(reached(turn.at, moment) for moment in (warned + (due - warned) / 2.0, due - LAST_SECONDS))
    if passed <= reminded or left <= 0.0:
        return
    effect = turn.tell("countdown", "warning", due_in_seconds=left, due_wall=turn.wall + left)
    awaited = effect if incident.announcement.exhausted else incident.announcement.effect
    turn.announcement = turn.announcement._replace(reminded=passed, effect=awaited)


def _put_off(turn: Turn, due: float) -> bool:
    """Tell whoever has an earlier date of the action, from a guard that was killed, that it comes later; whether that is news."""
    dated, left = turn.announcement.dated or due, due - turn.at
    # a guard that is killed again and again writes ever more rarely
    news = due - dated > max(PUT_OFF_SECONDS, turn.incident.put_off / 2.0) and left > 0.0
    if news:
        dates = {"due_in_seconds": left, "due_wall": turn.wall + left, "was_wall": turn.wall + dated - turn.at}
        turn.tell("countdown", "warning", takes_back="warning", **dates)
    if news or not turn.announcement.dated:
        turn.announcement = turn.announcement._replace(dated=due)
    return news
