"""The notification worker as a real process, with pseudo terminals for people's terminals."""

import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from costguard.notify.delivery_record import ABSENT, DONE, FOLDER
from costguard.notify.message import Message
from costguard.notify.terminal import write_all
from costguard.notify.terminals import people
from costguard.notify.wall import counted, likely

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
        seen, screen = b"", select.poll()  # which takes descriptors of any number
        screen.register(self.screen, select.POLLIN)
        while screen.poll(0 if seen else 1000.0 * seconds):
            seen += os.read(self.screen, 65536)
        return seen.decode()


class Room:
    """A device folder that shows this test's terminals alone, whatever else is open on this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "dev/pts").mkdir(parents=True)
        (folder / "dev/pts/ptmx").touch()
        (folder / "bin").mkdir()
        self._opened: list[int] = []
        self.people: list[subprocess.Popen[bytes]] = []

    def terminal(self, name: str, program: str | None = "sh") -> Terminal:
        """One at which a program sits, called ``name`` in /dev; none sits there with None."""
        screen, line = os.openpty()
        self._opened += [screen, line]
        path = self.folder / "dev" / name
        path.symlink_to(os.ttyname(line))
        if program is not None:
            (home := self.folder / f"home/{name.replace('/', '-')}").mkdir(parents=True)
            (home / program).symlink_to("/bin/sleep")
            argv = [str(home / program), "600"]
            self.people.append(subprocess.Popen(argv, start_new_session=True, preexec_fn=lambda: sit(line)))  # noqa: PLW1509 - one system call
        return Terminal(screen, str(path))

    def close(self) -> None:
        for person in self.people:
            person.kill()
            person.wait()
        for fd in self._opened:
            os.close(fd)


def sit(line: int) -> None:
    """Make it the controlling terminal of this session, as a login does."""
    fcntl.ioctl(line, termios.TIOCSCTTY, 0)


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    made = Room(tmp_path)
    yield made
    made.close()


@pytest.fixture
def terminals(room: Room) -> list[Terminal]:
    """Two terminals at which somebody sits."""
    return [room.terminal(f"pts/{number}") for number in range(2)]


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
    said = json.loads(done.stdout)
    answered = said.pop("answered", {})
    assert set(answered) == {*said.get("reached", ()), *said.get("failed", ())} & set(channels)
    assert all(abs(time.time() - at) < 60.0 for at in answered.values())
    answer: Answers = {"reached": {}, "failed": {}, **said, "delivered": list(said.get("reached", ()))}
    # what reached nobody stands in the journal, and nothing else does
    journal = done.stderr.decode()
    assert bool(journal) is not bool(answer["delivered"])
    assert not journal or ("reached nobody" in journal and ("title " in journal or message is not TEXT))
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


def deny(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the worker be told that pts/1 is another user's: the kernel's word, which root never gets."""
    refuse = (
        "import os\nreal = os.open\n"
        "def refuse(path, *rest, **more):\n"
        "    if str(path).endswith('pts/1'):\n        raise PermissionError(13, 'denied')\n"
        "    return real(path, *rest, **more)\nos.open = refuse\n"
    )
    (folder / "site").mkdir()
    (folder / "site/sitecustomize.py").write_text(refuse)
    monkeypatch.setenv("PYTHONPATH", str(folder / "site"))


def until(true: Callable[[], bool], seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.02)
    return true()


def alive(pid: int, without: str = "") -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in f"ZX{without}"
    except FileNotFoundError:
        return False


def test_every_terminal_of_a_person_gets_the_message(tmp_path: Path, terminals: list[Terminal]) -> None:
    """Written by itself, utmp or not, wall(1) or not; nothing in a message can steer a terminal, and how many is told."""
    wall(tmp_path, f"echo used > {tmp_path}/said")
    reached = {"wall": "2 terminals (pts/0, pts/1)"}
    assert notify(tmp_path, ["wall"]) == {"delivered": ["wall"], "reached": reached, "failed": {}}
    for terminal in terminals:
        shown = terminal.shows()
        assert "title  [2J" in shown
        assert "\r\nline 1\r\nline 2\r\n" in shown.replace("\r\r", "\r")
        assert not {"\x1b", "\u202e"} & set(shown)
    assert not (tmp_path / "said").exists()


