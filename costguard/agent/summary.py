"""The summary of some days: asked for when it may be due; the worker, which reads the history, decides and sends it."""

from collections.abc import Callable, Mapping
from typing import Any

from costguard.agent.recorder import Record
from costguard.agent.task import NEVER, NOT_IN_TIME, Part, TaskError
from costguard.engine import time_limits
from costguard.host.ports import Ended, Host, Instant, Line, Report, SpawnFailed
from costguard.notify.job import DeliveryResult, Draft, TellJob
from costguard.notify.schedule import next_due

FIRST_AFTER_SECONDS = 900.0
"""After the guard's start: one that was due while the machine was off is sent soon, but not among the first messages."""

FIRST_SPREAD_SECONDS = 300.0
"""Over how long a fleet that starts together spreads these."""

LOOK_EVERY_SECONDS = 6 * 3600.0
"""How often the date is checked: a clock that is set moves it."""

SET_WITHIN_SECONDS = 3600.0
"""A clock that nothing has set by then is as right as it will be."""

SET_SOON_SECONDS = 300.0
"""How often the date is checked while it is not trusted: most clocks are set within minutes of the boot."""

WRITTEN_WITHIN_SECONDS = 15.0
"""How long to wait for history that is still being written; the rest belongs to the next summary."""

AGAIN_SECONDS = 3600.0
"""After a summary that reached nobody."""

Write = Callable[[Draft, tuple[str, ...]], TellJob]
Facts = Callable[[], Mapping[str, object]]
Repeat = Callable[[Draft, DeliveryResult], None]


class SummaryPart(Part[DeliveryResult]):
    """Sends a summary daily or weekly. ``jitter`` (0 to 1): a fleet does not write at the same second.

    ``flush`` has the history written, and says whether something still is. ``repeat`` sends a message again to whom it failed.
    """

    def __init__(
        self, host: Host, config: Mapping[str, Any], jitter: float, report: Report, *, write: Write, record: Record, facts: Facts,
        flush: Callable[[], bool], repeat: Repeat,
    ) -> None:  # fmt: skip
        super().__init__(host, "notify", DeliveryResult, report)
        self._jitter, self._write, self._record, self._facts = jitter, write, record, facts
        self._draft, self._repeat = Draft("", "summary"), repeat
        self._flush, self._flushed = flush, False
        self._due_wall = 0.0  # the first worker says whether one is due
        self.adopt(config)
        self._look_at = host.clock().boot + FIRST_AFTER_SECONDS + jitter * min(self._spread, FIRST_SPREAD_SECONDS)

    def adopt(self, config: Mapping[str, Any]) -> None:
        """Work under this configuration."""
        notify = config.get("notify") or {}
        self._every = str(notify.get("summary") or "off")
        self._channels = tuple(notify.get("channels") or ())
        self._state = str(config["paths"]["state"])
        self._spread = float((config.get("cloud") or {}).get("spread") or 0.0)
        self._mode = str(config.get("policy", {}).get("mode") or "dry-run")

    @property
    def deadline(self) -> float:
        """When `run` must be called next."""
        if self._task.running:
            return self._task.deadline
        return self._look_at if self._channels and self._every != "off" else NEVER

    def run(self, now: Instant) -> None:
        """Ask for a summary when its date has come; end a worker that hangs."""
        if self._task.late(now.boot):
            self._again(now, NOT_IN_TIME)
        if self._task.running or now.boot < self.deadline:
            return
        if now.synced is False and now.boot < SET_WITHIN_SECONDS:
            self._look_at = now.boot + min(SET_SOON_SECONDS, SET_WITHIN_SECONDS - now.boot)
            return
        if now.wall < self._due_wall:
            self._wait(now)
            return
        self._flushed = not self._flushed and self._flush()
        if self._flushed:
            self._look_at = now.boot + WRITTEN_WITHIN_SECONDS
            return
        self._draft = Draft(
            f"summary-{now.wall:.0f}",
            "summary",
            facts={**self._facts(), "mode": self._mode, "state": self._state, "every": self._every},
        )
        try:
            self._task.start(self._write(self._draft, self._channels), now.boot + time_limits.TELL.killed)
        except SpawnFailed as error:
            self._again(now, str(error))

    def take(self, event: Line | Ended, now: Instant) -> None:
        """Record whom it reached; one that reached nobody is tried again."""
        try:
            answer = self._task.only_answer(event)
        except TaskError as error:
            self._host.say(
                f"<4>unknown whether the summary was sent: {error}; a channel that missed it gets it in an hour"
            )
            self._look_at = now.boot + AGAIN_SECONDS
            return
        if answer.reached or answer.failed:
            self._record(self._draft, answer, 1)
        if answer.failed and not answer.reached:
            self._again(now, "; ".join(answer.failed.values()))
            return
        if answer.failed and answer.beside:  # the next one begins where this ends: who missed it gets it as it was sent
            key, title, body = (str(answer.beside.get(name) or "") for name in ("id", "title", "body"))
            self._repeat(Draft(key, "summary", title=title, body=body, dry_run=self._mode != "live"), answer)
        self._due_wall = next_due(now.wall, self._every) + self._jitter * self._spread
        self._wait(now)

    def _wait(self, now: Instant) -> None:
        until = self._due_wall - now.wall
        self._look_at = now.boot + (min(until, LOOK_EVERY_SECONDS) if until > 0.0 else LOOK_EVERY_SECONDS)

    def _again(self, now: Instant, why: str) -> None:
        self._host.say(f"<4>the summary was not sent: {why}; the next try is in an hour")
        self._look_at = now.boot + AGAIN_SECONDS
