"""People come and go on machines with a guard, senses go blind, readers fail, guards are killed: see `presence`."""

import pytest

from tests.simulation.presence import live


@pytest.mark.parametrize("seed", range(1, 5))
def test_nothing_is_stopped_while_somebody_is_there_and_people_are_warned_once_nobody_is(seed: int) -> None:
    """A day and more each, in which all of it happens."""
    met = live(seed, 1.3)
    assert min(met) > 0, "a life in which nothing happened proves nothing"


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(1000, 1040))
def test_the_same_for_long(seed: int) -> None:
    """Many lives."""
    assert live(seed, 4.0).acted > 0
