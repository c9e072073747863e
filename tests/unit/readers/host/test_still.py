"""Looks at which nothing moves, in few steps: what is known afterwards is what each of them alone would have taught."""

from hypothesis import given
from hypothesis import strategies as st

from costguard.readers.host.rates import BUCKET, Counter, Level
from costguard.readers.host.still import Still

ABOVE = (100.0, 100.0, 250.0, 250.0)
EVERY = 10.0


class Plain:
    """One interface and the disks, each counter and level taken by itself."""

    def __init__(self) -> None:
        self.counters = [Counter() for _ in range(5)]
        self.levels = [Level(above, 300.0) for above in ABOVE]

    def take(self, values: list[int], now: float) -> bool:
        """Whether all rest."""
        rx, tx, read, out, dirty = [one.rate(value, now) for one, value in zip(self.counters, values, strict=True)]
        written = None if out is None or dirty is None else max(out, dirty)
        resting = True
        for level, rate in zip(self.levels, (rx, tx, read, written), strict=True):
            if not level.rests(rate, now):
                level.take(rate, now, now - EVERY)
                resting = False
        return resting

    def known(self, now: float) -> list[object]:
        """What another look would go by."""
        found: list[object] = [
            (one.usual, one.since, one.last, one.rest, one._bucket, one._kept) for one in self.levels
        ]
        return found + [one.rate(1 << 40, now + EVERY) for one in self.counters]


moves = st.lists(
    st.tuples(
        *[st.one_of(st.integers(0, 900), st.integers(-50, 6000))] * 5,
        st.sampled_from((10.0, 10.0, 10.0, 130.0, BUCKET)),
    ),
    max_size=60,
)


@given(moves=moves)
def test_it_is_the_same_as_to_take_each(moves: list[tuple[int, int, int, int, int, float]]) -> None:
    """Whatever moves, falls, or is late; with bursts that end the rest."""
    plain, quick = Plain(), Plain()
    still = Still(quick.levels)
    values, now, rested = [10_000] * 5, 1000.0, 0
    for *grown, passed in [(0, 0, 0, 0, 0, EVERY)] * 4 + moves + [(9000, 0, 0, 0, 0, EVERY)] * 2:
        now += passed
        values = [value + more for value, more in zip(values, grown, strict=True)]
        resting = plain.take(values, now)
        if still.goes_on(values, now):
            assert resting, "nothing was about to count"
            rested += 1
            continue
        still.end()
        if quick.take(values, now):
            still.begin(quick.counters, values, now)
    assert rested, "at the beginning nothing moves"
    still.end()
    assert quick.known(now) == plain.known(now)


def test_interfaces_are_summed_up() -> None:
    """What one alone moves is too little, and both together are not."""
    counters, levels = [Counter() for _ in range(7)], [Level(above, 300.0) for above in ABOVE]
    still = Still(levels)
    for number in range(4):
        for level in levels:
            if not level.rests(0.0, number * EVERY):
                level.take(0.0, number * EVERY, 0.0)
    still.begin(counters, [0] * 7, 30.0)
    assert still.goes_on([600, 0, 300, 0, 0, 0, 0], 40.0)
    assert not still.goes_on([1200, 0, 800, 0, 0, 0, 0], 50.0)


def test_nothing_is_said_of_other_interfaces() -> None:
    """One more, and the numbers are others."""
    levels = [Level(above, 300.0) for above in ABOVE]
    still = Still(levels)
    assert not still.goes_on([0] * 5, 10.0), "it has not begun"
    still.begin([Counter() for _ in range(5)], [0] * 5, 20.0)
    assert not still.goes_on([0] * 5, 30.0), "the levels know nothing yet"
