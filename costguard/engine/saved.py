"""What outlives a guard, as values that JSON takes: the state for a restart, commitments for the next boot.

The tables below hold the keys of the saved form, in its order, and where each value is kept: the one may not change when
the other does.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

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


class EarlierBoots(NamedTuple):
    """What added up before this boot, should its state be lost within it."""

    ran: float
    spent: float


class SavedDeadline(NamedTuple):
    """What is said and asked of the deadline; ``extensions`` are rows of holds, ``told_left`` is None for never."""

    extensions: tuple[tuple[str, str, float, float, int | None, float], ...] = ()
    whole: float = 0.0
    told_left: float | None = None


class Commitments(NamedTuple):
    """What must survive a boot (I8), as its file has it. What has a default came with a later version.

    Attributes:
        holds: owner, reason, end on the boot clock and as a date; by the date of now, should it have been set since one was granted.
        held: seconds of hold charged to all users, ``accounts``: to each.
        stops: dates of own stops.
        unused: seconds for which no work has been seen.
        ran: running seconds, of this boot too, as in ``spent``.
        spent_since: date at which the budget period began.
        wall: the date of now, ``dated``: whether it may be right.
        earlier: what adds up, without this boot.
        incident: the one that is open, by the keys of `INCIDENT`.
        holders: of each hold the user's number, and what is given back of its price.
        rules: a checksum of the policy under which time was unused.
        order: number of the save; of two files the higher one is the newer one.
    """

    holds: tuple[tuple[str, str, float, float], ...]
    held: float
    stops: tuple[float, ...]
    unused: float
    ran: float
    spent_since: float
    spent: float
    wall: float
    incident: Mapping[str, object] | None
    earlier: EarlierBoots = EarlierBoots(0.0, 0.0)
    holders: tuple[tuple[int | None, float], ...] = ()
    accounts: tuple[tuple[str, float], ...] = ()
    dated: bool = True
    boot_id: str = ""
    deadline: SavedDeadline = SavedDeadline()
    rules: int = 0
    order: int = 0


def initial(boot_id: str, instance: str, commitments: Commitments | None = None, now: float = 0.0) -> State:
    """A fresh start: a new boot, or a boot whose state is lost.

    ``commitments`` is what `commitments` gave before, for the same instance; ``now`` the boot clock.
    """
    # a guard that lost its state begins anew within the boot: no number of its predecessor may come again (I4)
    core = Core(boot_id, instance, Clocks(began=now, started=0.0, suspended=0.0), serial=int(now * 100.0))
    if commitments:
        core = core._replace(
            people=People(_holds(commitments.holds, commitments.holders), commitments.held, commitments.accounts),
            ledger=Ledger(commitments.stops, spent_since=commitments.spent_since),
            incident=_incident(commitments.incident),
            deadline=_deadline(commitments.deadline),
        )
        same = commitments.boot_id == boot_id
        core = _same_boot(core, commitments.earlier, now) if same else _next_boot(core, commitments, now)
    return State(now, (), (), core)


def _next_boot(core: Core, commitments: Commitments, now: float) -> Core:
    """What an earlier boot left; its incident is closed and its holds are carried over by the first tick.

    Until then a hold has left what it had when it was saved: only a date that is sure may shorten it.
    """
    holds = tuple(hold._replace(until=now + hold.wall - commitments.wall) for hold in core.people.holds)
    extensions = tuple(one._replace(until=now + one.wall - commitments.wall) for one in core.deadline.extensions)
    return core._replace(
        deadline=core.deadline._replace(extensions=extensions),
        people=core.people._replace(holds=holds),
        ledger=core.ledger._replace(unused=commitments.unused, ran=commitments.ran, spent=commitments.spent),
        clocks=core.clocks._replace(wall=commitments.wall if commitments.dated else UNDATED),
        fresh_start="boot",
    )


def _same_boot(core: Core, earlier: EarlierBoots, now: float) -> Core:
    """The state was lost within the boot: this boot's own time counts once, and what was released is asked about.

    Quiet time does not count: nobody looked in between. What people were only warned of is taken back by the first tick.
    """
    core = core._replace(ledger=core.ledger._replace(ran=earlier.ran, spent=earlier.spent), fresh_start="lost")
    if core.incident is None or core.incident.attempt.requested_at is None:
        return core
    attempt = core.incident.attempt._replace(confirm_effect="", confirm_at=now)
    return core._replace(phase=CONFIRMING, incident=core.incident._replace(attempt=attempt))


def commitments(state: State, now: float, wall: float, price_per_hour: float | None = None) -> Commitments:
    """What must survive a boot; ``now`` on the boot clock, which may be hours after the last tick, and as a date."""
    core, people, ledger = state.core, state.core.people, state.core.ledger
    running = max(0.0, state.at - core.clocks.suspended)  # a machine that sleeps is not billed
    extensions, whole, told_left = core.deadline
    return Commitments(
        holds=tuple([(hold.owner, hold.reason, hold.until, wall + hold.until - now) for hold in people.holds]),
        held=people.charged,
        stops=ledger.stops,
        unused=_unused(state),
        ran=ledger.ran + running,
        spent_since=ledger.spent_since,
        spent=ledger.spent + running / 3600.0 * (price_per_hour or 0.0),
        wall=wall,
        earlier=EarlierBoots(ledger.ran, ledger.spent),
        incident=_values(core.incident, INCIDENT) if core.phase in OPEN and core.incident is not None else None,
        holders=tuple([(hold.uid, hold.refundable) for hold in people.holds]),
        accounts=people.accounts,
        dated=core.clocks.synced is not False,
        boot_id=core.boot_id,
        deadline=SavedDeadline(
            tuple([(*one[:3], wall - now + one.until, *one[4:]) for one in extensions]),
            whole,
            None if told_left == NEVER else told_left,
        ),
    )


def _deadline(saved: SavedDeadline) -> Deadline:
    return Deadline(_holds(saved.extensions), saved.whole, _moment(saved.told_left))


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


def with_commitments(state: State, commitments: Commitments) -> State:
    """A state of this boot with what was promised after it was saved: holds, what they cost, the deadline, and own stops."""
    core, holds = state.core, _holds(commitments.holds, commitments.holders)
    people = core.people._replace(holds=holds, charged=commitments.held, accounts=commitments.accounts)
    ledger = core.ledger._replace(stops=commitments.stops)
    return state._replace(core=core._replace(people=people, ledger=ledger, deadline=_deadline(commitments.deadline)))


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
