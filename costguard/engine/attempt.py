"""One attempt at an action: prepare, release, and find out what became of it."""

from costguard.engine import deadlines
from costguard.engine.effects import Abandon, Confirm, Go, Leave, Prepare
from costguard.engine.events import Outcome
from costguard.engine.policy import CLOUD_ACTIONS
from costguard.engine.rules import is_machine_action, reached
from costguard.engine.state import ACTING, CONFIRMING, DONE, FAILED, UNDATED, WARNING, Incident, Verdict
from costguard.engine.turn import Turn, action_of
from costguard.engine.window import NEVER

RETRY_PAUSE = 15.0
TRIES_PER_LINK = 4
"""A link of the fall-back list is tried again after 15, 30 and 60 s before the next one is."""

FIRST_LOOK = 5.0
CONFIRM_EVERY = 30.0
"""Seconds from acceptance to the first question what came of it, and at most from one question to the next."""

CONFIRM_WITHIN = deadlines.HAPPENED
"""If nothing is seen of a request so long after it was accepted, nothing happened."""

STOPPING_WITHIN = deadlines.STOPPING
"""How long a machine that is seen stopping may take."""

UNDER_WAY = {"accepted": CONFIRM_WITHIN, "pending": STOPPING_WITHIN}
NOT_DONE = {
    "accepted": "the request was accepted, and nothing has happened",
    "pending": "the machine began to stop, and has not stopped",
}

ENDS = {"acted": "done", "would": "would_act", "cannot": "cannot", "unknown": "outcome_unknown"}
GOOD = frozenset({"acted", "would"})
"""How an incident ends, as messages; and which ends need nobody to look after them."""

FIRST_ROUND = 3600.0
DAY = 86400.0

REPEATED_STOPS = 2
"""So many own stops within a day, with no work in between, and the next one is a message only."""

STOPS_KEPT = 9
"""Dates of so many stops before the last one: more than anybody asks for."""


def act(turn: Turn, incident: Incident, due: float, *, blocked: bool) -> None:
    """Prepare in time; when due, release the waiting worker on this tick's readings (I3)."""
    action = action_of(incident, turn.rules)
    if not turn.live or action == "end_process":
        if reached(turn.at, due) and not blocked:
            _without_worker(turn, action)
        return
    if not incident.worker and turn.at >= max(due - deadlines.LEAD, incident.retry):
        attempt = turn.serial("a")
        turn.effects.append(Prepare(attempt, action, incident.id))
        turn.incident = turn.incident._replace(worker=attempt, ready=False, lost=turn.at + deadlines.PREPARE_LOST)
    elif incident.worker and not incident.ready and turn.at >= incident.lost:
        turn.effects.append(Abandon(incident.worker))
        attempt_failed(turn, incident, "failed", "the worker never said that it was ready", turn.at)
    elif incident.ready and reached(turn.at, due) and not blocked:
        why = "" if incident.by_person else third_stop(turn, action)
        if why:  # the date came in doubt since the warning
            finish(turn, "cannot", why)
            return
        turn.effects.append(Go(incident.worker, action, incident.id))
        if not incident.released:  # a second try of the same is no news
            turn.tell("acting", "critical", attempt=incident.worker)
        turn.core = turn.core._replace(phase=ACTING)
        turn.incident = turn.incident._replace(asked=turn.at, released=True)
        if is_machine_action(action) and not incident.by_person:
            turn.core = turn.core._replace(
                stops=(*turn.core.stops[-STOPS_KEPT:], UNDATED if turn.synced is False else turn.wall)
            )


def _without_worker(turn: Turn, action: str) -> None:
    """A dry run ends here; so does end_process, which is nothing but the guard's own exit."""
    if not turn.live:
        why = refusal(turn, action)
        finish(turn, "cannot" if why else "would", why)
        return
    turn.tell("acting", "info")
    turn.effects.append(Leave(0))
    finish(turn, "acted")


def refusal(turn: Turn, action: str) -> str:
    """Why the last plan of an action says that it must not be carried out; empty when it may, or none was made."""
    for plan in turn.core.plans:
        if plan.action == action and plan.verdict in {"refuse", "another"}:
            return "; ".join(text for _, text, _ in plan.findings) or f"the plan of {action} was refused"
    return ""


def finish(turn: Turn, done: str, detail: str = "") -> None:
    """Latch DONE until work is seen again; ``done`` says which kind: acted, would, cannot or unknown."""
    abandon(turn)
    turn.incident = turn.incident._replace(detail=detail)
    answer_wish(turn, done, detail)
    remind = NEVER if done in GOOD else turn.at + DAY
    turn.core = turn.core._replace(phase=DONE, done=done, closed=turn.at, remind=remind, rounds=0)
    announce(turn)


