"""Run programs with a deadline, in a process group of their own, with bounded output; nothing is left behind.

For short-lived workers only: resident processes use `costguard.process`.
"""

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from costguard.accounts import Account
from costguard.parent import end_with_parent

TERM_GRACE_SECONDS = 5.0
"""Between SIGTERM and SIGKILL for a program that outlived its deadline."""

KILL_WAIT_SECONDS = 2.0
"""To wait for the kernel after SIGKILL; a process in uninterruptible sleep is given up."""

OUTPUT_LIMIT_BYTES = 2048
"""The end of the output that is kept."""

_POLL_SECONDS = 0.02  # for a program that writes nothing


class ProgramEnd(NamedTuple):
    """How a program ended.

    ``code`` is the exit code, minus the signal that killed it, or None when it could not be reaped.
    ``output`` is the last 2 KiB of stdout and stderr together. ``expired``: it was killed at its deadline.
    """

    code: int | None
    output: str
    expired: bool


def run(
    argv: Sequence[str],
    deadline: float,
    *,
    text: bytes = b"",
    environ: Mapping[str, str] | None = None,
    grace: float = TERM_GRACE_SECONDS,
    account: Account | None = None,
    stdin: int | None = None,
    stderr: int = subprocess.STDOUT,
) -> ProgramEnd:
    """Run a program for at most ``deadline`` seconds, then SIGTERM, and SIGKILL after ``grace`` seconds.

    What it leaves running in its process group is killed too; a program that must live on starts its own
    session. ``text``, or what the descriptor ``stdin`` has, is its standard input; ``stderr``: a descriptor for what
    shall not stand in the output. ``account`` is whom it runs as: root alone may say so. Raises OSError when it cannot be started.
    """
    given = os.memfd_create("input") if text else os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if text:
            os.write(given, text)
            os.lseek(given, 0, os.SEEK_SET)
        process = subprocess.Popen(
            argv,
            stdin=given if stdin is None else stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=environ,
            process_group=0,
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=account.groups if account else None,
            preexec_fn=end_with_parent,  # noqa: PLW1509 - single-threaded worker, one system call
        )
    finally:
        os.close(given)
    try:
        return _watch(process, deadline, grace)
    except BaseException:  # the worker's own deadline or end: leave nothing behind
        os.killpg(process.pid, signal.SIGKILL)
        raise


class _Output:
    """The last bytes that a pipe carried."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self._tail = b""
        self._cut = False
        self.open = True

    def text(self) -> str:
        """What was kept, without a truncated first line: masking may not recognise a secret without its context."""
        tail = self._tail
        if self._cut:
            tail = next((rest for end in (b"\n", b" ") if (rest := tail.partition(end)[2])), b"")
        return tail.decode("utf-8", "replace").strip()

    def drain(self, wait: float) -> None:
        """Read what is there, waiting at most ``wait`` seconds for it."""
        if not self.open:
            time.sleep(wait)
            return
        if not select.select([self.fd], [], [], wait)[0]:
            return
        try:
            data = os.read(self.fd, 65536)
        except BlockingIOError:
            return
        self.open = bool(data)
        whole = self._tail + data
        self._cut = self._cut or len(whole) > OUTPUT_LIMIT_BYTES
        self._tail = whole[-OUTPUT_LIMIT_BYTES:]


def _watch(process: subprocess.Popen[bytes], deadline: float, grace: float) -> ProgramEnd:
    assert process.stdout is not None  # a pipe was asked for
    with process.stdout as pipe:
        output = _Output(pipe.fileno())
        end = time.monotonic() + deadline
        expired = False
        while not _has_ended(process.pid) and not expired:
            output.drain(_POLL_SECONDS)
            expired = time.monotonic() >= end
        if expired or _members(process.pid):
            _end_group(process.pid, output, grace)
        for _ in range(4):  # what the pipe still holds, 64 KiB at most by default
            output.drain(0)
        try:
            code: int | None = process.wait(timeout=KILL_WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            code = None
    return ProgramEnd(code, output.text(), expired)


def _end_group(group: int, output: _Output, grace: float) -> None:
    """Kill every member: SIGTERM, then SIGKILL. The unreaped leader keeps the number from being reused."""
    for number, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, KILL_WAIT_SECONDS)):
        with contextlib.suppress(ProcessLookupError, PermissionError):  # gone, or another user's (sudo)
            os.killpg(group, number)
        end = time.monotonic() + patience
        while _members(group) and time.monotonic() < end:
            output.drain(_POLL_SECONDS)
        if not _members(group):
            return


def _has_ended(pid: int) -> bool:
    """Whether a child ended, without reaping it."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _members(group: int) -> tuple[int, ...]:
    """The living processes of a group. Source: proc_pid_stat(5), fields 3 (state) and 5 (pgrp)."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            state, member_of = process_state(int(name))[:2]
            if member_of == group and state not in "ZX":
                found.append(int(name))
    return tuple(found)


def process_state(pid: int) -> tuple[str, int, int]:
    """State letter, process group and start time (clock ticks since boot) of a process; X, 0, 0: none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            fields = stat.read().rpartition(b")")[2].split()
    except OSError:
        return "X", 0, 0
    if len(fields) < 20:
        return "X", 0, 0
    return fields[0].decode("ascii"), int(fields[2]), int(fields[19])
