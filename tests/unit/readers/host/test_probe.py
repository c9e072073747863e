"""The owner's probe: real programs, real processes that get out of hand, virtual time between two runs."""

import contextlib
import json
import os
import pwd
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from costguard.process.command_lines import command_lines
from costguard.process.wire import to_line
from costguard.readers.host import errand, probe_run
from costguard.readers.host.errand_jobs import ProbeEnd, ProbeJob
from costguard.readers.host.probe import Probe
from costguard.readers.host.processes import Processes
from costguard.readers.host.sense import NOT_YET, Activity, Moment, SensePaths, Sight
from tests.unit.readers.host.servers import WITHIN, settle
from tests.unit.readers.host.starved import starved
from tests.unit.readers.host.tree import look_as_reader

SETTINGS: dict[str, object] = {"run": [], "user": "", "every": 30.0, "timeout": 10.0, "above": None}
PLACE = SensePaths()
NO_PROCESSES = Processes(PLACE)
NO_NUMBER = "did not write one number and nothing else"
LOOK_SECONDS = 2.0


class World:
    """A probe and its time."""

    def __init__(self, *run: str, **settings: object) -> None:
        self.sense = Probe(SETTINGS | {"run": list(run)} | settings, PLACE)
        self.now = 5000.0

    def look(self, after: float = 10.0) -> Sight:
        self.now += after
        begun = time.monotonic()
        sight = look_as_reader(self.sense, Moment(self.now, 0.0), NO_PROCESSES)
        assert time.monotonic() - begun < LOOK_SECONDS
        settle(self.sense, lambda: self.sense.go_on(Moment(self.now, 0.0)))
        return sight

    def found(self) -> Sight:
        """What the first run says."""
        assert self.look().unknown == NOT_YET
        return self.look()


def shell(script: str) -> tuple[str, ...]:
    return "/bin/sh", "-c", script


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    """Every short-lived process of a test has ended."""
    yield
    end = time.monotonic() + WITHIN
    while errand._leaving and time.monotonic() < end:
        errand.collect(0.0)
        time.sleep(0.001)
    assert not errand._leaving


def test_no_probe_is_configured() -> None:
    """Nothing runs, and nothing is unknown."""
    world = World()
    assert world.look() == Sight(seen="no probe is configured")
    assert world.sense.filenos() == []


def test_exit_code_0_is_quiet() -> None:
    """OK, as Nagios has it."""
    assert World(*shell("exit 0")).found() == Sight(seen="the probe says that nothing needs the machine")


@pytest.mark.parametrize("code", [1, 2])
def test_exit_codes_1_and_2_keep_the_machine_up(code: int) -> None:
    """WARNING and CRITICAL: named by the program, since the first of them."""
    world = World(*shell(f"exit {code}"))
    (first,) = world.found().active
    assert first == Activity("probe sh", "says that the machine is needed", first.since, first.last, "exit code 0")
    assert first.since <= world.now
    for _ in range(6):
        (one,) = world.look().active
    assert one.since == first.since
    assert one.last >= first.last + 30.0


def test_the_end_of_the_need_lets_the_machine_go(tmp_path: Path) -> None:
    """With the next run."""
    (tmp_path / "needed").touch()
    world = World(*shell(f"! test -e {tmp_path}/needed"))
    assert world.found().active
    (tmp_path / "needed").unlink()
    world.look(60.0)
    assert world.look() == Sight(seen="the probe says that nothing needs the machine")


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exit 3", "the probe sh ended with exit code 3"),
        ("exit 77", "the probe sh ended with exit code 77"),
        ("kill -9 $$", "the probe sh died of signal 9"),
        ("no-such-program-at-all", "the probe sh ended with exit code 127"),
    ],
)
def test_every_other_end_is_unknown(script: str, words: str) -> None:
    """Unknown is neither quiet nor active."""
    assert World(*shell(script)).found() == Sight(unknown=words)


def test_a_program_that_is_not_there_is_unknown(tmp_path: Path) -> None:
    """Missing, or not executable."""
    (tmp_path / "note").write_text("exit 0")
    for name in (str(tmp_path / "nowhere"), str(tmp_path / "note"), "no-such-program-at-all"):
        assert "does not exist, or is not executable" in World(name).found().unknown


