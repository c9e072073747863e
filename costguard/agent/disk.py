"""Commitments onto the disk: by a process of its own, since a disk may hang, and never by two at a time."""

from typing import Any

from costguard.agent import decode
from costguard.agent.ports import Ended, Host, Line, SpawnFailed
from costguard.agent.reload import Complain
from costguard.agent.state import persist_job

WRITTEN_WITHIN = 30.0
RETRY = 60.0
"""Seconds until a write that failed is tried again, with whatever is newest then."""


class Disk:
    """Keeps the newest commitments until they are saved. ``tell`` takes *disk* and what is wrong, or None."""

    def __init__(self, host: Host, state_dir: str, instance: str, tell: Complain) -> None:
        self._host, self._state_dir, self._instance, self._tell = host, state_dir, instance, tell
        self._waiting: bytes | None = None  # newer than what is being written
        self._writer: tuple[int, float] | None = None
        self._writing = b""
        self._saved = self._troubled = False
        self._not_before = 0.0

    @property
    def deadline(self) -> float:
        """When `run` must be called next."""
        if self._writer is not None:
            return self._writer[1]
        return self._not_before if self._waiting is not None else float("inf")

    @property
    def pending(self) -> bool:
        """Whether something is still to be written, and can be."""
        return self._writer is not None or (self._waiting is not None and not self._troubled)

    def owns(self, child: int) -> bool:
        """Whether this child is the writer."""
        return self._writer is not None and self._writer[0] == child

    def save(self, data: bytes, now: float) -> None:
        """Have these commitments (JSON) written, in place of all before them."""
        self._waiting = data
        self.run(now)

    def run(self, now: float) -> None:
        """Start a writer when there is something to write, end one that hangs."""
        if self._writer is not None:
            if now >= self._writer[1]:
                self._host.kill(self._writer[0])
                self._failed(now, "the state directory does not answer; holds and deadlines may not survive a reboot")
        elif self._waiting is not None and now >= self._not_before:
            self._write(now, self._waiting)

    def _write(self, now: float, data: bytes) -> None:
        if self._host.unreaped("persist"):  # each further one would hang beside it, and could write older words later
            self._not_before = now + RETRY
            return
        try:
            child = self._host.spawn("persist", persist_job(self._state_dir, self._instance, data))
        except SpawnFailed as error:
            self._failed(now, str(error))
            return
        self._writer, self._writing, self._waiting, self._saved = (child, now + WRITTEN_WITHIN), data, None, False

    def take(self, event: Line | Ended, now: float) -> None:
        """What the writer says, and its end."""
        if isinstance(event, Line):
            said: dict[str, Any] = decode.message(event.data) or {}
            self._saved = bool(said.get("saved"))
            if not self._saved:
                self._host.kill(event.child)
                self._failed(now, str(said.get("failed", "the disk writer made no sense")))
        elif not self._saved:
            self._failed(now, f"the disk writer ended without a word (exit code {event.code})")
        else:
            self._writer, self._not_before, self._troubled = None, 0.0, False
            self._tell("disk", None)
            self.run(now)

    def _failed(self, now: float, words: str) -> None:
        if self._writer is not None:
            self._writer = None
            self._waiting = self._waiting or self._writing
        self._troubled = True
        self._not_before = now + RETRY
        self._tell("disk", words)
