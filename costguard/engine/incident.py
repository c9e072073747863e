"""What happens in each phase: warn, act, confirm, latch, retry; and what the cloud and a restart do to it."""

from costguard.engine import deadlines, overdue, reasons
from costguard.engine.alarm import timed, waiting
from costguard.engine.attempt import (
    GOOD,
    abandon,
    act,
    act_lost,
    announce,
    answer_wish,
    attempt_failed,
    attempt_outcome,
    confirm_again,
    confirm_outcome,
    finish,
    refusal,
    third_stop,
)
from costguard.engine.effects import Save
from costguard.engine.events import Began, Notice, Outcome
from costguard.engine.idleness import idle_at, work_seen, works_now
from costguard.engine.obstacles import due_at, may_act_at
from costguard.engine.rules import reached
from costguard.engine.state import (
    ACTING,
    CONFIRMING,
    DONE,
    FAILED,
    PASSED,
    PERSON,
    WARNING,
    WATCHING,
    Incident,
    Verdict,
    Wish,
)
from costguard.engine.turn import Turn, action_of
from costguard.engine.window import NEVER

TELL_PAUSE = 10.0
"""A warning that nobody got is repeated after 10, 20, … s, until its delivery rule is exhausted."""

HEARD_WITHIN = 3600.0
"""Seconds for which the end of a person's stop stays open, until somebody heard of it."""

DAY = 86400.0

SWITCHES_OFF = frozenset({"stop", "terminate", "hibernate"})
"""Kinds of announcements after which the machine is off."""

SOONER = 60.0
"""Seconds by which an announced moment must come nearer to be news."""


def advance(turn: Turn, *, bridged: bool, watched: bool) -> None:
    """What a tick does to the phase. ``watched``: since the tick before, the guard was not away."""
    phase = turn.core.phase
    if not watched:
        _wish_outlived(turn)
    if phase == WARNING:
        _warning(turn, bridged=bridged, watched=watched)
    elif phase == ACTING:
        act_lost(turn)
    elif phase == CONFIRMING:
        confirm_again(turn)
    elif phase in {DONE, FAILED}:
        _latched(turn)
    if phase in {ACTING, CONFIRMING} and turn.core.phase not in {DONE, FAILED} and not bridged:
        # should the next action of the list follow, people are warned of it in full (I7)
        turn.incident = turn.incident._replace(
            warned=None, told="", tries=0, exhausted=False, reached="", retell=turn.at
        )
    if turn.core.phase == WATCHING:
        _watching(turn)


def _watching(turn: Turn) -> None:
    reason = reasons.choose(turn.moment)
    if reason:
        open_incident(turn, reason)
        return
    _tell_deadline(turn)


def _tell_deadline(turn: Turn) -> None:
    """A deadline that passed while work goes on is told, at most daily."""
    if turn.at >= turn.core.deadline_told and overdue.waits_for_work(
        turn.state, turn.rules, turn.wall, synced=turn.synced
    ):
        turn.tell("deadline_passed", "warning", reason=reasons.DEADLINE.name)
        turn.core = turn.core._replace(deadline_told=turn.at + DAY)


def open_incident(turn: Turn, reason: str, owner: str = "") -> None:
    """Warn people, or say why nothing can be done."""
    new = Incident(id=turn.serial("i"), reason=reason, owner=owner, opened=turn.at)
    link = _first_link(turn)
    turn.core = turn.core._replace(
        incident=new._replace(link=link, action=turn.rules.actions[link]), phase=WARNING, done=""
    )
    turn.core = turn.core._replace(again=NEVER, remind=NEVER)
    if turn.live and reason != PERSON and (why := _cannot(turn)):
        finish(turn, "cannot", why)
        return
    if reason == PERSON:
        turn.incident = turn.incident._replace(warned=turn.at)
        turn.core = turn.core._replace(wish=Wish(new.id, owner, turn.at))
        return
    _warn(turn)


def _warn(turn: Turn) -> None:
    """Begin a countdown. Where the owner gives people no time to react, nothing waits for the delivery."""
    turn.incident = turn.incident._replace(
        warned=turn.at if turn.rules.policy.grace <= 0 else None, exhausted=False, reached=""
    )
    due = max(turn.at + turn.rules.policy.grace, may_act_at(turn.core, turn.rules))
    told = turn.tell(
        "warning", "warning", due_in_seconds=due - turn.at, due_wall=turn.wall + due - turn.at, rounds=turn.core.rounds
    )
    turn.incident = turn.incident._replace(told=told, tries=1, retell=NEVER, lost=turn.at + deadlines.ANSWER_LOST)


