"""Signals as readable events with their origin: signalfd(2), which Python 3.11 lacks."""

import ctypes
import os
import signal
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

SENT_BY_KERNEL = 0x80
"""Origin (si_code) of what a key or the end of a terminal caused. Source: siginfo.h of the kernel."""

_CLOEXEC, _NONBLOCK = 0o2000000, 0o4000
_RECORD = 128  # bytes of a signalfd_siginfo
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None, use_errno=True)


class Received(NamedTuple):
    """One signal, and whether the kernel sent it: then a whole process group has it."""

    number: int
    by_kernel: bool


class BlockedSignals:
    """These signals are blocked from now on, and read from ``fd``."""

    def __init__(self, numbers: Sequence[int], also_blocked: Iterable[int] = ()) -> None:
        self.before = signal.pthread_sigmask(signal.SIG_BLOCK, [*numbers, *also_blocked])
        """The mask that the command gets back."""
        wanted = (ctypes.c_ulong * 16)()
        bits = 8 * ctypes.sizeof(ctypes.c_ulong)
        for number in numbers:
            wanted[(number - 1) // bits] |= 1 << (number - 1) % bits
        self.fd = int(_LIBC.signalfd(-1, ctypes.byref(wanted), _CLOEXEC | _NONBLOCK))
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "signalfd")

    def read(self) -> list[Received]:
        """What came since the last call."""
        found: list[Received] = []
        while True:
            try:
                data = os.read(self.fd, _RECORD)
            except BlockingIOError:
                return found
            number, _error, code = struct.unpack_from("=Iii", data)
            found.append(Received(number, code == SENT_BY_KERNEL))


def become_subreaper() -> None:
    """Orphans among this process's descendants become its children (prctl(2))."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def ended_children() -> Iterator[tuple[int, int]]:
    """Collect each child that has ended, adopted ones too: its number and its status as `os.waitpid` gives it."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, status
