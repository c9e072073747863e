"""One attempt at an action: prepare, release, and find out what became of it."""

from costguard.engine import time_limits
from costguard.engine.effects import Abandon, Confirm, Go, Leave, Prepare
from costguard.engine.events import Outcome
from costguard.engine.plans import REFUSED, already_ended, first_link, refusal, third_stop
from costguard.engine.policy import REPEATABLE
from costguard.engine.pre_stop_hook import HOOK_DONE, HOOK_FAILED, end_hook
from costguard.engine.rules import DAY_SECONDS, is_machine_action, reached
from costguard.engine.state import (
    ACTING,
    CONFIRMING,
    DONE,
    FAILED,
    UNDATED,
    WARNING,
    Announcement,
    Attempt,
    Incident,
    Verdict,
)
from costguard.engine.turn import Turn
from costguard.engine.window import NEVER
from costguard.engine.wording import wording_of

RETRY_SECONDS = 15.0
TRIES_PER_LINK = 4
"""Tries of one action, 15, 30 and 60 s apart, before the next action of the list."""

FIRST_CONFIRM_SECONDS = 5.0
CONFIRM_EVERY_SECONDS = 30.0
"""Seconds from acceptance to the first look at the outcome, and at most between two looks."""

CONFIRM_WITHIN_SECONDS = time_limits.HAPPENS_WITHIN_SECONDS
"""An accepted request that shows no effect within this time has failed."""

STOPPING_WITHIN_SECONDS = time_limits.STOPS_WITHIN_SECONDS
"""How long a machine may take to stop once it is seen stopping."""

RUNS_ON_SECONDS = time_limits.HAPPENS_WITHIN_SECONDS
"""A guard that still runs so long after its machine was confirmed as ended disproves that."""

NOTHING_HAPPENED = "the request was accepted, and nothing has happened"
WAIT_SECONDS = {"accepted": CONFIRM_WITHIN_SECONDS, "pending": STOPPING_WITHIN_SECONDS}
"""By what the confirmation shows: how long that may last before the request counts as failed."""

ENDS = {"acted": "done", "would": "would_act", "cannot": "cannot", "unknown": "outcome_unknown"}
GOOD = frozenset({"acted", "would"})
"""The message of each end of an incident; and the ends that need no follow-up."""

FIRST_ROUND_SECONDS = 3600.0
"""Pause before a list of actions that failed is tried anew: doubled each time, a day at most."""

STOPS_KEPT = 9
"""How many earlier stops are remembered, beside the last one; no rule looks at more."""


def act(turn: Turn, incident: Incident, due: float, *, blocked: bool) -> None:
    """Prepare in time; when due, release the waiting worker on this tick's readings (I3)."""
    attempt, free = incident.attempt, reached(turn.at, due) and not blocked
    if not turn.live or incident.action == "end_process":
        if free:
            _without_worker(turn, incident)
    elif not attempt.worker and turn.at >= max(due - time_limits.LEAD_SECONDS, attempt.retry_at):
        worker = turn.serial("a")
        turn.effects.append(Prepare(worker, incident.action, incident.id))
        turn.attempt = attempt._replace(worker=worker, ready=False)
        turn.expect(time_limits.PREPARE_LOST_SECONDS)
    elif attempt.worker and not attempt.ready and turn.at >= incident.outcome_deadline:
        turn.effects.append(Abandon(attempt.worker))
        attempt_failed(turn, incident, "failed", "the worker never became ready", turn.at)
    elif attempt.ready and free and (incident.by_person or not turn.hook_works):  # no person waits for GPUs to settle
        why = "" if incident.by_person else third_stop(turn, incident.action)
        if why:  # the date became doubtful since the warning
            finish(turn, "cannot", why)
        else:
            _release(turn, incident)


def _release(turn: Turn, incident: Incident) -> None:
    worker, action = incident.attempt.worker, incident.action
    turn.effects.append(Go(worker, action, incident.id))
    if not incident.attempt.announced:  # a retry is not news
        turn.tell("acting", "warning", attempt=worker)
    turn.core = turn.core._replace(phase=ACTING)
    turn.attempt = turn.attempt._replace(requested_at=turn.at, announced=True)
    if is_machine_action(action) and not incident.by_person:
        date = UNDATED if turn.synced is False else turn.wall
        turn.ledger = turn.ledger._replace(stops=(*turn.ledger.stops[-STOPS_KEPT:], date))


