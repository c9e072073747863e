"""Everything the engine remembers, as one immutable value that survives as JSON.

`State` changes with every tick, `Core` only when something happened, so that a quiet tick copies
next to nothing. `Commitments` are the part that survives a boot.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from costguard.engine.observation import Device, Veto
from costguard.engine.window import NEVER, Track

VERSION = 1
"""Of the saved form; a file of another version is moved aside, never guessed at."""

WATCHING, WARNING, ACTING, CONFIRMING, DONE, FAILED = (
    "WATCHING",
    "WARNING",
    "ACTING",
    "CONFIRMING",
    "DONE",
    "FAILED",
)


OPEN = frozenset({WARNING, ACTING, CONFIRMING})
"""Phases in which something announced or requested has not ended yet."""

PASSED = frozenset({"go", "consequences"})
"""Verdicts of a plan that may be carried out."""


UNDATED = 0.0
"""The date of a stop on a date that was known to be wrong: recent, until a date that is right takes its place."""

PERSON = "person"
"""The reason that is a person's command, and none of the machine's own."""

ROOT = 0
"""The user id that no sum of holds binds."""


class Hold(NamedTuple):
    """A bounded veto of a person. ``until`` is on the boot clock, ``wall`` the same moment as a date."""

    owner: str
    reason: str
    until: float
    wall: float
    uid: int | None = None  # the kernel's word for who that is; None: only a name is known
    refundable: float = 0.0  # seconds of its price that are given back for time that it does not use

    @property
    def key(self) -> str:
        """Whose hold it is."""
        return holder(self.owner, self.uid)


def holder(owner: str, uid: int | None) -> str:
    """One user under any name: the user id where it is known."""
    return owner if uid is None else f"uid {uid}"


def hold_from(saved: Sequence[Any]) -> Hold:
    """A saved hold; one of before there were user ids has its own at the end of the owner."""
    hold = Hold(*saved)
    name, word, number = hold.owner.removesuffix(")").rpartition("uid ")
    found = hold.uid is None and word and number.isdecimal() and (not name or name.endswith(" ("))
    return hold._replace(uid=int(number)) if found else hold


class Verdict(NamedTuple):
    """What the last plan of an action said."""

    action: str
    verdict: str  # go | consequences | another | refuse | failed
    findings: tuple[tuple[str, str, str], ...] = ()  # (code, text, hint)
    at: float = 0.0


class Incident(NamedTuple):
    """One reason to act, from its first warning to its end. All times are on the boot clock."""

    id: str
    reason: str
    owner: str  # who asked, for reason person
    opened: float
    told: str = ""  # effect id of the warning under way
    tries: int = 0  # of telling the warning
    retell: float = NEVER  # when to tell it again, after a failure
    warned: float | None = None  # delivered, or the delivery rule was exhausted
    exhausted: bool = False  # nobody got it, however often it was tried
    reached: str = ""  # whom it reached, as the delivery says
    link: int = 0  # position in the list of actions
    action: str = ""  # its name there
    worker: str = ""  # effect id of the attempt under way
    ready: bool = False
    failures: int = 0  # technical failures of this link
    released: bool = False  # an attempt at this link was released, and people were told
    retry: float = 0.0  # not before
    asked: float | None = None  # when the request was released
    proof: str = ""
    receipt: str = ""  # of the attempt, for whoever asks the cloud later
    confirm: str = ""  # effect id of the confirmation under way
    recheck: float = NEVER  # when to confirm again
    stopping: bool = False  # it was seen stopping, and people were told
    lost: float = NEVER  # when what is under way counts as lost: nobody will say what became of it
    detail: str = ""  # last error, in words

    @property
    def by_person(self) -> bool:
        """Whether a person asked for it: no warning, no window, and no limit on repeated stops."""
        return self.reason == PERSON


class Wish(NamedTuple):
    """What became of the last stop that a person asked for; times are on the boot clock."""

    incident: str
    owner: str
    asked: float
    fate: str = ""  # empty: under way; acted | would | cannot | failed | unknown | withdrawn
    words: str = ""
    ended: float = 0.0


class Alarm(NamedTuple):
    """What delays a stop and is told: unknown (I6), or one weak sign of work."""

    since: float  # the delay counts from here
    told: int = 0  # how often it was told
    next: float = NEVER  # when it is told next; NEVER: something else delays the stop, and its end is still to be told
    counted: float = 0.0  # from when the pause until then counts
    lasted: float = 0.0  # seconds of delay before ``since``


class Core(NamedTuple):
    """What changes only when something happened. Times are on the boot clock, in seconds."""

    boot_id: str
    instance: str
    began: float  # the guard's first tick in this boot
    started: float  # boot or last resume: boot_grace counts from here
    suspended: float  # seconds asleep in this boot, up to CLOCK_NOISE
    serial: int = 0  # numbers effects and incidents
    devices: tuple[Device, ...] = ()
    picked: tuple[int, ...] = ()  # positions of the GPUs that gpu_devices selects
    judged: tuple[int, ...] = ()  # positions of the GPUs that must be quiet for the action
    lacking: tuple[str, ...] = ()  # names in gpu_devices that no GPU answers to
    vetoes: tuple[Veto, ...] = ()
    quiet_host: bool | None = None
    arm_since: float | None = None
    armed: float | None = None
    work: Track | None = None  # of the machine: loud while any GPU is
    mean: Track | None = None  # of the mean load of the selected GPUs
    shadow: Track | None = None  # as ``work``, had every unknown been quiet
    host: Track | None = None  # loud while the host is not known to be quiet
    blind: float | None = None  # some GPU has been unknown since
    alarm: Alarm | None = None
    strong: Track | None = None  # as ``work``, had a single weak sign been quiet; None where signs do not count
    weak: Alarm | None = None  # a single weak sign keeps the machine up; told again at ``next``
    phase: str = WATCHING
    done: str = ""  # acted | would | cannot | unknown
    incident: Incident | None = None
    wish: Wish | None = None
    closed: float = 0.0  # when the last phase DONE or FAILED began
    remind: float = NEVER  # when DONE or FAILED is told again
    again: float = NEVER  # when FAILED may begin a new incident
    rounds: int = 0  # incidents that failed in a row
    holds: tuple[Hold, ...] = ()
    held: float = 0.0  # seconds of hold charged since work was seen, to all users but root
    accounts: tuple[tuple[str, float], ...] = ()  # and to each of them
    hold_told: tuple[tuple[str, float], ...] = ()  # whose holds were told when
    notice: float | None = None  # the cloud takes or interrupts the machine then; of several moments the last
    notice_soonest: float = NEVER  # and the first
    notice_kind: str = "stop"  # what it does, as people were told
    deadline_told: float = 0.0
    stops: tuple[float, ...] = ()  # dates of own stops with no work since
    plans: tuple[Verdict, ...] = ()
    check: float = 0.0  # next preflight
    checking: tuple[str, ...] = ()  # effect ids of the checks under way, each with its action
    check_since: float | None = None  # since when they have been under way, for whoever spreads them over time
    check_tries: int = 0  # rounds of checks in a row of which some failed
    check_soon: bool = False  # some of the last round failed, so the next preflight is sooner
    unused: float = 0.0  # quiet seconds brought along from earlier boots
    ran: float = 0.0  # running seconds of earlier boots
    spent_since: float = 0.0  # date at which the budget period began
    spent: float = 0.0  # money of this period in earlier boots
    saved_wall: float = 0.0  # a date as it was read, by which other moments have theirs; of an earlier boot: its last
    saved_at: float = 0.0  # its boot clock
    synced: bool | None = None  # whether the date could be trusted at the last tick
    fresh: str = ""  # boot | lost | restart | reload | resume: what the next tick begins again with
    next: float = -NEVER  # nothing changes before, if the levels stay


class State(NamedTuple):
    """The engine's whole memory after one event."""

    at: float
    gpus: tuple[str, ...]
    tracks: tuple[Track, ...]
    core: Core


