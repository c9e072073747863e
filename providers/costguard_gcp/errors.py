"""The only place where what the SDK raises becomes a `CloudError`.

Sources: google.api_core.exceptions; Compute Engine documentation "API error messages" and "API rate limits"
(throttling comes as 403 with a reason, too); google.auth.exceptions; requests.exceptions.
"""

import re
from typing import Any

import requests.exceptions
from google.api_core import exceptions as api
from google.auth import exceptions as auth
from google.protobuf.json_format import ParseError

from costguard.cloud import errors, hints
from costguard.cloud.api import CloudError
from costguard.cloud.http import TooLongError, limit
from costguard.cloud.plain import retry_after
from costguard.cloud.retry import LateError
from costguard.cloud.skew import ahead_of_us, skew
from costguard_gcp import permissions

LOGIN = "run `gcloud auth application-default login`"
_BETWEEN = hints.proxy("googleapis.com")
_SKEW_SECONDS = 300.0  # seconds; tokens are refused beyond about this difference
_NOT_FOUND = {"notFound", "RESOURCE_NOT_FOUND"}
# a project or a zone that is not found says nothing of the machine
_AROUND = re.compile(r"projects/[^/']+(/zones/[^/']+)?'")
_THROTTLING = {"rateLimitExceeded", "userRateLimitExceeded", "quotaExceeded", "RATE_LIMIT_EXCEEDED"}
_THROTTLING |= {"RESOURCE_OPERATION_RATE_EXCEEDED"}  # of one machine
_PASSING = {"resourceNotReady", "backendError", "internalError"}
_TIMED_OUT = 408
_SCOPES = {"insufficientPermissions", "ACCESS_TOKEN_SCOPE_INSUFFICIENT"}
_DISABLED = {"accessNotConfigured", "SERVICE_DISABLED"}


def translate(error: Exception, doing: str) -> CloudError:
    """What an exception of the SDK means; ``doing`` is the name of the call. A `CloudError` stays what it is."""
    if isinstance(error, CloudError):
        return error
    if isinstance(error, LateError):
        return errors.no_answer(doing, error)
    if isinstance(error, api.GoogleAPICallError):
        return _answer(error, doing)
    if isinstance(error, auth.TransportError):
        return CloudError(
            "unreachable", f"Google's sign-in cannot be reached: {short(error)}", code="sign_in", hint=hints.AGAIN
        )
    if isinstance(error, auth.GoogleAuthError):
        hint = f"{LOGIN}, or check the service account, {hints.THEN_DOCTOR}"
        return CloudError("credentials", f"the sign-in failed: {short(error)}", code="credentials_expired", hint=hint)
    if isinstance(error, requests.exceptions.RequestException):
        return _network(error, doing)
    if isinstance(error, ParseError | TooLongError):
        return garbage(doing, error)
    return errors.sdk_failed("Google Cloud", doing, error, "perhaps")


def operation(failures: Any) -> CloudError | None:
    """The error inside an operation that the API answered with; None when it has none."""
    if not failures:
        return None
    code, message = str(failures[0].code), str(failures[0].message)
    if code in _THROTTLING:
        return CloudError("throttled", f"Google Cloud throttles requests: {message}", code=code, hint=hints.AGAIN)
    if code in _PASSING or code in {"INTERNAL_ERROR", "RESOURCE_NOT_READY"}:
        return CloudError("internal", f"the operation failed: {message}", code=code, hint=hints.AGAIN)
    hint = "see `gcloud compute operations list --filter=targetLink:INSTANCE`"
    return CloudError("refused", f"Google Cloud took the request, then refused it: {message}", code=code, hint=hint)


def short(error: object) -> str:
    """The message of an exception, cut to what fits into one of ours."""
    return str(error)[:300] or type(error).__name__


def garbage(doing: str, why: object) -> CloudError:
    """The error of an answer that is not what the API says."""
    return errors.malformed("Google Cloud", doing, why)


def foreign(doing: str, status: int, why: object) -> CloudError:
    """The error of a refusal or a redirect without the reason that Google Cloud always gives."""
    return errors.foreign("Google Cloud", doing, status, _BETWEEN, why)


def heed(response: Any, **_options: object) -> None:
    """A hook for each answer, before the SDK looks at it. Raises CloudError for what the SDK would follow or fail on.

    A redirect would take a token, and a request with an effect, elsewhere; an error without its object makes the SDK fail.
    """
    limit(response)
    status = int(response.status_code)
    if 300 <= status < 400:
        response.close()
        raise foreign("asking Google Cloud", status, "a redirect, not followed")
    if status >= 400 and not _has_object(response):
        raise foreign("asking Google Cloud", status, response.text)


def document(response: Any) -> Any:
    """What an answer of an API holds that the SDK did not ask. Raises GoogleAPICallError, and CloudError for what is none of the API's."""
    try:
        said = response.json()
    except ValueError:
        said = None
    if response.status_code == requests.codes.ok and said is not None:
        return said
    error = said.get("error") if isinstance(said, dict) else None
    if not isinstance(error, dict):
        raise foreign("asking Google Cloud", int(response.status_code), "")
    message = short(error.get("message"))
    if (response.status_code, error.get("status")) == (404, "NOT_FOUND"):
        raise CloudError("gone", message, code="NOT_FOUND")
    failed = api.from_http_response(response)
    failed.message = message
    raise failed