def _without_worker(turn: Turn, incident: Incident) -> None:
    """A dry run ends here; so does end_process, which is nothing but the guard's own exit."""
    if not turn.live:
        link = first_link(turn, incident.link)
        if link > incident.link:  # a plan newer than the warning chose a later action
            turn.incident = incident._replace(link=link, action=turn.rules.actions[link])
        why = refusal(turn, turn.incident.action)
        finish(turn, "cannot" if why else "would", why)
        return
    turn.tell("acting", "info")
    turn.effects.append(Leave(0))
    finish(turn, "acted")


def finish(turn: Turn, done: str, detail: str = "") -> None:
    """Latch DONE until work is seen again; ``done`` says which kind: acted, would, cannot or unknown."""
    if done == "cannot" and already_ended(turn, turn.incident.action) and not turn.ending.disproved:
        done = "acted"  # by somebody else
    abandon(turn)
    turn.incident = turn.incident._replace(detail=detail)
    answer_request(turn, done, detail)
    turn.core = turn.core._replace(phase=DONE)
    remind_at = NEVER if done in GOOD else turn.at + DAY_SECONDS
    failed_before = turn.ending.rounds > 0
    ended = done == "acted" and is_machine_action(turn.incident.action)
    disproved_at = turn.at + RUNS_ON_SECONDS if ended else NEVER
    turn.ending = turn.ending._replace(
        done=done, since=turn.at, remind_at=remind_at, rounds=0, disproved_at=disproved_at
    )
    announce(turn, turn.at, failed_before=failed_before)


def answer_request(turn: Turn, fate: str, message: str) -> None:
    """Record how a person's stop ended, for whoever waits for the answer."""
    incident, request = turn.core.incident, turn.core.stop_request
    if incident is not None and request is not None and request.incident == incident.id and not request.fate:
        turn.core = turn.core._replace(stop_request=request._replace(fate=fate, message=message, ended=turn.at))


def announce(turn: Turn, at: float, attempts: int = 1, *, failed_before: bool = False) -> None:
    """Tell how the incident ended, at the moment ``at``; `incident.outcome` follows up whether anybody got it.

    ``failed_before``: people were told that it failed.
    """
    incident, ending = turn.core.incident, turn.ending
    if incident is None:
        return
    tries = {"attempts": attempts} if attempts > 1 else {}
    if turn.core.phase == FAILED:
        # a person's own stop is given up: nobody counts on it in an hour, and the machine's own rules go on
        again = {} if incident.by_person else {"retry_in_seconds": ending.retry_at - at}
        effect = turn.tell("failed", "critical", error=incident.detail, rounds=ending.rounds, **again, **tries)
    else:
        level = "info" if ending.done in GOOD else "critical"
        takes_back = {"takes_back": "critical"} if failed_before else {}
        facts: dict[str, object] = {"error": incident.detail, "proof": incident.proof, **tries, **takes_back}
        effect = turn.tell(ENDS[ending.done], level, **facts)
    turn.announcement = turn.announcement._replace(effect=effect, attempts=attempts)


def abandon(turn: Turn) -> None:
    """End a worker that still waits; one that was released is out of reach."""
    incident = turn.core.incident
    if incident is not None and incident.attempt.worker and not incident.requested:
        turn.effects.append(Abandon(incident.attempt.worker))
        turn.attempt = turn.attempt._replace(worker="", ready=False)


def attempt_outcome(turn: Turn, incident: Incident, event: Outcome) -> None:
    """What the worker of the attempt reports, before and after it was released."""
    if event.status == "saving":
        first = incident.hook_began is None or incident.hook_ended is not None  # a hook that was cut off runs again
        if turn.core.phase == WARNING and not incident.attempt.ready and first:
            turn.incident = incident._replace(hook_began=event.at, hook_ended=None)
    elif turn.core.phase == WARNING:
        _prepared(turn, incident, event)
    elif event.status == "accepted":
        turn.core = turn.core._replace(phase=CONFIRMING)
        turn.incident = turn.incident._replace(proof=event.proof, receipt=event.receipt or incident.receipt, detail="")
        turn.attempt = turn.attempt._replace(confirm_at=event.at + FIRST_CONFIRM_SECONDS)
        turn.tell("accepted", "warning", proof=event.proof)
    elif event.status == "done":
        turn.incident = turn.incident._replace(proof=event.proof, receipt=event.receipt or incident.receipt)
        finish(turn, "acted")
    elif event.status == "refused":
        _did_not_stop(turn, incident)
        _refused(turn, incident, event)
    else:
        attempt_failed(turn, incident, event.status, event.detail, event.at)