@pytest.mark.parametrize("name", ["tty1", "ttyS0", "ttyAMA0", "hvc0", "console"])
@pytest.mark.parametrize("program", ["bash", "agetty", "login", None])
def test_a_console_counts_when_somebody_is_logged_in(room: Room, name: str, program: str | None) -> None:
    """Its shell tells; a prompt that waits for a login is nobody, and is left alone."""
    console = room.terminal(name, program)
    answer = notify(room.folder, ["wall"])
    if program == "bash":
        assert answer["reached"] == {"wall": f"1 terminal ({name})"}
        assert "line 2" in console.shows()
    else:
        assert answer["delivered"] == []
        assert "nobody is logged in" in answer["failed"]["wall"]
        assert console.shows(0.0) == ""


def test_the_console_is_written_once(room: Room) -> None:
    """/dev/console is another name for the terminal behind it."""
    console = room.terminal("ttyS0")
    (room.folder / "dev/console").symlink_to(os.path.realpath(console.path))
    assert notify(room.folder, ["wall"])["reached"] == {"wall": "1 terminal (ttyS0)"}
    assert console.shows().count("line 2") == 1


def test_a_terminal_that_nobody_uses_is_nobody(room: Room) -> None:
    """A pseudo terminal without a program, beside one with: one person."""
    unused, used = room.terminal("pts/0", None), room.terminal("pts/1")
    assert notify(room.folder, ["wall"])["reached"] == {"wall": "1 terminal (pts/1)"}
    assert unused.shows(0.0) == ""
    assert "line 2" in used.shows()


