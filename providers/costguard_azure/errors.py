"""The only place where errors of the SDK become CloudError.

Sources: azure-core 1.41 (every 409 is a ResourceExistsError; a lost answer is a ServiceResponseError, a
request that never left a ServiceRequestError); Azure documentation "Lock your resources" (ScopeLocked),
"Throttling Resource Manager requests" (429 with Retry-After), "Troubleshoot Azure RBAC" (AuthorizationFailed,
which a new role assignment gives for some minutes).
"""

import json
import time
from email.utils import parsedate_to_datetime
from typing import Any

from costguard.cloud import hints
from costguard.cloud.api import CloudError
from costguard.cloud.http import TooLongError
from costguard.cloud.retry import LateError
from costguard.cloud.skew import skew

_SKEW = 300.0  # seconds; tokens are refused beyond about this difference
_NOT_NOW = frozenset(
    (
        "Conflict",
        "AnotherOperationInProgress",
        "OperationPreempted",
        "RetryableError",
        "ConflictingConcurrentWriteNotAllowed",
    )
)
"""409 that goes away by itself: another operation of the machine is under way. Any other 409 is a veto."""

NO_CODE = "no code"
"""Stands for the word that every answer of the Resource Manager has: something else answered."""

GARBAGE = "garbage"
"""The code of an answer that is not the Resource Manager's."""
NOT_ARM = "this is not the Resource Manager"
FOREIGN = "not_azure"
"""The code of a refusal or a redirect that somebody on the way answered with: Azure itself has not refused."""
_BETWEEN = hints.proxy("management.azure.com, or the Resource Manager of another Azure cloud")
_LOCKED = (
    "a lock holds this machine; costguard never removes one. See it with `az lock list`, remove it if it is not meant"
)


def translate(error: Exception, doing: str) -> CloudError:
    """Say what happened; ``doing`` names what was being done, in words."""
    from azure.core import exceptions as sdk

    if isinstance(error, CloudError):
        return error
    if isinstance(error, LateError):
        hint = "look for a proxy, then run `costguard doctor` again"
        return CloudError("unreachable", f"{doing}: {error}", code="no_answer", hint=hint, sent="silent")
    if isinstance(error, (sdk.DecodeError, ValueError, TooLongError)):
        text = f"{doing}: the answer makes no sense: {_line(error)}"
        return CloudError("internal", text, code=GARBAGE, hint=hints.WHO_ANSWERS, sent="silent")
    if isinstance(error, sdk.HttpResponseError) and error.response is not None:
        return _answered(error, doing)
    if isinstance(error, sdk.ServiceResponseError):
        text = f"{doing}: the request was sent, but no answer came: {_line(error)}"
        return CloudError("unreachable", text, code=type(error).__name__, hint=hints.AGAIN, sent="silent")
    if isinstance(error, sdk.ServiceRequestError):
        hint = "check the network, the proxy and the certificates (`costguard doctor`)"
        text = f"{doing}: Azure's Resource Manager cannot be reached: {_line(error)}"
        return CloudError("unreachable", text, code=type(error).__name__, hint=hint)
    text = f"{doing}: the SDK failed: {type(error).__name__}: {_line(error)}"
    hint = "run `costguard doctor`"
    return CloudError("internal", text, code=type(error).__name__, hint=hint, sent="silent", retry_after=None)


def not_taken(error: Exception) -> bool:
    """Whether the cloud did not take the token (401); the error of the SDK, or the one that it became."""
    return 401 in {getattr(one, "status_code", 0) for one in (error, error.__cause__)}


