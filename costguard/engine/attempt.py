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


def act(turn: Turn, now: Incident, due: float, *, blocked: bool) -> None:
    """Prepare in time; when due, release the waiting worker on this tick's readings (I3)."""
    action = action_of(now, turn.rules)
    if not turn.live or action == "end_process":
        if reached(turn.at, due) and not blocked:
            _without_worker(turn, action)
        return
    if not now.worker and turn.at >= max(due - deadlines.LEAD, now.retry):
        attempt = turn.serial("a")
        turn.effects.append(Prepare(attempt, action, now.id))
        turn.amend(worker=attempt, ready=False, lost=turn.at + deadlines.PREPARE_LOST)
    elif now.worker and not now.ready and turn.at >= now.lost:
        turn.effects.append(Abandon(now.worker))
        attempt_failed(turn, now, "failed", "the worker never said that it was ready", turn.at)
    elif now.ready and reached(turn.at, due) and not blocked:
        why = "" if now.by_person else third_stop(turn, action)
        if why:  # the date came in doubt since the warning
            finish(turn, "cannot", why)
            return
        turn.effects.append(Go(now.worker, action, now.id))
        if not now.released:  # a second try of the same is no news
            turn.tell("acting", "critical", attempt=now.worker)
        turn.set(phase=ACTING)
        turn.amend(asked=turn.at, released=True)
        if is_machine_action(action) and not now.by_person:
            turn.set(stops=(*turn.core.stops[-STOPS_KEPT:], UNDATED if turn.synced is False else turn.wall))


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
    turn.amend(detail=detail)
    answer_wish(turn, done, detail)
    remind = NEVER if done in GOOD else turn.at + DAY
    turn.set(phase=DONE, done=done, closed=turn.at, remind=remind, rounds=0)
    announce(turn)


def answer_wish(turn: Turn, fate: str, words: str) -> None:
    """Keep what became of a stop that a person asked for, so that whoever waits for it can be told."""
    now, wish = turn.core.incident, turn.core.wish
    if now is not None and wish is not None and wish.incident == now.id and not wish.fate:
        turn.set(wish=wish._replace(fate=fate, words=words, ended=turn.at))


def announce(turn: Turn, tries: int = 1) -> None:
    """Tell how the incident ended; whether anybody heard it is followed up (`incident.outcome`)."""
    core = turn.core
    now = core.incident
    if now is None:
        return
    if core.phase == FAILED:
        # a person's own stop is given up: nobody counts on it in an hour, and the machine's own rules go on
        again = {} if now.by_person else {"retry_in_seconds": core.again - turn.at}
        told = turn.tell("failed", "critical", error=now.detail, rounds=core.rounds, **again)
    else:
        level = "info" if core.done in GOOD else "critical"
        told = turn.tell(ENDS[core.done], level, error=now.detail, proof=now.proof)
    turn.amend(told=told, tries=tries)


def abandon(turn: Turn) -> None:
    """End a worker that still waits; one that was released is out of reach."""
    now = turn.core.incident
    if now is not None and now.worker and now.asked is None:
        turn.effects.append(Abandon(now.worker))
        turn.amend(worker="", ready=False)


def attempt_outcome(turn: Turn, now: Incident, event: Outcome) -> None:
    """What the worker of the attempt reports, before and after it was released."""
    if turn.core.phase == WARNING:
        action = action_of(now, turn.rules)
        if event.status in {"ready", "refuse", "another"}:
            _keep_plan(turn, action, event)
        if event.status == "ready":
            turn.amend(ready=True, receipt=event.receipt)
        elif event.status == "refuse":
            finish(turn, "cannot", event.detail)
        else:
            attempt_failed(turn, now, event.status, event.detail, event.at)
        return
    if event.status == "accepted":
        turn.set(phase=CONFIRMING)
        turn.amend(proof=event.proof, receipt=event.receipt or now.receipt, recheck=event.at + FIRST_LOOK, detail="")
        turn.tell("accepted", "critical", proof=event.proof)
    elif event.status == "done":
        turn.amend(proof=event.proof, receipt=event.receipt or now.receipt)
        finish(turn, "acted")
    elif event.status == "refused":
        _did_not_stop(turn, now)
        finish(turn, "cannot", event.detail)
    else:
        attempt_failed(turn, now, event.status, event.detail, event.at)


def _did_not_stop(turn: Turn, now: Incident) -> None:
    """What certainly failed is no stop, so it must not count towards the third one in a day (I9)."""
    if now.asked is not None and is_machine_action(now.action) and not now.by_person:
        turn.set(stops=turn.core.stops[:-1])


def _keep_plan(turn: Turn, action: str, event: Outcome) -> None:
    """The latest plan is shown in messages; *ready* stands for the verdict go or consequences."""
    others = tuple(plan for plan in turn.core.plans if plan.action != action)
    verdict = ("consequences" if event.findings else "go") if event.status == "ready" else event.status
    turn.set(plans=(*others, Verdict(action, verdict, event.findings, event.at)))


