"""What happens in each phase: warn, act, confirm, latch, try anew; and what the cloud's notices do to it."""

from costguard.engine import deadline, reasons, time_limits
from costguard.engine.ahead import remind
from costguard.engine.attempt import (
    GOOD,
    abandon,
    act,
    act_lost,
    announce,
    answer_request,
    attempt_outcome,
    confirm_again,
    confirm_outcome,
    finish,
    runs_on,
)
from costguard.engine.effects import Save
from costguard.engine.events import Notice, Outcome
from costguard.engine.idleness import idle_at, work_seen, works_now
from costguard.engine.obstacles import due_at, may_act_at
from costguard.engine.plans import cannot, checked, first_link
from costguard.engine.rules import DAY_SECONDS, reached
from costguard.engine.state import (
    ACTING,
    CONFIRMING,
    DONE,
    FAILED,
    PERSON,
    WARNING,
    WATCHING,
    Announcement,
    Incident,
    Interruption,
    StopRequest,
)
from costguard.engine.turn import Turn
from costguard.engine.window import NEVER

TELL_AGAIN_SECONDS = 10.0
"""A message that reached nobody is sent again after 10, 20, … s, `warn_attempts` times in all."""

HEARD_WITHIN_SECONDS = 3600.0
"""How long DONE or FAILED of a person's stop stays while nobody has got the message about it."""

SWITCHES_OFF = frozenset({"stop", "terminate", "hibernate"})
"""Kinds of cloud notices after which the machine is off."""

SOONER_SECONDS = 60.0
"""A second notice is news when its moment comes at least this much sooner."""


def advance(turn: Turn, *, bridged: bool, watched: bool) -> None:
    """What a tick does to the phase. ``watched``: ticks had no long gap; ``bridged``: and counters prove every GPU through it."""
    phase, incident = turn.core.phase, turn.core.incident
    if not watched:
        drop_fallback(turn)
        incident = turn.core.incident
    if phase in {DONE, FAILED}:
        _latched(turn, incident)
    elif phase != WATCHING and incident is None:
        turn.watch()
    elif incident is not None and phase == WARNING:
        _warning(turn, incident, bridged=bridged, watched=watched)
    elif incident is not None and phase in {ACTING, CONFIRMING}:
        (act_lost if phase == ACTING else confirm_again)(turn, incident)
        if turn.core.phase not in {DONE, FAILED} and not bridged and not incident.by_person:
            # if the next action follows, people are warned again in full (I7); not for a person's own stop
            turn.incident = turn.incident._replace(warned=None, announcement=Announcement(again_at=turn.at))
    if turn.core.phase == WATCHING:
        _watching(turn)


def _watching(turn: Turn) -> None:
    """Begin an incident when a reason holds; report a deadline that passed during work, at most daily."""
    if reason := reasons.choose(turn.situation):
        open_incident(turn, reason)
    elif turn.at >= turn.core.alarms.deadline_at and deadline.waits_for_work(turn.situation):
        limit = deadline.first(turn.situation).name
        turn.tell("deadline_passed", "warning", reason=reasons.DEADLINE.name, limit=limit)
        turn.alarms = turn.alarms._replace(deadline_at=turn.at + DAY_SECONDS)


def open_incident(turn: Turn, reason: str, owner: str = "") -> None:
    """Warn people, or say why nothing can be done."""
    turn.watch()
    link = first_link(turn)
    incident = Incident(turn.serial("i"), reason, owner, turn.at, link=link, action=turn.rules.actions[link])
    turn.core = turn.core._replace(phase=WARNING, incident=incident)
    if reason == PERSON:
        turn.incident = incident._replace(warned=turn.at)
        turn.core = turn.core._replace(stop_request=StopRequest(incident.id, owner, turn.at))
    elif turn.live and (why := cannot(turn)):
        finish(turn, "cannot", why)
    else:
        _warn(turn)


