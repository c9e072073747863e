"""What happens in each phase: warn, act, confirm, latch, retry; and what people and the cloud ask for."""

from costguard.engine import reasons
from costguard.engine.attempt import (
    ANSWER_WITHIN,
    GOOD,
    abandon,
    act,
    act_lost,
    announce,
    attempt_failed,
    attempt_outcome,
    confirm_again,
    confirm_outcome,
    finish,
    third_stop,
)
from costguard.engine.effects import Answer, Save
from costguard.engine.events import AskHold, AskRelease, AskStop, Began, Notice, Outcome
from costguard.engine.state import (
    ACTING,
    CONFIRMING,
    DONE,
    FAILED,
    WARNING,
    WATCHING,
    Hold,
    Incident,
    Verdict,
)
from costguard.engine.turn import Turn, action_of
from costguard.engine.window import NEVER

TELL_PAUSE = 10.0
"""A warning that nobody got is repeated after 10, 20, … s, until its delivery rule is exhausted."""

PREFLIGHT_RETRY = 300.0
"""A preflight that failed technically is made again after so many seconds."""

PATIENCE = 60.0
"""How long past its time a blocked warning is kept before it is taken back."""

HOLDS_KEPT = 32
"""At most so many people hold at once; one of them has at most one hold."""

HOLD_TOLD_EVERY, HOLD_IS_NEWS = 60.0, 600.0
"""Holds of one person are told at most so often, in seconds; one that moves its end by more than this is always told."""

DAY = 86400.0

SWITCHES_OFF = frozenset({"stop", "terminate", "hibernate"})
"""Kinds of announcements after which the machine is off."""

SOONER = 60.0
"""Seconds by which an announced moment must come nearer to be news."""


def advance(turn: Turn, *, bridged: bool) -> None:
    """What a tick does to the phase."""
    phase = turn.core.phase
    if phase == WARNING:
        _warning(turn, bridged=bridged)
    elif phase == ACTING:
        act_lost(turn)
    elif phase == CONFIRMING:
        confirm_again(turn)
    elif phase in {DONE, FAILED}:
        _latched(turn)
    if phase in {ACTING, CONFIRMING} and turn.core.phase not in {DONE, FAILED} and not bridged:
        # should the next action of the list follow, people are warned of it in full (I7)
        turn.amend(warned=None, told="", tries=0, exhausted=False, retell=turn.at)
    if turn.core.phase == WATCHING:
        _watching(turn)


def _watching(turn: Turn) -> None:
    reason = reasons.choose(turn.state, turn.rules, turn.wall, synced=turn.synced)
    if reason:
        open_incident(turn, reason)
        return
    _tell_deadline(turn)


def _tell_deadline(turn: Turn) -> None:
    """A deadline that passed while work goes on is told, at most daily."""
    core, rules = turn.core, turn.rules
    passed = turn.at >= reasons.deadline_at(turn.state, rules, turn.wall, synced=turn.synced)
    if passed and reasons.may_work(turn.state, rules) and not rules.policy.stop_busy and turn.at >= core.deadline_told:
        turn.tell("deadline_passed", "warning", reason=reasons.DEADLINE)
        turn.set(deadline_told=turn.at + DAY)


def open_incident(turn: Turn, reason: str, owner: str = "") -> None:
    """Warn people, or say why nothing can be done."""
    new = Incident(id=turn.serial("i"), reason=reason, owner=owner, opened=turn.at)
    link = _first_link(turn)
    turn.set(incident=new._replace(link=link, action=turn.rules.actions[link]), phase=WARNING, done="")
    turn.set(again=NEVER, remind=NEVER)
    if turn.live and reason != reasons.PERSON and (why := _cannot(turn)):
        finish(turn, "cannot", why)
        return
    if reason == reasons.PERSON:
        turn.amend(warned=turn.at)
        return
    _warn(turn)


def _warn(turn: Turn) -> None:
    """Begin a countdown. Where the owner gives people no time to react, nothing waits for the delivery."""
    turn.amend(warned=turn.at if turn.rules.policy.grace <= 0 else None, exhausted=False)
    due = turn.at + turn.rules.policy.grace
    if turn.rules.ends_machine:
        due = max(due, turn.core.started + turn.rules.policy.boot_grace)
    told = turn.tell(
        "warning", "warning", due_in_seconds=due - turn.at, due_wall=turn.wall + due - turn.at, rounds=turn.core.rounds
    )
    turn.amend(told=told, tries=1, retell=NEVER, lost=turn.at + ANSWER_WITHIN)


