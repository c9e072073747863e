"""A new configuration: checked by a process of its own, and taken over only when it is sound."""

from collections.abc import Callable, Mapping
from typing import Any

from costguard.agent.task import NOT_IN_TIME, Task, TaskError
from costguard.config.job import Configured, ConfigureJob
from costguard.host.ports import Ended, Host, Instant, Line, Report, SpawnFailed

CHECKED_WITHIN_SECONDS = 30.0
STAYS = "the old configuration stays"

Adopt = Callable[[dict[str, Any]], None]


class Reload:
    """One reload at a time. ``tell`` takes *reload* and what is wrong, or None; ``adopt`` a sound configuration.

    The service manager hears of the beginning and of the end of each, however it ends.
    """

    def __init__(self, host: Host, tell: Report, adopt: Adopt) -> None:
        self._host, self._tell, self._adopt = host, tell, adopt
        self._checker = Task(host, "configure", Configured)

    @property
    def deadline(self) -> float:
        """When `run` must be called next."""
        return self._checker.deadline

    def owns(self, child: int) -> bool:
        """Whether this child checks the configuration."""
        return self._checker.owns(child)

    def begin(self, config: Mapping[str, Any]) -> str:
        """Have the configuration read again as it was at the start of the process; words for whoever asked.

        A check that runs is ended: it may have read the files before they were changed again.
        """
        now = self._host.clock()
        self._host.service(f"RELOADING=1\nMONOTONIC_USEC={int(now.mono * 1e6)}")
        job = ConfigureJob(config.get("arguments", {}), config.get("environment", {}))
        try:
            self._checker.start(job, now.boot + CHECKED_WITHIN_SECONDS)
        except SpawnFailed as error:
            self._failed(f"{error}; {STAYS}")
            return str(error)
        return "the configuration is being checked"

    def run(self, now: Instant) -> None:
        """End a check that takes too long."""
        if self._checker.late(now.boot):
            self._failed(f"the new configuration could not be checked: {NOT_IN_TIME}; {STAYS}")

    def take(self, event: Line | Ended, _now: Instant) -> None:
        """What the check found, or its end without a word."""
        try:
            answer = self._checker.only(event)
        except TaskError as error:
            self._failed(f"the new configuration could not be checked: {error}; {STAYS}")
            return
        if answer.effective is None:
            self._failed(f"the new configuration is refused and the old one stays: {answer.error}")
            return
        try:
            self._adopt(dict(answer.effective))
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
        self._checker.stop()