def _answered(error: Any, doing: str) -> CloudError:
    """An HTTP status, and the code in the body."""
    status = int(error.status_code or 0)
    code, message = _body(error)
    said = f"{doing}: Azure answered {status} {code}: {message}"
    if status == 401:
        return _unauthenticated(error, said, code)
    if status < 300:  # also a 204, which Azure has for no request of ours
        return CloudError("internal", f"{said} ({NOT_ARM})", code=GARBAGE, hint=hints.WHO_ANSWERS, sent="perhaps")
    if _foreign(error, status, code):
        return CloudError("unreachable", f"{said} ({NOT_ARM})", code=FOREIGN, hint=_BETWEEN, sent="hardly")
    if status == 403:
        return _forbidden(said, code)
    if status == 404 and code == NO_CODE:  # never the machine's end
        return CloudError("internal", f"{said} ({NOT_ARM})", code=GARBAGE, hint=hints.WHO_ANSWERS)
    if status == 404:
        return CloudError("gone", said, code=code, hint="check it with `az vm list -d`")
    if status == 409 and code in _NOT_NOW:
        return _passing(error, said, code)
    if status == 409 and code == "ScopeLocked":
        return CloudError("refused", said, code=code, hint=_LOCKED)
    if status == 429:
        hint = f"other programs use up this machine's requests; {hints.AGAIN}"
        return CloudError("throttled", said, code=code, hint=hint, retry_after=_retry_after(error))
    if status == 408 or status >= 500:
        return _passing(error, said, code)
    return CloudError("refused", said, code=code, hint="see docs/clouds-azure.md for what refuses")


def _passing(error: Any, said: str, code: str) -> CloudError:
    """An answer with trouble, after which nobody knows whether it had its effect."""
    wait = _retry_after(error)
    return CloudError("internal", said, code=code, hint=hints.AGAIN, sent="perhaps", retry_after=wait)


def _foreign(error: Any, status: int, code: str) -> bool:
    """Whether a refusal or a redirect has neither Azure's own word nor its request id: no role helps, and it is no veto."""
    own = code != NO_CODE or error.response.headers.get("x-ms-request-id")
    return status < 400 or (status < 500 and status not in {408, 429} and not own)


def _unauthenticated(error: Any, said: str, code: str) -> CloudError:
    """401: an old or foreign token, unless this machine's clock is what is wrong."""
    ahead = _ahead(error)
    if ahead is not None and abs(ahead) > _SKEW:
        text = f"{said} ({skew(ahead)})"
        return CloudError("clock", text, code=code, hint=hints.CLOCK)
    if "expired" in code.lower():
        hint = "the managed identity's token could not be renewed: `az vm identity show --ids VM`"
        return CloudError("credentials", said, code=code, hint=hint)
    hint = "check the managed identity with `az vm identity show --ids VM`"
    return CloudError("credentials", said, code=code, hint=hint)


def _forbidden(said: str, code: str) -> CloudError:
    if code in {"RequestDisallowedByPolicy", "ReadOnlyDisabledSubscription", "SubscriptionNotRegistered"}:
        hint = "ask the owner of the subscription; costguard does not go round a policy"
        return CloudError("refused", said, code=code, hint=hint)
    hint = "run `costguard permissions azure` and assign the role that it prints to this machine's identity"
    return CloudError("denied", said, code=code, hint=hint)


def _body(error: Any) -> tuple[str, str]:
    """The cloud's own word and its sentence; Azure writes them in ``error``, some proxies do not."""
    try:
        found = json.loads(error.response.text()).get("error", {})
        return str(found.get("code") or NO_CODE), " ".join(str(found.get("message") or "no message").split())[:400]
    except Exception:  # noqa: BLE001 - a body that is no JSON, or that cannot be read any more
        return NO_CODE, _line(error)


def _retry_after(error: Any) -> float:
    try:
        return max(0.0, float(error.response.headers.get("Retry-After")))
    except (TypeError, ValueError):
        return 0.0


def _ahead(error: Any) -> float | None:
    """How far (seconds) the cloud's clock is ahead of this machine's."""
    try:
        return parsedate_to_datetime(error.response.headers.get("Date")).timestamp() - time.time()
    except (TypeError, ValueError, AttributeError):
        return None


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
