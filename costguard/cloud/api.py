"""What a cloud plug-in offers the core, and how plug-ins are loaded.

Importing a plug-in costs nothing: it imports its SDK inside `Provider.open`, which only a worker calls.
`Provider.identify`, `notices` and `tags` speak to the metadata service through the standard library.

Durations are seconds, money is a whole currency unit. Whatever a plug-in raises that is not named here is reported as a bug of
the plug-in; it stops neither the guard nor the other plug-ins.
"""

import importlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar, get_args

from costguard.masking import mask
from costguard.plans import Plan, Result

Verb = Literal["stop", "terminate", "hibernate"]
"""What a cloud can do to a machine."""

Trouble = Literal[
    "unreachable", "throttled", "internal", "credentials", "clock", "denied", "refused", "gone", "changed"
]
"""Kinds of failure. ``denied``: a right is missing. ``refused``: a lock, a protection, a policy. ``gone``: the cloud knows no
such machine. ``changed``: two facts about which machine this is do not agree."""

TECHNICAL: frozenset[Trouble] = frozenset(("unreachable", "throttled", "internal", "credentials", "clock"))
"""After these the next action of `fallback` may be tried; everything else is a veto that nothing bypasses."""

PASSING: frozenset[Trouble] = frozenset(("unreachable", "throttled", "internal"))
"""After these the same request may succeed. Missing credentials and a wrong clock do not mend themselves."""

Sent = Literal["no", "hardly", "perhaps", "silent"]
"""Whether a request that failed is in doubt: it may have been accepted all the same. In the order of doubt:

``no``: it never left, or the cloud refused it. ``hardly``: a proxy or gateway refused it, or the cloud did because of the
machine's state; a look at the machine decides, and without one nothing was accepted. ``perhaps``: an answer with an internal
error (5xx); a look decides, and without one it is unknown. ``silent``: no answer, or one that is not the cloud's; only a look
that shows the end proves an acceptance.
"""

DOUBTS: tuple[Sent, ...] = get_args(Sent)
"""The gravest one last."""


class CloudError(Exception):
    """A cloud, or its metadata service, did not do what was asked. Every error of an SDK becomes one, in one module of the plug-in.

    ``trouble``: the kind, see `Trouble`. ``message``: what happened, for people, without secrets. ``code``: the cloud's own
    code, or the plug-in's; it appears in messages. ``hint``: the next command or setting. ``sent``: the doubt that a request
    with an effect leaves, see `Sent`. ``retry_after``: seconds to wait at least before the same call, 0 where the cloud does
    not say; None when the same call would fail again, which is so for every trouble outside of `PASSING`.
    """

    def __init__(
        self,
        trouble: Trouble,
        message: str,
        *,
        code: str = "",
        hint: str = "",
        sent: Sent = "no",
        retry_after: float | None = 0.0,
    ) -> None:
        super().__init__(message)
        self.trouble = trouble
        self.code = code
        self.hint = hint
        self.sent = sent
        self.retry_after = retry_after if trouble in PASSING else None

    @property
    def in_doubt(self) -> bool:
        """Whether the request may have been accepted."""
        return self.sent in {"perhaps", "silent"}

    @property
    def told(self) -> str:
        """The message, with the code where it does not contain it."""
        message = str(self)
        return message if not self.code or self.code in message else f"{message} ({self.code})"

    @property
    def technical(self) -> bool:
        """Whether the next action of `fallback` may be tried."""
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
    """The machine that a plug-in looks at, every part of it replaceable.

    ``dmi``: the firmware's identity, see `Provider.recognises`. ``settings``: the section ``[cloud]``, with the plug-in's own
    ``[cloud.NAME]`` merged into it, as plain values. ``environ``: the environment, with the SDK's own overrides. ``procfs``,
    ``sysfs``, ``devfs``: where these file systems are mounted; with an empty ``devfs`` no device is read.
    """

    dmi: Mapping[str, str]
    settings: Mapping[str, object]
    environ: Mapping[str, str]
    procfs: str = "/proc"
    sysfs: str = "/sys"
    devfs: str = ""


