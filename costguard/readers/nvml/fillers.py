"""GPUs on which only background work of `costguard fill` runs: their load says nothing about whether somebody needs the machine.

Whoever marks a process of his own as background work only says that it may be stopped; the mark of another user's he cannot set. All who
hold the GPU, and all who used it since the last look, must bear it: one who cannot be known makes the reading unknown.
"""

import os
from typing import TYPE_CHECKING, Any

from costguard.background import BACKGROUND, INITIAL_NAMESPACE, mark_on

if TYPE_CHECKING:
    from costguard.readers.nvml.contexts import Held

REMEMBERED_SECONDS = 60.0
"""For so long an ended process that bore the mark is known by its number; numbers are given out again much later."""


class Fillers:
    """Tells background work by its mark; where the driver's numbers mean nothing, there is none."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._seen: dict[int, float] = {}  # when it was last seen to bear the mark
        try:
            self._usable = os.readlink(f"{proc}/self/ns/pid") == INITIAL_NAMESPACE
        except OSError:
            self._usable = False

    def judged(self, row: list[Any], held: "Held", now: float) -> list[Any]:
        """The row of a reading with what background work alone did left out of it."""
        key, load, signs, covers, evidence = row
        pids, users, why = held
        if not self._usable or load is None or not (load or signs) or pids is None:
            return row
        kinds = {pid: self._is_background(pid, now) for pid in {*pids, *(users or ())}}
        if not any(kinds[pid] for pid in pids):
            return row
        unknown = [pid for pid, kind in kinds.items() if kind is None]
        if unknown or users is None:
            why = f"process {unknown[0]} cannot be identified" if unknown else "the driver does not say who uses it"
            return [key, None, [], 0, f"background work runs there, and {why}"]
        if not all(kinds.values()):
            return row
        return [key, 0.0, [], covers, f"background work alone ({evidence})"]

    def _is_background(self, pid: int, now: float) -> bool | None:
        """None for one that cannot be seen."""
        mark = mark_on(pid, self._proc)
        if mark is None:
            return True if now - self._seen.get(pid, -REMEMBERED_SECONDS) < REMEMBERED_SECONDS else None
        if mark & BACKGROUND:
            self._seen = {one: at for one, at in self._seen.items() if now - at < REMEMBERED_SECONDS} | {pid: now}
        else:
            self._seen.pop(pid, None)
        return bool(mark & BACKGROUND)