def initial(boot_id: str, instance: str, commitments: Mapping[str, Any] | None = None, now: float = 0.0) -> State:
    """A fresh start: a new boot, or a boot whose state is lost.

    ``commitments`` is what `commitments` gave before, for the same instance; ``now`` the boot clock.
    """
    # a guard that lost its state begins anew within the boot: no number of its predecessor may come again (I4)
    core = Core(boot_id=boot_id, instance=instance, began=now, started=0.0, suspended=0.0, serial=int(now * 100.0))
    if commitments:
        core = core._replace(
            holds=_holds(commitments["holds"], commitments.get("holders", ())),
            held=commitments["held"],
            accounts=tuple((key, seconds) for key, seconds in commitments.get("accounts", ())),
            stops=tuple(commitments["stops"]),
            spent_since=commitments["spent_since"],
            incident=_incident(commitments["incident"]),
        )
        same = commitments.get("boot_id") == boot_id
        core = _same_boot(core, commitments, now) if same else _next_boot(core, commitments, now)
    return State(now, (), (), core)


def _next_boot(core: Core, commitments: Mapping[str, Any], now: float) -> Core:
    """What an earlier boot left; its incident is closed and its holds are carried over by the first tick.

    Until then a hold has left what it had when it was saved: only a date that is sure may shorten it.
    """
    return core._replace(
        holds=tuple(hold._replace(until=now + hold.wall - commitments["wall"]) for hold in core.holds),
        unused=commitments["unused"],
        ran=commitments["ran"],
        spent=commitments["spent"],
        saved_wall=commitments["wall"] if commitments.get("dated", True) else UNDATED,
        fresh="boot",
    )


