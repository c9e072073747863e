"""How long everything that the engine asks for may take: the one place for the worker's, the guard's and the engine's limits.

For each effect the worker has limits for its parts, the guard ends a worker that is not done by then, and the engine takes for
lost what it never heard of. Each limit is longer than the one before it, for every setting that is valid: the longest
values that the configuration admits are those below. All numbers are seconds.
"""

from typing import NamedTuple

START = 5.0
"""For a process to begin, on a busy machine."""

FACTS = 45.0
"""To identify the machine, log in and gather facts."""

TAGS_ASKED = 10.0
"""For the question whether the machine's tags may be written."""

RECORD, RESULT = 20.0, 15.0
"""For the record of an incident to leave the machine before the worker is ready, and for that of its outcome."""

TOLD, CONFIRMED = 25.0, 100.0
"""For a message to be delivered; for the question what became of an attempt."""

ACTION, ACTION_LONGEST = 60.0, 3600.0
HOOK, HOOK_LONGEST = 60.0, 180.0
DELAY_LONGEST = 240.0
"""For the action itself and for the pre-stop hook, unless the configuration says otherwise; the delay of a shutdown."""

MARGIN = 15.0
"""Between the end of all parts and the moment at which the guard ends a worker."""

LOST = 60.0
"""Between the latest moment at which the guard speaks and the one at which the engine no longer waits for it."""

SPREAD_LONGEST = 43200.0
ACTION_SPREAD_LONGEST = 1800.0
"""The longest times over which a fleet asks its cloud, for checks and before an action."""

EARLY = 0.25
"""The part of the time for checks after which each machine has asked once, as long as nobody knows whether it may be stopped."""

AGAIN, AGAIN_LONGEST = 300.0, 1800.0
"""Pause after a check that failed: doubled each time; the guard adds up to as much again, by chance."""

DOUBLINGS = 30
"""Of any pause: beyond all of them it is as long as it may be, and no number is too large."""

LEAD = 60.0
"""How long before it is due a worker is started, so that it waits ready when the countdown ends."""

STALE, STALE_LONGEST = 60.0, 3600.0
"""How long past its time a warning is kept: for as long as `grace`, within these limits."""

ANSWER_LOST = 300.0
"""When a message, or a question what became of an attempt, counts as lost."""


class Limits(NamedTuple):
    """``own``: all parts of a worker together; ``killed``: when the guard ends it."""

    own: float
    killed: float


def _limits(*parts: float) -> Limits:
    own = sum(parts)
    return Limits(own, own + MARGIN)


TELL = _limits(START, TOLD)
CHECK = _limits(START, FACTS, TAGS_ASKED)
CONFIRM = _limits(START, CONFIRMED)


def prepare(hook: float) -> Limits:
    """Until a worker is ready, from its start; ``hook`` is how long the pre-stop hook may take, 0 for none."""
    return _limits(START, FACTS, RECORD, hook)


def act(action: float) -> Limits:
    """From its release until a worker has acted, which may take so long, and said so."""
    return _limits(action, RESULT)


def save(hook: float) -> Limits:
    """The pre-stop hook alone."""
    return _limits(START, hook)


PREPARE_LOST = ACTION_SPREAD_LONGEST + prepare(HOOK_LONGEST).killed + LOST
ACT_LOST = act(ACTION_LONGEST).killed + LOST

READY_KILLED = LEAD + STALE_LONGEST + LOST
"""When the guard takes a worker that waits ready for forgotten: the engine takes it back before."""

HAPPENED = DELAY_LONGEST + LOST
"""If nothing is seen of a request so long after it was accepted, nothing happened."""

STOPPING = 1800.0
"""How long a machine that is seen stopping may take: hibernation writes its whole memory to a disk first."""


def stale(grace: float) -> float:
    """How long past its time a warning is kept that something blocks; then people are warned anew."""
    return max(STALE, min(grace, STALE_LONGEST))


def pause(tries: int) -> float:
    """Seconds before a check is made again, after so many failures in a row."""
    return min(AGAIN_LONGEST, AGAIN * 2.0 ** min(tries - 1, DOUBLINGS))
