"""The resident process that asks this machine's metadata service, driven by the guard line by line (JSON).

First line: `CloudJob`. Then each `Question` is answered by a `CloudAnswer`.
The plug-ins speak to the service through the standard library; no SDK is loaded here. It ends with the guard.
"""

import sys
import time
from collections.abc import Callable

from costguard.cloud.api import CloudError, CloudNotice, Identity, Price, resume_command, start_command
from costguard.cloud.choose import Chosen, NobodyError, choose
from costguard.masking import mask
from costguard.parent import end_with_parent
from costguard.process.wire import from_line, to_line
from costguard.readers import pipe
from costguard.readers.cloud.job import NOTHING_KNOWN, CloudAnswer, CloudJob
from costguard.readers.cloud.tags import asks, mistakes, settings
from costguard.readers.question import Question

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 10.0, 300.0
"""Seconds before a service that did not answer is asked again: doubled each time."""

TAGS_EVERY_SECONDS = 60.0
IDENTITY_EVERY_SECONDS = 3600.0
"""Seconds between looks at what hardly changes."""

_WORDS = 300  # characters


class MetadataWatch:
    """What is known of this machine's place in its cloud."""

    def __init__(self, chosen: Chosen, *, wait: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._chosen = chosen
        self._clock = clock
        self._begin = clock() + wait
        self._due: dict[str, float] = {}  # when each question is asked next
        self._pauses: dict[str, float] = {}  # of those that failed
        self._troubles: dict[str, str] = {}
        self.identity: Identity | None = None
        self.price: Price | None = None
        self.start = self.resume = ""
        self.notices: tuple[CloudNotice, ...] = ()
        self.tags: dict[str, str] | None = None

    @property
    def error(self) -> str:
        """Why the service, or a part of it, cannot be asked; empty when it can."""
        return mask("; ".join(self._troubles.values()))[:_WORDS]

    def look(self) -> None:
        """Ask what is due; after each failure of a question the pause before it is asked again grows.

        A machine that cannot be identified is asked nothing else. Announcements that fail do not hide the tags, nor
        delay them: these may ask to keep the machine up.
        """
        now = self._clock()
        if now < self._begin:
            return
        questions = (("who", self._identify), ("notices", self._announced), ("tags", self._tagged))
        for name, question in questions:
            if now >= self._due.get(name, now):
                self._ask(name, question)
            if name == "who" and name in self._troubles:
                return

    def _ask(self, name: str, question: Callable[[], float]) -> None:
        """``question`` says how many seconds its answer is good for."""
        try:
            wait = question()
        except CloudError as error:
            words = str(error)
        except Exception as error:  # noqa: BLE001 - foreign code: its bug is told, and the reader goes on
            words = f"the plug-in failed: {type(error).__name__}: {error}"
        else:
            self._pauses.pop(name, None)
            self._troubles.pop(name, None)
            self._due[name] = self._clock() + wait
            return
        pause = self._pauses.get(name, FIRST_PAUSE_SECONDS)
        self._troubles[name] = words
        self._due[name] = self._clock() + pause
        self._pauses[name] = min(LONGEST_PAUSE_SECONDS, pause * 2.0)

    def _identify(self) -> float:
        self.identity = self._chosen.provider.identify(self._chosen.site)
        self.price = self._chosen.provider.price(self.identity)
        self.start = start_command(self._chosen.provider, self.identity)
        self.resume = resume_command(self._chosen.provider, self.identity)
        return IDENTITY_EVERY_SECONDS

    def _announced(self) -> float:
        if self._chosen.site.settings.get("notices") != "off":
            self.notices = tuple(self._chosen.provider.notices(self._chosen.site))
        return 0.0

    def _tagged(self) -> float:
        if self._chosen.site.settings.get("tags") != "off":
            found = self._chosen.provider.tags(self._chosen.site)
            self.tags = {str(name): str(value) for name, value in found.items()}
        return TAGS_EVERY_SECONDS

    def answer(self, wall: float) -> CloudAnswer:
        """Everything that is known; ``wall`` is the date now."""
        who, price = self.identity, self.price
        allowed = self._chosen.site.settings.get("tag_settings") is True
        wanted, nonsense = settings(self.tags) if allowed and self.tags is not None else ({}, [])
        nonsense = [*mistakes(self.tags or {}), *nonsense]
        return CloudAnswer(
            read=0,
            cloud=self._chosen.provider.name,
            identity=who._asdict() if who else None,
            price=price._asdict() if price else None,
            notices=tuple(
                (str(n.id), str(n.kind), None if n.at is None else n.at - wall, str(n.words)) for n in self.notices
            ),
            asks=None if self.tags is None else tuple(asks(self.tags, wall)),
            settings=None if self.tags is None else wanted,
            nonsense=tuple(mask(words)[:_WORDS] for words in nonsense),
            start=self.start,
            resume=self.resume,
            error=self.error,
        )


def serve(
    job: CloudJob,
    lines: Callable[[], bytes],
    write: Callable[[bytes], None],
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Answer until the end of the input."""
    watch, answer = None, NOTHING_KNOWN
    try:
        watch = MetadataWatch(choose(job.place), wait=job.wait, clock=clock)
    except NobodyError as error:
        answer = answer._replace(none=mask(str(error))[:_WORDS])
    while line := lines():
        number = from_line(Question, line).read
        if watch is not None:
            watch.look()
            answer = watch.answer(time.time())
        write(to_line(answer._replace(read=number)) + b"\n")


def main() -> int:
    """Serve on standard input and output."""
    end_with_parent()
    source = sys.stdin.buffer
    line = source.readline()
    if not line.strip():
        return 0
    try:
        serve(from_line(CloudJob, line), source.readline, pipe.write)
    except (BrokenPipeError, ValueError):  # the guard is gone, or not itself
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
