"""For all tests.

An ignored SIGINT is inherited, and a run in the background must test the same as one at a terminal.
No test leaves this machine: `tests.loopback`. Nor does one leave its agents' runtime folders behind.
"""

import fcntl
import glob
import shutil
import signal
from pathlib import Path

import pytest

pytest_plugins = ["tests.loopback"]

signal.signal(signal.SIGINT, signal.default_int_handler)

PLACES = ("/run/costguard-*", "/dev/shm/costguard-*")  # of agents with a --state-dir, by a hash of it
_before: set[str] = set()  # what was there already is somebody else's


def _folders() -> set[str]:
    return {found for place in PLACES for found in glob.glob(place)}


def pytest_sessionstart(session: pytest.Session) -> None:
    """Take note of what is there."""
    del session
    _before.update(_folders())


def pytest_sessionfinish(session: pytest.Session) -> None:
    """At the end of the whole run, not of one of its workers: folders that no agent holds."""
    if hasattr(session.config, "workerinput"):
        return
    for folder in _folders() - _before:
        if not _held(Path(folder) / "guard.lock"):
            shutil.rmtree(folder, ignore_errors=True)


def _held(lock: Path) -> bool:
    try:
        with lock.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except (BlockingIOError, PermissionError):  # an agent's, or another user's altogether
        return True
    return False
