"""The buckets of a window against the intervals themselves: never too few loud seconds, and at most one bucket too many."""

from hypothesis import example, given
from hypothesis import strategies as st

from costguard.engine.window import (
    BUCKETS,
    NEVER,
    Track,
    advance,
    become_unknown,
    begin,
    busy_seconds,
    never_known,
    quiet_at,
    tolerates,
)

STRETCHES = st.lists(st.sampled_from([0.1, 1.0, 5.0, 7.3, 10.0, 59.0, 60.0, 61.0, 350.0]), min_size=1, max_size=40)
WINDOWS = st.sampled_from([60.0, 300.0, 3600.0])
SLACK = 1e-6
Spans = list[tuple[float, float]]


def history(stretches: list[float], window: float, start: float, *, loud: bool) -> tuple[Track, Spans, float]:
    """A track whose level changes after each stretch, the spans in which it was loud, and the end."""
    track, spans, now = begin(loud, start), [], start
    for number, seconds in enumerate(stretches):
        level = loud is (number % 2 == 0)
        track = advance(track, level, now, window)
        if level:
            spans.append((now, now + seconds))
        now += seconds
    return track, spans, now


def within(spans: Spans, start: float, end: float) -> float:
    """Loud seconds between two moments."""
    return sum(max(0.0, min(stop, end) - max(begun, start)) for begun, stop in spans)


@given(STRETCHES, WINDOWS, st.sampled_from([0.0, 3.0, 1234.5, 1e6]), st.booleans())
@example([350.0, 0.1], 300.0, 3.0, True)
@example([300.0, 10.0] * 3, 300.0, 0.0, True)
@example([5.0, 1.0, 10.0], 100.0, 0.0, False)  # it begins where a bucket ends, and rounding takes it for the one before
def test_no_loud_second_leaves_the_window_too_soon(
    stretches: list[float], window: float, start: float, loud: bool
) -> None:
    """Now, and at every moment that is still to come while nothing changes."""
    track, spans, now = history(stretches, window, start, loud=loud)
    size = window / BUCKETS
    for later in (0.0, size / 3, size, window / 2, window - size / 2, window, window + 2 * size):
        at = now + later
        lasting = [*spans[:-1], (spans[-1][0], at)] if track.busy else spans
        counted = busy_seconds(track, window, at)
        assert counted >= within(lasting, at - window, at) - SLACK
        assert counted <= within(lasting, at - window - size, at) + SLACK
    assert len(track.past) <= BUCKETS + 2
    assert [number for number, _ in track.past] == sorted({number for number, _ in track.past})


@given(STRETCHES, WINDOWS, st.sampled_from([0.0, 0.01, 0.05, 0.5]), st.booleans())
def test_the_moment_at_which_it_will_be_clear_is_the_first(
    stretches: list[float], window: float, share: float, loud: bool
) -> None:
    """Not before the true one, at most two buckets after it, and the window is clear there and not before."""
    track, spans, now = history(stretches, window, 1000.0, loud=loud)
    tolerance, size = share * window, window / BUCKETS
    for floor in (-NEVER, 1000.0, now - 1.0, now + 5.0):
        clear = quiet_at(track, floor, window, tolerance)
        if track.busy:
            assert clear == NEVER
            continue
        earliest = max(floor, 1000.0) + window
        if not tolerance:
            assert clear == max(floor, track.since) + window
            continue
        if clear > now:
            assert within(spans, clear - window, clear) <= tolerance + SLACK
            assert tolerates(track, floor, window, tolerance + SLACK, clear + SLACK)
            assert clear == earliest or not tolerates(track, floor, window, tolerance, clear - size / 100)
        moments = [now, earliest, *(edge + window for span in spans for edge in span)]
        true = min(
            at for at in moments if at >= max(now, earliest) and within(spans, at - window, at) <= tolerance - SLACK
        )
        assert clear <= true + 2 * size


def test_an_unknown_signal_is_never_clear_and_tolerates_nothing() -> None:
    """Whatever it was before; and what was never seen says so."""
    for loud in (False, True):
        seen = begin(loud, 10.0)
        lost = become_unknown(seen, 400.0)
        assert (lost.unknown_since, become_unknown(lost, 500.0)) == (400.0, lost)
        assert quiet_at(lost, 0.0, 60.0, 6.0) == quiet_at(lost, 0.0, 60.0, 0.0) == NEVER
        assert not tolerates(lost, 0.0, 60.0, 60.0, 400.0)
        assert (never_known(seen), never_known(lost), never_known(become_unknown(seen, 10.0))) == (False, False, True)
        assert advance(lost, loud, 410.0, 60.0) == seen
    assert tolerates(begin(False, 10.0), 0.0, 60.0, 6.0, 70.0)
    assert not tolerates(begin(False, 10.0), 0.0, 60.0, 6.0, 69.0)
    assert not tolerates(begin(False, 10.0), 20.0, 60.0, 6.0, 79.0)
    assert not tolerates(begin(True, 10.0), 0.0, 60.0, 6.0, 70.0)
    burst = advance(advance(begin(False, 0.0), True, 100.0, 60.0), False, 106.0, 60.0)
    assert [tolerates(burst, 0.0, 60.0, share, 110.0) for share in (5.99, 6.0)] == [False, True]
    assert quiet_at(burst, 0.0, 60.0, 6.0) == 60.0
    assert quiet_at(burst, 0.0, 60.0, 5.99) > 160.0
    assert quiet_at(burst, 0.0, 60.0, 5.0) == 161.0
    assert [tolerates(burst, 0.0, 60.0, 5.0, now) for now in (160.9, 161.0)] == [False, True]
    going_on = begin(True, 104.0)._replace(known_since=0.0)
    assert [tolerates(going_on, 0.0, 60.0, 6.0, now) for now in (110.0, 110.01)] == [True, False]
