"""What an action is, and the job that it gets. It has four steps, of which only `execute` has an effect."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple, Protocol, Self, TypeVar

from costguard.cloud.access import CloudAccess, HostPaths
from costguard.engine.observation import Device
from costguard.plans import Plan, Result
from costguard.tasks.choose import TaskAccess

HookStep = Literal["pre_stop", "undo", "armed", "warning", "cancelled", "post_boot"]
"""The steps of an incident at which a program of the owner may run."""


class Context(NamedTuple):
    """One job of the action worker, as the guard or a person's command sent it.

    ``job``: ``plan`` answers at once, ``act`` plans, says that it is ready and waits for its release, ``confirm`` says what
    became of an attempt, ``hook`` saves work. ``reason``: the reason to stop, ``sentence``: the same for people. ``settings``:
    those of the action; it and the sections are the configuration's, as plain values. ``results``: the folder in which attempts
    are recorded, empty for none. ``deadline``: seconds for `Action.execute` or `Action.confirm`, 3600 at most. ``fallback``: whether
    the action stands in ``fallback``. ``idle_seconds``: for how long the machine has been idle. ``gpus``: names for people.
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
    host: HostPaths = HostPaths()
    providers: tuple[str, ...] = ()
    results: str = ""
    deadline: float = 60.0
    fallback: bool = False
    idle_seconds: float = 0.0
    gpus: tuple[str, ...] = ()
    instance: str = ""
    job: Literal["plan", "act", "confirm", "hook"] = "plan"
    step: HookStep = "pre_stop"
    task: Mapping[str, str] = {}  # the one in which the agent was started
    task_settings: Mapping[str, object] = {}
    task_plug_ins: tuple[str, ...] = ()
    devices: tuple[Device, ...] = ()  # the GPUs that are judged
    beside: int = 0  # others that this machine shows, and that are none of the task's
    secret_variables: tuple[str, ...] = ()  # of the agent's environment, in which addresses of channels stand

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
            host=HostPaths.of(config.get("host", {})),
            providers=tuple(config.get("providers", ())),
            results=f"{places['runtime']}/results" if places else "",
            task=config.get("guarded", {}),
            task_settings=config.get("task", {}),
            task_plug_ins=tuple(config.get("task_plug_ins", ())),
            fallback=action in policy.get("fallback", ()),
            secret_variables=tuple(_secret_variables(config.get("notify", {}).get("channels"))),
        )

    @property
    def live(self) -> bool:
        """Whether effects are allowed; everything but the exact word is a dry run."""
        return self.mode == "live"

    @property
    def access(self) -> CloudAccess:
        """What leads to this machine's cloud."""
        return CloudAccess(self.providers, self.cloud, self.host)

    @property
    def task_access(self) -> TaskAccess:
        """What leads to the task in which the agent runs."""
        return TaskAccess(self.task_plug_ins, self.task_settings, self.host.procfs)


def _secret_variables(channels: object) -> Iterator[str]:
    named = channels.values() if isinstance(channels, Mapping) else ()
    for channel in named:
        kind, _, name = str(channel.get("urls", "")).partition(":")
        if kind == "env":
            yield name


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
        """Look at everything the plan needs, within 45 s, without an effect. What cannot be read is unknown in the value."""

    def plan(self, facts: F) -> Plan:
        """Decide from the facts alone: no I/O, no clock."""

    def execute(self, plan: Plan, context: Context) -> Result:
        """Act, within ``context.deadline``. Raises DryRunError unless the mode is live."""

    def confirm(self, context: Context, recorded: Result | None) -> Result:
        """Say what the world shows of an attempt; ``recorded``: the result of `execute` as it was written down, None without one."""
