"""`end_task`: the scheduler ends the task in which costguard runs, through the plug-in that knows it. The machine goes on.

The core names no scheduler. Whatever a plug-in raises becomes a finding here, so that people read why and what to do.
"""

import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from costguard import extras, holders
from costguard.actions.base import Context, DryRunError
from costguard.cloud.api import Ticket
from costguard.cloud.receipt import accepted
from costguard.cloud.retry import LateError, bounded
from costguard.engine.policy import END_TASK
from costguard.masking import mask
from costguard.plans import Plan, PlanFinding, Result, Verdict, worst
from costguard.tasks import rules
from costguard.tasks.api import SchedulerError, Session, TaskFacts
from costguard.tasks.choose import ChosenTask, NoTaskError, choose

LOOK_SECONDS = 30.0
"""For a look at the task, before it is ended."""

BEGUN_SECONDS = 30.0
"""Within which the request is sent: the GPUs were looked at a moment ago."""

CODES = {
    "unreachable": "unreachable",
    "throttled": "throttled",
    "internal": "scheduler_error",
    "credentials": "credentials_missing",
    "clock": "clock_skew",
    "denied": "not_permitted",
    "refused": "scheduler_refused",
    "gone": "task_ended",
    "changed": "not_this_task",
}
"""Findings by the kind of trouble."""

T = TypeVar("T")


class Asked(NamedTuple):
    """A session with the scheduler, and what it said of the task."""

    chosen: ChosenTask
    session: Session
    facts: TaskFacts


class EndTaskFacts(NamedTuple):
    """What the plan needs; without ``case`` nobody could be asked, and ``trouble`` says why."""

    case: rules.TaskCase | None = None
    trouble: tuple[Verdict, PlanFinding] | None = None


class EndTask:
    """End one task, exactly that in which the agent was started."""

    name = END_TASK

    def __init__(self) -> None:
        self._asked: Asked | None = None

    def facts(self, context: Context) -> EndTaskFacts:
        """Find the task, ask its scheduler, and see who holds the GPUs."""
        self._asked = None
        try:
            asked = self._asked = _ask(context)
        except NoTaskError as error:
            return EndTaskFacts(trouble=(error.verdict, error.finding))
        except SchedulerError as error:
            return EndTaskFacts(trouble=explain(error))
        return EndTaskFacts(_case(context, asked))

    def plan(self, facts: EndTaskFacts) -> Plan:
        """See `costguard.tasks.rules`."""
        if facts.case is None:
            assert facts.trouble is not None  # one of the two is there
            verdict, finding = facts.trouble
            return Plan(
                self.name, worst(verdict, "failed") if verdict != "refuse" else verdict, (finding,), ends_bill=False
            )
        return rules.plan(self.name, facts.case)

    def execute(self, plan: Plan, context: Context) -> Result:
        """Send the request, after a last look whether it is still the same task."""
        if not context.live:
            raise DryRunError("dry run")
        asked = self._asked
        if asked is None or not plan.may_act:
            return Result("failed", "the scheduler was not asked: nothing was sent")
        ticket = Ticket(context.incident, context.attempt, min(context.deadline, BEGUN_SECONDS))
        try:
            outcome = asked.session.end(asked.facts, ticket)
        except SchedulerError as error:
            return _failed(error)
        if outcome.status in {"failed", "refused"}:
            return outcome
        said = str(outcome.receipt.get("accepted", ""))
        return outcome._replace(receipt=accepted(plan.receipt, outcome.proof, said))

    def confirm(self, context: Context, recorded: Result | None) -> Result:
        """What the scheduler shows of the task now."""
        ticket = Ticket(context.incident, context.attempt, min(context.deadline, LOOK_SECONDS))
        try:
            chosen = _chosen(context)
            session = _within(chosen, "open", lambda: chosen.scheduler.open(chosen.place, chosen.task), ticket.deadline)
            outcome = session.confirm(ticket, recorded)
        except NoTaskError as error:
            return _unasked(recorded, str(error))
        except SchedulerError as error:
            return _unasked(recorded, mask(error.told))
        return outcome._replace(receipt=recorded.receipt if recorded else {})


