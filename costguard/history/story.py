"""Turn recorded events into what an auditor reads: one line per incident, and an incident as a story."""

import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from costguard.engine.attempt import ENDS
from costguard.engine.narrate import ON_DONE, unreached, was_done
from costguard.engine.state import PERSON
from costguard.engine.wording import wording_of
from costguard.engine.words import date_and_second, percent, several
from costguard.history import UNTOLD_HOLD
from costguard.history.query import Event
from costguard.notify.job import DIGEST, FOR_DIGEST, HELD_BACK, IN_DOUBT, LATER_CAME_FIRST, LEFT_OUT, SPARED
from costguard.plans import VERDICT_WORDS

RESULTS = {
    "open": "still open when last recorded",
    "requested": "requested; the outcome is not recorded",
    "asked": "requested; its worker was lost, and the outcome is being checked",
    "accepted": "accepted; the outcome is not recorded",
    "acted": "done",
    "would": "dry run: it would have been done",
    "cannot": "could not be carried out",
    "unknown": "outcome unknown; not retried",
    "failed": "FAILED",
    "cancelled": "cancelled",
    "held": "postponed",
    "closed": "the machine was off and came back",
}
"""How an incident ended, by its code."""

UNDER_WAY = frozenset(("open", "requested", "asked", "accepted"))
"""Codes of incidents whose end is not known yet."""

RESULT_OF = {**{kind: done for done, kind in ENDS.items()}, "failed": "failed"}
"""By kind of message: how the incident ended that it is about."""


class IncidentSummary(NamedTuple):
    """One incident. Dates are seconds since the epoch; ``delivered`` counts messages that reached somebody, at whichever try."""

    id: str
    opened: float
    last: float
    machine: str
    instance: str
    reason: str
    action: str
    mode: str
    owner: str
    result: str
    words: str
    proof: str
    delivered: int
    undelivered: int
    in_doubt: int = 0  # messages that may or may not have arrived
    unreached: bool = False  # the warning reached nobody, and the countdown went on
    only: str = ""  # or nobody but these terminals
    task: str = ""  # of a scheduler, where one was guarded


class Entry(NamedTuple):
    """One moment of the story: a heading and what stands below it."""

    wall: float
    title: str
    lines: tuple[str, ...] = ()


def summaries(events: Iterable[Event]) -> list[IncidentSummary]:
    """Every incident of these events, in order of their beginning."""
    grouped: dict[str, list[Event]] = {}
    for event in events:
        if event.incident:
            grouped.setdefault(event.incident, []).append(event)
    return [summary(found) for found in grouped.values()]


def summary(events: Sequence[Event]) -> IncidentSummary:
    """One incident from its events (at least one)."""
    known: dict[str, str] = dict.fromkeys(("reason", "action", "mode", "owner", "proof", "task"), "")
    result, words = "open", ""
    statuses: dict[str, str] = {}  # what became of each message
    unreached_by_all, only = False, ""
    sent: dict[str, float] = {}  # messages, and when each was sent
    for event in events:
        data = event.data
        facts = data.get("facts", data)
        of_message = event.kind == "outcome" and data.get("effect") in sent
        for name in () if of_message else known:
            if name != "owner" or facts.get("reason") == PERSON:  # else the owner of a hold that stood against it
                known[name] = str(facts.get(name) or known[name])
        if event.kind == "phase":
            result, words = _result(result, words, data)
        elif event.kind == "told":
            sent[str(data.get("effect"))] = event.wall
            result, words = _result_by_message(result, words, str(data.get("name")), facts)
        elif of_message:
            statuses[str(data.get("effect"))] = _status(
                data, data.get("status") == "delivered", str(data.get("proof") or "")
            )
            if "unreached" in data:
                unreached_by_all, only = data["unreached"] is True, str(data.get("proof") or "")
        elif event.kind == "delivery" and str(data.get("effect")) in sent:
            over = "; ".join(f"{name}: {whom}" for name, whom in _mapping(data, "reached").items())
            again = _status(data, bool(over), over)
            statuses[str(data["effect"])] = again if again == DELIVERED else statuses.get(str(data["effect"]), again)
    settled_before = events[-1].wall - STATUS_WITHIN_SECONDS
    # the guard ended before it knew
    statuses = {effect: DOUBTED for effect, at in sent.items() if at < settled_before} | statuses
    first, counted = events[0], Counter(statuses.values())
    return IncidentSummary(
        first.incident, first.wall, events[-1].wall, first.machine, first.instance, known["reason"], known["action"],
        known["mode"], known["owner"], result, words or RESULTS[result], known["proof"], counted[DELIVERED], counted[LOST], counted[DOUBTED],
        unreached_by_all, only if unreached_by_all else "",
        known["task"],
    )  # fmt: skip


