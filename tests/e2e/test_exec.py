"""The installed `costguard exec`: one command, its GPUs, its tree, and whatever may become of each."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from costguard.tree import processes
from tests.clock import Clock

from .guarded import PATIENCE, QUICK, UUIDS, Guarded, python, until


@pytest.fixture
def guarded(tmp_path: Path, nvml_library: Path) -> Iterator[Guarded]:
    made = Guarded(tmp_path, nvml_library)
    yield made
    made.clean_up()


WAITS = ("--", "sh", "-c", "echo $$ > pid; exec sleep 1000")


# -- what the command gives ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("exit 0", 0),
        ("exit 7", 7),
        ("kill -KILL $$", 137),
        ("kill -TERM $$", 143),
        ("kill -SEGV $$", 139),
        ("exit 124", 124),
    ],
)
def test_the_command_s_own_code_passes_through(guarded: Guarded, script: str, code: int) -> None:
    """Its exit code, or 128 and the signal that killed it; with and without two dashes."""
    guarded.gpus.set(util=90)
    assert guarded.run("--", "sh", "-c", script)[0] == code
    if code == 7:
        assert guarded.run("sh", "-c", script)[0] == code


def test_standard_streams_are_the_command_s(guarded: Guarded) -> None:
    """Not a byte more on either of them, and its input is its own."""
    guarded.gpus.set(util=90)
    code, out, err = guarded.run("--", "sh", "-c", "cat; echo problem >&2; exit 3", text=b"in\n")
    assert (code, out, err) == (3, "in\n", "problem\n")


def test_output_that_the_command_closes_ends_for_its_reader(guarded: Guarded) -> None:
    """The launcher keeps no copy of a pipe that it does not use."""
    guarded.gpus.set(util=90)
    process = guarded.start("--", "sh", "-c", "exec >&-; exec sleep 1000")
    assert process.stdout is not None
    assert process.stdout.read() == b""
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 143


def test_signals_and_environment_of_the_command_are_those_of_the_launcher(guarded: Guarded) -> None:
    """No signal is blocked or ignored that was not before; PYTHONPATH and the like stay."""
    guarded.gpus.set(util=90)
    guarded.environment["PYTHONPATH"] = f"{os.getcwd()}:/nowhere"
    masks = "grep -E 'Sig(Blk|Ign)' /proc/self/status"
    code, out, _err = guarded.run("--", "sh", "-c", f"{masks}; echo $PYTHONPATH; pwd")
    assert code == 0
    assert out.splitlines()[:2] == subprocess.check_output(["sh", "-c", masks], text=True).splitlines()
    assert out.splitlines()[2:] == [f"{os.getcwd()}:/nowhere", str(guarded.folder)]


@pytest.mark.parametrize(
    ("program", "code"), [("no-such-program", 127), ("./not-executable", 126), ("/", 126), ("", 127)]
)
def test_a_command_that_cannot_be_run_is_named(guarded: Guarded, program: str, code: int) -> None:
    """127: not found, 126: found; as shells and timeout(1) have it."""
    (guarded.folder / "not-executable").write_text("#!/bin/sh\n")
    found, _out, err = guarded.run("--", program)
    assert found == code
    assert (program or "'' (an empty name)") in err


def test_the_end_is_noticed_at_once(guarded: Guarded) -> None:
    """Also with a long interval."""
    guarded.gpus.set(util=90)
    process = guarded.start("-s", "1h", "--", "sh", "-c", "read line; exit 7", stdin=subprocess.PIPE)
    until(lambda: guarded.watcher() is not None)
    before = time.monotonic()
    process.communicate(b"\n", PATIENCE)
    assert process.returncode == 7
    assert time.monotonic() - before < 1.0


@pytest.mark.parametrize(
    "closed", ["<&- >&- 2>&-", *(pytest.param(one, marks=pytest.mark.thorough) for one in ("<&-", ">&-", "2>&-"))]
)
def test_streams_that_are_closed_stay_closed(guarded: Guarded, closed: str) -> None:
    """For the command; and the guard does without them."""
    lists = "sh -c 'ls -l /proc/$$/fd > fds; exec sleep "

    def run(line: str) -> int:
        return subprocess.run(["sh", "-c", f"{line} {closed}"], env=guarded.environment, cwd=guarded.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=PATIENCE, check=False, start_new_session=True).returncode  # fmt: skip

    def found() -> list[str]:
        return [line.split(maxsplit=8)[8] for line in (guarded.folder / "fds").read_text().splitlines()[1:]]

    assert run(f"{lists}0'") == 0
    native = found()
    assert run(f"{sys.executable} -m costguard exec {' '.join(QUICK)} -- {lists}1000'") == 124
    assert found() == native
    guarded.until_gone()


# -- idle ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", ["exit 0", "exit 3", "sleep 1000"])
def test_an_idle_command_is_ended_with_124(guarded: Guarded, answer: str) -> None:
    """Whatever it answers to the signal; what it was judged by is said."""
    code, _out, err = guarded.run(*QUICK, "--", "sh", "-c", f"trap '{answer}' TERM; while :; do sleep 0.05; done")
    assert code == 124
    assert "idle: below 1 % for 0.6s (3 readings, one every 0.2s)" in err
    assert all(uuid in err for uuid in UUIDS)
    guarded.until_gone()


def test_the_code_and_the_signal_are_the_user_s(guarded: Guarded) -> None:
    """QUIT first, and another code."""
    code, _out, err = guarded.run(*QUICK, "--signal-name", "SIGQUIT", "--idle-code", "1", "--signal-children", "--", "sh", "-c", "trap 'echo quit >&2; exit 0' QUIT; while :; do sleep 0.05; done")  # fmt: skip
    assert code == 1
    assert "quit\n" in err
    assert "QUIT to" in err


def test_work_on_one_gpu_keeps_the_command(guarded: Guarded) -> None:
    """One of two GPUs works: `all` goes on, `any` ends it and names the idle one alone."""
    guarded.gpus.set(1, util=90)
    code, _out, _err = guarded.run(*QUICK, "--", "sleep", "2")
    assert code == 0
    code, _out, err = guarded.run(*QUICK, "-a", "any", "--", "sleep", "1000")
    assert code == 124
    assert UUIDS[0] in err
    assert UUIDS[1] not in err


@pytest.mark.parametrize(("visible", "code"), [("0", 124), ("1", 0), (UUIDS[0], 124), ("GPU-5d000000-0000-4000-8000-000000000001", 0), ("0,1", 0)])  # fmt: skip
def test_only_gpus_that_the_command_may_use_are_judged(guarded: Guarded, visible: str, code: int) -> None:
    """Those that CUDA_VISIBLE_DEVICES names, by number or UUID."""
    guarded.gpus.set(1, util=90)
    guarded.environment["CUDA_VISIBLE_DEVICES"] = visible
    assert guarded.run(*QUICK, "--", "sleep", "2")[0] == code


def test_a_dry_run_ends_nothing(guarded: Guarded) -> None:
    """It says what would be done."""
    code, _out, err = guarded.run(*QUICK, "--dry-run", "--", "sleep", "2")
    assert code == 0
    assert err.count("DRY RUN: idle: below") == 1
    assert "TERM would go to 1 process" in err


@pytest.mark.parametrize("number", [2, *(pytest.param(n, marks=pytest.mark.thorough) for n in (0, 1, 3, 4, 5, 6, 7))])
def test_its_own_end_beside_the_verdict_is_one_or_the_other(guarded: Guarded, number: int) -> None:
    """A command that ends about when the verdict comes: 124 if it was signalled, else its own code, and never between."""
    seconds = 0.75 + number * 0.04
    code, _out, err = guarded.run(*QUICK, *python("import sys, time; time.sleep(float(sys.argv[1]))", str(seconds)))
    assert code == (124 if "TERM to" in err else 0)


def test_its_own_end_comes_before_a_verdict_that_waits(guarded: Guarded) -> None:
    """Both lie before a launcher that was stopped: nobody was signalled, so the command's own code stands."""
    process = guarded.start(*QUICK, "--", "sh", "-c", "echo $$ > pid; read line; exit 5")
    guarded.wait_for("pid")
    process.send_signal(signal.SIGSTOP)
    time.sleep(1.2)
    assert process.stdin is not None
    process.stdin.write(b"\n")
    process.stdin.flush()
    until(lambda: processes.find(int((guarded.folder / "pid").read_text())) is None)
    process.send_signal(signal.SIGCONT)
    assert process.wait(PATIENCE) == 5