def _same_boot(core: Core, commitments: Mapping[str, Any], now: float) -> Core:
    """The state was lost within the boot: this boot's own time counts once, and what was released is asked about.

    Quiet time does not count: nobody looked in between. What people were only warned of is taken back by the first tick.
    """
    earlier = commitments["earlier"]
    core = core._replace(ran=earlier["ran"], spent=earlier["spent"], fresh="lost")
    if core.incident is None or core.incident.asked is None:
        return core
    return core._replace(phase=CONFIRMING, incident=core.incident._replace(confirm="", recheck=now))


def commitments(state: State, wall: float, price_per_hour: float | None = None) -> dict[str, Any]:
    """What must survive a boot (I8), as JSON values; ``wall`` is the date now."""
    core = state.core
    running = max(0.0, state.at - core.suspended)  # a machine that sleeps is not billed
    quiet = 0.0
    open_incident = core.incident if core.phase in OPEN else None
    # a person who starts the machine again after an own stop gets the whole time anew
    stopped = core.phase in (ACTING, CONFIRMING) or (core.phase == DONE and core.done == "acted")
    work = core.work
    seen = not stopped and core.fresh != "reload"  # what was seen under another policy ends with the next tick
    if seen and core.armed is None and work is not None and work.lost is None and not work.loud:
        quiet = max(0.0, state.at - max(work.known_since, work.since))
    return {
        # as earlier versions read them; the end by the date of now, should it have been set since the hold was granted
        "holds": [[hold.owner, hold.reason, hold.until, wall + hold.until - state.at] for hold in core.holds],
        "holders": [list(hold[4:]) for hold in core.holds],
        "held": core.held,
        "accounts": [list(account) for account in core.accounts],
        "stops": list(core.stops),
        "unused": quiet,
        "ran": core.ran + running,
        "spent_since": core.spent_since,
        "spent": core.spent + running / 3600.0 * (price_per_hour or 0.0),
        "wall": wall,
        "dated": core.synced is not False,
        "boot_id": core.boot_id,
        "earlier": {"ran": core.ran, "spent": core.spent},  # without this boot, should its state be lost within it
        "incident": _finite(open_incident._asdict()) if open_incident else None,
    }


