"""Rows of docs/switching.md: what people wrote for another tool, and what they write here, do the same."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from costguard.testing.nvml import Process as OnGpu
from costguard.tree import processes
from tests.clock import Clock
from tests.schedulers.determined.master import TASK, Master, environment, serving

from .conftest import COMMAND, PATIENCE, Agent
from .filled import WORK, Filled, somebody
from .guarded import QUICK, UUIDS, Guarded, until
from .test_fill import typed_terminal

# -- GPU Sentinel --------------------------------------------------------------------------------------------

SENTINEL = (
    ("--arm_duration 7", "arm_duration", 7.0),
    ("--arm_threshold 0.6", "arm_threshold", 0.6),
    ("--kill_duration 7200", "kill_duration", 7200.0),
    ("--kill_threshold 0.5", "kill_threshold", 0.5),
    ("--kill_action reboot", "kill_action", "reboot"),
    ("--kill_action=end_process", "kill_action", "end_process"),
    ("--gpu_devices 0 1", "gpu_devices", ["0", "1"]),
    ("--arm_duration 0", "arm_duration", 0.0),
)


def told_to_write(*typed: str) -> list[str]:
    """What `costguard run` answers to options of another tool, as words."""
    done = subprocess.run([*COMMAND, "run", *typed], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 2
    hint = done.stderr.splitlines()[-1]
    assert hint.startswith("hint: write `")
    return shlex.split(hint.split("`")[1].partition(" run ")[2])


@pytest.mark.parametrize(("old", "option", "value"), SENTINEL, ids=[row[0] for row in SENTINEL])
def test_an_option_of_gpu_sentinel_has_its_spelling(old: str, option: str, value: object) -> None:
    """GPU Sentinel 1: typed as it was, it is answered with the line that sets the same over the preset."""
    new = told_to_write(*old.split())
    assert new[:2] == ["--preset", "gpu-sentinel"]
    shown = subprocess.run(
        [*COMMAND, "config", "show", *new, "--json"],
        capture_output=True, text=True, timeout=PATIENCE, check=True,
    )  # fmt: skip
    assert json.loads(shown.stdout)["options"][option]["value"] == value


@pytest.mark.parametrize("typed", ["--arm_threshold 80", "--kill_threshold 80", "--kill_duration 0"])
def test_what_gpu_sentinel_misunderstood_is_refused(typed: str) -> None:
    """GPU Sentinel 2, 5: 80 as a share never armed, a count of 0 fired under load; exit code 2, before anything runs."""
    option, value = typed.removeprefix("--").split()
    done = subprocess.run(
        [*COMMAND, "run", "--preset", "gpu-sentinel", "--set", f"{option}={value}"],
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert f"At '{option}': {value} " in done.stderr


def by_preset(agent: Agent, *dropped: str) -> None:
    """Leave the preset its own values, and let time run ten times as fast."""
    agent.settings = [one for one in agent.settings if one.partition("=")[0] not in {"interval", "arm_duration"}]
    agent.hurry(10)


def test_the_preset_runs_as_gpu_sentinel_does(agent: Agent) -> None:
    """GPU Sentinel 1, 3, 7, 11: armed by 30 s of a mean above 80 %, ended by 30 s in a row below 70 %, with 0; it is in the journal."""
    by_preset(agent)
    agent.gpus.set(0, util=100)
    agent.gpus.set(1, util=50)
    agent.start(options=("--live", "--preset", "gpu-sentinel"))
    assert agent.process is not None
    time.sleep(4)  # 40 s: a mean of 75 % arms nothing
    assert not agent.report()["armed"]
    began = agent.clock.boottime()
    agent.gpus.set(1, util=70)
    agent.until(lambda report: bool(report["armed"]))
    assert agent.clock.boottime() - began >= 29.0
    agent.gpus.set(1, util=50)
    time.sleep(4)
    assert agent.process.poll() is None  # between the thresholds nothing changes
    agent.gpus.set(util=30)
    agent.until(lambda report: all(gpu["state"] == "quiet" for gpu in report["gpus"]))
    agent.gpus.set(util=90)  # the count begins anew
    agent.until(lambda report: all(gpu["state"] == "works" for gpu in report["gpus"]))
    began = agent.clock.boottime()
    agent.gpus.set(util=30)
    assert agent.process.wait(PATIENCE) == 0
    assert agent.clock.boottime() - began >= 29.0
    log = (agent.folder / "log").read_text()
    for word in ("IDLE", "ARMED", "DONE"):
        assert word in log
    agent.process = None


def test_a_gpu_that_is_not_there_is_named_at_once(agent: Agent) -> None:
    """GPU Sentinel 4: neither a crash at the first look nor a watch of nothing."""
    agent.start("gpu_devices=0,7")
    assert "7" in agent.until(lambda report: bool(report["lacking"]))["lacking"]
    assert agent.process is not None
    assert agent.process.poll() is None


# -- GPU Idle Timeout as a watcher ---------------------------------------------------------------------------

HOOK = "-t 50 -s 30 -n 6 -d 2 -a any -x"
"""Of its README."""


def test_the_hook_of_the_watcher_runs_its_command_once(agent: Agent) -> None:
    """GPU Idle Timeout as a watcher 2, 3, 4, 6: no child, one idle GPU is enough, it alone is named, a command with its variables."""
    script = agent.folder / "end-this-task"
    script.write_text(f'#!/bin/sh\necho "$*" >> {agent.folder}/ended\n')
    script.chmod(0o755)
    new = told_to_write(*HOOK.split())
    assert new[:2] == ["--preset", "gpu-idle-timeout-any"]
    agent.settings = [one for one in agent.settings if one.partition("=")[0] not in {"interval", "arm_duration"}]
    agent.hurry(40)
    agent.gpus.set(0, util=90, power=600, memory_used=40_000, processes=[OnGpu(os.getpid(), 40_000)])
    agent.start(
        f'actions.command.run=["{script}", "{{gpus}}", "{{reason}}"]', options=("--live", *new),
    )  # fmt: skip
    began = agent.clock.boottime()
    agent.until(lambda report: report["phase"] == "DONE" and report["done"] == "acted")
    assert agent.clock.boottime() - began >= 180.0
    time.sleep(2)  # theirs would have run it ten times by now
    ended = (agent.folder / "ended").read_text().splitlines()
    assert ended == ["0000:02:00.0 idle"]
    assert "GPU 1" in (agent.folder / "log").read_text()


def test_the_hook_of_a_determined_task_ends_it(agent: Agent) -> None:
    """GPU Idle Timeout as a watcher 3: their own example as the page has it; one idle GPU of two is enough, and the task is killed once."""
    page = (Path(__file__).parents[2] / "docs" / "switching.md").read_text(encoding="utf-8")
    (line,) = [one.strip() for one in page.splitlines() if "DET_ALLOCATION_ID" in one and "costguard run" in one]
    options = shlex.split(line.removesuffix("&").partition(" run ")[2])[:-2]  # the folder is the test's own
    made = Master()
    made.add("notebooks", TASK, slots=2)
    agent.settings = [one for one in agent.settings if one.partition("=")[0] not in {"interval", "arm_duration"}]
    agent.hurry(40)
    agent.gpus.set(0, util=90, power=600, memory_used=40_000, processes=[OnGpu(os.getpid(), 40_000)])
    with serving(made):
        agent.environment |= environment(made.url, "NOTEBOOK", DET_SLOT_IDS="[0,1]")
        agent.start(options=options)
        began = agent.clock.boottime()
        agent.until(lambda report: report["phase"] == "DONE" and report["done"] == "acted")
    assert agent.clock.boottime() - began >= 180.0
    assert made.killed == [f"/api/v1/notebooks/{TASK}/kill"]


@pytest.mark.parametrize("word", ["ANY", "none"])
def test_another_word_for_all_or_any_is_refused(word: str) -> None:
    """GPU Idle Timeout as a watcher 1: at the start, with 2, in every spelling; theirs ended itself unseen, with 0."""
    for typed in (
        ("run", *told_to_write("--all_or_any", word)),
        *(("exec", flag, word, "true") for flag in ("-a", "--all-or-any", "--all_or_any", "--aggregate")),
    ):
        done = subprocess.run([*COMMAND, *typed], capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 2, typed
        assert word in done.stderr
        assert "allowed: all" in done.stderr


# -- GPU Idle Timeout around a command -----------------------------------------------------------------------


@pytest.fixture
def guarded(tmp_path: Path, nvml_library: Path) -> Iterator[Guarded]:
    made = Guarded(tmp_path, nvml_library)
    yield made
    made.clean_up()


HANGS = ("sleep", "1000")
ROWS: Sequence[tuple[str, Sequence[str], int, str]] = (
    ("-t 50", ("--threshold 50%", "--threshhold-percentage 50", "--threshold-percentage=50"), 124, "below 50 % for 0.6s"),
    ("-s 0.3", ("--interval 0.3s", "--sample-freq 0.3"), 124, "readings, one every 0.3s"),
    ("-n 4", ("--window 0.8s", "--num-samples 4"), 124, "(4 readings, one every 0.2s)"),
    ("-a any", ("--aggregate any", "--all-or-any any", "--all_or_any any"), 124, UUIDS[0]),
    ("--signal-name SIGQUIT", ("--signal QUIT", "--signal SIGQUIT", "--signal 3"), 124, "QUIT to 1 process"),
    ("--signal-children", ("",), 124, "TERM to 1 process"),
    ("", ("--grace 0.2s",), 124, "KILL after 0."),
    ("--idle-code 1", ("--idle-code=1",), 1, "idle: below"),
)  # fmt: skip
"""Theirs, ours in all spellings, the exit code of a command that hangs, and what is said."""


@pytest.mark.parametrize("row", ROWS, ids=[f"{row[0]} {row[1][0]}" for row in ROWS])
def test_an_option_of_the_wrapper_does_the_same_in_every_spelling(guarded: Guarded, row: tuple[str, Sequence[str], int, str]) -> None:  # fmt: skip
    """GPU Idle Timeout around a command 2, 4: a command that hangs on idle GPUs ends in the same way."""
    old, spellings, code, says = row
    if "any" in old:
        guarded.gpus.set(1, util=90)
    for words in (old, *spellings):
        kept = [pair for pair in zip(QUICK[::2], QUICK[1::2], strict=True) if not replaced(pair[0], words)]
        found, _out, err = guarded.run(*[part for pair in kept for part in pair], *words.split(), *HANGS)
        assert found == code, (words, err)
        assert says in err, words
        assert ("any" in old) == (UUIDS[1] not in err)
        guarded.until_gone()


def replaced(flag: str, words: str) -> bool:
    """Whether these words say what the flag says."""
    same = {"-s": ("-s", "--interval", "--sample"), "-n": ("-n", "--window", "--num"), "--grace": ("--grace",)}
    return words.startswith(same.get(flag, ("nothing",)))


@pytest.mark.parametrize("words", ["-d 6", "--delay 1.2s", "--delay-samples 6"])
def test_the_delay_of_the_wrapper_is_the_same_in_every_spelling(guarded: Guarded, words: str) -> None:
    """GPU Idle Timeout around a command 2: the first reading that counts is the sixth."""
    code, _out, err = guarded.run("-s", "0.2", "-n", "2", "-x", *words.split(), *HANGS)
    assert code == 124
    counts = err.index(f"{UUIDS[0]} 0%")
    left = re.findall(r"delay: ([\d.]+)s left", err[:counts])
    expected = ["1", "0.8", "0.6", "0.4", "0.2"]
    assert left, err
    # a busy machine may miss one, and takes none twice
    assert left == [second for second in expected if second in left], err
    assert "left" not in err[counts:]
    assert err.count(f"{UUIDS[0]} 0%") == 2


@pytest.mark.parametrize("words", ["-x", "--debug", ""])
def test_each_reading_is_shown_by_uuid_where_asked(guarded: Guarded, words: str) -> None:
    """GPU Idle Timeout around a command 3: every GPU in each; without it nothing is said."""
    guarded.gpus.set(util=90)
    code, _out, err = guarded.run(*QUICK, *words.split(), "sleep", "1.5")
    assert code == 0
    assert [f"{uuid} 90%" in err for uuid in UUIDS] == [bool(words)] * 2
    assert bool(err) == bool(words)


@pytest.mark.parametrize("words", ["-t 0", "-t 101", "-s 0", "-n 0", "--signal-name SIG_BLOCK", "--signal-name raise_signal", "-a ANY"])  # fmt: skip
def test_wrong_options_start_nothing(guarded: Guarded, words: str) -> None:
    """GPU Idle Timeout around a command: exit code 2, and what is allowed."""
    code, out, err = guarded.run(*words.split(), "sh", "-c", "echo started")
    assert (code, out) == (2, "")
    assert words.split(maxsplit=1)[0] in err


def test_a_load_at_the_threshold_is_not_idle(guarded: Guarded) -> None:
    """GPU Idle Timeout around a command 2: strictly below, as there; the negative delay is none."""
    guarded.gpus.set(util=50)
    assert guarded.run("-s", "0.2", "-n", "3", "-d", "-4", "-t", "50", "sleep", "1.5")[0] == 0
    assert guarded.run("-s", "0.2", "-n", "3", "-d", "-4", "-t", "51", *HANGS)[0] == 124


@pytest.mark.parametrize("words", ["--signal-name SIGQUIT", "--signal QUIT --signal-children"])
def test_a_shell_that_ignores_the_signal_leaves_nobody(guarded: Guarded, words: str) -> None:
    """GPU Idle Timeout around a command 4: `trap "" QUIT; sleep 48 & wait` leaves no process behind, and nothing on the GPU."""
    script = f'trap "" QUIT; sleep 48 & echo $! > {guarded.folder}/pid; wait'
    assert guarded.run(*QUICK, *words.split(), "sh", "-c", script)[0] == 124
    guarded.until_gone()
    assert processes.find(int((guarded.folder / "pid").read_text())) is None


@pytest.mark.thorough
def test_the_wrapper_s_defaults_are_ours(guarded: Guarded, clock: Clock) -> None:
    """GPU Idle Timeout around a command 2: 1 %, 5 s, 60 readings, delay 12: the verdict after 355 s, not before."""
    clock.run(30)
    guarded.gpus = type(guarded.gpus)(guarded.folder / "gpus", gpus=2, machine=clock.boottime, util=0)
    guarded.environment |= clock.environment()
    began = clock.boottime()
    code, _out, err = guarded.run("sleep", "100000")
    assert code == 124
    assert "idle: below 1 % for 5m (60 readings, one every 5s)" in err
    assert clock.boottime() - began >= 355.0


def test_the_entry_point_of_an_experiment_ends_when_its_training_hangs(guarded: Guarded, clock: Clock) -> None:
    """GPU Idle Timeout around a command 2, its README's second example: 20 %, 3 s, 7 samples, delay 1; one GPU shows 1 % to the end."""
    clock.run(10)
    guarded.gpus = type(guarded.gpus)(guarded.folder / "gpus", gpus=2, machine=clock.boottime, util=70)
    guarded.environment |= clock.environment()
    train = ("python3", "-m", "this.is.no.module")
    assert guarded.run("-t", "20", "-s", "3", "-n", "7", "-d", "1", "-x", *train)[0] == 1, "its own code"
    process = guarded.start("-t", "20", "-s", "3", "-n", "7", "-d", "1", "-x", "sh", "-c", "sleep 1000 & wait")
    until(lambda: guarded.watcher() is not None)
    time.sleep(3)
    assert process.poll() is None
    hung = clock.boottime()
    guarded.gpus.set(0, util=0)
    guarded.gpus.set(1, util=1)
    _out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 124
    assert clock.boottime() - hung >= 18.0
    assert b"idle: below 20 % for 21s (7 readings, one every 3s)" in err
    guarded.until_gone()


