"""For all tests.

An ignored signal is inherited (SIGINT and SIGQUIT in the background, SIGHUP under nohup), and a run in the background must test the same as one at a terminal.
Temporary files lie in memory where that is possible: on a busy disk each atomic replacement waits.
No test leaves this machine: `tests.loopback`. Nor does one leave its agents' runtime folders behind: `tests.leftovers`.
"""

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest_plugins = [
    "tests.loopback",
    "tests.leftovers",
    "tests.libraries",
    "tests.clock",
    "tests.engine.profiles",
    "tests.shares",
]

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)

# Hundreds of short processes, and five that collect: each would compile the same files again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

MEMORY, ROOM = "/dev/shm", 512 << 20
TEMPORARY = ("TMPDIR", "PYTEST_DEBUG_TEMPROOT")


def memory_will_do() -> bool:
    """Whether the tests can write and run their files there; containers often allow neither."""
    try:
        found = os.statvfs(MEMORY)
    except OSError:
        return False
    free = found.f_bavail * found.f_frsize >= ROOM
    return free and not found.f_flag & os.ST_NOEXEC and os.access(MEMORY, os.W_OK)


if not any(name in os.environ for name in TEMPORARY) and memory_will_do():
    os.environ["PYTEST_DEBUG_TEMPROOT"] = MEMORY


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder whose name leaves room in the address of a socket, wherever temporary files lie."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)
