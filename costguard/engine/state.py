"""Everything the engine remembers, as one immutable value.

`State` changes with every tick, its `Core` only when something happened, so that a quiet tick copies next to nothing.
`Core` holds one part for each subject; `costguard.engine.saved` writes all of it down and reads it back.
"""

from collections.abc import Mapping
from typing import NamedTuple

from costguard.engine.observation import Device, Veto
from costguard.engine.window import NEVER, Track

WATCHING, WARNING, ACTING, CONFIRMING, DONE, FAILED = ("WATCHING", "WARNING", "ACTING", "CONFIRMING", "DONE", "FAILED")


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
        return user_key(self.owner, self.uid)


def user_key(owner: str, uid: int | None) -> str:
    """One user under any name: the user id where it is known."""
    return owner if uid is None else f"uid {uid}"


class Verdict(NamedTuple):
    """What the last plan of an action said."""

    action: str
    verdict: str  # go | consequences | another | refuse | failed
    findings: tuple[tuple[str, str, str], ...] = ()  # (code, text, hint)
    at: float = 0.0


class Announcement(NamedTuple):
    """The message about an incident that is being sent: its warning, later how it ended."""

    effect: str = ""  # id of the message under way
    attempts: int = 0  # of sending it
    again_at: float = NEVER  # when a warning that nobody got is sent again
    exhausted: bool = False  # nobody beyond this machine got the warning, however often it was tried
    reached: str = ""  # whom the warning reached, as the delivery says; of an exhausted one the terminals alone
    reminded: int = 0  # how many reminders of the countdown were sent
    unguarded: bool = False  # the guard ended in the countdown; in live mode people were told so
    live: bool = False  # people were told of what would really be done
    dated: float = 0.0  # the earliest moment of the action that somebody may have read of; 0: nobody has read of any


class Attempt(NamedTuple):
    """How far one link of the list of actions has come."""

    worker: str = ""  # effect id of the attempt under way
    ready: bool = False
    failures: int = 0  # technical failures of this link
    announced: bool = False  # a request of this link was released, and people were told
    retry_at: float = 0.0  # not before
    requested_at: float | None = None  # when the request was released
    confirm_effect: str = ""  # id of the confirmation under way
    confirm_at: float = NEVER  # when to confirm again
    seen_stopping: bool = False  # the machine was seen stopping, and people were told


class Incident(NamedTuple):
    """One reason to act, from its first warning to its end. All times are on the boot clock."""

    id: str
    reason: str
    owner: str  # who asked, for reason person
    opened: float
    warned: float | None = None  # when the warning was delivered, or its delivery rule exhausted
    link: int = 0  # position in the list of actions
    action: str = ""  # its name there
    proof: str = ""
    receipt: str = ""  # of the last attempt, for whoever asks the cloud later
    outcome_deadline: float = NEVER  # when what is under way counts as failed: nobody will say what became of it
    detail: str = ""  # last error, in words
    hook_began: float | None = None  # when its pre-stop hook began
    hook_ended: float | None = None
    hook_failed: tuple[tuple[str, str, str], ...] = ()  # what its worker found of that, as plans find things
    answers_until: float = 0.0  # a guard that came back in the countdown does nothing before
    put_off: float = 0.0  # seconds by which that has put the action off so far
    announcement: Announcement = Announcement()
    attempt: Attempt = Attempt()

    @property
    def requested(self) -> bool:
        """Whether a request was released: from then on nothing is half undone."""
        return self.attempt.requested_at is not None

    @property
    def by_person(self) -> bool:
        """Whether a person asked for it: no warning, no window, and no limit on repeated stops."""
        return self.reason == PERSON


class StopRequest(NamedTuple):
    """What became of the last stop that a person asked for; times are on the boot clock."""

    incident: str
    owner: str
    asked: float
    fate: str = ""  # empty: under way; acted | would | cannot | failed | unknown | withdrawn
    message: str = ""
    ended: float = 0.0


class Alarm(NamedTuple):
    """What delays a stop so long that people are told: unknown (I6), or one weak sign of work."""

    since: float  # the delay counts from here
    told: int = 0  # how often it was told
    next: float = NEVER  # when people are told next; NEVER: something else delays the stop now, only the end is due
    counted: float = 0.0  # from when the pause until then counts
    lasted: float = 0.0  # seconds of delay before ``since``


class Clocks(NamedTuple):
    """What is known of time; moments are on the boot clock, in seconds."""

    began: float  # the guard's first tick in this boot
    started: float  # boot or last resume: boot_grace counts from here
    suspended: float  # seconds asleep in this boot, up to CLOCK_NOISE_SECONDS
    wall: float = 0.0  # a date as it was read, by which other moments have theirs; of an earlier boot: its last
    wall_at: float = 0.0  # when that was
    synced: bool | None = None  # whether the date could be trusted at the last tick


class Selection(NamedTuple):
    """Which GPUs there are and count; positions are those in `State.gpus`."""

    devices: tuple[Device, ...] = ()
    picked: tuple[int, ...] = ()  # positions of the GPUs that gpu_devices selects
    judged: tuple[int, ...] = ()  # positions of the GPUs that must be quiet for the action
    unmatched: tuple[str, ...] = ()  # names in gpu_devices that no GPU answers to


