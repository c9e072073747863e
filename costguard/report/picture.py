"""A picture of the last hours, drawn by a process of its own: in time, or not at all."""

import base64
import binascii
import importlib.util
import json
import os
import time
from collections.abc import Sequence
from typing import NamedTuple, Self

from costguard.process.child import Child, EndedError, SilentError
from costguard.process.wire import MalformedError, build
from costguard.report.job import DrawJob, Drawn, PictureFormat
from costguard.trust import weakness

PHONE = PictureFormat("png", 420.0, 2.5)
"""As a phone shows it in a chat; a wide screen shows the same, not larger."""

DRAWN_WITHIN_SECONDS = 20.0
"""For a message, which a picture must not hold up."""

ASKED_FOR_WITHIN_SECONDS = 120.0
"""For a person who asked for it: a busy machine still has to load the library, and its list of fonts may be new."""

KILLED_WITHIN_SECONDS = 0.2
"""How long to wait for a killed process: one that even SIGKILL does not end hangs with its disk, and the message goes on without it."""

LARGEST_BYTES = 4 << 20
CACHE = "matplotlib"
"""The folder beside the history in which the library keeps the list of its fonts."""


def install() -> str:
    """The command that brings the library."""
    from costguard import extras

    return extras.install(extras.PICTURE)


def installed() -> bool:
    """Whether the library is there, found without loading it."""
    return importlib.util.find_spec("matplotlib") is not None


class Picture(NamedTuple):
    """A PNG, or why there is none; ``missing``: the library is not installed."""

    data: bytes = b""
    why: str = ""
    missing: bool = False


def picture(
    folder: str, since: float, until: float, machine: str = "", seconds: float = DRAWN_WITHIN_SECONDS
) -> bytes | None:
    """The history in ``folder`` between two dates as a PNG for messages; None where it cannot be drawn in time."""
    with Drawer(DrawJob(folder, since, until, machine, (PHONE,))) as drawer:
        return drawer.png(time.monotonic() + seconds).data or None


class Drawer:
    """A process that draws, from its start on; a context that ends it."""

    def __init__(self, job: DrawJob) -> None:
        self._child: Child | None = None
        self._why = ""
        if not job.cache and os.access(job.folder, os.W_OK) and weakness(job.folder, os.geteuid()) is None:
            job = job._replace(cache=os.path.join(job.folder, CACHE))
        try:
            self._child = Child("picture")
            self._child.send(job)
        except (OSError, EndedError):
            self._why = "the process that draws could not be started"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it."""
        child, self._child = self._child, None
        if child is not None:
            child.kill(KILLED_WITHIN_SECONDS)

    def give_up(self) -> None:
        """End its process, while another thread waits for what it draws."""
        child = self._child
        if child is not None:
            child.end()

    def drawn(self, until: float) -> Drawn:
        """What it drew, once; ``until``: how long it may take, on the monotonic clock."""
        if self._child is None:
            return Drawn(error=self._why or "it was drawn already")
        try:
            return build(Drawn, json.loads(self._child.line(until)))
        except SilentError:
            return Drawn(error="it was not drawn in time")
        except (EndedError, MalformedError, ValueError, RecursionError):
            return Drawn(error="the process that draws failed; its messages are in the journal")
        finally:
            self.close()

    def png(self, until: float) -> Picture:
        """The one PNG that was asked for."""
        drawn = self.drawn(until)
        if drawn.error or not drawn.pictures:
            return Picture(why=drawn.error, missing=drawn.missing)
        try:
            data = base64.b64decode(drawn.pictures[0], validate=True)
        except (binascii.Error, ValueError):
            return Picture(why="the process that draws failed")
        return Picture(data) if len(data) <= LARGEST_BYTES else Picture(why="the picture is too large")


def pictures(job: DrawJob, forms: Sequence[PictureFormat]) -> Drawn:
    """Several pictures of one time, for a page."""
    with Drawer(job._replace(forms=tuple(forms))) as drawer:
        return drawer.drawn(time.monotonic() + ASKED_FOR_WITHIN_SECONDS)
