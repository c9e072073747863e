"""What every watcher is made of: its child processes and clocks, the launcher at its pipes, and its end."""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, TypeVar

from costguard.clocks import boot_clock
from costguard.host.children import Children
from costguard.host.poller import READ, Poller
from costguard.host.ports import Ended, HostEvent, Instant, Line
from costguard.process.command_lines import command_lines
from costguard.process.wire import from_line, to_line
from costguard.tree.ending import end_orphaned
from costguard.tree.jobs import BEAT_SECONDS, Finish, Origin
from costguard.tree.members import Followed, put_on, watcher_mark
from costguard.tree.speech import Speech, fill_standard

LONGEST_NAP_SECONDS = 0.5
"""The end of the reader is seen within that time."""

_CHUNK = 1 << 20


class WatchedJob(Protocol):
    """What every job of a watcher has."""

    @property
    def origin(self) -> Origin:
        """Where the tree comes from."""

    @property
    def finish(self) -> Finish:
        """How it is ended where the launcher was killed."""


J = TypeVar("J", bound=WatchedJob)


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


class WatcherLoop:
    """What a watcher does whatever it looks for: it turns until its launcher has ended, and then ends what that left.

    ``words``: the pipe up to the launcher.
    """

    def __init__(self, followed: Followed, finish: Finish, words: int, speech: Speech, *, debug: bool = False) -> None:
        self._followed, self._finish, self._words, self._speech = followed, finish, words, speech
        self._poller = Poller()
        self._machine = ReaderPorts(self._poller, speech, debug=debug)
        self._next_pulse = 0.0
        self._input = b""
        self._gone = False  # whether the launcher is

    def run(self) -> int:
        """Watch until the launcher ends this process, or has ended itself."""
        os.set_blocking(0, False)
        os.set_blocking(self._words, False)  # a launcher that stands still reads nothing
        self._poller.add(0, READ, self._read)
        while not self._gone:
            self._pulse(time.monotonic())
            due = self.turn()
            events: list[HostEvent] = []
            self._poller.poll(min(max(0.0, due - boot_clock()), LONGEST_NAP_SECONDS), events)
            self._machine.reap(events)
            for event in events:
                if isinstance(event, Line | Ended):
                    self.take(event)
        end_orphaned(self._followed, self._finish, self._speech.say)
        self._machine.close()
        return 0

    def turn(self) -> float:
        """Do what is due, and say when the next thing is, on the boot clock."""
        raise NotImplementedError

    def hear(self, line: bytes) -> None:
        """Take a line from the launcher."""
        raise NotImplementedError

    def take(self, event: Line | Ended) -> None:
        """Take a line of a child, or its end."""
        raise NotImplementedError

    def say(self, value: object) -> None:
        """Tell the launcher. One that reads nothing now gets the next word; that it is gone the other pipe tells."""
        with suppress(OSError):
            os.write(self._words, to_line(value) + b"\n")

    def _read(self, fd: int, _events: list[HostEvent]) -> None:
        """The end of the pipe is the end of the launcher."""
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return
        self._gone = not data
        self._input += data
        while b"\n" in self._input:
            line, _, self._input = self._input.partition(b"\n")
            self.hear(line)

    def _pulse(self, now: float) -> None:
        """Write an empty line, when it is time: this process does not stand still."""
        if now >= self._next_pulse:
            self._next_pulse = now + BEAT_SECONDS
            with suppress(OSError):  # full, or nobody reads: the other pipe tells
                os.write(self._words, b"\n")


def serve(kind: type[J], watcher: Callable[[J, int], WatcherLoop]) -> int:
    """Be the watcher of the launcher on standard input and output; ``watcher`` is given its job and the pipe up."""
    os.closerange(3, 1 << 20)  # the caller's files are the command's and the launcher's
    fill_standard(inheritable=True)
    line = _first_line()
    if not line:
        return 0
    job = from_line(kind, line)
    put_on(watcher_mark(job.origin.launcher, job.origin.born))
    words = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)
    return watcher(job, words).run()


def _first_line() -> bytes:
    """The job from the launcher, byte by byte: what follows is for the loop."""
    line = b""
    while not line.endswith(b"\n"):
        data = os.read(0, 1)
        if not data:
            return b""
        line += data
    return line
