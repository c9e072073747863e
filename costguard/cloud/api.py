"""What a cloud plug-in offers the core, and how plug-ins are loaded.

Importing a plug-in costs nothing: it imports its SDK inside `Provider.open`, which only a worker calls.
`Provider.identify`, `notices` and `tags` speak to the metadata service through the standard library.
"""

import importlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, get_args

from costguard.masking import mask
from costguard.plans import Plan, Result

Verb = Literal["stop", "terminate", "hibernate"]
"""What a cloud can do to a machine."""

Trouble = Literal[
    "unreachable", "throttled", "internal", "credentials", "clock", "denied", "refused", "gone", "changed"
]

TECHNICAL: frozenset[Trouble] = frozenset(("unreachable", "throttled", "internal", "credentials", "clock"))
"""What a fall-back action may follow; everything else is a veto that nothing bypasses."""


PASSING: frozenset[Trouble] = frozenset(("unreachable", "throttled", "internal"))
"""Troubles after which the same request may succeed. Missing credentials and a wrong clock do not mend themselves."""

Sent = Literal["no", "hardly", "perhaps", "silent"]
"""Whether a request that failed may have had its effect all the same; each word says more doubt than the one before.

``no``: it never left, or the cloud refused it. ``hardly``: something between refused it, or the cloud did because of the
machine's state: a look at the machine is worth while, and where nobody can look nothing was accepted. ``perhaps``: an
answer with trouble (5xx): a look decides. ``silent``: it was sent, and nobody answered, or nobody that is the cloud: only
a look that shows the end says what became of it.
"""

DOUBTS: tuple[Sent, ...] = get_args(Sent)


class CloudError(Exception):
    """A cloud, or its metadata service, did not do what was asked. Every error of an SDK becomes one, in one module of the plug-in.

    ``trouble`` says which kind, ``code`` is the cloud's own word for it, ``hint`` the next command to run. ``sent`` is the
    doubt that the request leaves. ``retry_after`` is how many seconds the cloud wants to be left alone before the same
    call, 0 where it does not say; None, as for every trouble that does not pass: the same call would fail again.
    """

    def __init__(
        self,
        trouble: Trouble,
        words: str,
        *,
        code: str = "",
        hint: str = "",
        sent: Sent = "no",
        retry_after: float | None = 0.0,
    ) -> None:
        super().__init__(words)
        self.trouble = trouble
        self.code = code
        self.hint = hint
        self.sent = sent
        self.retry_after = retry_after if trouble in PASSING else None

    @property
    def in_doubt(self) -> bool:
        """Whether the request may have had its effect."""
        return self.sent in {"perhaps", "silent"}

    @property
    def told(self) -> str:
        """Its words for people, with the cloud's own word for it."""
        words = str(self)
        return words if not self.code or self.code in words else f"{words} ({self.code})"

    @property
    def technical(self) -> bool:
        """Whether the next link of the fall-back list may be tried."""
        return self.trouble in TECHNICAL


class Consequence(NamedTuple):
    """What a shutdown from inside does on this cloud; None where it depends on what costguard cannot see.

    ``ends_bill``: whether computing is no longer billed. ``keeps_disks``: whether the network disks
    survive, so that the machine can be started again. ``text`` and ``hint`` are for people.
    """

    ends_bill: bool | None
    keeps_disks: bool | None
    text: str
    hint: str = ""


class Site(NamedTuple):
    """Where a plug-in looks, all of it replaceable.

    ``dmi`` is the firmware's identity as `Provider.recognises` gets it; ``settings`` is the section
    ``[cloud]`` of the configuration as plain values; ``environ`` has the SDK's own overrides. With an empty ``devfs`` no
    device is read.
    """

    dmi: Mapping[str, str]
    settings: Mapping[str, object]
    environ: Mapping[str, str]
    procfs: str = "/proc"
    sysfs: str = "/sys"
    devfs: str = ""


class Identity(NamedTuple):
    """Which machine this is. ``evidence`` names the facts that agreed, in words.

    ``market`` is ``on-demand``, ``spot``, ``reserved`` (prepaid, or bound to a reservation) or empty when
    unknown; ``details`` has what the plug-in needs to call its API (account, project, resource id …).
    """

    cloud: str
    instance: str
    region: str
    zone: str
    type: str
    market: str
    details: Mapping[str, str]
    evidence: tuple[str, ...]