def _first_link(turn: Turn) -> int:
    """The first action whose last plan did not point to another one."""
    verdicts = {plan.action: plan.verdict for plan in turn.core.plans}
    usable = (i for i, action in enumerate(turn.rules.actions) if verdicts.get(action) != "another")
    return next(usable, 0)


def _cannot(turn: Turn) -> str:
    """Why the action that is next cannot be carried out, as far as is known before trying."""
    action = action_of(turn.core.incident, turn.rules)
    plan = next((plan for plan in turn.core.plans if plan.action == action), None)
    if plan is not None and plan.verdict in {"refuse", "another"}:
        return "; ".join(text for _, text, _ in plan.findings) or f"the plan of {action} was refused"
    return third_stop(turn, action)


def _warning(turn: Turn, *, bridged: bool) -> None:
    """The countdown: take it back, wait, prepare, or act."""
    now = turn.core.incident
    if now is None:
        turn.set(phase=WATCHING)
        return
    if not bridged and now.reason != reasons.PERSON:
        back_to_watching(
            turn, "the guard did not see the machine for a while; the countdown begins again if nothing works"
        )
        return
    standing = reasons.standing(turn.state, turn.rules, now.reason, turn.wall, synced=turn.synced)
    if standing.holds == "no":
        back_to_watching(turn, standing.why)
        return
    if now.warned is None:
        if turn.at >= now.retell:
            _repeat_warning(turn, now)
        elif now.told and turn.at >= now.lost:
            _warning_told(turn, now, Outcome(turn.at, now.told, "failed", "nobody said whether anybody got it"))
        return
    due = reasons.due_at(turn.core, turn.rules)
    blocked = standing.holds == "blocked"
    if turn.at > due + max(PATIENCE, turn.rules.policy.grace) and now.reason != reasons.PERSON:
        # too long after its warning: people are warned anew, and a retry goes on where it was in the list
        if blocked:
            back_to_watching(turn, standing.why)
            return
        if not now.worker:
            _warn(turn)
            return
    act(turn, now, due, blocked=blocked)


def _repeat_warning(turn: Turn, now: Incident) -> None:
    grace = turn.rules.policy.grace
    told = turn.tell("warning", "warning", due_in_seconds=grace, due_wall=turn.wall + grace, attempts=now.tries + 1)
    turn.amend(told=told, tries=now.tries + 1, retell=NEVER, lost=turn.at + ANSWER_WITHIN)


def back_to_watching(turn: Turn, why: str) -> None:
    """The reason ended, or may not act now: nothing happens, and people hear so."""
    abandon(turn)
    if turn.core.incident is not None and turn.core.incident.reason != reasons.PERSON:
        turn.tell("cancelled", "info", why=why)
    turn.set(phase=WATCHING, incident=None)


def _latched(turn: Turn) -> None:
    """DONE waits for work; FAILED also tries again later, with a new warning."""
    core = turn.core
    if _work_ends(turn):
        if core.phase == FAILED:
            turn.tell("cancelled", "info", why="work was seen")
        turn.set(phase=WATCHING, done="", incident=None, rounds=0, again=NEVER, remind=NEVER)
        return
    if turn.at >= core.again:
        turn.set(phase=WATCHING, done="", incident=None, again=NEVER, remind=NEVER)
        return
    if turn.at >= core.remind:
        turn.set(remind=NEVER if core.done in GOOD else turn.at + DAY)
        if core.incident is not None and core.incident.told:
            announce(turn, core.incident.tries + 1)
            return
        detail = core.incident.detail if core.incident else ""
        turn.tell("reminder", "critical", done=core.done, error=detail, money=_money_since(turn, core.closed))


