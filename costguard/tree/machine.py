"""What a watcher has of the machine: child processes, clocks, and a voice; and how it gets its job."""

import os
import time
from collections.abc import Sequence
from contextlib import suppress

from costguard.clocks import boot_clock
from costguard.host.children import Children
from costguard.host.poller import Poller
from costguard.host.ports import HostEvent, Instant
from costguard.process.command_lines import command_lines
from costguard.tree.jobs import BEAT_SECONDS
from costguard.tree.speech import Speech


class ReaderPorts:
    """The part of a guard's host that a reader needs."""

    def __init__(self, poller: Poller, speech: Speech, *, debug: bool) -> None:
        self._children = Children(poller, command_lines(), dict(os.environ))
        self._speech, self._debug = speech, debug
        self.spawn, self.send, self.kill = self._children.spawn, self._children.send, self._children.kill
        self.unreaped, self.reap, self.close = self._children.unreaped, self._children.reap, self._children.close

    def clock(self) -> Instant:
        """All clocks, now. Whether the date is right is no matter here."""
        return Instant(boot_clock(), time.monotonic(), time.time(), None)

    def say(self, line: str) -> None:
        """What the reader's side has to tell is for those who look closely."""
        if self._debug:
            self._speech.say(line[3:] if line[:1] == "<" else line)

    # what a reader never asks for
    def wait(self, until: float) -> Sequence[HostEvent]:
        """Unused: the watcher waits by itself."""
        raise NotImplementedError

    def answer(self, client: int, line: bytes) -> None:
        """Unused: nobody asks a watcher anything."""

    def save(self, data: bytes) -> str | None:  # noqa: ARG002 - the interface of a host
        """Unused: a watcher keeps nothing."""
        return None

    def save_commitments(self, data: bytes) -> str | None:  # noqa: ARG002 - the interface of a host
        """Unused: a watcher keeps nothing."""
        return None

    def service(self, message: str) -> None:
        """Unused: a watcher is no service."""


class Pulse:
    """What tells the launcher that its watcher does not stand still; ``words``: the pipe up, which does not block."""

    def __init__(self, words: int) -> None:
        self._words = words
        self._next = 0.0

    def beat(self, now: float) -> None:
        """Write an empty line, when it is time."""
        if now < self._next:
            return
        self._next = now + BEAT_SECONDS
        with suppress(OSError):  # full, or nobody reads: the other pipe tells
            os.write(self._words, b"\n")


def first_line() -> bytes:
    """The job from the launcher, byte by byte: what follows is for the loop."""
    line = b""
    while not line.endswith(b"\n"):
        data = os.read(0, 1)
        if not data:
            return b""
        line += data
    return line