class CloudNotice(NamedTuple):
    """The cloud takes this machine away, or interrupts it.

    ``kind`` is ``stop``, ``terminate``, ``hibernate``, ``reboot``, ``freeze`` or ``rebalance``; ``at`` is
    the wall-clock moment (seconds since the epoch), None when the cloud does not say.
    """

    id: str
    kind: str
    at: float | None
    words: str


class Price(NamedTuple):
    """A price of the whole machine for one hour; always an estimate.

    ``kind``: ``list``, the price list's for a machine on demand; ``spot``, what the cloud asks for this machine now;
    ``limit``, what it costs at most, where the price itself is not known.
    """

    amount: float
    currency: str
    region: str
    date: str
    source: str
    kind: Literal["list", "spot", "limit"] = "list"


class Ticket(NamedTuple):
    """One attempt: its ids stand in the request, so that the cloud's audit log matches. Seconds."""

    incident: str
    attempt: str
    deadline: float


class Permission(NamedTuple):
    """One right, in the cloud's own word, and what it is needed for.

    ``needed`` is False for a right that only makes plans and messages better.
    """

    name: str
    why: str
    needed: bool = True


class Setting(NamedTuple):
    """One option of a plug-in's own, as ``[cloud.NAME]`` of the configuration has it; ``Site.settings`` has its checked value.

    ``kind``: ``text`` (str), ``switch`` (bool), ``choice`` (one of ``choices``), ``url``, or ``file``: an absolute path, which
    only root and the agent's own user may be able to change. A secret stands in such a file, never in an option.
    ``live_only``: it counts in live mode alone, for it lets a mere question have an effect. ``formerly`` is the name under
    which older configurations have it in ``[cloud]``.
    """

    name: str
    description: str
    default: str | bool
    example: str | bool
    allowed: str
    kind: Literal["text", "switch", "choice", "url", "file"] = "text"
    choices: tuple[str, ...] = ()
    live_only: bool = False
    formerly: str = ""


class Capabilities(NamedTuple):
    """What a cloud has at all. What it lacks is refused before it is asked for: by `config check`, in plans, by `doctor`.

    ``verbs``: what it can do to a machine. ``notices``: whether it announces that it takes a machine away. ``tags``: whether
    machines have tags that a machine can read and write. ``policies``: whether rights can be limited to one machine.
    """

    verbs: tuple[Verb, ...] = ("stop", "terminate", "hibernate")
    notices: bool = True
    tags: bool = True
    policies: bool = True


class Machine(Protocol):
    """A session with the cloud about this one machine: the SDK is loaded, authenticated and connected."""

    def facts(self, verb: Verb) -> Any:
        """Gather everything the plan needs, without an effect. A fact that cannot be had is *unknown* in it."""

    def plan(self, verb: Verb, facts: Any) -> Plan:
        """Decide from the facts alone."""

    def execute(self, verb: Verb, facts: Any, ticket: Ticket) -> Result:
        """Send the request, the same one again after a technical failure, within ``ticket.deadline``.

        ``accepted`` with the request id as proof, and, where the cloud gives a date, ``accepted`` in its receipt
        (RFC 3339: this machine's clock may be wrong); ``refused`` for a veto; ``failed`` when nothing was
        accepted for a technical reason; ``unknown`` when nobody can say.
        """

    def confirm(self, verb: Verb, ticket: Ticket, recorded: Result | None) -> Result:
        """What the cloud says of this machine: ``done`` (closed), ``pending`` (seen stopping) or what was recorded."""

    def mark(self, tags: Mapping[str, str], within: float, *, dry: bool = False) -> None:
        """Write tags of this machine, the same ones again after a technical failure, in ``within`` seconds. Raises CloudError.

        Other tags stay as they are, whoever writes them meanwhile. What the cloud does not take in a value is replaced
        or cut off. ``dry`` writes nothing and asks only whether the right is there.
        """


