"""`costguard exec` at a terminal: keys, job control, pipelines, and the terminal's end."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from costguard.tree import processes

from .guarded import PATIENCE, QUICK, Guarded, until
from .test_exec import COUNTS

EXEC = f"{sys.executable} -m costguard exec"
SLOW = ("-s", "0.2", "-n", "10", "-d", "0", "--grace", "0.3")


@pytest.fixture
def guarded(tmp_path: Path, nvml_library: Path) -> Iterator[Guarded]:
    made = Guarded(tmp_path, nvml_library)
    made.gpus.set(util=90)
    (tmp_path / "counts.py").write_text(COUNTS)
    yield made
    made.clean_up()


@pytest.fixture
def shell(guarded: Guarded) -> Iterator["pexpect.spawn[str]"]:
    """An interactive shell on a terminal of its own."""
    spawned = pexpect.spawn(
        "bash", ["--norc", "--noprofile", "-i"], env=guarded.environment | {"PS1": "READY> ", "TERM": "dumb", "LANGUAGE": "en"},
        cwd=str(guarded.folder), timeout=PATIENCE, encoding="utf-8", echo=False, dimensions=(24, 200),
    )  # fmt: skip
    spawned.expect_exact("READY> ")
    yield spawned
    spawned.close(force=True)


def line(*arguments: str) -> str:
    return " ".join((EXEC, *arguments))


def test_ctrl_c_reaches_the_command_once(guarded: Guarded, shell: "pexpect.spawn[str]") -> None:
    """As without costguard: the terminal signals the group, and nobody a second time."""
    shell.sendline(line(*QUICK, "--", sys.executable, "-S", "counts.py"))
    guarded.wait_for("pid")
    shell.sendintr()
    assert guarded.wait_for("got") == "SIGINT "
    shell.send("\x1c")
    until(lambda: guarded.wait_for("got") == "SIGINT SIGQUIT ")
    shell.setwinsize(30, 100)
    until(lambda: guarded.wait_for("got") == "SIGINT SIGQUIT SIGWINCH ")
    shell.sendintr()
    shell.expect_exact("READY> ")
    shell.sendline("echo code $?")
    shell.expect_exact("code 137")  # the second one meant it
    guarded_ones = [p for p in guarded.ours() if p.pid != shell.pid]
    assert not guarded_ones


def test_ctrl_z_stops_and_fg_goes_on(guarded: Guarded, shell: "pexpect.spawn[str]") -> None:
    """The shell has its job control; while the job is stopped its GPUs rest, and that counts for nothing."""
    shell.sendline(line(*SLOW, "--", "cat"))
    until(lambda: guarded.watcher() is not None)
    shell.sendline("one")
    shell.expect_exact("one")
    guarded.gpus.set(util=0)
    shell.send("\x1a")
    shell.expect("Stopped")
    shell.expect_exact("READY> ")
    shell.sendline("sleep 3; echo slept")  # longer than the window
    shell.expect_exact("slept")
    guarded.gpus.set(util=90)
    shell.sendline("fg")
    shell.sendline("two")
    shell.expect_exact("two")
    shell.sendeof()
    shell.expect_exact("READY> ")
    shell.sendline("echo code $?")
    shell.expect_exact("code 0")


def test_a_pipeline_keeps_the_terminal(guarded: Guarded, shell: "pexpect.spawn[str]") -> None:
    """The next program of the pipe may read the terminal, as a pager does."""
    shell.sendline(
        line(*QUICK, "--", "sh", "-c", "'echo first; exec sleep 1000'")
        + " | sh -c 'read x; echo got $x; read y < /dev/tty; echo typed $y'"
    )
    shell.expect_exact("got first")
    shell.sendline("this")
    shell.expect_exact("typed this")
    shell.sendintr()
    shell.expect_exact("READY> ")
    until(lambda: guarded.watcher() is None)


@pytest.mark.parametrize("ignores", [False, True])
def test_nothing_outlives_a_closed_terminal(guarded: Guarded, shell: "pexpect.spawn[str]", ignores: bool) -> None:
    """The window is closed: shell, launcher and command end, also one that ignores the hang-up but not its launcher's end."""
    trap = "trap '' HUP; " if ignores else ""
    shell.sendline(line(*QUICK, "--", "sh", "-c", f'"{trap}echo $$ > pid; sleep 1000 & wait"'))
    guarded.wait_for("pid")
    until(lambda: guarded.watcher() is not None)
    shell.close(force=not ignores)
    if ignores:  # it wants to live on, as under nohup; the guard goes on too, and ends it when it is idle
        guarded.gpus.set(util=0)
    guarded.until_gone()