def test_the_example_of_the_wrapper_has_the_same_time_line(guarded: Guarded, clock: Clock) -> None:
    """Threshold 50, 6 s, 5 samples, delay 3, a command that hangs: first reading after 18 s, the end after 42 s."""
    clock.run(10)
    guarded.gpus = type(guarded.gpus)(guarded.folder / "gpus", gpus=2, machine=clock.boottime, util=0)
    guarded.environment |= clock.environment() | {"TZ": "UTC"}
    code, _out, err = guarded.run("-t", "50", "-s", "6", "-n", "5", "-d", "3", "-x", "grep", "foo")
    assert code == 124
    lines = [line for line in err.splitlines() if re.match(r"\d{4}-\d\d-\d\d ", line)]
    stamps = [time.mktime(time.strptime(line[:19], "%Y-%m-%d %H:%M:%S")) + float(line[19:23]) for line in lines]
    told = [line.partition("costguard exec: ")[2] for line in lines]
    delays = [at for at, text in zip(stamps, told, strict=True) if text.startswith("delay")]
    readings = [at for at, text in zip(stamps, told, strict=True) if text.startswith(UUIDS[0])]
    verdict = next(at for at, text in zip(stamps, told, strict=True) if text.startswith("idle: below 50 % for 30s"))
    assert [text for text in told if text.startswith("delay")] == ["delay: 12s left", "delay: 6s left"]
    assert len(readings) == 5
    start = delays[0] - 6
    assert [round((at - start) / 6) for at in (*delays, *readings)] == [1, 2, 3, 4, 5, 6, 7]
    assert 0 <= verdict - readings[-1] < 6


