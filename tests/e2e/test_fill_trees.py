"""Random trees as background work, ended in every way: nobody is left, and nobody else is touched."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from costguard.tree import processes

from .filled import QUICK, Filled, somebody
from .guarded import PATIENCE, until
from .test_exec_trees import GROW, tree

pytestmark = pytest.mark.thorough

PARTS, RUNS = 20, 10


@pytest.fixture
def filled(tmp_path: Path, nvml_library: Path) -> Iterator[Filled]:
    made = Filled(tmp_path, nvml_library)
    yield made
    made.clean_up()


def told(filled: Filled, process: "subprocess.Popen[bytes]", chance: random.Random) -> None:
    process.send_signal(chance.choice((signal.SIGTERM, signal.SIGINT, signal.SIGHUP)))
    assert process.wait(PATIENCE) == 0, filled.said


def launcher_killed(filled: Filled, process: "subprocess.Popen[bytes]", chance: random.Random) -> None:
    time.sleep(chance.random() * 0.3)
    process.kill()
    process.wait(PATIENCE)


def watcher_killed(filled: Filled, process: "subprocess.Popen[bytes]", chance: random.Random) -> None:
    watcher = filled.watcher_of_fill()
    if watcher is not None:
        processes.send(watcher, signal.SIGKILL)
    time.sleep(chance.random())
    told(filled, process, chance)


def guard_stopped(filled: Filled, process: "subprocess.Popen[bytes]", chance: random.Random) -> None:
    """The watcher stands still, and the launcher is killed before it can see that; or one after the other is killed."""
    watcher = filled.watcher_of_fill()
    if watcher is not None:
        processes.send(watcher, chance.choice((signal.SIGSTOP, signal.SIGKILL)))
        time.sleep(0.1 + chance.random())
    process.kill()
    process.wait(PATIENCE)


def somebody_comes(filled: Filled, process: "subprocess.Popen[bytes]", chance: random.Random) -> None:
    with somebody() as newcomer:
        for gpu in range(2):
            filled.on_gpu(gpu, newcomer.pid)
        until(
            lambda: filled.said.count("is used by") >= 2 and not works(filled),
            told=lambda: (filled.said, filled.ours()),
        )
        told(filled, process, chance)


def works(filled: Filled) -> bool:
    """Whether anybody of the work is there: all but costguard's own."""
    own = (b"costguard", b"nvml.reader")
    for process in filled.ours():
        try:
            line = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        except OSError:
            continue
        if not any(name in line for name in own):
            return True
    return False


def stands_still(filled: Filled, process: "subprocess.Popen[bytes]", chance: random.Random) -> None:
    """The launcher is stopped, and somebody comes."""
    until(lambda: filled.watcher_of_fill() is not None)
    process.send_signal(signal.SIGSTOP)
    with somebody() as newcomer:
        working = [one.pid for one in filled.ours() if one.pid != process.pid]
        for gpu in range(2):
            filled.on_gpu(gpu, newcomer.pid, *working)
        time.sleep(chance.random())
        process.send_signal(signal.SIGCONT)
        told(filled, process, chance)


ENDS = (told, launcher_killed, watcher_killed, guard_stopped, somebody_comes, stands_still)


@pytest.mark.parametrize("part", range(PARTS))
def test_nobody_of_the_work_is_left(filled: Filled, part: int) -> None:
    """Whoever ends first, and in whatever state the trees are; two strangers live on."""
    sleep = [sys.executable, "-S", "-c", "import time; time.sleep(1000)"]
    strangers = [subprocess.Popen(sleep, start_new_session=own) for own in (False, True)]
    for run in range(RUNS):
        chance = random.Random(1000 * part + run)
        for gpu in range(2):
            filled.on_gpu(gpu)
        (filled.folder / "pid").unlink(missing_ok=True)
        (filled.folder / "said").unlink(missing_ok=True)
        grown = tree(chance, ends=chance.random() < 0.3)
        process = filled.start(*QUICK, "--", sys.executable, "-S", "-c", GROW, json.dumps(grown))
        filled.wait_for("pid")
        chance.choice(ENDS)(filled, process, chance)
        filled.until_gone()
    assert [stranger.poll() for stranger in strangers] == [None, None]
    for stranger in strangers:
        stranger.kill()
        stranger.wait()


@pytest.mark.parametrize("part", range(4))
def test_a_closed_terminal_leaves_no_work(filled: Filled, part: int) -> None:
    """The hang-up ends costguard, and all of the work before it."""
    for run in range(10):
        chance = random.Random(5000 + 10 * part + run)
        (filled.folder / "pid").unlink(missing_ok=True)
        work = ("--", sys.executable, "-S", "-c", GROW, json.dumps(tree(chance, ends=False)))
        process, master = filled.start_on_terminal(*QUICK, *work)
        filled.wait_for("pid")
        time.sleep(chance.random() * 0.3)
        os.close(master)
        assert process.wait(PATIENCE) == 0, (part, run)
        filled.until_gone()