def _first_link(turn: Turn) -> int:
    """The first action whose last plan did not point to another one."""
    verdicts = {plan.action: plan.verdict for plan in turn.core.plans}
    usable = (i for i, action in enumerate(turn.rules.actions) if verdicts.get(action) != "another")
    return next(usable, 0)


def _cannot(turn: Turn) -> str:
    """Why the action that is next cannot be carried out, as far as is known before trying."""
    action = action_of(turn.core.incident, turn.rules)
    return refusal(turn, action) or third_stop(turn, action)


def _wish_outlived(turn: Turn) -> None:
    """A person's stop that is out does not go on down the list after a hole: nobody waits for it any more."""
    incident = turn.core.incident
    if incident is not None and incident.by_person and turn.core.phase in {ACTING, CONFIRMING}:
        turn.incident = turn.incident._replace(link=len(turn.rules.actions))


def _warning(turn: Turn, *, bridged: bool, watched: bool) -> None:
    """The countdown: take it back, wait, prepare, or act."""
    incident = turn.core.incident
    if incident is None:
        turn.core = turn.core._replace(phase=WATCHING)
        return
    if incident.by_person:
        if not watched:  # whoever asked has looked at the GPUs of that moment
            back_to_watching(turn, "the guard did not see the machine for a while")
            return
    elif not bridged:
        back_to_watching(
            turn, "the guard did not see the machine for a while; the countdown begins again if nothing works"
        )
        return
    standing = reasons.standing(incident, turn.moment)
    if standing.holds == "no":
        back_to_watching(turn, standing.why)
        return
    if incident.warned is None:
        if turn.at >= incident.retell:
            _repeat_warning(turn, incident)
        elif incident.told and turn.at >= incident.lost:
            _warning_told(
                turn, incident, Outcome(turn.at, incident.told, "failed", "nobody said whether anybody got it")
            )
        return
    due = due_at(turn.core, turn.rules)
    blocked = standing.holds == "blocked"
    if turn.at > due + deadlines.stale(turn.rules.policy.grace) and not incident.by_person:
        # too long after its warning: people are warned anew, and a retry goes on where it was in the list
        if blocked and (incident.ready or not incident.worker):  # a worker that is not ready could not act yet
            back_to_watching(turn, standing.why)
            return
        if not incident.worker:
            _warn(turn)
            return
    act(turn, incident, due, blocked=blocked)


def _repeat_warning(turn: Turn, incident: Incident) -> None:
    grace = turn.rules.policy.grace
    told = turn.tell(
        "warning", "warning", due_in_seconds=grace, due_wall=turn.wall + grace, attempts=incident.tries + 1
    )
    turn.incident = turn.incident._replace(
        told=told, tries=incident.tries + 1, retell=NEVER, lost=turn.at + deadlines.ANSWER_LOST
    )


def back_to_watching(turn: Turn, why: str) -> None:
    """The reason ended, or may not act now: nothing happens, and people hear so."""
    abandon(turn)
    if turn.core.incident is not None:
        answer_wish(turn, "withdrawn", why)
        turn.tell("cancelled", "warning" if turn.core.incident.by_person else "info", why=why)
    turn.core = turn.core._replace(phase=WATCHING, incident=None)


def _latched(turn: Turn) -> None:
    """DONE waits for work; FAILED also tries again later, with a new warning."""
    core = turn.core
    incident = core.incident
    if core.phase == FAILED and incident is not None and incident.by_person and not incident.told:
        # it was given up, and that was told: the machine's own rules go on
        turn.core = turn.core._replace(phase=WATCHING, incident=None, again=NEVER, remind=NEVER)
        return
    if _work_ends(turn):
        if core.phase == FAILED:
            turn.tell("cancelled", "info", why="work was seen")
        turn.core = turn.core._replace(phase=WATCHING, done="", incident=None, rounds=0, again=NEVER, remind=NEVER)
        return
    if turn.at >= core.again:
        turn.core = turn.core._replace(phase=WATCHING, done="", incident=None, again=NEVER, remind=NEVER)
        return
    if turn.at >= core.remind:
        turn.core = turn.core._replace(remind=NEVER if core.done in GOOD else turn.at + DAY)
        if core.incident is not None and core.incident.told:
            announce(turn, core.incident.tries + 1)
            return
        detail = core.incident.detail if core.incident else ""
        turn.tell("reminder", "critical", done=core.done, error=detail, money=_money_since(turn, core.closed))