# -- telemetry -----------------------------------------------------------------------------------------------


def test_errors_of_telemetry_never_end_healthy_work(guarded: Guarded) -> None:
    """A driver that fails from the first second to the last: unknown is never idle."""
    guarded.gpus.fail("*", 999)
    code, _out, err = guarded.run(*QUICK, "--", "sh", "-c", "sleep 2; exit 5")
    assert code == 5
    assert err.count("not guarded") == 1


@pytest.mark.parametrize("fault", ["fail", "hang", "not given", "crash"])
def test_a_gpu_that_cannot_be_read_any_more_is_not_idle(guarded: Guarded, fault: str) -> None:
    """Work, then a fault for longer than the window: the command goes on."""
    guarded.gpus.set(util=90)
    process = guarded.start(*QUICK, "--", "sh", "-c", "read line; exit 5")
    until(lambda: guarded.watcher() is not None)
    time.sleep(0.5)
    if fault == "fail":
        guarded.gpus.fail("*", 999)
    elif fault == "hang":
        guarded.gpus.hang("*")
    elif fault == "not given":
        guarded.gpus.set(1, util="na")
    else:
        guarded.gpus.fail("nvmlInit", 999)
        reader = next(p for p in guarded.ours() if b"nvml.reader" in Path(f"/proc/{p.pid}/cmdline").read_bytes())
        processes.send(reader, signal.SIGSEGV)
    guarded.gpus.set(0, util=0)
    time.sleep(1.5)
    process.communicate(b"\n", PATIENCE)
    assert process.returncode == 5
    guarded.until_gone()


@pytest.mark.parametrize("gpus", ["none", "no library", "hidden"])
def test_without_a_gpu_the_command_runs_unguarded_or_not_at_all(guarded: Guarded, gpus: str) -> None:
    """It is said once, and the code passes; --require-gpu starts nothing and exits with 3."""
    if gpus == "none":
        guarded.gpus.system(count=0)
    elif gpus == "hidden":
        guarded.environment["CUDA_VISIBLE_DEVICES"] = ""
    else:
        guarded.gpus.fail("nvmlInit", 9)
    code, out, err = guarded.run(*QUICK, "--", "sh", "-c", "sleep 1.5; echo done; exit 6")
    assert (code, out) == (6, "done\n")
    assert err.count("not guarded") == 1, err
    code, out, err = guarded.run(*QUICK, "--require-gpu", "--", "sh", "-c", "echo done")
    assert (code, out) == (3, "")
    assert "was not started" in err
    guarded.until_gone()


