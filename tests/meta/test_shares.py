"""Shares of the tests: together they are all of them, and no test is in two."""

import pytest

from tests.shares import Share

NAMES = [f"tests/unit/test_{number}.py::test_it[{number % 7}]" for number in range(2000)]


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_each_test_is_in_exactly_one_share(parts: int) -> None:
    """And a share is about as large as another one."""
    shares = [[name for name in NAMES if Share("7f3a", part, parts).has(name)] for part in range(parts)]
    assert sorted(name for share in shares for name in share) == sorted(NAMES)
    assert min(map(len, shares)) > 0.8 * len(NAMES) / parts


def test_another_seed_draws_others() -> None:
    """So a few merges check everything."""
    first, second = ({name for name in NAMES if Share(seed, 0, 2).has(name)} for seed in ("a", "b"))
    assert 0.4 < len(first & second) / len(first) < 0.6


@pytest.mark.parametrize("text", ["", "x", "x:2/2", "x:0", "x:-1/2", "x:a/2"])
def test_what_makes_no_sense_is_refused(text: str) -> None:
    """Never a share of nothing, which would pass."""
    with pytest.raises(pytest.UsageError, match="SEED:PART/PARTS"):
        Share.of(text)
