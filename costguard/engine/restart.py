"""What a restart, a reload, a sleep and a boot do to what is open."""

from costguard.engine.alarm import paused, scheduled
from costguard.engine.attempt import abandon, answer_request, attempt_failed
from costguard.engine.events import Began
from costguard.engine.incident import back_to_watching, drop_fallback
from costguard.engine.obstacles import due_at
from costguard.engine.pre_stop_hook import end_hook
from costguard.engine.state import ACTING, CONFIRMING, DONE, FAILED, OPEN, PASSED, WARNING, Hold, Incident
from costguard.engine.turn import Turn
from costguard.engine.window import NEVER

ANSWERS_SECONDS = 30.0
"""How long a guard that restarts in a countdown waits before it acts (at most `grace`), so that people whose request failed meanwhile
can repeat it."""

STARTED_AGAIN = "it was started again"
"""What became of a guard that had exited, as it was to."""


def begin_again(turn: Turn, event: Began) -> None:
    """The guard restarted within the boot, or reloaded its policy; if nothing changed, only plans are made again."""
    core = turn.core
    if event.why == "unchanged":
        _plan_anew(turn, event)
        return
    why = "restart" if event.why == "restart" else "reload"
    # keep a pending fresh start that no tick has handled yet
    kept = core.fresh_start in {"boot", "lost"} or (core.fresh_start and why == "restart")
    turn.core = core._replace(fresh_start=core.fresh_start if kept else why)
    _plan_anew(turn, event)
    if why == "reload":
        _reloaded(turn, event)
    else:
        turn.tell_again(event.at)
        if core.incident is not None:
            _restarted(turn, event, core.incident)


def _plan_anew(turn: Turn, event: Began) -> None:
    """Make every plan again, now."""
    verdicts = turn.core.plans.verdicts if event.proven else ()
    turn.plans = turn.plans._replace(
        verdicts=verdicts, checking=(), check_at=event.at, failed_rounds=0, round_failed=False
    )


CHANGED = {
    "reload": "the configuration has changed",
    "reconfigured": "costguard was restarted with another configuration",
    "upgrade": "costguard was restarted with another version",
    "tags": "instance tags have changed the settings",
    "error": "costguard had an internal error",
}
"""Why a countdown ends, in words, by the reason for which the engine begins again under other rules."""


def _reloaded(turn: Turn, event: Began) -> None:
    phase, incident, alarm = turn.core.phase, turn.core.incident, turn.alarms.unknown
    if phase == WARNING:
        # tags change nothing of what a person's stop goes by
        if event.why != "tags" or incident is None or not incident.by_person:
            back_to_watching(turn, CHANGED[event.why])
    elif phase in {DONE, FAILED}:
        turn.watch()
    elif incident is not None:
        # the question may have been dropped too; a request that was sent cannot be recalled, and has its own limit
        if phase == CONFIRMING:
            _ask_again(turn, event.at)
        # do not fall back to an action of the new policy's list
        turn.incident = turn.incident._replace(link=len(turn.rules.actions))
    turn.signals = turn.signals._replace(above_arm_since=None)
    turn.selection = turn.selection._replace(picked=())
    turn.ledger = turn.ledger._replace(unused=0.0)
    passed = tuple(plan for plan in turn.plans.verdicts if plan.verdict in PASSED)
    turn.plans = turn.plans._replace(verdicts=passed)
    if alarm is not None and alarm.next < NEVER:
        turn.alarms = turn.alarms._replace(unknown=scheduled(alarm, turn.rules))


def _ask_again(turn: Turn, at: float) -> None:
    turn.attempt = turn.attempt._replace(confirm_effect="", confirm_at=at)


def _restarted(turn: Turn, event: Began, incident: Incident) -> None:
    phase, announcement = turn.core.phase, incident.announcement
    drop_fallback(turn)
    if phase == WARNING and incident.by_person:
        back_to_watching(turn, "the guard restarted before it was carried out")
    elif phase == WARNING:
        again_at = event.at if incident.warned is None else NEVER
        attempts = announcement.attempts - bool(announcement.effect)  # the last one may never have been sent
        turn.attempt = turn.attempt._replace(worker="", ready=False)
        turn.incident = end_hook(turn.incident, event.at)  # it dies with its worker
        turn.announcement = announcement._replace(effect="", attempts=attempts, again_at=again_at)
        _put_off(turn, event.at)
    elif phase == ACTING:
        attempt_failed(turn, incident, "unknown", "the guard stopped while the action was running", event.at)
    elif phase == CONFIRMING:
        _ask_again(turn, event.at)
    elif incident.action == "end_process" and turn.core.ending.done == "acted":
        # do not announce an exit that is undone
        turn.announcement = announcement._replace(effect="")
        turn.ending = turn.ending._replace(remind_at=NEVER)
        turn.incident = turn.incident._replace(detail=STARTED_AGAIN)
    elif announcement.effect:  # the guard ended before it knew that anybody had heard of the end
        turn.ending = turn.ending._replace(remind_at=event.at)


