"""What the loop needs from the machine under it.

`costguard.host.real` is the real one (the only select, exec, kill and clock of the guard);
`costguard.testing.simhost` is its twin on virtual time.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol


class Instant(NamedTuple):
    """One reading of all clocks, in seconds.

    ``boot`` counts suspended time (CLOCK_BOOTTIME), ``mono`` does not (CLOCK_MONOTONIC); their
    difference jumps when the machine was suspended. ``wall`` is the date, trusted only when
    ``synced`` (None: cannot tell).
    """

    boot: float
    mono: float
    wall: float
    synced: bool | None


class Line(NamedTuple):
    """A child wrote one line (without its newline)."""

    child: int
    data: bytes


class Ended(NamedTuple):
    """A child ended: its exit code, or minus the signal that killed it."""

    child: int
    code: int


class Request(NamedTuple):
    """A control client sent one line; ``uid`` is its user, as the kernel knows it."""

    client: int
    uid: int
    data: bytes


class Signal(NamedTuple):
    """TERM, INT or HUP arrived."""

    name: str


HostEvent = Line | Ended | Request | Signal


class Unwatched:
    """Nobody looks at a subject any more, or it begins anew: nobody knows whether it works."""


UNWATCHED = Unwatched()

Report = Callable[[str, str | Unwatched | None], None]
"""Called with a subject and the message of what is wrong with it, None when it works again, or `UNWATCHED`."""


class SpawnFailed(Exception):
    """A child could not be started; the message says why."""


class ChildHost(Protocol):
    """What whoever keeps child processes needs: the processes, and a voice. No method blocks."""

    def spawn(self, program: str, job: bytes) -> int:
        """Start a child (``nvml``, ``cloud``, ``act``, ``notify``, ``persist``, ``configure``, ``history``) and send it its job.

        Raises SpawnFailed.
        """

    def send(self, child: int, line: bytes) -> bool:
        """Write one line (newline added) to a child; False when it is gone or its pipe is full."""

    def kill(self, child: int) -> None:
        """SIGKILL the child's whole session and forget it: no event of it follows. Never waits."""

    def unreaped(self, program: str = "") -> int:
        """Count the killed children, of one program or of all, that still exist.

        Such a child is in uninterruptible sleep, in a driver or a file system.
        """

    def say(self, line: str) -> None:
        """Write one line to the journal; one that would block is dropped and counted.

        It may begin with ``<0>`` to ``<7>``, the priority of sd-daemon(3).
        """


class Host(ChildHost, Protocol):
    """Everything with an effect. No method blocks, except `wait` until its time."""

    def clock(self) -> Instant:
        """Read all clocks."""

    def wait(self, until: float) -> Sequence[HostEvent]:
        """Sleep until something happened or the boot clock reads ``until``; returns nothing then."""

    def answer(self, client: int, line: bytes) -> None:
        """Answer a control client (newline added)."""

    def save(self, data: bytes) -> str | None:
        """Replace the state file in the runtime directory atomically. Returns an error message or None."""

    def save_commitments(self, data: bytes) -> str | None:
        """Replace the runtime copy of the commitments. Returns an error message or None."""

    def service(self, message: str) -> None:
        """Send one datagram to the service manager (sd_notify), if there is one."""
