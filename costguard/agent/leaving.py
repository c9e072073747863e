"""What a guard that ends still waits for: its files, and messages on their way to people."""

from collections.abc import Callable

from costguard.agent.disk import CommitmentWriter
from costguard.agent.recorder import Recorder
from costguard.agent.workers import Workers
from costguard.host.ports import Ended, Host, Line, Signal

LEAVE_WITHIN_SECONDS = 2.0
LAST_MESSAGES_SECONDS = 5.0
"""The longest wait for files, and for messages."""


class LastWait:
    """The end of a guard. ``handle``: what a line or the end of a child is given to."""

    def __init__(
        self,
        host: Host,
        disk: CommitmentWriter,
        history: Recorder,
        workers: Workers,
        handle: Callable[[Line | Ended], None],
    ) -> None:
        self._host, self._disk, self._history, self._workers, self._handle = host, disk, history, workers, handle

    def run(self) -> None:
        """Wait for files and messages; cut off the messages that take too long, and keep what is known of them."""
        telling, goes_on = self._workers.telling, self._wait()
        while goes_on and self._workers.cut_off(self._host.clock().boot):
            goes_on = self._wait()
        if telling and goes_on:  # what came of a message after some seconds is still to be written
            self._wait()

    def _wait(self) -> bool:
        """Wait once; False when somebody asked a second time for the end."""
        since = self._host.clock()
        self._history.run(since)
        while until := self._wait_until(since.boot):
            for event in self._host.wait(until):
                if isinstance(event, Line | Ended):
                    self._handle(event)
                elif isinstance(event, Signal):
                    return False
            self._history.run(since)
        return True

    def _wait_until(self, since: float) -> float:
        """Until when to wait; 0 when nothing is left to wait for, or the time is over."""
        limits = [LEAVE_WITHIN_SECONDS] if self._disk.pending or self._history.pending else []
        limits += [LAST_MESSAGES_SECONDS] if self._workers.telling else []
        until = since + max(limits, default=0.0)
        return until if until > self._host.clock().boot else 0.0
