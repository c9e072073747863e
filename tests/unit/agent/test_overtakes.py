"""Which earlier message a later one stands for, over every pair of kinds: what is so no more is not read last, and nothing that happened is lost."""

from itertools import product

import pytest

from costguard.agent.redelivery import (
    ABOUT,
    COUNTDOWN,
    FAILED,
    FINAL_KINDS,
    INDEPENDENT_KINDS,
    PROGRESS_KINDS,
    overtakes,
)
from costguard.notify.compose import _KINDS as KINDS
from costguard.notify.job import HOLDS, Draft

OF_INCIDENTS = [*sorted(COUNTDOWN - HOLDS), *sorted(PROGRESS_KINDS), *sorted(FINAL_KINDS), FAILED]


def message(kind: str, incident: str = "") -> Draft:
    return Draft(f"{incident}-{kind}", kind, facts={"incident": incident} if incident else {})


def test_every_kind_has_one_place() -> None:
    """A new kind of message must say what makes it untrue."""
    places = [COUNTDOWN, PROGRESS_KINDS, FINAL_KINDS, {FAILED}, set(ABOUT), INDEPENDENT_KINDS - {"test"}]
    placed = [kind for place in places for kind in place]
    assert sorted(placed) == sorted(KINDS), "name each kind once in the sets of agent/redelivery.py"


@pytest.mark.parametrize("later", OF_INCIDENTS)
def test_within_an_incident_the_last_word_stands(later: str) -> None:
    """It is one story."""
    assert all(overtakes(message(later, "i1"), message(earlier, "i1")) for earlier in OF_INCIDENTS)


@pytest.mark.parametrize("later", OF_INCIDENTS)
def test_another_incident_takes_nothing_that_has_happened(later: str) -> None:
    """That nobody knows what became of a stop, or that it was made, arrives, whatever comes then; what was so until then does not."""
    taken = {earlier for earlier in OF_INCIDENTS if overtakes(message(later, "i2"), message(earlier, "i1"))}
    if later == "closed":  # it is found out of an incident that was over before
        assert taken == set()
    else:
        assert taken - {FAILED} == (COUNTDOWN - HOLDS) | PROGRESS_KINDS
        assert (FAILED in taken) is (later in {"done", "would_act", "outcome_unknown", "cannot", "failed"})


@pytest.mark.parametrize("hold", sorted(HOLDS))
def test_a_hold_says_whether_a_stop_comes_and_nothing_else(hold: str) -> None:
    """Of any incident; and what a later incident says of that stands for the hold."""
    taken = {earlier for earlier in OF_INCIDENTS if overtakes(message(hold), message(earlier, "i1"))}
    assert taken == COUNTDOWN - HOLDS
    assert {later for later in OF_INCIDENTS if not overtakes(message(later, "i1"), message(hold))} == {"closed"}
    assert all(overtakes(message(hold), message(other)) for other in HOLDS)


def test_what_is_about_something_else_is_untouched() -> None:
    """Of one subject the last word stands; no subject says anything of another one, and some messages of nothing at all."""
    for later, earlier in product(KINDS, KINDS):
        found = {
            overtakes(message(later, one), message(earlier, two)) for one, two in product(("", "i1", "i2"), repeat=2)
        }
        if {later, earlier} & INDEPENDENT_KINDS or ABOUT.get(later) != ABOUT.get(earlier):
            assert found == {False}, (later, earlier)
        elif later in ABOUT:
            assert found == {True}, (later, earlier)