def _prepared(turn: Turn, incident: Incident, event: Outcome) -> None:
    """What the worker says before it is released; *ready* stands for the verdict go or consequences."""
    if event.status in {"ready", *REFUSED}:
        of_action = tuple(finding for finding in event.findings if finding[0] not in {HOOK_DONE, HOOK_FAILED})
        verdict = ("consequences" if of_action else "go") if event.status == "ready" else event.status
        turn.plans = turn.plans.with_verdict(Verdict(incident.action, verdict, of_action, event.at))
    if event.status == "ready":
        failed = tuple(finding for finding in event.findings if finding[0] == HOOK_FAILED)
        turn.attempt = turn.attempt._replace(ready=True)
        turn.incident = end_hook(turn.incident, event.at)._replace(receipt=event.receipt, hook_failed=failed)
    elif event.status == "refuse":
        _refused(turn, incident, event)
    else:
        attempt_failed(turn, incident, event.status, event.detail, event.at)


def _refused(turn: Turn, incident: Incident, event: Outcome) -> None:
    """A refusal is final for its own action. An earlier action of the list that failed technically is tried again later."""
    before = turn.rules.actions[: incident.link]
    failed = next((link for link, action in enumerate(before) if turn.plans.verdict(action) != "another"), None)
    if failed is None:
        finish(turn, "cannot", event.detail)
        return
    detail = f"{incident.detail}; the next action, {incident.action}, was refused: {event.detail}"
    turn.incident = turn.incident._replace(link=failed, action=before[failed], attempt=Attempt(), detail=detail)
    _fail(turn, turn.incident, detail, event.at)


def _did_not_stop(turn: Turn, incident: Incident) -> None:
    """A stop that certainly failed does not count towards the third one in a day (I9)."""
    if incident.requested and is_machine_action(incident.action) and not incident.by_person:
        turn.ledger = turn.ledger._replace(stops=turn.ledger.stops[:-1])


def attempt_failed(turn: Turn, incident: Incident, status: str, detail: str, at: float) -> None:
    """A technical failure at that moment: try again, go down the list, or give up aloud. Unknown is asked about first."""
    turn.incident = end_hook(turn.incident, at)._replace(detail=detail)
    if incident.requested and status == "unknown":
        turn.core = turn.core._replace(phase=CONFIRMING)
        turn.tell("asking", "warning", error=detail)
        _confirm(turn, incident, at)
        return
    failures = incident.attempt.failures
    over = incident.requested and not _repeatable(turn, incident)
    if status == "another" or over or failures + 1 >= TRIES_PER_LINK:
        _next_link(turn, incident, detail, at)
        return
    _did_not_stop(turn, incident)
    retry_at = at + RETRY_SECONDS * 2.0**failures
    turn.core = turn.core._replace(phase=WARNING)
    turn.incident = turn.incident._replace(outcome_deadline=NEVER)
    turn.attempt = turn.attempt._replace(
        worker="", ready=False, requested_at=None, failures=failures + 1, retry_at=retry_at
    )


def _repeatable(turn: Turn, incident: Incident) -> bool:
    """Whether what was released, and certainly failed, may be tried once more; a guest action runs at most once."""
    under_its_policy = incident.link < len(turn.rules.actions)
    return incident.action in REPEATABLE and under_its_policy


def _next_link(turn: Turn, incident: Incident, detail: str, at: float) -> None:
    """The next action of the list, decided again on fresh readings; or FAILED."""
    _did_not_stop(turn, incident)
    turn.incident = turn.incident._replace(detail=detail)
    link = incident.link + 1
    if link >= len(turn.rules.actions):
        _fail(turn, incident, detail, at)
        return
    action = turn.rules.actions[link]
    turn.core = turn.core._replace(phase=WARNING)
    turn.incident = turn.incident._replace(link=link, action=action, attempt=Attempt(), outcome_deadline=NEVER)
    why = "" if incident.by_person else third_stop(turn, action)
    if why:
        finish(turn, "cannot", why)
    else:
        turn.tell("next_action", "warning", error=detail)


