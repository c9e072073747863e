"""A sign of life for whoever watches from outside, given only while every reader answers.

When it stays away, the guard, a reader, the machine or the network is gone: the one failure that the guard cannot tell
of itself. It is sent by a short-lived process, to an address and, in live mode, into a tag of the machine.
"""

from collections.abc import Mapping
from typing import Any

from costguard.actions.job import BeatJob
from costguard.agent.task import Task, TaskError
from costguard.cloud.access import CloudAccess
from costguard.host.ports import Ended, Host, Instant, Line, Report, SpawnFailed
from costguard.process.worker import Done

SENT_WITHIN_SECONDS = 60.0
"""After which a worker that sends a beat is ended."""

MARGIN_SECONDS = 5.0
"""By which the worker has to be done before that."""

TAG_EVERY_SECONDS = 600.0
"""Between two writes of the tag, at least: each is a change in the cloud's audit log, and an account whose
machines share one limit on changes (ten a second, at the strictest cloud) has room for thousands."""

NO_ANSWER = "its worker gave no answer"

ENDING = frozenset(("ACTING", "CONFIRMING"))
"""While this machine is being ended its tags are left alone: a cloud may take the change for a newer wish."""


class Heartbeat:
    """Sends a beat every ``heartbeat.every`` seconds. ``tell`` takes *heartbeat* and what is wrong, or None.

    ``share`` (0 to 1) is this machine's own: a fleet that boots together does not beat together.
    """

    def __init__(self, host: Host, config: Mapping[str, Any], share: float, tell: Report) -> None:
        self._share, self._tell = share, tell
        self._worker = Task(host, "beat", Done)
        self._next: float | None = None
        self._next_tag = 0.0
        self.adopt(config)

    def adopt(self, config: Mapping[str, Any]) -> None:
        """Work under this configuration."""
        settings = config.get("heartbeat") or {}
        self._settings: dict[str, Any] = dict(settings)
        self._place = CloudAccess.of(config)
        every = float(settings.get("every") or 0.0)
        self._mode = str(config.get("policy", {}).get("mode") or "dry-run")
        self._tags = settings.get("tag") is True and self._mode == "live"  # a dry run changes nothing
        self._every = every if settings.get("url") else max(every, TAG_EVERY_SECONDS) if self._tags else 0.0
        self._first_after = every * self._share
        self._next = None

    @property
    def deadline(self) -> float:
        """When `run` must be called next."""
        return self._worker.deadline

    def owns(self, child: int) -> bool:
        """Whether this child sends a beat."""
        return self._worker.owns(child)

    def due(self, now: float) -> bool:
        """Whether `tick` has anything to do."""
        return self._every > 0 and (self._next is None or now >= self._next)

    def tick(self, now: float, *, answering: bool, facts: Mapping[str, object]) -> None:
        """A tick is over; ``answering`` says whether every expected reader answered in it."""
        if not self._every:
            return
        if self._next is None:
            self._next = now + self._first_after
        if not answering or now < self._next or self._worker.running:
            return
        self._next = now + self._every
        tag = None
        if self._tags and now >= self._next_tag and facts.get("state") not in ENDING:
            self._next_tag = now + TAG_EVERY_SECONDS
            tag = self._place
        elif not self._settings.get("url"):
            return
        record = {**facts, "mode": self._mode}
        job = BeatJob(self._settings, record, SENT_WITHIN_SECONDS - MARGIN_SECONDS, self._mode, tag)
        try:
            self._worker.start(job, now + SENT_WITHIN_SECONDS)
        except SpawnFailed as error:
            self._failed(str(error))

    def run(self, now: Instant) -> None:
        """End a worker that hangs."""
        if self._worker.late(now.boot):
            self._failed(NO_ANSWER)

    def take(self, event: Line | Ended, _now: Instant) -> None:
        """What the worker says, or its end without a word."""
        try:
            answer = self._worker.only(event)
        except TaskError:  # told once, however it fails each time
            self._failed(NO_ANSWER)
            return
        if answer.error:
            self._failed(answer.error)
        else:
            self._tell("heartbeat", None)

    def stop(self) -> None:
        """End a worker that is under way."""
        self._worker.stop()

    def _failed(self, words: str) -> None:
        self._tell("heartbeat", f"no sign of life could be sent: {words}")