def _work_ends(turn: Turn) -> bool:
    """Whether work ends DONE or FAILED; a deadline goes by work now, if it heeds work at all."""
    incident = turn.core.incident
    if incident is not None and incident.by_person and incident.told and turn.core.done not in GOOD:
        return turn.at >= turn.core.closed + HEARD_WITHIN  # asked for beside work: that it failed must be heard first
    if incident is not None and reasons.reason_of(incident).by_date:
        if not turn.rules.policy.stop_busy:
            return works_now(turn.state)
        # it acted against work, so going on is no news; work that came later and has ended is
        return reached(turn.at, idle_at(turn.state, turn.rules)) and _worked_since(turn)
    if incident is not None and incident.by_person:
        return work_seen(turn.state, turn.rules)  # asked for beside work, perhaps: the machine's own rules go on
    return work_seen(turn.state, turn.rules, turn.core.closed)  # *unused* may be shorter than the window


def _worked_since(turn: Turn) -> bool:
    """Whether a judged GPU was seen to work after DONE or FAILED began; a history that began anew proves nothing."""
    tracks = [turn.tracks[i] for i in turn.core.judged]
    return any(track.since > max(track.known_since, turn.core.closed) for track in tracks if not track.loud)


def _money_since(turn: Turn, since: float) -> float | None:
    price = turn.rules.policy.price_per_hour
    return None if price is None else (turn.at - since) / 3600.0 * price


def _not_spent(turn: Turn, off: float) -> float | None:
    """What the machine would have cost meanwhile: an estimate, for at most so long as the owner lets it count."""
    price, limit = turn.rules.policy.price_per_hour, turn.rules.policy.saving_limit
    return None if price is None else (off if limit is None else min(off, limit)) / 3600.0 * price


def outcome(turn: Turn, event: Outcome) -> None:
    """What became of an effect; one that belongs to nothing open any more changes nothing."""
    core = turn.core
    incident = core.incident
    asked = dict(entry.split(" ", 1) for entry in core.checking)
    if event.effect in asked:
        _plan_known(turn, asked[event.effect], event)
    elif incident is None:
        return
    elif event.effect == incident.told and core.phase == WARNING and incident.warned is None:
        _warning_told(turn, incident, event)
    elif event.effect == incident.told and core.phase in {DONE, FAILED}:
        _end_told(turn, incident, event)
    elif event.effect == incident.told:  # a warning for which nothing waited
        _heard(turn, event)
    elif event.effect == incident.worker and core.phase in {WARNING, ACTING}:
        attempt_outcome(turn, incident, event)
    elif event.effect == incident.confirm and core.phase == CONFIRMING:
        confirm_outcome(turn, incident, event)


def _plan_known(turn: Turn, action: str, event: Outcome) -> None:
    """Keep what the plan says; one that passes ends *cannot*, unless something else stands in the way."""
    core = turn.core
    before = next((plan.verdict for plan in core.plans if plan.action == action), "")
    checking = tuple(entry for entry in core.checking if not entry.startswith(event.effect + " "))
    turn.core = turn.core._replace(checking=checking, check_since=core.check_since if checking else None)
    if event.status == "failed":
        _check_again(turn, event.at)
        if before:
            return  # a check that failed takes back nothing of what an earlier one found
    elif not checking and not core.check_soon:
        turn.core = turn.core._replace(check_tries=0)
    others = tuple(plan for plan in core.plans if plan.action != action)
    turn.core = turn.core._replace(plans=(*others, Verdict(action, event.status, event.findings, event.at)))
    if event.status == "refuse" and before != "refuse":
        turn.tell("preflight_refused", "critical", action=action, findings=[list(f) for f in event.findings])
    if event.status not in PASSED:
        return
    incident = core.incident
    latched = core.phase == DONE and core.done == "cannot" and incident is not None and incident.action == action
    refused = before in {"refuse", "another"} or (
        incident is not None and incident.asked is not None
    )  # else: a third stop
    unlatched = latched and refused and not _cannot(turn)
    if before == "refuse" or unlatched:
        turn.tell("preflight_passed", "info", action=action)
    if unlatched:
        turn.core = turn.core._replace(phase=WATCHING, done="", incident=None, remind=NEVER)


