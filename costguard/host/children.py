"""The guard's child processes: started by exec, fed and read by lines, killed without waiting."""

import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress  # already loaded by typing

from costguard.host.poller import READ, WRITE, Poller
from costguard.host.ports import Ended, HostEvent, Line, SpawnFailed

LINE_LIMIT_BYTES = 65536
"""Of one line; a child that writes a longer one is killed."""

FLOOD_BYTES = 1 << 20
FLOOD_SECONDS = 10.0
"""A child that writes more than this in that time is killed: it would take the guard's time."""

LINE_COST_BYTES = 256
"""Added to the size of each line: a short line takes as much of the loop's time as a long one."""

_CHUNK_BYTES = 16384
_DEFAULT_SIGNALS = (signal.SIGPIPE, signal.SIGTTOU)  # ignored by the guard, and ignoring survives exec


class _Child:
    __slots__ = ("number", "outgoing", "output", "pid", "program", "read", "since", "stdin", "stdout")

    def __init__(self, number: int, program: str, pid: int, stdin: int, stdout: int) -> None:
        self.number, self.program, self.pid, self.stdin, self.stdout = number, program, pid, stdin, stdout
        self.output = b""  # read, and not yet a whole line
        self.outgoing = b""  # to be written when the pipe has room
        self.read, self.since = 0, time.monotonic()

    def excessive(self) -> bool:
        return len(self.output) > LINE_LIMIT_BYTES or self.read > FLOOD_BYTES