def test_a_program_that_cannot_begin_is_unknown(tmp_path: Path) -> None:
    """Its interpreter is missing, or the right to start it: in the system's own words."""
    script = tmp_path / "probe"
    script.write_text("#!/nowhere/python\nexit 0\n")
    script.chmod(0o755)
    assert World(str(script)).found() == Sight(unknown="the probe cannot be run (No such file or directory)")
    script.write_bytes(b"\x7fELF nonsense")
    assert World(str(script)).found() == Sight(unknown="the probe cannot be run (Exec format error)")


@pytest.mark.parametrize(
    ("script", "active", "unknown"),
    [
        ("echo 5", False, ""),
        ("echo 5.5", True, ""),
        ("echo 6.", True, ""),
        ("echo .5", False, ""),
        ("echo +1e9", True, ""),
        ("echo -7", False, ""),
        ("echo 5.0001", True, ""),
        ("printf '\\n\\n\\t 7 \\r\\n'", True, ""),
        ("printf '%9999s9'", True, ""),
        ("echo 0 a; echo 12 b; echo 12 total", False, NO_NUMBER),
        ("echo 0 waiting, 12 running", False, NO_NUMBER),
        ("echo 7 jobs", False, NO_NUMBER),
        ("echo 7; echo 2", False, NO_NUMBER),
        ("echo 7%", False, NO_NUMBER),
        ("echo 1_000", False, NO_NUMBER),
        ("echo 1,5", False, NO_NUMBER),
        ("echo 0x7f", False, NO_NUMBER),
        ("echo .", False, NO_NUMBER),
        ("echo \u0667", False, NO_NUMBER),
        ("printf '\\0 9'", False, NO_NUMBER),
        ("echo -inf", False, NO_NUMBER),
        ("echo nan", False, NO_NUMBER),
        ("echo inf", False, NO_NUMBER),
        ("echo 1e999", False, NO_NUMBER),
        ("echo five", False, NO_NUMBER),
        ("true", False, NO_NUMBER),
        ("echo 9; exit 1", False, "ended with exit code 1"),
    ],
)
def test_a_number_is_compared(script: str, active: bool, unknown: str) -> None:
    """One number and nothing else, and exit code 0 with it: a first word of 0 may stand before others."""
    sight = World(*shell(script), above=5.0).found()
    assert bool(sight.active) is active
    assert sight.unknown.endswith(unknown)
    assert bool(sight.unknown) is bool(unknown)
    if active:
        assert sight.active[0].lets_go == "a number of at most 5"


def test_it_runs_every_so_often(tmp_path: Path) -> None:
    """Not in every look; what it said last holds until it says something else."""
    count = tmp_path / "count"
    world = World(*shell(f"echo x >> {count}; exit 1"), every=60.0)
    world.look()
    for _ in range(11):
        assert world.look().active
    assert count.read_text().count("x") == 2


def test_nothing_of_it_is_in_the_log(capfd: pytest.CaptureFixture[str]) -> None:
    """Neither what it writes nor how the process ends that ran it, which is told to end as soon as it has answered."""
    for _ in range(8):
        one = errand.Errand(
            "probe", ProbeJob(shell("echo canary; echo canary >&2; exit 1"), "", 5.0), ProbeEnd, 0.0, WITHIN
        )
        while one.look(0.0) is None:  # without a pause: it is told in the blink of its answer
            pass
    end = time.monotonic() + WITHIN
    while errand._leaving and time.monotonic() < end:
        errand.collect(0.0)
    assert capfd.readouterr() == ("", "")


def test_one_that_is_told_to_end_while_it_runs_nothing_leaves_no_words() -> None:
    """Before its job as after its answer: there is nothing to clean up, and nothing to tell anybody."""
    with subprocess.Popen(command_lines()["probe"], stdin=-1, stdout=-1, stderr=-1) as worker:
        end = time.monotonic() + WITHIN
        while time.monotonic() < end:  # until it waits for its job, in a session of its own
            fields = Path(f"/proc/{worker.pid}/stat").read_text().rpartition(")")[2].split()
            if fields[0] == "S" and int(fields[3]) == worker.pid:
                break
            time.sleep(0.002)
        worker.terminate()
        assert worker.communicate(timeout=WITHIN) == (b"", b"")
    assert worker.returncode == -signal.SIGTERM