def test_with_a_gpu_that_is_required_the_command_is_guarded(guarded: Guarded) -> None:
    """And the delay is counted from its own start."""
    assert guarded.run(*QUICK, "--require-gpu", "--", "sleep", "1000")[0] == 124


# -- the tree ------------------------------------------------------------------------------------------------

DAEMON = """
import os, signal, sys, time
def wait():
    while True: time.sleep(1000)
def ignore():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT): signal.signal(number, signal.SIG_IGN)
def bare(): os.execve(sys.executable, [sys.executable, '-S', '-c', 'import time; time.sleep(1000)', os.getcwd()], {})
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0: ignore(); wait()
    os._exit(0)
if os.fork() == 0:
    if os.fork() == 0: bare()
    os._exit(0)
if os.fork() == 0: ignore(); os.kill(os.getpid(), signal.SIGSTOP); wait()
if os.fork() == 0: os.setpgid(0, 0); ignore(); wait()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0: bare()
    time.sleep(0.05); os._exit(0)
os.wait()
open('pid', 'w').write(str(os.getpid()))
"""


@pytest.fixture
def stranger(guarded: Guarded) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is none of the tree, and looks like it."""
    process = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(1000)"], cwd=guarded.folder)
    yield process
    assert process.poll() is None
    process.kill()
    process.wait()


@pytest.mark.usefixtures("stranger")
def test_nobody_of_the_tree_outlives_an_idle_verdict(guarded: Guarded) -> None:
    """Double forks, sessions and groups of their own, signals ignored, stopped, an empty environment."""
    code, _out, _err = guarded.run(*QUICK, *python(DAEMON + "ignore(); wait()"))
    assert code == 124
    guarded.until_gone()


@pytest.mark.usefixtures("stranger")
def test_whom_the_leader_leaves_behind_is_ended_and_named(guarded: Guarded) -> None:
    """The code is the leader's."""
    guarded.gpus.set(util=90)
    code, _out, err = guarded.run(*QUICK, *python(DAEMON + "os._exit(4)"))
    assert code == 4
    assert "the command ended and left python" in err
    guarded.until_gone()


@pytest.mark.usefixtures("stranger")
def test_the_tree_ends_when_the_launcher_is_killed(guarded: Guarded) -> None:
    """By the watcher, which then ends itself."""
    guarded.gpus.set(util=90)
    process = guarded.start(*QUICK, *python(DAEMON + "ignore(); wait()"))
    guarded.wait_for("pid")
    until(lambda: guarded.watcher() is not None)
    process.kill()
    assert process.wait(PATIENCE) == -9
    guarded.until_gone()
    assert process.stderr is not None
    assert b"the launcher was killed: SIGTERM to" in process.stderr.read()


def test_a_watcher_that_dies_is_started_again_and_the_work_goes_on(guarded: Guarded) -> None:
    """However often; the new one judges as the first one did, by a window of its own."""
    guarded.gpus.set(util=90)
    process = guarded.start(*QUICK, *WAITS)
    guarded.wait_for("pid")
    for _ in range(2):
        until(lambda: guarded.watcher() is not None)
        watcher = guarded.watcher()
        assert watcher is not None
        processes.send(watcher, signal.SIGKILL)
        until(lambda old=watcher: (now := guarded.watcher()) is not None and now.pid != old.pid)  # type: ignore[misc] # a default binds it
        assert process.poll() is None
    guarded.gpus.set(util=0)
    assert process.wait(PATIENCE) == 124
    guarded.until_gone()


