"""The pre-stop hook saves work, often with the GPUs: what it does on them itself is no reason to stay up."""

from costguard.engine import time_limits
from costguard.engine.observation import Known, Reading
from costguard.engine.state import Core, Incident
from costguard.engine.window import Track

SETTLE_SECONDS = 30.0
"""After the hook's end, until GPUs that it used have their idle power again; work that goes on after that was somebody else's."""

HOOK_FAILED, HOOK_DONE = "hook_failed", "hook_done"
"""Codes of how the hook ended: true of the incident that it ran in, and of no later one."""

WHILE_HOOK_RUNS = "while the pre-stop hook runs"


def hook_works(core: Core, before: float) -> bool:
    """Whether what a tick saw since ``before`` may be the hook's doing: its end, and some time, must lie behind."""
    incident = core.incident
    if incident is None or incident.hook_began is None:
        return False
    latest = incident.hook_began + time_limits.HOOK_LONGEST_SECONDS
    ended = latest if incident.hook_ended is None else incident.hook_ended
    return before < ended + SETTLE_SECONDS


def work_began(core: Core, before: float, gap: float) -> float:
    """Since when work may go on that was first seen after ``before``: what hides behind the hook, and outlasts it, began with it."""
    incident = core.incident
    if incident is None or incident.hook_began is None or not hook_works(core, before - gap):
        return before
    return min(before, incident.hook_began)


def end_hook(incident: Incident, at: float) -> Incident:
    """The incident with its hook over at that moment, unless it never began or is over already."""
    over = incident.hook_began is None or incident.hook_ended is not None
    return incident if over else incident._replace(hook_ended=at)


def without_hook_work(readings: tuple[Reading, ...], tracks: tuple[Track | None, ...]) -> tuple[Reading, ...]:
    """The readings without what the hook may have done: of a GPU that was quiet, only that it could be read."""
    return tuple(
        [
            reading._replace(load=0.0, signs=(), evidence=WHILE_HOOK_RUNS)
            if type(reading) is Known and track is not None and track.unknown_since is None and not track.busy
            else reading
            for reading, track in zip(readings, tracks, strict=True)
        ]
    )
