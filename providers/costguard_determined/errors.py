"""What the master answers when it does not do what was asked, as a SchedulerError: the one place where its codes are read."""

import json

from costguard.cloud.api import Sent, Trouble
from costguard.masking import mask
from costguard.tasks.api import SchedulerError

WORDS = 300

_EXPIRED = "the token of the task may have expired: name a user's own with [task.determined] token_file"
_OWNER = "let costguard run as the owner of the task, or name a token with the right: [task.determined] token_file"
_MASTER = "see whether the master answers: `curl $DET_MASTER/info`"

NOT_FOUND = 404

_CODES: dict[int, tuple[Trouble, Sent, str]] = {
    400: ("refused", "hardly", "see the task in Determined's own list"),
    401: ("credentials", "no", _EXPIRED),
    403: ("denied", "no", _OWNER),
    404: ("gone", "no", "see the task in Determined's own list"),
    409: ("refused", "hardly", "see the task in Determined's own list"),
    429: ("throttled", "no", ""),
}
"""By HTTP status. 400 and 409 also stand for a task that is not in the right state: a look decides."""


def explain(what: str, status: int, body: bytes, retry_after: float) -> SchedulerError:
    """The error of an answer."""
    if status == NOT_FOUND and not _own(body):
        return foreign(what, status, "hardly")
    trouble, sent, hint = _CODES.get(status, ("internal", "perhaps", _MASTER))
    if status in {502, 503, 504}:
        trouble = "unreachable"
    text = f"Determined answered `{what}` with HTTP {status}{_said(body)}"
    return SchedulerError(trouble, text, code=f"http_{status}", hint=hint, sent=sent, retry_after=retry_after)


def foreign(what: str, status: int, sent: Sent) -> SchedulerError:
    """An answer that is not the master's: a proxy, another service, or another version of it."""
    text = f"Determined did not answer `{what}`: HTTP {status} came, and not from its master"
    return SchedulerError("unreachable", text, code="foreign_answer", hint=_MASTER, sent=sent)


def unreachable(what: str, error: Exception, sent: Sent) -> SchedulerError:
    """No answer at all."""
    words = mask(str(error)) or type(error).__name__
    return SchedulerError("unreachable", f"Determined did not answer `{what}`: {words}", hint=_MASTER, sent=sent)


def _own(body: bytes) -> bool:
    """Whether this is an error in the master's own form; who else says *not found* knows nothing of the task."""
    try:
        answer = json.loads(body)
    except ValueError:
        return False
    return isinstance(answer, dict) and isinstance(answer.get("error"), dict)


def _said(body: bytes) -> str:
    """The message of an error; without one nothing is quoted, since a proxy's page is no message."""
    try:
        answer = json.loads(body)
        error = answer.get("error", answer)
        words = (
            error.get("error") or error.get("message") or answer.get("message") if isinstance(error, dict) else error
        )
    except (ValueError, AttributeError):
        return ""
    return f": {mask(str(words)[:WORDS])}" if words else ""
