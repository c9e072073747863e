"""What is only counted is what the engine decides."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from costguard.engine import Policy
from costguard.engine.rules import rules_of
from costguard.replay.compare import compare
from costguard.replay.levels import Levels
from costguard.replay.outline import Outline, is_plain, outline
from costguard.replay.run import Walked, policy_for, walk
from costguard.replay.summary import account, account_of
from costguard.replay.trace import Trace
from tests.unit.replay.made import ROOMY, any_policy, plain_policy, readable, restless, trace

COUNTED = ("warning", "cancelled", "stop")


def counted(walked: Walked) -> list[tuple[int, float, str, bool]]:
    """What the engine decided, sample by sample, as far as a summary counts it."""
    return [(made.tick, made.wall, made.kind, made.in_doubt) for made in walked.decisions if made.kind in COUNTED]


def drawn(made: Trace, policy: Policy) -> Outline | None:
    """The outline, held against the engine's walk over every sample."""
    levels, rules = Levels(made), rules_of(policy_for(policy, made))
    found = outline(levels, rules, policy.interval) if is_plain(rules) else None
    if found is not None:
        walked = walk(levels, policy, every_sample=True)
        assert list(map(tuple, found.marks)) == counted(walked)
        assert account_of(levels, found, rules) == account(levels, walked)
    return found


@given(seed=st.integers(0, 10**9))
def test_plain_recordings_are_counted_as_the_engine_decides(seed: int) -> None:
    """Every rule that needs no engine, in any combination: the same warnings, cancellations, stops and doubts."""
    drawn(readable(seed), plain_policy(seed))


@given(seed=st.integers(0, 10**9))
def test_what_is_not_plain_is_left_to_the_engine(seed: int) -> None:
    """Unknown readings, evidence that bridges holes, means, deadlines: never counted wrongly."""
    drawn(restless(seed, 300), any_policy(seed))
    drawn(readable(seed), any_policy(seed))


def test_most_plain_recordings_need_no_engine() -> None:
    """The property above says something: nearly all are drawn, and all kinds of decisions come in them."""
    found = [drawn(readable(seed), plain_policy(seed)) for seed in range(300)]
    assert found.count(None) < 6
    kinds = Counter((mark.kind, mark.in_doubt) for made in found if made is not None for mark in made.marks)
    assert min(kinds[kind] for kind in (("stop", False), ("cancelled", True), ("cancelled", False))) > 50


def test_a_machine_that_is_never_idle_costs_no_engine_step() -> None:
    """Nobody reads its decisions, so it is not walked; with somebody who does, it is."""
    traces = [trace([0.9] * 100), trace([0.9] * 30 + [0.0] * 120)]
    read, counts = (compare(traces, [ROOMY], lambda _share: None, read=read) for read in (True, False))
    assert all(found.walked is None for found in counts.values())
    assert [found.account for found in counts.values()] == [found.account for found in read.values()]
    assert read[1, 0].walked is not None
    assert counts[1, 0].account.summary.stops == 1