def _put_off(turn: Turn, at: float) -> None:
    """Answer people who asked while the guard was down before acting; repeated kills gain at most `grace`."""
    incident, grace, due = turn.incident, turn.rules.policy.grace, due_at(turn.core, turn.rules)
    begins = max(due, at)  # when it would act
    seconds = min(at + min(ANSWERS_SECONDS, grace) - begins, grace - incident.put_off)
    if due < NEVER and seconds > 0.0:
        turn.incident = incident._replace(answers_until=begins + seconds, put_off=incident.put_off + seconds)


def resume(turn: Turn, asleep: float) -> None:
    """The machine slept: whatever was pending is closed, and this counts as a start."""
    incident = turn.core.incident
    if incident is not None and turn.core.phase in OPEN:
        abandon(turn)
        fate = "acted" if incident.requested else "withdrawn"
        answer_request(turn, fate, "the machine was suspended and resumed")
        turn.tell("came_back", "info", acted=incident.requested)
    turn.watch()
    turn.core = turn.core._replace(fresh_start="resume")
    turn.ending = turn.ending._replace(rounds=0, disproved=False)
    turn.notice = turn.notice._replace(due=None)
    turn.clocks = turn.clocks._replace(started=turn.at)
    turn.signals = turn.signals._replace(armed_at=None, above_arm_since=None)
    turn.alarms = turn.alarms._replace(unknown=paused(turn.alarms.unknown, turn.at - asleep))


def close_after_boot(turn: Turn) -> None:
    """The first tick of a boot: close what an earlier boot left open, and carry holds over."""
    incident = turn.core.incident
    if incident is not None and incident.requested:
        _closed(turn, incident)
    elif incident is not None:
        why = "the machine restarted in the meantime"
        turn.tell("cancelled", "info", incident=incident.id, why=why, takes_back="warning")
    carried = [_carried(turn, hold) for hold in turn.people.holds]
    turn.core = turn.core._replace(incident=None)
    turn.people = turn.people._replace(holds=tuple(hold for hold in carried if hold is not None))
    extensions = tuple(
        one._replace(until=turn.at + min(one.until - turn.at, _left(turn, one))) for one in turn.deadline.extensions
    )
    turn.deadline = turn.deadline._replace(extensions=extensions)


def _closed(turn: Turn, incident: Incident) -> None:
    """The machine was stopped, and runs again: for how long it was off, and what that saved at most."""
    stopped, started = turn.clocks.wall or None, None if turn.synced is False else turn.wall
    off = started - stopped if stopped and started and started > stopped else None  # else one of them is wrong
    limit = turn.rules.policy.saving_limit  # for at most so long the owner lets the estimate count
    saved = None if off is None else turn.cost(off if limit is None else min(off, limit))
    dates: dict[str, object] = {"off_seconds": off, "stopped_wall": stopped, "started_wall": started}
    turn.tell("closed", "info", incident=incident.id, proof=incident.proof, saved=saved, **dates)


def _carried(turn: Turn, hold: Hold) -> Hold | None:
    """A hold of an earlier boot with the time that it has left; None, and a message, once it is over."""
    left = _left(turn, hold)
    if left > 0:
        return hold._replace(until=turn.at + min(left, turn.rules.policy.hold_max))
    turn.tell("hold_ended", "info", owner=hold.owner, hold=hold.reason)
    return None


def _left(turn: Turn, hold: Hold) -> float:
    """What is left of a hold of an earlier boot; a date that is not sure shortens nothing: the time off does not count."""
    left = hold.until - turn.at
    return min(left, hold.wall - turn.wall) if turn.synced and turn.clocks.wall else left


def without_state(turn: Turn) -> None:
    """The first tick after the state was lost within the boot: people hear of it, and of what is taken back."""
    incident = turn.core.incident
    if incident is not None and not incident.requested:
        turn.tell("cancelled", "warning", why="costguard lost its state for this boot")
        turn.core = turn.core._replace(incident=None)
    drop_fallback(turn)
    turn.tell("state_lost", "warning")
