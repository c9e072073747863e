"""Pauses between tries: doubled, capped, with jitter, so that many machines do not knock in step."""

import random
from collections.abc import Iterator

FIRST = 0.2
CAP = 8.0


def pauses(first: float = FIRST, cap: float = CAP) -> Iterator[float]:
    """Seconds, without end; each between half of its step and the whole."""
    step = first
    while True:
        yield step * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
        step = min(step * 2, cap)
