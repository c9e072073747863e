"""The one place where errors of the SDK become CloudError.

Sources: EC2 API reference "Error codes"; Auto Scaling API reference "Common errors"; ``botocore.exceptions``.
"""

import re
from typing import Any, NamedTuple

from botocore import exceptions
from botocore.parsers import ResponseParserError

from costguard.cloud import errors, hints
from costguard.cloud.api import CloudError, Sent, Trouble
from costguard.cloud.http import TooLongError
from costguard.cloud.skew import ahead_of_us, skew


class ForeignError(Exception):
    """A refusal that AWS did not give: a page of a proxy or gateway."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


class _Kind(NamedTuple):
    trouble: Trouble
    message: str
    hint: str


CREDENTIALS_HINT = (
    "on the instance: attach an instance profile with the policy of `costguard permissions aws`, then run "
    "`costguard doctor`; elsewhere: `aws configure` or `aws sso login`"
)
_WHO_AM_I = "`aws sts get-caller-identity`"
_THROTTLED = _Kind("throttled", "AWS throttles this account", hints.AGAIN)
_DENIED = _Kind("denied", "AWS denies it", "see `costguard permissions aws`")
_EXPIRED = _Kind(
    "credentials", "the credentials have expired", f"check the instance role ({_WHO_AM_I}), {hints.THEN_DOCTOR}"
)
_INVALID = _Kind(
    "credentials",
    "AWS rejects the credentials",
    f"check the instance role ({_WHO_AM_I}) and the clock, {hints.THEN_DOCTOR}",
)
_CLOCK = _Kind(
    "clock",
    "AWS says that the request has expired: this machine's clock is wrong, or the credentials are old",
    f"check `timedatectl` and {_WHO_AM_I}, {hints.THEN_DOCTOR}",
)
_GONE = _Kind(
    "gone",
    "AWS knows no such instance in this region under these credentials",
    f"check that the credentials belong to this machine's account: {_WHO_AM_I}",
)
_REFUSED = _Kind("refused", "AWS refuses it", "run `costguard doctor`: it shows the plan of every action")
_INTERNAL = _Kind("internal", "AWS has an internal error", hints.AGAIN)

_KINDS = {
    _THROTTLED: (
        *("RequestLimitExceeded", "Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled"),
        *("TooManyRequestsException", "RequestThrottledException", "EC2ThrottledException", "SlowDown"),
        *("ScalingActivityInProgress", "ResourceContention", "PriorRequestNotComplete"),
    ),
    _DENIED: (
        *("UnauthorizedOperation", "AccessDenied", "AccessDeniedException", "UnauthorizedAccess"),
        *("OptInRequired", "Blocked", "PendingVerification", "NotAuthorized"),
    ),
    _EXPIRED: ("ExpiredToken", "ExpiredTokenException"),
    _INVALID: (
        *("AuthFailure", "InvalidClientTokenId", "UnrecognizedClientException", "InvalidAccessKeyId"),
        *("SignatureDoesNotMatch", "IncompleteSignature", "MissingAuthenticationToken", "InvalidToken"),
    ),
    _CLOCK: ("RequestExpired", "RequestTimeTooSkewed", "RequestInTheFuture"),
    _GONE: ("InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed", "InvalidInstanceID"),
    _INTERNAL: ("InternalError", "InternalFailure", "InternalServerError", "ServiceUnavailable", "Unavailable"),
}
_DOUBTS: dict[_Kind, Sent] = {_INTERNAL: "perhaps", _REFUSED: "hardly", _GONE: "hardly"}  # refused: it may end already
_BY_CODE = {code: kind for kind, codes in _KINDS.items() for code in codes}
_MIN_SIZE = "lower the group's minimum: `aws autoscaling update-auto-scaling-group … --min-size …`"
_UNPROTECT = "to end it anyway, remove the protection: `aws ec2 modify-instance-attribute … --no-disable-api-{}`"
_MAY_TERMINATE = 'set kill_action = "terminate" if its disks may be deleted'
_HINTS = (  # what to do about a refusal, by a part of its message
    ("one-time Spot", _MAY_TERMINATE),
    ("spot instance", _MAY_TERMINATE),
    ("disableApiStop", _UNPROTECT.format("stop")),
    ("disableApiTermination", _UNPROTECT.format("termination")),
    ("min size", _MIN_SIZE),
    ("min-size", _MIN_SIZE),
    ("minSize", _MIN_SIZE),
    ("ibernat", 'set kill_action = "stop"'),
)
_WHO_ANSWERS = hints.proxy("amazonaws.com", "cloud.api_endpoint and AWS_ENDPOINT_URL")
_SECRET = re.compile(r"\s*Encoded authorization failure message:.*", re.DOTALL)
_SKEW_SECONDS = 60.0  # seconds of difference that nobody refuses
_LONGEST = 400  # characters of the cloud's own message

_NOT_SENT = (
    exceptions.EndpointConnectionError,
    exceptions.ConnectTimeoutError,
    exceptions.ProxyConnectionError,
    exceptions.SSLError,
)
_CREDENTIALS = (
    exceptions.NoCredentialsError,
    exceptions.PartialCredentialsError,
    exceptions.CredentialRetrievalError,
    exceptions.MetadataRetrievalError,
    exceptions.TokenRetrievalError,
    exceptions.SSOError,
    exceptions.ConfigNotFound,
    exceptions.ProfileNotFound,
)


def translate(error: BaseException, doing: str) -> CloudError:
    """What an error means; ``doing`` is the name of the call, or what was tried."""
    if isinstance(error, CloudError):
        return error
    if isinstance(error, exceptions.ClientError):
        return _answered(error.response, doing)
    if isinstance(error, _CREDENTIALS):
        message = f"{doing}: no usable AWS credentials ({error})"
        return CloudError("credentials", message, code="credentials_missing", hint=CREDENTIALS_HINT)
    if isinstance(error, ForeignError):
        return _foreign(doing, error.status)
    if isinstance(error, _NOT_SENT):
        return errors.unreachable("AWS", doing, f"{type(error).__name__}: {error}")
    if isinstance(error, TooLongError):
        return senseless(doing, str(error))
    if isinstance(error, ResponseParserError):
        return senseless(doing)
    if isinstance(error, exceptions.HTTPClientError | TimeoutError):
        return errors.no_answer(doing, error if isinstance(error, TimeoutError) else type(error).__name__)
    # What is not the SDK's own error may have come while it read the answer.
    return errors.sdk_failed("AWS", doing, error, "no" if isinstance(error, exceptions.BotoCoreError) else "perhaps")


def senseless(doing: str, why: str = "") -> CloudError:
    """An answer that is none of AWS: something stands in its place, or it was cut short."""
    return errors.malformed("AWS", doing, why, trouble="unreachable", code="no_answer", hint=_WHO_ANSWERS)


def _foreign(doing: str, status: int) -> CloudError:
    """A refusal that is not AWS's. Most likely nothing was accepted, but only a look can say so."""
    return errors.foreign("AWS", doing, status, _WHO_ANSWERS, sent="perhaps")


