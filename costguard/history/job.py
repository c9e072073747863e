"""The job of the process that writes history: one batch of rows. It imports nothing of the engine."""

from typing import NamedTuple


class GpuMinute(NamedTuple):
    """One GPU in one minute. ``known`` and ``unknown`` are seconds; loads are 0 to 1, None without a reading.

    Seconds belong to the minute in which they ended, so a minute may have more than 60 between rare ticks.
    """

    minute: int  # its beginning, seconds since the epoch
    gpu: str
    known: float
    unknown: float
    low: float | None
    mean: float | None
    high: float | None


class MachineMinute(NamedTuple):
    """The whole machine in one minute, in seconds: any GPU works, else any is unknown, else all are quiet."""

    minute: int
    works: float
    quiet: float
    unknown: float


class EventRow(NamedTuple):
    """An event of an incident (empty for none) at a date; ``data`` is JSON."""

    incident: str
    wall: float
    kind: str
    data: str


class Batch(NamedTuple):
    """Rows for the file at ``path``. Idempotent: a batch that comes twice under one name is written once.

    ``wall`` is the date of writing, ``dated`` whether the clock may be right.
    """

    path: str
    batch: str
    instance: str
    wall: float
    dated: bool
    gpus: tuple[GpuMinute, ...]
    machine: tuple[MachineMinute, ...]
    events: tuple[EventRow, ...]