STATUS_WITHIN_SECONDS = 60.0
"""After which somebody who is alive knows what became of a message."""

DELIVERED, LOST, DOUBTED, UNSENT = "delivered", "lost", "in doubt", "not sent"


def _status(data: Mapping[str, Any], arrived: bool, over: str) -> str:
    """What became of a message."""
    if arrived:
        return UNSENT if _unsent(over) else DELIVERED
    return DOUBTED if _in_doubt(data) else LOST


def _result(result: str, words: str, data: Mapping[str, Any]) -> tuple[str, str]:
    before, after = data.get("from"), data.get("to")
    detail = str(data.get("detail") or "")
    if after == "DONE":
        done = str(data.get("done"))
        return (done if done in RESULTS else "unknown"), f"{RESULTS.get(done, done)}: {detail}" if detail else ""
    if after == "FAILED":
        return "failed", f"FAILED: {detail}"
    if after == "ACTING":
        return "requested", ""
    if after == "CONFIRMING":
        return "accepted" if result == "accepted" else "asked", ""
    if after == "WATCHING" and before == "WARNING":
        return "cancelled", ""
    if after == "WARNING":
        return "open", ""
    return result, words


def _result_by_message(result: str, words: str, name: str, facts: Mapping[str, Any]) -> tuple[str, str]:
    if name == "cancelled" and result in {"cancelled", "open"}:
        return "cancelled", f"cancelled: {facts.get('why')}"
    if name == "held" and (result == "cancelled" or (result == "open" and facts.get("takes_back"))):
        return "held", f"postponed by {facts.get('owner')}" + (f": {facts['hold']}" if facts.get("hold") else "")
    if name == "accepted":
        return "accepted", ""
    if name == "closed" or (name == "came_back" and facts.get("acted")):
        return "closed", ""
    if result in UNDER_WAY and (ended := RESULT_OF.get(name)):  # the guard that saw it was killed before it wrote that
        error = str(facts.get("error") or "")
        return ended, f"{RESULTS[ended]}: {error}" if error else ""
    return result, words


def story(events: Iterable[Event]) -> list[Entry]:
    """Every event as an entry."""
    effects: dict[str, str] = {}  # by id, what each was
    entries = []
    events = list(events)
    beside = {
        str(event.data.get("effect") or ""): _mapping(event.data, "beside")
        for event in events
        if event.kind == "outcome"
    }
    known = {str(event.data.get("effect") or "") for event in events if event.kind in {"outcome", "delivery"}}
    settled_before = events[-1].wall - STATUS_WITHIN_SECONDS if events else 0.0
    for event in events:
        data = event.data
        effect = str(data.get("effect") or "")
        if event.kind == "told" and effect in effects:  # the guard had been killed while it was on its way
            entries.append(
                Entry(event.wall, f"{effects[effect].partition(' ')[2].replace('_', ' ')} is repeated after a restart")
            )
            continue
        if event.kind == "told":
            effects[effect] = f"message {data.get('name')}"
        elif event.kind in {"prepare", "go", "confirm"}:
            effects[effect] = f"{event.kind} {data.get('action')}"
        entries.append(_entry(event, effects.get(effect, ""), beside.get(effect, {})))
        if event.kind == "told" and effect not in known and event.wall < settled_before:
            entries[-1] = entries[-1]._replace(lines=(*entries[-1].lines, UNKNOWN_STATUS))
    return entries


UNKNOWN_STATUS = "(it is unknown whether anybody got it: costguard or the machine ended before that was recorded)"