def attempt_failed(turn: Turn, now: Incident, status: str, detail: str, at: float) -> None:
    """A technical failure at that moment: try again, go down the list, or give up aloud. Unknown is asked about first."""
    turn.amend(detail=detail)
    if now.asked is not None and status == "unknown":
        turn.set(phase=CONFIRMING)
        turn.tell("asking", "critical", error=detail)
        _confirm(turn, now)
        return
    over = now.asked is not None and not _repeatable(turn, now)
    if status == "another" or over or now.failures + 1 >= TRIES_PER_LINK:
        _next_link(turn, now, detail)
        return
    _did_not_stop(turn, now)
    retry = at + RETRY_PAUSE * 2.0**now.failures
    turn.set(phase=WARNING)
    turn.amend(worker="", ready=False, asked=None, failures=now.failures + 1, retry=retry, lost=NEVER)


def _repeatable(turn: Turn, now: Incident) -> bool:
    """Whether what was released, and certainly failed, may be tried once more; a guest action runs at most once."""
    return now.action in CLOUD_ACTIONS and now.link < len(turn.rules.actions)  # else another policy has come


def third_stop(turn: Turn, action: str) -> str:
    """Why this action would be one stop too many (I9); empty when it would not."""
    # on a date that is known to be wrong nobody can say that a stop was long ago
    recent = [date for date in turn.core.stops if turn.wall - date < DAY or turn.synced is False or date == UNDATED]
    if is_machine_action(action) and len(recent) >= REPEATED_STOPS:
        return "it was stopped twice within a day and no work was seen in between; a third stop needs a person: `costguard release` as root"
    return ""


def _next_link(turn: Turn, now: Incident, detail: str) -> None:
    """The next action of the list, decided again on fresh readings; or FAILED."""
    _did_not_stop(turn, now)
    turn.amend(detail=detail)
    if now.link + 1 < len(turn.rules.actions):
        turn.set(phase=WARNING)
        link = now.link + 1
        turn.amend(
            link=link, action=turn.rules.actions[link], worker="", ready=False, failures=0, retry=0.0, released=False
        )
        turn.amend(asked=None, confirm="", recheck=NEVER, lost=NEVER, stopping=False)
        why = "" if now.by_person else third_stop(turn, turn.rules.actions[link])
        if why:
            finish(turn, "cannot", why)
        else:
            turn.tell("next_action", "critical", error=detail)
        return
    turn.amend(worker="", ready=False)
    rounds = turn.core.rounds + (not now.by_person)
    again = turn.at + min(DAY, FIRST_ROUND * 2.0 ** max(0, rounds - 1))
    turn.set(phase=FAILED, closed=turn.at, again=again, remind=turn.at + DAY, rounds=rounds)
    answer_wish(turn, "failed", detail)
    announce(turn)


def _confirm(turn: Turn, now: Incident) -> None:
    effect_id = turn.serial("f")
    turn.effects.append(Confirm(effect_id, now.worker, action_of(now, turn.rules), now.id))
    turn.amend(confirm=effect_id, recheck=NEVER, lost=turn.at + deadlines.ANSWER_LOST)


def act_lost(turn: Turn) -> None:
    """What was released and never reported may have happened: the world is asked, and nothing is repeated."""
    now = turn.core.incident
    if now is not None and now.asked is not None and turn.at >= now.asked + deadlines.ACT_LOST:
        attempt_failed(turn, now, "unknown", "nobody reported what became of the request", turn.at)


def confirm_again(turn: Turn) -> None:
    """While the cloud's or the kernel's word is out, ask again from time to time."""
    now = turn.core.incident
    if now is None:
        return
    if now.confirm and turn.at >= now.lost:
        confirm_outcome(turn, now, Outcome(turn.at, now.confirm, "unknown", "the question was never answered"))
    elif not now.confirm and turn.at >= now.recheck:
        _confirm(turn, now)


def confirm_outcome(turn: Turn, now: Incident, event: Outcome) -> None:
    """What the world says about the attempt."""
    asked = now.asked if now.asked is not None else event.at
    turn.amend(confirm="")
    pause = min(CONFIRM_EVERY, max(FIRST_LOOK, event.at - asked))  # a machine that ends has little time to tell
    if event.status == "done":
        finish(turn, "acted", event.detail)
    elif event.status in UNDER_WAY and event.at - asked < UNDER_WAY[event.status]:
        if event.status == "pending" and not now.stopping:
            turn.tell("stopping", "critical", error=event.detail, proof=now.proof)
            turn.amend(stopping=True)
        turn.amend(recheck=event.at + pause)
    elif event.status in UNDER_WAY:
        _next_link(turn, now, f"{NOT_DONE[event.status]} after {(event.at - asked) / 60.0:.0f} min")
    elif event.status == "failed":
        _next_link(turn, now, event.detail)
    elif event.at - asked < CONFIRM_WITHIN:
        turn.amend(recheck=event.at + pause)
    else:
        finish(turn, "unknown", event.detail)
