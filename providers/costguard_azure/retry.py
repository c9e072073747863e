"""Trying again: the same request, within a deadline, as slowly as the cloud asks."""

import random
import time
from collections.abc import Callable
from typing import TypeVar

from costguard_azure.errors import GARBAGE, ArmError, translate

T = TypeVar("T")

BASE, CAP = 0.5, 10.0
"""Seconds before the second try, and at most between two."""


def again(error: ArmError) -> bool:
    """Whether the same request may succeed later: an answer that says so, or a request that never left.

    After a lost answer this says no: a request with an effect may have been heard. See `look` for questions.
    """
    if error.trouble in {"throttled", "internal"}:
        return error.status != 0
    return error.trouble == "unreachable" and not error.sent


def look(error: ArmError) -> bool:
    """As `again`, for a question: it has no effect, so one whose answer was lost or cut is asked once more."""
    return again(error) or error.trouble == "unreachable" or error.code == GARBAGE


def until(
    end: float, doing: str, call: Callable[[], T], forget: Callable[[], None], may: Callable[[ArmError], bool] = again
) -> T:
    """Call until it works, until ``may`` says no, or until the monotonic moment ``end``. Raises ArmError.

    ``forget`` drops the token: a cloud that does not take it is asked once more with a new one.
    """
    tries = 0
    renewed = False
    while True:
        try:
            return call()
        except Exception as caught:  # noqa: BLE001 - translated in one place, whatever the SDK raises
            error = translate(caught, doing)
        if error.status == 401 and not renewed:
            renewed = True
            forget()
            continue
        wait = error.retry_after or min(CAP, BASE * 2**tries) * random.uniform(0.5, 1.0)  # noqa: S311 - spreads machines
        tries += 1
        if not may(error) or time.monotonic() + wait >= end:
            raise error
        time.sleep(wait)
