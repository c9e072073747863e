"""What a GPU draws while it is idle: learnt within bounds, so that work cannot hide in it for good.

A context alone raises the power by tens of watts, so each state has its own level. A level follows the lowest
mean seen at rest, never above what an idle board can draw, and rises again when nothing else shows work.
"""

from costguard.readers.nvml.learnt import BARE, HELD, Learnt

MARGIN_MW = 10_000
"""Milliwatts above the idle level that are noise, on a small board."""

MARGIN_SHARE = 0.03
"""The same as a share of the power limit, for large boards."""

BARE_SHARE = 1 / 3
"""Of the power limit: what an idle GPU draws at most."""

BARE_LEAST_MW = 40_000
"""The same for small boards, which come nearer to their limit at full clocks."""

CONTEXT_MW, CONTEXT_SHARE = 70_000, 0.1
"""What contexts that only wait add at most to the idle power (26 to 66 W were measured), and as a share of large boards."""

CONTEXT_SMALL_MW, CONTEXT_SMALL_SHARE = 25_000, 0.25
"""The same on small boards."""

HELD_SHARE = 0.2
"""Of the power limit: what a GPU with contexts may always draw, should its idle power without any look too low."""

NO_LIMIT_MW = 100_000
"""What an idle GPU draws at most whose power limit is not known."""

RISE_AFTER = 600.0
"""Seconds of flat power, and of nothing else that shows work, after which that is the idle power."""

_GRAIN_MW = 1000.0  # milliwatts below the level that are not worth learning
_LONGEST = 30.0  # seconds between two looks, over which nobody knows what else was still
_NOTHING = (float("inf"), 0.0)
_MEMORY_NOISE = 16 << 20  # bytes by which the memory in use may vary

Scene = tuple[int | None, int | None]
"""Contexts, and bytes of memory in use; None: not known."""


class IdleLevels:
    """The idle power of one board, in milliwatts. ``limit``: its own power limit, 0 where that is not known."""

    __slots__ = ("_held", "_learnt", "_limit", "_most", "_scene", "_seen", "_since", "_span", "margin")

    def __init__(self, limit: int, learnt: Learnt) -> None:
        self._limit = limit
        self._learnt = learnt
        self.margin = max(float(MARGIN_MW), MARGIN_SHARE * limit)
        """Milliwatts that are noise on this board."""
        self._most = max(BARE_SHARE * limit, float(BARE_LEAST_MW)) if limit else float(NO_LIMIT_MW)
        small = max(float(CONTEXT_SMALL_MW), CONTEXT_SMALL_SHARE * limit) if limit else float(CONTEXT_MW)
        self._held = min(max(float(CONTEXT_MW), CONTEXT_SHARE * limit), small)
        self._since = self._seen = -_LONGEST  # of what `rises` looks at: its begin, the last look
        self._span = _NOTHING  # the lowest and the highest mean since then
        self._scene: Scene = (None, None)

    def ceiling(self, state: str) -> float:
        """What an idle GPU draws at most in this state."""
        bare = self.level(BARE) if state != BARE else None
        if bare is None:
            return self._most
        return max(bare + self._held + self.margin, HELD_SHARE * self._limit)

    def level(self, state: str) -> float | None:
        """The idle power in this state; None while it was never seen."""
        learnt = self._learnt.idle.get(state)
        return None if learnt is None else min(learnt, self.ceiling(state))

    def highest(self, state: str) -> float:
        """The highest mean that is no sign of work."""
        level, ceiling = self.level(state), self.ceiling(state)
        return ceiling if level is None else min(level + self.margin, ceiling)

    def calm(self, state: str) -> tuple[float, float, float] | None:
        """The lowest and the highest mean that teach nothing and show nothing but that at most a context waits, and the level.

        None: no mean does.
        """
        level = self.level(state)
        if level is None or not self.waits(level):
            return None
        return level - _GRAIN_MW, min(self.highest(state), self.ceiling(HELD)), level

    def words(self, mean: float, state: str) -> str:
        """The sign of work that a power above `highest` is."""
        level = self.level(state)
        if level is None or level + self.margin > self.ceiling(state):
            return f"power {mean / 1000:.0f} W, above what an idle GPU can draw"
        return f"power {(mean - level) / 1000:.0f} W above idle"

    def learn(self, state: str, mean: float, seconds: float) -> None:
        """A mean over so many seconds at rest: the level follows the lowest one."""
        if seconds <= _LONGEST and mean <= self.ceiling(state) and mean < self._learnt.idle.get(state, mean + 1.0):
            self._learnt.idle[state], self._learnt.fresh = mean, True

    def waits(self, mean: float) -> bool:
        """Whether so little is drawn that at most a context waits. False where nothing tells what that is."""
        if not self._limit and BARE not in self._learnt.idle:
            return False
        return 0 < mean <= self.ceiling(HELD)

    def rises(self, now: float, mean: float, state: str, scene: Scene) -> bool:
        """A mean above the level while nothing else shows work: whether that has been the idle power for long enough.

        ``scene``: contexts and memory in use, which must stay as they are. The lowest mean becomes the level.
        """
        low, high = min(self._span[0], mean), max(self._span[1], mean)
        flat = high - low <= self.margin and mean <= self.ceiling(state)
        if not flat or now - self._seen > _LONGEST or not _alike(scene, self._scene):
            self._since, self._scene, low, high = now, scene, mean, mean
        self._seen, self._span = now, (low, high)
        if now - self._since < RISE_AFTER:
            return False
        self._learnt.idle[state], self._learnt.fresh = low, True
        self.forget()
        return True

    def forget(self) -> None:
        """Something else showed work, or the power is that of the level: begin again."""
        self._seen = -_LONGEST


def _alike(one: Scene, other: Scene) -> bool:
    if one[0] != other[0] or one[1] is None or other[1] is None:
        return one == other
    return abs(one[1] - other[1]) < _MEMORY_NOISE
