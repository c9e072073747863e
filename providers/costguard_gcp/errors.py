"""The only place where what the SDK raises becomes a `CloudError`.

Sources: google.api_core.exceptions; Compute Engine documentation "API error messages" and "API rate limits"
(throttling comes as 403 with a reason, too); google.auth.exceptions; requests.exceptions.
"""

import re
import time
from email.utils import parsedate_to_datetime
from typing import Any

import requests.exceptions
from google.api_core import exceptions as api
from google.auth import exceptions as auth
from google.protobuf.json_format import ParseError

from costguard.cloud import hints
from costguard.cloud.api import CloudError
from costguard.cloud.http import TooLongError, limit
from costguard.cloud.retry import LateError
from costguard.cloud.skew import skew
from costguard_gcp import permissions

NO_ANSWER = "no_answer"
"""The code of a request that may have reached the cloud, although no answer came."""
GARBAGE = "garbage"
"""The code of an answer that is not the API's, although its status says that all went well."""
FOREIGN = "not_google_cloud"
"""The code of a refusal or a redirect that somebody on the way answered with: the cloud itself has not refused."""

_WAY = "look at the machine's route, firewall and proxy (HTTPS_PROXY, NO_PROXY), then run `costguard doctor`"
_BETWEEN = hints.proxy("googleapis.com")
_SKEW = 300.0  # seconds; tokens are refused beyond about this difference
_NOT_FOUND = {"notFound", "RESOURCE_NOT_FOUND"}
_AROUND = re.compile(
    r"projects/[^/']+(/zones/[^/']+)?'"
)  # a project or a zone that is not found says nothing of the machine
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
        words = f"Google Cloud gave no answer to {doing}: {error}"
        return CloudError("unreachable", words, code=NO_ANSWER, hint=_WAY, sent="silent")
    if isinstance(error, api.GoogleAPICallError):
        return _answer(error)
    if isinstance(error, auth.TransportError):
        return CloudError(
            "unreachable", f"Google's sign-in cannot be reached: {short(error)}", code="sign_in", hint=hints.AGAIN
        )
    if isinstance(error, auth.GoogleAuthError):
        hint = "run `gcloud auth application-default login`, or look at the service account, then `costguard doctor`"
        return CloudError("credentials", f"the sign-in failed: {short(error)}", code="credentials_expired", hint=hint)
    if isinstance(error, requests.exceptions.RequestException):
        return _network(error, doing)
    if isinstance(error, ParseError | TooLongError):
        return garbage(short(error))
    text = f"the SDK of Google Cloud failed: {type(error).__name__}: {short(error)}"
    return CloudError("internal", text, code=type(error).__name__, hint="run `costguard doctor`", sent="perhaps")


def operation(failures: Any) -> CloudError | None:
    """The error inside an operation that the API answered with; None when it has none."""
    if not failures:
        return None
    code, words = str(failures[0].code), str(failures[0].message)
    if code in _THROTTLING:
        return CloudError("throttled", f"Google Cloud asks for fewer requests: {words}", code=code, hint=hints.AGAIN)
    if code in _PASSING or code in {"INTERNAL_ERROR", "RESOURCE_NOT_READY"}:
        return CloudError("internal", f"the operation failed: {words}", code=code, hint=hints.AGAIN)
    return CloudError("refused", f"Google Cloud took the request and then refused it: {words}", code=code, hint=_LOOK)


_LOOK = "look at the machine's operations: `gcloud compute operations list --filter=targetLink:INSTANCE`"


def short(error: object) -> str:
    """The words of an exception, cut to what fits a message."""
    return str(error)[:300] or type(error).__name__


def garbage(words: str) -> CloudError:
    """The error of an answer that is not what the API says."""
    text = f"what answers is not Compute Engine: {words}"
    return CloudError("internal", text, code=GARBAGE, hint=hints.WHO_ANSWERS, sent="silent")


def foreign(status: int, words: str) -> CloudError:
    """The error of a refusal or a redirect that Google Cloud did not give: no role helps, and it is no veto of the cloud."""
    text = f"{status} without a reason, which Google Cloud always gives: a proxy, or another service answers: {words}"
    return CloudError("unreachable", text, code=FOREIGN, hint=_BETWEEN, sent="hardly")


