"""How a tree is ended: who is signalled, in what order, and what becomes of those that cannot be."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from costguard.tree.ending import AGAIN_SECONDS, GIVEN_UP_SECONDS, TreeEnding
from costguard.tree.jobs import Finish
from costguard.tree.processes import TreeProcess, find, send

HARD = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(1000)"


@pytest.fixture
def hard() -> Iterator[TreeProcess]:
    """A process that ignores TERM."""
    started = subprocess.Popen([sys.executable, "-S", "-c", HARD], stdout=subprocess.PIPE)
    assert started.stdout is not None
    with started.stdout as pipe:
        pipe.readline()
    process = find(started.pid)
    assert process is not None
    yield process
    started.kill()
    started.wait()


def lives(process: TreeProcess) -> list[TreeProcess]:
    now = find(process.pid)
    return [] if now is None else [now]


def test_kill_comes_after_the_grace_and_not_before(hard: TreeProcess) -> None:
    """By the clock that is given."""
    ending = TreeEnding(lambda: lives(hard), Finish(signal.SIGTERM, 10.0), 100.0, print)
    assert not ending.step(109.9)
    time.sleep(0.1)  # what is killed takes a moment to be gone
    assert lives(hard)
    assert not ending.step(110.0)
    end = time.monotonic() + 30
    while lives(hard):
        assert time.monotonic() < end
    assert ending.step(111.0)


def test_a_second_wish_is_kill_at_once(hard: TreeProcess) -> None:
    """The grace is over."""
    ending = TreeEnding(lambda: lives(hard), Finish(signal.SIGTERM, 1000.0), 100.0, print)
    ending.hurry(101.0)
    ending.step(101.0)
    end = time.monotonic() + 30
    while lives(hard):
        assert time.monotonic() < end


def test_a_number_that_another_process_has_now_is_not_signalled(hard: TreeProcess) -> None:
    """A process is its number and its start."""
    assert send(hard._replace(born=hard.born + 1), signal.SIGKILL) == "gone"
    assert lives(hard)


def test_who_cannot_be_ended_is_told_at_once_and_waited_for_no_longer_than_the_grace() -> None:
    """A member that became another user: named with the first signal, and again at the end."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            if os.geteuid() == 0:
                os.setresuid(65534, 65534, 65534)
            code = _refused()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def _refused() -> int:
    first = find(1)
    if first is None or send(first, 0) != "refused":
        return 2
    said: list[str] = []
    ending = TreeEnding(lambda: [first], Finish(0, 10.0), 100.0, said.append)
    told = [line for line in said if "another user" in line]
    if len(told) != 1 or first.name not in told[0] or ending.step(100.0 + AGAIN_SECONDS):
        return 3
    over = ending.step(110.0)
    return 0 if over and len(said) == 2 and "could not be ended" in said[1] else 4


def test_a_process_that_survives_kill_is_named_and_given_up() -> None:
    """As one that hangs in a driver: the launcher must not hang with it."""
    ghost = TreeProcess(1 << 22, 1, 1, 1, 1, False, "hangs")
    said: list[str] = []
    ending = TreeEnding(lambda: [ghost], Finish(signal.SIGTERM, 1.0), 100.0, said.append)
    assert not ending.step(101.0)
    assert ending.step(101.0 + GIVEN_UP_SECONDS)
    assert said == ["1 process could not be ended: hangs 4194304"]
