"""The same call again, after troubles that pass: capped back-off with jitter, within a budget."""

import random
import time
from collections.abc import Callable
from typing import TypeVar

from costguard.actions.provider import CloudError, Trouble

PASSING = frozenset(("unreachable", "throttled", "internal"))
"""Troubles after which the same request may succeed. Missing credentials do not come back by themselves."""

FIRST, LONGEST = 0.25, 8.0
"""Seconds of the first and of the longest pause."""

T = TypeVar("T")


class LaterError(CloudError):
    """An error that may pass; the cloud asks to wait ``wait`` seconds first, 0 when it does not say."""

    def __init__(self, trouble: Trouble, words: str, *, code: str = "", hint: str = "", wait: float = 0.0) -> None:
        super().__init__(trouble, words, code=code, hint=hint)
        self.wait = wait


def insist(call: Callable[[float], T], budget: float, *, also: Callable[[CloudError], bool] = lambda _: False) -> T:
    """Call with the seconds that are left until it answers; raises the last CloudError.

    ``also`` says which further errors pass with time.
    """
    end = time.monotonic() + budget
    pause = FIRST
    while True:
        try:
            return call(max(0.1, end - time.monotonic()))
        except CloudError as error:
            if error.trouble not in PASSING and not also(error):
                raise
            wait = pause * random.uniform(0.5, 1.0)  # noqa: S311 - spreads machines, hides nothing
            wait = max(wait, error.wait) if isinstance(error, LaterError) else wait
            if time.monotonic() + wait >= end:
                raise
        time.sleep(wait)
        pause = min(pause * 2, LONGEST)
