"""When a tree counts as idle: the wrapper's time line, on the engine."""

import pytest

from costguard.agent.granted import Granted
from costguard.engine import Device, Known, Observation, Reading, Tick, Unknown
from costguard.tree.decision import Decision, policy_of
from costguard.tree.jobs import Judgement

REST, WORK = Known(0.0), Known(0.6)
LAUNCHED = 5000.0


def end(judgement: Judgement, readings: dict[int, tuple[Reading, ...]], beats: int = 400, begin: int = 1) -> int | None:
    """The number of the beat after which the tree is ended; every GPU rests where nothing is said. ``begin``: the first one."""
    decision = Decision()
    keys = ("a", "b")
    first = LAUNCHED + begin * judgement.interval
    decision.begin(policy_of(judgement, Granted(keys), LAUNCHED, first))
    for beat in range(begin, beats):
        seen = Observation(keys, readings.get(beat, (REST, REST)))
        for later in (0.0, 0.2 * judgement.interval):
            at = LAUNCHED + beat * judgement.interval + later
            if decision.take(Tick(at, seen, 1e9 + at, 0.0, None))[0]:
                assert "a 0 %" in decision.because(judgement, seen, {"b": Device("b")})
                return beat
            if not decision.urgent:
                break
    return None


def judged(threshold: float, every: float, samples: int, delay: int, aggregate: str = "all") -> Judgement:
    return Judgement(threshold, every, samples * every, max(delay, 0) * every, aggregate)


@pytest.mark.parametrize(
    ("every", "samples", "delay", "beat"),
    [(6.0, 5, 3, 7), (5.0, 60, 12, 71), (1.0, 2, 0, 2), (1.0, 2, 1, 2), (1.0, 2, -5, 2), (1.0, 2, 2, 3), (1.0, 2, 3, 4), (0.1, 1, 0, 1), (7.0, 13, 29, 41)],
)  # fmt: skip
def test_the_first_verdict_comes_with_the_last_reading_of_the_first_window(
    every: float, samples: int, delay: int, beat: int
) -> None:
    """max(delay, 1) + samples - 1 periods after the launch."""
    assert end(judged(0.5, every, samples, delay), {}) == beat == max(delay, 1) + samples - 1


def test_one_busy_reading_keeps_it_for_a_whole_window() -> None:
    """Every reading must be below, strictly; before the delay is over none counts."""
    judgement = judged(0.5, 6.0, 5, 3)
    assert end(judgement, {7: (WORK, REST)}) == 12
    assert end(judgement, {3: (WORK, REST)}) == 8
    assert end(judgement, {1: (WORK, WORK), 2: (WORK, WORK)}) == 7
    assert end(judgement, {7: (Known(0.5), REST)}) == 12


def test_a_watcher_that_begins_late_has_an_empty_window_and_the_same_delay() -> None:
    """A driver that starts slowly, or a watcher that was started again: never sooner, and the delay is over when it was to be."""
    judgement = judged(0.5, 6.0, 5, 12)
    assert [end(judgement, {}, begin=begin) for begin in (1, 4, 12, 13, 30)] == [16, 16, 16, 17, 34]


def test_an_unknown_gpu_empties_its_window_under_all_and_hinders_nobody_under_any() -> None:
    """Unknown is never idle; one known idle GPU is enough for `any`."""
    lost = (REST, Unknown("lost"))
    assert end(judged(0.5, 6.0, 5, 3), {5: lost}) == 10
    assert end(judged(0.5, 6.0, 5, 3), dict.fromkeys(range(400), lost)) is None
    assert end(judged(0.5, 6.0, 5, 3, "any"), dict.fromkeys(range(400), lost)) == 7
    assert end(judged(0.5, 6.0, 5, 3, "any"), dict.fromkeys(range(400), (REST, WORK))) == 7
    assert end(judged(0.5, 6.0, 5, 3), dict.fromkeys(range(400), (REST, WORK))) is None