def answer_wish(turn: Turn, fate: str, words: str) -> None:
    """Keep what became of a stop that a person asked for, so that whoever waits for it can be told."""
    incident, wish = turn.core.incident, turn.core.wish
    if incident is not None and wish is not None and wish.incident == incident.id and not wish.fate:
        turn.core = turn.core._replace(wish=wish._replace(fate=fate, words=words, ended=turn.at))


def announce(turn: Turn, tries: int = 1) -> None:
    """Tell how the incident ended; whether anybody heard it is followed up (`incident.outcome`)."""
    core = turn.core
    incident = core.incident
    if incident is None:
        return
    if core.phase == FAILED:
        # a person's own stop is given up: nobody counts on it in an hour, and the machine's own rules go on
        again = {} if incident.by_person else {"retry_in_seconds": core.again - turn.at}
        told = turn.tell("failed", "critical", error=incident.detail, rounds=core.rounds, **again)
    else:
        level = "info" if core.done in GOOD else "critical"
        told = turn.tell(ENDS[core.done], level, error=incident.detail, proof=incident.proof)
    turn.incident = turn.incident._replace(told=told, tries=tries)


def abandon(turn: Turn) -> None:
    """End a worker that still waits; one that was released is out of reach."""
    incident = turn.core.incident
    if incident is not None and incident.worker and incident.asked is None:
        turn.effects.append(Abandon(incident.worker))
        turn.incident = turn.incident._replace(worker="", ready=False)


def attempt_outcome(turn: Turn, incident: Incident, event: Outcome) -> None:
    """What the worker of the attempt reports, before and after it was released."""
    if turn.core.phase == WARNING:
        action = action_of(incident, turn.rules)
        if event.status in {"ready", "refuse", "another"}:
            _keep_plan(turn, action, event)
        if event.status == "ready":
            turn.incident = turn.incident._replace(ready=True, receipt=event.receipt)
        elif event.status == "refuse":
            finish(turn, "cannot", event.detail)
        else:
            attempt_failed(turn, incident, event.status, event.detail, event.at)
        return
    if event.status == "accepted":
        turn.core = turn.core._replace(phase=CONFIRMING)
        turn.incident = turn.incident._replace(
            proof=event.proof, receipt=event.receipt or incident.receipt, recheck=event.at + FIRST_LOOK, detail=""
        )
        turn.tell("accepted", "critical", proof=event.proof)
    elif event.status == "done":
        turn.incident = turn.incident._replace(proof=event.proof, receipt=event.receipt or incident.receipt)
        finish(turn, "acted")
    elif event.status == "refused":
        _did_not_stop(turn, incident)
        finish(turn, "cannot", event.detail)
    else:
        attempt_failed(turn, incident, event.status, event.detail, event.at)


def _did_not_stop(turn: Turn, incident: Incident) -> None:
    """What certainly failed is no stop, so it must not count towards the third one in a day (I9)."""
    if incident.asked is not None and is_machine_action(incident.action) and not incident.by_person:
        turn.core = turn.core._replace(stops=turn.core.stops[:-1])


def _keep_plan(turn: Turn, action: str, event: Outcome) -> None:
    """The latest plan is shown in messages; *ready* stands for the verdict go or consequences."""
    others = tuple(plan for plan in turn.core.plans if plan.action != action)
    verdict = ("consequences" if event.findings else "go") if event.status == "ready" else event.status
    turn.core = turn.core._replace(plans=(*others, Verdict(action, verdict, event.findings, event.at)))


def attempt_failed(turn: Turn, incident: Incident, status: str, detail: str, at: float) -> None:
    """A technical failure at that moment: try again, go down the list, or give up aloud. Unknown is asked about first."""
    turn.incident = turn.incident._replace(detail=detail)
    if incident.asked is not None and status == "unknown":
        turn.core = turn.core._replace(phase=CONFIRMING)
        turn.tell("asking", "critical", error=detail)
        _confirm(turn, incident)
        return
    over = incident.asked is not None and not _repeatable(turn, incident)
    if status == "another" or over or incident.failures + 1 >= TRIES_PER_LINK:
        _next_link(turn, incident, detail)
        return
    _did_not_stop(turn, incident)
    retry = at + RETRY_PAUSE * 2.0**incident.failures
    turn.core = turn.core._replace(phase=WARNING)
    turn.incident = turn.incident._replace(
        worker="", ready=False, asked=None, failures=incident.failures + 1, retry=retry, lost=NEVER
    )


