"""Which task this process belongs to, by the environment that Determined gives to its containers. No secret is read here."""

import json
import re
from collections.abc import Mapping

from costguard.files import text_of
from costguard.tasks.api import Advice, Place, SchedulerError, Task

KINDS = {"NOTEBOOK": "notebook", "SHELL": "shell", "COMMAND": "command", "TENSORBOARD": "tensorboard", "TRIAL": "trial"}
"""Kinds of tasks that can be ended, by DET_TASK_TYPE."""

_TASK = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,120}")
_TRIAL = re.compile(r"[1-9]\d{0,17}")
_NEEDED = ("DET_TASK_ID", "DET_TASK_TYPE", "DET_ALLOCATION_ID", "DET_MASTER")
_HINT = "start it from startup-hook.sh of the task, as docs/tasks.md shows"
ENVIRONMENT_BYTES = 1 << 18


def named(environ: Mapping[str, str]) -> str:
    """The task that the environment names; empty for none."""
    said = environ.get("DET_TASK_ID", "")
    return said if _TASK.fullmatch(said) and environ.get("DET_TASK_TYPE") else ""


def identify(place: Place) -> Task:
    """Raises SchedulerError where a part is missing, or two facts do not agree."""
    environ = place.environ
    missing = [name for name in _NEEDED if not environ.get(name)]
    if missing or not named(environ):
        text = f"the environment of a Determined task lacks {', '.join(missing) or 'a valid DET_TASK_ID'}"
        raise SchedulerError("refused", text, hint=_HINT)
    task, allocation = environ["DET_TASK_ID"], environ["DET_ALLOCATION_ID"]
    if not allocation.startswith(f"{task}."):
        text = f"DET_ALLOCATION_ID={allocation} does not belong to the task that DET_TASK_ID={task} names"
        raise SchedulerError("changed", text, hint=_HINT)
    kind = KINDS.get(environ["DET_TASK_TYPE"].upper(), "")
    if not kind:
        raise SchedulerError("refused", f"tasks of the kind {environ['DET_TASK_TYPE']!r} are not ended", hint=_HINT)
    name = environ.get("DET_TRIAL_ID", "") if kind == "trial" else task
    if kind == "trial" and not _TRIAL.fullmatch(name):
        text = "the environment of a trial lacks DET_TRIAL_ID, and a trial cannot be ended by the task's own identifier"
        raise SchedulerError("refused", text, hint=_HINT)
    details = {
        "kind": kind,
        "task": task,
        "allocation": allocation,
        "run": allocation.rpartition(".")[2],
        "cluster": environ.get("DET_CLUSTER_ID", ""),
        "agent": environ.get("DET_AGENT_ID", ""),
    }
    evidence = (f"DET_TASK_ID={task}", f"DET_ALLOCATION_ID={allocation}")
    owner = environ.get("DET_USER", "")
    own = {key: one for key, one in details.items() if one}
    return Task(name, f"{kind} {name}", owner, own, evidence, _advice(kind, name))


def _advice(kind: str, name: str) -> Advice:
    """In the words of Determined's own client. It has no command that runs another one in the container of a task."""
    show = f"`det trial describe {name}`" if kind == "trial" else f"`det {kind} list --all`"
    again = f"`det {kind} {'run' if kind == 'command' else 'start'}`, as before"
    if kind == "trial":
        again = f"an experiment with `searcher.source_trial_id: {name}` begins at its last checkpoint"
    return Advice(end=f"`det {kind} kill {name}`", show=show, again=again)


def slots(environ: Mapping[str, str]) -> int | None:
    """How many GPUs the agent of this container gave to it; None where the environment does not say."""
    try:
        found = json.loads(environ.get("DET_SLOT_IDS", ""))
    except ValueError:
        return None
    return len(found) if isinstance(found, list) else None


def parallelism(environ: Mapping[str, str]) -> int:
    """How many pods of a task of several there are."""
    said = environ.get("DET_KUBERNETES_JOB_PARALLELISM", "")
    return int(said) if said.isdecimal() else 1


def allocation_of(procfs: str, pid: int) -> str:
    """The allocation in the environment of a process; empty for none, and for one that may not be seen."""
    for entry in text_of(f"{procfs}/{pid}/environ", limit=ENVIRONMENT_BYTES).split("\0"):
        name, _, value = entry.partition("=")
        if name == "DET_ALLOCATION_ID":
            return value
    return ""