def test_as_the_first_process_of_a_terminal(guarded: Guarded) -> None:
    """A container's or a window's first program: the hang-up comes to it alone, and is passed on."""
    spawned = pexpect.spawn(
        sys.executable, ["-m", "costguard", "exec", *QUICK, "--", sys.executable, "-S", "counts.py"],
        env=guarded.environment, cwd=str(guarded.folder), timeout=PATIENCE,
    )  # fmt: skip
    guarded.wait_for("pid")
    until(lambda: guarded.watcher() is not None)
    os.close(spawned.child_fd)
    assert guarded.wait_for("got").split()[0] == "SIGHUP"
    processes.send(next(p for p in guarded.ours() if p.pid == spawned.pid), signal.SIGKILL)
    os.waitpid(spawned.pid, 0)
    spawned.closed = True
    spawned.terminated = True
    guarded.until_gone()


OWN_GROUP = """
import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: os._exit(3))
os.setpgid(0, 0)
open('pid', 'w').write(str(os.getpid()))
while True: time.sleep(1000)
"""


def test_a_command_that_leads_a_group_of_its_own_is_told_too(guarded: Guarded, shell: "pexpect.spawn[str]") -> None:
    """As an interactive shell does at a terminal: TERM for the guard is meant for the command, wherever that has gone."""
    (guarded.folder / "own.py").write_text(OWN_GROUP)
    shell.sendline(line(*QUICK, "--", sys.executable, "-S", "own.py") + " & wait $!; echo code $?")
    guarded.wait_for("pid")
    launcher = guarded.running(b"costguard.tree.launcher")
    assert launcher is not None
    processes.send(launcher, signal.SIGTERM)
    shell.expect_exact("code 3")


def test_a_dropped_connection_ends_the_shell_under_the_guard(guarded: Guarded) -> None:
    """`ssh -t host costguard exec -- bash`: the hang-up comes to the guard alone; the shell and its jobs end, as without it."""
    process, master = guarded.start_on_terminal(*SLOW, "--", "bash", "--norc", "--noprofile", "-i")
    os.write(master, b"echo yes > ready; sleep 1000\n")
    guarded.wait_for("ready")
    os.close(master)
    assert process.wait(PATIENCE) == 129
    guarded.until_gone()


@pytest.mark.parametrize("how", ["idle", "killed"])
def test_the_terminal_is_as_before_whatever_a_command_left(
    guarded: Guarded, shell: "pexpect.spawn[str]", how: str
) -> None:
    """A full screen is ended in the middle: to the shell that is an ordinary exit code, after which it keeps the modes that it finds."""
    raw = "'import os, time, tty; tty.setraw(0); open(chr(112), chr(119)).write(str(os.getpid())); time.sleep(1000)'"
    shell.sendline(line(*QUICK, "--", sys.executable, "-c", raw))
    pid = int(guarded.wait_for("p"))
    if how == "idle":
        guarded.gpus.set(util=0)
    else:
        os.kill(pid, signal.SIGKILL)
    shell.expect_exact("READY> ")
    shell.sendline("echo code $?; stty -a")
    shell.expect_exact("code 124" if how == "idle" else "code 137")
    shell.expect(r"[ -]icanon")
    assert shell.match.group() == " icanon"
