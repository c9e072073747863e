"""Every code of AWS becomes one kind of trouble, with words and a next step."""

import time
from email.utils import formatdate

import pytest
from botocore import exceptions
from botocore.parsers import ResponseParserError

from costguard.cloud.api import CloudError
from costguard.cloud.http import TooLongError
from costguard.masking import mask
from costguard_aws.errors import ForeignError, translate

PROTECTED = "The instance 'i-1' may not be stopped. Modify its 'disableApiStop' instance attribute and try again."
SPOT = "You can't stop the Spot Instance 'i-1' because it is associated with a one-time Spot Instance request."
OLD_SPOT = "The instance 'i-1' is a spot instance and may not be stopped."
MINIMUM = "Currently, desiredSize equals minSize (1). Terminating instance without replacement will violate group's"


def said(code: str, message: str = "words", status: int = 400) -> CloudError:
    response = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return translate(exceptions.ClientError(response, "StopInstances"), "ec2:StopInstances")


@pytest.mark.parametrize(
    ("code", "status", "trouble"),
    [
        ("UnauthorizedOperation", 403, "denied"),
        ("AccessDenied", 403, "denied"),
        ("RequestLimitExceeded", 503, "throttled"),
        ("Throttling", 400, "throttled"),
        ("ScalingActivityInProgress", 400, "throttled"),
        ("ResourceContention", 500, "throttled"),
        ("AuthFailure", 401, "credentials"),
        ("InvalidClientTokenId", 403, "credentials"),
        ("SignatureDoesNotMatch", 403, "credentials"),
        ("RequestExpired", 400, "clock"),
        ("OperationNotPermitted", 400, "refused"),
        ("UnsupportedOperation", 400, "refused"),
        ("UnsupportedHibernationConfiguration", 400, "refused"),
        ("IncorrectInstanceState", 400, "refused"),
        ("ValidationError", 400, "refused"),
        ("SomethingNew", 400, "refused"),
        ("InvalidInstanceID.NotFound", 400, "gone"),
        ("InternalError", 500, "internal"),
        ("Unavailable", 503, "internal"),
        ("SomethingNew", 502, "internal"),
    ],
)
def test_codes(code: str, status: int, trouble: str) -> None:
    """A code that nobody knows is a veto when AWS calls it our fault, technical when it calls it its own."""
    error = said(code, status=status)
    assert (error.trouble, error.code) == (trouble, code)
    assert code in str(error)
    assert error.hint


def test_a_redirect_is_no_veto() -> None:
    """A portal or a proxy sends elsewhere, EC2 does not: technical, and nobody knows who heard the request."""
    error = said("302", status=302)
    assert isinstance(error, CloudError)
    assert error.technical
    assert error.in_doubt
    assert "proxy" in error.hint


@pytest.mark.parametrize("code", ["ExpiredToken", "ExpiredTokenException"])
def test_expired_credentials_have_their_own_code(code: str) -> None:
    """The finding is then `credentials_expired`, not that they are missing."""
    error = said(code)
    assert (error.trouble, error.code) == ("credentials", "credentials_expired")
    assert code in str(error)


@pytest.mark.parametrize("code", ["ExpiredToken", "InvalidToken", "InvalidClientTokenId"])
def test_no_word_of_aws_is_taken_for_a_secret(code: str) -> None:
    """People must read the whole sentence: what follows a name such as *Token* and a colon would be hidden."""
    assert mask(str(said(code, "The security token is not valid"))).endswith(": The security token is not valid")


def test_a_signature_that_is_too_old_is_the_clock() -> None:
    """The same code, told apart by its words."""
    assert said("SignatureDoesNotMatch", "Signature expired: 2026 is now earlier than 2027").trouble == "clock"


@pytest.mark.parametrize(("hours", "words"), [(3.0, "clock is 3 h behind"), (-3.0, "clock is 3 h ahead"), (0.0, "")])
def test_a_wrong_clock_is_told_in_words(hours: float, words: str) -> None:
    """By the date of the answer; one that agrees leaves the credentials."""
    metadata = {"HTTPStatusCode": 400, "HTTPHeaders": {"date": formatdate(time.time() + hours * 3600.0, usegmt=True)}}
    response = {"Error": {"Code": "RequestExpired"}, "ResponseMetadata": metadata}
    error = translate(exceptions.ClientError(response, "X"), "ec2:X")
    assert error.trouble == "clock"
    assert words in str(error)
    assert ("this machine's clock is " in str(error).partition("; ")[2]) is bool(words)