class Signals(NamedTuple):
    """What the machine as a whole has done over time."""

    work: Track | None = None  # busy while any judged GPU is, unknown while any is
    mean: Track | None = None  # of the mean load of the selected GPUs
    known_work: Track | None = None  # as ``work``, but never unknown: a GPU that is unknown is left out
    strong_work: Track | None = None  # as ``known_work``, less a single weak sign; None where signs do not count
    host: Track | None = None  # busy while the host is not known to be quiet
    unknown_since: float | None = None  # some judged GPU has been unknown since
    above_arm_since: float | None = None
    armed_at: float | None = None


class Alarms(NamedTuple):
    """What delays a stop, and when people are told next."""

    unknown: Alarm | None = None
    weak_sign: Alarm | None = None  # a single weak sign keeps the machine up
    kept: Alarm | None = None  # what senses saw has kept the machine up since it would have been stopped
    deadline_at: float = 0.0  # not before, a deadline that waits for the end of work


class Ending(NamedTuple):
    """How the last incident ended, and what comes of it."""

    done: str = ""  # of DONE: acted | would | cannot | unknown
    since: float = 0.0  # when the last phase DONE or FAILED began
    remind_at: float = NEVER  # when people are reminded of DONE or FAILED
    retry_at: float = NEVER  # when FAILED may begin a new incident
    rounds: int = 0  # incidents that failed in a row
    disproved_at: float = NEVER  # from then on a guard that runs disproves that its machine has ended
    disproved: bool = False  # it did so in this boot: no such confirmation is believed any more


class People(NamedTuple):
    """Who holds the machine, and for how long people may yet."""

    holds: tuple[Hold, ...] = ()
    charged: float = 0.0  # seconds of hold charged since work was seen, to all users but root
    accounts: tuple[tuple[str, float], ...] = ()  # and to each of them
    told: tuple[tuple[str, float], ...] = ()  # whose holds were told when


class Interruption(NamedTuple):
    """What the cloud has announced."""

    due: float | None = None  # it takes or interrupts the machine then; of several moments the last
    soonest: float = NEVER  # and the first
    kind: str = "stop"  # what it does, as people were told


class Plans(NamedTuple):
    """What each action would do, and when that is checked."""

    verdicts: tuple[Verdict, ...] = ()
    check_at: float = 0.0  # next preflight
    checking: tuple[str, ...] = ()  # effect ids of the checks under way, each with its action
    checking_since: float | None = None  # since when, for whoever spreads them over time
    failed_rounds: int = 0  # rounds of checks in a row of which some failed
    round_failed: bool = False  # some of the last round failed, so the next preflight is sooner

    def last(self, action: str) -> Verdict | None:
        """The last plan of an action, if one was made."""
        return next((plan for plan in self.verdicts if plan.action == action), None)

    def verdict(self, action: str) -> str:
        """Its verdict; empty where there is none."""
        plan = self.last(action)
        return plan.verdict if plan is not None else ""

    def with_verdict(self, plan: Verdict) -> "Plans":
        """With this plan as the last one of its action."""
        return self._replace(verdicts=(*[other for other in self.verdicts if other.action != plan.action], plan))


class Ledger(NamedTuple):
    """What adds up over boots."""

    stops: tuple[float, ...] = ()  # dates of own stops with no work since
    unused: float = 0.0  # quiet seconds brought along from earlier boots
    ran: float = 0.0  # running seconds of earlier boots
    spent_since: float = 0.0  # date at which the budget period began
    spent: float = 0.0  # money of this period in earlier boots


class Deadline(NamedTuple):
    """What people were told of the deadline, and who extended it."""

    extensions: tuple[Hold, ...] = ()  # one of each user; until the end of the latest no deadline is a reason
    whole: float = 0.0  # the most seconds that were left, where the rules do not say how many it gives
    told_left: float = NEVER  # seconds left when it was told ahead

    @property
    def extension(self) -> Hold | None:
        """The latest, which counts."""
        return max(self.extensions, key=lambda one: one.until, default=None)


class PendingMessage(NamedTuple):
    """A message that is on its way: nobody has said yet whether it arrived. ``at`` is when it was told, on the boot clock."""

    effect: str
    kind: str
    level: str
    facts: Mapping[str, object]
    at: float


class Core(NamedTuple):
    """What changes only when something happened. Times are on the boot clock, in seconds."""

    boot_id: str
    instance: str
    clocks: Clocks
    serial: int = 0  # numbers effects and incidents
    phase: str = WATCHING
    incident: Incident | None = None
    stop_request: StopRequest | None = None
    fresh_start: str = ""  # boot | lost | restart | reload | resume: why the next tick begins anew; empty: it does not
    unchanged_until: float = -NEVER  # no tick changes anything before, if the levels stay
    vetoes: tuple[Veto, ...] = ()
    quiet_host: bool | None = None
    selection: Selection = Selection()
    signals: Signals = Signals()
    alarms: Alarms = Alarms()
    ending: Ending = Ending()
    people: People = People()
    notice: Interruption = Interruption()
    plans: Plans = Plans()
    ledger: Ledger = Ledger()
    deadline: Deadline = Deadline()
    pending_messages: tuple[PendingMessage, ...] = ()  # not known to have arrived: told again after a restart


class State(NamedTuple):
    """The engine's whole memory after one event."""

    at: float
    gpus: tuple[str, ...]
    tracks: tuple[Track, ...]
    core: Core
