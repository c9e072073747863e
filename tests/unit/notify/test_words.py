"""Small pieces of sentences."""

import pytest

from costguard.notify.words import listed, sentence, share, span


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        *((-5, "0 s"), (45, "45 s"), (119, "119 s"), (120, "2 min"), (600, "10 min"), (3600, "60 min")),
        *((7200, "2 h"), (9000, "2 h 30 min"), (86400, "24 h"), (172800, "2 days"), (190000, "2 days 5 h")),
    ],
)
def test_durations_as_people_say_them(seconds: float, words: str) -> None:
    """Two units at most."""
    assert span(seconds) == words


@pytest.mark.parametrize(("value", "words"), [(0.05, "5 %"), (0.005, "0.5 %"), (1.0, "100 %"), (0.7, "70 %")])
def test_shares_in_percent(value: float, words: str) -> None:
    """Without digits that say nothing."""
    assert share(value) == words


def test_long_lists_are_counted() -> None:
    """Nobody reads 16 names."""
    assert listed([]) == ""
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed([str(number) for number in range(10)]) == "0, 1, 2, 3, 4, 5, 6, 7 and 2 more"


def test_sentences_begin_and_end_like_sentences() -> None:
    """Nothing stays nothing."""
    assert [sentence(""), sentence("a b"), sentence("Why?")] == ["", "A b.", "Why?"]