def test_a_terminal_whose_other_side_is_stopped_does_not_count(room: Room) -> None:
    """As that of a suspended emulator or a stopped sshd: it takes the text, and nobody reads it."""
    program = (
        "import fcntl, os, subprocess, sys, termios, time\n"
        "screen, line = os.openpty()\n"
        "sit = lambda: fcntl.ioctl(line, termios.TIOCSCTTY, 0)\n"
        "subprocess.Popen(['sleep', '600'], start_new_session=True, preexec_fn=sit, stdin=line, stdout=line)\n"
        "print(os.ttyname(line), flush=True); os.close(line); time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as emulator:
        assert emulator.stdout is not None
        (room.folder / "dev/pts/7").symlink_to(emulator.stdout.readline().strip())
        assert notify(room.folder, ["wall"])["reached"] == {"wall": "1 terminal (pts/7)"}
        emulator.send_signal(signal.SIGSTOP)
        assert until(lambda: not alive(emulator.pid, "T"))
        answer = notify(room.folder, ["wall"])
        predicted = likely("/proc", str(room.folder / "dev"), os.geteuid())
        emulator.kill()
    assert "the terminal program is stopped" in answer["failed"]["wall"]
    assert predicted == ([], {f"{room.folder}/dev/pts/7": "nobody reads it: the terminal program is stopped"})


def test_doctor_predicts_what_a_delivery_does(room: Room) -> None:
    """The same people, and the same terminals that take nothing, without a byte written."""
    for name, program in (("pts/0", "zsh"), ("pts/1", None), ("ttyS0", "bash"), ("ttyS1", "agetty"), ("hvc0", "sh")):
        room.terminal(name, program)
    fill(f"{room.folder}/dev/ttyS0")
    found, troubles = likely("/proc", str(room.folder / "dev"), os.geteuid())
    assert notify(room.folder, ["wall"])["reached"] == {"wall": counted(found, str(room.folder / "dev"))}
    assert [path.removeprefix(f"{room.folder}/dev/") for path in found] == ["hvc0", "pts/0"]
    assert list(troubles) == [f"{room.folder}/dev/ttyS0"]
    denied = dict.fromkeys(
        (f"{room.folder}/dev/{name}" for name in ("hvc0", "pts/0", "ttyS0")), "it belongs to another user"
    )
    assert likely("/proc", str(room.folder / "dev"), 65533) == ([], denied), "another user's agent may write to none"


def test_an_emergency_shell_without_a_controlling_terminal_is_somebody(room: Room) -> None:
    """What stands on its standard input is where a person types."""
    proc = room.folder / "proc"
    console = room.terminal("console", None)
    for pid, name, number, stdin in (
        (1, "init", 0, "/dev/null"),
        (7, "-sh", 0, "/dev/console"),
        (8, "sh", 0, "pipe:[7]"),
    ):
        (proc / f"{pid}/fd").mkdir(parents=True)
        (proc / f"{pid}/stat").write_text(f"{pid} ({name}) S 1 {pid} {pid} {number} -1 0\n")
        (proc / f"{pid}/fd/0").symlink_to(stdin)
    assert people(str(proc), str(room.folder / "dev")) == [console.path]


@pytest.mark.parametrize("script", ["exit 0", "exit 1", "exec /bin/sleep 60", "trap '' TERM; while :; do :; done"])
def test_wall_gets_what_may_not_be_written_and_counts_nobody(
    room: Room, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    """Other people's terminals are for wall(1), which does not say whom it reached; it may hang as it likes."""
    own, other = room.terminal("pts/0"), room.terminal("pts/1")
    wall(room.folder, f'[ -n "$1" ] || while read -r line; do echo "$line"; done > {room.folder}/said; {script}')
    deny(room.folder, monkeypatch)
    start = time.monotonic()
    assert notify(room.folder, ["wall"])["reached"] == {"wall": "1 terminal (pts/0)"}
    assert (room.folder / "said").read_text() == "title  [2J  end\n\nline 1\nline 2\n"
    assert "line 2" in own.shows()
    assert other.shows(0.0) == ""
    assert time.monotonic() - start < 6


def test_a_stopped_terminal_keeps_nobody_waiting(tmp_path: Path, terminals: list[Terminal]) -> None:
    """The others get the message; when all are stopped, it was not delivered."""
    fill(terminals[0].path)
    assert notify(tmp_path, ["wall"])["delivered"] == ["wall"]
    assert "line 2" in terminals[1].shows()
    fill(terminals[1].path)
    answer = notify(tmp_path, ["wall", "terminal"], tty=terminals[0].path)
    assert answer["delivered"] == []
    assert "it blocks" in answer["failed"]["wall"]
    assert "it blocks" in answer["failed"]["terminal"]


def test_many_stopped_terminals_of_one_user_silence_nobody(tmp_path: Path, room: Room) -> None:
    """Everybody gets the message before any of them is waited for, however many they are and wherever they stand."""
    stopped = [room.terminal(f"pts/{number}", None) for number in range(60)]
    for each in stopped:
        fill(each.path)
    person = room.terminal("pts/60", None)
    paths = [each.path for each in (*stopped, person)]
    began = time.monotonic()
    troubles = write_all(paths, Message("m1", "notes", "info", "title", "line 2", dry_run=False), 0.2, str(tmp_path))
    assert time.monotonic() - began < 1.0
    assert "line 2" in person.shows()
    assert set(troubles) == {each.path for each in stopped}


def test_a_terminal_that_nobody_reads_takes_only_so_much(tmp_path: Path, terminals: list[Terminal]) -> None:
    """A long message that does not fit is given up in the channel's own time, not cut off by the worker."""
    answer = notify(tmp_path, ["terminal"], {**TEXT, "body": "x" * 60_000}, tty=terminals[0].path)
    assert "it blocks" in answer["failed"]["terminal"]


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
    assert list(json.loads(done.stdout)["reached"]) == ["terminal"]
    assert "line 2" in terminals[0].shows()


def test_nobody_there_is_not_delivered(room: Room) -> None:
    """A warning that nobody can have seen does not count as one."""
    wall(room.folder, "exit 0")
    assert "in `costguard history`" in notify(room.folder, ["wall"])["failed"]["wall"]


def test_the_guards_own_terminal(tmp_path: Path, terminals: list[Terminal]) -> None:
    """Named by its path; anything that is not a terminal is refused and stays as it is."""
    assert notify(tmp_path, ["terminal"], tty=terminals[0].path)["delivered"] == ["terminal"]
    assert "line 1" in terminals[0].shows()
    (tmp_path / "file").write_text("precious")
    assert "not a terminal" in notify(tmp_path, ["terminal"], tty=str(tmp_path / "file"))["failed"]["terminal"]
    assert "not a terminal" in notify(tmp_path, ["terminal"], tty="/dev/null")["failed"]["terminal"]
    assert "no terminal of its own" in notify(tmp_path, ["terminal"], runtime=str(tmp_path))["failed"]["terminal"]
    steps = [json.loads(line)[1] for line in (tmp_path / FOLDER / "m1").read_text().splitlines()]
    assert (ABSENT in steps, DONE in steps) == (True, False), "a guard that was killed is told no failure"
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
    job = {"message": {"id": "m", "kind": "notes"}, "channels": ["terminal"], "settings": {}}
    worker.stdin.write(json.dumps(job).encode() + b"\n")
    worker.stdin.close()
    with worker.stderr as said:
        assert b"Traceback" not in said.read()
    assert worker.wait(timeout=10) == 0


def test_a_worker_dies_with_its_parent(
    tmp_path: Path, terminals: list[Terminal], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A guard that is killed leaves neither a worker nor its programs behind, even while its pipes stay open."""
    deny(tmp_path, monkeypatch)
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
    assert "malformed job" in json.loads(done.stdout)["error"]


LIVE = {"mode": "live", "action": "stop", "instance": "i-1", "incident": "b-i1"}


def kept(folder: Path, kind: str, **facts: object) -> str | None:
    """Tell this to nobody; what whoever logs in would read."""
    runtime = folder / "run"
    runtime.mkdir(exist_ok=True)
    draft = {"id": "m", "kind": kind, "level": "warning", "facts": {**LIVE, **facts}}
    notify(folder, [], draft, runtime=str(runtime))
    found = runtime / "login-message"
    assert not found.exists() or found.stat().st_mode & 0o777 == 0o644
    return found.read_text() if found.exists() else None


@pytest.mark.parametrize("end", ["cancelled", "held", "acting", "failed", "came_back"])
def test_whoever_logs_in_during_a_countdown_reads_of_it(tmp_path: Path, room: Room, end: str) -> None:
    """While it runs, and no longer."""
    del room
    assert "will be stopped in 10m" in str(kept(tmp_path, "warning", grace=600.0))
    assert "will be stopped in 1m" in str(kept(tmp_path, "countdown", due_in_seconds=60.0))
    assert "costguard hold 2h" in str(kept(tmp_path, "weak_sign")), "another message leaves it"
    assert kept(tmp_path, end) is None
    assert kept(tmp_path, "warning", mode="dry-run") is None, "nothing will happen"


def test_a_link_in_the_runtime_directory_leads_the_login_message_nowhere(tmp_path: Path, room: Room) -> None:
    """Only the agent can write there; and what stands there is replaced, not followed."""
    del room
    (tmp_path / "run").mkdir()
    (tmp_path / "other").write_text("mine")
    (tmp_path / "run/login-message.new").symlink_to(tmp_path / "other")
    assert kept(tmp_path, "warning") is None
    assert (tmp_path / "other").read_text() == "mine"
