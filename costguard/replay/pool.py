"""Long work on several cores: child processes take their parts of it and hand back what came of it."""

import os
import pickle
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

Found = TypeVar("Found")

MOST = 4
"""Processes at most; each works out the levels of its policies anew."""

WORTHWHILE = 1_000_000
"""Decisions, of one policy on one sample each, from which on a further process is paid back."""


def parts(decisions: int) -> int:
    """How many processes share this much work: one where this process cannot be forked safely."""
    if decisions < WORTHWHILE or sys.platform != "linux" or threading.active_count() > 1:
        return 1
    return min(MOST, len(os.sched_getaffinity(0)))


def shared(count: int, work: Callable[[int], Found]) -> list[Found]:
    """The results of ``work`` for 0 to ``count`` - 1: the first part in this process, the others in children.

    What a child could not finish is done here, so that an error is the same as without children.
    """
    children = {part: _child(work, part) for part in range(1, count)}
    try:
        found = [work(0)]
        for part in range(1, count):
            pid, end = children[part]
            with open(end, "rb") as pipe:
                handed = pipe.read()
            _, status = os.waitpid(pid, 0)
            del children[part]
            found.append(pickle.loads(handed) if status == 0 else work(part))  # noqa: S301 - from our own child
        return found
    finally:
        for pid, end in children.values():
            with suppress(OSError):
                os.close(end)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _child(work: Callable[[int], object], part: int) -> tuple[int, int]:
    """Start a child; gives its process id and where it writes what came of it."""
    end, begin = os.pipe()
    with warnings.catch_warnings():
        # the threads that pyarrow leaves behind wait, and no child uses it
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        os.close(begin)
        return pid, end
    try:
        os.close(end)
        with open(begin, "wb") as pipe:
            pickle.dump(work(part), pipe, pickle.HIGHEST_PROTOCOL)
    except BaseException:  # noqa: BLE001 - whatever it was, the parent does the work again and meets it
        os._exit(1)
    os._exit(0)
