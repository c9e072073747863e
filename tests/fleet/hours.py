"""Virtual time for code that runs in many threads and sleeps: it goes on when all of them wait."""

import heapq
import itertools
import threading
import time
from collections.abc import Callable

import pytest

AT_ONCE = 0.02
"""Seconds of virtual time that count as one moment: who wakes up within them runs side by side."""

_look_again = time.sleep  # real: the virtual one takes its place below
_LOOK = 0.0004


class Hours:
    """The clock. `time.sleep` and `time.monotonic` of the whole process are this one's while a test has it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.stirred = 0  # grows with everything that anybody does
        self._numbers = itertools.count()
        self._asleep: list[tuple[float, int, threading.Event]] = []
        self._planned: list[tuple[float, int, Callable[[], None]]] = []
        self._lock = threading.Lock()
        monkeypatch.setattr(time, "sleep", self.sleep)
        monkeypatch.setattr(time, "monotonic", lambda: self.now)

    def sleep(self, seconds: float) -> None:
        """Wait in virtual time."""
        woken = threading.Event()
        with self._lock:
            self.stirred += 1
            heapq.heappush(self._asleep, (self.now + max(0.0, seconds), next(self._numbers), woken))
        woken.wait()
        self.stirred += 1

    def at(self, moment: float, call: Callable[[], None]) -> None:
        """Plan a call; it is made by whoever calls `run`."""
        heapq.heappush(self._planned, (moment, next(self._numbers), call))

    def run(self, until: float) -> None:
        """Let time pass."""
        while True:
            self.settle()
            first = min((heap[0][0] for heap in (self._asleep, self._planned) if heap), default=until)
            if first >= until:
                self.now = until
                return
            self.now = max(self.now, first)
            with self._lock:
                while self._asleep and self._asleep[0][0] <= self.now + AT_ONCE:
                    heapq.heappop(self._asleep)[2].set()
            while self._planned and self._planned[0][0] <= self.now:
                heapq.heappop(self._planned)[2]()

    def settle(self) -> None:
        """Return when nobody does anything any more."""
        quiet = 0
        while quiet < 3:
            before = self.stirred
            _look_again(_LOOK)
            quiet = quiet + 1 if before == self.stirred else 0
