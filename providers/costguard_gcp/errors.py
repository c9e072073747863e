"""The only place where what the SDK raises becomes a `CloudError`.

Sources: google.api_core.exceptions; Compute Engine documentation "API error messages" and "API rate limits"
(throttling comes as 403 with a reason, too); google.auth.exceptions; requests.exceptions.
"""

from typing import Any

import requests.exceptions
from google.api_core import exceptions as api
from google.auth import exceptions as auth

from costguard.actions.provider import CloudError, Trouble
from costguard_gcp import permissions

NO_ANSWER = "no_answer"
"""The code of a request that may have reached the cloud, although no answer came."""

_AGAIN = "costguard tries again by itself; `costguard doctor` shows whether it lasts"
_THROTTLING = {"rateLimitExceeded", "userRateLimitExceeded", "quotaExceeded", "RATE_LIMIT_EXCEEDED"}
_PASSING = {"resourceNotReady", "backendError", "internalError"}
_TIMED_OUT = 408
_SCOPES = {"insufficientPermissions", "ACCESS_TOKEN_SCOPE_INSUFFICIENT"}
_DISABLED = {"accessNotConfigured", "SERVICE_DISABLED"}


def translate(error: Exception) -> CloudError:
    """What an exception of the SDK means. A `CloudError` stays what it is."""
    if isinstance(error, CloudError):
        return error
    if isinstance(error, api.GoogleAPICallError):
        return _answer(error)
    if isinstance(error, auth.TransportError):
        return CloudError(
            "unreachable", f"Google's sign-in cannot be reached: {short(error)}", code="sign_in", hint=_AGAIN
        )
    if isinstance(error, auth.GoogleAuthError):
        hint = "run `gcloud auth application-default login`, or look at the service account, then `costguard doctor`"
        return CloudError("credentials", f"the sign-in failed: {short(error)}", code="credentials_expired", hint=hint)
    if isinstance(error, requests.exceptions.RequestException):
        return _network(error)
    text = f"the SDK of Google Cloud failed: {type(error).__name__}: {short(error)}"
    return CloudError("internal", text, code=type(error).__name__, hint="run `costguard doctor`")


def operation(failures: Any) -> CloudError | None:  # noqa: ANN401 - a message of the SDK
    """The error inside an operation that the API answered with; None when it has none."""
    if not failures:
        return None
    code, words = str(failures[0].code), str(failures[0].message)
    if code in _THROTTLING:
        return CloudError("throttled", f"Google Cloud asks for fewer requests: {words}", code=code, hint=_AGAIN)
    if code in _PASSING or code in {"INTERNAL_ERROR", "RESOURCE_NOT_READY"}:
        return CloudError("internal", f"the operation failed: {words}", code=code, hint=_AGAIN)
    return CloudError("refused", f"Google Cloud took the request and then refused it: {words}", code=code, hint=_LOOK)


_LOOK = "look at the machine's operations: `gcloud compute operations list --filter=targetLink:INSTANCE`"


def short(error: object) -> str:
    """The words of an exception, cut to what fits a message."""
    return str(error)[:300] or type(error).__name__


def _answer(error: api.GoogleAPICallError) -> CloudError:
    reason, words = _reason(error), short(error.message)
    number = error.code or 0
    code = reason or f"http_{number}"
    if isinstance(error, api.TooManyRequests) or reason in _THROTTLING:
        return CloudError("throttled", f"Google Cloud asks for fewer requests: {words}", code=code, hint=_AGAIN)
    if isinstance(error, api.Unauthorized):
        hint = "look at the machine's service account and its clock, then run `costguard doctor`"
        return CloudError("credentials", f"Google Cloud does not accept the token: {words}", code=code, hint=hint)
    if isinstance(error, api.Forbidden):
        return _forbidden(code, reason, words)
    if isinstance(error, api.NotFound):
        text = f"Google Cloud does not know this machine: {words}"
        return CloudError(
            "gone", text, code=code, hint="compare `costguard doctor` with `gcloud compute instances list`"
        )
    if number >= 500 or number == _TIMED_OUT or reason in _PASSING:
        return CloudError("internal", f"Google Cloud had trouble of its own: {words}", code=code, hint=_AGAIN)
    return CloudError("refused", f"Google Cloud refuses: {words}", code=code, hint=_hint(words))


def _forbidden(code: str, reason: str, words: str) -> CloudError:
    if reason in _SCOPES or "insufficient authentication scopes" in words:
        hint = "stop the machine once and run `gcloud compute instances set-service-account --scopes=cloud-platform`"
        return CloudError(
            "denied", f"the machine's access scopes do not allow it: {words}", code="scopes_missing", hint=hint
        )
    if reason in _DISABLED:
        hint = "run `gcloud services enable compute.googleapis.com`"
        return CloudError("denied", f"the Compute Engine API is switched off: {words}", code=code, hint=hint)
    return CloudError("denied", f"Google Cloud denies it: {words}", code=code, hint=permissions.ADMIT)


def _hint(words: str) -> str:
    if "discard-local-ssd" in words:
        return 'set cloud.local_data = "discard" if the data of the local SSDs may be lost'
    if "protected against deletion" in words:
        return "an owner decides: `gcloud compute instances update --no-deletion-protection`"
    return "run `costguard doctor`"


def _reason(error: api.GoogleAPICallError) -> str:
    """The API's own word: old answers have it in ``errors``, new ones in an ``ErrorInfo``."""
    for one in error.errors or ():
        if isinstance(one, dict) and one.get("reason"):
            return str(one["reason"])
    return str(error.reason or "")


def _network(error: requests.exceptions.RequestException) -> CloudError:
    words = short(error)
    if isinstance(error, requests.exceptions.SSLError):
        if "not yet valid" in words or "has expired" in words:
            text = f"the clock of this machine is wrong, or Google Cloud's certificate is: {words}"
            return CloudError("clock", text, code="clock_skew", hint="run `timedatectl` and set the clock")
        hint = "look for a proxy that intercepts TLS; REQUESTS_CA_BUNDLE names its certificate authority"
        return CloudError("unreachable", f"no secure connection to Google Cloud: {words}", code="tls", hint=hint)
    sent = not isinstance(error, requests.exceptions.ConnectTimeout | requests.exceptions.ProxyError)
    sent = sent and "NewConnectionError" not in words and "NameResolutionError" not in words
    code: str = NO_ANSWER if sent else "no_connection"
    trouble: Trouble = "unreachable"
    text = "Google Cloud gave no answer" if sent else "Google Cloud cannot be reached"
    return CloudError(trouble, f"{text}: {words}", code=code, hint="look at the machine's route, firewall and proxy")
