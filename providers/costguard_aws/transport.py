"""What comes off the wire, before the SDK makes anything of it: not endless, and a refusal only from AWS.

The SDK reads a whole answer into memory, however long it is, and makes a number of a page that it cannot read.
"""

from typing import Any

import urllib3.exceptions
from botocore.exceptions import HTTPClientError

from costguard_aws.errors import ForeignError

LONGEST = 8 * 2**20
"""Bytes of an answer. The longest real one, of an instance and its type, has some ten kilobytes."""

_PIECE = 65_536
_OWN_WORDS = (b"<Code>", b"<RequestID>", b"<RequestId>")


def limit(client: Any) -> None:  # noqa: ANN401 - the SDK has no types
    """Read the answers to this client through `_Limited`."""
    endpoint: Any = getattr(client, "_endpoint", None)  # the SDK names no other way; an SDK without it works, unlimited
    if hasattr(endpoint, "http_session"):
        endpoint.http_session = _Limited(endpoint.http_session)


class _Limited:
    """The SDK's connections. ``send`` raises ForeignError, and what the SDK raises itself."""

    def __init__(self, connections: Any) -> None:  # noqa: ANN401 - as above
        self._connections = connections

    def send(self, request: Any) -> Any:  # noqa: ANN401 - as above
        """One request; its answer is complete."""
        request.stream_output = True  # leave the body on the wire
        answer = self._connections.send(request)
        answer._content = self._read(answer)  # noqa: SLF001 - where the SDK looks for what was read
        own_id = answer.headers.get("x-amzn-requestid")
        if 400 <= answer.status_code < 500 and not own_id and not any(word in answer.content for word in _OWN_WORDS):
            raise ForeignError(answer.status_code)
        return answer

    def _read(self, answer: Any) -> bytes:  # noqa: ANN401 - as above
        body = bytearray()
        try:
            for piece in answer.raw.stream(_PIECE):
                body += piece
                if len(body) > LONGEST:
                    answer.raw.close()
                    raise ForeignError(0)
        except urllib3.exceptions.HTTPError as error:
            raise HTTPClientError(error=error) from error
        return bytes(body)

    def close(self) -> None:
        """Close them."""
        self._connections.close()
