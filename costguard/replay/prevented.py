"""What each sense was worth on a recording: the stops that would have happened without it."""

from collections.abc import Sequence
from typing import NamedTuple

from costguard.engine.policy import Policy
from costguard.replay.levels import Levels
from costguard.replay.run import EVERYTHING_COUNTS, Ignored, Walked, walk
from costguard.replay.summary import HOUR, Stop, account


class Prevented(NamedTuple):
    """The stops that one sense prevented, or put off.

    ``right``: a GPU worked again while the machine was up thanks to it. ``wrong``: none did before the machine was stopped all the
    same, or the recording ended; it was up for ``hours`` more. What people did there without a GPU no recording shows.
    """

    sense: str
    right: int
    wrong: int
    hours: float


def prevented(
    levels: Levels,
    policy: Policy,
    stops: Sequence[Stop],
    *,
    ignored: Ignored = EVERYTHING_COUNTS,
    every_sample: bool = False,
) -> tuple[Prevented, ...]:
    """The stops that each sense of the recording prevented; ``stops`` are those with all that are not ``ignored``."""
    names = sorted({veto.source for seen in levels.trace.vetoes for veto in seen.vetoes} - ignored.senses)
    found = []
    for name in names:
        walked = walk(levels, policy, ignored=ignored.and_without(name), every_sample=every_sample)
        found.append(_of(name, levels, walked, stops))
    return tuple(found)


def _of(name: str, levels: Levels, walked: Walked, stops: Sequence[Stop]) -> Prevented:
    slack, right, wrong, hours = walked.policy.interval, 0, 0, 0.0
    for stop in account(levels, walked).stops:
        later = next((with_it.wall for with_it in stops if with_it.wall >= stop.wall - slack), None)
        if later is not None and later <= stop.wall + slack:
            continue  # it comes with the sense too
        until = levels.times[-1] if later is None else later
        if stop.back is not None and stop.back <= until:
            right += 1
        else:
            wrong, hours = wrong + 1, hours + (until - stop.wall) / HOUR
    return Prevented(name, right, wrong, hours)
