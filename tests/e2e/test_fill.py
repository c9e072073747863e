"""The installed `costguard fill`: work on GPUs that nobody uses, and how it makes room."""

import os
import pty
import pwd
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from costguard.testing.nvml import Process as OnGpu
from costguard.tree import processes

from .filled import QUICK, WORK, Filled, somebody
from .guarded import PATIENCE, UUIDS, until


@pytest.fixture
def filled(tmp_path: Path, nvml_library: Path) -> Iterator[Filled]:
    made = Filled(tmp_path, nvml_library)
    yield made
    made.clean_up()


@contextmanager
def typed_terminal() -> Iterator[None]:
    """A terminal of this user on which a key was pressed just now."""
    pid, master = pty.fork()
    if pid == 0:
        os.execvp("cat", ["cat"])
    os.write(master, b"key\n")
    assert os.read(master, 100)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(master)


def test_each_free_gpu_gets_its_process_and_loses_it_at_the_end(filled: Filled) -> None:
    """Stressor: a filler for each GPU, by UUID, and nothing is left when costguard is told to end."""
    process = filled.begin()
    filled.until_working(2)
    assert sorted(gpu for _, gpu in filled.begun()) == sorted(UUIDS)
    filled.end(process)
    assert not filled.working()


# -- who makes room, and who does not ------------------------------------------------------------------------


def test_somebody_who_comes_has_the_gpu_within_two_seconds(filled: Filled) -> None:
    """Stressor, gpu_mon: deaf work with a child that left its session is gone, the other GPU's goes on, the newcomer is not touched."""
    process = filled.begin(work=("--deaf", "--child"))
    filled.until_working(4)
    on_first = [pid for pid, gpu in filled.begun() if gpu == UUIDS[0]]
    with somebody() as newcomer:
        came = time.monotonic()
        filled.on_gpu(0, newcomer.pid, *on_first)
        until(lambda: not set(on_first) & set(filled.working()), told=lambda: filled.said)
        assert time.monotonic() - came < 2.0, filled.said
        assert len(filled.working()) == 2
        assert re.search(rf"GPU 0 is used by \S+ {newcomer.pid} of uid {os.getuid()}; TERM to 2 processes", filled.said)
        assert newcomer.poll() is None
    filled.on_gpu(0)
    filled.until_working(4)
    filled.end(process)


def test_the_tree_of_the_work_is_not_somebody_else(filled: Filled) -> None:
    """gpu_mon: a wrapper's child that opens the GPU belongs to the work, whatever it did to its parent and session."""
    process = filled.begin(work=("--child",))
    pids = filled.until_working(4)
    filled.on_gpu(0, *[pid for pid, gpu in filled.begun() if gpu == UUIDS[0]])
    filled.on_gpu(1, *[pid for pid, gpu in filled.begun() if gpu == UUIDS[1]])
    time.sleep(1.5)
    assert filled.working() == pids
    assert len(filled.begun()) == 4
    filled.end(process)


def test_ignored_programs_are_nobody_by_their_exact_name(filled: Filled) -> None:
    """gpu_mon: to ignore `python-miner` does not ignore `python`; blanks after commas are no part of a name."""
    with somebody("python-miner") as ignored, somebody("python") as other, somebody("Xorg") as screen:
        filled.on_gpu(0, ignored.pid, screen.pid)
        filled.on_gpu(1, other.pid, ignored.pid)
        process = filled.begin("--ignore", "other, python-miner")
        filled.until_working(1)
        time.sleep(1.0)
        assert [gpu for _, gpu in filled.begun()] == [UUIDS[0]]
        filled.end(process)


@pytest.mark.parametrize("pid", [0, 4_194_303, 1 << 31])
def test_processes_that_cannot_be_known_start_nothing(filled: Filled, pid: int) -> None:
    """Stressor: a container's numbers mean nothing here; that is unknown, said once, and unknown is never free."""
    filled.on_gpu(0, pid)
    process = filled.begin()
    filled.until_working(1)
    time.sleep(1.5)
    assert [gpu for _, gpu in filled.begun()] == [UUIDS[1]]
    assert filled.said.count("GPU 0 cannot be judged") == 1
    filled.end(process)