class Identity(NamedTuple):
    """Which machine this is.

    ``cloud``: its name, for people. ``instance``: the cloud's id of this machine, never used again for another one.
    ``region``, ``zone``, ``type``: as the API spells them. ``market``: ``on-demand``, ``spot``, ``reserved`` (prepaid, or bound
    to a reservation), empty when unknown. ``details``: what the plug-in needs to call its API (account, project, resource id …);
    it becomes part of the receipt, so it holds no secret. ``evidence``: the facts that agreed, at least two, for people.
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

    ``id``: the same each time that the same event is announced. ``kind``: ``stop``, ``terminate``, ``hibernate``, ``reboot``,
    ``freeze`` or ``rebalance``. ``at``: seconds since the epoch (UTC), None when the cloud does not say. ``words``: for people.
    """

    id: str
    kind: str
    at: float | None
    words: str


class Price(NamedTuple):
    """A price of the whole machine for one hour; always an estimate.

    ``amount``: above 0, in ``currency`` (ISO 4217). ``region``: the one that the price is of. ``date``: RFC 3339, a day or a
    moment. ``source``: where it is from, for people. ``kind``: ``list``, the list price on demand; ``spot``, what the cloud
    asks for this machine now; ``limit``, what it costs at most, where the price itself is not known.
    """

    amount: float
    currency: str
    region: str
    date: str
    source: str
    kind: Literal["list", "spot", "limit"] = "list"


class Ticket(NamedTuple):
    """One attempt. Its ids belong in the request or the user agent, so that the cloud's audit log matches.

    ``incident``, ``attempt``: letters, digits and hyphens, such as ``4f1c09aa-i3``; no two attempts share theirs. ``deadline``: seconds from now, above 0; 15 at most for the agent's own stop, up to 3600 for a person's.
    """

    incident: str
    attempt: str
    deadline: float


class Permission(NamedTuple):
    """One right. ``name``: as the cloud spells it. ``why``: what it is for. ``needed``: False for one that only improves plans and messages."""

    name: str
    why: str
    needed: bool = True


