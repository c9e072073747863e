"""What can happen to the engine. ``at`` is the boot clock in seconds, in every event."""

from typing import NamedTuple

from costguard.engine.observation import Device, Observation


class Tick(NamedTuple):
    """One observation. ``suspended`` is boot clock minus monotonic clock; it jumps on a resume.

    ``wall`` is the date in seconds since the epoch, ``synced`` whether it can be trusted (None:
    cannot tell); dates act only when it is not False. ``skipped_at``: when the reader took a reading equal to the last
    tick's and did not report it; None if it did not.
    """

    at: float
    observation: Observation
    wall: float = 0.0
    suspended: float = 0.0
    synced: bool | None = None
    skipped_at: float | None = None


class Devices(NamedTuple):
    """The readers learnt which GPUs there are."""

    at: float
    devices: tuple[Device, ...]


class Began(NamedTuple):
    """The guard began again within the boot, or works under another policy from now on.

    ``why``: ``restart``; or another policy, which was read (``reload``) or found by a restart (``reconfigured``, ``upgrade``), or
    an ``error`` of the guard's own. ``tags``: another policy that can only be milder, with the same actions. ``unchanged``: its configuration was read
    again, and is the same. ``proven``: what plans rest on is as it was, so that those which passed stay valid until they
    are made again.
    """

    at: float
    why: str  # restart | reload | reconfigured | upgrade | tags | error | unchanged
    proven: bool = True


class Outcome(NamedTuple):
    """What became of an effect.

    ``status``: delivered, failed (tell) · go, consequences, another, refuse, failed (check) ·
    saving (its hook begins), ready, another, refuse, failed (prepare) · accepted, done, failed, refused, unknown (go) ·
    done, pending, accepted, failed, unknown (confirm).
    """

    at: float
    effect: str
    status: str
    detail: str = ""
    findings: tuple[tuple[str, str, str], ...] = ()  # (code, text, hint)
    proof: str = ""
    receipt: str = ""  # with which anybody can ask the cloud later what became of it
    answered: tuple[tuple[str, float], ...] = ()  # of a message: its channels, and the date at which each answered
    reached: tuple[tuple[str, str], ...] = ()  # of a message: channels that took it, and whom that reached
    failed: tuple[tuple[str, str], ...] = ()  # of a message: channels that did not, and why
    beside: tuple[tuple[str, object], ...] = ()  # of a message: facts that it got where it was written
    begun: float = 0.0  # of a message: when its delivery began, by which that is known


class AskHold(NamedTuple):
    """Somebody wants the machine to stay up for ``seconds``.

    ``uid``: the user as the kernel knows it, who is charged; without it the name in ``owner`` stands for it.
    """

    at: float
    seconds: float
    owner: str
    reason: str = ""
    client: int | None = None
    wall: float = 0.0
    uid: int | None = None


class AskExtend(NamedTuple):
    """Somebody wants the deadline to come ``seconds`` later than it is, or than now where it has passed.

    ``suspended``: as in a tick; None where no sleep can lie between the last one and this.
    """

    at: float
    seconds: float
    owner: str
    reason: str = ""
    client: int | None = None
    wall: float = 0.0
    uid: int | None = None
    suspended: float | None = None


class AskRelease(NamedTuple):
    """Somebody ends holds. ``everything``: those of all users, what is latched, and the limit on repeated stops."""

    at: float
    owner: str
    client: int | None = None
    uid: int | None = None
    everything: bool = True


class AskStop(NamedTuple):
    """A person wants the machine stopped now."""

    at: float
    owner: str
    client: int | None = None


class Notice(NamedTuple):
    """The cloud will take the machine away or interrupt it at ``due`` (boot clock), whatever the engine does.

    ``kind`` is that of `costguard.cloud.api.CloudNotice`, as people are told it; ``dated``: the cloud has named the moment.
    """

    at: float
    due: float
    words: str
    kind: str = "stop"
    dated: bool = True


class Finding(NamedTuple):
    """Something was found out that people should know, of each of ``subjects``: GPUs, or words. It is told, and decides nothing."""

    at: float
    subjects: tuple[str, ...]
    code: str
    words: str


class Leaving(NamedTuple):
    """The guard is told to end, with whatever is open."""

    at: float


Event = Tick | Devices | Began | Outcome | AskHold | AskExtend | AskRelease | AskStop | Notice | Finding | Leaving
