"""The spans of time that a picture marks: countdowns, actions, failures, holds, the machine off. From recorded events. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

from costguard.engine.state import ACTING, CONFIRMING, DONE, FAILED, WARNING
from costguard.engine.words import hour
from costguard.history import UNTOLD_HOLD
from costguard.history.query import Event
from costguard.notify.facts import number

__all__ = ["Band", "found", "labels", "number", "threshold"]

COUNTDOWN, REQUESTED, ACTED, WOULD, STUCK, HOLD, OFF = (
    "countdown", "requested", "acted", "would", "failed", "hold", "off",
)  # fmt: skip

KIND_OF = {WARNING: COUNTDOWN, ACTING: REQUESTED, CONFIRMING: REQUESTED, DONE: ACTED, FAILED: STUCK}
"""What a phase is drawn as."""

DONE_AS = {"would": WOULD, "cannot": STUCK, "unknown": STUCK}
"""What DONE is drawn as, by what was done: in a dry run nothing was, and of the others the bill may go on."""

LOOK_BACK_SECONDS = 2 * 86400.0
"""So long before what is shown events are read: a hold that began then still shows."""

SEEN_AGAIN_SECONDS = 300.0
"""A phase does not outlast the record: after so long without any, the machine was off, or nobody watched."""


class Band(NamedTuple):
    """One span: its kind, begin and end, and a few words; ``due``: when a countdown that still runs will end."""

    kind: str
    begin: float
    end: float
    words: str = ""
    detail: str = ""
    due: float | None = None


NAMING = ("devices", "phase")
"""Kinds of events that say what people call each GPU."""


def labels(events: Iterable[Event]) -> dict[str, str]:
    """What people call each GPU, as recorded last."""
    names: dict[str, str] = {}
    for event in events:
        given = event.data.get("gpus")
        if event.kind in NAMING and isinstance(given, Mapping):
            names |= {str(key): name for key, name in given.items() if isinstance(name, str)}
    return names


def threshold(event: Event) -> float | None:
    """The load below which a GPU counted as idle then."""
    return number(event.facts.get("threshold"))


def found(
    events: Sequence[Event],
    since: float,
    until: float,
    covered: Sequence[tuple[float, float]] = (),
    pending: Mapping[str, object] | None = None,
) -> list[Band]:
    """All that touch the time between two dates, cut to it, in order of their beginning.

    ``covered``: the times of which anything was recorded; ``pending``: the facts of a warning that is just being sent.
    """
    bands = [*phases(events, since, until, covered), *holds(events, until), *offs(events)]
    if pending and (countdown := _countdown(pending, until)):
        bands = [band for band in bands if not (band.kind == COUNTDOWN and band.end > countdown.begin)]
        bands.append(countdown)
    cut = [
        band._replace(begin=max(band.begin, since), end=min(band.end, until))
        for band in bands
        if band.end > since and band.begin < until
    ]
    return sorted(cut, key=lambda band: band.begin)


def phases(
    events: Sequence[Event], since: float, until: float, covered: Sequence[tuple[float, float]] = ()
) -> list[Band]:
    """From each phase of the guard to the next one."""
    made: list[Band] = []
    warnings = {event.incident: event.facts for event in events if event.message_kind == "warning"}
    changes = [event for event in events if event.kind == "phase"]
    for event, after in zip_longest(changes, changes[1:]):
        kind = KIND_OF.get(str(event.data.get("to")))
        if kind is None:
            continue
        recorded = max(event.wall, _recorded_until(max(event.wall, since), covered, until))
        end = recorded if after is None or after.wall < event.wall else min(recorded, after.wall)
        if kind == ACTED:
            kind = DONE_AS.get(str(event.data.get("done")), ACTED)
        begin: float | None = event.wall
        if kind == COUNTDOWN:
            unguarded, begin = _unguarded(events, event, end)
            made.extend(Band(kind, *part, f"{_action(event.data)} announced") for part in unguarded)
        if begin is None:
            continue
        facts = warnings.get(event.incident, {})
        due = number(facts.get("due_wall")) if kind == COUNTDOWN and after is None else None
        words = _words(kind, event, due, facts, called_off=after is not None and after.data.get("to") == "WATCHING")
        made.append(Band(kind, begin, max(end, begin), words, due=due))
    return made


def _unguarded(events: Sequence[Event], began: Event, end: float) -> tuple[list[tuple[float, float]], float | None]:
    """The parts of a countdown that its guard did not live to the end of, and when the last one began; None where no guard came back."""
    parts: list[tuple[float, float]] = []
    begin: float | None = began.wall
    for event in events:
        kind = event.message_kind if began.wall <= event.wall <= end else ""
        if kind == "unguarded" and begin is not None:
            parts.append((begin, event.wall))
            begin = None
        elif kind == "warning" and begin is None:
            begin = event.wall
    return parts, begin


def _action(facts: Mapping[str, object]) -> str:
    return str(facts.get("action") or "action").replace("_", " ")


def _words(kind: str, event: Event, due: float | None, facts: Mapping[str, object], *, called_off: bool) -> str:
    action = _action(event.data)
    if kind == COUNTDOWN:
        if due is not None:
            return _announced(action, due, facts)
        return f"{action} called off" if called_off else f"{action} announced"
    if kind == STUCK:
        unsure = {"cannot": f"{action} not possible", "unknown": f"{action}: outcome unknown"}
        return unsure.get(str(event.data.get("done")), f"{action} failed")
    return {WOULD: f"dry run: {action}", ACTED: f"{action} done"}.get(kind, f"{action} requested")


def _announced(action: str, due: float, facts: Mapping[str, object]) -> str:
    dry = str(facts.get("mode") or "live") != "live"
    return f"{'dry run: ' if dry else ''}{action} at {hour(due)}"


def _recorded_until(at: float, covered: Sequence[tuple[float, float]], until: float) -> float:
    """The end of the record that goes on at that date; small holes in it do not end it."""
    end = at
    for begin, finish in covered:
        if begin <= end + SEEN_AGAIN_SECONDS:
            end = max(end, finish)
    return min(until, end + SEEN_AGAIN_SECONDS) if end < until else until


def _countdown(facts: Mapping[str, object], until: float) -> Band | None:
    begin, due = number(facts.get("wall")), number(facts.get("due_wall"))
    if begin is None or due is None or due <= begin:
        return None
    action = _action(facts)
    return Band(COUNTDOWN, begin, min(due, until), _announced(action, due, facts), due=due)


def holds(events: Iterable[Event], until: float) -> list[Band]:
    """Each hold, with owner and reason, from when it was told to its end, or to when it was released."""
    open_: list[Band] = []
    over: list[Band] = []

    def end(which: Iterable[Band], wall: float) -> None:
        for held in list(which):
            open_.remove(held)
            over.append(held._replace(end=max(held.begin, min(held.end, wall))))

    for event in events:
        facts = event.data if event.kind == UNTOLD_HOLD else event.facts
        if event.kind == "released":
            end([held for held in open_ if held.words == event.data.get("owner")], event.wall)
        elif (event.message_kind == "held" or event.kind == UNTOLD_HOLD) and (
            last := number(facts.get("hold_until_wall"))
        ) is not None:
            owner = str(facts.get("owner") or "somebody")
            end([held for held in open_ if held.words == owner], event.wall)
            open_.append(Band(HOLD, event.wall, last, owner, str(facts.get("hold") or "")))
        elif event.message_kind == "hold_ended":
            released, others = facts.get("hold") == "released", facts.get("holders")
            stay = others if isinstance(others, list) else []
            owner = str(facts.get("owner"))
            gone = [held for held in open_ if (held.words not in stay if released else held.words == owner)]
            end(gone, event.wall)
    end(open_, until)
    return over


def offs(events: Iterable[Event]) -> list[Band]:
    """Times off after an action, as they were closed at the next start."""
    bands = []
    for event in events:
        stopped, started = number(event.facts.get("stopped_wall")), number(event.facts.get("started_wall"))
        if event.message_kind == "closed" and stopped is not None and started is not None and stopped < started:
            bands.append(Band(OFF, stopped, started, "machine off"))
    return bands
