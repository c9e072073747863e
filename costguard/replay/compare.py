"""Several policies on several machines, on several cores where that is worth it."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from costguard.engine.policy import Policy
from costguard.engine.rules import rules_of
from costguard.replay.levels import Levels
from costguard.replay.share import parts, shared
from costguard.replay.summary import Account, account
from costguard.replay.trace import Trace
from costguard.replay.walk import Walked, walk


class Found(NamedTuple):
    """What one policy decided on one machine, and what came of it."""

    walked: Walked
    account: Account


Key = tuple[int, int]
"""The positions of a trace and of a policy."""


def compare(
    traces: Sequence[Trace],
    policies: Sequence[Policy],
    progress: Callable[[float], None],
    *,
    every_sample: bool = False,
    processes: int | None = None,
) -> dict[Key, Found]:
    """Every policy on every machine. ``progress`` is told the share that is done, from 0 to 1.

    ``processes``: how many share the work; by default as many as are worth it.
    """
    samples = sum(len(trace.times) for trace in traces) * len(policies)
    keys = [(i, j) for i in range(len(traces)) for j in _alike(policies)]
    count = max(1, min(parts(samples) if processes is None else processes, len(keys)))

    def owner(key: Key, place: int) -> int:
        """Where there are machines for every process, one takes all policies of a machine: they share its levels."""
        return (key[0] if len(traces) >= count else place) % count

    def lot(part: int) -> dict[Key, Found]:
        mine = [key for place, key in enumerate(keys) if owner(key, place) == part]
        return _decide(traces, policies, mine, progress if part == 0 else _nobody, every_sample=every_sample)

    found: dict[Key, Found] = {}
    for lots in shared(count, lot):
        found.update(lots)
    return found


def _nobody(_share: float) -> None:
    """Progress of a process whose share nobody sees."""


def _alike(policies: Sequence[Policy]) -> list[int]:
    """The positions of the policies, those of equal thresholds side by side, so that processes share them out evenly."""
    rules = [rules_of(policy) for policy in policies]
    return sorted(range(len(policies)), key=lambda j: (rules[j].quiet_threshold, rules[j].heeds_signs))


def _decide(
    traces: Sequence[Trace],
    policies: Sequence[Policy],
    keys: Sequence[Key],
    progress: Callable[[float], None],
    *,
    every_sample: bool,
) -> dict[Key, Found]:
    found: dict[Key, Found] = {}
    whole = sum(len(traces[i].times) for i, _ in keys) or 1
    done, levels = 0, None
    for i, j in keys:
        if levels is None or levels.trace is not traces[i]:
            levels = Levels(traces[i])
        show = partial(_tell, progress, done, whole)
        walked = walk(levels, policies[j], every_sample=every_sample, progress=show)
        found[i, j] = Found(walked, account(levels, walked))
        done += len(levels.times)
        progress(done / whole)
    return found


def _tell(progress: Callable[[float], None], done: int, whole: int, ticks: int) -> None:
    progress((done + ticks) / whole)
