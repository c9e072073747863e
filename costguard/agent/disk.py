"""Commitments onto the disk: by a process of its own, since a disk may hang, and never by two at a time."""

import os

from costguard.agent.persist import PersistJob
from costguard.agent.task import Task, TaskError
from costguard.host.files import COMMITMENTS, wrap
from costguard.host.ports import Ended, Host, Instant, Line, Report, SpawnFailed
from costguard.process.worker import Done

WRITTEN_WITHIN_SECONDS = 30.0
RETRY_SECONDS = 60.0
"""Until a write that failed is tried again, with whatever is newest then."""

HANGS = "the state directory does not answer; holds and deadlines may not survive a reboot"


class Disk:
    """Keeps the newest commitments until they are saved. ``tell`` takes *disk* and what is wrong, or None."""

    def __init__(self, host: Host, state_dir: str, instance: str, tell: Report) -> None:
        self._path, self._instance, self._tell = os.path.join(state_dir, COMMITMENTS), instance, tell
        self._writer = Task(host, "persist", Done)
        self._waiting: bytes | None = None  # newer than what is being written
        self._writing = b""
        self._troubled = False
        self._not_before = 0.0

    @property
    def deadline(self) -> float:
        """When `run` must be called next."""
        return self._not_before if self._waiting is not None and not self._writer.running else self._writer.deadline

    @property
    def pending(self) -> bool:
        """Whether something is still to be written, and can be."""
        return self._writer.running or (self._waiting is not None and not self._troubled)

    def owns(self, child: int) -> bool:
        """Whether this child is the writer."""
        return self._writer.owns(child)

    def save(self, data: bytes, now: Instant) -> None:
        """Have these commitments (JSON) written, in place of all before them."""
        self._waiting = data
        self.run(now)

    def run(self, now: Instant) -> None:
        """Start a writer when there is something to write, end one that hangs."""
        if self._writer.late(now.boot):
            self._failed(now, HANGS)
        elif not self._writer.running and self._waiting is not None and now.boot >= self._not_before:
            self._write(now, self._waiting)

    def _write(self, now: Instant, data: bytes) -> None:
        if self._writer.hung:  # a further one could also write older words later
            self._not_before = now.boot + RETRY_SECONDS
            return
        text = wrap("instance", self._instance, data).decode()
        try:
            self._writer.start(PersistJob(self._path, text), now.boot + WRITTEN_WITHIN_SECONDS)
        except SpawnFailed as error:
            self._failed(now, str(error))
            return
        self._writing, self._waiting = data, None

    def take(self, event: Line | Ended, now: Instant) -> None:
        """What the writer says, and its end."""
        try:
            answer = self._writer.heard(event)
        except TaskError as error:
            self._failed(now, f"the disk writer failed: {error}")
            return
        if answer is None:
            self._not_before, self._troubled = 0.0, False
            self._tell("disk", None)
            self.run(now)
        elif answer.error:
            self._failed(now, answer.error)

    def _failed(self, now: Instant, words: str) -> None:
        self._writer.stop()
        self._waiting = self._waiting or self._writing
        self._troubled = True
        self._not_before = now.boot + RETRY_SECONDS
        self._tell("disk", words)
