"""The effective configuration: plain JSON values, as the guard gets them."""

from typing import Any

from costguard import __version__
from costguard.config.load import LoadedConfiguration
from costguard.config.plug_ins import CLOUDS, TASKS
from costguard.config.schema import Settings
from costguard.config.sense_options import hatches
from costguard.config.show import origin
from costguard.engine.policy import END_TASK
from costguard.readers.host.senses import SENSES

UNREACHED_WAIT_SECONDS = 1800.0
"""A countdown is at least this much longer where channels beyond this machine exist and none took its warning."""

DEFAULT_BUDGET_PERIOD = 30 * 86400.0
"""Seconds; never used, because a budget without its period is refused."""


def build(loaded: LoadedConfiguration) -> dict[str, object]:
    """Everything the guard needs; durations are seconds, shares 0 to 1, dates seconds since the epoch."""
    settings = loaded.settings
    return {
        "policy": policy(settings),
        "actions": settings.actions.model_dump(mode="json"),
        "cloud": settings.cloud.model_dump(mode="json"),
        "sink": settings.sink.model_dump(mode="json"),
        "hooks": settings.hooks.model_dump(mode="json"),
        "heartbeat": settings.heartbeat.model_dump(mode="json"),
        "notify": notify(settings, "notify.local" in loaded.written),
        "host": settings.host.model_dump(mode="json"),
        "senses": senses(settings, "senses.enabled" in loaded.written),
        "task": settings.task.model_dump(mode="json"),
        "providers": CLOUDS.entries(),
        "task_plug_ins": TASKS.entries(),
        "paths": loaded.paths._asdict(),
        "source": loaded.source,
        "origin": origin(loaded),
        "arguments": loaded.arguments,
        "version": __version__,
    }


def notify(settings: Settings, wanted: bool) -> dict[str, object]:
    """How people are told. The guard of a task leaves out `wall`, unless that is ``wanted``: others use the machine, too."""
    found = settings.notify.model_dump(mode="json")
    if _guards_task(settings) and not wanted:
        found["local"] = [name for name in found["local"] if name != "wall"]
    return found


def senses(settings: Settings, wanted: bool = True) -> dict[str, Any]:
    """What the host reader looks for; ``hatch`` on a sense: what it sees blocks every stop.

    For a task only if ``wanted``: other activity on a machine of several tasks says nothing about this one.
    """
    found = settings.senses.model_dump(mode="json")
    if _guards_task(settings):
        found["enabled"] = settings.senses.enabled and wanted
        found["cluster"]["enabled"] = False  # that this is a node of a cluster is why it is guarded so
    for row in SENSES:
        found[row.name]["hatch"] = hatches(row, found[row.name])
    return found


def switched_off(loaded: LoadedConfiguration) -> frozenset[str]:
    """The senses that somebody, a preset, or a guarded task has switched off; not those that are off as long as nobody asks."""
    found = senses(loaded.settings, "senses.enabled" in loaded.written)
    by_default = {row.name for row in SENSES if not row.enabled}
    off = {row.name for row in SENSES if not (found["enabled"] and found[row.name]["enabled"])}
    written = {name for name in by_default if f"senses.{name}.enabled" in loaded.written}
    return frozenset(off if not found["enabled"] else off - (by_default - written))


def unneeded(loaded: LoadedConfiguration) -> frozenset[str]:
    """The senses of which somebody wrote that they need not see everything."""
    found = loaded.settings.senses.model_dump()
    return frozenset(
        row.name
        for row in SENSES
        if f"senses.{row.name}.required" in loaded.written and not found[row.name]["required"]
    )


def _guards_task(settings: Settings) -> bool:
    return END_TASK in (settings.kill_action, *settings.fallback)


def policy(settings: Settings) -> dict[str, object]:
    """The fields of `costguard.engine.policy.Policy`."""
    tables = {
        "deadline",
        "hold",
        "actions",
        "cloud",
        "sink",
        "hooks",
        "heartbeat",
        "notify",
        "host",
        "senses",
        "admin",
        "task",
    }
    fields = settings.model_dump(mode="json", exclude=tables | {"preset"})
    deadline = settings.deadline
    return {
        **fields,
        "scope": "task" if _guards_task(settings) else "machine",
        "lifetime": deadline.lifetime,
        "lease_until": deadline.lease,
        "budget": deadline.budget,
        "budget_period": deadline.budget_period or DEFAULT_BUDGET_PERIOD,
        "stop_busy": deadline.stop_busy,
        "hold_max": settings.hold.max,
        "hold_total": settings.hold.total,
        "hold_per_user": settings.hold.per_user,
        "extend_max": settings.hold.past_deadline,
        "admin_hold": settings.admin.hold,
        "kept_told_after": settings.senses.told_after,
        "kept_at_most": settings.senses.at_most,
        "tell_armed": settings.notify.armed,
        "warn_attempts": settings.notify.attempts,
        "unreached_wait": UNREACHED_WAIT_SECONDS if settings.notify.channels else 0.0,
    }
