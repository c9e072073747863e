"""Writes the commitments to the disk: by a process of its own, since a disk may hang, and one at a time."""

import os

from costguard.agent.persist import PersistJob
from costguard.agent.task import Part, TaskError
from costguard.host.files import COMMITMENTS, wrap
from costguard.host.ports import Ended, Host, Instant, Line, Report, SpawnFailed
from costguard.process.worker import Done

WRITTEN_WITHIN_SECONDS = 30.0
RETRY_SECONDS = 60.0
"""Until a failed write is tried again, with whatever is newest then."""

HANGS = "the state directory does not respond; holds and deadlines may not survive a reboot"


class CommitmentWriter(Part[Done]):
    """Keeps the newest commitments until they are written. ``report`` gets the subject *disk*."""

    def __init__(self, host: Host, state_dir: str, instance: str, report: Report) -> None:
        super().__init__(host, "persist", Done, report)
        self._path, self._instance = os.path.join(state_dir, COMMITMENTS), instance
        self._waiting: bytes | None = None  # newer than what is being written
        self._writing = b""
        self._failing = False
        self._not_before = 0.0

    @property
    def deadline(self) -> float:
        """When `run` must be called next."""
        return self._not_before if self._waiting is not None and not self._task.running else self._task.deadline

    @property
    def pending(self) -> bool:
        """Whether something is still to be written, and can be."""
        return self._task.running or (self._waiting is not None and not self._failing)

    def save(self, data: bytes, now: Instant) -> None:
        """Have these commitments (JSON) written, in place of all earlier ones."""
        self._waiting = data
        self.run(now)

    def run(self, now: Instant) -> None:
        """Start a writer when there is something to write, end one that hangs."""
        if self._task.late(now.boot):
            self._failed(now, HANGS)
        elif not self._task.running and self._waiting is not None and now.boot >= self._not_before:
            self._write(now, self._waiting)

    def _write(self, now: Instant, data: bytes) -> None:
        if self._task.hung:  # it could still write its older data after a new one
            self._not_before = now.boot + RETRY_SECONDS
            return
        text = wrap("instance", self._instance, data).decode()
        try:
            self._task.start(PersistJob(self._path, text), now.boot + WRITTEN_WITHIN_SECONDS)
        except SpawnFailed as error:
            self._failed(now, str(error))
            return
        self._writing, self._waiting = data, None

    def take(self, event: Line | Ended, now: Instant) -> None:
        """Report whether the writer wrote them; at its end write what came meanwhile."""
        try:
            answer = self._task.answer(event)
        except TaskError as error:
            self._failed(now, f"the disk writer failed: {error}")
            return
        if answer is None:
            self._not_before, self._failing = 0.0, False
            self._report("disk", None)
            self.run(now)
        elif answer.error:
            self._failed(now, answer.error)

    def _failed(self, now: Instant, message: str) -> None:
        self._task.stop()
        self._waiting = self._waiting or self._writing
        self._failing = True
        self._not_before = now.boot + RETRY_SECONDS
        self._report("disk", message)
