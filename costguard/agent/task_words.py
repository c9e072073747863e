"""The task that an agent guards, in words: for messages, records and the status. It is found at the start, by `costguard.cli.guarded`."""

from collections.abc import Mapping
from typing import Any

ADVICE = "advice_"
"""How what its scheduler has people type stands in the configuration of the agent."""


def in_messages(config: Mapping[str, Any]) -> dict[str, object]:
    """What it is called, what people can do about it, and where its guard answers; empty where a machine is guarded."""
    task = config.get("guarded")
    if not task:
        return {}
    return {"task": name(task), "advice": _advice(task), "folder": config["paths"]["state"]}


def for_channel(config: Mapping[str, Any]) -> dict[str, Any]:
    """What the channel ``task`` needs, beside the settings of messages."""
    return {"task_plug_ins": config.get("task_plug_ins", []), "task_settings": config.get("task", {})}


def in_status(config: Mapping[str, Any]) -> dict[str, object] | None:
    """The same for programs; None where a machine is guarded."""
    task = config.get("guarded")
    if not task:
        return None
    own = {key: task.get(key, "") for key in ("scheduler", "id", "words", "owner")}
    return {**own, "tells": bool(task.get("tells")), "advice": _advice(task)}


def name(task: Mapping[str, str]) -> str:
    """What it is, and whose."""
    return task["words"] + (f" of {task['owner']}" if task.get("owner") else "")


def _advice(task: Mapping[str, str]) -> dict[str, str]:
    return {key.removeprefix(ADVICE): text for key, text in task.items() if key.startswith(ADVICE)}
