"""Who has taken a message already: a further try of it asks only the others, also where the guard or a worker died in between.

One file for each message in the agent's runtime directory, which a worker extends with each channel that takes it. A service that
takes a message in the moment in which its worker is killed is in no file, and gets it again: at least once, never not at all.
"""

import json
import os
import time
from contextlib import suppress
from typing import NamedTuple

from costguard.notify.job import Draft

FOLDER = "delivered"
FILES_KEPT = 48
"""Messages of which this is known; more belong to stories that are over."""

LONGEST_BYTES = 64 << 10

HERE_AGAIN_SECONDS = 600.0
"""People at a terminal read the same again after so long at the earliest, while a channel beyond the machine takes nothing."""

TRIES_SECONDS = 3600.0
"""What is older belongs to another story: after a loss of its state an agent counts its incidents anew."""

SOON_SECONDS = 120.0
"""What is so near is told at a terminal in any case."""


class Taken(NamedTuple):
    """One address of a channel that took a message: whom it reached, and the date. A channel of this machine is its own address 0."""

    whom: str
    at: float


class Delivered:
    """The record of one message. Without a folder that can be written nothing is known, and everything is sent."""

    def __init__(self, runtime: str, draft: Draft, *, again: bool) -> None:
        self._path = os.path.join(runtime, FOLDER, _name(draft)) if runtime else ""
        self._soon = _seconds(draft) <= SOON_SECONDS
        self.taken: dict[tuple[str, int], Taken] = self._read() if again else {}
        """By channel and number of the address; filled by earlier tries of the same message."""
        if not again:
            self._begin()

    def here(self, name: str, now: float) -> str:
        """Whom a channel of this machine has reached so recently that it is left in peace; empty where nobody."""
        found = self.taken.get((name, 0))
        recent = found is not None and not self._soon and 0.0 <= now - found.at < HERE_AGAIN_SECONDS
        return found.whom if found is not None and recent else ""

    def keep(self, name: str, number: int, whom: str) -> None:
        """An address has taken it; threads may say so at the same time."""
        if not self._path:
            return
        line = json.dumps([name, number, whom, time.time()]) + "\n"
        with suppress(OSError):
            descriptor = os.open(
                self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
            )
            try:
                os.write(descriptor, line.encode())
            finally:
                os.close(descriptor)

    def _begin(self) -> None:
        """Forget what an earlier message of this name has reached, and the oldest ones."""
        if not self._path:
            return
        folder = os.path.dirname(self._path)
        with suppress(OSError):
            os.makedirs(folder, mode=0o700, exist_ok=True)
            with suppress(FileNotFoundError):
                os.unlink(self._path)
            kept = sorted((entry.stat().st_mtime, entry.path) for entry in os.scandir(folder))
            for _, path in kept[: max(0, len(kept) - FILES_KEPT + 1)]:
                os.unlink(path)

    def _read(self) -> dict[tuple[str, int], Taken]:
        found: dict[tuple[str, int], Taken] = {}
        now = time.time()
        try:
            with open(self._path, "rb") as file:
                lines = file.read(LONGEST_BYTES).splitlines()
        except OSError:
            return found
        for line in lines:
            with suppress(ValueError, TypeError, RecursionError):  # a worker may have been killed while it wrote
                name, number, whom, at = json.loads(line)
                if 0.0 <= now - float(at) < TRIES_SECONDS:
                    found[str(name), int(number)] = Taken(str(whom), float(at))
        return found


def _name(draft: Draft) -> str:
    """The file of a message: further tries of a warning have other ids, and the same incident.

    A warning of which nobody has heard is told as a reminder.
    """
    incident = str(draft.facts.get("incident") or "")
    kind = "warning" if draft.kind == "countdown" and "unreached_tries" in draft.facts else draft.kind
    name = f"{incident}-{kind}" if incident else draft.id
    return "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in name)[:100]


def _seconds(draft: Draft) -> float:
    """Until what it announces."""
    due = draft.facts.get("due_in_seconds")
    return float(due) if isinstance(due, int | float) else float("inf")
