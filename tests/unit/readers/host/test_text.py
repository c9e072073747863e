"""Files of the kernel, and figures for people."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as some

from costguard.readers.host.round_robin import round_robin
from costguard.readers.host.text import LAST_BYTES, amount, duration, printable, read, several, whole


def test_a_table_is_read_to_its_end() -> None:
    """One read of a table in /proc gives a page of it."""
    assert len(read("/proc/self/smaps", 20_000)) == 20_000


def test_figures_are_those_that_people_write() -> None:
    """In the largest unit that is not below one."""
    assert [amount(rate) for rate in (1e5, 2.5e6, 1e9, 12.0)] == ["100 kB/s", "2.5 MB/s", "1 GB/s", "12 B/s"]
    assert [duration(seconds) for seconds in (7200.0, 300.0, 90.0)] == ["2 h", "5 min", "90 s"]


def test_a_name_changes_no_terminal() -> None:
    """Whoever starts a program chooses its name."""
    assert printable("a\x1b[31mb\n") == "a[31mb"
    assert printable("\x00\x07") == "?"
    assert printable("`rm -rf`") == "rm -rf"


@pytest.mark.parametrize(
    ("rate", "words"),
    [
        (0.0, "0 B/s"), (999.0, "999 B/s"), (1e3, "1 kB/s"), (999_999.0, "999.999 kB/s"), (1e6, "1 MB/s"), (999e6, "999 MB/s"),
        (1e9, "1 GB/s"), (1e12, "1000 GB/s"), (0.5, "0.5 B/s"),
    ],
)  # fmt: skip
def test_a_rate_is_in_its_unit(rate: float, words: str) -> None:
    """From its first number on."""
    assert amount(rate) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "0 s"), (1.0, "1 s"), (59.0, "59 s"), (60.0, "1 min"), (61.0, "61 s"), (3540.0, "59 min"), (3600.0, "1 h"),
        (3660.0, "61 min"), (5400.0, "90 min"), (86400.0, "24 h"), (3601.0, "3601 s"),
    ],
)  # fmt: skip
def test_a_duration_is_in_the_largest_unit_that_fits(seconds: float, words: str) -> None:
    """Nothing of it is left out."""
    assert duration(seconds) == words


def test_one_is_one() -> None:
    """And none are many."""
    assert [several(count, "terminal") for count in (0, 1, 2)] == ["0 terminals", "1 terminal", "2 terminals"]


def test_a_name_has_at_most_32_letters() -> None:
    """Those that can be seen."""
    assert printable("n" * 32) == "n" * 32
    assert printable("n" * 33) == "n" * 32
    assert printable("\x1b`" * 40 + "n" * 32 + "x") == "n" * 32
    assert printable("") == printable("```") == "?"


@pytest.mark.parametrize("size", [0, 1, LAST_BYTES - 1, LAST_BYTES, LAST_BYTES + 1, 10_000])
@pytest.mark.parametrize("limit", [1, LAST_BYTES - 1, LAST_BYTES, LAST_BYTES + 1, 9_000, 1 << 16])
def test_no_more_is_read_than_is_wanted_and_no_less_than_there_is(size: int, limit: int) -> None:
    """A table that comes piece by piece, as the kernel gives it out: a packet of a socket stands for a page."""
    data = os.urandom(size)
    source, target = os.pipe2(os.O_DIRECT)  # each write is one piece
    try:
        for at in range(0, size, 3500):
            os.write(target, data[at : at + 3500])
        os.close(target)
        found = whole(source, limit)
    finally:
        os.close(source)
    assert data.startswith(found)
    assert len(found) <= limit
    if limit == 1 << 16:
        assert found == data


@given(some.lists(some.integers(0, 4), max_size=30))
def test_everybody_has_a_turn_before_anybody_has_two(users: list[int]) -> None:
    """In the order in which they came, and nobody is left out."""
    found = round_robin(list(enumerate(users)), lambda one: one[1])
    assert sorted(found) == list(enumerate(users))
    taken = [sum(user == other for _, other in found[:place]) for place, (_, user) in enumerate(found)]
    assert taken == sorted(taken)
    for user in set(users):
        own = [number for number, other in found if other == user]
        assert own == sorted(own)
    first = [number for number, _ in found[: len(set(users))]]
    assert first == sorted(first)
