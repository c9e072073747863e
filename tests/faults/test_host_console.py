"""Standard error that nobody reads, and other ends of it."""

import os
import pty
import socket
import termios
from pathlib import Path

import pytest

from costguard.host.console import LINE_LIMIT_BYTES, Console, ServiceManager


def read_all(fd: int) -> bytes:
    os.set_blocking(fd, False)
    text = b""
    while True:
        try:
            text += os.read(fd, 1 << 20)
        except BlockingIOError:
            return text


@pytest.mark.parametrize("shared", [False, True])
def test_a_stalled_pipe_drops_lines_and_says_how_many(shared: bool) -> None:
    """Nobody reads: nothing blocks. When reading goes on, the gap is told first. Whoever shares the pipe keeps his flags."""
    reading, writing = os.pipe()
    console = Console(writing, {})
    if shared:  # as when the pipe cannot be opened anew
        console.close()
        console._fd, console._own = writing, False
    for number in range(2000):
        console.say(f"line {number} " + "." * 100)
    assert os.get_blocking(writing)
    kept = read_all(reading).count(b"\n")
    console.say("again")
    told = read_all(reading).decode().splitlines()
    assert told == [f"{2000 - kept} lines dropped: nothing was reading standard error", "again"]
    assert 0 < kept < 2000
    console.close()
    os.close(reading)
    os.close(writing)


def test_a_stopped_terminal_does_not_stop_the_guard() -> None:
    """Ctrl-S on the terminal: lines are dropped until Ctrl-Q."""
    master, slave = pty.openpty()
    console = Console(slave, {})
    termios.tcflow(slave, termios.TCOOFF)
    for _ in range(1000):
        console.say("x" * 200)
    termios.tcflow(slave, termios.TCOON)
    read_all(master)
    console.say("after")
    text = read_all(master)
    assert b"lines dropped" in text
    assert text.endswith(b"after\r\n")
    console.close()
    os.close(master)
    os.close(slave)


def test_a_closed_pipe_is_survived() -> None:
    """The reader is gone: lines are dropped."""
    reading, writing = os.pipe()
    console = Console(writing, {})
    os.close(reading)
    console.say("x")
    console.say("y")
    assert console._dropped == 2
    console.close()
    os.close(writing)


def test_the_journal_gets_priorities_and_others_do_not(tmp_path: Path) -> None:
    """The prefix of sd-daemon(3) is written only when standard error is the journal's own stream."""
    for journal in (True, False):
        ours, theirs = socket.socketpair()
        status = os.fstat(ours.fileno())
        stream = f"{status.st_dev}:{status.st_ino}" if journal else "1:2"
        console = Console(ours.fileno(), {"JOURNAL_STREAM": stream})
        console.say("<4>careful")
        console.say("plain <4>")
        prefix = b"<4>" if journal else b""
        assert theirs.recv(1000) == prefix + b"careful\nplain <4>\n"
        console.close()
        ours.close()
        theirs.close()


def test_a_stalled_journal_does_not_stop_the_guard() -> None:
    """A full socket drops lines too, and stays blocking for those who share it."""
    ours, theirs = socket.socketpair()
    console = Console(ours.fileno(), {})
    for _ in range(5000):
        console.say("x" * 200)
    assert console._dropped
    assert os.get_blocking(ours.fileno())
    console.close()
    ours.close()
    theirs.close()


def test_one_line_stays_one_line(tmp_path: Path) -> None:
    """What comes from others cannot forge a second line or move a cursor; a very long line is cut."""
    path = tmp_path / "log"
    with path.open("wb") as file:
        console = Console(file.fileno(), {})
        console.say("reason: \n<0>forged\x1b[2J é")
        console.say("z" * 10000)
        console.close()
    first, second = path.read_bytes().splitlines()
    assert first.decode() == "reason: ?<0>forged?[2J é"
    assert len(second) == LINE_LIMIT_BYTES


@pytest.mark.parametrize("name", ["@costguard-test-{pid}", "{folder}/notify"])
def test_the_service_manager_gets_datagrams(short_path: Path, name: str) -> None:
    """sd_notify(3), abstract and in the file system; a manager that has gone costs nothing."""
    address = name.format(pid=os.getpid(), folder=short_path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0" + address[1:] if address.startswith("@") else address)
        service = ServiceManager({"NOTIFY_SOCKET": address})
        service.tell("READY=1\nSTATUS=watching")
        assert manager.recv(1000) == b"READY=1\nSTATUS=watching"
    service.tell("WATCHDOG=1")
    service.close()


def test_without_a_manager_nothing_is_sent() -> None:
    """No NOTIFY_SOCKET: nothing to do, nothing to open."""
    service = ServiceManager({})
    service.tell("READY=1")
    service.close()
