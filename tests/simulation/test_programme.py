"""Ten simulated days, as `programme` lives them: no rule is broken in any of their lives, and they hold what they are to hold."""

from collections import Counter

import pytest

from tests.simulation.bents import BENTS
from tests.simulation.programme import DAYS, Life, programme
from tests.simulation.story import Story
from tests.simulation.year import uncollected

CHECKED, LONG = 1, range(2, 8)
"""The programme that a commit is checked with, and those of the thorough tests."""


@pytest.mark.parametrize("life", list(programme(CHECKED)), ids=lambda life: f"{life.seed} {life.name}")
def test_ten_days(life: Life) -> None:
    """Each life of a programme, on its own."""
    with uncollected():
        assert life.live() >= life.days


@pytest.mark.thorough
@pytest.mark.timeout(580)
@pytest.mark.parametrize("seed", LONG)
def test_two_months(seed: int) -> None:
    """Six programmes."""
    with uncollected():
        assert sum(life.live() for life in programme(seed)) >= DAYS


def test_a_programme_has_a_life_about_everything_and_is_drawn_by_its_seed_alone() -> None:
    """Ten days of it, at least: every bent for itself and beside another one."""
    lives = list(programme(CHECKED))
    names = Counter(word for life in lives for word in life.name.split(" and "))
    assert all(names[bent] >= 2 for bent in BENTS)
    assert sum(life.days for life in lives) >= DAYS
    assert [(life.seed, life.name, life.days) for life in programme(CHECKED)] == [
        (life.seed, life.name, life.days) for life in lives
    ]


def test_a_dense_life_decides_often() -> None:
    """Within hours: people are warned, requests go out, and much of it is taken back."""
    counts: Counter[str] = Counter()
    days = 0.0
    with uncollected():
        for life in programme(CHECKED + 100):
            if life.bent is not None and life.bent.brisk and days < 2.0:
                counts.update(Story(life.seed, life.days, bent=life.bent).run().counts)
                days += life.days
    assert counts["warning"] >= 20 * 2
    assert sum(count for name, count in counts.items() if name.startswith("acted")) >= 5 * 2
    assert counts["cancelled"] >= 5 * 2
