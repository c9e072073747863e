"""The window rule alone, ticked by the caller: arm after work, fire after quiet.

The interface is that of ``gpu_sentinel``. The agent's promises (warnings, unknown, every GPU) do not apply here.
"""

import enum
from collections.abc import Callable


class SentinelState(enum.Enum):
    """``SAFE`` (alias ``IDLE``) until the sentinel has seen work, then ``ARMED`` for ever."""

    SAFE = 0
    IDLE = 0  # noqa: PIE796 - an alias: the word of the documentation, and the one of the code
    ARMED = 1


class Sentinel:
    """Count consecutive ticks above, then below, a threshold, and call ``kill_fn`` once per quiet spell.

    Args:
        arm_duration: ticks in a row strictly above ``arm_threshold`` before it is armed; 0 arms at the first tick.
        arm_threshold: 0 to 1.
        kill_duration: ticks in a row strictly below ``kill_threshold`` before ``kill_fn`` is called; at least 1.
        kill_threshold: 0 to 1.
        kill_fn: called without arguments inside `tick`; called again only after usage rose in between.

    Raises:
        ValueError: a threshold outside 0 to 1, a negative arm_duration, or a kill_duration below 1.
    """

    def __init__(
        self,
        arm_duration: float,
        arm_threshold: float,
        kill_duration: float,
        kill_threshold: float,
        kill_fn: Callable[[], object],
    ) -> None:
        for name, threshold in (("arm_threshold", arm_threshold), ("kill_threshold", kill_threshold)):
            if not 0 <= threshold <= 1:
                message = f"{name} is {threshold}; allowed: 0 to 1 (80 % is 0.8)"
                raise ValueError(message)
        if arm_duration < 0 or kill_duration < 1:
            message = "arm_duration must be 0 or more ticks, kill_duration 1 or more"
            raise ValueError(message)
        self.arm_duration = arm_duration
        self.arm_threshold = arm_threshold
        self.kill_duration = kill_duration
        self.kill_threshold = kill_threshold
        self.kill_fn = kill_fn
        self._state = SentinelState.SAFE
        self._left = arm_duration
        self._fired = False

    @property
    def state(self) -> SentinelState:
        """Whether work was seen."""
        return self._state

    @property
    def seconds_to_transition(self) -> float:
        """Ticks (seconds, when ticked once a second) until it arms, or fires, if usage stays as it is."""
        return max(0, self._left)

    def tick(self, value: float | None) -> None:
        """Take one reading, 0 to 1. None, NaN and anything outside that range is unknown and restarts the count."""
        armed = self._state is SentinelState.ARMED
        known = value is not None and 0 <= value <= 1
        if known and value is not None and (value < self.kill_threshold if armed else value > self.arm_threshold):
            self._left -= 1
        else:
            self._left = self.kill_duration if armed else self.arm_duration
            self._fired = self._fired and not known
        if self._left > 0:
            return
        if not armed:
            self._state, self._left = SentinelState.ARMED, self.kill_duration
        elif not self._fired:
            self._fired = True
            self.kill_fn()
