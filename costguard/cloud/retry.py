"""Retries: exponential backoff, a firm end, and one limit for a whole call.

Each plug-in says which errors may be retried; how long to wait between two tries is decided here.
"""

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from costguard.cloud.api import CloudError

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.25, 8.0
"""Seconds of the first and of the longest pause."""

LEAST_TRY_SECONDS = 1.0
"""The least time for another try, in seconds: one that is cut off turns a certain failure into an unknown one."""

T = TypeVar("T")


class LateError(TimeoutError):
    """A call gave no complete answer within its time. It may have had its effect."""


Again = Callable[[CloudError], float | None]
"""The least seconds to wait before the same call may be made again; None: it may not."""


def pauses(longest: float = LONGEST_PAUSE_SECONDS) -> Iterator[float]:
    """Seconds, without end: doubled, capped, and each between half of its step and the whole.

    Exponential backoff with jitter, so that a fleet does not retry in lockstep.
    """
    import random  # here and below: who asks a metadata service stays, and hardly ever waits

    step = FIRST_PAUSE_SECONDS
    while True:
        yield step * random.uniform(0.5, 1.0)  # noqa: S311 - spreads machines, hides nothing
        step = min(step * 2, longest)


def until(
    end: float,
    call: Callable[[float], T],
    again: Again = lambda error: error.retry_after,
    *,
    longest: float = LONGEST_PAUSE_SECONDS,
    tries: int | None = None,
) -> T:
    """Call, with the seconds that are left, until it answers. ``end`` is a moment of the monotonic clock.

    ``longest``: seconds of the longest pause. ``tries``: how many calls at most, None for as many as fit.

    Raises the last CloudError: one that ``again`` does not allow to be repeated, one after which no time is left for
    another try, or that of the last of ``tries``. Other errors are not caught.
    """
    waits = pauses(longest)
    number = 0
    while True:
        try:
            return call(end - time.monotonic())
        except CloudError as error:
            number += 1
            pause, asked = next(waits), again(error)
            if asked is None or number == tries or time.monotonic() + max(pause, asked) + LEAST_TRY_SECONDS >= end:
                raise
        time.sleep(max(pause, asked))


def bounded(call: Callable[[], T], within: float) -> T:
    """Wait ``within`` seconds for a whole call. Raises LateError, and whatever the call raises.

    An SDK's own time-outs are for the next byte: an answer that drips outlasts them all. A call that is late is left
    behind in its thread, and may still have its effect; the process that made it ends soon.
    """
    if within <= 0.0:
        raise LateError("no time was left for it")
    import threading

    answers: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(call())
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(within)
    if errors:
        raise errors.pop()
    if not answers:
        raise LateError(f"no complete answer within {within:.3g} s")
    return answers.pop()