class Children:
    """All children of the guard, by number: numbers are never reused, process ids are."""

    def __init__(self, poller: Poller, programs: Mapping[str, list[str]], environment: Mapping[str, str]) -> None:
        self._poller, self._programs, self._environment = poller, programs, environment
        self._children: dict[int, _Child] = {}
        self._by_fd: dict[int, _Child] = {}
        self._killed: dict[int, str] = {}  # process id that the kernel has not given back, and its program
        self._count = 0

    def spawn(self, program: str, job: bytes) -> int:
        """Start a program in a session of its own and send it its job line."""
        argv = self._programs[program]
        pipes: list[int] = []
        try:
            pipes += os.pipe2(os.O_CLOEXEC)
            pipes += os.pipe2(os.O_CLOEXEC)
            pid = os.posix_spawn(
                argv[0],
                argv,
                self._environment,
                file_actions=[(os.POSIX_SPAWN_DUP2, pipes[0], 0), (os.POSIX_SPAWN_DUP2, pipes[3], 1)],
                setsid=True,
                setsigmask=(),
                setsigdef=_DEFAULT_SIGNALS,
            )
        except OSError as error:
            for fd in pipes:
                os.close(fd)
            raise SpawnFailed(f"cannot start {program}: {error.strerror}") from error
        os.close(pipes[0])
        os.close(pipes[3])
        self._count += 1
        child = _Child(self._count, program, pid, pipes[1], pipes[2])
        os.set_blocking(child.stdin, False)
        os.set_blocking(child.stdout, False)
        self._children[child.number] = child
        self._by_fd[child.stdout] = child
        self._poller.add(child.stdout, READ, self._readable)
        self._write(child, job + b"\n")
        return child.number

    def send(self, number: int, line: bytes) -> bool:
        """Write one line; False when the child is gone or has not read what it was sent before."""
        child = self._children.get(number)
        if child is None or child.stdin < 0 or child.outgoing:
            return False
        return self._write(child, line + b"\n")

    def kill(self, number: int) -> None:
        """SIGKILL the child and everything in its session, and forget it."""
        child = self._children.get(number)
        if child is None:
            return
        self._forget(child)
        self._killed[child.pid] = child.program
        with suppress(OSError):  # it ended by itself just now, or the kernel forbids it: `_collect_killed` will see
            os.killpg(child.pid, signal.SIGKILL)
        _kill_session(child.pid)
        self._collect_killed()

    def unreaped(self, program: str = "") -> int:
        """Count the killed children, of one program or of all, that still exist."""
        self._collect_killed()
        return len([name for name in self._killed.values() if not program or name == program])

    def reap(self, events: list[HostEvent]) -> None:
        """Collect the children that ended; never waits."""
        self._collect_killed()
        for child in list(self._children.values()):
            code = _exit_code(child.pid)
            if code is not None:
                self._last_words(child, events)
                self._forget(child)
                events.append(Ended(child.number, -signal.SIGKILL if child.excessive() else code))

    def close(self) -> None:
        """Close all pipes: children see the end of their input and leave."""
        for child in list(self._children.values()):
            self._forget(child)

    def _collect_killed(self) -> None:
        for pid in list(self._killed):
            if _exit_code(pid) is not None:
                del self._killed[pid]

    def _forget(self, child: _Child) -> None:
        del self._children[child.number]
        self._close_input(child)
        self._close_output(child)

    def _close_input(self, child: _Child) -> None:
        if child.stdin >= 0:
            self._poller.drop(child.stdin)
            self._by_fd.pop(child.stdin, None)
            os.close(child.stdin)
            child.stdin, child.outgoing = -1, b""

    def _close_output(self, child: _Child) -> None:
        if child.stdout >= 0:
            self._poller.drop(child.stdout)
            self._by_fd.pop(child.stdout, None)
            os.close(child.stdout)
            child.stdout = -1

    def _write(self, child: _Child, data: bytes) -> bool:
        try:
            sent = os.write(child.stdin, data)
        except BlockingIOError:
            sent = 0
        except OSError:  # EPIPE: it closed its input; `reap` reports its end
            self._close_input(child)
            return False
        waiting = child.stdin in self._by_fd
        child.outgoing = data[sent:]
        if child.outgoing and not waiting:
            self._by_fd[child.stdin] = child
            self._poller.add(child.stdin, WRITE, self._writable)
        elif waiting and not child.outgoing:
            self._poller.drop(child.stdin)
            del self._by_fd[child.stdin]
        return True

    def _writable(self, fd: int, _events: list[HostEvent]) -> None:
        child = self._by_fd[fd]
        self._write(child, child.outgoing)

    def _readable(self, fd: int, events: list[HostEvent]) -> None:
        child = self._by_fd[fd]
        if not self._read(child, events):
            self._close_output(child)
        now = time.monotonic()
        if now - child.since > FLOOD_SECONDS:
            child.read, child.since = 0, now
        if child.excessive():
            self.kill(child.number)
            events.append(Ended(child.number, -signal.SIGKILL))

    def _read(self, child: _Child, events: list[HostEvent]) -> bool:
        """Read once, add whole lines; False at the end of the output."""
        try:
            data = os.read(child.stdout, _CHUNK_BYTES)
        except BlockingIOError:
            return True
        *lines, child.output = (child.output + data).split(b"\n")
        child.read += len(data) + LINE_COST_BYTES * len(lines)
        if lines and len(lines[0]) > LINE_LIMIT_BYTES:
            lines, child.read = [], FLOOD_BYTES + 1
        for line in lines:
            events.append(Line(child.number, line))  # noqa: PERF401 # nearly always one: a generator costs more
        return bool(data)

    def _last_words(self, child: _Child, events: list[HostEvent]) -> None:
        """What an ended child left in its pipe: at most one pipe full, a grandchild may go on writing."""
        for _ in range(LINE_LIMIT_BYTES // _CHUNK_BYTES):
            before = child.read
            if child.stdout < 0 or not self._read(child, events) or child.read == before:
                return


def _exit_code(pid: int) -> int | None:
    """The exit code of an ended child, None while it lives."""
    try:
        ended, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return -signal.SIGKILL  # collected elsewhere: its code is lost, and that is not a success
    return os.waitstatus_to_exitcode(status) if ended else None


def _kill_session(leader: int) -> None:
    """SIGKILL what the child started in other process groups of its session.

    The kernel offers no call for this, so /proc is read; a second pass catches what was forked meanwhile.
    """
    for _ in range(2):
        members = _session(leader)
        for pid in members:
            with suppress(OSError):  # gone by itself
                os.kill(pid, signal.SIGKILL)
        if not members:
            return


def _session(leader: int) -> list[int]:
    members: list[int] = []
    try:
        names = os.listdir("/proc")
    except OSError:
        return members
    for name in names:
        if not name.isdigit() or int(name) == leader:
            continue
        try:
            with open(f"/proc/{name}/stat", "rb", buffering=0) as file:
                fields = file.read(4096).rpartition(b")")[2].split()
        except OSError:
            continue
        # proc(5): state, num_threads
        lives = len(fields) > 17 and (fields[0] not in (b"Z", b"X") or int(fields[17]) > 1)
        if lives and fields[3] == b"%d" % leader:  # session
            members.append(int(name))
    return members
