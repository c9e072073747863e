"""What the guard, or a person's command, asks of the processes that act, and what they answer."""

from collections.abc import Mapping
from typing import NamedTuple

from costguard.cloud.access import CloudAccess
from costguard.plans import Plan, Result


class BeatJob(NamedTuple):
    """One sign of life: ``settings`` are those of ``[heartbeat]``; with a ``tag`` it is written there as well, in live mode."""

    settings: Mapping[str, object]
    record: Mapping[str, object]
    deadline: float
    mode: str = "dry-run"
    tag: CloudAccess | None = None


class ActionAnswer(NamedTuple):
    """One line of the action worker: a plan, that it is ready to act, what became of it, an error, or that its hook begins."""

    plan: Plan | None = None
    ready: bool = False
    outcome: Result | None = None
    error: str = ""
    saving: bool = False


class Release(NamedTuple):
    """The release of a worker that is ready, and how the machine stands now; no ``sentence``: as when it was prepared."""

    go: bool
    sentence: str = ""
    idle_seconds: float = 0.0
