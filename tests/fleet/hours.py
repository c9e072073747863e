"""Virtual time for code that runs in many threads and sleeps: one of them runs at a time, and time goes on when all wait.

Nothing here is measured in real time, so neither a busy computer nor its number of cores changes what happens.
"""

import functools
import heapq
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Self, TypeVar

import pytest

T = TypeVar("T")

_of_thread = threading.local()
_sleep, _monotonic = time.sleep, time.monotonic


class Strand:
    """A thread that runs when it is its turn, until it waits or ends."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def turn(self) -> None:
        """Let it run until it waits or ends."""
        if self._thread.ident is None:
            self._thread.start()
        else:
            self._go.release()
        self._back.acquire()

    def wait(self) -> None:
        """Called by the strand itself: until its next turn."""
        self._back.release()
        self._go.acquire()

    def _run(self) -> None:
        _of_thread.strand = self
        try:
            self._call()
        finally:
            self._back.release()


class Hours:
    """The clock. `time.sleep` and `time.monotonic` are this one's while a test has it, for its own threads.

    Others, which an earlier test has left behind, go on by the real time.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self._test = threading.get_ident()
        self._ready: deque[Strand] = deque()
        self._asleep: list[tuple[float, int, Strand]] = []
        self._numbers = itertools.count()
        monkeypatch.setattr(time, "sleep", self.sleep)
        monkeypatch.setattr(time, "monotonic", self.monotonic)

    def start(self, call: Callable[[], object]) -> None:
        """Run it in a strand of its own; it begins when whoever runs now waits."""
        self._ready.append(Strand(call))

    def monotonic(self) -> float:
        """The time."""
        mine = hasattr(_of_thread, "strand") or threading.get_ident() == self._test
        return self.now if mine else _monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait in virtual time."""
        if not hasattr(_of_thread, "strand"):
            assert threading.get_ident() != self._test, "the test itself waits with `run`"
            _sleep(seconds)
            return
        heapq.heappush(self._asleep, (self.now + max(0.0, seconds), next(self._numbers), self._me))
        self._me.wait()

    def run(self, until: float) -> None:
        """Let time pass. Of the test alone: it returns when every strand waits for something later."""
        while True:
            while self._ready:
                self._ready.popleft().turn()
            if not self._asleep or self._asleep[0][0] >= until:
                self.now = until
                return
            self.now, _, strand = heapq.heappop(self._asleep)
            self._ready.append(strand)

    @property
    def _me(self) -> Strand:
        found = _of_thread.strand
        assert isinstance(found, Strand)
        return found


class Signal:
    """What strands wait for; set once."""

    def __init__(self, hours: Hours) -> None:
        self._hours = hours
        self._set = False
        self._waiting: list[Strand] = []

    def set(self) -> None:
        """Whoever waits goes on."""
        self._set = True
        self._hours._ready.extend(self._waiting)
        self._waiting.clear()

    def wait(self) -> None:
        """Until it is set."""
        if not self._set:
            self._waiting.append(self._hours._me)
            self._hours._me.wait()


class Answer(Future[T]):
    """A future that a strand waits for."""

    def __init__(self, hours: Hours, call: Callable[[], T]) -> None:
        super().__init__()
        self._call, self.over = call, Signal(hours)

    def make(self) -> None:
        """Make the call."""
        try:
            self.set_result(self._call())
        except Exception as error:  # noqa: BLE001 - as every executor does
            self.set_exception(error)
        self.over.set()

    def result(self, timeout: float | None = None) -> T:
        """As of every future."""
        self.over.wait()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """As of every future."""
        self.over.wait()
        return super().exception(timeout)


class Pool:
    """The part of `ThreadPoolExecutor` that the plug-in uses, on strands."""

    def __init__(self, hours: Hours, most: int, _name: str) -> None:
        self._hours, self._free = hours, most
        self._waiting: deque[Answer[Any]] = deque()
        self._begun: list[Answer[Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for answer in self._begun:
            answer.over.wait()

    def submit(self, call: Callable[..., T], *args: Any, **more: Any) -> Answer[T]:
        """Begin, as soon as there is room."""
        answer = Answer(self._hours, lambda: call(*args, **more))
        self._waiting.append(answer)
        self._next()
        return answer

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """What has not begun never does."""
        assert cancel_futures, "nothing else is asked for"
        assert not wait
        self._waiting.clear()

    def _next(self) -> None:
        if self._free and self._waiting:
            self._free -= 1
            self._begun.append(self._waiting.popleft())
            self._hours.start(functools.partial(self._carry_out, self._begun[-1]))

    def _carry_out(self, answer: Answer[Any]) -> None:
        answer.make()
        self._free += 1
        self._next()