def test_a_watcher_that_stands_still_is_replaced_and_the_work_goes_on(guarded: Guarded) -> None:
    """A stopped or hung watcher would leave the command unguarded for ever: it is ended, said once, and the next one judges."""
    guarded.gpus.set(util=90)
    process = guarded.start(*QUICK, *WAITS)
    guarded.wait_for("pid")
    until(lambda: guarded.running(b"nvml.reader") is not None)
    watcher = guarded.watcher()
    assert watcher is not None
    processes.send(watcher, signal.SIGSTOP)
    until(lambda: (now := guarded.watcher()) is not None and now.pid != watcher.pid)
    guarded.gpus.set(util=0)
    _out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 124
    assert err.decode().count("the watcher was silent for 6 s") == 1
    guarded.until_gone()


def test_a_reader_that_outlives_its_watcher_is_none_of_the_command_s(guarded: Guarded) -> None:
    """One that hangs: it is not told as left behind, and does not stay."""
    guarded.gpus.set(util=90)
    process = guarded.start(*QUICK, *python("open('pid', 'w').write('1'); import sys; sys.stdin.read(); sys.exit(3)"))
    guarded.wait_for("pid")
    until(lambda: guarded.running(b"nvml.reader") is not None)
    reader, watcher = guarded.running(b"nvml.reader"), guarded.watcher()
    assert reader is not None
    assert watcher is not None
    processes.send(reader, signal.SIGSTOP)
    processes.send(watcher, signal.SIGKILL)
    _out, err = process.communicate(b"", PATIENCE)
    assert process.returncode == 3
    assert b"left" not in err
    guarded.until_gone()


def test_a_watcher_that_is_stopped_while_it_starts_ends_the_tree_of_a_launcher_that_is_killed(guarded: Guarded) -> None:
    """It has not said a word by then."""
    guarded.gpus.set(util=90)
    process = guarded.start(*QUICK, *python(DAEMON + "ignore(); wait()"))

    def newborn() -> list[int]:
        found = processes.children(process.pid)[:1]
        return [pid for pid in found if b"tree.watcher" in Path(f"/proc/{pid}/cmdline").read_bytes()]

    until(newborn)
    os.kill(newborn()[0], signal.SIGSTOP)
    guarded.wait_for("pid")
    process.kill()
    process.wait(PATIENCE)
    guarded.until_gone()


def test_a_stopped_watcher_ends_the_tree_of_a_launcher_that_is_killed(guarded: Guarded) -> None:
    """The kernel lets it go on then."""
    guarded.gpus.set(util=90)
    process = guarded.start(*QUICK, *python(DAEMON + "ignore(); wait()"))
    guarded.wait_for("pid")
    until(lambda: guarded.running(b"nvml.reader") is not None)
    watcher = guarded.watcher()
    assert watcher is not None
    processes.send(watcher, signal.SIGSTOP)
    process.kill()
    process.wait(PATIENCE)
    guarded.until_gone()


@pytest.mark.parametrize("pause", [0.0, 0.1, 0.4, 1.0])
def test_a_watcher_and_then_the_launcher_killed_leave_nobody(guarded: Guarded, pause: float) -> None:
    """The next watcher begins at once, so that hardly a moment is without one."""
    guarded.gpus.set(util=90)
    process = guarded.start(*QUICK, *python(DAEMON + "ignore(); wait()"))
    guarded.wait_for("pid")
    until(lambda: guarded.watcher() is not None)
    watcher = guarded.watcher()
    assert watcher is not None
    processes.send(watcher, signal.SIGKILL)
    until(lambda: (now := guarded.watcher()) is not None and now.pid != watcher.pid)
    time.sleep(pause)
    process.kill()
    process.wait(PATIENCE)
    guarded.until_gone()


def test_children_that_were_there_before_are_foreign(guarded: Guarded) -> None:
    """A shell that becomes the launcher leaves it its own children: they outlive the command."""
    script = (
        f"sleep 1000 & echo $! > other; exec {sys.executable} -m costguard exec {' '.join(QUICK)} -- sh -c 'exit 9'"
    )
    done = subprocess.run(["sh", "-c", script], env=guarded.environment, cwd=guarded.folder, timeout=PATIENCE, check=False, start_new_session=True, stdout=subprocess.DEVNULL)  # fmt: skip
    assert done.returncode == 9
    other = processes.find(int((guarded.folder / "other").read_text()))
    assert other is not None
    processes.send(other, signal.SIGKILL)