def _has_object(response: Any) -> bool:
    """Whether an error is one of the API's form, or no JSON at all, which the SDK knows how to take."""
    try:
        said = response.json()
    except ValueError:
        return True
    error = said.get("error") if isinstance(said, dict) else None
    if not isinstance(error, dict):
        return False
    rows = [row for name in ("errors", "details") for row in _rows(error.get(name, []))]
    return all(isinstance(row, dict) for row in rows)


def _rows(found: object) -> list[object]:
    """The rows of a list; one row that is none for anything else."""
    return found if isinstance(found, list) else [None]


def _answer(error: api.GoogleAPICallError, doing: str) -> CloudError:
    reason, message = _reason(error), short(error.message)
    number = error.code or 0
    code = reason or f"http_{number}"
    if isinstance(error, api.TooManyRequests) or reason in _THROTTLING:
        text = f"Google Cloud throttles requests: {message}"
        return CloudError(
            "throttled", text, code=code, hint=hints.AGAIN, retry_after=retry_after(_header(error, "Retry-After"))
        )
    if isinstance(error, api.Unauthorized):
        return _unauthorized(error, code, message)
    if not reason and number < 500 and number != _TIMED_OUT:
        return foreign(doing, number, message)
    if isinstance(error, api.Forbidden):
        return _forbidden(code, reason, message)
    if isinstance(error, api.NotFound):
        return _not_found(doing, code, reason, message)
    if number >= 500 or number == _TIMED_OUT or reason in _PASSING:
        text = f"Google Cloud has an internal error: {message}"
        wait = retry_after(_header(error, "Retry-After"))
        return CloudError("internal", text, code=code, hint=hints.AGAIN, sent="perhaps", retry_after=wait)
    return CloudError("refused", f"Google Cloud refuses: {message}", code=code, hint=_hint(message))


def _unauthorized(error: api.GoogleAPICallError, code: str, message: str) -> CloudError:
    ahead = ahead_of_us(_header(error, "Date"))
    if abs(ahead) > _SKEW_SECONDS:
        text = f"Google Cloud rejects the token, and {skew(ahead)}: {message}"
        return CloudError("clock", text, code="clock_skew", hint=hints.CLOCK)
    hint = f"check the service account and the clock of this machine, {hints.THEN_DOCTOR}"
    return CloudError("credentials", f"Google Cloud rejects the token: {message}", code=code, hint=hint)


def _not_found(doing: str, code: str, reason: str, message: str) -> CloudError:
    """Only the API's own word about the machine says that it is gone: it counts as proof that its bill ended."""
    if reason not in _NOT_FOUND:
        return garbage(doing, f"404 {message}")
    if _AROUND.search(message):
        text = f"Google Cloud knows no such project or zone: {message}"
        return CloudError("refused", text, code=code, hint=permissions.COMPARE)
    return CloudError("gone", f"Google Cloud knows no such machine: {message}", code=code, hint=permissions.COMPARE)


def _forbidden(code: str, reason: str, message: str) -> CloudError:
    if reason in _SCOPES or "insufficient authentication scopes" in message:
        text = f"the access scopes of this machine do not allow it: {message}"
        return CloudError("denied", text, code="scopes_missing", hint=permissions.set_scopes())
    if reason in _DISABLED:
        hint = "run `gcloud services enable compute.googleapis.com`"
        return CloudError("denied", f"the Compute Engine API is switched off: {message}", code=code, hint=hint)
    return CloudError("denied", f"Google Cloud denies it: {message}", code=code, hint=permissions.ADMIT)


def _hint(message: str) -> str:
    if "discard-local-ssd" in message:
        return 'set cloud.local_data = "discard" if the data of the local SSDs may be lost'
    if "protected against deletion" in message:
        return "to end it anyway, remove the protection: `gcloud compute instances update --no-deletion-protection`"
    return hints.DOCTOR


def _reason(error: api.GoogleAPICallError) -> str:
    """The API's own word: old answers have it in ``errors``, new ones in an ``ErrorInfo``; the one that says more."""
    found = [str(one["reason"]) for one in error.errors or () if isinstance(one, dict) and one.get("reason")]
    found += [str(error.reason)] if error.reason else []
    found += [] if found else _status(error)
    known = _THROTTLING | _PASSING | _SCOPES | _DISABLED
    return next((word for word in found if word in known), found[0] if found else "")


def _status(error: api.GoogleAPICallError) -> list[str]:
    """The word for the status that the newest answers have beside it, where they give no reason."""
    try:
        word = error.response.json()["error"].get("status")
    except (ValueError, KeyError, AttributeError):
        return []
    return [word] if isinstance(word, str) and word else []


def _header(error: api.GoogleAPICallError, name: str) -> str:
    headers = getattr(error.response, "headers", None)
    return str(headers.get(name) or "") if headers is not None else ""


def _network(error: requests.exceptions.RequestException, doing: str) -> CloudError:
    message = short(error)
    if isinstance(error, requests.exceptions.SSLError):
        if "not yet valid" in message or "has expired" in message:
            text = f"this machine's clock is wrong, or Google Cloud's certificate is: {message}"
            return CloudError("clock", text, code="clock_skew", hint=hints.CLOCK)
        hint = "look for a proxy that intercepts TLS; REQUESTS_CA_BUNDLE names its certificate authority"
        return CloudError("unreachable", f"no secure connection to Google Cloud: {message}", code="tls", hint=hint)
    sent = not isinstance(error, requests.exceptions.ConnectTimeout | requests.exceptions.ProxyError)
    sent = sent and "NewConnectionError" not in message and "NameResolutionError" not in message
    return errors.no_answer(doing, message) if sent else errors.unreachable("Google Cloud", doing, message)
