"""Random trees under `costguard exec`, ended in every way: nobody is left, nobody else is touched, and the code is right."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from costguard.tree import processes

from .guarded import PATIENCE, QUICK, Guarded, python, until

pytestmark = pytest.mark.thorough

PARTS, RUNS = 20, 15

GROW = """
import json, os, signal, sys, time
def grow(node):
    for step in node['steps']:
        if step == 'session' and os.getpid() != os.getsid(0): os.setsid()
        if step == 'group' and os.getpid() != os.getsid(0): os.setpgid(0, 0)
        if step == 'fork' and os.fork(): os._exit(0)
        if step == 'ignore':
            for name in ('TERM', 'INT', 'HUP', 'QUIT'): signal.signal(getattr(signal, 'SIG' + name), signal.SIG_IGN)
        if step == 'heed': signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        if step == 'late': signal.signal(signal.SIGTERM, lambda *_: (os.fork(), time.sleep(1000)))
    for child in node['children']:
        if os.fork() == 0: grow(child)
    if node['top']: open('pid', 'w').write(str(os.getpid()))
    if node['lives'] is not None: time.sleep(node['lives']); os._exit(node['code'])
    if 'stop' in node['steps']: os.kill(os.getpid(), signal.SIGSTOP)
    if 'bare' in node['steps']: os.execve(sys.executable, [sys.executable, '-S', '-c', 'import time; time.sleep(1000)', os.getcwd()], {})
    while True: time.sleep(1000)
