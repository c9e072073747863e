"""What the judge takes for a promise that was broken, and what not."""

from typing import Any

import pytest

from tests.simulation.held import EXACT
from tests.simulation.judge import Violation
from tests.simulation.story import Story

STOOD_STILL = 227.0
"""Seconds after its start in which the guard got no CPU."""

USER = 60001


@pytest.fixture
def story() -> Story:
    """A boot that another one with a long hold came before; the first look comes late."""
    story = Story(8, 1.0)
    story.world.now += 60.0
    story.judge.holds.booted(kept(story, 10 * story.judge.law.hold_max, boot="the one before"))
    story.world.now += STOOD_STILL
    story.judge.ticks.append(story.world.now)
    story.judge.holds.looked()
    return story


def kept(story: Story, seconds: float, *, boot: str = "") -> dict[str, Any]:
    """Commitments with a hold that lasts so many seconds from now on."""
    until = story.world.now - story.world.boot_zero + seconds
    boot_id = boot or story.world.boot_id
    return {"boot_id": boot_id, "holds": [["somebody", "a run", until, 0.0]], "holders": [[USER]]}


def test_a_carried_hold_counts_from_the_first_look(story: Story) -> None:
    """A guard that stood still after its start bounds what a hold has left when it looks, and no sooner."""
    until_then = story.judge.law.hold_max
    story.world.now += 2 * EXACT
    story.judge.holds.stored(kept(story, until_then - 2 * EXACT))
    with pytest.raises(Violation, match="longer than the policy allows"):
        story.judge.holds.stored(kept(story, until_then))


def test_a_guard_that_did_not_save_its_first_look_looks_again(story: Story) -> None:
    """What was carried over by a guard that was killed before it could save that is carried over by the next one."""
    story.judge.unsaved = True
    story.judge.holds.begins()
    story.world.now += STOOD_STILL
    story.judge.holds.looked()
    story.world.now += 2 * EXACT
    story.judge.holds.stored(kept(story, story.judge.law.hold_max - 2 * EXACT))
