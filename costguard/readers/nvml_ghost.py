"""Use that nothing makes: a killed kernel can leave a GPU at 100 % for days, with no process and at idle power."""

USE = 95.0
"""Percent that every sample must show."""

MEMORY = 64 << 20
"""Bytes in use, below which there is no context: the smallest takes more than that."""

HOLD = 120.0
"""Seconds for which everything must have looked like that."""

WORDS = (
    "GPU use is stuck at 100 % with nothing behind it (no process, no memory, idle power): "
    "left by a killed kernel, and counted as idle; resetting the GPU or a reboot clears it"
)


class Ghost:
    """How long a GPU has looked like one."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._last = 0.0

    def see(self, now: float, covers: float, *, alike: bool) -> bool:
        """Whether it has looked like one for long enough. ``covers``: seconds back without a hole in the samples."""
        if not alike:
            self._since = None
        elif self._since is None or now - self._last > covers:
            self._since = now
        self._last = now
        return self._since is not None and now - self._since >= HOLD

    def forget(self) -> None:
        """Nothing was seen: begin again."""
        self._since = None
