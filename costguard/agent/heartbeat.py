"""The heartbeat for outside monitoring, sent only while every reader answers.

When it stops, the guard, a reader, the machine or the network is down: the one failure that the guard cannot report
itself. A short-lived process sends it to an address and, in live mode, into a tag of the instance.
"""

from collections.abc import Mapping
from typing import Any

from costguard.actions.job import BeatJob
from costguard.agent.task import Part, TaskError
from costguard.cloud.access import CloudAccess
from costguard.host.ports import UNWATCHED, Ended, Host, Instant, Line, Report, SpawnFailed
from costguard.process.worker import Done

SENT_WITHIN_SECONDS = 60.0
"""After which a worker that sends a heartbeat is killed."""

MARGIN_SECONDS = 5.0
"""The worker's own deadline is so much earlier."""

TAG_EVERY_SECONDS = 600.0
"""Between two writes of the tag, at least: each is an entry in the cloud's audit log, and thousands of machines of one
account share its limit on changes (ten a second, at the strictest cloud)."""

NO_ANSWER = "the worker gave no answer"

ENDING = frozenset(("ACTING", "CONFIRMING"))
"""While this machine is being ended its tags are left alone: the cloud may take the change for a newer request."""


class Heartbeat(Part[Done]):
    """Sends a heartbeat every ``heartbeat.every`` seconds. ``report`` gets the subject *heartbeat*.

    ``jitter`` (0 to 1) is this machine's own: a fleet that boots together must not send together.
    """

    def __init__(self, host: Host, config: Mapping[str, Any], jitter: float, report: Report) -> None:
        super().__init__(host, "beat", Done, report)
        self._jitter = jitter
        self._next: float | None = None
        self._next_tag = 0.0
        self.adopt(config)

    def adopt(self, config: Mapping[str, Any]) -> None:
        """Work under this configuration."""
        settings = config.get("heartbeat") or {}
        self._settings: dict[str, Any] = dict(settings)
        self._cloud_access = CloudAccess.of(config)
        every = float(settings.get("every") or 0.0)
        self._mode = str(config.get("policy", {}).get("mode") or "dry-run")
        self._tags = settings.get("tag") is True and self._mode == "live"  # a dry run changes nothing
        self._every = every if settings.get("url") else max(every, TAG_EVERY_SECONDS) if self._tags else 0.0
        self._first_after = every * self._jitter
        self._next = None
        if not self._every:
            self._report("heartbeat", UNWATCHED)

    def due(self, now: float) -> bool:
        """Whether `tick` has anything to do."""
        return self._every > 0 and (self._next is None or now >= self._next)

    def tick(self, now: float, *, answering: bool, facts: Mapping[str, object]) -> None:
        """Send a heartbeat after a tick if one is due; ``answering``: every expected reader answered in that tick."""
        if not self._every:
            return
        if self._next is None:
            self._next = now + self._first_after
        if not answering or now < self._next or self._task.running:
            return
        self._next = now + self._every
        tag = None
        if self._tags and now >= self._next_tag and facts.get("state") not in ENDING:
            self._next_tag = now + TAG_EVERY_SECONDS
            tag = self._cloud_access
        elif not self._settings.get("url"):
            return
        record = {**facts, "mode": self._mode}
        job = BeatJob(self._settings, record, SENT_WITHIN_SECONDS - MARGIN_SECONDS, self._mode, tag)
        try:
            self._task.start(job, now + SENT_WITHIN_SECONDS)
        except SpawnFailed as error:
            self._failed(str(error))

    def run(self, now: Instant) -> None:
        """End a worker that hangs."""
        if self._task.late(now.boot):
            self._failed(NO_ANSWER)

    def take(self, event: Line | Ended, _now: Instant) -> None:
        """Report whether the worker sent it."""
        try:
            answer = self._task.only_answer(event)
        except TaskError:  # one message for every way to fail: it is reported once
            self._failed(NO_ANSWER)
            return
        if answer.error:
            self._failed(answer.error)
        else:
            self._report("heartbeat", None)

    def _failed(self, message: str) -> None:
        self._report("heartbeat", f"heartbeat not sent: {message}")