def explain(error: SchedulerError) -> tuple[Verdict, PlanFinding]:
    """A scheduler that cannot be asked, as a finding: what is technical may pass, the rest is a veto."""
    finding = PlanFinding(CODES[error.trouble], f"{mask(error.told)}; until then the task is not ended", error.hint)
    return ("failed" if error.technical else "refuse"), finding


def _chosen(context: Context) -> ChosenTask:
    """The task of this process. One that is not the task of the agent's start is another one, and must not be touched."""
    chosen = choose(context.task_access)
    begun = context.task.get("id", "")
    if begun and begun != chosen.task.id:
        text = f"costguard was started for task {begun}, but this is {chosen.task.words}: nothing is ended"
        raise NoTaskError(
            PlanFinding("not_this_task", text, "start costguard again inside the task that it should guard")
        )
    return chosen


def _ask(context: Context) -> Asked:
    chosen = _chosen(context)
    end = time.monotonic() + min(context.deadline, LOOK_SECONDS)
    session = _within(chosen, "open", lambda: chosen.scheduler.open(chosen.place, chosen.task), end - time.monotonic())
    left = end - time.monotonic()
    facts = _within(chosen, "look", lambda: session.look(left), left + 1.0)
    return Asked(chosen, session, facts)


def _within(chosen: ChosenTask, step: str, call: Callable[[], T], seconds: float) -> T:
    """One call of a plug-in. Whatever else it raises is a SchedulerError that names the plug-in."""
    name = chosen.scheduler.name
    try:
        return bounded(call, seconds)
    except SchedulerError:
        raise
    except LateError as error:
        text = f"the plug-in for {name} did not return from `{step}` within {seconds:.0f} s"
        raise SchedulerError("unreachable", text, hint=f"see whether {name} answers on this machine") from error
    except ImportError as error:
        text = f"the library for {name} is not installed ({error})"
        raise SchedulerError("refused", text, hint=extras.command(chosen.name)) from error
    except Exception as error:
        text = f"the plug-in for {name} failed in `{step}`: {type(error).__name__}: {mask(str(error))}"
        raise SchedulerError("internal", text, hint="report it with `costguard doctor --json`") from error


def _case(context: Context, asked: Asked) -> rules.TaskCase:
    chosen, procfs = asked.chosen, context.host.procfs
    minors = {address: minor for minor, address in holders.addresses(procfs).items()}
    return rules.TaskCase(
        scheduler=chosen.scheduler.name,
        task=chosen.task,
        facts=asked.facts,
        judged=context.devices,
        beside=context.beside,
        holders=tuple(_holders(chosen, procfs, {minor: address for address, minor in minors.items()})),
        minors=minors,
        acting=context.job == "act",
        ends_elsewhere=context.task_settings.get("elsewhere") == "end",
    )


def _holders(chosen: ChosenTask, procfs: str, addresses: dict[int, str]) -> list[rules.GpuHolder]:
    """Processes that hold GPUs whose addresses are known; monitors hold every one, and compute on none."""
    found = []
    for one in holders.scan(procfs).holders if addresses else ():
        gpus = tuple(addresses[minor] for minor in one.minors if minor in addresses)
        if gpus and not one.monitor:
            ours = chosen.scheduler.belongs(chosen.place, chosen.task, one.pid)
            found.append(rules.GpuHolder(f"process {one.pid} ({one.name} of {one.user})", gpus, ours))
    return found


def _failed(error: SchedulerError) -> Result:
    message = f"{mask(error.told)}; {error.hint}" if error.hint else mask(error.told)
    if error.in_doubt:
        return Result("unknown", message)
    return Result("failed" if error.technical else "refused", message)


def _unasked(recorded: Result | None, why: str) -> Result:
    """The scheduler could not be asked: an acceptance alone does not say that the task has ended."""
    if recorded is None:
        return Result("unknown", f"no record of this attempt, and the scheduler cannot be asked: {why}")
    detail = f"the outcome is unknown, because the scheduler cannot be asked: {why}"
    return Result("unknown", detail, recorded.proof, recorded.receipt)
