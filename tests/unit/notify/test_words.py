"""Small pieces of sentences."""

import time

import pytest

from costguard.engine.words import clock, hour
from costguard.notify.message import DeliveryError
from costguard.notify.words import listed, sentence


def test_long_lists_are_counted() -> None:
    """Nobody reads 16 names."""
    assert listed([]) == ""
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed([str(number) for number in range(10)]) == "0, 1, 2, 3, 4, 5, 6, 7 and 2 more"


def test_sentences_begin_and_end_like_sentences() -> None:
    """Nothing stays nothing."""
    assert [sentence(""), sentence("a b"), sentence("Why?")] == ["", "A b.", "Why?"]


def test_a_failed_delivery_says_what_to_do() -> None:
    """The hint follows in brackets, once; without one nothing does."""
    assert str(DeliveryError("no such address", "create one")) == "no such address (create one)"
    assert str(DeliveryError("no such address")) == "no such address"


@pytest.mark.parametrize("wall", [1_700_000_399.999_99, 1_700_000_400.0, 1_700_000_400.000_01])
def test_a_moment_is_of_its_own_minute(monkeypatch: pytest.MonkeyPatch, wall: float) -> None:
    """Sums of clocks are off by less than a millisecond: 02:20 is not shown as 02:19."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    try:
        assert (clock(wall), hour(wall)) == ("22:20 UTC", "22:20")
    finally:
        monkeypatch.undo()
        time.tzset()