def test_what_it_is_given() -> None:
    """A path and a language, and nothing of this process's own that may be a secret; no input."""
    os.environ["COSTGUARD_SECRET__TOKEN"] = "x"
    try:
        assert (
            World(*shell('test -n "$PATH" && test -z "$COSTGUARD_SECRET__TOKEN" && ! read line')).found().unknown == ""
        )
    finally:
        del os.environ["COSTGUARD_SECRET__TOKEN"]


def test_one_whose_process_dies_is_unknown_and_runs_again() -> None:
    """As when memory was short."""
    world = World(*shell("sleep 60"))
    world.sense.look(Moment(world.now, 0.0), NO_PROCESSES)
    assert world.sense._errand is not None
    os.kill(world.sense._errand._pid, signal.SIGKILL)
    settle(world.sense, lambda: world.sense.go_on(Moment(world.now, 0.0)))
    assert world.look(1.0) == Sight(unknown="the probe sh ended without an answer")
    world.sense._run = shell("exit 1")
    world.look(60.0)
    assert world.look().active


def test_one_that_cannot_be_started_is_unknown() -> None:
    """And tried again."""
    world = World(*shell("exit 1"))
    with starved():
        sight = world.sense.look(Moment(world.now, 0.0), NO_PROCESSES)
    assert sight == Sight(unknown="the probe sh cannot be done (Too many open files)")
    world.look(60.0)
    assert world.look().active


# ---- out of hand ------------------------------------------------------------------


def state_of(pid: int) -> str:
    """The letter of a process in `stat`; empty when it is gone."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rpartition(")")[2].split()[0]
    return ""


def gone(pid: int) -> bool:
    return state_of(pid) in {"", "Z"}


def pids(file: Path) -> list[int]:
    """The processes that a probe has noted."""
    return [int(word) for word in file.read_text().split()]


def test_one_that_never_ends_is_killed_with_all_that_it_has_started(tmp_path: Path) -> None:
    """Also what ignores SIGTERM, and what has left its group and its session; no look has waited."""
    noted = tmp_path / "pids"
    script = (
        f"trap '' TERM; echo $$ >> {noted}; sleep 60 & echo $! >> {noted};"
        f" setsid sh -c 'trap \"\" TERM; echo $$ >> {noted}; sleep 60; sleep 60' & "
        f"while ! [ $(wc -l < {noted}) = 3 ]; do sleep 0.01; done; while :; do sleep 60; done"
    )
    sight = World(*shell(script), timeout=0.4).found()
    assert sight == Sight(unknown="the probe sh was killed: it did not end in 0.4 s")
    assert len(pids(noted)) == 3
    assert all(gone(pid) for pid in pids(noted))


def test_one_that_floods_is_killed() -> None:
    """Its output is bounded, and never shown."""
    begun = time.monotonic()
    assert World("/usr/bin/yes").found() == Sight(unknown="the probe yes was killed: it wrote more than 64 kB")
    assert time.monotonic() - begun < WITHIN


@pytest.mark.parametrize(("count", "killed"), [(1 << 16, False), ((1 << 16) + 1, True)])
def test_so_much_may_be_written_and_no_more(count: int, killed: bool) -> None:
    """Also in the blink before it ends."""
    sight = World(*shell(f"head -c {count} /dev/zero")).found()
    assert sight.unknown == ("the probe sh was killed: it wrote more than 64 kB" if killed else "")


def test_one_that_closes_its_output_is_waited_for() -> None:
    """It says all with its exit code."""
    world = World(*shell("exec >&-; sleep 0.2; exit 2"))
    assert [one.what for one in world.found().active] == ["says that the machine is needed"]


def test_what_it_starts_may_end_a_moment_after_it() -> None:
    """Nothing is left behind by a pipe whose ends do not end together."""
    assert World(*shell("sleep 0.1 & exit 0")).found().unknown == ""


def test_one_may_start_many_and_one_after_another() -> None:
    """Up to its limit at a time, and without any in all."""
    script = "i=0; while [ $i -lt 40 ]; do sleep 0.7 & i=$((i+1)); done; wait; for i in 1 2 3 4; do true | true; done"
    assert World(*shell(script)).found() == Sight(seen="the probe says that nothing needs the machine")


def test_one_that_leaves_processes_behind(tmp_path: Path) -> None:
    """They are killed, and that is told: each run would leave more."""
    noted = tmp_path / "pids"
    script = f"setsid sh -c 'echo $$ > {noted}; exec sleep 60' & while ! [ -s {noted} ]; do sleep 0.01; done; exit 0"
    assert World(*shell(script)).found() == Sight(unknown="the probe sh left processes behind, which were killed")
    assert all(gone(pid) for pid in pids(noted))


def test_one_that_forks_without_end(tmp_path: Path) -> None:
    """Killed as soon as it is too many, whatever its parents have become."""
    noted = tmp_path / "pids"
    script = f"while :; do sh -c 'sleep 60 & echo $! >> {noted}' ; done"
    assert "it started more than 64 processes" in World(*shell(script)).found().unknown
    assert len(pids(noted)) > 32
    assert all(gone(pid) for pid in pids(noted))


def test_nothing_reacts_to_the_end_of_another_one(tmp_path: Path) -> None:
    """All of it stands still before the first is killed, so that none starts what is missing again."""
    noted = tmp_path / "noted"
    script = f"""
