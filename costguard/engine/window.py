"""One signal over time, and whether a window of it is quiet.

A track changes only when its level does, so a steady signal costs nothing and a step never
depends on the length of the window. What was busy before is kept in fixed buckets; a bucket that
lies partly outside the window counts whole, which can only make a stop come later.
"""

from collections.abc import Iterator
from typing import NamedTuple

BUCKETS = 60
"""Into how many buckets a window is divided."""

NEVER = float("inf")
"""A moment on the boot clock that does not come; `-NEVER` is one that has always passed."""


class Track(NamedTuple):
    """The level of one signal; all times are on the boot clock, in seconds.

    ``unknown_since`` is None while the signal is known; otherwise the last moment at which it was, and the
    other fields keep what was known then. ``past`` holds (bucket number, busy seconds).
    """

    busy: bool
    since: float  # the level holds without a break since then
    known_since: float  # known without a hole since then
    past: tuple[tuple[int, float], ...] = ()
    unknown_since: float | None = None


def begin(busy: bool, since: float) -> Track:
    """A track that knows nothing before ``since``."""
    return Track(busy, since, since)


def become_unknown(track: Track, last_known: float) -> Track:
    """The signal became unknown after ``last_known``."""
    return track if track.unknown_since is not None else track._replace(unknown_since=last_known)


def never_known(track: Track) -> bool:
    """Whether the signal has been unknown ever since the track began."""
    return track.unknown_since is not None and track.unknown_since == track.known_since


def advance(track: Track, busy: bool, before: float, window: float) -> Track:
    """The level ``busy`` was seen, and holds since ``before`` (the tick before, or a bridged hole)."""
    if busy == track.busy:
        return track if track.unknown_since is None else track._replace(unknown_since=None)
    past = _add(track.past, track.since, before, window) if track.busy else track.past
    return Track(busy, before, track.known_since, past)


def _add(past: tuple[tuple[int, float], ...], start: float, end: float, window: float) -> tuple[tuple[int, float], ...]:
    """Put a busy stretch into its buckets and drop those that left the window."""
    size = window / BUCKETS
    oldest = int((end - window) // size) - 1
    left = 0
    for bucket, _ in past:
        if bucket >= oldest:
            break
        left += 1
    kept = list(past[left:])
    for bucket, begin, stop in by_bucket(max(start, oldest * size), end, size):
        if kept and kept[-1][0] >= bucket:  # time goes on, so no earlier bucket is meant but by rounding
            kept[-1] = (kept[-1][0], kept[-1][1] + stop - begin)
        else:
            kept.append((bucket, stop - begin))
    return tuple(kept)


def by_bucket(start: float, end: float, size: float) -> Iterator[tuple[int, float, float]]:
    """The parts of a stretch by the number of the bucket in which each lies: its begin and its end."""
    while start < end:
        bucket = int(start // size)
        stop = min(end, (bucket + 1) * size)
        if stop <= start:  # rounding left nothing of this bucket
            bucket, stop = bucket + 1, min(end, (bucket + 2) * size)
        yield bucket, start, stop
        start = stop


def busy_seconds(track: Track, window: float, now: float, after: float = -NEVER) -> float:
    """Busy seconds within the window that ends now, and after a moment within it; never too few."""
    size = window / BUCKETS
    begin_of_window = max(now - window, after)
    total = sum(seconds for bucket, seconds in track.past if (bucket + 1) * size > begin_of_window)
    if track.busy:
        total += now - max(track.since, begin_of_window)
    return total


def quiet_at(track: Track, floor: float, window: float, tolerance: float) -> float:
    """When the window will be quiet if nothing changes: from then on, and not before.

    ``floor`` is the earliest moment at which the window may begin. NEVER while the signal is
    unknown or busy.
    """
    if track.unknown_since is not None or track.busy:
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
    """Whether the window that ends now is known and busy for no longer than ``tolerance``."""
    if track.unknown_since is not None or max(track.known_since, floor) + window > now:
        return False
    return busy_seconds(track, window, now) <= tolerance
