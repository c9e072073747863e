"""Secrets do not reach the screen."""

import pytest

from costguard.masking import mask, mask_all


@pytest.mark.parametrize(
    "text",
    [
        "https://user:S3CRET@example.org/x",
        "https://example.org/?token=S3CRET&x=1",
        "Authorization: Bearer S3CRET",
        "password: S3CRET",
        "slack://S3CRET@host",
    ],
)
def test_secrets_are_masked(text: str) -> None:
    """What looks like a secret is not shown; the rest of the text is."""
    assert "S3CRET" not in mask(text)
    assert "***" in mask(text)
    assert mask("https://example.org/path?x=1") == "https://example.org/path?x=1"


def test_secret_after_a_flag_is_masked() -> None:
    """`--token X` hides X, in a list of arguments too."""
    assert mask_all(("curl", "--api-token", "S3CRET", "-v")) == ["curl", "--api-token", "***", "-v"]


@pytest.mark.parametrize("text", ["--signal SIGTERM", "no token bucket", "https://example.org/a@b", "key = grace=5m"])
def test_other_text_stays(text: str) -> None:
    """What is no secret is not hidden: errors must stay readable."""
    assert mask(text) == text
