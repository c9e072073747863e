"""Whether a rate stays above this machine's own idle level; neither a burst nor what always goes on does."""

SHORTEST, LONGEST = 4.0, 120.0
"""Seconds between two readings of a counter: over less, a rate is noise; over more, it hides pauses."""

PART = 1.0
"""Seconds that a part of the time between two readings must last to be judged by itself."""

BUCKET = 900.0
"""Seconds whose busiest moment is kept; the idle level is the lowest of the kept ones."""

BUCKETS_KEPT, BUCKETS_NEEDED = 96, 8
"""A day is kept; for the first two hours nothing counts as usual, so that a download which began before the agent does not."""


class Counter:
    """A number that grows, and how fast.

    ``longest``: seconds between two readings after which no rate is given. ``least``: the lower rate of the two parts if it was
    also read in between (`mark`), else the rate.
    """

    __slots__ = ("_at", "_longest", "_middle", "_value", "least")

    def __init__(self, longest: float = LONGEST) -> None:
        self._longest = longest
        self._at = float("-inf")
        self._value = 0.0
        self._middle: tuple[float, float] | None = None
        self.least: float | None = None

    def due(self, now: float) -> bool:
        """Whether it is time to read it again."""
        return now - self._at >= SHORTEST

    def rate(self, value: float, now: float) -> float | None:
        """Units a second since it was read before; None where that cannot be said: the first time, after a pause or a reset."""
        passed, grown = now - self._at, value - self._value
        middle, self._middle = self._middle, None
        rate = None if passed > self._longest or passed <= 0.0 or grown < 0.0 else grown / passed
        self.least = rate
        if rate is not None and middle is not None and self._at + PART <= middle[0] <= now - PART:
            first, second = (middle[1] - self._value) / (middle[0] - self._at), (value - middle[1]) / (now - middle[0])
            self.least = min(rate, first, second)
        self._at, self._value = now, value
        return rate

    def mark(self, value: float, now: float) -> None:
        """Read it between two looks."""
        self._middle = now, value

    def passed_over(self, value: float, now: float) -> None:
        """Note a reading whose rate nobody needs."""
        self._at, self._value, self._middle = now, value, None


class Level:
    """A rate that counts while it stays ``above`` what is usual here, and ``quiet_for`` seconds longer.

    It counts once two readings in a row are above, and in the later one every part that is known: one burst may fall into two
    readings. Only that reading has parts, so three readings in a row always count. What is usual is the
    quietest quarter of an hour of the last day, but at most ``above``, so that twice as much counts even if it has gone on for days.
    """

    __slots__ = (
        "_above", "_before", "_bucket", "_bucket_end", "_kept", "_quiet_for", "doubtful", "last", "since", "usual",
    )  # fmt: skip

    def __init__(self, above: float, quiet_for: float) -> None:
        self._above, self._quiet_for = above, quiet_for
        self._before: float | None = None
        self.doubtful = False
        """Whether the last reading was above and the one before was not: the next one should be known in parts."""
        self._bucket, self._bucket_end = 0.0, 0.0
        self._kept: list[float] = []
        self.usual = 0.0
        self.since = self.last = float("-inf")

    def take(
        self, rate: float | None, now: float, began: float, *, may_begin: bool = True, least: float | None = None
    ) -> bool:
        """Take the rate from ``began`` until now; whether it counts. Without ``may_begin`` it only goes on if it counts already.

        ``least``: the lowest rate of any part of that time, if known.
        """
        before, self._before = self._before, rate
        steady = 0.0 if rate is None or before is None else min(rate, before)
        going = now - self.last <= self._quiet_for
        limit = self.usual + self._above
        self.doubtful = steady < limit <= (rate or 0.0)
        if not may_begin and not going:
            self._before, self.doubtful = None, False
            return False
        if steady >= limit and (least is None or least >= limit):
            self.since = self.since if going else began
            self.last = now
            going = True
        self._learn(steady, now, known=rate is not None)
        return going

    def rests(self, rate: float | None, now: float) -> bool:
        """A quick `take` for the usual case that neither this rate nor those before count; false, and nothing is taken, otherwise."""
        before = self._before
        if now - self.last <= self._quiet_for:
            return False
        if rate is None or before is None:
            if rate is not before:
                return False
            self._bucket_end = 0.0
        elif rate >= self.usual + self._above or now >= self._bucket_end:
            return False
        else:
            self._before = rate
            self._bucket = max(self._bucket, min(rate, before))
        self.doubtful = False
        return True

    @property
    def rest(self) -> tuple[float, float, float] | None:
        """While the level rests: the rate below which it does, the last rate, and until when; None otherwise. See `rested`."""
        if self._before is None or self._bucket_end <= 0.0:
            return None
        return self.usual + self._above, self._before, self._bucket_end

    def rested(self, rate: float, busiest: float) -> None:
        """Take at once what `rests` would have taken one by one: the last rate, and the highest that two in a row both reached."""
        self._before, self._bucket = rate, max(self._bucket, busiest)

    def goes_on(self, now: float) -> bool:
        """Whether it counts at this moment."""
        return now - self.last <= self._quiet_for

    def _learn(self, steady: float, now: float, *, known: bool) -> None:
        if not known:
            self._bucket_end = 0.0
        elif self._bucket_end <= 0.0:
            self._bucket, self._bucket_end = steady, now + BUCKET
        elif now < self._bucket_end:
            self._bucket = max(self._bucket, steady)
        else:
            self._kept = [*self._kept[1 - BUCKETS_KEPT :], self._bucket]
            self._bucket, self._bucket_end = steady, now + BUCKET
            if len(self._kept) >= BUCKETS_NEEDED:
                self.usual = min(*self._kept, self._above)
