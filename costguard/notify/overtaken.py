"""A flag: a later message contradicts this one, so no further try of it is begun."""

import threading
import time
from collections.abc import Callable

from costguard.notify.job import Draft

OVERTAKEN = "not tried again: a later message says how it stands"


class Overtaken:
    """The flag, which any thread may set. ``again``: the message is itself a further try, so it need not be sent at all once set."""

    def __init__(self, *, again: bool = False) -> None:
        self._event, self._leave, self._again = threading.Event(), threading.Event(), again
        self._on_set: Callable[[], object] = lambda: None
        self.later: tuple[Draft, ...] = ()
        """The later messages, as far as the guard has named them."""

    def set(self, later: Draft | None = None, *, leaves: bool = False) -> None:
        """A later message is on its way; ``leaves``: it leaves at once, so a pause of this one ends."""
        self.later = (*self.later, later) if later is not None else self.later
        self._event.set()
        if leaves:
            self._leave.set()
        self._on_set()

    def on_set(self, call: Callable[[], object]) -> None:
        """Register a function to call when it is set, so that a message that has not left yet leaves before the later one."""
        self._on_set = call
        if self._event.is_set():
            call()

    @property
    def needless(self) -> bool:
        """Whether not even a first try is needed."""
        return self._again and self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait at most so long; returns whether the flag was set by then."""
        return self._event.wait(seconds) if seconds > 0.0 else self._event.is_set()

    def pause(self, seconds: float) -> float:
        """Wait so long before the message leaves, unless a later one leaves at once; returns the seconds waited."""
        begun = time.monotonic()
        self._leave.wait(max(0.0, seconds))
        return time.monotonic() - begun