@pytest.mark.parametrize(
    ("code", "message", "hint"),
    [
        ("OperationNotPermitted", PROTECTED, "--no-disable-api-stop"),
        ("OperationNotPermitted", PROTECTED.replace("Stop'", "Termination'"), "--no-disable-api-termination"),
        ("UnsupportedOperation", SPOT, 'kill_action = "terminate"'),
        ("UnsupportedOperation", OLD_SPOT, 'kill_action = "terminate"'),
        ("UnsupportedHibernationConfiguration", "words", 'kill_action = "stop"'),
        ("ValidationError", MINIMUM, "--min-size"),
    ],
)
def test_a_refusal_names_the_next_action(code: str, message: str, hint: str) -> None:
    """From the words of AWS; costguard does not take it by itself."""
    assert hint in said(code, message).hint


def test_a_refusal_that_is_not_of_aws() -> None:
    """The SDK makes a number of a page that it cannot read: a proxy refuses, and nobody should look at policies."""
    error = said("403", "Forbidden", 403)
    assert isinstance(error, CloudError)
    assert (error.trouble, error.in_doubt, "another service answers" in str(error)) == ("unreachable", True, True)
    assert "api_endpoint" in error.hint
    assert "NO_PROXY" in error.hint


def test_a_request_id_of_aws_makes_it_a_veto() -> None:
    """Without a code, but AWS has looked at it."""
    metadata = {"HTTPStatusCode": 400, "RequestId": "r-1"}
    error = translate(exceptions.ClientError({"Error": {}, "ResponseMetadata": metadata}, "X"), "ec2:X")
    assert error.trouble == "refused"


@pytest.mark.parametrize("code", ["RequestLimitExceeded", "InternalError"])
def test_what_passes_is_true_for_a_person_too(code: str) -> None:
    """Nothing repeats a stop by hand but the hand."""
    assert said(code, status=503).hint.startswith("run it again; a running agent does so by itself")


def test_the_coded_message_stays_out() -> None:
    """It names resources and policies of the account."""
    assert "gXK5" not in str(
        said("UnauthorizedOperation", "Not authorized. Encoded authorization failure message: gXK5")
    )


@pytest.mark.parametrize(
    ("error", "trouble", "unanswered"),
    [
        (exceptions.EndpointConnectionError(endpoint_url="https://x"), "unreachable", False),
        (exceptions.ConnectTimeoutError(endpoint_url="https://x"), "unreachable", False),
        (exceptions.ProxyConnectionError(proxy_url="http://p"), "unreachable", False),
        (exceptions.SSLError(endpoint_url="https://x", error="certificate"), "unreachable", False),
        (exceptions.ReadTimeoutError(endpoint_url="https://x"), "unreachable", True),
        (exceptions.ConnectionClosedError(endpoint_url="https://x"), "unreachable", True),
        (exceptions.HTTPClientError(error="broken"), "unreachable", True),
        (TimeoutError(), "unreachable", True),
        (exceptions.NoCredentialsError(), "credentials", False),
        (ForeignError(407), "unreachable", True),
        (TooLongError(), "unreachable", True),
        (exceptions.CredentialRetrievalError(provider="x", error_msg="no"), "credentials", False),
        (exceptions.ProfileNotFound(profile="x"), "credentials", False),
        (exceptions.ParamValidationError(report="odd"), "internal", False),
        (ResponseParserError("no XML"), "unreachable", True),
        (KeyError("StopInstancesResult"), "internal", True),  # it fell over an answer: that was sent
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_what_the_sdk_raises(error: Exception, trouble: str, unanswered: bool) -> None:
    """What was never sent had no effect; what was sent may have had one."""
    found = translate(error, "ec2:StopInstances")
    assert isinstance(found, CloudError)
    assert (found.trouble, found.in_doubt) == (trouble, unanswered)
    assert found.technical
    assert found.hint


def test_our_own_errors_stay_what_they_are() -> None:
    """The metadata client's words survive the way through the SDK."""
    own = CloudError("unreachable", "the metadata service is switched off", code="imds_off")
    assert translate(own, "ec2:StopInstances") is own


@pytest.mark.parametrize(("code", "status"), [("InternalError", 500), ("ServiceUnavailable", 503)])
def test_an_internal_error_may_have_had_its_effect(code: str, status: int) -> None:
    """Throttling has not: that request was never looked at."""
    found = said(code, status=status)
    assert isinstance(found, CloudError)
    assert found.in_doubt
    throttled = said("RequestLimitExceeded", status=503)
    assert isinstance(throttled, CloudError)
    assert not throttled.in_doubt