def _check_again(turn: Turn, at: float) -> None:
    """What could not be checked is checked again, after a pause that grows with each round that failed."""
    core = turn.core
    if not core.check_soon:  # of several actions the first that fails counts
        tries = core.check_tries + 1
        turn.core = turn.core._replace(
            check_tries=tries, check_soon=True, check=min(core.check, at + deadlines.pause(tries))
        )


def _warning_told(turn: Turn, incident: Incident, event: Outcome) -> None:
    if event.status == "delivered":
        turn.incident = turn.incident._replace(warned=event.at)
        _heard(turn, event)
    elif incident.tries >= turn.rules.policy.warn_attempts:
        turn.incident = turn.incident._replace(warned=event.at, detail=event.detail)
        _heard(turn, event)
    else:
        turn.incident = turn.incident._replace(
            told="", retell=event.at + TELL_PAUSE * 2.0 ** (incident.tries - 1), detail=event.detail
        )


def _heard(turn: Turn, event: Outcome) -> None:
    """Whom the warning reached; what people read says nothing else."""
    delivered = event.status == "delivered"
    turn.incident = turn.incident._replace(
        told="", exhausted=not delivered, reached=(event.proof or "somebody") if delivered else ""
    )


def _end_told(turn: Turn, incident: Incident, event: Outcome) -> None:
    """How an incident ended must reach somebody: it is told again, some times, when it did not."""
    if event.status == "delivered" or incident.tries >= turn.rules.policy.warn_attempts:
        turn.incident = turn.incident._replace(told="")
    else:
        turn.core = turn.core._replace(
            remind=min(turn.core.remind, event.at + TELL_PAUSE * 2.0 ** (incident.tries - 1))
        )


def notice(turn: Turn, event: Notice) -> None:
    """The cloud will take or interrupt the machine: told at once, and no own stop races with it.

    What is announced while another one is open is told when it is worse: an end after an interruption, or much sooner.
    """
    core = turn.core
    if core.notice is None:
        known, latest, soonest, kind = False, event.due, event.due, event.kind
    else:
        off = event.kind in SWITCHES_OFF
        known = (not off or core.notice_kind in SWITCHES_OFF) and event.due > core.notice_soonest - SOONER
        latest, soonest = max(core.notice, event.due), min(core.notice_soonest, event.due)
        kind = event.kind if off else core.notice_kind
    turn.core = turn.core._replace(notice=latest, notice_soonest=soonest, notice_kind=kind)
    if core.phase == WARNING and core.incident is not None and not core.incident.by_person:
        back_to_watching(turn, event.words)
    if not known:
        if turn.live:
            turn.effects.append(Save(turn.serial("s"), turn.rules.actions[0], max(0.0, event.due - event.at)))
        when = {"due_in_seconds": event.due - event.at} if event.dated else {}
        turn.tell("notice", "critical", why=event.words, change=event.kind, **when)


def begin_again(turn: Turn, event: Began) -> None:
    """The guard was restarted within the boot, or reloaded its policy."""
    core = turn.core
    why = "restart" if event.why == "restart" else "reload"
    # what the next tick was to begin again with is not forgotten when the guard ends before it
    fresh = core.fresh if core.fresh in {"boot", "lost"} or (core.fresh and why == "restart") else why
    plans = core.plans if event.proven else ()
    turn.core = turn.core._replace(
        fresh=fresh, plans=plans, checking=(), check=event.at, check_tries=0, check_soon=False
    )
    if why == "reload":
        _reloaded(turn, event)
    elif core.incident is not None:
        _restarted(turn, event, core.incident)


