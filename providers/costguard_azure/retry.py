"""Which requests may be sent again; how long to wait is in `costguard.actions.retry`."""

from collections.abc import Callable
from typing import TypeVar

from costguard.actions import retry
from costguard.actions.provider import CloudError
from costguard_azure.errors import GARBAGE, ArmError, translate

T = TypeVar("T")

WHOLE = 15.0
"""The longest wait for one call, however its answer drips; seconds."""


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


def once(doing: str, call: Callable[[], T], within: float = WHOLE) -> T:
    """One call, for at most ``within`` seconds. Raises ArmError, whatever the SDK raises; ``doing`` names the call."""
    try:
        return retry.bounded(call, min(within, WHOLE))
    except Exception as caught:
        raise translate(caught, doing) from caught


def ask(end: float, doing: str, question: Callable[[], T], forget: Callable[[], None]) -> T:
    """Put a question until there is an answer, or until the monotonic moment ``end``. Raises ArmError."""
    return until(end, lambda left: once(doing, question, left), forget, look)


def until(end: float, call: Callable[[float], T], forget: Callable[[], None], may: Callable[[ArmError], bool]) -> T:
    """Call until it works, until ``may`` says no, or until the monotonic moment ``end``. Raises ArmError, as ``call`` does.

    ``forget`` drops the token: a cloud that does not take it is asked once more with a new one.
    """
    renewed = False

    def after(error: CloudError) -> float | None:
        nonlocal renewed
        if not isinstance(error, ArmError):
            return None
        if error.status == 401 and not renewed:
            renewed = True
            forget()
            return 0.0
        return (error.retry_after or 0.0) if may(error) else None

    return retry.until(end, call, after)
