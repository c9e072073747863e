"""The task that an agent guards, where it guards one: found, judged by its own GPUs, and what becomes of its guard."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from costguard.agent.task_words import name
from costguard.doctor.finding import CheckResult, bad, note, ok

TROUBLE = "task"
"""Under which subject the agent reports that it is not certain which GPUs are the task's."""


def task_of(report: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The task of a running agent; None where it guards the machine, or none answers."""
    found: Mapping[str, Any] | None = report["agent"].get("task") if report else None
    return found


def checks(report: Mapping[str, Any] | None, seen: Sequence[Mapping[str, Any]]) -> Iterator[CheckResult]:
    """Which task, and which GPUs are judged for it; the scheduler's own word on both is in the plan."""
    task = task_of(report)
    if report is None or task is None:
        return
    yield ok(f"{name(task)} ({task['scheduler']})")
    doubt = report["agent"]["troubles"].get(TROUBLE)
    if doubt:
        yield bad(doubt, "give the guard the variables that the scheduler gave to the task (docs/tasks.md)")
    elif seen:
        yield ok(f"its GPUs, which alone are judged: {', '.join(str(gpu['label']) for gpu in seen)}")
    yield note(
        "this guard ends with its task: whatever starts the next task (its script, hook or prolog) must start the next "
        "guard; only a sidecar is restarted by itself"
    )
