"""One batch of rows for the process that writes history."""

from typing import NamedTuple

from costguard.history.rollup import GpuMinute, MachineMinute


class EventRow(NamedTuple):
    """Something that happened in an incident (empty for none) at a date; ``data`` is JSON."""

    incident: str
    wall: float
    kind: str
    data: str


class Batch(NamedTuple):
    """Rows on their way to the file at ``path``; what comes twice under one name (``batch``) is written once.

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
