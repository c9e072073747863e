"""Use that nothing makes: a killed kernel can leave a GPU at 100 % for days, with no process and at low power."""

USE_PERCENT = 20.0
"""Percent that every sample must show at least."""

FLAT_PERCENT = 5.0
"""Percent by which the samples may differ: what is stuck does not move."""

MEMORY_BYTES = 64 << 20
"""Bytes in use, below which there is no context: the smallest takes more than that."""

HOLD_SECONDS = 120.0
"""Seconds for which everything must have looked like that."""


def words(use: float) -> str:
    """The finding's text; ``use``: utilisation in the samples, in per cent."""
    return (
        f"GPU use is stuck at {use:.0f} % with no process behind it (no memory in use, low power, no traffic): "
        "left by a killed kernel, counted as idle; a GPU reset or a reboot clears it"
    )


class Ghost:
    """How long a GPU has looked like one."""

    _last: float  # look, where there is a begin

    def __init__(self) -> None:
        self._since: float | None = None
        self._use = (0.0, 0.0)  # lowest and highest since then

    def see(self, now: float, covers: float, use: tuple[float, float], *, alike: bool) -> bool:
        """Whether it has looked like one for long enough, with its lowest and highest ``use`` since the last read.

        ``covers``: seconds back without a hole in the samples.
        """
        low, high = min(self._use[0], use[0]), max(self._use[1], use[1])
        if not alike:
            self._since = None
        elif self._since is None or now - self._last > covers or high - low > FLAT_PERCENT:
            self._since, low, high = now, *use
        self._last, self._use = now, (low, high)
        return self._since is not None and now - self._since >= HOLD_SECONDS

    def forget(self) -> None:
        """Nothing was seen: begin again."""
        self._since = None
