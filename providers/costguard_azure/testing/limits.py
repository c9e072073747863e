"""A token bucket. Sources: "Compute throttling limits" (per machine), "Azure Instance Metadata Service" (5 a second)."""

import threading
import time


class Bucket:
    """``most`` requests at once, ``rate`` new ones a second."""

    def __init__(self, most: float, rate: float) -> None:
        self._most, self._rate = most, rate
        self._left, self._at = most, time.monotonic()
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Whether one more request is allowed now."""
        with self._lock:
            now = time.monotonic()
            self._left = min(self._most, self._left + (now - self._at) * self._rate)
            self._at = now
            if self._left < 1:
                return False
            self._left -= 1
            return True