import os, time
others, own = os.pipe()
noted = os.open({str(noted)!r}, os.O_WRONLY | os.O_CREAT)
for _ in range(60):
    if not os.fork():
        os.close(own)
        os.read(others, 1)  # until its parent has ended
        os.write(noted, b"x")
        os._exit(0)
os.write(1, bytes(70_000))
time.sleep(60)
"""
    for _ in range(4):  # one of the many would be in time
        assert "wrote more than 64 kB" in World(sys.executable, "-c", script).found().unknown
        assert noted.read_bytes() == b""


def test_the_end_of_the_reader_ends_the_probe(tmp_path: Path) -> None:
    """Nothing goes on without whoever wanted to know."""
    noted = tmp_path / "pids"
    world = World(*shell(f"echo $$ > {noted}; sleep 60"))
    world.sense.look(Moment(world.now, 0.0), NO_PROCESSES)
    end = time.monotonic() + WITHIN
    while not (noted.exists() and noted.read_text()) and time.monotonic() < end:
        time.sleep(0.005)
    assert world.sense._errand is not None
    world.sense._errand.stop(world.now)
    while not gone(pids(noted)[0]) and time.monotonic() < end:
        time.sleep(0.005)
    assert gone(pids(noted)[0])


@pytest.mark.parametrize("state", ["S", "T"])
def test_being_told_to_end_again_and_again_breaks_nothing_off(tmp_path: Path, state: str) -> None:
    """By the reader, and by the kernel when that ends as well: while the probe runs, and while it is being ended already."""
    noted = tmp_path / "pids"
    script = (
        f"for i in 1 2 3 4 5 6 7 8; do setsid sh -c 'echo $$ >> {noted}; exec sleep 60' & done;"
        f" while ! [ $(wc -l < {noted}) = 8 ]; do sleep 0.01; done; sleep 60"
    )
    within = WITHIN if state == "S" else 0.5
    end = time.monotonic() + WITHIN
    with subprocess.Popen(command_lines()["probe"], stdin=-1, stdout=-1) as worker:
        assert worker.stdin is not None
        worker.stdin.write(to_line(ProbeJob(shell(script), "", within)) + b"\n")
        worker.stdin.flush()
        while time.monotonic() < end and not (
            noted.exists() and len(pids(noted)) == 8 and state_of(pids(noted)[0]) == state
        ):
            time.sleep(0.0005)
        while worker.poll() is None:
            worker.terminate()
            time.sleep(0.0002)
    left = [pid for pid in pids(noted) if not gone(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


def test_a_killed_reader_leaves_no_probe(tmp_path: Path) -> None:
    """The guard kills a reader that hangs, and its session: what the probe has started ends all the same."""
    noted = tmp_path / "pids"
    script = f"setsid sh -c 'echo $$ > {noted}; exec sleep 60' & sleep 60"
    job = {"senses": {"probe": SETTINGS | {"run": list(shell(script))}}}
    with subprocess.Popen(command_lines()["host"], stdin=-1, stdout=-1, start_new_session=True) as reader:
        assert reader.stdin is not None
        reader.stdin.write(json.dumps(job).encode() + b'\n{"read":1}\n')
        reader.stdin.flush()
        end = time.monotonic() + WITHIN
        while not (noted.exists() and noted.read_text()) and time.monotonic() < end:
            time.sleep(0.005)
        os.killpg(reader.pid, signal.SIGKILL)
    while not gone(pids(noted)[0]) and time.monotonic() < end:
        time.sleep(0.005)
    assert gone(pids(noted)[0])


def test_it_is_found_in_the_path_or_by_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first that can be executed; a folder of that name is none, and an empty part of the path is not this folder."""
    for folder in ("one", "two", "three"):
        (tmp_path / folder).mkdir(mode=0o755)
    (tmp_path / "one/look").mkdir()
    (tmp_path / "two/look").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "two/look").chmod(0o644)
    (tmp_path / "three/look").write_text("#!/bin/sh\nexit 2\n")
    (tmp_path / "three/look").chmod(0o755)
    path = ":".join(f"{tmp_path}/{folder}" for folder in ("none", "one", "two"))
    monkeypatch.setenv("PATH", f":{path}:{tmp_path}/three:/usr/bin:/bin")
    assert World("look").found().active
    monkeypatch.setenv("PATH", f":{path}:")
    monkeypatch.chdir(tmp_path / "three")
    assert World("look").found().unknown == "the probe look does not exist, or is not executable"


