"""What senses see while `costguard record` records: a host reader of its own, asked at each look."""

import os
import time
from collections.abc import Mapping
from typing import Any

from costguard.agent.host_side import chosen, job_of, sights_of, vetoes_of
from costguard.engine.observation import Veto
from costguard.process.child import Child, EndedError, SilentError
from costguard.process.wire import from_line
from costguard.readers.host.job import HostAnswer
from costguard.readers.host.sense import Sight
from costguard.readers.question import Question

ANSWER_SECONDS = 5.0
AGAIN_SECONDS = 60.0
"""After this a reader that failed is started again."""


class SenseWatch:
    """The senses that the configuration of this machine switches on."""

    def __init__(self, senses: dict[str, Any], places: dict[str, str]) -> None:
        self._senses, self._places = chosen(senses), places
        self._process: Child | None = None
        self._number = 0
        self._not_before = 0.0

    def look(self, now: float) -> tuple[Veto, ...]:
        """What keeps the machine up; what cannot be seen is unknown."""
        if not self._senses:
            return ()
        why = "the host reader failed"
        try:
            return vetoes_of(sights_of(self._ask(now), self._senses, now), self._senses)
        except EndedError:
            why = "the host reader ended"
        except SilentError:
            why = "the host reader does not answer"
        except (OSError, ValueError):
            pass
        if self._process is not None:
            self.end()
            self._not_before = now + AGAIN_SECONDS
        return vetoes_of({name: Sight(unknown=why) for name in self._senses}, self._senses)

    def _ask(self, now: float) -> Mapping[str, Sight]:
        if self._process is None:
            if now < self._not_before:
                raise ValueError
            self._process = Child("host", environment=os.environ)
            self._process.send(job_of(self._senses, self._places))
        self._number += 1
        self._process.send(Question(self._number))
        end = time.monotonic() + ANSWER_SECONDS
        while True:
            number, senses = from_line(HostAnswer, self._process.line(end))
            if number == self._number and not isinstance(senses, int):
                return senses

    def end(self) -> None:
        """End the reader."""
        process, self._process = self._process, None
        if process is not None:
            process.kill(1.0)


def configured(sysfs: str) -> SenseWatch:
    """As the configuration of this machine wants it; by the defaults where that has problems."""
    from costguard.config.effective import senses
    from costguard.config.load import ConfigurationError, load
    from costguard.config.schema import Settings

    try:
        settings = load({"mode": "dry-run"}, os.environ).settings
    except ConfigurationError:
        settings = Settings()
    places = {"procfs": settings.host.procfs, "devfs": settings.host.devfs, "sysfs": sysfs}
    return SenseWatch(senses(settings), places)
