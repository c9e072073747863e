"""One epoll set shared by the parts of the host."""

import select
from collections.abc import Callable

from costguard.host.ports import HostEvent

Handler = Callable[[int, list[HostEvent]], None]
"""Called with the ready descriptor and the list to which events are added."""

READ = select.EPOLLIN
WRITE = select.EPOLLOUT

EVENTS_PER_POLL = 64
"""Descriptors of one poll; others that are ready come in the next one."""


class Poller:
    """Descriptors and what to call when they are ready; level-triggered."""

    __slots__ = ("_epoll", "_handlers")

    def __init__(self) -> None:
        self._epoll = select.epoll(flags=select.EPOLL_CLOEXEC)
        self._handlers: dict[int, Handler] = {}

    def add(self, fd: int, mask: int, handler: Handler) -> None:
        """Watch a descriptor."""
        self._epoll.register(fd, mask)
        self._handlers[fd] = handler

    def change(self, fd: int, mask: int) -> None:
        """Wait for something else on a watched descriptor; 0 leaves only errors and hang-ups."""
        self._epoll.modify(fd, mask)

    def drop(self, fd: int) -> None:
        """Stop watching; to be called before the descriptor is closed. Unknown ones are ignored."""
        if self._handlers.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def poll(self, seconds: float, events: list[HostEvent]) -> None:
        """Wait at most so many seconds and let the handlers of what is ready add their events."""
        for fd, _mask in self._epoll.poll(seconds, EVENTS_PER_POLL):
            handler = self._handlers.get(fd)
            if handler is not None:  # an earlier handler of this poll may have dropped it
                handler(fd, events)

    def close(self) -> None:
        """Close the epoll descriptor."""
        self._epoll.close()
