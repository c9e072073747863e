"""What an agent that is started here guards: this machine, by its name in records, or the task in which it is started."""

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


def instance_of(effective: Mapping[str, Any], guarded: Mapping[str, str] = {}) -> str:
    """The cloud's own name for this machine, where the firmware has it; else empty. No network.

    Where a task is ``guarded`` it is this run of that task, which shares its folder's records with no other.
    """
    if effective["policy"].get("scope") == "task" and guarded:
        from costguard.host.identity import TASK

        run = guarded.get("own_run", "")
        return f"{TASK}{guarded['scheduler']}:{guarded['id']}{f':{run}' if run else ''}"
    from costguard.cloud.access import CloudAccess
    from costguard.cloud.choose import NobodyError, choose

    try:
        chosen = choose(CloudAccess.of(effective))
        found = chosen.provider.instance_of(chosen.site.dmi)
    except NobodyError:
        return ""
    except Exception:  # noqa: BLE001 - foreign code: whatever it raises, the guard has another name
        return ""
    return f"{chosen.name}:{found}" if found else ""