def test_in_a_namespace_of_its_own_nothing_is_started(filled: Filled) -> None:
    """Stressor: the driver lists nobody there, or others' numbers."""
    wrapped = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if os.geteuid() != 0 or os.spawnvp(os.P_WAIT, "unshare", [*wrapped, "true"]) != 0:
        wrapped = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"]
        if os.spawnvp(os.P_WAIT, "unshare", [*wrapped, "true"]) != 0:
            pytest.skip("this machine makes no namespace of processes")
    filled.wrapper = wrapped
    del filled.environment["COSTGUARD_HOST__STANDS_FOR_HOST"]
    process = filled.begin()
    until(lambda: "in a container the driver's process numbers mean nothing" in filled.said, told=lambda: filled.said)
    time.sleep(1.5)
    assert not filled.begun()
    process.kill()


def test_work_that_cannot_be_judged_yields_and_begins_again(filled: Filled) -> None:
    """Stressor: a driver that fails once ends nothing; one that fails for longer than --unknown-for ends the work, not costguard."""
    process = filled.begin()
    first = filled.until_working(2)
    filled.gpus.fail("nvmlDeviceGetComputeRunningProcesses", 999)
    time.sleep(0.5)
    filled.gpus.heal()
    time.sleep(1.0)
    assert filled.working() == first
    filled.gpus.fail("nvmlDeviceGetComputeRunningProcesses", 999)
    filled.until_working(0)
    assert "could not be judged for 1s" in filled.said
    filled.gpus.heal()
    assert filled.until_working(2) != first
    filled.end(process)


def test_a_hung_driver_is_unknown(filled: Filled) -> None:
    """The work yields while nobody can be seen."""
    process = filled.begin()
    filled.until_working(2)
    filled.gpus.hang("*")
    filled.until_working(0)
    filled.gpus.heal()
    filled.end(process)


def test_by_load_who_only_holds_a_gpu_is_nobody(filled: Filled) -> None:
    """Stressor: idle by use or by presence, as one likes: an idle notebook holds a GPU for ever, and yields nothing until it works."""
    with somebody() as notebook:
        filled.on_gpu(0, notebook.pid)
        process = filled.begin("--by", "load", "--gpus", "0")
        work = filled.until_working(1)
        own = OnGpu(work[0], sm=99)
        filled.gpus.set(0, util=99, processes=[own, OnGpu(notebook.pid)])
        time.sleep(1.0)
        assert filled.working() == work
        filled.gpus.set(0, util=99, processes=[own, OnGpu(notebook.pid, sm=40)])
        filled.until_working(0)
        filled.end(process)


def test_whoever_types_on_a_terminal_has_the_gpus(filled: Filled) -> None:
    """gpu_mon: a key that was pressed prevents the start for --users, and those of an ignored user do not."""
    with typed_terminal():
        patient = filled.begin("--users", "1h")
        until(lambda: " on pts/" in filled.said)
        time.sleep(1.0)
        assert not filled.begun()
        filled.end(patient)
        process = filled.begin("--users", "1h", "--ignore-users", pwd.getpwuid(os.getuid()).pw_name)
        filled.until_working(2)
        filled.end(process)


# -- how work begins -----------------------------------------------------------------------------------------


def test_work_has_folder_environment_and_log(filled: Filled) -> None:
    """gpu_mon: the environment is extended, not replaced; the log is written, appended, and no program; quoting is the shell's."""
    (filled.folder / "0").mkdir()
    log = filled.folder / "log-0"
    log.write_text("before\n")
    filled.environment["KEPT"] = "yes"
    shown = ("sh", "-c", 'echo "$KEPT $ADDED $CUDA_VISIBLE_DEVICES $(pwd)"; echo problem >&2; cat')
    process = filled.start(*QUICK, "--gpus", "0", "--once", "--env", "ADDED=two words", "--directory", "{gpu}", "--log", "log-{gpu}", "--", *shown)  # fmt: skip
    assert process.wait(PATIENCE) == 0, filled.said
    assert log.read_text() == f"before\nyes two words {UUIDS[0]} {filled.folder}/0\nproblem\n"
    process = filled.start(*QUICK, "--once", "--log", "log-{gpu}", "--", "echo", "again")
    assert process.wait(PATIENCE) == 0, filled.said
    assert log.read_text().endswith("again\n")
    assert (filled.folder / "log-1").stat().st_mode & 0o133 == 0