BROKEN = """
import sys
from costguard.tree.jobs import Finish, Judgement, LaunchJob
from costguard.tree.launcher import Launcher
class Broken(Launcher):
    def _turn(self, until): raise RuntimeError('a bug')
job = LaunchJob(('sh', '-c', 'sleep 0.3; exit 7'), Judgement(0.01, 5.0, 300.0, 60.0, 'all'), Finish(15, 1.0), 124, False, False, False)
sys.exit(Broken(job).run())
"""


def test_a_bug_of_the_launcher_does_not_cost_the_work(guarded: Guarded) -> None:
    """It is said, and the command ends by itself."""
    done = subprocess.run([sys.executable, "-c", BROKEN], env=guarded.environment, cwd=guarded.folder, capture_output=True, text=True, timeout=PATIENCE, check=False, start_new_session=True)  # fmt: skip
    assert done.returncode == 7
    assert "internal error (RuntimeError: a bug), please report it" in done.stderr
    guarded.until_gone()


# -- signals -------------------------------------------------------------------------------------------------

COUNTS = """
import os, signal, sys, time
def note(number, frame):
    with open('got', 'a') as file: file.write(signal.Signals(number).name + ' ')
for name in ('TERM', 'INT', 'HUP', 'QUIT', 'WINCH', 'USR1'): signal.signal(getattr(signal, 'SIG' + name), note)
open('pid', 'w').write(str(os.getpid()))
end = time.monotonic() + 60
while time.monotonic() < end: time.sleep(0.02)
"""


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "QUIT", "WINCH", "USR1"])
def test_a_signal_is_passed_on_once(guarded: Guarded, name: str) -> None:
    """And not made harder: the command decides what to do about it."""
    guarded.gpus.set(util=90)
    process = guarded.start(*QUICK, *python(COUNTS))
    guarded.wait_for("pid")
    process.send_signal(getattr(signal, f"SIG{name}"))
    assert guarded.wait_for("got") == f"SIG{name} "
    time.sleep(0.5)
    assert process.poll() is None
    assert guarded.wait_for("got") == f"SIG{name} "
    process.kill()
    process.wait()
    guarded.until_gone()


def test_the_second_signal_of_a_person_ends_the_tree(guarded: Guarded) -> None:
    """TERM twice: the whole tree gets TERM, then KILL; the code tells the signal that ended the leader."""
    guarded.gpus.set(util=90)
    process = guarded.start(*QUICK, *python(COUNTS))
    guarded.wait_for("pid")
    process.terminate()
    guarded.wait_for("got")
    process.terminate()
    assert process.wait(PATIENCE) == 137
    assert process.stderr is not None
    assert b"a second TERM: TERM to 1 process, KILL after 0.3s" in process.stderr.read()
    guarded.until_gone()


def test_a_signal_ends_a_command_that_heeds_it(guarded: Guarded) -> None:
    """128 and its number."""
    guarded.gpus.set(util=90)
    process = guarded.start(*QUICK, *WAITS)
    guarded.wait_for("pid")
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 130
    guarded.until_gone()


@pytest.mark.parametrize("name", ["TERM", "INT"])
def test_a_signal_before_the_start_starts_nothing(guarded: Guarded, name: str) -> None:
    """While --require-gpu waits for a driver."""
    guarded.gpus.hang("*")
    process = guarded.start("--require-gpu", "--", "sh", "-c", "echo started")
    until(lambda: guarded.watcher() is not None)
    process.send_signal(getattr(signal, f"SIG{name}"))
    out, _err = process.communicate(None, PATIENCE)
    assert (process.returncode, out) == (128 + getattr(signal, f"SIG{name}"), b"")
    guarded.until_gone()


def test_a_signal_that_was_ignored_stays_ignored(guarded: Guarded) -> None:
    """Under nohup a hang-up means nothing, however often it comes."""
    guarded.gpus.set(util=90)
    hold = f"trap '' HUP; exec {sys.executable} -m costguard exec {' '.join(QUICK)} -- sh -c 'echo $$ > pid; exec sleep 1000'"
    process = subprocess.Popen(["sh", "-c", hold], env=guarded.environment, cwd=guarded.folder, start_new_session=True)
    guarded.wait_for("pid")
    for _ in range(3):
        process.send_signal(signal.SIGHUP)
        time.sleep(0.1)
    assert process.poll() is None
    process.terminate()
    assert process.wait(PATIENCE) == 143