class Setting(NamedTuple):
    """One option of a plug-in's own, as ``[cloud.NAME]`` of the configuration has it; ``Site.settings`` has its checked value.

    ``name``: lower case, an identifier. ``description`` and ``allowed``: for the reference. ``default``, ``example``: of the
    kind's type. ``kind``: ``text`` (str), ``switch`` (bool), ``choice`` (one of ``choices``), ``url``, or ``file``: an absolute
    path, which only root and the agent's own user may be able to change. A secret stands in such a file, never in an option.
    ``live_only``: it counts in live mode alone, for it lets a mere question have an effect. ``formerly``: the name under
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


def store_endpoint(service: str, secret: str, empty: str, example: str) -> Setting:
    """The option for another address of a cloud's store of secrets.

    ``service``: the store's name; ``secret``: how a channel refers to a secret (``secret:NAME``); ``empty``: which address is
    used without the option; ``example``: a URL.
    """
    about = f"Another address of {service}, for `{secret}`. Empty: {empty}."
    allowed = "a URL that begins with http:// or https://, or nothing"
    return Setting("store_endpoint", about, "", example, allowed, "url")


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
    """A session with the cloud about this one machine: the SDK is loaded, authenticated and connected.

    Calls come from one thread, in the order `facts`, `plan`, `execute`, or `confirm` or `mark` alone.
    """

    def facts(self, verb: Verb) -> Any:
        """Gather everything the plan needs, without an effect. Raises CloudError when nothing can be known.

        `identify`, `open` and this have 45 s together; later the plan fails as *unreachable*. A fact that cannot be read is
        *unknown* in the value, which is opaque: only this plug-in reads it.
        """

    def plan(self, verb: Verb, facts: Any) -> Plan:
        """Decide from the facts alone: no I/O, no clock. Never raises."""

    def execute(self, verb: Verb, facts: Any, ticket: Ticket) -> Result:
        """Send the request, and the same one again after a technical failure, within ``ticket.deadline``; see `costguard.cloud.send`.

        The facts may be as old as the countdown. ``Result.status``: ``accepted`` with the request id as proof, and, where the
        cloud gives a date, ``accepted`` in its receipt (RFC 3339: this machine's clock may be wrong); ``refused`` for a veto;
        ``failed`` when certainly nothing was accepted, for a technical reason; ``unknown`` when that cannot be known. A
        CloudError counts as ``failed`` when it is technical, else as ``refused``.
        """

    def confirm(self, verb: Verb, ticket: Ticket, recorded: Result | None) -> Result:
        """What the cloud shows of this machine, at its first answer within ``ticket.deadline`` (100 s at most).

        ``done`` (closed: the bill has ended), ``pending`` (seen stopping), else ``recorded``, the attempt's own result, with
        what the cloud shows; ``unknown`` without one. Raises CloudError when the cloud cannot be asked.
        """

    def mark(self, tags: Mapping[str, str], within: float, *, dry: bool = False) -> None:
        """Write tags of this machine, the same ones again after a technical failure, in ``within`` seconds. Raises CloudError.

        Tags that are not named stay as they are, whoever writes them meanwhile. What the cloud does not take in a value is
        replaced, or cut off at its end. With ``dry`` nothing is written: it only checks that the right is there.
        """


class SecretStore(Protocol):
    """The cloud's store of secrets, read with the machine's own identity. Having one costs no SDK and no network.

    The rights are for one secret alone, and apart from those of the actions: nobody has them who does not ask for them.
    """

    @property
    def form(self) -> str:
        """What the name of a secret looks like, for people: follows the word *allowed* in a message."""

    def valid(self, name: str) -> bool:
        """Whether this can be the name of a secret here. Never raises."""

    def read(self, site: Site, identity: Identity, name: str, within: float) -> str:
        """The text of the secret's newest version, in ``within`` seconds. Raises CloudError, and ImportError without the SDK.

        ``name`` is one that `valid` accepts. No part of the text may appear in an error or a log line, nor be written to a file.
        More than 65,536 characters are refused.
        """

    def permissions(self, name: str) -> tuple[Permission, ...]:
        """The rights that this needs."""

    def policy(self, name: str) -> str:
        """The least policy that grants them for this secret only; empty where the cloud has none."""

    def commands(self, name: str) -> str:
        """The commands of a shell that create this policy and give it to the machine's identity, in their order."""


class Provider(Protocol):
    """A cloud. Importing and constructing it needs no network and no SDK.

    Six further attributes are optional. ``settings``: a tuple of `Setting`; without it there is no ``[cloud.NAME]``.
    ``capabilities`` (`Capabilities`): without it the cloud can do everything. ``scheduler(site)``: the scheduler that the
    metadata names and what shows it, or None; has 4 s, may raise CloudError. ``start_command(identity)``: the shell command
    that starts this machine again, for people, on one line of at most 400 characters. ``resume_command(identity)``: the one
    for a hibernated machine, where it differs. ``secret_store`` (`SecretStore`): without it no secrets are read.
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
        """What a shutdown from inside does to the bill and to the disks. Never raises."""

    def identify(self, site: Site) -> Identity:
        """Ask the metadata service which machine this is. Raises CloudError, ``changed`` when two facts do not agree.

        A resident process asks this once an hour, `tags` once a minute and `notices` every few seconds. They run one after
        the other, and its answer is given up after 30 s: each of them should give up after a few seconds.
        """

    def notices(self, site: Site) -> tuple[CloudNotice, ...]:
        """What the cloud announces right now; empty when nothing. Raises CloudError."""

    def tags(self, site: Site) -> Mapping[str, str]:
        """Tags, labels or attributes that the metadata service shows; empty when it shows none. Raises CloudError."""

    def open(self, site: Site, identity: Identity) -> Machine:
        """Load the SDK and authenticate, within the 45 s of `Machine.facts`. Raises CloudError, and ImportError without the SDK."""

    def verify(self, site: Site, receipt: Mapping[str, str]) -> Result:
        """Ask the cloud, from any machine, what became of the machine of a receipt. Raises CloudError, and ImportError without the SDK.

        The core sets no deadline: a person waits for the answer. ``done`` only where the cloud shows that the bill has ended.
        ``receipt`` is flat: each of `Identity.details` under its own name, and ``cloud``, ``instance``, ``region``,
        ``zone``, ``type``, ``action``, ``incident``, ``attempt``, ``request`` (the proof), ``accepted`` (RFC 3339).
        """

    def price(self, identity: Identity) -> Price | None:
        """The list price from the plug-in's own table, for a Spot machine as its ``limit``; None when unknown. No network."""

    def permissions(self, verbs: Sequence[Verb], *, tag: bool = False) -> tuple[Permission, ...]:
        """The rights that these actions need, each once; ``tag`` adds the right for `Machine.mark`. No network, here and below."""

    def policy(self, verbs: Sequence[Verb], *, tag: bool = False) -> str:
        """The least policy that grants them, for one machine only, as the text that the cloud takes; empty without policies."""

    def commands(self, verbs: Sequence[Verb], *, tag: bool = False) -> str:
        """The commands of a shell that create this policy and bind it to one machine, in their order.

        The first one writes the policy to a file by `policy_command`. Capitals stand for names of the owner's own.
        """


START_COMMAND_LIMIT = 400
"""Characters of a command that people can copy."""


def start_command(provider: Provider, identity: Identity) -> str:
    """The command that starts this machine again, for people; empty where the plug-in has none. Never raises."""
    return _own_command(provider, "start_command", identity)


def resume_command(provider: Provider, identity: Identity) -> str:
    """The one for a machine that hibernates; empty where that is no other one than `start_command`. Never raises."""
    return _own_command(provider, "resume_command", identity)


def _own_command(provider: Provider, name: str, identity: Identity) -> str:
    try:
        command = str(getattr(provider, name)(identity))  # optional, so no part of the protocol
    except Exception:  # noqa: BLE001 - foreign code, for words that are only an aid
        return ""
    return command if len(command) <= START_COMMAND_LIMIT and command.isprintable() else ""


def capabilities(provider: Provider) -> Capabilities:
    """What the cloud of a plug-in can do; everything, where it does not say."""
    own = getattr(provider, "capabilities", None)
    return own if isinstance(own, Capabilities) else Capabilities()


def secret_store(provider: Provider) -> SecretStore | None:
    """The store that a plug-in can read; None where it has none."""
    found: SecretStore | None = getattr(provider, "secret_store", None)
    return found


def settings_of(plug_in: object) -> tuple[Setting, ...]:
    """The options of a plug-in's own, for a cloud or for tasks; anything else there is left out: foreign code must not keep a guard from starting."""
    own = getattr(plug_in, "settings", ())
    return tuple(setting for setting in own if isinstance(setting, Setting)) if isinstance(own, tuple | list) else ()


def site_settings(section: Mapping[str, object], name: str, plug_in: object) -> dict[str, object]:
    """What a plug-in sees of the configuration: ``[cloud]`` or ``[task]`` without other plug-ins' tables, and its own one's options.

    ``section["live"]`` is False where a question may have no effect.
    """
    own = section.get(name)
    merged = {key: value for key, value in section.items() if not isinstance(value, Mapping)}
    merged |= own if isinstance(own, Mapping) else {}
    still = {setting.name: setting.default for setting in settings_of(plug_in) if setting.live_only}
    return merged | (still if section.get("live") is False else {})


def policy_command(name: str, verbs: Sequence[Verb], *, tag: bool = False) -> str:
    """The command that prints the policy of a plug-in for these actions, alone."""
    options = "".join(f" --action {verb}" for verb in dict.fromkeys(verbs))
    return f"costguard permissions {name}{options}{' --tag' if tag else ''} --policy"


def secret_policy_command(name: str, secret: str) -> str:
    """The command that prints the policy of a plug-in for reading one secret, alone."""
    return f"costguard permissions {name} --secret {secret} --policy"


P = TypeVar("P")


class Loaded(NamedTuple, Generic[P]):
    """The plug-ins that could be loaded, and in the same order the names of their entry points; a message for each that failed."""

    plug_ins: tuple[P, ...]
    failures: tuple[str, ...]
    names: tuple[str, ...]

    @property
    def named(self) -> list[tuple[str, P]]:
        """Name and plug-in of each; two distributions may bring the same name."""
        return list(zip(self.names, self.plug_ins, strict=True))


def load(names: Iterable[str]) -> Loaded[Provider]:
    """Load plug-ins by module name (its ``PROVIDER``) or by ``module:attribute`` (a class or an instance). Never raises.

    The name of the entry point may stand before either: ``name=module``. Without it the module's name stands in its place.
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
