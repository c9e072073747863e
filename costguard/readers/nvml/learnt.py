"""What was learnt of one GPU and must not be lost with its handle, its reader or the guard; a boot ends it."""

ABSURD_MW = 20_000_000
"""Milliwatts; more than any board draws."""

BARE, HELD, UNSURE = "bare", "held", "unsure"
"""The states of which the idle power is learnt apart: without compute contexts, with some, not known."""

_STEP, _STEP_SHARE = 1000, 0.02  # milliwatts, and share, by which a power must change to be worth handing over
_MOST_CONTEXTS = 100_000
_MOST_ENGINES = 16


class Learnt:
    """Powers are milliwatts. What was saved is checked as if a stranger had written it."""

    __slots__ = ("_told", "engines", "fresh", "idle", "job", "own")

    def __init__(self, saved: object = None) -> None:
        given = saved if isinstance(saved, dict) else {}
        self.idle = {state: float(given[state]) for state in (BARE, HELD, UNSURE) if is_power(given.get(state))}
        """The lowest mean power seen at rest, by state."""
        job, own = given.get("job"), given.get("own")
        sound = isinstance(job, int) and 0 < job <= _MOST_CONTEXTS and is_power(own)
        self.job: int | None = job if sound else None
        """Contexts of the job that runs; another number is another job."""
        self.own = float(own) if sound and own is not None else 0.0
        """The highest mean power of that job."""
        engines = given.get("engines")
        names = [name for name in engines if isinstance(name, str)] if isinstance(engines, list) else []
        self.engines = set(names[:_MOST_ENGINES])
        """Those that have answered."""
        self.fresh = False
        """Whether something was learnt since the last news."""
        self._told = self.saved()

    def saved(self) -> dict[str, object]:
        """As JSON values, for the next reader."""
        kept: dict[str, object] = {state: int(power) for state, power in self.idle.items()}
        if self.job:
            kept |= {"job": self.job, "own": int(self.own)}
        return kept | ({"engines": sorted(self.engines)} if self.engines else {})

    def news(self) -> dict[str, object] | None:
        """The same when it changed since the last news."""
        if not self.fresh:
            return None
        self.fresh, now = False, self.saved()
        if not _differ(now, self._told):
            return None
        self._told = now
        return now


def is_power(value: object) -> bool:
    """Whether this is a number of milliwatts that a board may draw."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 1 <= value <= ABSURD_MW


def _differ(one: dict[str, object], other: dict[str, object]) -> bool:
    """In more than what is noise of a power."""
    if one.keys() != other.keys():
        return True
    return any(
        abs(value - before) >= max(_STEP, _STEP_SHARE * before)
        if isinstance(value, int) and isinstance(before, int) and name != "job"
        else value != before
        for (name, value), before in zip(one.items(), other.values(), strict=True)
    )