def dump(state: State) -> dict[str, Any]:
    """The state as values that JSON takes (a tuple becomes a list). `load` is its inverse, up to what is computed afresh."""
    core = state.core
    saved = core._asdict()
    for name in ("incident", "wish", "alarm", "weak", "work", "mean", "shadow", "strong", "host"):
        value = saved[name]
        saved[name] = _finite(value._asdict()) if value is not None else None
    for name in ("next", "vetoes"):
        del saved[name]
    return {
        "at": state.at,
        "gpus": list(state.gpus),
        "tracks": [_finite(track._asdict()) for track in state.tracks],
        "core": _finite(saved),
    }


def alike(state: State, other: State) -> bool:
    """Whether `dump` saves the same of both, but for the time: for what is decided in vain it works out ``next`` alone."""
    core, before = state.core, other.core
    same = core is before or core == (before if core.next == before.next else before._replace(next=core.next))
    return same and state.tracks == other.tracks and state.gpus == other.gpus


def load(saved: Mapping[str, Any]) -> State:
    """The state that `dump` saved. Raises KeyError, TypeError or ValueError for anything else."""
    core = _infinite(saved["core"], ("remind", "again", "notice_soonest"))
    incident, alarm, wish = core["incident"], core["alarm"], core.get("wish")
    core.update(
        devices=tuple(Device(*device) for device in core["devices"]),
        holds=tuple(map(hold_from, core["holds"])),
        accounts=tuple((key, seconds) for key, seconds in core.get("accounts", ())),
        hold_told=tuple((owner, at) for owner, at in core.get("hold_told", ())),
        plans=tuple(Verdict(a, v, _findings(f), t) for a, v, f, t in core["plans"]),
        incident=_incident(incident),
        wish=Wish(**wish) if wish else None,
        alarm=Alarm(**_infinite(alarm, ("next",))) if alarm else None,
        weak=Alarm(**_infinite(core["weak"], ("next",))) if core.get("weak") else None,
        stops=tuple(core["stops"]),
        picked=tuple(core["picked"]),
        judged=tuple(core["judged"]),
        lacking=tuple(core["lacking"]),
        checking=tuple(core["checking"]),
    )
    for name in ("work", "mean", "shadow", "strong", "host"):
        core[name] = _track(core[name]) if core.get(name) else None
    tracks = tuple(_track(track) for track in saved["tracks"])
    gpus = tuple(saved["gpus"])
    if len(tracks) != len(gpus):
        message = "as many tracks as GPUs"
        raise ValueError(message)
    return State(float(saved["at"]), gpus, tracks, Core(**core))


def _holds(saved: Sequence[Sequence[Any]], holders: Sequence[Sequence[Any]]) -> tuple[Hold, ...]:
    """Holds of commitments; those of before there were user ids have no ``holders``."""
    more = holders or [()] * len(saved)
    return tuple(hold_from([*hold, *rest]) for hold, rest in zip(saved, more, strict=True))


def _incident(saved: Mapping[str, Any] | None) -> Incident | None:
    return Incident(**_infinite(saved, ("retell", "recheck", "lost"))) if saved else None


def _track(saved: Mapping[str, Any]) -> Track:
    past = tuple((int(bucket), float(seconds)) for bucket, seconds in saved["past"])
    return Track(bool(saved["loud"]), saved["since"], saved["known_since"], past, saved["lost"])


def _findings(saved: Sequence[Sequence[str]]) -> tuple[tuple[str, str, str], ...]:
    return tuple((code, text, hint) for code, text, hint in saved)


def _finite(values: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinity: NEVER is saved as null."""
    return {name: None if value == NEVER else value for name, value in values.items()}


def _infinite(values: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    result = dict(values)
    for name in names:
        if name in result and result[name] is None:
            result[name] = NEVER
    return result
