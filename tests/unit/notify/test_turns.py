"""Whose turn it is at one address, in simulated time: in order, for one bound in total, and never for nothing."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costguard.agent.jitter import MESSAGE_SPREAD_SECONDS
from costguard.engine import time_limits
from costguard.notify.delivery_record import (
    ALL_ADDRESSES,
    EARLIER_SECONDS,
    LONGEST_TURN_SECONDS,
    LOOK_SECONDS,
    Progress,
)

KEY = ("team", 0)
NEVER = float("inf")


class Sending(NamedTuple):
    """When a message is told, how long its process takes to begin, and the service to answer it."""

    told: float
    slow: float
    answers: float


def departures(messages: list[Sending]) -> list[float]:
    """When each message leaves for the address, every one after those before it in the list."""
    left: dict[int, float] = {}
    now = 0.0
    while len(left) < len(messages):
        for number, one in enumerate(messages):
            if number in left or now < one.told + one.slow:
                continue
            earlier = [course(messages[before], left.get(before), now) for before in range(number)]
            if not any(each.goes_first(KEY, one.told, now) for each in earlier):
                left[number] = now
        now += LOOK_SECONDS
    return [left[number] for number in range(len(messages))]


def course(one: Sending, left: float | None, now: float) -> Progress:
    """What an earlier message has written down by now."""
    over = {KEY} if left is not None and left + one.answers <= now else set()
    return Progress(False, {KEY: left} if left is not None else {}, over)


ANSWERS = st.sampled_from([0.0, 0.3, 2.0, 5.0, 9.0, NEVER])
SENDINGS = st.lists(st.builds(Sending, st.floats(0.0, 5.0), st.floats(0.0, 3.0), ANSWERS), min_size=1, max_size=8).map(
    lambda found: sorted(found, key=lambda one: one.told)
)


@given(SENDINGS)
def test_messages_leave_in_their_order_and_in_time(messages: list[Sending]) -> None:
    """However long the service takes, and whichever process was slow to begin; the bound is one for all of them."""
    left = departures(messages)
    assert left == sorted(left)
    assert len(set(left)) == len(left) or not all(one.answers for one in messages)
    for one, at in zip(messages, left, strict=True):
        assert at - one.told <= LONGEST_TURN_SECONDS + 2 * LOOK_SECONDS


@given(SENDINGS)
def test_a_quick_service_holds_up_nothing(messages: list[Sending]) -> None:
    """Where each is answered at once, a message waits for the processes before it alone."""
    quick = [one._replace(answers=0.0) for one in messages]
    latest = 0.0
    for one, at in zip(quick, departures(quick), strict=True):
        latest = max(latest, one.told + one.slow)
        assert at <= latest + (len(quick) + 1) * LOOK_SECONDS


def test_ten_messages_at_once_keep_their_order_where_nothing_answers() -> None:
    """They leave one after the other once it is clear that the service is slow."""
    left = departures([Sending(0.0, 0.5, NEVER)] * 10)
    assert len(set(left)) == 10
    assert left == sorted(left)
    assert EARLIER_SECONDS <= left[1] <= left[-1] <= LONGEST_TURN_SECONDS + LOOK_SECONDS


@pytest.mark.parametrize(
    ("found", "waits"),
    [
        (Progress(False, {}, set()), True),
        (Progress(True, {}, set()), False),
        (Progress(False, {}, {KEY}), False),
        (Progress(False, {}, {("team", ALL_ADDRESSES)}), False),
        (Progress(False, {}, {("team", 1), ("mail", 0), ("mail", ALL_ADDRESSES)}), True),
        (Progress(False, {KEY: 99.0}, set()), True),
        (Progress(False, {KEY: 90.0}, set()), False),
        (Progress(False, {("team", 1): 90.0}, set()), True),
    ],
)
def test_who_is_waited_for(found: Progress, waits: bool) -> None:
    """Each address by itself: one that has it, was given up on, or was asked long ago, holds up nothing."""
    assert found.goes_first(KEY, 99.0, 100.0) is waits


def test_the_guard_has_patience_for_all_of_it() -> None:
    """A fleet's jitter, and the turn: neither takes anything of the time for a delivery."""
    assert MESSAGE_SPREAD_SECONDS + LONGEST_TURN_SECONDS <= time_limits.WAITING_SECONDS
    assert time_limits.TELL.own >= time_limits.WAITING_SECONDS + time_limits.DELIVERY_SECONDS
    assert time_limits.TELL.killed < time_limits.ANSWER_LOST_SECONDS
