"""A clock that is wrong, as people say it."""

import pytest

from costguard.cloud.skew import skew


@pytest.mark.parametrize(
    ("ahead", "words"),
    [
        (45.0, "45 s behind"),
        (-89.0, "89 s ahead"),
        (310.0, "5.2 min behind"),
        (-7199.2, "2 h ahead"),
        (400.5 * 86400.0, "400.5 days behind"),
        (0.0, "0 s ahead"),
    ],
)
def test_a_difference_has_a_unit_and_a_side(ahead: float, words: str) -> None:
    """Thousands of seconds say nothing to anybody."""
    assert skew(ahead) == f"this machine's clock is {words}"
