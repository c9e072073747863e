"""Where a window may be clear or full, against a count of every sample."""

from array import array
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from costguard.engine.window import BUCKETS
from costguard.replay.levels import changes
from costguard.replay.windows import SLACK, stretches

SAMPLES = st.lists(st.tuples(st.sampled_from([1.0, 10.0, 10.0, 90.0]), st.booleans()), min_size=2, max_size=60)


@given(samples=SAMPLES, window=st.sampled_from([5.0, 30.0, 200.0]), share=st.sampled_from([0.0, 0.05, 0.2]))
def test_no_sample_is_left_out(samples: list[tuple[float, bool]], window: float, share: float) -> None:
    """Every sample whose window is clear, or full, is in the answer; and what is not nearly so is not."""
    times, flags, most = array("d", [1e9]), bytes([loud for _, loud in samples]), share * window
    for step, _ in samples[1:]:
        times.append(times[-1] + step)

    def loud(k: int, size: float) -> float:
        steps = [(max(a, times[k] - size), b) for (a, b), flag in zip(pairwise(times), flags[1:], strict=True) if flag]
        return sum(max(0.0, b - a) for a, b in steps if b <= times[k])

    found = stretches(times, flags, changes(flags))
    rare, full = found.rare(window, most), found.full(window, most, 0.0)
    ticks = range(len(times))
    clear = [not flags[k] and loud(k, window) <= most for k in ticks]
    nearly_clear = [not flags[k] and loud(k, window - 1.1 * SLACK) <= most + 1.1 * SLACK for k in ticks]
    busy = [loud(k, window) > most for k in ticks]
    wider = window * (1 + 1 / BUCKETS) + 1.1 * SLACK
    began = [
        times[max(0, flags.rfind(b"\0", 0, k + 1))] for k in ticks
    ]  # what leaves the window meanwhile still counts
    nearly_busy = [loud(k, wider + times[k] - began[k]) >= most - 1.1 * SLACK for k in ticks]
    for k in ticks:
        assert rare.at_or_after(k) == k or not clear[k]
        assert full.at_or_after(k) == k or not busy[k]
        assert rare.at_or_after(k) != k or any(nearly_clear[k : k + 2])  # the sample before is among them
        assert full.at_or_after(k) != k or any(nearly_busy[k : k + 2])