SUCCESSORS = """
import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
    signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    while True:
        if os.fork():
            os._exit(0)
        os.setsid()
        time.sleep(float(sys.argv[1]))
time.sleep(0.4)
os._exit(3)
"""


@pytest.mark.parametrize("seconds", ["0.003", "0.02"])
def test_who_forks_a_successor_and_exits_faster_than_anybody_looks_is_ended(guarded: Guarded, seconds: str) -> None:
    """A chain of processes of a few milliseconds: the kernel knows that the launcher has a child, whatever /proc showed."""
    guarded.gpus.set(util=90)
    code, _out, err = guarded.run(*QUICK, "--grace", "0.3", *python(SUCCESSORS, seconds))
    assert code == 3
    assert "the command ended and left " in err
    left = [guarded.ours() for _ in range(25)]  # one look may miss it
    assert not any(left), "it was over when the launcher returned"


CHAIN = r"""
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
int main(int count, char **words) {
    int file = open("generations", O_RDWR | O_CREAT, 0644);
    if (count < 4 || ftruncate(file, 8)) return 1;
    volatile long *generations = mmap(0, 8, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    long seconds = atol(words[1]), pause = atol(words[2]), leads = !strcmp(words[3], "session");
    signal(SIGTERM, SIG_IGN);
    if (fork()) return sleep(1000);
    for (time_t end = time(0) + seconds; time(0) < end;) {
        if (fork() > 0) _exit(0);
        if (leads) setsid();
        (*generations)++;
        if (pause) usleep(pause);
    }
}
"""
"""Each forks its successor and exits, for so many seconds, with a pause of so many microseconds; counts them in a file."""

CHAIN_SECONDS = 20


@pytest.mark.usefixtures("stranger")
@pytest.mark.parametrize("kind", ["session", "group"])
@pytest.mark.parametrize("pause", ["0", "500"])
def test_a_chain_of_successors_does_not_outlive_a_launcher_that_is_killed(
    guarded: Guarded, pause: str, kind: str
) -> None:
    """The watcher has the same new parent as each orphan, and finds it there by its mark, however fast it goes."""
    guarded.gpus.set(util=90)
    program = guarded.folder / "chain"
    subprocess.run(["cc", "-O1", "-x", "c", "-", "-o", program], input=CHAIN.encode(), check=True)
    process = guarded.start(*QUICK, "--", str(program), str(CHAIN_SECONDS), pause, kind)
    counted = guarded.folder / "generations"
    until(lambda: guarded.running(b"nvml.reader") is not None and counted.exists() and any(counted.read_bytes()))
    process.kill()
    process.wait(PATIENCE)
    killed, seen, since = time.monotonic(), b"", time.monotonic()
    while time.monotonic() - since < 0.3:  # nobody counts any more
        assert time.monotonic() - killed < CHAIN_SECONDS / 2
        if (now := counted.read_bytes()) != seen:
            seen, since = now, time.monotonic()
        time.sleep(0.02)
    guarded.until_gone()


ELSEWHERE = ["unshare", "--user", "--map-root-user", "--pid", "--fork"]
"""In a process namespace of its own, under the /proc of another."""


@pytest.mark.skipif(
    subprocess.run([*ELSEWHERE, "true"], capture_output=True, check=False).returncode != 0,
    reason="this machine allows no namespaces",
)
def test_under_the_proc_of_another_namespace_the_command_runs_unguarded(guarded: Guarded) -> None:
    """Its processes have other numbers there, so nobody could follow them: said once, and the code passes through."""
    guarded.command = [*ELSEWHERE, *guarded.command]
    code, _out, err = guarded.run(*QUICK, "--", "sh", "-c", "sleep 2; exit 8")
    assert (code, err.count("\n")) == (8, 1)
    assert err.startswith("costguard exec: not guarded: /proc belongs to another process namespace")
    code, _out, err = guarded.run(*QUICK, "--require-gpu", "--", "true")
    assert (code, "the command was not started" in err) == (3, True)
    assert guarded.run(*QUICK, "--", "no-such-program")[0] == 127
    guarded.command = [*guarded.command[:-1], "fill"]
    code, _out, err = guarded.run("--", "true")
    assert (code, "nothing was run" in err) == (3, True)


