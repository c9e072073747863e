"""Children that hang, flood, leave others behind or outlive their guard. All of them are real processes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from costguard.clocks import boot_clock
from costguard.host.children import FLOOD_BYTES, LINE_COST_BYTES, LINE_LIMIT_BYTES
from costguard.host.files import Start
from costguard.host.ports import Ended, HostEvent, Line, Signal, SpawnFailed
from costguard.host.real import RealHost
from costguard.process.command_lines import START, command_lines

PATIENCE = 20.0  # seconds, for things that must happen; the machine may be busy

SOURCES = {
    "echo": """
import sys
for line in sys.stdin:
    print("got", line.strip(), flush=True)
""",
    "descriptors": """
import os
print(sorted(int(n) for n in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{n}")), flush=True)
print(os.getsid(0) == os.getpid(), flush=True)
""",
    "stopped": "import os, signal; print('up', flush=True); os.kill(os.getpid(), signal.SIGSTOP)",
    "stubborn": """
import os, signal, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    os.setpgid(0, 0)
    if os.fork() == 0:
        os.setpgid(0, 0)
    else:
        print(os.getpid(), flush=True)
        time.sleep(600)
    print(os.getpid(), flush=True)
    time.sleep(600)
print(os.getpid(), flush=True)
time.sleep(600)
""",
    "endless_line": "import os\nwhile True: os.write(1, b'x' * 4096)",
    "many_lines": "import os\nwhile True: os.write(1, b'x\\n' * 2048)",
    "line": "import sys; n = int(sys.stdin.readline()); sys.stdout.write('y' * n + '\\n')",
    "half_line": "import os, time; os.write(1, b'x' * 65536); os.write(1, b'x'); time.sleep(600)",
    "full_pipe": "import os; os.write(1, (b'z' * 999 + b'\\n') * 40)",
    "pieces": """
import os, time
for piece in (b"on", b"e\\ntw", b"o\\nthr"):
    os.write(1, piece); time.sleep(0.05)
""",
    "deaf": "import time; time.sleep(600)",
    "reads_late": "import sys, time; time.sleep(0.3); print(len(sys.stdin.readline()), flush=True)",
    "exit": "import os, sys; sys.stdin.readline(); os.write(1, b'last words\\n'); os._exit(7)",
    "daemon": """
import os, time
if os.fork() == 0:
    time.sleep(600)
print(os.getpid(), flush=True)
os._exit(0)
""",
    "closes_input": "import os, time; os.close(0); print('deaf', flush=True); time.sleep(600)",
}


@pytest.fixture
def host(tmp_path: Path) -> Iterator[RealHost]:
    programs = {name: [sys.executable, "-I", "-S", "-c", source] for name, source in SOURCES.items()}
    programs |= {"clock": command_lines()["clock"], "missing": ["/nowhere/python"]}
    made = RealHost(str(tmp_path), str(tmp_path), Start("boot", "machine", None, None, ()), programs, [])
    yield made
    children = list(made._children._children)
    for child in children:
        made.kill(child)
    made.close()


def collect(host: RealHost, enough: Callable[[list[HostEvent]], bool]) -> list[HostEvent]:
    """Wait until the events are enough; fails when they do not come."""
    events: list[HostEvent] = []
    end = boot_clock() + PATIENCE
    while not enough(events):
        assert boot_clock() < end, events
        events += host.wait(min(end, boot_clock() + 1))
    return events


def ended(events: list[HostEvent]) -> bool:
    return any(isinstance(event, Ended) for event in events)


def lines(events: list[HostEvent]) -> list[bytes]:
    return [event.data for event in events if isinstance(event, Line)]


def state_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "gone"


def until_gone(pid: int) -> bool:
    end = time.monotonic() + PATIENCE
    while state_of(pid) not in ("gone", "Z", "X"):
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def test_a_child_gets_three_descriptors_and_a_session_of_its_own(host: RealHost) -> None:
    """Nothing of the guard leaks into a child, and a terminal's Ctrl-C does not reach it."""
    keep = os.memfd_create("secret")
    host.spawn("descriptors", b"")
    descriptors, own_session = lines(collect(host, ended))
    os.close(keep)
    assert keep not in json.loads(descriptors)
    assert {0, 1, 2} <= set(json.loads(descriptors))
    assert own_session == b"True"


def test_lines_go_both_ways(host: RealHost) -> None:
    """The job line arrives first, then what is sent; each answer is one event."""
    child = host.spawn("echo", b"job")
    assert host.send(child, b"next")
    events = collect(host, lambda events: len(events) == 2)
    assert events == [Line(child, b"got job"), Line(child, b"got next")]


def test_lines_are_put_together_from_pieces(host: RealHost) -> None:
    """A line is an event when its newline has come; an unfinished one is dropped at the end."""
    child = host.spawn("pieces", b"")
    assert collect(host, ended) == [Line(child, b"one"), Line(child, b"two"), Ended(child, 0)]


def test_last_words_come_before_the_end(host: RealHost) -> None:
    """What an ended child wrote is not lost, and its exit code is told."""
    child = host.spawn("exit", b"")
    assert collect(host, ended) == [Line(child, b"last words"), Ended(child, 7)]
    assert not host.send(child, b"anybody?")


def test_a_full_pipe_of_last_words_is_read(host: RealHost) -> None:
    """The guard was late: the child has ended, and more than one reading's worth is still in its pipe."""
    child = host.spawn("full_pipe", b"")
    end = time.monotonic() + PATIENCE
    while state_of(host._children._children[child].pid) != "Z":
        assert time.monotonic() < end
    events = collect(host, ended)
    assert len(lines(events)) == 40
    assert events[-1] == Ended(child, 0)


def test_a_line_that_does_not_end_is_not_kept(host: RealHost) -> None:
    """More than 64 KiB without a newline, then silence: the child is ended, not waited for."""
    child = host.spawn("half_line", b"")
    assert collect(host, ended) == [Ended(child, -signal.SIGKILL)]


def test_a_hung_child_is_killed_without_waiting(host: RealHost) -> None:
    """A stopped process ignores everything but SIGKILL; no event of it follows, and it is reaped later."""
    child = host.spawn("stopped", b"")
    collect(host, bool)
    started = time.monotonic()
    host.kill(child)
    assert time.monotonic() - started < 1.0
    end = time.monotonic() + PATIENCE
    while host.unreaped():
        assert time.monotonic() < end
        assert host.wait(boot_clock() + 0.05) == []
    assert host.wait(boot_clock() + 0.2) == []


def test_kill_reaches_the_whole_session(host: RealHost) -> None:
    """Grandchildren in process groups of their own die with the child."""
    child = host.spawn("stubborn", b"")
    pids = [int(data) for data in lines(collect(host, lambda events: len(events) == 3))]
    host.kill(child)
    assert all(until_gone(pid) for pid in pids)


@pytest.mark.parametrize("program", ["endless_line", "many_lines"])
def test_a_flooding_child_is_killed(host: RealHost, program: str) -> None:
    """A child that writes without end costs a bounded number of lines, then it is ended with code -9."""
    child = host.spawn(program, b"")
    events = collect(host, ended)
    assert events[-1] == Ended(child, -signal.SIGKILL)
    assert sum(len(line) + LINE_COST_BYTES for line in lines(events)) <= 5 * FLOOD_BYTES
    assert host.wait(boot_clock() + 0.2) == []


@pytest.mark.parametrize(("length", "code"), [(LINE_LIMIT_BYTES, 0), (LINE_LIMIT_BYTES + 1, -signal.SIGKILL)])
def test_a_line_has_at_most_64_kib(host: RealHost, length: int, code: int) -> None:
    """A line of exactly 64 KiB passes; a longer one ends the child and is not delivered."""
    child = host.spawn("line", b"%d" % length)
    events = collect(host, ended)
    assert events[-1] == Ended(child, code)
    assert lines(events) == ([b"y" * length] if code == 0 else [])


def test_a_full_pipe_is_told_at_once(host: RealHost) -> None:
    """Sending to a child that does not read never blocks: it answers False."""
    child = host.spawn("deaf", b"")
    answers = [host.send(child, b"z" * 60000) for _ in range(4)]
    assert answers[0]
    assert not answers[-1]


def test_a_job_larger_than_the_pipe_arrives(host: RealHost) -> None:
    """What does not fit at once is written when the child reads."""
    host.spawn("reads_late", b"j" * 300000)
    assert lines(collect(host, bool)) == [b"300001"]


def test_a_closed_input_is_told(host: RealHost) -> None:
    """A child that closed its input cannot be sent anything, and nothing breaks."""
    child = host.spawn("closes_input", b"")
    collect(host, bool)
    assert not host.send(child, b"x")
    assert not host.send(child, b"x")


def test_a_daemon_that_keeps_the_pipe_does_not_hide_the_end(host: RealHost) -> None:
    """The end of a child is told although its grandchild still holds the output open."""
    child = host.spawn("daemon", b"")
    events = collect(host, ended)
    assert events[-1] == Ended(child, 0)
    os.killpg(int(lines(events)[0]), signal.SIGKILL)


def test_a_program_that_is_missing_is_said(host: RealHost) -> None:
    """A failed start raises words and leaks no descriptor."""
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(SpawnFailed, match="cannot start missing: No such file"):
        host.spawn("missing", b"")
    assert len(os.listdir("/proc/self/fd")) == before


def test_wait_keeps_its_time(host: RealHost) -> None:
    """Without events it sleeps until then; a time in the past still looks once."""
    start = boot_clock()
    assert host.wait(start + 0.3) == []
    assert 0.3 <= boot_clock() - start < 2.0
    os.kill(os.getpid(), signal.SIGHUP)
    assert host.wait(start) == [Signal("HUP")]


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP"])
def test_signals_are_events(host: RealHost, name: str) -> None:
    """A signal wakes the loop at once and is told by its name."""
    os.kill(os.getpid(), signal.Signals[f"SIG{name}"])
    start = boot_clock()
    assert host.wait(start + PATIENCE) == [Signal(name)]
    assert boot_clock() - start < 1.0


GUARD = f"""
import sys
from costguard.agent import __main__ as guard
import costguard.agent.__main__
PROGRAMS = {{name: [sys.executable, "-I", "-S", "-c", source] for name, source in {SOURCES!r}.items()}}
class Loop:
    def __init__(self, host, config, boot):
        self.host = host
        host._children._programs.update(PROGRAMS)
    def run(self):
        wanted = {{self.host.spawn(name, b"") for name in ("echo", "descriptors")}}
        while True:
            for event in self.host.wait(self.host.clock().boot + 1):
                self.host.say(f"{{event}}")
            self.host.say(" ".join(str(c.pid) for c in self.host._children._children.values()) + " alive")
def main():
    return guard.serve(Loop)
"""


def guard_process(tmp_path: Path, source: str, **more: object) -> subprocess.Popen[bytes]:
    """A guard as `costguard run` starts it, with a loop of the test's own."""
    (tmp_path / "own_loop.py").write_text(source)
    configuration = os.memfd_create("configuration")
    os.write(
        configuration, f'{{"paths":{{"runtime":"{tmp_path}/run","state":"{tmp_path}/state"}},"host":{{}}}}'.encode()
    )
    os.lseek(configuration, 0, os.SEEK_SET)
    stray, _other = os.pipe()
    argv = [sys.executable, "-I", "-S", START, "own_loop", str(tmp_path), str(configuration)]
    guard = subprocess.Popen(argv, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, pass_fds=[configuration, stray])
    for fd in (configuration, stray, _other):
        os.close(fd)
    return guard


def test_children_leave_when_the_guard_is_killed(tmp_path: Path) -> None:
    """After kill -9 of the guard its children see the end of their input. No stray descriptor is theirs."""
    guard = guard_process(tmp_path, GUARD)
    assert guard.stderr is not None
    try:
        told = []
        for raw in guard.stderr:
            told.append(raw.decode())
            if "alive" in told[-1] and any("Ended" in line for line in told):
                break
        child = int(told[-1].split()[0])
        assert any("[0, 1, 2]" in line for line in told)
        assert state_of(child) not in ("gone", "Z")
    finally:
        guard.kill()
        guard.wait()
        guard.stderr.close()
    assert until_gone(child)


def test_killed_children_are_counted_by_program(host: RealHost) -> None:
    """What the kernel has not given back belongs to a program: one that hangs must not keep another from starting."""
    hung = host._children._children[host.spawn("deaf", b"")]
    host._children._killed[hung.pid] = hung.program  # as if SIGKILL had been sent and did nothing
    assert [host.unreaped(), host.unreaped("deaf"), host.unreaped("stopped")] == [1, 1, 0]
    host.kill(hung.number)
    end = time.monotonic() + PATIENCE
    while host.unreaped("deaf"):
        assert time.monotonic() < end