def _repeatable(turn: Turn, incident: Incident) -> bool:
    """Whether what was released, and certainly failed, may be tried once more; a guest action runs at most once."""
    return incident.action in CLOUD_ACTIONS and incident.link < len(turn.rules.actions)  # else another policy has come


def third_stop(turn: Turn, action: str) -> str:
    """Why this action would be one stop too many (I9); empty when it would not."""
    # on a date that is known to be wrong nobody can say that a stop was long ago
    recent = [date for date in turn.core.stops if turn.wall - date < DAY or turn.synced is False or date == UNDATED]
    if is_machine_action(action) and len(recent) >= REPEATED_STOPS:
        return "it was stopped twice within a day and no work was seen in between; a third stop needs a person: `costguard release` as root"
    return ""


def _next_link(turn: Turn, incident: Incident, detail: str) -> None:
    """The next action of the list, decided again on fresh readings; or FAILED."""
    _did_not_stop(turn, incident)
    turn.incident = turn.incident._replace(detail=detail)
    if incident.link + 1 < len(turn.rules.actions):
        turn.core = turn.core._replace(phase=WARNING)
        link = incident.link + 1
        turn.incident = turn.incident._replace(
            link=link, action=turn.rules.actions[link], worker="", ready=False, failures=0, retry=0.0, released=False
        )
        turn.incident = turn.incident._replace(asked=None, confirm="", recheck=NEVER, lost=NEVER, stopping=False)
        why = "" if incident.by_person else third_stop(turn, turn.rules.actions[link])
        if why:
            finish(turn, "cannot", why)
        else:
            turn.tell("next_action", "critical", error=detail)
        return
    turn.incident = turn.incident._replace(worker="", ready=False)
    rounds = turn.core.rounds + (not incident.by_person)
    again = turn.at + min(DAY, FIRST_ROUND * 2.0 ** max(0, rounds - 1))
    turn.core = turn.core._replace(phase=FAILED, closed=turn.at, again=again, remind=turn.at + DAY, rounds=rounds)
    answer_wish(turn, "failed", detail)
    announce(turn)


def _confirm(turn: Turn, incident: Incident) -> None:
    effect_id = turn.serial("f")
    turn.effects.append(Confirm(effect_id, incident.worker, action_of(incident, turn.rules), incident.id))
    turn.incident = turn.incident._replace(confirm=effect_id, recheck=NEVER, lost=turn.at + deadlines.ANSWER_LOST)


def act_lost(turn: Turn) -> None:
    """What was released and never reported may have happened: the world is asked, and nothing is repeated."""
    incident = turn.core.incident
    if incident is not None and incident.asked is not None and turn.at >= incident.asked + deadlines.ACT_LOST:
        attempt_failed(turn, incident, "unknown", "nobody reported what became of the request", turn.at)


def confirm_again(turn: Turn) -> None:
    """While the cloud's or the kernel's word is out, ask again from time to time."""
    incident = turn.core.incident
    if incident is None:
        return
    if incident.confirm and turn.at >= incident.lost:
        confirm_outcome(
            turn, incident, Outcome(turn.at, incident.confirm, "unknown", "the question was never answered")
        )
    elif not incident.confirm and turn.at >= incident.recheck:
        _confirm(turn, incident)


def confirm_outcome(turn: Turn, incident: Incident, event: Outcome) -> None:
    """What the world says about the attempt."""
    asked = incident.asked if incident.asked is not None else event.at
    turn.incident = turn.incident._replace(confirm="")
    pause = min(CONFIRM_EVERY, max(FIRST_LOOK, event.at - asked))  # a machine that ends has little time to tell
    if event.status == "done":
        finish(turn, "acted", event.detail)
    elif event.status in UNDER_WAY and event.at - asked < UNDER_WAY[event.status]:
        if event.status == "pending" and not incident.stopping:
            turn.tell("stopping", "critical", error=event.detail, proof=incident.proof)
            turn.incident = turn.incident._replace(stopping=True)
        turn.incident = turn.incident._replace(recheck=event.at + pause)
    elif event.status in UNDER_WAY:
        _next_link(turn, incident, f"{NOT_DONE[event.status]} after {(event.at - asked) / 60.0:.0f} min")
    elif event.status == "failed":
        _next_link(turn, incident, event.detail)
    elif event.at - asked < CONFIRM_WITHIN:
        turn.incident = turn.incident._replace(recheck=event.at + pause)
    else:
        finish(turn, "unknown", event.detail)
