"""What people ask of the machine: to hold it, to release it, to stop it now."""

from costguard.engine import reasons
from costguard.engine.attempt import abandon
from costguard.engine.effects import Answer
from costguard.engine.events import AskHold, AskRelease, AskStop
from costguard.engine.incident import back_to_watching, open_incident
from costguard.engine.state import ACTING, CONFIRMING, DONE, FAILED, WARNING, WATCHING, Hold
from costguard.engine.turn import Turn, action_of
from costguard.engine.window import NEVER

HOLDS_KEPT = 32
"""At most so many people hold at once; one of them has at most one hold."""

HOLD_TOLD_EVERY, HOLD_IS_NEWS = 60.0, 600.0
"""Holds of one person are told at most so often, in seconds; one that moves its end by more than this is always told."""


def hold(turn: Turn, event: AskHold) -> None:
    """A person postpones the stop: bounded, signed, and refused once the request is out."""
    core, policy = turn.core, turn.rules.policy
    if core.phase in {ACTING, CONFIRMING}:
        _answer(
            turn,
            event.client,
            "too late: the request to " + action_of(core.incident, turn.rules) + " is already out",
            done=False,
        )
        return
    mine = max((held.until - event.at for held in core.holds if held.owner == event.owner), default=0.0)
    wish = min(event.seconds, policy.hold_max)
    if 0 < wish <= mine:
        _answer(turn, event.client, f"held for {mine:.0f} s: an earlier hold of yours lasts longer", done=True)
        return
    seconds = min(wish, mine + policy.hold_total - core.held)
    if not seconds > mine:  # nor for a number that is none
        _answer(
            turn, event.client, "refused: the holds since work was last seen add up to the limit already", done=False
        )
        return
    if core.phase == WARNING:
        _end_countdown(turn, event.owner)
    elif core.phase == FAILED:
        turn.set(phase=WATCHING, incident=None, again=NEVER, remind=NEVER)
    granted = Hold(event.owner, event.reason, event.at + seconds, event.wall + seconds)
    _grant(turn, granted, seconds, seconds - mine)
    cut = "" if seconds == event.seconds else f" (asked for {event.seconds:.0f} s; the limit cuts it)"
    _answer(turn, event.client, f"held for {seconds:.0f} s{cut}", done=True)


def _end_countdown(turn: Turn, owner: str) -> None:
    """A hold ends a countdown, and is told itself; a person's own stop is taken back aloud."""
    now = turn.core.incident
    if now is not None and now.reason == reasons.PERSON:
        back_to_watching(turn, f"{owner} holds this machine")
        return
    abandon(turn)
    turn.set(phase=WATCHING, incident=None)


def _grant(turn: Turn, granted: Hold, seconds: float, more: float) -> None:
    """Keep the hold; its price is at least what it costs: the countdown, which begins anew after it."""
    core, policy = turn.core, turn.rules.policy
    others = sorted((hold for hold in core.holds if hold.owner != granted.owner), key=lambda hold: hold.until)
    kept = (*others[-(HOLDS_KEPT - 1) :], granted)  # those that end first matter least
    turn.set(holds=kept, held=core.held + max(more, policy.grace, policy.interval))
    told = tuple((owner, at) for owner, at in core.hold_told if 0 <= turn.at - at < HOLD_TOLD_EVERY)
    before = next((hold.until for hold in core.holds if hold.owner == granted.owner), turn.at)
    if granted.owner not in dict(told) or granted.until - before > HOLD_IS_NEWS:
        owner, until = granted.owner, granted.wall
        turn.tell("held", "info", owner=owner, hold=granted.reason, hold_seconds=seconds, hold_until_wall=until)
        told = (*told[-(HOLDS_KEPT - 1) :], (owner, turn.at))
    turn.set(hold_told=told)


def release(turn: Turn, event: AskRelease) -> None:
    """A person ends every hold and lifts the limit on repeated stops."""
    core = turn.core
    had = bool(core.holds or core.stops) or core.phase in {DONE, FAILED}
    turn.set(holds=(), stops=())
    if core.phase in {DONE, FAILED}:
        turn.set(phase=WATCHING, done="", incident=None, again=NEVER, remind=NEVER)
    if core.holds:
        turn.tell("hold_ended", "info", owner=event.owner, hold="released")
    _answer(turn, event.client, "released" if had else "nothing was held", done=True)


def stop(turn: Turn, event: AskStop) -> None:
    """A person's own command: no warning, no window; only the administrator's hold refuses it.

    Whoever asked was shown the work and the holds. Holds stay: they stand against the machine's own reasons.
    """
    core = turn.core
    if words := reasons.forbidden(core, turn.rules):
        _answer(turn, event.client, f"refused: {words}", done=False)
    elif core.phase in {ACTING, CONFIRMING}:
        _answer(turn, event.client, "already under way", done=False)
    elif core.phase == WARNING and core.wish is not None and core.incident and core.wish.incident == core.incident.id:
        _answer(turn, event.client, f"already under way: {core.wish.owner} asked for it", done=True)
    else:
        abandon(turn)
        open_incident(turn, reasons.PERSON, event.owner)
        _answer(turn, event.client, f"{action_of(turn.core.incident, turn.rules)} begins", done=True)


def _answer(turn: Turn, client: int | None, words: str, *, done: bool) -> None:
    if client is not None:
        turn.effects.append(Answer(client, done, words))