def test_one_process_for_all_gpus_makes_room_for_each_of_them(filled: Filled) -> None:
    """gpu_mon: a set of GPUs has one process, which yields when any of them is taken."""
    process = filled.begin("--together")
    filled.until_working(1)
    assert filled.begun()[0][1] == ",".join(UUIDS)
    with somebody() as newcomer:
        filled.on_gpu(1, newcomer.pid)
        filled.until_working(0)
        time.sleep(1.5)
        assert not filled.working()
    filled.on_gpu(1)
    filled.until_working(1)
    filled.end(process)


@pytest.mark.parametrize(
    ("visible", "chosen", "expected"),
    [("1", "all", UUIDS[1]), (UUIDS[0], "0", UUIDS[0]), ("", UUIDS[1].upper(), UUIDS[1]), ("", "1", UUIDS[1])],
)
def test_gpus_are_chosen_by_number_or_uuid(filled: Filled, visible: str, chosen: str, expected: str) -> None:
    """Stressor: CUDA_VISIBLE_DEVICES of costguard's own environment limits them, and work gets UUIDs."""
    if visible:
        filled.environment["CUDA_VISIBLE_DEVICES"] = visible
    process = filled.begin("--gpus", chosen)
    filled.until_working(1)
    time.sleep(0.5)
    assert [gpu for _, gpu in filled.begun()] == [expected]
    filled.end(process)


def test_without_a_gpu_or_with_a_wrong_one_it_ends_and_says_why(filled: Filled) -> None:
    """Stressor: zero GPUs are an error, 3, and no silent loop; a GPU that is not there is 2, and those that are there are named."""
    assert filled.begin("--gpus", "7").wait(PATIENCE) == 2
    assert f"there is no GPU 7 to use; there are 0 ({UUIDS[0]}), 1 ({UUIDS[1]})" in filled.said
    filled.gpus.system(count=0)
    assert filled.begin().wait(PATIENCE) == 3
    assert "no GPU can be used: the driver lists no GPU" in filled.said
    filled.gpus.system(count=2)
    filled.gpus.fail("nvmlInit", 9)
    assert filled.begin().wait(PATIENCE) == 3
    assert "the driver is not loaded" in filled.said
    filled.until_gone()
    assert not filled.begun()


def test_work_that_crashes_begins_again_later_and_later(filled: Filled) -> None:
    """Stressor: no start each second: 0.5, 1, 2 s; the GPU's memory of it is its own."""
    process = filled.start(*QUICK, "--gpus", "0", "--", "sh", "-c", "echo x >> starts; exit 3")
    time.sleep(0.4)
    until(lambda: "ended with exit code 3; again in 2s" in filled.said, told=lambda: filled.said)
    assert [filled.said.count(f"again in {pause}s") for pause in ("0.5", "1", "2")] == [1, 1, 1]
    assert len((filled.folder / "starts").read_text().split()) == 3
    filled.end(process)


def test_what_cannot_be_started_is_said_and_tried_later(filled: Filled) -> None:
    """gpu_mon: a command that is not there is no end of costguard."""
    process = filled.start(*QUICK, "--gpus", "0", "--", "./no-such-program")
    why = "no-such-program on GPU 0 cannot be started: the program ./no-such-program cannot be run: No such file or directory"
    until(lambda: filled.said.count(why) == 2, told=lambda: filled.said)
    assert process.poll() is None
    filled.end(process)


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("--log={folder}/none/log", "the log {folder}/none/log cannot be written: No such file or directory"),
        ("--directory={folder}/none", "the directory {folder}/none cannot be entered: No such file or directory"),
    ],
)
def test_what_a_start_failed_at_is_said_with_its_path(filled: Filled, option: str, why: str) -> None:
    """Whose disk is full, or whose folder was removed meanwhile; once that is mended the work begins."""
    process = filled.begin("--gpus", "0", option.format(folder=filled.folder))
    until(lambda: f"cannot be started: {why.format(folder=filled.folder)}; again in" in filled.said, told=lambda: filled.said)  # fmt: skip
    (filled.folder / "none").mkdir()
    until(lambda: "begins (process" in filled.said)
    filled.end(process)


