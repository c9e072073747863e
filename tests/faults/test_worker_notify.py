"""The notification worker as a real process, with pseudo terminals for people's terminals."""

import json
import os
import select
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

Answers = dict[str, Any]  # JSON: each test looks at what it needs

TEXT: Answers = {
    "id": "m1",
    "kind": "notes",
    "level": "info",
    "title": "title \x1b[2J\u202e end",
    "body": "line 1\nline 2",
}


class Terminal(NamedTuple):
    """A pseudo terminal: what a person would see comes out of ``screen``."""

    screen: int
    path: str

    def shows(self, seconds: float = 1.0) -> str:
        """What was written to it so far."""
        seen = b""
        while select.select([self.screen], [], [], 0 if seen else seconds)[0]:
            seen += os.read(self.screen, 65536)
        return seen.decode()


@pytest.fixture
def terminals(tmp_path: Path) -> Iterator[list[Terminal]]:
    """Two open terminals, and a device folder that shows them."""
    (tmp_path / "dev/pts").mkdir(parents=True)
    (tmp_path / "dev/pts/ptmx").touch()
    (tmp_path / "bin").mkdir()
    opened, made = [], []
    for number in range(2):
        screen, line = os.openpty()
        opened += [screen, line]
        made.append(Terminal(screen, os.ttyname(line)))
        (tmp_path / f"dev/pts/{number}").symlink_to(os.ttyname(line))
    yield made
    for fd in opened:
        os.close(fd)


def wall(folder: Path, script: str) -> None:
    path = folder / "bin/wall"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def notify(folder: Path, channels: list[str], message: Answers = TEXT, **more: object) -> Answers:
    """Send one message; PATH has nothing but this test's programs."""
    settings = {"devfs": str(folder / "dev"), **more}
    job = {"message": message, "channels": channels, "settings": settings, "deadline": 2}
    done = subprocess.run(
        [sys.executable, "-m", "costguard.notify.worker"],
        input=json.dumps(job).encode() + b"\n",
        capture_output=True,
        env={**os.environ, "PATH": str(folder / "bin")},
        timeout=20,
        check=True,
    )
    answer: Answers = json.loads(done.stdout)
    # what reached nobody stands in the journal, and nothing else does
    journal = done.stderr.decode()
    assert bool(journal) is not bool(answer["delivered"])
    assert not journal or ("reached nobody" in journal and "title " in journal)
    return answer


def fill(path: str) -> None:
    """Stop a terminal's output, as Ctrl-S does, and leave no room in it."""
    fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    termios.tcflow(fd, termios.TCOOFF)
    try:
        while True:
            os.write(fd, b"x" * 4096)
    except BlockingIOError:
        os.close(fd)


def until(true: Callable[[], bool], seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.02)
    return true()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_every_open_terminal_gets_the_message(tmp_path: Path, terminals: list[Terminal]) -> None:
    """Without wall(1) the worker writes to them itself, and nothing in a message can steer a terminal."""
    assert notify(tmp_path, ["wall"]) == {"delivered": ["wall"], "failed": {}}
    for terminal in terminals:
        shown = terminal.shows()
        assert "title  [2J" in shown
        assert "\r\nline 1\r\nline 2\r\n" in shown.replace("\r\r", "\r")
        assert not {"\x1b", "\u202e"} & set(shown)


def test_wall_is_used_where_it_exists(tmp_path: Path, terminals: list[Terminal]) -> None:
    """It gets the text on standard input, cleaned as well."""
    wall(tmp_path, f'while read -r line; do echo "$line"; done > {tmp_path}/said')
    assert notify(tmp_path, ["wall"])["delivered"] == ["wall"]
    assert (tmp_path / "said").read_text() == "title  [2J  end\n\nline 1\nline 2\n"
    assert terminals[0].shows(0.1) == ""


@pytest.mark.parametrize("script", ["exit 1", "exec /bin/sleep 60", "trap '' TERM; while :; do :; done"])
def test_a_wall_that_fails_or_hangs_is_replaced(tmp_path: Path, terminals: list[Terminal], script: str) -> None:
    """The terminals are written directly, within the deadline."""
    wall(tmp_path, script)
    start = time.monotonic()
    assert notify(tmp_path, ["wall"])["delivered"] == ["wall"]
    assert "line 2" in terminals[1].shows()
    assert time.monotonic() - start < 4


def test_a_stopped_terminal_keeps_nobody_waiting(tmp_path: Path, terminals: list[Terminal]) -> None:
    """The others get the message; when all are stopped, it was not delivered."""
    fill(terminals[0].path)
    assert notify(tmp_path, ["wall"])["delivered"] == ["wall"]
    assert "line 2" in terminals[1].shows()
    fill(terminals[1].path)
    answer = notify(tmp_path, ["wall", "terminal"], tty=terminals[0].path)
    assert answer["delivered"] == []
    assert "does not take the message" in answer["failed"]["wall"]
    assert "does not take the message" in answer["failed"]["terminal"]