def _entry(event: Event, effect: str, beside: Mapping[str, Any]) -> Entry:
    data = event.data
    action = str(data.get("action") or effect.partition(" ")[2])
    if event.kind == "told":
        return Entry(event.wall, *message(event, beside))
    if event.kind == "phase":
        return Entry(event.wall, str(data.get("sentence") or data.get("to")), _plan(data))
    if event.kind == "outcome":
        return Entry(event.wall, *_outcome(data, effect))
    if event.kind == "go":
        return Entry(
            event.wall, f"{wording_of(action).word} was started, on these readings:", readings(data.get("readings"))
        )
    if event.kind == "hook":
        return Entry(event.wall, f"hook {data.get('step')}: {data.get('status')}", (str(data.get("detail") or ""),))
    if event.kind == "delivery":
        return Entry(event.wall, delivery(data), (*_text(data), *_answered(data)))
    title = {
        "prepare": f"a worker plans {wording_of(action).word}, authenticates and waits",
        "confirm": f"checking the outcome of {wording_of(action).word}",
        "abandon": f"the waiting worker was stopped; it had requested nothing (attempt {data.get('effect')})",
        "released": f"{data.get('owner')} ran `costguard release`",
        UNTOLD_HOLD: untold_hold(data) if event.kind == UNTOLD_HOLD else "",
        "lost": lost_rows(data),
    }.get(event.kind, event.kind)
    return Entry(event.wall, title)


def other_messages(events: Iterable[Event]) -> list[Event]:
    """What people were told beside incidents, what became of each message, and who released or lost something."""
    found: list[Event] = []
    sent: set[str] = set()
    for event in events:
        if event.incident or event.kind not in {"told", "outcome", "delivery", UNTOLD_HOLD, "released", "lost", "hook"}:
            continue
        effect = str(event.data.get("effect"))
        if event.kind == "told" and effect in sent and event.facts.get("told_again"):
            continue  # once more, by a guard whose predecessor had been killed: what became of it stands beside the first
        if event.kind == "told":
            sent.add(effect)
        if event.kind != "outcome" or effect in sent:  # else of an action's check
            found.append(event)
    return found


def untold_hold(data: Mapping[str, Any]) -> str:
    """A hold that was told to nobody: there were many just before, or it moved an end by little."""
    until, why = data.get("hold_until_wall"), str(data.get("hold") or "")
    end = f" until {date_and_second(until)}" if isinstance(until, int | float) else ""
    return f"{data.get('owner')} held it{end}{f' ({why})' if why else ''}; no message said so"


def deliveries(messages: Iterable[Event]) -> dict[str, list[str]]:
    """By message, whom it reached and whom not, at each of its tries; of one that is in none of the events (a summary), too."""
    found: dict[str, list[str]] = {}
    names: dict[str, str] = {}
    for event in messages:
        effect = str(event.data.get("effect"))
        if event.kind == "told":
            names[effect] = str(event.data.get("name"))
        elif event.kind == "outcome":
            found.setdefault(effect, []).append(_outcome(event.data, f"message {names.get(effect, '')}")[0])
        elif event.kind == "delivery":
            found.setdefault(effect, []).append(delivery(event.data))
    return found


def delivery(data: Mapping[str, Any]) -> str:
    """What became of a message that was sent again, of a summary, or of a remark of the agent's own."""
    try_number = int(data.get("tries") or 1)
    again = f" at try {try_number}" if try_number > 1 else ""
    over = "; ".join(f"{name}: {whom}" for name, whom in _mapping(data, "reached").items())
    lost = "; ".join(
        [f"{name}: {why}" for name, why in _mapping(data, "failed").items()]
        + [str(data.get("error"))] * bool(data.get("error"))
    )
    name = str(data.get("name") or "message").replace("_", " ")
    if unsent := _unsent(over):
        return f"{name} {unsent}"
    if over:
        return f"{name} delivered{again} over {over}" + (f"; failed over {lost}" if lost else "")
    if _in_doubt(data):
        return f"{name} may have been delivered{again}: {lost}"
    return f"{name} NOT delivered{again}: {lost or 'no channel took it'}"


def _text(data: Mapping[str, Any]) -> tuple[str, ...]:
    """A message as it was sent, where the guard that told it was killed before it could keep that."""
    title = str(data.get("title") or "")
    return (f"told: {title}", *str(data.get("body") or "").splitlines()) if title else ()


_UNASKED = re.compile(
    rf"no channel: (?:(?:nobody asked for|takes) (messages of this kind.*)|((?:{SPARED}|{LATER_CAME_FIRST}|nobody is left ).*))"
)
"""Who took a message that was sent to nobody, as it stands in the events of this and of earlier versions."""


def _unsent(taken: str) -> str:
    """Why a message counts as told though it was sent to nobody; empty where it was sent."""
    if taken.startswith(HELD_BACK):
        return taken
    found = _UNASKED.fullmatch(taken)
    if found is None:
        return ""
    return f"not sent: {found[2]}" if found[2] else f"not sent: nobody asked for {found[1]}"


