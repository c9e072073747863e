"""The one place where errors of the SDK become CloudError.

Sources: EC2 API reference "Error codes"; Auto Scaling API reference "Common errors"; ``botocore.exceptions``.
"""

import re
import time
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from botocore import exceptions
from botocore.parsers import ResponseParserError

from costguard.cloud import hints
from costguard.cloud.api import CloudError, Sent, Trouble
from costguard.cloud.http import TooLongError
from costguard.cloud.skew import skew


class ForeignError(Exception):
    """A refusal that AWS did not give: a page of something in between."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


class _Kind(NamedTuple):
    trouble: Trouble
    words: str
    hint: str


CREDENTIALS_HINT = (
    "on the instance: attach an instance profile with the policy of `costguard permissions aws`, then run "
    "`costguard doctor`; on any other machine: `aws configure`, or `aws sso login`"
)
_THROTTLED = _Kind("throttled", "AWS throttles this account", hints.AGAIN)
_DENIED = _Kind("denied", "AWS denies the right", "see `costguard permissions aws`")
_EXPIRED = _Kind(
    "credentials",
    "the credentials have expired",
    "check the instance role (`aws sts get-caller-identity`), then run `costguard doctor`",
)
_INVALID = _Kind(
    "credentials",
    "AWS does not accept the credentials",
    "check the instance role and the clock (`aws sts get-caller-identity`), then run `costguard doctor`",
)
_CLOCK = _Kind(
    "clock",
    "AWS finds the request expired: the clock of this machine is wrong, or the credentials are old",
    "check `timedatectl` and `aws sts get-caller-identity`, then run `costguard doctor`",
)
_GONE = _Kind(
    "gone",
    "AWS does not know the instance under these credentials in this region",
    "check that the credentials belong to the account of this machine: `aws sts get-caller-identity`",
)
_REFUSED = _Kind("refused", "AWS refuses", "run `costguard doctor` to see the plan of every action")
_INTERNAL = _Kind("internal", "AWS is in trouble", hints.AGAIN)

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
_HINTS = (  # what to do about a refusal whose words say what it is about
    ("one-time Spot", 'set kill_action = "terminate" if its disks may be deleted'),
    ("spot instance", 'set kill_action = "terminate" if its disks may be deleted'),
    ("disableApiStop", "a person removes the protection: `aws ec2 modify-instance-attribute … --no-disable-api-stop`"),
    (
        "disableApiTermination",
        "a person removes the protection: `aws ec2 modify-instance-attribute … --no-disable-api-termination`",
    ),
    ("min size", "lower the group's minimum: `aws autoscaling update-auto-scaling-group … --min-size …`"),
    ("min-size", "lower the group's minimum: `aws autoscaling update-auto-scaling-group … --min-size …`"),
    ("minSize", "lower the group's minimum: `aws autoscaling update-auto-scaling-group … --min-size …`"),
    ("ibernat", 'set kill_action = "stop"'),
)
_WHO_ANSWERS = hints.proxy("amazonaws.com", "cloud.api_endpoint and AWS_ENDPOINT_URL")
_SECRET = re.compile(r"\s*Encoded authorization failure message:.*", re.DOTALL)
_SKEW = 60.0  # seconds of difference that nobody refuses
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
    """What an error means; ``doing`` is the name of the call, or words for what was tried."""
    if isinstance(error, CloudError):
        return error
    if isinstance(error, exceptions.ClientError):
        return _answered(error.response, doing)
    if isinstance(error, _CREDENTIALS):
        words = f"{doing}: no usable AWS credentials ({error})"
        return CloudError("credentials", words, code="credentials_missing", hint=CREDENTIALS_HINT)
    if isinstance(error, ForeignError):
        return _foreign(doing, error.status)
    if isinstance(error, _NOT_SENT):
        words = f"{doing}: AWS cannot be reached ({type(error).__name__}: {error})"
        hint = (
            "check the route, DNS, proxy (NO_PROXY) and endpoint to EC2 from this machine, then run `costguard doctor`"
        )
        return CloudError("unreachable", words, code="unreachable", hint=hint)
    if isinstance(error, TooLongError):
        return senseless(doing, str(error))
    if isinstance(error, ResponseParserError):
        return senseless(doing)
    if isinstance(error, exceptions.HTTPClientError | TimeoutError):
        why = str(error) if isinstance(error, TimeoutError) else type(error).__name__
        words = f"{doing}: the request was sent and no answer came ({why})"
        return CloudError("unreachable", words, code="no_answer", hint="run `costguard doctor`", sent="silent")
    words = f"{doing}: the AWS SDK failed ({type(error).__name__}: {error})"
    # What is not the SDK's own word may have come while it read the answer.
    sent: Sent = "no" if isinstance(error, exceptions.BotoCoreError) else "perhaps"
    hint = "run `costguard doctor`, and report it with its output"
    return CloudError("internal", words, code="sdk", hint=hint, sent=sent)


def senseless(doing: str, why: str = "") -> CloudError:
    """An answer that is none of AWS: something stands in its place, or it was cut short."""
    words = f"{doing}: the request was sent, and what answered is not AWS or broke off" + (f" ({why})" if why else "")
    return CloudError("unreachable", words, code="no_answer", hint=_WHO_ANSWERS, sent="silent")


def _foreign(doing: str, status: int) -> CloudError:
    """A refusal that AWS did not speak is no veto. Most likely nothing was heard, but only a look can say so."""
    words = f"{doing}: refused, but not in the words of AWS (status {status}): a proxy, or another service answers"
    return CloudError("unreachable", words, code="foreign_answer", hint=_WHO_ANSWERS, sent="perhaps")


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
    if kind is _REFUSED and not ours and (not code or code.isdigit()):  # the SDK's word for an answer without an error
        return _foreign(doing, status)
    if kind is _REFUSED:
        hint = next((what for sign, what in _HINTS if sign in f"{code} {message}"), hint)
    # The code stands in brackets: text after "…Token:" would be taken for a secret and hidden.
    says = f"{kind.words}{_apart(response)}" if kind is _CLOCK else kind.words
    words = f"{doing}: {says} ({code or status})" + (f": {message}" if message else "")
    code = "credentials_expired" if kind is _EXPIRED else code
    return CloudError(kind.trouble, words, code=code, hint=hint, sent=_DOUBTS.get(kind, "no"))


def _apart(response: Any) -> str:
    """How far the two clocks are apart by the answer's date; empty where that is not the reason, or nobody says."""
    said = response.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date", "")
    try:
        ahead = parsedate_to_datetime(said).timestamp() - time.time()
    except (TypeError, ValueError):
        return ""
    return f"; {skew(ahead)}" if abs(ahead) > _SKEW else ""