def test_a_terminal_that_nobody_reads_takes_only_so_much(tmp_path: Path, terminals: list[Terminal]) -> None:
    """A long message that does not fit is given up in the channel's own time, not cut off by the worker."""
    answer = notify(tmp_path, ["terminal"], {**TEXT, "body": "x" * 60_000}, tty=terminals[0].path)
    assert "does not take the message" in answer["failed"]["terminal"]


def test_standard_error_is_the_guards_own_terminal(tmp_path: Path, terminals: list[Terminal]) -> None:
    """The worker inherits it from the guard."""
    job = {"message": TEXT, "channels": ["terminal"], "settings": {}}
    with open(terminals[0].path, "wb", buffering=0) as line:
        done = subprocess.run(
            [sys.executable, "-m", "costguard.notify.worker"],
            input=json.dumps(job).encode() + b"\n",
            stdout=subprocess.PIPE,
            stderr=line,
            check=True,
        )
    assert json.loads(done.stdout)["delivered"] == ["terminal"]
    assert "line 2" in terminals[0].shows()


def test_nobody_there_is_not_delivered(tmp_path: Path) -> None:
    """A warning that nobody can have seen does not count as one."""
    (tmp_path / "bin").mkdir()
    wall(tmp_path, "exit 0")
    assert "nobody saw it" in notify(tmp_path, ["wall"])["failed"]["wall"]


def test_the_guards_own_terminal(tmp_path: Path, terminals: list[Terminal]) -> None:
    """Named by its path; anything that is not a terminal is refused and stays as it is."""
    assert notify(tmp_path, ["terminal"], tty=terminals[0].path)["delivered"] == ["terminal"]
    assert "line 1" in terminals[0].shows()
    (tmp_path / "file").write_text("precious")
    assert "not a terminal" in notify(tmp_path, ["terminal"], tty=str(tmp_path / "file"))["failed"]["terminal"]
    assert "not a terminal" in notify(tmp_path, ["terminal"], tty="/dev/null")["failed"]["terminal"]
    assert "no terminal of its own" in notify(tmp_path, ["terminal"])["failed"]["terminal"]
    assert (tmp_path / "file").read_text() == "precious"


def test_an_unknown_channel_does_not_stop_the_others(tmp_path: Path, terminals: list[Terminal]) -> None:
    """Each channel has its own fate."""
    answer = notify(tmp_path, ["pigeon", "wall"])
    assert answer["delivered"] == ["wall"]
    assert "terminal, wall" in answer["failed"]["pigeon"]


def test_the_end_of_input_ends_the_worker() -> None:
    """No job, no traceback, code 0."""
    done = subprocess.run(
        [sys.executable, "-m", "costguard.notify.worker"], input=b"", capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_reader_that_is_gone_makes_no_traceback(tmp_path: Path) -> None:
    """The guard may end first."""
    worker = subprocess.Popen(
        [sys.executable, "-m", "costguard.notify.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert worker.stdin
    assert worker.stdout
    assert worker.stderr
    worker.stdout.close()
    job = {"message": {"kind": "notes"}, "channels": ["terminal"], "settings": {}}
    worker.stdin.write(json.dumps(job).encode() + b"\n")
    worker.stdin.close()
    with worker.stderr as said:
        assert b"Traceback" not in said.read()
    assert worker.wait(timeout=10) == 0


def test_a_worker_dies_with_its_parent(tmp_path: Path, terminals: list[Terminal]) -> None:
    """A guard that is killed leaves neither a worker nor its programs behind, even while its pipes stay open."""
    wall(
        tmp_path,
        f"echo $$ > {tmp_path}/pids.new; echo $PPID >> {tmp_path}/pids.new; "
        f"/bin/mv {tmp_path}/pids.new {tmp_path}/pids; exec /bin/sleep 60",
    )
    job = {"message": TEXT, "channels": ["wall"], "settings": {"devfs": str(tmp_path / "dev")}, "deadline": 50}
    program = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-m', 'costguard.notify.worker']); time.sleep(60)"
    environ = {**os.environ, "PATH": str(tmp_path / "bin")}
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, env=environ) as parent:
        assert parent.stdin
        parent.stdin.write(json.dumps(job).encode() + b"\n")
        parent.stdin.flush()
        assert until((tmp_path / "pids").exists)
        pids = [int(word) for word in (tmp_path / "pids").read_text().split()]
        assert all(map(alive, pids))
        parent.kill()
        parent.wait()
        assert until(lambda: not any(map(alive, pids)))


@pytest.mark.parametrize("job", [b"{", b"{}", b'{"message":{},"channels":[]}', b'{"message":{"kind":"x"}}'])
def test_a_job_that_makes_no_sense_is_code_2(job: bytes) -> None:
    """One line says why; no traceback."""
    done = subprocess.run(
        [sys.executable, "-m", "costguard.notify.worker"], input=job + b"\n", capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (2, b"")
    assert "makes no sense" in json.loads(done.stdout)["error"]
