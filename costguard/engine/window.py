"""One signal over time, and whether a window of it is clear.

A track changes only when its level does, so a steady signal costs nothing and a step never
depends on the length of the window. What was loud before is kept in fixed buckets; a bucket that
lies partly outside the window counts whole, which can only make a stop come later.
"""

from typing import NamedTuple

BUCKETS = 60
"""Into how many buckets a window is divided."""

NEVER = float("inf")


class Track(NamedTuple):
    """The level of one signal; all times are on the boot clock, in seconds.

    ``lost`` is None while the signal is known; otherwise the last moment at which it was, and the
    other fields keep what was known then. ``past`` holds (bucket number, loud seconds).
    """

    loud: bool
    since: float  # the level holds without a break since then
    known_since: float  # known without a hole since then
    past: tuple[tuple[int, float], ...] = ()
    lost: float | None = None


def begin(loud: bool, since: float) -> Track:
    """A track that knows nothing before ``since``."""
    return Track(loud, since, since)


def lose(track: Track, last_known: float) -> Track:
    """The signal became unknown after ``last_known``."""
    return track if track.lost is not None else track._replace(lost=last_known)


def never_seen(track: Track) -> bool:
    """Whether the signal has been unknown ever since the track began."""
    return track.lost is not None and track.lost == track.known_since


def advance(track: Track, loud: bool, before: float, window: float) -> Track:
    """The level ``loud`` was seen, and holds since ``before`` (the tick before, or a bridged hole)."""
    if loud == track.loud:
        return track if track.lost is None else track._replace(lost=None)
    past = _add(track.past, track.since, before, window) if track.loud else track.past
    return Track(loud, before, track.known_since, past)


def _add(past: tuple[tuple[int, float], ...], start: float, end: float, window: float) -> tuple[tuple[int, float], ...]:
    """Put a loud stretch into its buckets and drop those that left the window."""
    size = window / BUCKETS
    oldest = int((end - window) // size) - 1
    left = 0
    for bucket, _ in past:
        if bucket >= oldest:
            break
        left += 1
    kept = list(past[left:])
    start = max(start, oldest * size)
    while start < end:
        bucket = int(start // size)
        stop = min(end, (bucket + 1) * size)
        if stop <= start:  # rounding left nothing of this bucket
            bucket, stop = bucket + 1, min(end, (bucket + 2) * size)
        if kept and kept[-1][0] >= bucket:  # time goes on, so no earlier bucket is meant but by rounding
            kept[-1] = (kept[-1][0], kept[-1][1] + stop - start)
        else:
            kept.append((bucket, stop - start))
        start = stop
    return tuple(kept)


def loud_seconds(track: Track, window: float, now: float, after: float = -NEVER) -> float:
    """Loud seconds within the window that ends now, and after a moment within it; never too few."""
    size = window / BUCKETS
    begin_of_window = max(now - window, after)
    total = sum(seconds for bucket, seconds in track.past if (bucket + 1) * size > begin_of_window)
    if track.loud:
        total += now - max(track.since, begin_of_window)
    return total


def clear_at(track: Track, floor: float, window: float, tolerance: float) -> float:
    """When the window will be clear if nothing changes: from then on, and not before.

    ``floor`` is the earliest moment at which the window may begin. NEVER while the signal is
    unknown or loud.
    """
    if track.lost is not None or track.loud:
        return NEVER
    if tolerance <= 0:
        return max(track.since, floor) + window
    ready = max(track.known_since, floor) + window
    left = tolerance
    for bucket, seconds in reversed(track.past):
        left -= seconds
        if left < 0:  # this bucket must leave the window, and the older ones with it
            return max(ready, (bucket + 1) * window / BUCKETS + window)
    return ready


def tolerates(track: Track, floor: float, window: float, tolerance: float, now: float) -> bool:
    """Whether the window that ends now is known and loud for no longer than ``tolerance``."""
    if track.lost is not None or max(track.known_since, floor) + window > now:
        return False
    return loud_seconds(track, window, now) <= tolerance