class Provider(Protocol):
    """A cloud. Importing and constructing it needs no network and no SDK.

    Two further attributes are optional: ``settings``, a tuple of `Setting`, and ``capabilities`` (`Capabilities`); a
    plug-in without them has no settings of its own, and a cloud that can do everything.
    """

    @property
    def name(self) -> str:
        """The name people know, as it stands in messages."""

    def recognises(self, dmi: Mapping[str, str]) -> bool:
        """Whether the firmware's identity is this cloud's.

        ``dmi`` has the readable files of ``/sys/class/dmi/id`` and ``hypervisor_uuid``; a file that
        cannot be read is missing. Never raises.
        """

    def instance_of(self, dmi: Mapping[str, str]) -> str:
        """The instance's own id as the firmware has it, the same after a stop and a start; else empty. Never raises."""

    def guest_shutdown(self) -> Consequence:
        """What a shutdown from inside does to the bill and to the disks."""

    def identify(self, site: Site) -> Identity:
        """Ask the metadata service who this machine is. Raises CloudError when two facts do not agree."""

    def notices(self, site: Site) -> tuple[CloudNotice, ...]:
        """What the cloud announces right now. Raises CloudError."""

    def tags(self, site: Site) -> Mapping[str, str]:
        """Tags, labels or attributes that the metadata service shows; empty when it shows none. Raises CloudError."""

    def open(self, site: Site, identity: Identity) -> Machine:
        """Load the SDK and authenticate. Raises CloudError."""

    def verify(self, site: Site, receipt: Mapping[str, str]) -> Result:
        """Ask the cloud, from any machine, what became of the machine of a receipt. Raises CloudError.

        ``receipt`` is flat: each of `Identity.details` under its own name, and ``cloud``, ``instance``, ``region``,
        ``zone``, ``type``, ``action``, ``incident``, ``attempt``, ``request`` (the proof), ``accepted`` (RFC 3339).
        """

    def price(self, identity: Identity) -> Price | None:
        """The list price, from the plug-in's own table, of a Spot machine as its limit; None when unknown."""

    def permissions(self, verbs: Sequence[Verb], *, tag: bool = False) -> tuple[Permission, ...]:
        """The rights these actions need; ``tag`` adds that of `Machine.mark`."""

    def policy(self, verbs: Sequence[Verb], *, tag: bool = False) -> str:
        """The least policy that grants them to this one machine only, as the text its cloud takes."""

    def commands(self, verbs: Sequence[Verb], *, tag: bool = False) -> str:
        """The commands of a shell that create this policy and bind it to one machine, in their order.

        The first one writes the policy to a file by `policy_command`. Words in capitals stand for names of the owner's own.
        """


def capabilities(provider: Provider) -> Capabilities:
    """What the cloud of a plug-in can do; everything, where it does not say."""
    found = getattr(provider, "capabilities", None)
    return found if isinstance(found, Capabilities) else Capabilities()


def settings_of(provider: Provider) -> tuple[Setting, ...]:
    """The options of a plug-in's own; what is none is left out, for foreign code may not keep a guard from starting."""
    found = getattr(provider, "settings", ())
    return tuple(one for one in found if isinstance(one, Setting)) if isinstance(found, tuple | list) else ()


def site_settings(cloud: Mapping[str, object], name: str, provider: Provider) -> dict[str, object]:
    """What a plug-in sees of the configuration: ``[cloud]`` without other plug-ins' tables, and its own ``[cloud.NAME]``.

    ``cloud["live"]`` is False where a question may have no effect.
    """
    own = cloud.get(name)
    found = {key: value for key, value in cloud.items() if not isinstance(value, Mapping)}
    found |= own if isinstance(own, Mapping) else {}
    still = {one.name: one.default for one in settings_of(provider) if one.live_only}
    return found | (still if cloud.get("live") is False else {})


def policy_command(name: str, verbs: Sequence[Verb], *, tag: bool = False) -> str:
    """The command that prints the policy of a plug-in for these actions, alone."""
    options = "".join(f" --action {verb}" for verb in dict.fromkeys(verbs))
    return f"costguard permissions {name}{options}{' --tag' if tag else ''} --policy"


class Loaded(NamedTuple):
    """The plug-ins that could be loaded with the names of their entry points, and words for each one that could not."""

    providers: tuple[Provider, ...]
    failures: tuple[str, ...]
    names: tuple[str, ...] = ()


def load(names: Iterable[str]) -> Loaded:
    """Load plug-ins by module name (its ``PROVIDER``) or by ``module:attribute`` (a class or an instance).

    The name of the entry point may stand before either: ``name=module``.
    """
    providers: list[Provider] = []
    failures: list[str] = []
    loaded: list[str] = []
    for entry in names:
        name, _, target = entry.rpartition("=")
        module, _, attribute = target.partition(":")
        try:
            found = getattr(importlib.import_module(module), attribute or "PROVIDER")
            providers.append(found() if isinstance(found, type) else found)
            loaded.append(name or module)
        except Exception as error:  # noqa: BLE001 - foreign code: whatever it raises, the plan has to say so
            failures.append(f"{target}: {type(error).__name__}: {mask(str(error))}")
    return Loaded(tuple(providers), tuple(failures), tuple(loaded))
