"""Machines with at least twenty faults a day: no rule of the design is broken, every fault is met in its phases.

A change is checked with some weeks, and with the ten crowded days of `programme`, in which a judge notices a bug of nearly any kind that we
could think of (`planted.toml`); the year comes when it is drawn, and with `make thorough`.
"""

from collections.abc import Sequence
from itertools import islice

import pytest

from tests.simulation.story import Report, Story
from tests.simulation.table import account, rare, required, table
from tests.simulation.year import run, together, uncollected

STORIES, DAYS = 8, 46.0
LIVES = 96
"""Further lives of some days, at most, until every fault was met in its phases."""

WEEKS = (10, 2.4)
"""So many machines, and the days of each: with the ten crowded days of `programme`, what a commit is checked with."""

DECIDED = frozenset({"warning", "cancelled", "unknown_alarm", "held", "deadline_passed"})
"""What shows that a guard had something to decide: a day without is none."""


@pytest.mark.parametrize("seed", range(1, WEEKS[0] + 1))
def test_weeks(seed: int) -> None:
    """I1 to I9, nothing leaks, nothing is silent, nothing is late: days in each of which much goes wrong."""
    with uncollected():
        story = Story(seed, WEEKS[1])
        report = story.run()
    days = report.seconds / 86400
    assert days >= WEEKS[1]
    decided = sum(report.counts[name] for name in report.counts if name in DECIDED)
    if story.alone:  # one thing alone happens, now and then
        assert decided
        return
    assert sum(report.met.values()) >= 10 * days
    assert report.counts.get("warning")
    assert decided >= 4 * days


def lived(seeds: Sequence[int], days: float) -> list[Report]:
    """These stories, none of which broke a rule."""
    results = list(run(seeds, days))
    failed = [text for _, _, text in results if text]
    assert not failed, "\n".join(failed)
    return [report for _, report, _ in results if isinstance(report, Report)]


@pytest.mark.thorough
@pytest.mark.timeout(580)
def test_machine_year() -> None:
    """I1 to I9, nothing leaks, nothing is silent, the guard always ticks: on the truth, whatever fails."""
    reports = lived(range(1, STORIES + 1), DAYS)
    later = iter(range(1001, 1001 + LIVES))
    while required() - together(reports)[0].keys() and (seeds := [*islice(later, STORIES)]):
        reports += lived(seeds, WEEKS[1])  # what a year meets seldom has more time to happen
    met, counts, seconds = together(reports)
    print(table(met))
    print(account(counts, reports, seconds))
    assert seconds >= 365 * 86400
    assert sum(met.values()) >= 20 * seconds / 86400
    missed = sorted(pair for pair in required() if not met[pair])
    # chance alone may leave out one of so many
    assert len(missed) <= len(required()) // 100, f"pairs of phase and fault that the year did not meet: {missed}"
    seldom = sorted(pair for pair in rare() if not met[pair])
    assert len(seldom) <= len(rare()) // 20, f"rare pairs that the year did not meet: {seldom}"
    for done in (
        "acted shutdown",
        "acted stop",
        "acted command",
        "acted reboot",
        "would_act",
        "unknown_alarm",
        "failed",
    ):
        assert counts[done], f"{done} never happened: the year proves nothing about it"


def test_same_seed_same_story() -> None:
    """A story is told by its seed alone, so that a failure can be seen again."""
    first, second = Story(3, 1.0), Story(3, 1.0)
    assert first.run() == second.run()
    assert list(first.log) == list(second.log)