def _warn(turn: Turn) -> None:
    """Begin a countdown. Where the owner gives people no time to react, nothing waits for the delivery."""
    grace = turn.rules.policy.grace
    turn.incident = turn.incident._replace(warned=turn.at if grace <= 0 else None)
    turn.announcement = turn.announcement._replace(exhausted=False, reached="", reminded=0, unguarded=False, dated=0.0)
    _send_warning(turn, _seconds_to_go(turn), 1, rounds=turn.ending.rounds)


def _seconds_to_go(turn: Turn) -> float:
    """From a warning that is delivered now to the action."""
    return max(turn.rules.policy.grace, may_act_at(turn.core, turn.rules) - turn.at)


def _send_warning(turn: Turn, seconds: float, number: int, **facts: object) -> None:
    effect = turn.tell("warning", "warning", due_in_seconds=seconds, due_wall=turn.wall + seconds, **facts)
    dated = turn.announcement.dated or turn.at + seconds
    turn.announcement = turn.announcement._replace(
        effect=effect, attempts=number, again_at=NEVER, live=turn.live, dated=dated
    )
    turn.expect(time_limits.ANSWER_LOST_SECONDS)


def drop_fallback(turn: Turn) -> None:
    """After a gap, a person's stop that was sent does not fall back to the next action: nobody waits for it any more."""
    incident = turn.core.incident
    if incident is not None and incident.by_person and turn.core.phase in {ACTING, CONFIRMING}:
        turn.incident = incident._replace(link=len(turn.rules.actions))


def _warning(turn: Turn, incident: Incident, *, bridged: bool, watched: bool) -> None:
    """The countdown: take it back, wait, prepare, or act."""
    standing = reasons.standing(incident, turn.situation)
    blocked, attempt = standing.state == "blocked", incident.attempt
    if not (watched if incident.by_person else bridged):  # a person saw the GPUs when asking
        again = "" if incident.by_person else "; a new countdown begins unless work is seen"
        hole = "the guard saw nothing for a while" + again
        why = "work was seen" if works_now(turn.state) else hole
        back_to_watching(turn, f"costguard runs again; {why}" if incident.announcement.unguarded else why)
    elif standing.state == "no":
        back_to_watching(turn, standing.why)
    elif incident.announcement.unguarded:  # people were told that nobody would carry it out
        _warn(turn)
    elif incident.warned is None:
        _await_warning(turn, incident)
    else:
        due = due_at(turn.core, turn.rules)
        late = turn.at > due + time_limits.stale(turn.rules.policy.grace) and not incident.by_person
        # too long after the warning: warn again; a retry continues at its place in the list
        if late and blocked and (attempt.ready or not attempt.worker):  # an unready one could not have acted
            back_to_watching(turn, standing.why)
        elif late and not attempt.worker:
            _warn(turn)
        else:
            remind(turn, incident, due)
            act(turn, turn.incident, due, blocked=blocked)


def _await_warning(turn: Turn, incident: Incident) -> None:
    """Nobody has got the warning yet: send it again, or take it for lost."""
    announcement = incident.announcement
    if turn.at >= announcement.again_at:
        attempts = announcement.attempts + 1
        _send_warning(turn, _seconds_to_go(turn), attempts, attempts=attempts)
    elif announcement.effect and turn.at >= incident.outcome_deadline:
        lost = Outcome(turn.at, announcement.effect, "failed", "its delivery was never reported")
        _announcement_outcome(turn, incident, lost)


def leave(turn: Turn) -> None:
    """The guard ends during a countdown that people know of, or may know of: tell them that nobody carries it out now."""
    incident = turn.core.incident
    if turn.core.phase != WARNING or incident is None:
        return
    # a try that failed may have reached somebody, too; of the next action people know before its warning
    if incident.warned is not None or incident.announcement.attempts or incident.link:
        if turn.live:
            turn.tell("unguarded", "warning")
        turn.announcement = turn.announcement._replace(unguarded=True)