def test_it_begins_at_the_root_in_a_group_of_its_own() -> None:
    """Without a core, and with a pipe that ends it: whatever the agent has made of these for itself."""
    script = 'test "$(pwd)" = / && test "$(ulimit -S -c) $(ulimit -H -c)" = "0 0" && set -- $(cat /proc/$$/stat) && test $5 = $$ && exit 2'
    assert World(*shell(script)).found().active
    ignored = "grep -q '^SigIgn:[[:space:]]*0*$' /proc/self/status && exit 2"
    assert World(*shell(ignored)).found().active


def test_nothing_runs_whose_parent_ended_before_it_began() -> None:
    """Nobody would ever end it."""
    pid = os.fork()
    if not pid:
        try:
            probe_run._become(None, 0)  # a number that no parent has
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == probe_run._NOT_STARTED


# ---- whose program runs as whom ------------------------------------------------------------------


def script_of(folder: Path, mode: int) -> Path:
    path = folder / "probe.sh"
    path.write_text("#!/bin/sh\nexit 1\n")
    path.chmod(mode)
    return path


@pytest.mark.parametrize(
    "run", [lambda path: (str(path),), lambda path: ("/bin/sh", str(path)), lambda path: ("sh", str(path)[1:])]
)
def test_what_others_can_write_is_not_run(tmp_path: Path, run: Callable[[Path], tuple[str, ...]]) -> None:
    """Neither a program nor a script that is named to one; checked at every run, since it may change."""
    path = script_of(tmp_path, 0o755)
    world = World(*run(path))
    assert world.found().active
    path.chmod(0o777)
    world.look(60.0)
    sight = world.look()
    assert sight.active == ()
    assert "is not run: any user can write" in sight.unknown


def test_a_file_that_is_only_looked_at_may_be_anybodys(tmp_path: Path) -> None:
    """A user keeps the machine up by a file of his, if the owner of the machine likes it so."""
    path = tmp_path / "keep"
    path.write_text("")
    path.chmod(0o666)
    assert World("/usr/bin/test", "!", "-e", str(path)).found().active


def test_it_runs_as_the_configured_user() -> None:
    """Root's agent gives up its rights for it; any other agent can only be itself."""
    nobody = pwd.getpwnam("nobody")
    sight = World("/usr/bin/id", "-u", user="nobody", above=float(nobody.pw_uid) - 1.0).found()
    if os.geteuid() == 0:
        assert sight.active
        assert World("/usr/bin/id", "-u", user="nobody", above=float(nobody.pw_uid)).found().active == ()
        assert (
            World(*shell("test $HOME = " + nobody.pw_dir + " && test $(id -G) = $(id -g)"), user="nobody")
            .found()
            .unknown
            == ""
        )
    else:
        assert "only root's agent can run it as nobody" in sight.unknown


def test_a_user_that_does_not_exist_is_unknown() -> None:
    """Told by its name; nothing runs as somebody else instead."""
    sight = World(*shell("exit 1"), user="no-such-user").found()
    assert sight == Sight(unknown="the probe sh is not run: there is no user no-such-user on this machine")