def _work_ends(turn: Turn) -> bool:
    """Whether work ends DONE or FAILED; a deadline goes by work now, if it heeds work at all."""
    now = turn.core.incident
    if now is not None and now.reason == reasons.DEADLINE:
        if not turn.rules.policy.stop_busy:
            return reasons.works_now(turn.state)
        # it acted against work, so going on is no news; work that came later and has ended is
        return turn.at + reasons.EPSILON >= reasons.idle_at(turn.state, turn.rules) and _worked_since(turn)
    return reasons.work_seen(turn.state, turn.rules)


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
    return None if price is None else max(0.0, off if limit is None else min(off, limit)) / 3600.0 * price


def outcome(turn: Turn, event: Outcome) -> None:
    """What became of an effect; one that belongs to nothing open any more changes nothing."""
    core = turn.core
    now = core.incident
    asked = dict(entry.split(" ", 1) for entry in core.checking)
    if event.effect in asked:
        _plan_known(turn, asked[event.effect], event)
    elif now is None:
        return
    elif event.effect == now.told and core.phase == WARNING and now.warned is None:
        _warning_told(turn, now, event)
    elif event.effect == now.told and core.phase in {DONE, FAILED}:
        _end_told(turn, now, event)
    elif event.effect == now.worker and core.phase in {WARNING, ACTING}:
        attempt_outcome(turn, now, event)
    elif event.effect == now.confirm and core.phase == CONFIRMING:
        confirm_outcome(turn, now, event)


def _plan_known(turn: Turn, action: str, event: Outcome) -> None:
    """Keep what the plan says; one that passes ends *cannot*, unless something else stands in the way."""
    core = turn.core
    before = next((plan.verdict for plan in core.plans if plan.action == action), "")
    checking = tuple(entry for entry in core.checking if not entry.startswith(event.effect + " "))
    turn.set(checking=checking)
    if event.status == "failed":
        turn.set(check=min(core.check, event.at + PREFLIGHT_RETRY))
        if before:
            return  # a check that failed takes back nothing of what an earlier one found
    others = tuple(plan for plan in core.plans if plan.action != action)
    turn.set(plans=(*others, Verdict(action, event.status, event.findings, event.at)))
    if event.status == "refuse" and before != "refuse":
        turn.tell("preflight_refused", "critical", action=action, findings=[list(f) for f in event.findings])
    if event.status not in {"go", "consequences"}:
        return
    now = core.incident
    latched = core.phase == DONE and core.done == "cannot" and now is not None and now.action == action
    refused = before in {"refuse", "another"} or (now is not None and now.asked is not None)  # else: a third stop
    unlatched = latched and refused and not _cannot(turn)
    if before == "refuse" or unlatched:
        turn.tell("preflight_passed", "info", action=action)
    if unlatched:
        turn.set(phase=WATCHING, done="", incident=None, remind=NEVER)


def _warning_told(turn: Turn, now: Incident, event: Outcome) -> None:
    if event.status == "delivered":
        turn.amend(warned=event.at, told="")
    elif now.tries >= turn.rules.policy.warn_attempts:
        turn.amend(warned=event.at, told="", exhausted=True, detail=event.detail)
    else:
        turn.amend(told="", retell=event.at + TELL_PAUSE * 2.0 ** (now.tries - 1), detail=event.detail)


def _end_told(turn: Turn, now: Incident, event: Outcome) -> None:
    """How an incident ended must reach somebody: it is told again, some times, when it did not."""
    if event.status == "delivered" or now.tries >= turn.rules.policy.warn_attempts:
        turn.amend(told="")
    else:
        turn.set(remind=min(turn.core.remind, event.at + TELL_PAUSE * 2.0 ** (now.tries - 1)))


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
        abandon(turn)
        turn.set(phase=WATCHING, incident=None)
    elif core.phase == FAILED:
        turn.set(phase=WATCHING, incident=None, again=NEVER, remind=NEVER)
    granted = Hold(event.owner, event.reason, event.at + seconds, event.wall + seconds)
    _grant(turn, granted, seconds, seconds - mine)
    cut = "" if seconds == event.seconds else f" (asked for {event.seconds:.0f} s; the limit cuts it)"
    _answer(turn, event.client, f"held for {seconds:.0f} s{cut}", done=True)


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
    """A person's own command: no warning, no window; only the administrator's hold refuses it."""
    core = turn.core
    if words := reasons.forbidden(core, turn.rules):
        _answer(turn, event.client, f"refused: {words}", done=False)
    elif core.phase in {ACTING, CONFIRMING}:
        _answer(turn, event.client, "already under way", done=False)
    else:
        abandon(turn)
        turn.set(holds=())
        open_incident(turn, reasons.PERSON, event.owner)
        _answer(turn, event.client, f"{action_of(turn.core.incident, turn.rules)} begins", done=True)