def back_to_watching(turn: Turn, why: str) -> None:
    """The reason ended, or may not act now: nothing happens, and people hear so."""
    abandon(turn)
    if turn.core.incident is not None:
        answer_request(turn, "withdrawn", why)
        level = "warning" if turn.core.incident.by_person else "info"
        turn.tell("cancelled", level, why=why, takes_back="warning", **_announced(turn))
    turn.watch()


def _announced(turn: Turn) -> dict[str, object]:
    """The mode in which people were warned, where it differs from the present one."""
    told = turn.announcement
    if told.live and not turn.live:
        return {"announced_live": True}
    return {"announced_dry": True} if turn.live and told.attempts and not told.live else {}


def _latched(turn: Turn, incident: Incident | None) -> None:
    """DONE waits for work; FAILED also tries again later, with a new warning."""
    failed, ending = turn.core.phase == FAILED, turn.ending
    if incident is not None and turn.at >= ending.disproved_at:
        runs_on(turn, incident)
    elif failed and incident is not None and incident.by_person and not incident.announcement.effect:
        turn.watch()  # given up, and people know: the machine's own rules apply again
    elif _work_ends(turn, incident):
        if failed:
            turn.tell("cancelled", "info", why="work was seen", takes_back="critical")
        elif incident is not None and ending.done == "acted" and _is_unheard(turn, incident):
            announce(turn, turn.at, incident.announcement.attempts + 1)  # the last that people heard is that it acts
        turn.watch()
        turn.ending = turn.ending._replace(rounds=0)
    elif turn.at >= ending.retry_at:
        turn.watch()
    elif turn.at >= ending.remind_at:
        turn.ending = ending._replace(remind_at=NEVER if ending.done in GOOD else turn.at + DAY_SECONDS)
        if incident is not None and incident.announcement.effect:
            announce(turn, turn.at, incident.announcement.attempts + 1)
        else:
            detail, money = incident.detail if incident else "", turn.cost(turn.at - ending.since)
            turn.tell("reminder", "critical", done=ending.done, error=detail, money=money)


def _is_unheard(turn: Turn, incident: Incident) -> bool:
    """Whether nobody has heard how it ended, and that is to be told again by now."""
    return bool(incident.announcement.effect) and turn.at >= turn.ending.remind_at


def _work_ends(turn: Turn, incident: Incident | None) -> bool:
    """Whether work takes the machine out of DONE or FAILED; for a deadline, only current work does."""
    state, rules, since = turn.state, turn.rules, turn.ending.since
    if turn.ending.disproved_at < NEVER:  # whoever heard *done* hears first that it was wrong
        return False
    unheard = incident is not None and incident.announcement.effect and turn.ending.done not in GOOD
    if unheard and turn.at < since + HEARD_WITHIN_SECONDS:
        return False  # the last that people heard is that it acts
    if incident is not None and incident.by_person:
        # perhaps requested during work: the machine's own rules apply again
        return bool(unheard) or work_seen(state, rules)
    if incident is None or not reasons.reason_of(incident).by_date:
        return work_seen(state, rules, since)  # *unused* may be shorter than the window
    if not rules.policy.stop_busy:
        return works_now(state)
    # it acted despite work, so work that goes on is not news; later work that has ended is
    return reached(turn.at, idle_at(state, rules)) and _worked_since(turn)


def _worked_since(turn: Turn) -> bool:
    """Whether a judged GPU was seen to work after DONE or FAILED began; a history that began anew proves nothing."""
    tracks = [turn.tracks[i] for i in turn.core.selection.judged]
    return any(track.since > max(track.known_since, turn.ending.since) for track in tracks if not track.busy)


