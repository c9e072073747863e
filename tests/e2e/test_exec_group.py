"""A tree in a control group of its own, where the kernel lets this user divide one, and without where it does not."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from costguard.tree import cgroup

from .guarded import PATIENCE, QUICK, Guarded, until

SHEDS = """
import os, resource, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        resource.setrlimit(resource.RLIMIT_RTTIME, (resource.RLIM_INFINITY,) * 2)
        os.execve(sys.executable, [sys.executable, '-S', '-c', 'import time; time.sleep(1000)', os.getcwd()], {})
    time.sleep(0.1); os._exit(0)
os.wait()
open('pid', 'w').write(str(os.getpid()))
time.sleep(1000)
"""


@pytest.fixture
def guarded(tmp_path: Path, nvml_library: Path) -> Iterator[Guarded]:
    made = Guarded(tmp_path, nvml_library)
    made.gpus.set(util=90)
    yield made
    made.clean_up()


@pytest.fixture
def delegated() -> Iterator[str]:
    """A group that was handed over as systemd does it; empty where this machine has none to give."""
    folder = f"{cgroup._own()}/test-{os.getpid()}" if cgroup._own() else ""
    try:
        os.mkdir(folder)
        os.setxattr(folder, "user.delegate", b"1")
    except OSError:
        with suppress(OSError):
            os.rmdir(folder)
        folder = ""
    yield folder
    if folder:
        os.rmdir(folder)


def start(guarded: Guarded, folder: str, *command: str) -> "subprocess.Popen[bytes]":
    """A launcher that begins in that group."""
    code = f"import os, sys; open(sys.argv[1] + '/cgroup.procs', 'w').write('0') if sys.argv[1] else None; os.execv(sys.executable, [sys.executable, '-m', 'costguard', 'exec', *{list(QUICK)!r}, '--', *sys.argv[2:]])"
    return subprocess.Popen([sys.executable, "-c", code, folder, *command], env=guarded.environment, cwd=guarded.folder, start_new_session=True)  # fmt: skip


def groups(folder: str) -> list[str]:
    """The groups below it."""
    return [entry.name for entry in os.scandir(folder) if entry.is_dir()] if folder else []


@pytest.mark.parametrize("killed", [False, True])
def test_nobody_leaves_a_group(guarded: Guarded, delegated: str, killed: bool) -> None:
    """Not even who sheds parent, session, environment and mark before the watcher saw him; the group goes with the tree."""
    process = start(guarded, delegated, sys.executable, "-S", "-c", SHEDS if delegated else "import time; open('pid', 'w').write('1'); time.sleep(1000)")  # fmt: skip
    guarded.wait_for("pid")
    until(lambda: guarded.watcher() is not None)
    assert [name.startswith("costguard-exec-") for name in groups(delegated)] == [True] * bool(delegated)
    process.send_signal(signal.SIGKILL if killed else signal.SIGTERM)
    assert process.wait(PATIENCE) == (-9 if killed else 143)
    guarded.until_gone()
    end = time.monotonic() + PATIENCE
    while groups(delegated):
        assert time.monotonic() < end
        time.sleep(0.02)
