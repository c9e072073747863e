"""Durations, shares, dates and commands as people write them."""

import re
import time
from collections.abc import Iterator
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costguard.config import values
from costguard.config.options import OPTIONS


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (30, 30), (1.5, 1.5), ("30", 30), ("30s", 30), ("10m", 600), ("2h", 7200), ("1d", 86400), ("1.5 h", 5400), (0, 0),
        ("1h30m", 5400), ("1d12h", 129600), ("1h 30m", 5400), (" 1D 2H 3M 4S ", 93784), ("1d30s", 86430), ("2h0m", 7200),
    ],
)  # fmt: skip
def test_durations(written: object, seconds: float) -> None:
    """A number is seconds; s, m, h and d are understood, alone and together."""
    assert values.seconds(written) == seconds


@pytest.mark.parametrize(
    "written",
    [
        "", "abc", "10 parsecs", "-5", -5, True, None, "1h30", [], float("nan"), float("inf"),
        "30m1h", "1h1h", "1h-30m", "1h,30m", "h", "1h30mm", "9" * 400 + "d", "1h30m garbage",
    ],
)  # fmt: skip
def test_nonsense_durations(written: object) -> None:
    """What is no duration is refused in words, never read as something near."""
    with pytest.raises(ValueError, match="is not a duration"):
        values.seconds(written)


@pytest.mark.parametrize("written", ["36501d", "99999999999999999999999d", 1e300])
def test_a_duration_beyond_all_dates_is_a_slip(written: object) -> None:
    """A date so far away cannot be written, and a guard that waits for it never acts."""
    with pytest.raises(ValueError, match="is longer than 36500d"):
        values.seconds(written)
    assert values.seconds("36500d") == values.LONGEST_SECONDS


@pytest.mark.parametrize(
    ("written", "meant"),
    [("2", "2h or 2m"), ("90", "90m or 90s"), (" 1.5 ", "1.5h or 1.5m"), ("86400", "86400m or 86400s")],
)
def test_a_person_names_the_unit(written: str, meant: str) -> None:
    """Two what? Seconds by a rule that nobody at a terminal thinks of; the answer is what was meant, spelled out."""
    with pytest.raises(ValueError, match=f"has no unit: write {meant}"):
        values.spoken_seconds(written)
    for right in meant.split(" or "):
        assert values.spoken_seconds(right) >= float(written)
    assert values.seconds(written) == float(written), "in a configuration file it stays seconds"
    assert values.spoken_seconds("1h30m") == 5400


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


@pytest.mark.parametrize(("number", "text"), [(50.0, "50B/s"), (1e3, "1kB/s"), (2.5e5, "250kB/s"), (1.5e9, "1500MB/s")])
def test_a_rate_is_written_as_people_write_it(number: float, text: str) -> None:
    """In the largest unit that is exact, and read again as the same."""
    assert values.show_rate(number) == text
    assert values.rate(text) == number


def test_every_unit_is_written_with_itself() -> None:
    """A number whose unit nobody knows is read as another one."""
    units = {option.unit for option in OPTIONS.values()} - {"", "currency"}  # which has an option of its own
    lacking = units - values.FORMS.keys()
    assert not lacking, f"say in FORMS of config/values.py how {sorted(lacking)} are written"


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
    for beyond in ("9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+01:00"):
        with pytest.raises(ValueError, match="outside the years"):
            values.date(beyond)


def test_command_is_split_without_a_shell() -> None:
    """Quotes group; nothing is expanded."""
    assert values.command("echo 'a b' $HOME") == ("echo", "a b", "$HOME")
    with pytest.raises(ValueError, match="cannot be split"):
        values.command("echo 'a")


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A zone with summer time, from a rule: this machine may have no zone files."""
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize(
    ("text", "now", "meant"),
    [
        ("18:00", "2026-11-22T17:59:59+01:00", "2026-11-22T18:00:00+01:00"),
        ("18:00", "2026-11-22T18:00:00+01:00", "2026-11-23T18:00:00+01:00"),
        (" 8:05 ", "2026-11-22T18:00:00+01:00", "2026-11-23T08:05:00+01:00"),
        ("18:00", "2027-03-27T19:00:00+01:00", "2027-03-28T18:00:00+02:00"),
        ("09:00", "2026-10-24T18:00:00+02:00", "2026-10-25T09:00:00+01:00"),
        ("2027-01-31 18:00", "2026-11-22T18:00:00+01:00", "2027-01-31T18:00:00+01:00"),
        ("2027-01-31T18:00:00Z", "2026-11-22T18:00:00+01:00", "2027-01-31T18:00:00+00:00"),
    ],
)
def test_a_moment_is_the_next_one_by_the_clock_of_this_machine(text: str, now: str, meant: str) -> None:
    """Today, or tomorrow where it has passed, also over a change of summer time; a date is what it says."""
    when = datetime.fromisoformat(now).timestamp()
    assert values.moment(text, when) == datetime.fromisoformat(meant).timestamp()


@pytest.mark.parametrize("text", ["", "24:00", "18:60", "six", "18", "2h", "2027-13-01"])
def test_what_is_no_moment(text: str) -> None:
    """It is named, not guessed."""
    with pytest.raises(ValueError, match=re.escape(repr(text))):
        values.moment(text, 1.8e9)


@pytest.mark.parametrize(
    ("text", "now", "meant"),
    [
        ("02:30", "2026-10-24T22:00:00+00:00", "2026-10-25T01:30:00+00:00"),
        ("2026-10-25T02:50", "2026-10-25T01:40:00+00:00", "2026-10-25T01:50:00+00:00"),
        ("02:30", "2026-03-28T23:00:00+00:00", "2026-03-29T01:30:00+00:00"),
    ],
)
def test_a_time_that_the_clocks_show_twice_is_the_later_one(
    monkeypatch: pytest.MonkeyPatch, text: str, now: str, meant: str
) -> None:
    """A hold until then is rather an hour too long than too short; one that they never show is an hour later, too."""
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    try:
        found = values.moment(text, datetime.fromisoformat(now).timestamp())
    finally:
        monkeypatch.undo()
        time.tzset()
    assert found == datetime.fromisoformat(meant).timestamp()
