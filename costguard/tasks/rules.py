"""When a task may be ended, whatever its scheduler: pure rules over what was seen. Each yields verdicts with findings."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from costguard.cloud.rules import Row
from costguard.engine.observation import Device
from costguard.engine.words import several
from costguard.plans import VERDICTS, Plan, PlanFinding, worst
from costguard.tasks.api import Task, TaskFacts

GPUS_NAMED = 8
"""Up to this many GPUs are named one by one."""


class GpuHolder(NamedTuple):
    """A process that holds GPUs, by their PCI addresses; ``ours``: whether it is the task's, None where nobody knows."""

    words: str
    gpus: tuple[str, ...]
    ours: bool | None


class TaskCase(NamedTuple):
    """Everything a plan needs.

    ``judged``: the GPUs whose idleness ends the task, none before the first reading. ``beside``: how many others this machine
    shows. ``minors``: the number of each GPU's device file, by its PCI address. ``acting``: an attempt, and no preflight.
    """

    scheduler: str
    task: Task
    facts: TaskFacts
    judged: tuple[Device, ...]
    beside: int
    holders: tuple[GpuHolder, ...] = ()
    minors: Mapping[str, int] = {}
    acting: bool = False
    ends_elsewhere: bool = False


def plan(action: str, case: TaskCase) -> Plan:
    """The gravest finding first. The bill is the machine's, and goes on."""
    found = [*_state(case), *_elsewhere(case), *_scope(case), *_holders(case), *case.facts.findings]
    verdict = worst(*(verdict for verdict, _ in found))
    if verdict in {"go", "consequences"}:
        found.append(("go", _ends(case)))
    found.sort(key=lambda row: VERDICTS.index(row[0]), reverse=True)
    receipt = {
        "scheduler": case.scheduler,
        "task": case.task.id,
        "owner": case.facts.owner or case.task.owner,
        **case.task.details,
        "show": case.task.advice.show,
    }
    return Plan(
        action,
        verdict,
        tuple(finding for _, finding in found),
        ends_bill=False,
        keeps_disks=True,
        receipt={name: value for name, value in receipt.items() if value},
    )


def _ends(case: TaskCase) -> PlanFinding:
    owner = case.facts.owner or case.task.owner
    whose = f" of {owner}" if owner else ""
    text = (
        f"{case.task.words}{whose} ends, and nothing else: the machine, its node and other tasks go on; the machine "
        f"stays billed until {case.scheduler} or its administrator ends it"
    )
    return PlanFinding("task_ends", text)


def _state(case: TaskCase) -> Iterator[Row]:
    said = f"{case.scheduler} says {case.facts.said}"
    if case.facts.state == "ended":
        yield "refuse", PlanFinding("task_ended", f"{case.task.words} has ended ({said}): nothing is left to end")
    elif case.facts.state == "ending":
        yield "refuse", PlanFinding("task_ending", f"{case.task.words} is being ended ({said}): nothing more is sent")
    elif case.facts.state == "waiting":
        text = f"{case.task.words} is not running ({said}), so the idle GPUs here are not its own"
        yield "refuse", PlanFinding("task_waits", text, "start costguard in the task itself, as docs/tasks.md shows")


def _elsewhere(case: TaskCase) -> Iterator[Row]:
    if not case.facts.elsewhere:
        return
    text = f"{case.task.words} extends beyond what can be seen here: {case.facts.elsewhere}"
    if case.ends_elsewhere:
        yield "consequences", PlanFinding("task_elsewhere", f'{text}, and is ended anyway (task.elsewhere = "end")')
    else:
        hint = 'to end it when its part here is idle: task.elsewhere = "end"'
        yield "refuse", PlanFinding("task_elsewhere", f"{text}, where it may be working, so it is not ended", hint)


def _scope(case: TaskCase) -> Iterator[Row]:
    """The GPUs that were judged must be the task's: with fewer its work is not seen, with more another's idleness would end it."""
    judged, given = case.judged, case.facts.gpus
    if not judged:
        if case.acting:
            text = "it is unknown which GPUs are the task's, so nothing shows that it is idle"
            yield "refuse", PlanFinding("task_scope", text, "`costguard status` says what cannot be read")
        return
    if given is not None and len(judged) != given:
        text = f"{case.scheduler} gave {case.task.words} {several(given, 'GPU')} of this machine, but costguard judged {several(len(judged), 'GPU')}"
        yield "refuse", PlanFinding("task_scope", f"{text} ({_named(judged)}): it is not ended", _SCOPE_HINT)
        return
    if not case.beside:
        return  # nothing else is to be seen here: the scheduler's limits make the scope
    wanted = set(case.facts.numbers)
    if not wanted:
        text = (
            f"this machine shows {several(case.beside, 'GPU')} besides those judged, and {case.scheduler} does not say"
        )
        if given is None:
            yield "consequences", PlanFinding("task_scope_unproven", f"{text} whose they are", _SCOPE_HINT)
        else:
            text = f"{text} which of them are {case.task.words}'s: it is not ended"
            yield "refuse", PlanFinding("task_scope", text, _SCOPE_HINT)
        return
    numbers = {device.number for device in judged}
    minors = {case.minors.get(device.key) for device in judged}
    if wanted not in (numbers, minors):
        text = f"{case.scheduler} gave {case.task.words} GPU {_listed(wanted)}, but costguard judged {_named(judged)}"
        yield "refuse", PlanFinding("task_scope", f"{text}: it is not ended", _SCOPE_HINT)


def _holders(case: TaskCase) -> Iterator[Row]:
    """Who holds which GPU, by the task of each process: the kernel's word beside the scheduler's."""
    judged = {device.key for device in case.judged}
    if not judged:
        return
    for holder in case.holders:
        if holder.ours is False and judged & set(holder.gpus):
            text = (
                f"{holder.words} is another task's and holds a GPU that was judged, so {case.task.words} is not ended"
            )
            yield "refuse", PlanFinding("task_scope", text, _SCOPE_HINT)
        elif holder.ours and set(holder.gpus) - judged:
            text = f"{holder.words} of {case.task.words} holds a GPU that was not judged, so its work would not be seen"
            yield "refuse", PlanFinding("task_scope", text, _SCOPE_HINT)


_SCOPE_HINT = "start costguard with the environment that the scheduler gave the task (CUDA_VISIBLE_DEVICES), as docs/tasks.md shows"


def _named(devices: tuple[Device, ...]) -> str:
    names = [f"GPU {one.number}" if one.number is not None else one.uuid or one.key for one in devices]
    more = f" and {len(names) - GPUS_NAMED} more" if len(names) > GPUS_NAMED else ""
    return ", ".join(names[:GPUS_NAMED]) + more


def _listed(numbers: set[int]) -> str:
    return ", ".join(str(number) for number in sorted(numbers))
