"""The only place where errors of the SDK become CloudError.

Sources: azure-core 1.41 (every 409 is a ResourceExistsError; a lost answer is a ServiceResponseError, a
request that never left a ServiceRequestError); Azure documentation "Lock your resources" (ScopeLocked),
"Throttling Resource Manager requests" (429 with Retry-After), "Troubleshoot Azure RBAC" (AuthorizationFailed,
which a new role assignment gives for some minutes).
"""

import json
from typing import Any

from costguard.cloud import errors, hints
from costguard.cloud.api import CloudError
from costguard.cloud.http import TooLongError
from costguard.cloud.plain import retry_after
from costguard.cloud.retry import LateError
from costguard.cloud.skew import ahead_of_us, skew

_SKEW_SECONDS = 300.0  # seconds; tokens are refused beyond about this difference
_NOT_NOW = frozenset(
    (
        *("Conflict", "AnotherOperationInProgress", "OperationPreempted", "RetryableError"),
        "ConflictingConcurrentWriteNotAllowed",
    )
)
"""409 that goes away by itself: another operation of the machine is under way. Any other 409 is a veto."""

NO_CODE = "no code"
"""Stands for the word that every answer of the Resource Manager has: something else answered."""

NOT_ARM = "this is not the Resource Manager"
_BETWEEN = hints.proxy("management.azure.com, or the Resource Manager of another Azure cloud")
_LOCKED = "see the lock with `az lock list`; costguard never removes one"


def translate(error: Exception, doing: str) -> CloudError:
    """What an error means; ``doing`` says what was tried."""
    from azure.core import exceptions as sdk

    if isinstance(error, CloudError):
        return error
    if isinstance(error, LateError):
        return errors.no_answer(doing, error)
    if isinstance(error, (sdk.DecodeError, ValueError, TooLongError)):
        return errors.malformed("Azure", doing, error)
    if isinstance(error, sdk.HttpResponseError) and error.response is not None:
        return _answered(error, doing)
    if isinstance(error, sdk.ServiceResponseError):
        return errors.no_answer(doing, error)
    if isinstance(error, sdk.ServiceRequestError):
        return errors.unreachable("Azure", doing, error)
    return errors.sdk_failed("Azure", doing, error, "silent", None)


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
        return CloudError(
            "internal", f"{said} ({NOT_ARM})", code=errors.GARBAGE, hint=hints.WHO_ANSWERS, sent="perhaps"
        )
    if _foreign(error, status, code):
        return errors.foreign("Azure", doing, status, _BETWEEN, message)
    if status == 403:
        return _forbidden(said, code)
    if status == 404 and code == NO_CODE:  # never the machine's end
        return CloudError("internal", f"{said} ({NOT_ARM})", code=errors.GARBAGE, hint=hints.WHO_ANSWERS)
    if status == 404:
        return CloudError("gone", said, code=code, hint="compare `az vm list -d` with `costguard doctor`")
    if status == 409 and code in _NOT_NOW:
        return _passing(error, said, code)
    if status == 409 and code == "ScopeLocked":
        return CloudError("refused", said, code=code, hint=_LOCKED)
    if status == 429:
        hint = f"other programs use up this machine's quota of requests; {hints.AGAIN}"
        return CloudError(
            "throttled", said, code=code, hint=hint, retry_after=retry_after(error.response.headers.get("Retry-After"))
        )
    if status == 408 or status >= 500:
        return _passing(error, said, code)
    return CloudError("refused", said, code=code, hint="see docs/clouds-azure.md for what refuses")


def _passing(error: Any, said: str, code: str) -> CloudError:
    """An internal error, after which the request is in doubt."""
    wait = retry_after(error.response.headers.get("Retry-After"))
    return CloudError("internal", said, code=code, hint=hints.AGAIN, sent="perhaps", retry_after=wait)


def _foreign(error: Any, status: int, code: str) -> bool:
    """Whether a refusal or a redirect has neither Azure's own word nor its request id: no role helps, and it is no veto."""
    own = code != NO_CODE or error.response.headers.get("x-ms-request-id")
    return status < 400 or (status < 500 and status not in {408, 429} and not own)


def _unauthenticated(error: Any, said: str, code: str) -> CloudError:
    """401: an old or foreign token, unless this machine's clock is what is wrong."""
    ahead = ahead_of_us(error.response.headers.get("Date"))
    if abs(ahead) > _SKEW_SECONDS:
        text = f"{said} ({skew(ahead)})"
        return CloudError("clock", text, code=code, hint=hints.CLOCK)
    if "expired" in code.lower():
        hint = "the managed identity's token could not be renewed: `az vm identity show --ids VM`"
        return CloudError("credentials", said, code=code, hint=hint)
    hint = "check the managed identity: `az vm identity show --ids VM`"
    return CloudError("credentials", said, code=code, hint=hint)


def _forbidden(said: str, code: str) -> CloudError:
    if code in {"RequestDisallowedByPolicy", "ReadOnlyDisabledSubscription", "SubscriptionNotRegistered"}:
        hint = "ask the owner of the subscription; costguard never bypasses a policy"
        return CloudError("refused", said, code=code, hint=hint)
    hint = "assign the role that `costguard permissions azure` prints to this machine's identity"
    return CloudError("denied", said, code=code, hint=hint)


def _body(error: Any) -> tuple[str, str]:
    """The cloud's own word and its sentence; Azure writes them in ``error``, some proxies do not."""
    try:
        found = json.loads(error.response.text()).get("error", {})
        return str(found.get("code") or NO_CODE), " ".join(str(found.get("message") or "no message").split())[:400]
    except Exception:  # noqa: BLE001 - a body that is no JSON, or that cannot be read any more
        return NO_CODE, errors.line(error)
