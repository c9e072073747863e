"""Secrets in the words of foreign programs."""

import pytest

from costguard.masking import mask


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("see https://user:pw@host/path", "see https://***@host/path"),
        ("Authorization: Bearer abc.def", "Authorization: ***"),
        ("API_KEY=123 next", "API_KEY=*** next"),
        ("db-password: hunter2", "db-password: ***"),
        ("the token was refused", "the token was refused"),
        ("exit code 0 at https://host/a@b", "exit code 0 at https://host/a@b"),
    ],
)
def test_what_looks_like_a_secret_is_hidden(said: str, shown: str) -> None:
    """And nothing else is."""
    assert mask(said) == shown