def _answered(data: Mapping[str, Any]) -> tuple[str, ...]:
    """When each channel answered, to the second; one line, none where nothing is known."""
    found = [(name, at) for name, at in _mapping(data, "answered").items() if isinstance(at, int | float)]
    times = [f"{name} {time.strftime('%H:%M:%S', time.localtime(at))}" for name, at in found]
    return (f"answered: {', '.join(times)}",) if times else ()


def _in_doubt(data: Mapping[str, Any]) -> bool:
    """Whether nobody knows if a message arrived: whoever sent it ended before it could say."""
    failed = (*_mapping(data, "failed").values(), data.get("error"))
    return not _mapping(data, "reached") and any(str(why).endswith(IN_DOUBT) for why in failed)


def _mapping(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = data.get(name)
    return value if isinstance(value, Mapping) else {}


def lost_rows(data: Mapping[str, Any]) -> str:
    """Rows that were never written."""
    return f"{several(int(data.get('rows') or 0), 'row')} of history lost: not written in time"


def message(event: Event, beside: Mapping[str, Any] = MappingProxyType({})) -> tuple[str, tuple[str, ...]]:
    """A message as it was sent: title and body; ``beside``: facts that it got where it was written."""
    from costguard.notify.compose import compose

    data = event.data
    facts = {"machine": event.machine, **beside, **data.get("facts", {})}
    text = compose(str(data.get("name")), facts)
    return f"told: {text.title}", tuple(text.body.splitlines())


def readings(rows: object) -> tuple[str, ...]:
    """Recorded readings, one a line."""
    if not isinstance(rows, list):
        return ()
    lines = []
    for row in rows:
        if isinstance(row, list) and len(row) == 3:
            load = percent(row[1]) if isinstance(row[1], int | float) else "unknown"
            lines.append(f"{row[0]}: {load}, {row[2]}" if row[2] else f"{row[0]}: {load}")
    return tuple(lines)


def _plan(data: Mapping[str, Any]) -> tuple[str, ...]:
    plan = data.get("plan")
    lines = []
    if data.get("to") == "DONE" and data.get("done") in ON_DONE:
        lines.append(was_done(str(data["done"]), str(data.get("action"))))
    if data.get("to") == "WARNING" and isinstance(plan, list) and len(plan) == 2:
        lines.append(f"plan for {wording_of(str(data.get('action'))).word}: {VERDICT_WORDS.get(plan[0], plan[0])}")
        lines += [f"  {finding[1]}" for finding in plan[1] if isinstance(finding, list) and len(finding) > 1]
    return tuple(lines)


def _outcome(data: Mapping[str, Any], effect: str) -> tuple[str, tuple[str, ...]]:
    status, detail, proof = (str(data.get(name) or "") for name in ("status", "detail", "proof"))
    lines = tuple(f"{finding[1]}" for finding in data.get("findings") or () if len(finding) > 1)
    kind, _, action = effect.partition(" ")
    if kind == "message":
        name = action.replace("_", " ")
        if unsent := _unsent(proof):
            return f"{name} {unsent}", ()
        if status == "delivered":
            over = f" over {proof}" if proof else ""
            lost = f"; failed over {detail}" if detail else ""
            beside = _mapping(data, "beside")
            kept = f"; beyond this machine {FOR_DIGEST}" if beside.get(DIGEST) else ""
            left_out = "".join(
                f"; not sent over {channel}: {why}" for channel, why in _mapping(beside, LEFT_OUT).items()
            )
            return f"{name} delivered{over}{lost}{kept}{left_out}", _answered(data)
        if _in_doubt(data):
            return f"{name} may have been delivered: {detail}", ()
        tries = data.get("tries")
        after = "" if not tries else unreached(tries, proof) if data.get("unreached") else "it will be retried"
        only = f"; only {proof} took it" if proof and not after else ""
        return f"{name} NOT delivered: {detail or 'no channel took it'}{only}", (
            *([after] if after else []),
            *_answered(data),
        )
    shown = f" (proof: {proof})" if proof else ""
    what = {"prepare": "the worker reports", "confirm": "the check reports"}.get(kind, "outcome")
    return f"{wording_of(action).word}: {what}: {status}{shown}" + (f": {detail}" if detail else ""), lines
