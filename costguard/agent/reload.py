"""A new configuration: checked by a process of its own, and taken over only when it is sound."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from costguard.agent import decode
from costguard.agent.ports import Ended, Host, Line, SpawnFailed

CHECKED_WITHIN = 30.0
STAYS = "the old configuration stays"

Complain = Callable[[str, str | None], None]
Adopt = Callable[[dict[str, Any]], None]


class Reload:
    """One reload at a time. ``tell`` takes *reload* and what is wrong, or None; ``adopt`` a sound configuration.

    The service manager hears of the beginning and of the end of each, however it ends.
    """

    def __init__(self, host: Host, tell: Complain, adopt: Adopt) -> None:
        self._host, self._tell, self._adopt = host, tell, adopt
        self._checker: tuple[int, float] | None = None

    @property
    def deadline(self) -> float:
        """When `late` must be called next."""
        return self._checker[1] if self._checker else float("inf")

    def owns(self, child: int) -> bool:
        """Whether this child checks the configuration."""
        return self._checker is not None and self._checker[0] == child

    def begin(self, config: Mapping[str, Any]) -> str:
        """Have the configuration read again as it was at the start of the process; words for whoever asked."""
        now = self._host.clock()
        self._host.service(f"RELOADING=1\nMONOTONIC_USEC={int(now.mono * 1e6)}")
        self.abandon()  # it may have read the files before they were changed again
        job = {"arguments": config.get("arguments", {}), "environment": config.get("environment", {})}
        try:
            child = self._host.spawn("configure", json.dumps(job, separators=(",", ":")).encode())
        except SpawnFailed as error:
            self._failed(f"{error}; {STAYS}")
            return str(error)
        self._checker = (child, now.boot + CHECKED_WITHIN)
        return "the configuration is being checked"

    def late(self, now: float) -> None:
        """End a check that takes too long."""
        if now >= self.deadline:
            self._failed(f"the new configuration was not checked in time; {STAYS}")

    def take(self, event: Line | Ended) -> None:
        """What the check found, or its end without a word."""
        if isinstance(event, Ended):
            self._failed(f"the new configuration could not be checked (exit code {event.code}); {STAYS}")
            return
        said = decode.message(event.data) or {}
        effective = said.get("effective")
        if not isinstance(effective, dict):
            errors = said.get("errors")
            words = "; ".join(map(str, errors)) if isinstance(errors, list) and errors else "no answer"
            self._failed(f"the new configuration is refused and the old one stays: {words}")
            return
        self.abandon()
        try:
            self._adopt(effective)
            self._tell("reload", None)
            self._host.say("<6>the configuration was reloaded")
        finally:
            self._host.service("READY=1")

    def _failed(self, words: str) -> None:
        self.abandon()
        self._tell("reload", words)
        self._host.service("READY=1")

    def abandon(self) -> None:
        """End a check that runs; nothing comes of it."""
        if self._checker is not None:
            self._host.kill(self._checker[0])
            self._checker = None