# -- the stressor that fills idle GPUs -----------------------------------------------------------------------


@pytest.fixture
def filled(tmp_path: Path, nvml_library: Path) -> Iterator[Filled]:
    made = Filled(tmp_path, nvml_library)
    yield made
    made.clean_up()


def test_with_the_stressor_s_times_it_is_as_quick(filled: Filled) -> None:
    """The stressor 1, 5: begins with the first look, is gone two seconds after somebody came, and back within the next ones."""
    work = ("--", sys.executable, "-S", "-c", WORK)
    process = filled.start("--idle-for", "0s", "--rest", "0s", "--grace", "0.5s", "--gpus", "0", *work)
    filled.until_working(1)
    with somebody() as newcomer:
        filled.on_gpu(0, newcomer.pid)
        came = time.monotonic()
        filled.until_working(0)
        assert time.monotonic() - came < 2.5
    filled.on_gpu(0)
    left = time.monotonic()
    filled.until_working(1)
    assert time.monotonic() - left < 3.0
    assert filled.said.count("GPU 0 is free") == 2  # once for each change, not in each look
    filled.end(process)


def test_by_default_work_waits_for_a_gpu_that_stays_free(filled: Filled) -> None:
    """The stressor 5: what restarts within a moment gets its GPU back."""
    process = filled.start("--gpus", "0", "--", "sh", "-c", "echo begun > begun.now; sleep 1000")
    until(lambda: "GPU 0 is free" in filled.said)
    assert "work begins on a GPU that stays free for 10s" in filled.said
    time.sleep(3)
    assert not (filled.folder / "begun.now").exists()
    filled.end(process)


