"""What a plug-in for a scheduler's tasks offers the core, and how such plug-ins are loaded.

It ends one task: a job, a notebook, a pod. It never touches the machine, its node or another task. Importing a plug-in costs
nothing: what asks the scheduler is imported inside `Scheduler.open`, which only a worker calls.
"""

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, Protocol, cast

from costguard.cloud import api as cloud_api
from costguard.cloud.api import CloudError, Loaded, Permission, Ticket
from costguard.plans import PlanFinding, Result, Verdict

GROUP = "costguard.tasks"
"""The group of entry points in which plug-ins are registered."""

State = Literal["waiting", "running", "ending", "ended"]
"""``ended``: the scheduler shows its end, or certainly knows no such task any more."""


class SchedulerError(CloudError):
    """A scheduler did not do what was asked. Its ``trouble``, ``sent`` and ``hint`` mean what they mean of a cloud."""


class Place(NamedTuple):
    """Where a plug-in looks, every part of it replaceable.

    ``environ``: the environment of the agent, which the task's scheduler made. ``settings``: the section ``[task]``, with the
    plug-in's own ``[task.NAME]`` merged into it. ``procfs``: where that file system is mounted.
    """

    environ: Mapping[str, str]
    settings: Mapping[str, object]
    procfs: str = "/proc"


class Advice(NamedTuple):
    """What people can do about a task with its scheduler's own programs, in words with commands in backticks; empty for nothing.

    ``reach``: a command line, without backticks, that runs another one beside the task from elsewhere; ``{}`` stands for it.
    ``end``: what ends the task, ``show``: what shows whether it has ended, ``again``: what starts it again.
    """

    reach: str = ""
    end: str = ""
    show: str = ""
    again: str = ""


class Task(NamedTuple):
    """Which task this is.

    ``id``: exactly this one as the scheduler's commands take it: of an array the member, never the whole. ``words``: for
    people, such as *job 12_4*. ``owner``: who asked for it, empty when unknown. ``details``: what the plug-in needs to ask for it
    again; it becomes part of the receipt, so it holds no secret. ``run`` in it, where there is one, tells this run of the task from the next. ``evidence``: the facts that named it, for people.
    ``advice``: what people can do themselves.
    """

    id: str
    words: str
    owner: str = ""
    details: Mapping[str, str] = {}
    evidence: tuple[str, ...] = ()
    advice: Advice = Advice()


class TaskFacts(NamedTuple):
    """What the scheduler says of the task now.

    ``said``: its own word for the state. ``gpus``: how many GPUs of this machine it gave to the task, None where it does not say.
    ``numbers``: which ones, as the driver of the machine numbers them, empty where it does not say. ``elsewhere``: what else
    ends with the task and cannot be seen from here (GPUs of other machines), in words; empty for nothing. ``findings``: what the
    plug-in has to say, rights above all. ``stamp``: what tells this task from a later one of the same id; `Session.end`
    compares it.
    """

    state: State
    said: str
    owner: str = ""
    gpus: int | None = None
    numbers: tuple[int, ...] = ()
    elsewhere: str = ""
    findings: tuple[tuple[Verdict, PlanFinding], ...] = ()
    stamp: str = ""


class Session(Protocol):
    """Questions to the scheduler about one task. Calls come from one thread: `look`, then `end`; or `confirm` or `tell` alone."""

    def look(self, within: float) -> TaskFacts:
        """What the scheduler says of the task, in ``within`` seconds, without an effect. Raises SchedulerError.

        A fact that cannot be had is unknown in it; a task that the scheduler does not know is ``ended``.
        """

    def end(self, facts: TaskFacts, ticket: Ticket) -> Result:
        """End the task, within ``ticket.deadline`` seconds; look first whether its ``stamp`` is still that of the facts.

        ``accepted`` with what was sent as proof; ``done`` where it had ended already; ``refused`` for a veto; ``failed`` when
        certainly nothing was accepted, for a technical reason; ``unknown`` when that cannot be known. Raises SchedulerError,
        which counts as ``failed`` when it is technical and leaves no doubt, as ``unknown`` when in doubt, else as ``refused``.
        """

    def confirm(self, ticket: Ticket, recorded: Result | None) -> Result:
        """What the scheduler shows of the task, at its first answer: ``done`` (seen ended), ``pending`` (seen ending), else ``recorded``.

        Raises SchedulerError when it cannot be asked.
        """

    def tell(self, text: str, within: float) -> str:
        """Write to the task's own output or page, where its owner looks. Returns where, in words. Raises SchedulerError.

        ``refused`` where this scheduler, or this kind of task, has no such place.
        """


class Scheduler(Protocol):
    """A scheduler of tasks. Importing and constructing it needs no network and starts nothing.

    Further attributes are optional: ``settings``, a tuple of `costguard.cloud.api.Setting`, which become ``[task.NAME]``;
    ``tells``: whether `Session.tell` reaches the owner, who then gets every message of an incident there; and ``policy()`` with
    ``commands()``, the least policy that grants the rights, and the commands of a shell that apply it.
    """

    @property
    def name(self) -> str:
        """The name people know, as it stands in messages."""

    def recognises(self, place: Place) -> bool:
        """Whether this process runs in a task of this scheduler, or was started for one. No network. Never raises."""

    def identify(self, place: Place) -> Task:
        """Which task that is. No network. Raises SchedulerError, ``changed`` when two facts do not agree."""

    def belongs(self, place: Place, task: Task, pid: int) -> bool | None:
        """Whether a process is the task's. False: it is another task's. None: of none, or unknown. Never raises."""

    def open(self, place: Place, task: Task) -> Session:
        """Prepare questions. Raises SchedulerError, and ImportError where a library is not installed."""

    def permissions(self) -> tuple[Permission, ...]:
        """The rights that looking, ending and telling need."""


class PolicyTexts(NamedTuple):
    """The least policy that grants a plug-in's rights, and the commands that apply it; empty where its scheduler has none."""

    policy: str = ""
    commands: str = ""


def load(names: Iterable[str]) -> Loaded[Scheduler]:
    """Load plug-ins as `costguard.cloud.api.load` does."""
    return cast("Loaded[Scheduler]", cloud_api.load(names))


def policy_of(scheduler: Scheduler) -> PolicyTexts:
    """The texts that people grant a plug-in's rights with."""
    policy, commands = getattr(scheduler, "policy", None), getattr(scheduler, "commands", None)
    return PolicyTexts(policy() if policy is not None else "", commands() if commands is not None else "")
