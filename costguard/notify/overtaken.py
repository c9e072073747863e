"""Whether people have been told something since that a message would contradict: then no further try of it is begun."""

import threading
from collections.abc import Callable

OVERTAKEN = "not tried again: a later message says how it stands"


class Overtaken:
    """Set, by any thread, when the guard says so. ``again``: the message is a further try itself, so it need not leave at all."""

    def __init__(self, *, again: bool = False) -> None:
        self._event, self._again = threading.Event(), again
        self._hurry: Callable[[], object] = lambda: None

    def set(self) -> None:
        """A later message is on its way."""
        self._event.set()
        self._hurry()

    def hurry(self, call: Callable[[], object]) -> None:
        """Call it then, so that a message that has not left yet does so before the later one."""
        self._hurry = call
        if self._event.is_set():
            call()

    @property
    def needless(self) -> bool:
        """Whether not even a first try is to be made."""
        return self._again and self._event.is_set()

    def within(self, seconds: float) -> bool:
        """Wait so long; whether it was set by then."""
        return self._event.wait(seconds) if seconds > 0.0 else self._event.is_set()