# -- gpu_mon -------------------------------------------------------------------------------------------------

SPELLINGS = ("its file", "imported", "options")
NOW = ("--idle-for", "0s", "--rest", "0s", "--grace", "0.3s")


def configured(filled: Filled, spelling: str, ini: str, options: Sequence[str], work: str) -> "subprocess.Popen[bytes]":
    """Start the same work from gpu_mon's file, from what is made of it, or by options alone."""
    (filled.folder / "gpu_mon.conf").write_text(ini)
    if spelling == "options":
        return filled.start(*NOW, *options, "--", *shlex.split(work))
    if spelling == "imported":
        made = [*COMMAND, "import", "gpu-mon", "gpu_mon.conf", "--output", "fill.toml"]
        subprocess.run(made, cwd=filled.folder, env=filled.environment, check=True, timeout=PATIENCE)
    return filled.start(*NOW, "--config", "fill.toml" if spelling == "imported" else "gpu_mon.conf")


def ini(process: str, *, ignore: str = "nvidia-smi", tty: str = "enabled=False") -> str:
    """A file with one kind of work."""
    return f"[defaults]\ninterval_seconds=1\n[gpu-all]\ngpus=ALL\nignore_programs={ignore}\n[process-x]\n{process}\n[tty]\n{tty}\n"