def _answer(turn: Turn, client: int | None, words: str, *, done: bool) -> None:
    if client is not None:
        turn.effects.append(Answer(client, done, words))


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
    turn.set(notice=latest, notice_soonest=soonest, notice_kind=kind)
    if turn.core.phase == WARNING:
        back_to_watching(turn, event.words)
    if not known:
        if turn.live:
            turn.effects.append(Save(turn.serial("s"), turn.rules.actions[0], max(0.0, event.due - event.at)))
        when = {"due_in_seconds": event.due - event.at} if event.dated else {}
        turn.tell("notice", "critical", why=event.words, change=event.kind, **when)


def begin_again(turn: Turn, event: Began) -> None:
    """The guard was restarted within the boot, or reloaded its policy."""
    core = turn.core
    # what the next tick was to begin again with is not forgotten when the guard ends before it
    fresh = core.fresh if core.fresh == "boot" or (core.fresh and event.why == "restart") else event.why
    turn.set(fresh=fresh, checking=(), check=event.at)
    now = core.incident
    if event.why == "reload":
        if core.phase == WARNING:
            back_to_watching(turn, "the configuration changed, or the guard had to begin again")
        elif core.phase in {DONE, FAILED}:
            turn.set(phase=WATCHING, done="", incident=None, again=NEVER, remind=NEVER)
        else:
            # the agent may have let go of the question too; what was released is out of reach, and has its limit
            if core.phase == CONFIRMING:
                turn.amend(confirm="", recheck=event.at)
            turn.amend(link=len(turn.rules.actions))  # what is under way does not go on down another policy's list
        turn.set(arm_since=None, plans=(), picked=())
        return
    if now is None:
        return
    if core.phase == WARNING:
        told_again = event.at if now.warned is None else NEVER
        tries = now.tries - 1 if now.told else now.tries  # whether that one was ever made nobody knows
        turn.amend(worker="", ready=False, told="", tries=tries, retell=told_again)
    elif core.phase == ACTING:
        attempt_failed(turn, now, "unknown", "the guard ended while the action ran")
    elif core.phase == CONFIRMING:
        turn.amend(confirm="", recheck=event.at)
    elif now.told:
        turn.set(remind=event.at)  # the guard ended before it knew that anybody had heard of the end


def resume(turn: Turn) -> None:
    """The machine slept: whatever was pending is closed, and this counts as a start."""
    core = turn.core
    now = core.incident
    if now is not None and core.phase in {WARNING, ACTING, CONFIRMING}:
        if now.asked is None:
            abandon(turn)
        turn.tell("came_back", "info", acted=now.asked is not None)
    turn.set(phase=WATCHING, done="", incident=None, armed=None, arm_since=None, alarm=None, again=NEVER, remind=NEVER)
    turn.set(started=turn.at, fresh="resume", rounds=0, notice=None)


def close_after_boot(turn: Turn) -> None:
    """The first tick of a boot: close what an earlier boot left open, and carry holds over."""
    core = turn.core
    now = core.incident
    if now is not None:
        stopped = core.saved_wall or None
        off = turn.wall - stopped if stopped else None
        saved = _not_spent(turn, off) if off is not None and now.asked is not None else None
        dates: dict[str, object] = {"off_seconds": off, "stopped_wall": stopped, "started_wall": turn.wall}
        turn.tell("closed", "info", incident=now.id, proof=now.proof, saved=saved, **dates)
    carried = []
    for hold_before in core.holds:
        # a date that is not sure shortens nothing: the time off then does not count
        left = hold_before.wall - turn.wall if turn.synced else hold_before.until - turn.at
        if left > 0:
            carried.append(hold_before._replace(until=turn.at + min(left, turn.rules.policy.hold_max)))
        else:
            turn.tell("hold_ended", "info", owner=hold_before.owner, hold=hold_before.reason)
    turn.set(incident=None, holds=tuple(carried))
