"""Reload: a new configuration is checked by a process of its own, and adopted only when it is valid."""

from collections.abc import Callable, Mapping
from typing import Any

from costguard.agent.task import NOT_IN_TIME, Part, TaskError
from costguard.config.job import Configured, ConfigureJob
from costguard.host.ports import Ended, Host, Instant, Line, Report, SpawnFailed

CHECKED_WITHIN_SECONDS = 30.0

Adopt = Callable[[dict[str, Any]], None]


class Reload(Part[Configured]):
    """One reload at a time. ``report`` gets the subject *reload*; ``adopt`` is called with a valid configuration.

    The service manager hears of the beginning and of the end of each, however it ends.
    """

    def __init__(self, host: Host, report: Report, adopt: Adopt) -> None:
        super().__init__(host, "configure", Configured, report)
        self._adopt = adopt

    def begin(self, config: Mapping[str, Any]) -> str:
        """Have the configuration read again, from the same sources as at the start. Returns a message for the user.

        A check that runs is killed: it may have read the files before their last change.
        """
        now = self._host.clock()
        self._host.service(f"RELOADING=1\nMONOTONIC_USEC={int(now.mono * 1e6)}")
        job = ConfigureJob(config.get("arguments", {}), config.get("environment", {}))
        try:
            self._task.start(job, now.boot + CHECKED_WITHIN_SECONDS)
        except SpawnFailed as error:
            self._failed(str(error))
            return str(error)
        return "the configuration is being checked"

    def run(self, now: Instant) -> None:
        """End a check that takes too long."""
        if self._task.late(now.boot):
            self._failed(f"the check failed: {NOT_IN_TIME}")

    def take(self, event: Line | Ended, _now: Instant) -> None:
        """Adopt the configuration that the check found valid."""
        try:
            answer = self._task.only_answer(event)
        except TaskError as error:
            self._failed(f"the check failed: {error}")
            return
        if answer.effective is None:
            self._failed(answer.error)
            return
        try:
            self._adopt(dict(answer.effective))
            self._report("reload", None)
            self._host.say("<6>configuration reloaded")
        finally:
            self._host.service("READY=1")

    def _failed(self, message: str) -> None:
        self.stop()
        self._report("reload", f"not reloaded, the old configuration stays: {message}")
        self._host.service("READY=1")