def test_where_no_file_is_left_the_command_cannot_be_run(guarded: Guarded) -> None:
    """126, as of a program that cannot be run; never the code of a bug."""
    guarded.command = ["sh", "-c", 'ulimit -n 6; exec "$@"', "sh", *guarded.command]
    code, _out, err = guarded.run(*QUICK, "--", "sh", "-c", "exit 2")
    assert code == 126
    assert "sh cannot be run: Too many open files" in err
    assert "Traceback" not in err


LOOKS = """
import os, signal, subprocess, sys, time
from contextlib import suppress
from pathlib import Path
from costguard.tree.members import OwnTree
from costguard.tree.signals import become_subreaper

def collect():
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass

become_subreaper()
tree = OwnTree()
leader = subprocess.Popen(["./chain", "30", sys.argv[1], "group"], start_new_session=True)
counted = Path("generations")
while not (counted.exists() and any(counted.read_bytes())):
    time.sleep(0.01)
leader.kill()
leader.wait()
end, empty, looks = time.monotonic() + 4.0, 0, 0
while time.monotonic() < end:
    collect()
    empty += not tree.members()
    looks += 1
before = counted.read_bytes()
time.sleep(0.05)
print(empty, looks > 5, before != counted.read_bytes())
os.killpg(leader.pid, signal.SIGKILL)
"""
"""Looks for the members of a chain, as a launcher does after its leader has ended: how often there seemed to be none, and whether it still runs."""


@pytest.mark.parametrize("pause", ["0", "500", "3000"])
def test_a_chain_of_successors_is_never_taken_for_nobody(guarded: Guarded, pause: str) -> None:
    """Whoever was alive when /proc was read may be dead, and its successor not yet listed: the kernel's list of children decides."""
    subprocess.run(["cc", "-O1", "-x", "c", "-", "-o", guarded.folder / "chain"], input=CHAIN.encode(), check=True)
    done = subprocess.run(
        [sys.executable, "-c", LOOKS, pause], cwd=guarded.folder, env=guarded.environment,
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout == "0 True True\n"


HEADLESS = """
import ctypes, os, platform, threading, time
threading.Thread(target=lambda: time.sleep(1000)).start()
open("begun", "w").write(str(os.getpid()))
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[platform.machine()], 0)  # exit(2), of this thread alone
"""


def test_a_process_whose_main_thread_has_ended_lives(guarded: Guarded) -> None:
    """It looks dead (state Z), and its threads go on: it is ended as everybody is, and left behind by nobody."""
    code, _out, err = guarded.run(*QUICK, *python(HEADLESS))
    assert code == 124
    assert "TERM to 1 process" in err
    guarded.until_gone()


def test_a_signal_reaches_a_process_whose_main_thread_has_ended(guarded: Guarded) -> None:
    """As it would without the launcher."""
    guarded.gpus.set(util=90)
    process = guarded.start(*QUICK, *python(HEADLESS))
    pid = int(guarded.wait_for("begun"))
    until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z")
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) == 128 + signal.SIGTERM


def test_what_the_command_closes_is_closed(guarded: Guarded) -> None:
    """A pipe that it got as a file of its own ends for its reader, though the launcher lives on: it holds none."""
    guarded.gpus.set(util=90)
    os.mkfifo(guarded.folder / "pipe")
    guarded.command = ["sh", "-c", 'exec 6>pipe; exec "$@"', "sh", *guarded.command]
    code = "import os, time; os.write(6, b'said'); os.close(6); time.sleep(1000)"
    process = guarded.start(*QUICK, *python(code))
    with (guarded.folder / "pipe").open("rb") as file:  # waits for its end
        assert file.read() == b"said"
    assert process.poll() is None
    process.terminate()
    assert process.wait(timeout=20) == 128 + signal.SIGTERM
