"""What the installed plug-ins for tasks bring to the configuration: their own tables ``[task.NAME]``.

As `costguard.config.plug_ins`, for another group of entry points.
"""

from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Any

from costguard.cloud.api import Setting
from costguard.config.plug_ins import table_of
from costguard.tasks.api import GROUP, Scheduler, load, settings_of


def entries() -> list[str]:
    """The installed plug-ins as ``name=module``, found through their entry points, not imported."""
    return sorted({f"{point.name}={point.module}" for point in entry_points(group=GROUP)})


def _installed() -> dict[str, Scheduler]:
    loaded = load(entries())
    return dict(zip(loaded.names, loaded.schedulers, strict=True))


INSTALLED: Mapping[str, Scheduler] = _installed()
"""Every plug-in that can be loaded, by the name of its entry point."""

UNFIT: dict[str, str] = {}
"""Plug-ins whose options cannot be part of the configuration, and why."""


def own(name: str) -> tuple[Setting, ...]:
    """The options of one plug-in."""
    return () if name in UNFIT else settings_of(INSTALLED[name])


def files() -> list[tuple[str, str]]:
    """Plug-in and option of each file that a plug-in reads."""
    return [(name, option.name) for name in INSTALLED for option in own(name) if option.kind == "file"]


def tables(section: type[Any], option: Callable[..., Any]) -> type[Any]:
    """A base for the model of ``[task]`` with an inner table for each plug-in that has options of its own."""
    named = [(name, f"Options of tasks of {one.name} alone.", own(name)) for name, one in INSTALLED.items()]
    return table_of("TaskPlugIns", named, section, option, UNFIT)
