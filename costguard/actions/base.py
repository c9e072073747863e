"""The words all actions share. An action has four steps and only two of them have effects."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Protocol, Self, TypeVar, get_args

Verdict = Literal["go", "consequences", "another", "failed", "refuse"]
"""``failed``: it could not be checked for a technical reason, which may pass."""

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
"""The gravest one last."""

VERDICT_WORDS = {
    "go": "may be carried out",
    "consequences": "may be carried out, with consequences",
    "another": "another action is needed",
    "refuse": "cannot be carried out",
    "failed": "could not be checked",
}
"""What people read."""

Status = Literal["accepted", "done", "pending", "failed", "refused", "unknown"]


class Finding(NamedTuple):
    """One thing to know about a plan.

    ``code`` is stable and for programs, ``text`` says what it means for the bill and the work,
    ``hint`` names what to do about it.
    """

    code: str
    text: str
    hint: str = ""


class Plan(NamedTuple):
    """The answer to *may I, and what follows*.

    ``ends_bill`` and ``keeps_disks`` are None where it is not known. ``command`` is what a guest
    action runs; it stays in the worker. ``receipt`` names the machine to whoever asks its cloud later. ``price`` has the
    fields of `costguard.actions.provider.Price`, where the cloud was asked what this machine costs; else it is empty.
    """

    action: str
    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    ends_bill: bool | None = None
    keeps_disks: bool | None = None
    command: tuple[str, ...] = ()
    receipt: Mapping[str, str] = {}
    price: Mapping[str, object] = {}

    @property
    def may_act(self) -> bool:
        """Whether the plan can be executed."""
        return self.verdict in {"go", "consequences"}


class Outcome(NamedTuple):
    """What became of an attempt: words for people, and a proof (request id or exit code).

    ``receipt`` is what `costguard stop --verify` needs to ask the cloud about it.
    """

    status: Status
    detail: str
    proof: str = ""
    receipt: Mapping[str, str] = {}

    @property
    def as_json(self) -> dict[str, object]:
        """What is reported and recorded."""
        return {name: value for name, value in self._asdict().items() if name != "receipt" or value}


class Host(NamedTuple):
    """Where the machine's files are, and whether this container stands for its host."""

    procfs: str = "/proc"
    sysfs: str = "/sys"
    devfs: str = "/dev"
    stands_for_host: bool = False

    @classmethod
    def of(cls, section: Mapping[str, Any]) -> Self:
        """The section ``[host]`` as a job has it; what else it says is none of an action's business."""
        return cls(**{name: section[name] for name in cls._fields if name in section})


class Context(NamedTuple):
    """One job of the action worker, as the guard or a person's command sent it. Durations are seconds.

    ``job``: ``plan`` answers at once, ``act`` plans, says that it is ready and waits for its release, ``confirm`` says what
    became of an attempt, ``hook`` saves work. The sections are the configuration's, as plain values.
    """

    action: str
    mode: str = "dry-run"
    incident: str = ""
    attempt: str = ""
    reason: str = ""
    sentence: str = ""
    settings: Mapping[str, object] = {}
    cloud: Mapping[str, object] = {}
    sink: Mapping[str, object] = {}
    heartbeat: Mapping[str, object] = {}
    hook: Mapping[str, object] = {}
    asks: bool = False  # a person sees the plan and decides only then
    host: Host = Host()
    providers: tuple[str, ...] = ()
    results: str = ""
    deadline: float = 60.0
    fallback: bool = False
    idle_seconds: float = 0.0
    gpus: tuple[str, ...] = ()
    instance: str = ""
    job: Literal["plan", "act", "confirm", "hook"] = "plan"

    @classmethod
    def of(cls, config: Mapping[str, Any], action: str) -> Self:
        """What an effective configuration says of this action; ids, circumstances and the deadline are the caller's."""
        policy, places = config["policy"], config.get("paths", {})
        return cls(
            action=action,
            mode=str(policy["mode"]),
            settings=config.get("actions", {}).get(action, {}),
            cloud=config.get("cloud", {}),
            sink=config.get("sink", {}),
            heartbeat=config.get("heartbeat", {}),
            hook=config.get("hooks", {}),
            host=Host.of(config.get("host", {})),
            providers=tuple(config.get("providers", ())),
            results=f"{places['runtime']}/results" if places else "",
            fallback=action in policy.get("fallback", ()),
        )

    @property
    def live(self) -> bool:
        """Whether effects are allowed; everything but the exact word is a dry run."""
        return self.mode == "live"


class DryRunError(Exception):
    """An effect was asked for in dry-run mode. Nothing happened."""


F = TypeVar("F")


class Action(Protocol[F]):
    """One way to end a bill or to tell another program.

    `facts` is the only step that looks at the world before acting, `plan` is pure, `execute` is
    called at most once for an attempt, `confirm` never has an effect.
    """

    @property
    def name(self) -> str:
        """The word of the configuration."""

    def facts(self, context: Context) -> F:
        """Look at everything the plan needs, within a few seconds, without an effect."""

    def plan(self, facts: F) -> Plan:
        """Decide from the facts alone."""

    def execute(self, plan: Plan, context: Context) -> Outcome:
        """Act. Ends within ``context.deadline``. Raises DryRunError unless the mode is live."""

    def confirm(self, context: Context, recorded: Outcome | None) -> Outcome:
        """Say what the world shows of an attempt; ``recorded`` is what its executor wrote down."""


def without_promises(plan: Plan) -> Plan:
    """The plan; one that cannot be executed does not say that the bill ends, for nothing will end it."""
    if plan.may_act:
        return plan
    findings = tuple(finding for finding in plan.findings if finding.code != "bill_ends")
    return plan._replace(findings=findings, ends_bill=False if plan.ends_bill is False else None)


def worst(*verdicts: Verdict) -> Verdict:
    """The gravest of several verdicts."""
    return max(verdicts, key=VERDICTS.index, default="go")
