"""A machine that does not exist: what its GPUs truly do over virtual time, and what a reader sees of it.

The truth is a sequence of `Phase`; a reader sees the highest load within the stretch that its evidence covers,
as the driver's sample ring and energy counter give it.
"""

import random
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

KEEP = 2 * 86400.0
"""Seconds of the past that are remembered."""

IDLE_LOAD = 0.002
"""Load of a GPU without work, at most: far below any threshold."""


HOOK_LOAD = 0.6
"""Load while the owner's hook saves work with the GPUs."""


class Phase(NamedTuple):
    """What the machine does for a while.

    ``load`` is 0 to 1, one number for all GPUs or one for each; ``jitter`` is added or taken away at random.
    ``signs`` are signs of work other than load. ``unknown`` gives, by the GPU's number, why it cannot be read;
    the truth is ``load`` all the same.
    """

    seconds: float
    load: float | tuple[float, ...] = 0.0
    name: str = ""
    signs: tuple[str, ...] = ()
    jitter: float = 0.0
    unknown: Mapping[int, str] = {}

    def load_of(self, gpu: int) -> float:
        """The true load of one GPU."""
        return self.load if isinstance(self.load, int | float) else self.load[gpu]


NOTHING = Phase(float("inf"), name="nothing")


class Machine:
    """``gpus`` GPUs that live through ``script``, and idle after its end.

    ``ring`` is how many seconds back a first look sees; ``counters`` whether an energy counter proves longer
    holes quiet. Time is the world's, in seconds.
    """

    def __init__(
        self,
        gpus: int = 1,
        script: Iterable[Phase] = (),
        *,
        ring: float = 16.0,
        counters: bool = True,
        model: str = "Simulated GPU",
    ) -> None:
        self.keys = tuple(f"0000:{number + 1:02x}:00.0" for number in range(gpus))
        self.model = model
        self.ring = ring
        self.counters = counters
        self._script: Iterator[Phase] = iter(script)
        self._coming: deque[Phase] = deque()  # before the rest of the script
        self._log: list[tuple[float, Phase]] = []
        self._ends = 0.0
        self.hooks: list[tuple[float, float]] = []  # when the owner's hook worked on the GPUs
        self._noise = random.Random(gpus)  # noqa: S311  # noise of a simulation, no secret

    def phase(self, now: float) -> Phase:
        """What the machine does now."""
        while now >= self._ends:
            phase = self._coming.popleft() if self._coming else next(self._script, NOTHING)
            self._log.append((self._ends, phase))
            self._ends += phase.seconds
        if len(self._log) > 2 and self._log[1][0] < now - KEEP:
            del self._log[0]
        return self._log[-1][1]

    def cut(self, now: float, *phases: Phase) -> None:
        """What it does ends here (a reboot, a crash); ``phases`` come next, then the rest of the script."""
        self.phase(now)
        self._ends = now
        self._coming.extendleft(reversed(phases))

    def history(self, since: float, now: float) -> list[tuple[float, float, Phase]]:
        """(start, end, phase) of everything between two moments, oldest first."""
        self.phase(now)
        found, end = [], now
        for start, phase in reversed(self._log):
            if start < end:
                found.append((max(start, since), end, phase))
                end = start
            if start <= since:
                break
        return found[::-1]

    def hook(self, since: float, until: float) -> None:
        """The owner's hook works on the GPUs between these moments: readers see it, and it is no work of the machine."""
        self.hooks = [*self.hooks[-1:], (since, until)]

    def hooked(self, since: float, now: float) -> bool:
        """Whether the hook worked between these moments."""
        return any(begun < now and ended > since for begun, ended in self.hooks)

    def look(self, gpu: int, since: float, now: float) -> tuple[float, tuple[str, ...], str]:
        """Highest load, signs, and why it cannot be read (empty: it can), of one GPU between two moments."""
        phase = self.phase(now)
        top, signs = phase.load_of(gpu), phase.signs
        if len(self._log) > 1 and since < self._log[-1][0]:
            for _, _, before in self.history(since, now):
                top, signs = max(top, before.load_of(gpu)), signs or before.signs
        if self.hooked(since, now):
            top = max(top, HOOK_LOAD)
        if phase.jitter and top:
            top = min(1.0, max(0.0, top + self._noise.uniform(-phase.jitter, phase.jitter)))
        return round(top, 3), signs, phase.unknown.get(gpu, "")