def _fail(turn: Turn, incident: Incident, detail: str, at: float) -> None:
    """No action of the list could be carried out: tell people now, and try again only after a pause."""
    turn.attempt = turn.attempt._replace(worker="", ready=False)
    rounds = turn.ending.rounds + (not incident.by_person)
    retry_at = at + min(DAY_SECONDS, FIRST_ROUND_SECONDS * 2.0 ** max(0, rounds - 1))
    turn.core = turn.core._replace(phase=FAILED)
    turn.ending = turn.ending._replace(since=turn.at, retry_at=retry_at, remind_at=at + DAY_SECONDS, rounds=rounds)
    answer_request(turn, "failed", detail)
    announce(turn, at)


def _confirm(turn: Turn, incident: Incident, at: float) -> None:
    question = turn.serial("f")
    turn.effects.append(Confirm(question, incident.attempt.worker, incident.action, incident.id))
    turn.attempt = turn.attempt._replace(confirm_effect=question, confirm_at=NEVER)
    turn.expect(at - turn.at + time_limits.ANSWER_LOST_SECONDS)  # between ticks the machine's own time stands still


def act_lost(turn: Turn, incident: Incident) -> None:
    """A released request without a report may have happened: look, and repeat nothing."""
    requested_at = incident.attempt.requested_at
    if requested_at is not None and turn.at >= requested_at + time_limits.ACT_LOST_SECONDS:
        attempt_failed(turn, incident, "unknown", "the outcome of the request was never reported", turn.at)


def confirm_again(turn: Turn, incident: Incident) -> None:
    """Look again from time to time, until the outcome is known."""
    question = incident.attempt.confirm_effect
    if question and turn.at >= incident.outcome_deadline:
        confirm_outcome(turn, incident, Outcome(turn.at, question, "unknown", "the outcome check got no answer"))
    elif not question and turn.at >= incident.attempt.confirm_at:
        _confirm(turn, incident, turn.at)


def confirm_outcome(turn: Turn, incident: Incident, event: Outcome) -> None:
    """What a look at the machine shows about the attempt."""
    requested_at = incident.attempt.requested_at
    waited = event.at - (requested_at if requested_at is not None else event.at)
    turn.attempt = turn.attempt._replace(confirm_effect="")
    # whoever showed this machine as ended while it ran on may do so again; a command has its own record
    doubted = turn.ending.disproved and is_machine_action(incident.action)
    status = "accepted" if event.status == "done" and doubted else event.status
    if status == "done":
        finish(turn, "acted", event.detail)
    elif status == "failed":
        _next_link(turn, incident, event.detail, event.at)
    elif status == "refused":  # as it was written down: a guard that ended meanwhile did not hear of it
        _did_not_stop(turn, incident)
        _refused(turn, incident, event)
    elif waited < WAIT_SECONDS.get(status, CONFIRM_WITHIN_SECONDS):
        if status == "pending" and not incident.attempt.seen_stopping:
            turn.tell("stopping", "warning", error=event.detail, proof=incident.proof)
            turn.attempt = turn.attempt._replace(seen_stopping=True)
        # a machine that is stopping has little time left to report
        pause = min(CONFIRM_EVERY_SECONDS, max(FIRST_CONFIRM_SECONDS, waited))
        turn.attempt = turn.attempt._replace(confirm_at=event.at + pause)
    elif status in WAIT_SECONDS:
        seen = wording_of(incident.action).not_done if status == "pending" else NOTHING_HAPPENED
        _next_link(turn, incident, f"{seen} after {waited / 60.0:.0f} min", event.at)
    else:
        finish(turn, "unknown", event.detail)


def runs_on(turn: Turn, incident: Incident) -> None:
    """The machine was confirmed as ended, and this guard runs on it: people hear so, and the next action follows."""
    minutes = (turn.at - turn.ending.since) / 60.0
    answer = f': "{incident.detail}"' if incident.detail else ""
    turn.ending = turn.ending._replace(done="", remind_at=NEVER, disproved_at=NEVER, disproved=True)
    # whatever follows is warned of in full
    turn.incident = incident._replace(warned=None, announcement=Announcement(again_at=turn.at))
    wrong = f"so the answer was wrong, or about another machine{answer}"
    detail = f"the machine still runs {minutes:.0f} min after the {incident.action} was confirmed, {wrong}"
    _next_link(turn, turn.incident, detail, turn.at)