grow(json.loads(sys.argv[1]))
"""

STEPS = ("session", "group", "fork", "ignore", "heed", "late", "stop", "bare")


def node(chance: random.Random, depth: int) -> dict[str, Any]:
    """A process that does some things, starts others, and waits, or ends after a moment."""
    steps = [step for step in STEPS if chance.random() < 0.3]
    children = [node(chance, depth - 1) for _ in range(chance.randrange(3))] if depth else []
    lives = chance.random() * 0.4 if chance.random() < 0.3 else None
    return {"steps": steps, "children": children, "lives": lives, "code": chance.randrange(3), "top": False}


def tree(chance: random.Random, ends: bool) -> dict[str, Any]:
    """One with a leader that stays, for it leads; ``ends``: and ends by itself."""
    top = node(chance, 2)
    top["steps"] = [step for step in top["steps"] if step not in ("fork", "stop", "bare")]
    return {**top, "top": True, "lives": chance.random() * 0.5 if ends else None, "code": chance.randrange(1, 100)}


@pytest.fixture
def guarded(tmp_path: Path, nvml_library: Path) -> Iterator[Guarded]:
    made = Guarded(tmp_path, nvml_library)
    yield made
    made.clean_up()


@pytest.fixture
def strangers(guarded: Guarded) -> Iterator[None]:
    """In this session and in one of their own."""
    sleep = [sys.executable, "-S", "-c", "import time; time.sleep(1000)"]
    started = [subprocess.Popen(sleep, start_new_session=own) for own in (False, True)]
    yield
    assert [process.poll() for process in started] == [None, None]
    for process in started:
        process.kill()
        process.wait()


def launcher_killed(guarded: Guarded, process: "subprocess.Popen[bytes]", chance: random.Random) -> None:
    guarded.gpus.set(util=90)
    until(lambda: guarded.watcher() is not None)
    time.sleep(chance.random() * 0.3)
    process.kill()
    assert process.wait(PATIENCE) == -9


def killed_while_it_ends(guarded: Guarded, process: "subprocess.Popen[bytes]", chance: random.Random) -> None:
    guarded.gpus.set(util=90)
    until(lambda: guarded.watcher() is not None)
    for _ in range(2):
        process.terminate()
        time.sleep(chance.random() * 0.1)
    process.kill()
    process.wait(PATIENCE)


def watcher_killed(guarded: Guarded, process: "subprocess.Popen[bytes]", chance: random.Random) -> None:
    until(lambda: guarded.watcher() is not None)
    watcher = guarded.watcher()
    if watcher is not None:
        processes.send(watcher, signal.SIGKILL)
    assert process.wait(PATIENCE) == 124


def idle(guarded: Guarded, process: "subprocess.Popen[bytes]", chance: random.Random) -> None:
    assert process.wait(PATIENCE) == 124


def told_twice(guarded: Guarded, process: "subprocess.Popen[bytes]", chance: random.Random) -> None:
    guarded.gpus.set(util=90)
    for _ in range(2):
        process.terminate()
        time.sleep(0.05)
    assert process.wait(PATIENCE) in (0, 137, 143)


def guard_killed(guarded: Guarded, process: "subprocess.Popen[bytes]", chance: random.Random) -> None:
    """One after the other, in either order."""
    guarded.gpus.set(util=90)
    until(lambda: guarded.watcher() is not None)
    time.sleep(chance.random() * 0.3)
    watcher = guarded.watcher()
    if watcher is not None and chance.random() < 0.5:
        processes.send(watcher, signal.SIGKILL)
        time.sleep(0.1 + chance.random())  # a new one begins at once
    process.kill()
    assert process.wait(PATIENCE) == -9


def guard_stopped(guarded: Guarded, process: "subprocess.Popen[bytes]", chance: random.Random) -> None:
    """The watcher stands still, and the launcher is killed before it can see that."""
    guarded.gpus.set(util=90)
    until(lambda: guarded.running(b"nvml.reader") is not None)
    watcher = guarded.watcher()
    if watcher is not None:
        processes.send(watcher, signal.SIGSTOP)
        time.sleep(chance.random())
    process.kill()
    assert process.wait(PATIENCE) == -9


def watcher_stopped(guarded: Guarded, process: "subprocess.Popen[bytes]", chance: random.Random) -> None:
    """The next one finds the GPUs idle."""
    until(lambda: guarded.watcher() is not None or process.poll() is not None)
    watcher = guarded.watcher()
    if watcher is not None:
        processes.send(watcher, signal.SIGSTOP)
    assert process.wait(PATIENCE) == 124


ENDS = (launcher_killed, killed_while_it_ends, watcher_killed, idle, told_twice, guard_killed, guard_stopped, watcher_stopped)  # fmt: skip


@pytest.mark.usefixtures("strangers")
@pytest.mark.parametrize("part", range(PARTS))
def test_nobody_is_left_and_nobody_else_is_touched(guarded: Guarded, part: int) -> None:
    """Whoever ends first, and in whatever state the tree is."""
    for run in range(RUNS):
        chance = random.Random(1000 * part + run)
        guarded.gpus.set(util=0)
        (guarded.folder / "pid").unlink(missing_ok=True)
        end = chance.choice((*ENDS, None))
        grown = tree(chance, ends=end is None)
        process = guarded.start(*QUICK, *python(GROW, json.dumps(grown)))
        if end is None:
            guarded.gpus.set(util=90)
            assert process.wait(PATIENCE) == grown["code"], (part, run)
        else:
            guarded.wait_for("pid")
            end(guarded, process, chance)
        guarded.until_gone()


@pytest.mark.usefixtures("strangers")
@pytest.mark.parametrize("part", range(8))
def test_one_that_ends_by_itself_in_the_last_moment_is_gone_too(guarded: Guarded, part: int) -> None:
    """Its own code where nobody was signalled, else 124; whatever it had grown to ends with it."""
    for run in range(10):
        chance = random.Random(7000 + 10 * part + run)
        guarded.gpus.set(util=0)
        grown = tree(chance, ends=True) | {"lives": 0.5 + chance.random() * 0.5, "code": 0}
        process = guarded.start(*QUICK, *python(GROW, json.dumps(grown)))
        _out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == (124 if b"idle: below" in err else 0), (part, run, err)
        guarded.until_gone()


@pytest.mark.usefixtures("strangers")
@pytest.mark.parametrize("part", range(4))
def test_a_closed_terminal_leaves_nobody(guarded: Guarded, part: int) -> None:
    """Who heeds the hang-up ends; who does not is ended when the GPUs are idle, and is guarded until then."""
    for run in range(10):
        chance = random.Random(9000 + 10 * part + run)
        guarded.gpus.set(util=90)
        (guarded.folder / "pid").unlink(missing_ok=True)
        process, master = guarded.start_on_terminal(*QUICK, *python(GROW, json.dumps(tree(chance, ends=False))))
        guarded.wait_for("pid")
        if chance.random() < 0.5:
            until(lambda: guarded.watcher() is not None)
        os.close(master)
        time.sleep(chance.random() * 0.5)
        guarded.gpus.set(util=0)
        assert process.wait(PATIENCE) in {124, 129}, (part, run)
        guarded.until_gone()


@pytest.mark.usefixtures("strangers")
@pytest.mark.parametrize("part", range(4))
def test_a_launcher_killed_at_any_moment_leaves_nobody(guarded: Guarded, part: int) -> None:
    """From before it started anything to when everything runs."""
    guarded.gpus.set(util=90)
    for run in range(10):
        process = guarded.start(*QUICK, *python(GROW, json.dumps(tree(random.Random(100 * part + run), ends=False))))
        time.sleep(0.1 + (10 * part + run) * 0.01)
        process.kill()
        process.wait(PATIENCE)
        guarded.until_gone()