def _reloaded(turn: Turn, event: Began) -> None:
    core = turn.core
    if core.phase == WARNING:
        # tags change nothing of what a person's stop goes by
        if event.why != "tags" or core.incident is None or not core.incident.by_person:
            back_to_watching(turn, "the configuration changed, or the guard had to begin again")
    elif core.phase in {DONE, FAILED}:
        turn.core = turn.core._replace(phase=WATCHING, done="", incident=None, again=NEVER, remind=NEVER)
    elif core.incident is not None:
        # the agent may have let go of the question too; what was released is out of reach, and has its limit
        if core.phase == CONFIRMING:
            turn.incident = turn.incident._replace(confirm="", recheck=event.at)
        # what is under way does not go on down another policy's list
        turn.incident = turn.incident._replace(link=len(turn.rules.actions))
    passed = tuple(plan for plan in core.plans if plan.verdict in PASSED)
    turn.core = turn.core._replace(arm_since=None, picked=(), plans=passed, unused=0.0)
    if core.alarm is not None and core.alarm.next < NEVER:
        turn.core = turn.core._replace(alarm=timed(core.alarm, turn.rules))


def _restarted(turn: Turn, event: Began, incident: Incident) -> None:
    phase = turn.core.phase
    _wish_outlived(turn)
    if phase == WARNING and incident.by_person:
        back_to_watching(turn, "the guard was started again before it was carried out")
    elif phase == WARNING:
        told_again = event.at if incident.warned is None else NEVER
        tries = incident.tries - 1 if incident.told else incident.tries  # whether that one was ever made nobody knows
        turn.incident = turn.incident._replace(worker="", ready=False, told="", tries=tries, retell=told_again)
    elif phase == ACTING:
        attempt_failed(turn, incident, "unknown", "the guard ended while the action ran", event.at)
    elif phase == CONFIRMING:
        turn.incident = turn.incident._replace(confirm="", recheck=event.at)
    elif incident.told:
        turn.core = turn.core._replace(
            remind=event.at
        )  # the guard ended before it knew that anybody had heard of the end


def resume(turn: Turn, asleep: float) -> None:
    """The machine slept: whatever was pending is closed, and this counts as a start."""
    core = turn.core
    incident = core.incident
    if incident is not None and core.phase in {WARNING, ACTING, CONFIRMING}:
        abandon(turn)
        answer_wish(turn, "withdrawn" if incident.asked is None else "acted", "the machine was suspended and came back")
        turn.tell("came_back", "info", acted=incident.asked is not None)
    turn.core = turn.core._replace(
        phase=WATCHING, done="", incident=None, armed=None, arm_since=None, again=NEVER, remind=NEVER
    )
    turn.core = turn.core._replace(alarm=waiting(core.alarm, turn.at - asleep))
    turn.core = turn.core._replace(started=turn.at, fresh="resume", rounds=0, notice=None)


def close_after_boot(turn: Turn) -> None:
    """The first tick of a boot: close what an earlier boot left open, and carry holds over."""
    core = turn.core
    incident = core.incident
    if incident is not None and incident.asked is None:
        turn.tell("cancelled", "info", incident=incident.id, why="interrupted by a restart of the machine")
    elif incident is not None:
        stopped, started = core.saved_wall or None, None if turn.synced is False else turn.wall
        off = started - stopped if stopped and started and started > stopped else None  # else one of them is wrong
        saved = _not_spent(turn, off) if off is not None else None
        dates: dict[str, object] = {"off_seconds": off, "stopped_wall": stopped, "started_wall": started}
        turn.tell("closed", "info", incident=incident.id, proof=incident.proof, saved=saved, **dates)
    carried = []
    for hold_before in core.holds:
        left = hold_before.until - turn.at
        if turn.synced and core.saved_wall:  # else a date is not sure and shortens nothing: the time off does not count
            left = min(left, hold_before.wall - turn.wall)
        if left > 0:
            carried.append(hold_before._replace(until=turn.at + min(left, turn.rules.policy.hold_max)))
        else:
            turn.tell("hold_ended", "info", owner=hold_before.owner, hold=hold_before.reason)
    turn.core = turn.core._replace(incident=None, holds=tuple(carried))


def without_state(turn: Turn) -> None:
    """The first tick after the state was lost within the boot: people hear of it, and of what is taken back."""
    incident = turn.core.incident
    if incident is not None and incident.asked is None:
        turn.tell("cancelled", "warning", why="costguard lost what it remembered of this boot")
        turn.core = turn.core._replace(incident=None)
    _wish_outlived(turn)
    turn.tell("state_lost", "warning")