@pytest.mark.parametrize("end", ["told", "killed"])
def test_a_log_that_nobody_reads_keeps_no_other_work_from_yielding(filled: Filled, end: str) -> None:
    """Whatever a start waits for, a pipe or a disk that does not answer: the launcher does not. Nor is anybody left of such a start."""
    os.mkfifo(filled.folder / "log-1")
    process = filled.begin("--log", f"{filled.folder}/log-{{gpu}}")
    filled.until_working(1)
    until(lambda: len(filled.ours()) >= 5)  # launcher, watcher, reader, the work, and one that waits for its log
    with somebody() as other:
        filled.on_gpu(0, other.pid)
        filled.until_working(0)
        filled.on_gpu(0)
        filled.until_working(1)
        if end == "told":
            with (filled.folder / "log-1").open("rb"):
                filled.until_working(2)
            filled.end(process)
        else:
            process.kill()
            process.wait(PATIENCE)
            filled.until_gone()


def test_slow_work_is_started_exactly_once(filled: Filled) -> None:
    """gpu_mon: work that has not opened its GPU yet at the next looks is not started again."""
    process = filled.begin()
    filled.until_working(2)
    time.sleep(2.0)
    assert len(filled.begun()) == 2
    filled.end(process)


def test_a_dry_run_says_what_would_begin_and_ends(filled: Filled) -> None:
    """It starts nothing: one look, and a line for each place of work."""
    with somebody("newcomer") as newcomer:
        filled.on_gpu(0, newcomer.pid)
        process = filled.begin("--dry-run")
        assert process.wait(PATIENCE) == 0, filled.said
    assert f"DRY RUN: python3 on GPU 0 would wait: GPU 0 is used by newcomer {newcomer.pid} of uid" in filled.said.replace(os.path.basename(sys.executable), "python3")  # fmt: skip
    assert "on GPU 1 would begin once it has been free for 0.4s" in filled.said
    assert not filled.begun()
    filled.until_gone()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--directory", "/no/folder", "--", "true"), "the directory /no/folder cannot be entered: No such file or directory"),
        (("--directory", "/etc/passwd", "--", "true"), "the directory /etc/passwd cannot be entered: Not a directory"),
        (("--directory", "work-{gpu}", "--", "true"), "the directory work-1 cannot be entered: No such file or directory"),
        (("--log", "/no/folder/log", "--", "true"), "the log /no/folder/log cannot be written: there is no folder /no/folder"),
        (("--log", "/", "--", "true"), "the log / cannot be written: Is a directory"),
        (("--", "no-such-program"), "the program no-such-program is not found in PATH, or cannot be run"),
        (("--env", "PATH=/nowhere", "--", "true"), "the program true is not found in PATH, or cannot be run"),
        (("--", "./none"), "the program ./none cannot be run: No such file or directory"),
        (("--directory", "/", "--", "etc/passwd"), "the program /etc/passwd cannot be run: Permission denied"),
        (("--gpus", "7", "--", "true"), "there is no GPU 7 to use"),
    ],
)  # fmt: skip
def test_a_dry_run_finds_what_would_keep_the_work_from_starting(filled: Filled, options: tuple[str, ...], says: str) -> None:  # fmt: skip
    """Exit code 2, with the path; what is well makes no file."""
    (filled.folder / "work-0").mkdir()
    process = filled.start("--dry-run", "--log", "log", *options) if "--log" not in options else filled.start("--dry-run", *options)  # fmt: skip
    assert process.wait(PATIENCE) == 2, filled.said
    assert says in filled.said.replace(f"{filled.folder}/", "")
    assert not (filled.folder / "log").exists()
    filled.until_gone()


