"""A sign of life for whoever watches from outside, given only while every reader answers.

When it stays away, the guard, a reader, the machine or the network is gone: the one failure that the guard cannot tell
of itself. It is sent by a short-lived process, to an address and, in live mode, into a tag of the machine.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from costguard.agent import decode
from costguard.agent.ports import Ended, Host, Line, SpawnFailed

BEAT_WITHIN = 60.0
"""Seconds after which a worker that sends a beat is ended."""

MARGIN = 5.0
"""Seconds by which the worker has to be done before that."""

TAG_EVERY = 600.0
"""Seconds between two writes of the tag, at least: each is a change in the cloud's audit log, and an account whose
machines share one limit on changes (ten a second, at the strictest cloud) has room for thousands."""

ENDING = frozenset(("ACTING", "CONFIRMING"))
"""While this machine is being ended its tags are left alone: a cloud may take the change for a newer wish."""

Complain = Callable[[str, str | None], None]


class Heartbeat:
    """Sends a beat every ``heartbeat.every`` seconds. ``tell`` takes *heartbeat* and what is wrong, or None.

    ``share`` (0 to 1) is this machine's own: a fleet that boots together does not beat together.
    """

    def __init__(self, host: Host, config: Mapping[str, Any], share: float, tell: Complain) -> None:
        self._host, self._share, self._tell = host, share, tell
        self._worker: tuple[int, float] | None = None
        self._next: float | None = None
        self._next_tag = 0.0
        self.adopt(config)

    def adopt(self, config: Mapping[str, Any]) -> None:
        """Work under this configuration."""
        settings = config.get("heartbeat") or {}
        self._settings: dict[str, Any] = dict(settings)
        self._cloud = {name: config.get(name) for name in ("providers", "cloud", "host")}
        every = float(settings.get("every") or 0.0)
        self._mode = str(config.get("policy", {}).get("mode") or "dry-run")
        self._tags = settings.get("tag") is True and self._mode == "live"  # a dry run changes nothing
        self._every = every if settings.get("url") else max(every, TAG_EVERY) if self._tags else 0.0
        self._first_after = every * self._share
        self._next = None

    @property
    def deadline(self) -> float:
        """When `late` must be called next."""
        return self._worker[1] if self._worker else float("inf")

    def owns(self, child: int) -> bool:
        """Whether this child sends a beat."""
        return self._worker is not None and self._worker[0] == child

    def due(self, now: float) -> bool:
        """Whether `tick` has anything to do."""
        return self._every > 0 and (self._next is None or now >= self._next)

    def tick(self, now: float, *, answering: bool, facts: Mapping[str, object]) -> None:
        """A tick is over; ``answering`` says whether every expected reader answered in it."""
        if not self._every:
            return
        if self._next is None:
            self._next = now + self._first_after
        if not answering or now < self._next or self._worker is not None:
            return
        self._next = now + self._every
        record = {**facts, "mode": self._mode}
        job: dict[str, Any] = {"settings": self._settings, "record": record, "deadline": BEAT_WITHIN - MARGIN}
        if self._tags and now >= self._next_tag and facts.get("state") not in ENDING:
            self._next_tag = now + TAG_EVERY
            job |= {"tag": self._cloud, "mode": self._mode}
        elif not self._settings.get("url"):
            return
        try:
            child = self._host.spawn("beat", json.dumps(job, separators=(",", ":")).encode())
        except SpawnFailed as error:
            self._tell("heartbeat", f"no sign of life could be sent: {error}")
            return
        self._worker = (child, now + BEAT_WITHIN)

    def late(self, now: float) -> None:
        """End a worker that hangs."""
        if self._worker is not None and now >= self._worker[1]:
            self._over("no sign of life could be sent: its worker did not answer")

    def take(self, event: Line | Ended) -> None:
        """What the worker says, or its end without a word."""
        if isinstance(event, Ended):
            self._over("no sign of life could be sent: its worker ended without a word")
            return
        said = decode.message(event.data) or {}
        failed = said.get("failed")
        if failed is None and said.get("sent"):
            self._over(None)
        else:
            self._over(f"no sign of life could be sent: {failed or 'its worker made no sense'}")

    def stop(self) -> None:
        """End a worker that is under way."""
        if self._worker is not None:
            self._host.kill(self._worker[0])
            self._worker = None

    def _over(self, words: str | None) -> None:
        self.stop()
        self._tell("heartbeat", words)
