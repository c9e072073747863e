"""What outlives a guard, as values that JSON takes: the state for a restart, commitments for the next boot.

The tables below hold the keys of the saved form, in its order, and where each value is kept: the one may not change when
the other does.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeVar

from costguard.engine.observation import Device
from costguard.engine.state import (
    ACTING,
    CONFIRMING,
    DONE,
    OPEN,
    UNDATED,
    Alarm,
    Clocks,
    Core,
    Deadline,
    Hold,
    Incident,
    Ledger,
    PendingMessage,
    People,
    State,
    StopRequest,
    Verdict,
)
from costguard.engine.window import NEVER, Track

Made = TypeVar("Made")

CORE = {
    "boot_id": "boot_id", "instance": "instance", "began": "clocks.began", "started": "clocks.started",
    "suspended": "clocks.suspended", "serial": "serial", "devices": "selection.devices", "picked": "selection.picked",
    "judged": "selection.judged", "lacking": "selection.unmatched", "quiet_host": "quiet_host",
    "arm_since": "signals.above_arm_since", "armed": "signals.armed_at", "work": "signals.work",
    "mean": "signals.mean", "shadow": "signals.known_work", "host": "signals.host", "blind": "signals.unknown_since",
    "alarm": "alarms.unknown", "strong": "signals.strong_work", "weak": "alarms.weak_sign", "phase": "phase",
    "done": "ending.done", "incident": "incident", "wish": "stop_request", "closed": "ending.since",
    "remind": "ending.remind_at", "again": "ending.retry_at", "rounds": "ending.rounds", "holds": "people.holds",
    "held": "people.charged", "accounts": "people.accounts", "hold_told": "people.told", "notice": "notice.due",
    "notice_soonest": "notice.soonest", "notice_kind": "notice.kind", "deadline_told": "alarms.deadline_at",
    "stops": "ledger.stops", "plans": "plans.verdicts", "check": "plans.check_at", "checking": "plans.checking",
    "check_since": "plans.checking_since", "check_tries": "plans.failed_rounds", "check_soon": "plans.round_failed",
    "unused": "ledger.unused", "ran": "ledger.ran", "spent_since": "ledger.spent_since", "spent": "ledger.spent",
    "saved_wall": "clocks.wall", "saved_at": "clocks.wall_at", "synced": "clocks.synced", "fresh": "fresh_start",
    "extensions": "deadline.extensions", "deadline_whole": "deadline.whole", "deadline_left": "deadline.told_left",
    "kept": "alarms.kept", "untold": "pending_messages", "disproved_at": "ending.disproved_at",
    "disproved": "ending.disproved",
}  # fmt: skip
"""All but what the next tick computes or brings: vetoes, and until when nothing changes."""

INCIDENT = {
    "id": "id", "reason": "reason", "owner": "owner", "opened": "opened", "told": "announcement.effect",
    "tries": "announcement.attempts", "retell": "announcement.again_at", "warned": "warned",
    "exhausted": "announcement.exhausted", "reached": "announcement.reached", "link": "link", "action": "action",
    "worker": "attempt.worker", "ready": "attempt.ready", "failures": "attempt.failures",
    "released": "attempt.announced", "retry": "attempt.retry_at", "asked": "attempt.requested_at", "proof": "proof",
    "receipt": "receipt", "confirm": "attempt.confirm_effect", "recheck": "attempt.confirm_at",
    "stopping": "attempt.seen_stopping", "lost": "outcome_deadline", "detail": "detail",
    "reminded": "announcement.reminded", "unguarded": "announcement.unguarded", "live": "announcement.live", "dated": "announcement.dated", "saving": "hook_began", "saved": "hook_ended", "hook_failed": "hook_failed",
    "answers": "answers_until", "put_off": "put_off",
}  # fmt: skip

TRACK = {"loud": "busy", "since": "since", "known_since": "known_since", "past": "past", "lost": "unknown_since"}
STOP_REQUEST = {
    "incident": "incident",
    "owner": "owner",
    "asked": "asked",
    "fate": "fate",
    "words": "message",
    "ended": "ended",
}

_DEFAULTS = {**Core._field_defaults, **Incident._field_defaults}
PARTS: dict[str, Callable[..., object]] = {
    "clocks": Clocks,
    **{name: type(part) for name, part in _DEFAULTS.items() if hasattr(part, "_fields")},
}
"""What has fields of its own among those of a core and an incident."""

PLAIN: dict[type, dict[str, str]] = {
    Track: TRACK,
    Incident: INCIDENT,
    StopRequest: STOP_REQUEST,
    Alarm: {name: name for name in Alarm._fields},
}
"""Values that are saved by name; any other one is saved as a list."""


def initial(boot_id: str, instance: str, commitments: Mapping[str, Any] | None = None, now: float = 0.0) -> State:
    """A fresh start: a new boot, or a boot whose state is lost.

    ``commitments`` is what `commitments` gave before, for the same instance; ``now`` the boot clock.
    """
    # a guard that lost its state begins anew within the boot: no number of its predecessor may come again (I4)
    core = Core(boot_id, instance, Clocks(began=now, started=0.0, suspended=0.0), serial=int(now * 100.0))
    if commitments:
        accounts = _pairs(commitments.get("accounts", ()))
        holds = _holds(commitments["holds"], commitments.get("holders", ()))
        core = core._replace(
            people=People(holds, commitments["held"], accounts),
            ledger=Ledger(tuple(commitments["stops"]), spent_since=commitments["spent_since"]),
            incident=_incident(commitments["incident"]),
            deadline=_deadline(commitments.get("deadline") or {}),
        )
        same = commitments.get("boot_id") == boot_id
        core = _same_boot(core, commitments, now) if same else _next_boot(core, commitments, now)
    return State(now, (), (), core)


def _next_boot(core: Core, commitments: Mapping[str, Any], now: float) -> Core:
    """What an earlier boot left; its incident is closed and its holds are carried over by the first tick.

    Until then a hold has left what it had when it was saved: only a date that is sure may shorten it.
    """
    holds = tuple(hold._replace(until=now + hold.wall - commitments["wall"]) for hold in core.people.holds)
    unused, ran, spent = commitments["unused"], commitments["ran"], commitments["spent"]
    extensions = tuple(one._replace(until=now + one.wall - commitments["wall"]) for one in core.deadline.extensions)
    return core._replace(
        deadline=core.deadline._replace(extensions=extensions),
        people=core.people._replace(holds=holds),
        ledger=core.ledger._replace(unused=unused, ran=ran, spent=spent),
        clocks=core.clocks._replace(wall=commitments["wall"] if commitments.get("dated", True) else UNDATED),
        fresh_start="boot",
    )


def _same_boot(core: Core, commitments: Mapping[str, Any], now: float) -> Core:
    """The state was lost within the boot: this boot's own time counts once, and what was released is asked about.

    Quiet time does not count: nobody looked in between. What people were only warned of is taken back by the first tick.
    """
    earlier = commitments["earlier"]
    core = core._replace(ledger=core.ledger._replace(ran=earlier["ran"], spent=earlier["spent"]), fresh_start="lost")
    if core.incident is None or core.incident.attempt.requested_at is None:
        return core
    attempt = core.incident.attempt._replace(confirm_effect="", confirm_at=now)
    return core._replace(phase=CONFIRMING, incident=core.incident._replace(attempt=attempt))


def commitments(state: State, now: float, wall: float, price_per_hour: float | None = None) -> dict[str, Any]:
    """What must survive a boot (I8), as JSON values; ``now`` on the boot clock, which may be hours after the last tick, and as a date."""
    core, people, ledger = state.core, state.core.people, state.core.ledger
    running = max(0.0, state.at - core.clocks.suspended)  # a machine that sleeps is not billed
    return {
        # as earlier versions read them; the end by the date of now, should it have been set since the hold was granted
        "holds": [[hold.owner, hold.reason, hold.until, wall + hold.until - now] for hold in people.holds],
        "holders": [list(hold[4:]) for hold in people.holds],
        "held": people.charged,
        "accounts": [list(account) for account in people.accounts],
        "stops": list(ledger.stops),
        "unused": _unused(state),
        "ran": ledger.ran + running,
        "spent_since": ledger.spent_since,
        "spent": ledger.spent + running / 3600.0 * (price_per_hour or 0.0),
        "wall": wall,
        "dated": core.clocks.synced is not False,
        "boot_id": core.boot_id,
        "earlier": {"ran": ledger.ran, "spent": ledger.spent},  # without this boot, should its state be lost within it
        "incident": _value(core.incident) if core.phase in OPEN else None,
        "deadline": _deadline_values(state, wall - now),
    }


def _deadline_values(state: State, booted: float) -> dict[str, Any]:
    """``booted``: the date at which the boot clock began, by the date of now."""
    extensions, whole, told_left = state.core.deadline
    dated = [list(one._replace(wall=booted + one.until)) for one in extensions]
    return {"extensions": dated, "whole": whole, "told_left": _value(told_left)}


def _deadline(saved: Mapping[str, Any]) -> Deadline:
    """Empty for commitments of a version that did not know it."""
    return Deadline(
        _holds(saved.get("extensions", ())), saved.get("whole", 0.0), _moment(saved.get("told_left"))
    )  # fmt: skip


def _unused(state: State) -> float:
    """Seconds for which no work has been seen, while the machine may count as unused."""
    core, work = state.core, state.core.signals.work
    # a person who starts the machine again after an own stop gets the whole time anew
    stopped = core.phase in (ACTING, CONFIRMING) or (core.phase == DONE and core.ending.done == "acted")
    # what was seen under another policy ends with the next tick
    if stopped or core.fresh_start == "reload" or core.signals.armed_at is not None:
        return 0.0
    if work is None or work.unknown_since is not None or work.busy:
        return 0.0
    return max(0.0, state.at - max(work.known_since, work.since))


def dump(state: State) -> dict[str, Any]:
    """The state as values that JSON takes (a tuple becomes a list). `load` is its inverse, up to what is computed afresh."""
    return {
        "at": state.at,
        "gpus": list(state.gpus),
        "tracks": [_value(track) for track in state.tracks],
        "core": _values(state.core, CORE),
    }


def _values(of: object, places: Mapping[str, str]) -> dict[str, Any]:
    return {key: _value(value) for key, value in zip(places, attrgetter(*places.values())(of), strict=True)}


def _value(value: object) -> object:
    """As JSON takes it: it has no infinity, so NEVER is saved as null."""
    places = PLAIN.get(type(value))
    if places is not None:
        return _values(value, places)
    return None if value == NEVER else value


def alike(state: State, other: State) -> bool:
    """Whether `dump` saves the same of both, but for the time, and for what is decided in vain."""
    core, before = state.core, other.core
    same = core is before or core == before._replace(unchanged_until=core.unchanged_until)
    return same and state.tracks == other.tracks and state.gpus == other.gpus


def with_commitments(state: State, commitments: Mapping[str, Any]) -> State:
    """A state of this boot with what was promised after it was saved: holds, what they cost, the deadline, and own stops."""
    core, accounts = state.core, _pairs(commitments.get("accounts", ()))
    holds = _holds(commitments["holds"], commitments.get("holders", ()))
    people = core.people._replace(holds=holds, charged=commitments["held"], accounts=accounts)
    ledger = core.ledger._replace(stops=tuple(commitments["stops"]))
    moved = _deadline(commitments.get("deadline") or {})
    return state._replace(core=core._replace(people=people, ledger=ledger, deadline=moved))


def load(saved: Mapping[str, Any]) -> State:
    """The state that `dump` saved. Raises KeyError, TypeError or ValueError for anything else."""
    tracks = tuple(map(_track, saved["tracks"]))
    gpus = tuple(saved["gpus"])
    if len(tracks) != len(gpus):
        message = "as many tracks as GPUs"
        raise ValueError(message)
    core = saved["core"]
    if missing := NEEDED - core.keys():
        raise KeyError(*sorted(missing))
    return State(float(saved["at"]), gpus, tracks, _made(Core, core, CORE))


def _made(kind: Callable[..., Made], saved: Mapping[str, Any], places: Mapping[str, str]) -> Made:
    """A value and its parts from what was saved by these places; what an earlier version did not know has its default."""
    own: dict[str, Any] = {}
    parts: dict[str, dict[str, Any]] = {}
    for key, value in saved.items():
        part, _, name = places[key].rpartition(".")
        kept = parts.setdefault(part, {}) if part else own
        kept[name] = READ[key](value) if key in READ else value
    return kind(**own, **{part: PARTS[part](**kept) for part, kept in parts.items()})


def _holds(saved: Sequence[Sequence[Any]], holders: Sequence[Sequence[Any]] = ()) -> tuple[Hold, ...]:
    """Saved holds; in commitments those of before there were user ids have no ``holders``."""
    more = holders or [()] * len(saved)
    return tuple(_hold([*hold, *rest]) for hold, rest in zip(saved, more, strict=True))


def _hold(saved: Sequence[Any]) -> Hold:
    """A saved hold; one of before there were user ids has its own at the end of the owner."""
    hold = Hold(*saved)
    name, word, number = hold.owner.removesuffix(")").rpartition("uid ")
    named = hold.uid is None and word and number.isdecimal() and (not name or name.endswith(" ("))
    return hold._replace(uid=int(number)) if named else hold


def _incident(saved: Mapping[str, Any] | None) -> Incident | None:
    return _made(Incident, saved, INCIDENT) if saved else None


def _track(saved: Mapping[str, Any]) -> Track:
    past = tuple((int(bucket), float(seconds)) for bucket, seconds in saved["past"])
    return Track(bool(saved["loud"]), saved["since"], saved["known_since"], past, saved["lost"])


def _maybe_track(saved: Mapping[str, Any] | None) -> Track | None:
    return _track(saved) if saved else None


def _alarm(saved: Mapping[str, Any] | None) -> Alarm | None:
    return _made(Alarm, saved, PLAIN[Alarm]) if saved else None


def _stop_request(saved: Mapping[str, Any] | None) -> StopRequest | None:
    return StopRequest(**{STOP_REQUEST[key]: value for key, value in saved.items()}) if saved else None


def _verdicts(saved: Sequence[Sequence[Any]]) -> tuple[Verdict, ...]:
    return tuple(Verdict(action, verdict, _findings(findings), at) for action, verdict, findings, at in saved)


def _pending_messages(saved: Sequence[Sequence[Any]]) -> tuple[PendingMessage, ...]:
    return tuple(PendingMessage(effect, kind, level, dict(facts), at) for effect, kind, level, facts, at in saved)


def _findings(saved: Sequence[Sequence[str]]) -> tuple[tuple[str, str, str], ...]:
    return tuple((code, text, hint) for code, text, hint in saved)


def _pairs(saved: Sequence[Sequence[Any]]) -> tuple[tuple[str, float], ...]:
    return tuple((key, seconds) for key, seconds in saved)


def _devices(saved: Sequence[Sequence[Any]]) -> tuple[Device, ...]:
    return tuple(Device(*device) for device in saved)


def _moment(saved: float | None) -> float:
    return NEVER if saved is None else saved


READ: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("picked", "judged", "lacking", "checking", "stops"), tuple),
    **dict.fromkeys(("accounts", "hold_told"), _pairs),
    **dict.fromkeys(("work", "mean", "shadow", "strong", "host"), _maybe_track),
    **dict.fromkeys(("alarm", "weak", "kept"), _alarm),
    **dict.fromkeys(
        ("remind", "again", "notice_soonest", "retell", "recheck", "lost", "next", "deadline_left", "disproved_at"),
        _moment,
    ),
    "devices": _devices,
    "holds": _holds,
    "extensions": _holds,
    "plans": _verdicts,
    "hook_failed": _findings,
    "untold": _pending_messages,
    "incident": _incident,
    "wish": _stop_request,
}
"""How what is saved under a key is read back; anything else is as JSON gives it."""

NEEDED = frozenset(
    {"devices", "picked", "judged", "lacking", "holds", "stops", "plans", "checking", "incident", "alarm"}
)
"""What a state has in every version; without it nothing is guessed."""