def test_a_dry_run_without_a_driver_names_the_program_that_is_not_there(filled: Filled) -> None:
    """On the computer on which an image is built: exit code 2, where work that could begin is refused with 3."""
    filled.gpus.fail("nvmlInit", 9)
    assert filled.start("--dry-run", "--", "no-such-program").wait(PATIENCE) == 2, filled.said
    assert "the program no-such-program is not found in PATH" in filled.said
    assert filled.start("--dry-run", "--", "true").wait(PATIENCE) == 3, filled.said
    filled.until_gone()


@pytest.mark.parametrize("imported", [False, True])
def test_a_configuration_of_gpu_mon_is_taken_as_it_is(filled: Filled, imported: bool) -> None:
    """gpu_mon: ALL while every GPU is free, else per GPU; with one busy GPU of two the other is used, and nothing crashes.

    So is what `costguard import` makes of it; what the command line says counts before either.
    """
    work = shlex.join([sys.executable, "-S", "-c", WORK])
    config = f"[defaults]\ninterval_seconds = 1\n[gpu]\ngpus = ALL\nignore_programs = Xorg, python-miner\n[tty]\nenabled = no\nwhitelist =\nidle_seconds = 300\n[process-all]\ngpus = ALL\ndir = {filled.folder}\ncmd = sh ./all.sh\n[process-one]\ngpus = 1\ndir = {filled.folder}\ncmd = sh ./one.sh\nlog = {filled.folder}/one.log\n"  # fmt: skip
    (filled.folder / "gpu_mon.conf").write_text(config)
    for name in ("all", "one"):
        (filled.folder / f"{name}.sh").write_text(f"echo begins\nexec {work}\n")
    if imported:
        made = [sys.executable, "-m", "costguard", "import", "gpu-mon", "gpu_mon.conf", "--output", "fill.toml"]
        subprocess.run(made, cwd=filled.folder, env=filled.environment, check=True, timeout=PATIENCE)
    process = filled.start(
        "-c", "fill.toml" if imported else "gpu_mon.conf", "--idle-for", "0s", "--rest", "0s", "--grace", "0.2s"
    )
    filled.until_working(1)
    assert filled.begun()[-1][1] == ",".join(UUIDS)
    with somebody() as newcomer:
        filled.on_gpu(0, newcomer.pid)
        until(
            lambda: [gpu for pid, gpu in filled.begun() if pid in filled.working()] == [UUIDS[1]],
            told=lambda: filled.said,
        )
        assert (filled.folder / "one.log").read_text() == "begins\n"
        filled.end(process)


def test_the_command_line_counts_before_the_file(filled: Filled) -> None:
    """Of each option that both say; the file's counts where the command line says nothing."""
    file = 'idle_for = "1h"\ninterval = "0.2s"\n[[work]]\ncommand = "sleep 1000"\n[[work]]\ncommand = ["echo"]\ngpus = [0]\n'
    (filled.folder / "fill.toml").write_text(file)
    assert filled.start("-c", "fill.toml", "--dry-run").wait(PATIENCE) == 0
    assert filled.said.count("DRY RUN: sleep on GPU 1 would begin once it has been free for 1h") == 1
    assert filled.start("-c", "fill.toml", "--dry-run", "--idle-for", "0s").wait(PATIENCE) == 0
    assert filled.said.count("DRY RUN: sleep on GPU 1 would begin\n") == 1
    assert filled.said.count("DRY RUN: echo on GPU 0 would wait: GPU 0 is taken by work that comes first") == 2


# -- how it ends ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_told_to_end_it_ends_all_work_first(filled: Filled, number: int) -> None:
    """gpu_mon: no orphan, whoever tells it; exit code 0."""
    process = filled.begin(work=("--child", "--deaf"))
    filled.until_working(4)
    process.send_signal(number)
    assert process.wait(PATIENCE) == 0, filled.said
    assert not filled.working()
    filled.until_gone()