def outcome(turn: Turn, event: Outcome) -> None:
    """What became of an effect; one that belongs to nothing open any more changes nothing."""
    turn.settle_message(event.effect)
    incident, phase, effect = turn.core.incident, turn.core.phase, event.effect
    checking = dict(entry.split(" ", 1) for entry in turn.core.plans.checking)
    if effect in checking:
        checked(turn, checking[effect], event)
    elif incident is None:
        return
    elif effect == incident.announcement.effect:
        _announcement_outcome(turn, incident, event)
    elif effect == incident.attempt.worker and phase in {WARNING, ACTING}:
        attempt_outcome(turn, incident, event)
    elif effect == incident.attempt.confirm_effect and phase == CONFIRMING:
        confirm_outcome(turn, incident, event)


def _announcement_outcome(turn: Turn, incident: Incident, event: Outcome) -> None:
    """Whether anybody got the warning, or the news of the end: else it is sent again, some times."""
    attempts, delivered = incident.announcement.attempts, event.status == "delivered"
    again_at = event.at + TELL_AGAIN_SECONDS * 2.0 ** (attempts - 1)
    over = delivered or attempts >= turn.rules.policy.warn_attempts
    awaited = turn.core.phase == WARNING and incident.warned is None
    if turn.core.phase in {DONE, FAILED}:
        if over:
            turn.announcement = turn.announcement._replace(effect="")
        else:
            turn.ending = turn.ending._replace(remind_at=min(turn.ending.remind_at, again_at))
        return
    if awaited and not delivered:
        turn.incident = turn.incident._replace(detail=event.detail)
        turn.announcement = turn.announcement._replace(dated=0.0)
    if awaited and not over:
        turn.announcement = turn.announcement._replace(effect="", again_at=again_at)
        return
    if awaited:
        turn.incident = turn.incident._replace(warned=event.at)
    elif incident.announcement.exhausted and not delivered:
        turn.announcement = turn.announcement._replace(effect="")
        return
    elif incident.announcement.exhausted:
        # somebody hears of it at last: `grace` from now on, and no less than the text says
        grace = turn.rules.policy.grace
        turn.incident = turn.incident._replace(warned=max(event.at, due_at(turn.core, turn.rules) - grace))
        turn.announcement = turn.announcement._replace(reminded=0, dated=0.0)
    reached = event.proof or ("somebody" if delivered else "")  # of an undelivered one: the terminals that took it
    turn.announcement = turn.announcement._replace(effect="", exhausted=not delivered, reached=reached)


def _awaited(earlier: Interruption, event: Notice) -> float:
    """The moment that people wait for since an earlier notice; never, when all of them are past.

    A notice without a date is repeated while it stands: what people were told of the first one holds.
    """
    moments = (earlier.soonest, earlier.due or NEVER)
    return earlier.soonest if not event.dated else min((at for at in moments if at > event.at), default=NEVER)


def notice(turn: Turn, event: Notice) -> None:
    """The cloud will end or interrupt the machine: tell people at once, and let no stop of our own race with it.

    A second notice is told only if it is worse: an end instead of an interruption, or much sooner than what people
    still wait for.
    """
    earlier, incident = turn.notice, turn.core.incident
    if earlier.due is None:
        news, notice = True, Interruption(event.due, event.due, event.kind)
    else:
        off = event.kind in SWITCHES_OFF
        worse = off and earlier.kind not in SWITCHES_OFF
        awaited = _awaited(earlier, event)
        news = worse or event.due <= awaited - SOONER_SECONDS
        kind = event.kind if off else earlier.kind
        notice = Interruption(max(earlier.due, event.due), min(awaited, event.due), kind)
    turn.notice = notice
    if turn.core.phase == WARNING and incident is not None and not incident.by_person:
        back_to_watching(turn, event.words)
    if news:
        if turn.live:
            turn.effects.append(Save(turn.serial("s"), turn.rules.actions[0], max(0.0, event.due - event.at)))
        when = {"due_in_seconds": event.due - event.at} if event.dated else {}
        turn.tell("notice", "critical", why=event.words, change=event.kind, **when)
