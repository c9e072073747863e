"""Which messages carry a picture, and what is on it: the machine's loads and decisions, never an argument or a secret."""

import os
import threading
import time
from typing import Self

from costguard.notify.facts import number
from costguard.notify.job import Draft
from costguard.report.job import DrawJob
from costguard.report.picture import PHONE, Drawer, Picture, install

LEAST_SECONDS, LONGEST_SECONDS = 6 * 3600.0, 7 * 86400.0
WINDOWS = 3.0
"""The picture of a warning spans so many times the idle window, to show what was before it."""

WAIT_SECONDS, TEST_WAIT_SECONDS = 6.0, 15.0
"""Seconds that a message waits for its picture once all else is ready; a test message, which is not urgent, waits longer."""

RECORD_SECONDS = 0.8
"""Seconds that the picture waits for the record of its own warning, which is written at the same moment."""

_OF_COUNTDOWN = ("wall", "due_wall", "mode", "action", "threshold")


def job(draft: Draft, folder: str, now: float) -> DrawJob | None:
    """What to draw for a message; None for one without a picture. ``folder`` is the one of the history."""
    if draft.kind not in {"warning", "summary", "test"} or not os.path.isabs(folder):
        return None
    machine, since = os.uname().nodename, number(draft.facts.get("since"))
    if draft.kind == "summary":
        return None if since is None else DrawJob(folder, since, now, machine, (PHONE,))
    if draft.kind == "test":
        return DrawJob(folder, now - LEAST_SECONDS, now, machine, (PHONE,), blank=True)
    window = number(draft.facts.get("window")) or 0.0
    pending = {name: draft.facts[name] for name in _OF_COUNTDOWN if draft.facts.get(name) is not None}
    shown = min(LONGEST_SECONDS, max(LEAST_SECONDS, WINDOWS * window))
    incident = str(draft.facts.get("incident") or "")
    return DrawJob(folder, now - shown, now, machine, (PHONE,), pending, incident, RECORD_SECONDS)


class Drawing:
    """A picture that is being drawn while the message is made ready; a context that ends what still draws."""

    def __init__(self, job: DrawJob, kind: str) -> None:
        self._drawer, self._test = Drawer(job), kind == "test"
        self._lock = threading.Lock()
        self._found: Picture | None = None
        self._given_up = ""

    def give_up(self) -> None:
        """Stop drawing: the message leaves without its picture."""
        self._given_up = "the message could not wait for it"
        self._drawer.give_up()

    def wait(self, end: float) -> Picture:
        """The picture, or why there is none, before ``end`` (monotonic clock). Only a test message says that the library is not installed.

        Several threads may ask; each gets the same one.
        """
        with self._lock:
            if self._found is None:
                self._found = self._drawn(end)
            return self._found

    def _drawn(self, end: float) -> Picture:
        limit = TEST_WAIT_SECONDS if self._test else WAIT_SECONDS
        now = time.monotonic()
        found = self._drawer.png(now + max(0.0, min(limit, (end - now) / 3.0)))
        if found.missing:
            return found._replace(why=f"{found.why}: {install()}" if self._test else "")
        return found._replace(why=self._given_up or found.why) if found.why else found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._drawer.close()
