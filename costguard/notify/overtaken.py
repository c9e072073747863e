"""Whether people have since been told something that a message would contradict; then no further try of it is begun."""

import threading
import time
from collections.abc import Callable

OVERTAKEN = "not tried again: a later message says how it stands"


class Overtaken:
    """Set, by any thread, when the guard says so. ``again``: the message is a further try itself, so it need not leave at all."""

    def __init__(self, *, again: bool = False) -> None:
        self._event, self._leave, self._again = threading.Event(), threading.Event(), again
        self._hurry: Callable[[], object] = lambda: None

    def set(self, *, leaves: bool = False) -> None:
        """A later message is on its way; ``leaves``: at once."""
        self._event.set()
        if leaves:
            self._leave.set()
        self._hurry()

    def hurry(self, call: Callable[[], object]) -> None:
        """Register a function to call when it is set, so that a message that has not left yet leaves before the later one."""
        self._hurry = call
        if self._event.is_set():
            call()

    @property
    def needless(self) -> bool:
        """Whether not even a first try is needed."""
        return self._again and self._event.is_set()

    def within(self, seconds: float) -> bool:
        """Wait up to so long; whether it was set by then."""
        return self._event.wait(seconds) if seconds > 0.0 else self._event.is_set()

    def pause(self, seconds: float) -> float:
        """Wait so long before the message leaves; a later one that leaves at once ends the wait. The seconds waited."""
        begun = time.monotonic()
        self._leave.wait(max(0.0, seconds))
        return time.monotonic() - begun
