"""The task in which an agent is started: what it guards, where its action ends a task."""

from collections.abc import Mapping
from typing import Any

from costguard.errors import REFUSED, CostguardError


def task_of(effective: Mapping[str, Any]) -> dict[str, str]:
    """The task as the agent, its messages and its commands name it; empty where there is none. No network.

    Raises CostguardError where the action would end a task, and this is none: nothing would ever be ended.
    """
    from costguard.agent.task_words import ADVICE
    from costguard.engine.policy import END_TASK
    from costguard.tasks.choose import NoTaskError, TaskAccess, choose

    policy = effective["policy"]
    actions = (policy["kill_action"], *policy["fallback"])
    if END_TASK not in actions and "command" not in actions:
        return {}
    try:
        chosen = choose(TaskAccess(tuple(effective["task_plug_ins"]), effective["task"], effective["host"]["procfs"]))
    except NoTaskError as error:
        if END_TASK not in actions:
            return {}
        raise CostguardError(error.finding.text, error.finding.hint, REFUSED) from error
    task = chosen.task
    found = {"scheduler": chosen.scheduler.name, "id": task.id, "words": task.words, "owner": task.owner}
    found["tells"] = "yes" if getattr(chosen.scheduler, "tells", False) is True else ""
    found |= {f"own_{name}": text for name, text in task.details.items()}
    found |= {f"{ADVICE}{name}": text for name, text in task.advice._asdict().items()}
    return {name: text for name, text in found.items() if text}