def test_a_watcher_that_stands_still_is_replaced(filled: Filled) -> None:
    """Said once; the work stays, since another watcher looks before --unknown-for is over."""
    process = filled.begin("--unknown-for", "30s")
    working = filled.until_working(2)
    watcher = filled.watcher_of_fill()
    assert watcher is not None
    processes.send(watcher, signal.SIGSTOP)
    until(lambda: (now := filled.watcher_of_fill()) is not None and now.pid != watcher.pid)
    with somebody() as newcomer:
        filled.on_gpu(0, newcomer.pid)
        until(lambda: len(filled.working()) == 1, told=lambda: filled.said)
        assert set(filled.working()) < set(working)
        filled.end(process)
    assert filled.said.count("the watcher was silent for 6 s") == 1


def test_a_second_signal_ends_deaf_work_at_once(filled: Filled) -> None:
    """A long grace is cut short."""
    process = filled.begin("--grace", "1h", work=("--deaf",))
    filled.until_working(2)
    process.terminate()
    until(lambda: "received TERM" in filled.said)
    time.sleep(0.2)
    process.terminate()
    assert process.wait(PATIENCE) == 0
    assert not filled.working()


def test_work_ends_when_the_launcher_is_killed(filled: Filled) -> None:
    """Stressor, gpu_mon: kill -9 of costguard leaves nobody, by the watcher; somebody else's process on the GPU is not touched."""
    with somebody() as other:
        process = filled.begin(work=("--child", "--deaf"))
        filled.until_working(4)
        until(lambda: filled.watcher_of_fill() is not None)
        time.sleep(0.3)
        process.kill()
        process.wait(PATIENCE)
        filled.until_gone()
        assert "the launcher was killed: SIGTERM to" in filled.said
        assert other.poll() is None


def test_a_watcher_that_is_killed_is_replaced_and_the_work_stays(filled: Filled) -> None:
    """The new one knows the tree, and sees who comes."""
    process = filled.begin(work=("--child",))
    pids = filled.until_working(4)
    old = filled.watcher_of_fill()
    assert old is not None
    processes.send(old, signal.SIGKILL)
    until(lambda: (now := filled.watcher_of_fill()) is not None and now.pid != old.pid)
    filled.on_gpu(0, *pids)
    time.sleep(1.0)
    assert filled.working() == pids
    with somebody() as newcomer:
        filled.on_gpu(0, newcomer.pid)
        filled.until_working(2)
    filled.end(process)


def test_a_launcher_that_stands_still_keeps_nobody_from_the_gpu(filled: Filled) -> None:
    """The watcher ends the work in its place; when it goes on, so does everything."""
    process = filled.begin("--gpus", "0", work=("--deaf",))
    work = filled.until_working(1)
    process.send_signal(signal.SIGSTOP)
    with somebody() as newcomer:
        filled.on_gpu(0, newcomer.pid, *work)
        filled.until_working(0)
        assert "the launcher is stopped: SIGTERM to" in filled.said
    filled.on_gpu(0)
    process.send_signal(signal.SIGCONT)
    filled.until_working(1)
    filled.end(process)


def test_both_killed_leave_no_work_that_heeds_a_signal(filled: Filled) -> None:
    """In the same moment: the kernel signals the work itself."""
    process = filled.begin()
    filled.until_working(2)
    watcher = filled.watcher_of_fill()
    assert watcher is not None
    os.kill(watcher.pid, signal.SIGSTOP)
    process.kill()
    os.kill(watcher.pid, signal.SIGKILL)
    filled.until_working(0)
    filled.until_gone()


def test_whom_work_leaves_behind_is_ended_before_it_begins_again(filled: Filled) -> None:
    """Its code is the leader's, and nobody of the last time holds the GPU."""
    process = filled.start(*QUICK, "--gpus", "0", "--", "sh", "-c", "setsid sleep 1000 & sleep 0.3; exit 5")
    until(lambda: "ended with exit code 5; again in" in filled.said, told=lambda: filled.said)
    assert "ended and left sleep" in filled.said
    filled.end(process)
