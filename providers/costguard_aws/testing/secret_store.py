"""AWS Secrets Manager as the SDK asks it: JSON 1.1, signed for one region with the credentials of the instance's role.

Sources: Secrets Manager API reference "GetSecretValue" and "Common errors"; Signature Version 4 (the scope of a credential).
"""

import json
import re
import uuid
from collections.abc import Mapping
from typing import NamedTuple

from costguard.testing.web import Answer

TARGET = "secretsmanager.GetSecretValue"
_SCOPE = re.compile(r"AWS4-HMAC-SHA256 Credential=ASIAFAKE/\d{8}/([a-z0-9-]+)/secretsmanager/aws4_request, ")
_REFUSALS = {
    "throttle": (400, "ThrottlingException", "Rate exceeded"),
    "expired": (400, "ExpiredTokenException", "The security token included in the request is expired"),
}


class Kept(NamedTuple):
    """A secret: its region, its text, and what the services say instead of it (a code and a message)."""

    region: str
    text: str
    refusal: tuple[str, str] = ("", "")
    binary: bool = False


def answer(kept: Mapping[str, Kept], headers: Mapping[str, str], body: bytes, fault: str) -> Answer:
    """What becomes of one request; ``kept`` by name and by ARN. An internal error quotes the secret, as no service should."""
    scope = _SCOPE.match(headers.get("authorization", ""))
    asked = json.loads(body)
    found = kept.get(str(asked.get("SecretId")))
    if headers.get("content-type") != "application/x-amz-json-1.1" or set(asked) != {"SecretId"}:
        return _said(400, "SerializationException", "malformed")
    if scope is None or headers.get("x-amz-security-token") != "fake-token":
        return _said(400, "UnrecognizedClientException", "The security token included in the request is invalid.")
    if fault in _REFUSALS:
        return _said(*_REFUSALS[fault])
    if fault.startswith("internal"):
        return _said(500, "InternalServiceError", f"while handling {found.text if found else ''}")
    if found is None or found.region != scope[1]:
        return _said(400, "ResourceNotFoundException", "Secrets Manager can't find the specified secret.")
    if found.refusal[0]:
        return _said(400, *found.refusal)
    value = {"SecretBinary": "AAEC"} if found.binary else {"SecretString": found.text}
    return _written(
        200, {"Name": asked["SecretId"], "VersionId": str(uuid.uuid4()), "VersionStages": ["AWSCURRENT"]} | value
    )


def _said(status: int, code: str, message: str) -> Answer:
    return _written(status, {"__type": code, "Message": message})


def _written(status: int, document: Mapping[str, object]) -> Answer:
    kind = "application/x-amz-json-1.1"
    return Answer(
        status, json.dumps(document).encode(), headers={"Content-Type": kind, "x-amzn-RequestId": str(uuid.uuid4())}
    )
