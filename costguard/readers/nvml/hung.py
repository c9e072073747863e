"""A job that seems to hang: full use, flat on every axis, at little power.

A collective that spins looks like that; a real one moves bytes, training draws power, decoding reads memory, and waiting
for data lets the use dip. It is a suspicion, from what there is to see: told, and the use still counts as work.
"""

from costguard.readers.nvml.learnt import Learnt

USE_PERCENT = 99.0
"""Percent that every sample must show."""

HOLD_SECONDS = 600.0
"""Seconds for which everything must have been flat."""

OWN_SHARE = 0.6
"""Of the highest mean power that this job drew: from there down it is off its own baseline."""

_FLAT_SM_PERCENT = 2.0  # percent by which the share of busy SMs may vary


def words(*, less: bool, still: str) -> str:
    """The finding's text. ``less``: the job drew far more before; ``still``: what else is known not to move."""
    power = "far below what the job drew before" if less else "too low for real work"
    return (
        "this job may be hung: GPU use has been at 100 % for over 10 min while nothing else moves "
        f"(power flat and {power}{still}); check its log, or attach a debugger"
    )


class Hung:
    """What one job did so far, and for how long it has looked like one that hangs."""

    _last: float  # look, where there is a begin

    def __init__(self, learnt: Learnt) -> None:
        self._learnt = learnt
        self._since: float | None = None
        self._power = self._sm = (0.0, 0.0)  # lowest and highest since then

    def off_baseline(self, mean: float, job: int, margin: float) -> bool:
        """Remember what the job draws; whether that is far below what it drew. ``margin``: milliwatts of noise."""
        kept = self._learnt
        if job != kept.job or not job:
            kept.job, kept.own = job, 0.0
            self.forget()
        if mean > kept.own:
            kept.own, kept.fresh = mean, True
        return bool(job) and 0 < mean <= OWN_SHARE * kept.own and kept.own - mean >= 3 * margin

    def see(self, now: float, covers: float, mean: float, sm: float, margin: float, *, alike: bool) -> bool:
        """Whether it has looked like one for long enough. ``covers``: seconds back without a hole in the samples."""
        if not alike:
            self.forget()
            return False
        power = min(self._power[0], mean), max(self._power[1], mean)
        part = min(self._sm[0], sm), max(self._sm[1], sm)
        flat = power[1] - power[0] <= margin and part[1] - part[0] <= _FLAT_SM_PERCENT
        if self._since is None or now - self._last > covers or not flat:
            self._since, power, part = now, (mean, mean), (sm, sm)
        self._last, self._power, self._sm = now, power, part
        return now - self._since >= HOLD_SECONDS

    def forget(self) -> None:
        """It moved: begin again."""
        self._since = None
