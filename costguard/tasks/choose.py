"""Which plug-in speaks for the task in which costguard was started."""

import os
from collections.abc import Mapping
from typing import NamedTuple

from costguard.cloud.api import site_settings
from costguard.cloud.choose import NobodyError
from costguard.masking import mask
from costguard.plans import PlanFinding
from costguard.tasks.api import Place, Scheduler, SchedulerError, Task, load


class TaskAccess(NamedTuple):
    """What leads to the task: the installed plug-ins, the section ``[task]``, and where the machine's processes are listed."""

    plug_ins: tuple[str, ...] = ()
    settings: Mapping[str, object] = {}
    procfs: str = "/proc"


class ChosenTask(NamedTuple):
    """One plug-in, under the name of its entry point, and the task that it found."""

    name: str
    scheduler: Scheduler
    place: Place
    task: Task


class NoTaskError(NobodyError):
    """No single plug-in speaks for a task here."""


def choose(access: TaskAccess, environ: Mapping[str, str] | None = None) -> ChosenTask:
    """The plug-in that ``task.scheduler`` names, else the one that recognises this place, and its task. No network.

    Raises NoTaskError.
    """
    wanted = str(access.settings.get("scheduler") or "auto")
    entries = [entry for entry in access.plug_ins if wanted in {"auto", entry.partition("=")[0]}]
    if wanted == "none":
        text = 'task.scheduler = "none": no scheduler is ever asked, and no task is ended'
        raise NoTaskError(PlanFinding("no_task", text, 'set task.scheduler = "auto", or use another kill_action'))
    if wanted != "auto" and not entries:
        text = f"task.scheduler names the plug-in {wanted!r}, which is not installed: no task is ended"
        raise NoTaskError(PlanFinding("no_task", text, "install it, or set one that docs/tasks.md lists"))
    loaded = load(entries)
    environ = dict(os.environ) if environ is None else environ
    found: list[tuple[str, Scheduler, Place]] = []
    failures = list(loaded.failures)
    for name, scheduler in loaded.named:
        try:
            place = Place(environ, site_settings(access.settings, name, scheduler), access.procfs)
            if wanted != "auto" or scheduler.recognises(place):
                found.append((name, scheduler, place))
        except Exception as error:  # noqa: BLE001 - foreign code: one that fails must not hide those that do not
            failures.append(_failed(name, error))
    if len(found) != 1:
        raise NoTaskError(_why([one.name for _, one, _ in found], failures))
    name, scheduler, place = found[0]
    try:
        return ChosenTask(name, scheduler, place, scheduler.identify(place))
    except SchedulerError as error:
        raise NoTaskError(PlanFinding("task_unknown", f"{mask(error.told)}; no task is ended", error.hint)) from error
    except Exception as error:
        raise NoTaskError(_why([], [_failed(name, error)])) from error


def _failed(name: str, error: Exception) -> str:
    return f"{name}: {type(error).__name__}: {mask(str(error))}"


def _why(claims: list[str], failures: list[str]) -> PlanFinding:
    if claims:
        text = f"several plug-ins claim this task ({', '.join(claims)}), so none is used: no task is ended"
        return PlanFinding("task_ambiguous", text, "set task.scheduler to the right one")
    if failures:
        text = f"a plug-in for tasks failed, so no task is ended: {'; '.join(failures)}"
        return PlanFinding("plugin_failed", text, "reinstall the plug-in, then run `costguard doctor`")
    text = "no plug-in recognises a task here, so end_task has nothing to end"
    return PlanFinding("no_task", text, "start it inside the task, as docs/tasks.md shows; or set another kill_action")
