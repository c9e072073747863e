"""Errors that every cloud has, in the same words: the way to it, and answers that are not its own.

What one cloud alone says is translated in the module `errors` of its plug-in. ``doing`` is the call, ``why`` a detail.
"""

from costguard.cloud import hints
from costguard.cloud.api import CloudError, Sent, Trouble

GARBAGE = "garbage"
"""The code of an answer that is not the API's, although its status says that all went well."""
FOREIGN = "foreign_answer"
"""The code of a 3xx or 4xx sent by a proxy or gateway, not by the cloud: no veto."""


def line(text: object, most: int = 300) -> str:
    """Somebody else's message, cut to one line of limited length."""
    return " ".join(str(text).split())[:most] or type(text).__name__


def unreachable(cloud: str, doing: str, why: object) -> CloudError:
    """The request never left: nothing was accepted."""
    message = f"{doing}: {cloud} cannot be reached ({line(why)})"
    return CloudError("unreachable", message, code="no_connection", hint=hints.NETWORK)


def no_answer(doing: str, why: object) -> CloudError:
    """The request left, and no whole answer came: it may have been accepted."""
    message = f"{doing}: the request was sent, but no answer came ({line(why)})"
    return CloudError("unreachable", message, code="no_answer", hint=hints.NETWORK, sent="silent")


def foreign(cloud: str, doing: str, status: int, hint: str, why: object = "", *, sent: Sent = "hardly") -> CloudError:
    """A refusal or redirect that is not in the cloud's own words: no role helps, and it is not a veto."""
    detail = f": {line(why)}" if why else ""
    message = f"{doing}: status {status}, but not from {cloud}: a proxy or another service answers{detail}"
    return CloudError("unreachable", message, code=FOREIGN, hint=hint, sent=sent)


def malformed(
    cloud: str,
    doing: str,
    why: object = "",
    *,
    trouble: Trouble = "internal",
    code: str = GARBAGE,
    hint: str = hints.WHO_ANSWERS,
    sent: Sent = "silent",
) -> CloudError:
    """An answer that is not the cloud's although it reports success, or that is cut short: never an acceptance, never a proof."""
    message = f"{doing}: malformed answer, not from {cloud}{f' ({line(why)})' if why else ''}"
    return CloudError(trouble, message, code=code, hint=hint, sent=sent)


def sdk_failed(cloud: str, doing: str, error: BaseException, sent: Sent, retry_after: float | None = 0.0) -> CloudError:
    """An error of the SDK that nobody expects."""
    kind = type(error).__name__
    message, hint = f"{doing}: the SDK of {cloud} failed ({kind}: {line(error)})", f"{hints.DOCTOR}, and report it"
    return CloudError("internal", message, code=kind, hint=hint, sent=sent, retry_after=retry_after)
