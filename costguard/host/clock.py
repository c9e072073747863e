"""All clocks, and whether the date can be trusted."""

import os
import time
from collections.abc import Callable

from costguard.clocks import boot_clock
from costguard.host.ports import Instant

CHECK_SECONDS = 600.0
"""Between two checks whether the wall clock is synchronised: each costs a process, 12 ms of CPU."""

SYNCED_CHECK_SECONDS = 3600.0
"""The same once it is: the kernel says so for hours after the last correction, and a date that was set is seen at once."""

_TIMEOUT_SECONDS = 20.0  # then a check without an answer counts as "cannot tell"
_JUMP_SECONDS = 1.0  # of suspension, or of a date that was set: the date must be checked again


class Clock:
    """Reads the clocks; asks the kernel about synchronisation now and then, without waiting.

    ``start`` takes a command line and returns the id of a process without pipes, or None.
    """

    def __init__(self, argv: list[str], start: Callable[[list[str]], int | None]) -> None:
        self._argv, self._start = argv, start
        self._synced: bool | None = None
        self._check: int | None = None
        self._due = boot_clock()
        self._gap = self._due - time.monotonic()
        self._epoch = time.time() - self._due  # the date of the boot

    def now(self) -> Instant:
        """One reading of all clocks."""
        boot, mono = boot_clock(), time.monotonic()
        if boot - mono - self._gap > _JUMP_SECONDS:  # resumed: the date comes from a cheap battery clock again
            self._synced, self._due = None, boot
        self._gap = boot - mono
        wall = time.time()
        if not -_JUMP_SECONDS <= wall - boot - self._epoch <= _JUMP_SECONDS:  # it was set, by whom is unknown
            self._epoch, self._due = wall - boot, boot
        return Instant(boot, mono, wall, self._synced)

    def check(self) -> float:
        """Start a check that is due, collect one that ended; never waits. Returns the boot clock that it read."""
        now = boot_clock()
        if self._check is not None:
            self._collect(now)
        elif now >= self._due:
            self._check, self._due = self._start(self._argv), now + _TIMEOUT_SECONDS
            if self._check is None:
                self._due = now + CHECK_SECONDS
        return now

    def _collect(self, now: float) -> None:
        assert self._check is not None
        try:
            ended, status = os.waitpid(self._check, os.WNOHANG)
        except ChildProcessError:
            ended, status = self._check, 0x200
        if not ended and now < self._due:
            return
        code = os.waitstatus_to_exitcode(status) if ended else 2
        self._synced = {0: True, 1: False}.get(code)
        if ended:  # one that hangs is left alone and looked at again; no second one is started beside it
            self._check = None
        self._due = now + (SYNCED_CHECK_SECONDS if self._synced else CHECK_SECONDS)
