"""What comes off the wire, before the SDK makes anything of it: not endless, and a refusal only from AWS.

The SDK reads a whole answer into memory, however long it is, and makes a number of a page that it cannot read.
"""

from typing import Any

import urllib3.exceptions
from botocore.exceptions import HTTPClientError

from costguard.cloud.http import Limited
from costguard_aws.errors import ForeignError

_OWN_WORDS = (b"<Code>", b"<RequestID>", b"<RequestId>")


def limit(client: Any) -> None:
    """Read the answers to this client through `_Read`."""
    endpoint: Any = getattr(client, "_endpoint", None)  # the SDK names no other way; one without it works, unlimited
    if hasattr(endpoint, "http_session"):
        endpoint.http_session = _Read(endpoint.http_session)


class _Read:
    """The SDK's connections. ``send`` raises ForeignError, TooLongError, and what the SDK raises itself."""

    def __init__(self, connections: Any) -> None:
        self._connections = connections

    def send(self, request: Any) -> Any:
        """One request; its answer is complete."""
        request.stream_output = True  # the SDK leaves the body on the wire then
        answer = self._connections.send(request)
        answer.raw = Limited(answer.raw)
        try:
            body = answer.content
        except urllib3.exceptions.HTTPError as error:
            raise HTTPClientError(error=error) from error
        own_id = answer.headers.get("x-amzn-requestid")
        if 400 <= answer.status_code < 500 and not own_id and not any(word in body for word in _OWN_WORDS):
            raise ForeignError(answer.status_code)
        return answer

    def close(self) -> None:
        """Close them."""
        self._connections.close()