def _answered(response: Any, doing: str) -> CloudError:
    """An answer of AWS that says no."""
    code = str(response.get("Error", {}).get("Code", ""))
    message = _SECRET.sub("", str(response.get("Error", {}).get("Message", "")))[:_LONGEST]
    status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    if 300 <= status < 400:  # the API of EC2 sends nobody elsewhere
        return senseless(doing)
    kind = _BY_CODE.get(code) or (_INTERNAL if status >= 500 else _REFUSED)
    if code == "SignatureDoesNotMatch" and ("expired" in message or "not yet current" in message):
        kind = _CLOCK
    hint = f"grant {doing}: {kind.hint}" if kind is _DENIED else kind.hint
    ours = bool(response.get("ResponseMetadata", {}).get("RequestId"))
    # what the SDK makes of an answer without an error
    if kind is _REFUSED and not ours and (not code or code.isdigit()):
        return _foreign(doing, status)
    if kind is _REFUSED:
        hint = next((what for sign, what in _HINTS if sign in f"{code} {message}"), hint)
    # The code stands in brackets: text after "…Token:" would be taken for a secret and hidden.
    ahead = ahead_of_us(response.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date"))
    says = f"{kind.message}; {skew(ahead)}" if kind is _CLOCK and abs(ahead) > _SKEW_SECONDS else kind.message
    text = f"{doing}: {says} ({code or status})" + (f": {message}" if message else "")
    code = "credentials_expired" if kind is _EXPIRED else code
    return CloudError(kind.trouble, text, code=code, hint=hint, sent=_DOUBTS.get(kind, "no"))
