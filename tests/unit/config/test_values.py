"""Durations, shares, dates and commands as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costguard.config import values


@pytest.mark.parametrize(
    ("written", "seconds"),
    [(30, 30), (1.5, 1.5), ("30", 30), ("30s", 30), ("10m", 600), ("2h", 7200), ("1d", 86400), ("1.5 h", 5400), (0, 0)],
)
def test_durations(written: object, seconds: float) -> None:
    """A number is seconds; s, m, h and d are understood."""
    assert values.seconds(written) == seconds


@pytest.mark.parametrize(
    "written", ["", "abc", "10 parsecs", "-5", -5, True, None, "1h30", [], float("nan"), float("inf")]
)
def test_nonsense_durations(written: object) -> None:
    """What is no duration is refused in words, never read as something near."""
    with pytest.raises(ValueError, match="is not a duration"):
        values.seconds(written)


def test_off_is_no_duration() -> None:
    """`off` turns an optional duration off; zero stays zero."""
    assert values.seconds_or_off("off") is None
    assert values.seconds_or_off(" OFF ") is None
    assert values.seconds_or_off(0) == 0


@pytest.mark.parametrize(
    ("written", "share"),
    [
        (0.7, 0.7),
        ("70%", 0.7),
        ("70 %", 0.7),
        ("0.7", 0.7),
        (0, 0),
        ("0.5%", 0.005),
        ("100%", 1),
        (1.0, 1),
        ("29%", 0.29),
    ],
)
def test_shares(written: object, share: float) -> None:
    """Fractions and per cent both work."""
    assert values.share(written) == share


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (80, "80 is not a share; write 80% or 0.8"),
        ("80", "80.0|80 is not a share; write 80% or 0.8"),
        (1.5, "write 1.5% or 0.015"),
        (1, "write 1% or 100%"),
        ("1", "write 1% or 100%"),
        ("101%", "is not a share"),
        (-0.1, "is not a share"),
        (True, "is not a share"),
        (float("nan"), "is not a share"),
        ("half", "is not a share"),
    ],
)
def test_ambiguous_shares(written: object, words: str) -> None:
    """A bare 80 or 1 may mean two things, so it is refused with both spellings."""
    with pytest.raises(ValueError, match=words):
        values.share(written)


@given(st.integers(1, 10**7))
def test_shown_durations_read_back(seconds: int) -> None:
    """What is shown can be written into the file again."""
    assert values.seconds(values.show_seconds(seconds)) == seconds


@given(st.integers(0, 10000))
def test_shown_shares_read_back(number: int) -> None:
    """As for durations."""
    assert values.share(values.show_share(number / 10000)) == pytest.approx(number / 10000, abs=1e-12)


def test_dates_need_an_offset() -> None:
    """A date without an offset is another moment on every machine, so it is refused."""
    assert values.date("2027-01-31T18:00:00+01:00") == values.date("2027-01-31T17:00:00Z") == 1801414800.0
    with pytest.raises(ValueError, match="no offset"):
        values.date("2027-01-31T18:00:00")
    with pytest.raises(ValueError, match="is not a date"):
        values.date("tomorrow")


def test_command_is_split_without_a_shell() -> None:
    """Quotes group; nothing is expanded."""
    assert values.command("echo 'a b' $HOME") == ("echo", "a b", "$HOME")
    with pytest.raises(ValueError, match="cannot be split"):
        values.command("echo 'a")