def heed(response: Any, **_options: object) -> None:
    """A hook for each answer, before the SDK looks at it. Raises CloudError for what the SDK would follow or fail on.

    A redirect would take a token, and a request with an effect, elsewhere; an error without its object makes the SDK fail.
    """
    limit(response)
    status = int(response.status_code)
    if 300 <= status < 400:
        response.close()
        raise foreign(status, "it is not followed")
    if status >= 400 and not _has_object(response):
        raise foreign(status, short(response.text))


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


def _answer(error: api.GoogleAPICallError) -> CloudError:
    reason, words = _reason(error), short(error.message)
    number = error.code or 0
    code = reason or f"http_{number}"
    if isinstance(error, api.TooManyRequests) or reason in _THROTTLING:
        text = f"Google Cloud asks for fewer requests: {words}"
        return CloudError("throttled", text, code=code, hint=hints.AGAIN, retry_after=_retry_after(error))
    if isinstance(error, api.Unauthorized):
        return _unauthorized(error, code, words)
    if not reason and number < 500 and number != _TIMED_OUT:
        return foreign(number, words)
    if isinstance(error, api.Forbidden):
        return _forbidden(code, reason, words)
    if isinstance(error, api.NotFound):
        return _not_found(code, reason, words)
    if number >= 500 or number == _TIMED_OUT or reason in _PASSING:
        text = f"Google Cloud had trouble of its own: {words}"
        wait = _retry_after(error)
        return CloudError("internal", text, code=code, hint=hints.AGAIN, sent="perhaps", retry_after=wait)
    return CloudError("refused", f"Google Cloud refuses: {words}", code=code, hint=_hint(words))


def _unauthorized(error: api.GoogleAPICallError, code: str, words: str) -> CloudError:
    ahead = _skew(error)
    if abs(ahead) > _SKEW:
        text = f"Google Cloud does not accept the token, and {skew(ahead)}: {words}"
        return CloudError("clock", text, code="clock_skew", hint=hints.CLOCK)
    hint = "look at the machine's service account and its clock, then run `costguard doctor`"
    return CloudError("credentials", f"Google Cloud does not accept the token: {words}", code=code, hint=hint)


def _not_found(code: str, reason: str, words: str) -> CloudError:
    """Only the API's own word about the machine says that it is gone: it counts as proof that its bill ended."""
    hint = "compare `costguard doctor` with `gcloud compute instances list`"
    if reason not in _NOT_FOUND:
        return garbage(f"404 {words}")
    if _AROUND.search(words):
        return CloudError("refused", f"Google Cloud does not know where this machine is: {words}", code=code, hint=hint)
    return CloudError("gone", f"Google Cloud does not know this machine: {words}", code=code, hint=hint)


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


def _retry_after(error: api.GoogleAPICallError) -> float:
    """Seconds that the cloud asks to wait; 0 when it does not say."""
    try:
        return max(0.0, float(_header(error, "Retry-After")))
    except ValueError:
        return 0.0


def _skew(error: api.GoogleAPICallError) -> float:
    """How far (seconds) the cloud's clock is ahead of this machine's; 0 when it does not say."""
    try:
        return parsedate_to_datetime(_header(error, "Date")).timestamp() - time.time()
    except ValueError:
        return 0.0


def _network(error: requests.exceptions.RequestException, doing: str) -> CloudError:
    words = short(error)
    if isinstance(error, requests.exceptions.SSLError):
        if "not yet valid" in words or "has expired" in words:
            text = f"the clock of this machine is wrong, or Google Cloud's certificate is: {words}"
            return CloudError("clock", text, code="clock_skew", hint=hints.CLOCK)
        hint = "look for a proxy that intercepts TLS; REQUESTS_CA_BUNDLE names its certificate authority"
        return CloudError("unreachable", f"no secure connection to Google Cloud: {words}", code="tls", hint=hint)
    sent = not isinstance(error, requests.exceptions.ConnectTimeout | requests.exceptions.ProxyError)
    sent = sent and "NewConnectionError" not in words and "NameResolutionError" not in words
    if not sent:
        text = f"Google Cloud cannot be reached for {doing}: {words}"
        return CloudError("unreachable", text, code="no_connection", hint=_WAY)
    text = f"Google Cloud gave no answer to {doing}: {words}"
    return CloudError("unreachable", text, code=NO_ANSWER, hint=_WAY, sent="silent")
