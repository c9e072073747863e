"""How long everything that the engine asks for may take: the one place for the worker's, the guard's and the engine's limits.

For each effect the worker has limits for its parts, the guard ends a worker that is not done by then, and the engine takes for
lost what it never heard of. Each limit is longer than the one before it, for every setting that is valid: the longest
values that the configuration admits are those below. All numbers are seconds.
"""

from typing import NamedTuple

START_SECONDS = 5.0
"""For a process to begin, on a busy machine."""

LOAD_SECONDS = 90.0
"""For a cloud's library to be loaded: seconds of a processor, of which a machine gives few where much runs."""

SENDER_LOAD_SECONDS = 30.0
"""The same for the library that sends messages."""

FACTS_SECONDS = 45.0
"""To identify the machine, log in and gather facts, beside loading the library for it."""

TAGS_SECONDS = 10.0
"""For the question whether the machine's tags may be written."""

RECORD_SECONDS, RESULT_SECONDS = 20.0, 15.0
"""For the record of an incident to leave the machine before the worker is ready, and for that of its outcome."""

WAITING_SECONDS, DELIVERY_SECONDS, CONFIRM_SECONDS = 22.0, 25.0, 100.0
"""For a message to wait until it may leave, after a fleet's others, its own story's, and its picture; to be delivered; for the question what became of an attempt."""

ACTION_SECONDS, ACTION_LONGEST_SECONDS = 60.0, 3600.0
HOOK_SECONDS, HOOK_LONGEST_SECONDS = 60.0, 180.0
DELAY_LONGEST_SECONDS = 240.0
"""For the action itself and for the pre-stop hook, unless the configuration says otherwise; the delay of a shutdown."""

MARGIN_SECONDS = 15.0
"""Between the end of all parts and the moment at which the guard ends a worker."""

LOST_AFTER_SECONDS = 60.0
"""Between the latest moment at which the guard speaks and the one at which the engine no longer waits for it."""

SPREAD_LONGEST_SECONDS = 43200.0
ACTION_SPREAD_LONGEST_SECONDS = 1800.0
"""The longest times over which a fleet asks its cloud, for checks and before an action."""

EARLY_SHARE = 0.25
"""The part of the time for checks after which each machine has asked once, as long as nobody knows whether it may be stopped."""

CHECK_AGAIN_SECONDS, CHECK_AGAIN_LONGEST_SECONDS = 300.0, 1800.0
"""Pause after a check that failed: doubled each time; the guard adds up to as much again, by chance."""

DOUBLINGS = 30
"""Of any pause: beyond all of them it is as long as it may be, and no number is too large."""

LEAD_SECONDS = 60.0
"""How long before it is due a worker is started, so that it waits ready when the countdown ends."""

STALE_SECONDS, STALE_LONGEST_SECONDS = 60.0, 3600.0
"""How long past its time a warning is kept: for as long as `grace`, within these limits."""

ANSWER_LOST_SECONDS = 300.0
"""When a message, or a question what became of an attempt, counts as lost."""


class Limits(NamedTuple):
    """``own``: all parts of a worker together; ``killed``: when the guard ends it."""

    own: float
    killed: float


def _limits(*parts: float) -> Limits:
    own = sum(parts)
    return Limits(own, own + MARGIN_SECONDS)


TELL = _limits(START_SECONDS, SENDER_LOAD_SECONDS, WAITING_SECONDS, DELIVERY_SECONDS)
RECALL = _limits(START_SECONDS)
CHECK = _limits(START_SECONDS, LOAD_SECONDS, FACTS_SECONDS, TAGS_SECONDS)
CONFIRM = _limits(START_SECONDS, LOAD_SECONDS, CONFIRM_SECONDS)


def prepare(hook: float) -> Limits:
    """Until a worker is ready, from its start; ``hook`` is how long the pre-stop hook may take, 0 for none."""
    return _limits(START_SECONDS, LOAD_SECONDS, FACTS_SECONDS, RECORD_SECONDS, hook)


def act(action: float) -> Limits:
    """From its release until a worker has acted, which may take so long, and said so."""
    return _limits(action, RESULT_SECONDS)


def save(hook: float) -> Limits:
    """The pre-stop hook alone."""
    return _limits(START_SECONDS, hook)


PREPARE_LOST_SECONDS = ACTION_SPREAD_LONGEST_SECONDS + prepare(HOOK_LONGEST_SECONDS).killed + LOST_AFTER_SECONDS
ACT_LOST_SECONDS = act(ACTION_LONGEST_SECONDS).killed + LOST_AFTER_SECONDS

READY_KILLED_SECONDS = LEAD_SECONDS + STALE_LONGEST_SECONDS + LOST_AFTER_SECONDS
"""When the guard takes a worker that waits ready for forgotten: the engine takes it back before."""

HAPPENS_WITHIN_SECONDS = DELAY_LONGEST_SECONDS + LOST_AFTER_SECONDS
"""If nothing is seen of a request so long after it was accepted, nothing happened."""

STOPS_WITHIN_SECONDS = 1800.0
"""How long a machine that is seen stopping may take: hibernation writes its whole memory to a disk first."""


def stale(grace: float) -> float:
    """How long past its time a warning is kept that something blocks; then people are warned anew."""
    return max(STALE_SECONDS, min(grace, STALE_LONGEST_SECONDS))


def pause(tries: int) -> float:
    """Seconds before a check is made again, after so many failures in a row."""
    return min(CHECK_AGAIN_LONGEST_SECONDS, CHECK_AGAIN_SECONDS * 2.0 ** min(tries - 1, DOUBLINGS))