@pytest.fixture
def work(filled: Filled) -> str:
    """A command that says that it began, with a blank in an argument."""
    (filled.folder / "work.sh").write_text(f'echo "$1"\nexec {shlex.join([sys.executable, "-S", "-c", WORK])}\n')
    return "sh ./work.sh 'two words'"


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_work_for_all_gpus_of_gpu_mon(filled: Filled, work: str, spelling: str) -> None:
    """gpu_mon 1, 3, 5: interval, ignored names, ALL, folder, command and log; made room for somebody, not for who is ignored."""
    folder = filled.folder
    file = ini(f"gpus=ALL\ndir={folder}\ncmd={work}\nlog={folder}/log", ignore="nvidia-smi, ignored-miner")
    options = ("--interval", "1s", "--together", "--directory", str(folder), "--log", f"{folder}/log", "--ignore", "ignored-miner")  # fmt: skip
    (folder / "log").write_text("before\n")
    with somebody("ignored-miner") as ignored, somebody("ignored") as other:
        filled.on_gpu(0, ignored.pid)
        process = configured(filled, spelling, file, options, work)
        filled.until_working(1)
        assert filled.begun()[0][1] == ",".join(UUIDS)
        assert (folder / "log").read_text() == "before\ntwo words\n"
        filled.on_gpu(0, ignored.pid, other.pid)
        filled.until_working(0)
        filled.end(process)


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize(("gpus", "begins"), [("1", [UUIDS[1]]), ("0,1", [",".join(UUIDS)])])
def test_work_for_some_gpus_of_gpu_mon(filled: Filled, work: str, spelling: str, gpus: str, begins: list[str]) -> None:
    """gpu_mon 5, 7: one process with all of its GPUs, once, which yields when the last of them is taken."""
    options = ("--gpus", gpus, *(["--together"] if "," in gpus else []))
    process = configured(filled, spelling, ini(f"gpus={gpus}\ndir=.\ncmd={work}"), options, work)
    filled.until_working(1)
    time.sleep(1.5)
    assert [gpu for _, gpu in filled.begun()] == begins
    with somebody() as newcomer:
        filled.on_gpu(1, newcomer.pid)
        filled.until_working(0)
    filled.end(process)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_work_for_each_gpu_of_gpu_mon(filled: Filled, work: str, spelling: str) -> None:
    """gpu_mon 6: the second example of its README: one process for each GPU, each with its own variable, each makes room alone."""
    parts = "\n".join(f"[process-{gpu}]\ngpus={gpu}\ndir={filled.folder}\ncmd={work}" for gpu in range(2))
    file = ini("gpus=0").replace("[process-x]\ngpus=0", parts)
    process = configured(filled, spelling, file, ("--gpus", "0,1"), work)
    filled.until_working(2)
    assert sorted(gpu for _, gpu in filled.begun()) == sorted(UUIDS)
    with somebody() as newcomer:
        filled.on_gpu(0, newcomer.pid)
        filled.until_working(1)
        assert [gpu for pid, gpu in filled.begun() if pid in filled.working()] == [UUIDS[1]]
        filled.end(process)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_users_of_gpu_mon(filled: Filled, work: str, spelling: str) -> None:
    """gpu_mon 2: a key that was pressed keeps the work away for the same time."""
    file = ini(f"gpus=ALL\ndir=.\ncmd={work}", tty="enabled=True\nwhitelist=nobody-here\nidle_seconds=3000")
    options = ("--together", "--users", "3000s", "--ignore-users", "nobody-here")
    with typed_terminal():
        process = configured(filled, spelling, file, options, work)
        until(lambda: " on pts/" in filled.said, told=lambda: filled.said)
        time.sleep(1.0)
        assert not filled.begun()
        filled.end(process)


def test_ctrl_c_and_the_end_of_gpu_mon_s_successor_leave_no_work(filled: Filled, work: str) -> None:
    """gpu_mon 5: a signal to costguard alone ends the work first; its wrapper's child, too."""
    process = configured(filled, "its file", ini(f"gpus=ALL\ndir=.\ncmd={work}"), (), work)
    filled.until_working(1)
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(PATIENCE) == 0
    assert not filled.working()
    filled.until_gone()
