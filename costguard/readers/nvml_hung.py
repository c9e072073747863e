"""A job that seems to hang: full use, flat on every axis, far below the power that the same job drew before.

A collective that spins looks like that; a real one moves bytes, training draws power, decoding reads memory,
and waiting for data lets the use dip. It is a suspicion: told, and the use still counts as work.
"""

USE = 99.0
"""Percent that every sample must show."""

HOLD = 600.0
"""Seconds for which everything must have been flat."""

OWN_SHARE = 0.6
"""Of the highest mean power that this job drew: from there down it is off its own baseline."""

IDLE_SHARE = 0.05
"""Of the power limit: so far above the idle power with processes, at most, where there is no GPM to show more."""

_FLAT_SM = 2.0  # percent by which the share of busy SMs may vary

WORDS = (
    "this job may hang: GPU use has been at 100 % for 10 min and more while nothing else moves (power flat and far "
    "below what the job drew before, memory and links idle); look at it with a debugger, or at its log"
)


class Hung:
    """What one job did so far, and for how long it has looked like one that hangs."""

    def __init__(self) -> None:
        self._job: int | None = None  # contexts; another number is another job
        self._own = 0.0  # highest mean power of the job, milliwatts
        self._since: float | None = None
        self._last = 0.0
        self._power = self._sm = (0.0, 0.0)  # lowest and highest since then

    def off_baseline(self, mean: float, job: int | None, margin: float) -> bool:
        """Remember what the job draws; whether that is far below what it drew. ``margin``: milliwatts of noise."""
        if job != self._job or not job:
            self._job, self._own = job, 0.0
            self.forget()
        self._own = max(self._own, mean)
        return bool(job) and 0 < mean <= OWN_SHARE * self._own and self._own - mean >= 3 * margin

    def see(self, now: float, covers: float, mean: float, sm: float, margin: float, *, alike: bool) -> bool:
        """Whether it has looked like one for long enough. ``covers``: seconds back without a hole in the samples."""
        if not alike:
            self.forget()
            return False
        power = min(self._power[0], mean), max(self._power[1], mean)
        part = min(self._sm[0], sm), max(self._sm[1], sm)
        flat = power[1] - power[0] <= margin and part[1] - part[0] <= _FLAT_SM
        if self._since is None or now - self._last > covers or not flat:
            self._since, power, part = now, (mean, mean), (sm, sm)
        self._last, self._power, self._sm = now, power, part
        return now - self._since >= HOLD

    def forget(self) -> None:
        """It moved: begin again."""
        self._since = None
