"""Where a token may be sent: to an encrypted address, or to this very machine."""

import pytest

from costguard.cloud.api import CloudError
from costguard.cloud.http import for_tokens


@pytest.mark.parametrize(
    ("given", "used"),
    [
        (None, ""),
        ("", ""),
        ("https://cloud.example", "https://cloud.example"),
        ("https://cloud.example/v1/", "https://cloud.example/v1"),
        ("http://127.0.0.1:8080/", "http://127.0.0.1:8080"),
        ("http://localhost:8080", "http://localhost:8080"),
        ("http://[::1]:8080", "http://[::1]:8080"),
    ],
)
def test_an_address_is_used_as_it_is_given(given: object, used: str) -> None:
    """Without its last slash; none means the cloud's own."""
    assert for_tokens(given, "cloud.api_endpoint") == used


@pytest.mark.parametrize("given", ["http://cloud.example", "HTTP://10.0.0.7:8080/", "http://localhost.example"])
def test_no_token_is_sent_unencrypted_beyond_this_machine(given: str) -> None:
    """The address is refused, and the hint names the option."""
    with pytest.raises(CloudError, match="is not encrypted") as caught:
        for_tokens(given, "cloud.api_endpoint")
    assert (caught.value.trouble, caught.value.code) == ("refused", "endpoint")
    assert "cloud.api_endpoint" in caught.value.hint
