"""The short-lived process that runs the owner's probe once: as the configured user, within its time limit, leaving nothing behind.

Processes that a probe starts and abandons become children of this process (`PR_SET_CHILD_SUBREAPER`), so that all of them can be
ended, even those that have left its group and session. Only the exit code and one number are read from a probe.
Sources: prctl(2), proc_pid_stat(5) (field 4, parent).
"""

import ctypes
import os
import re
import resource
import select
import signal
import sys
import time
from math import inf, isfinite
from typing import NoReturn

from costguard.accounts import Account, NoAccountError, account_of
from costguard.parent import end_with_parent
from costguard.process.worker import serve
from costguard.readers.host.errand_jobs import ProbeEnd, ProbeJob
from costguard.readers.host.text import PAGE_BYTES, read
from costguard.trust import weakness

OUTPUT_BYTES = 1 << 16
"""A probe that writes more is killed."""

PROCESSES = 64
"""A probe that starts more is killed."""

INTERPRETERS = (
    "sh", "bash", "dash", "zsh", "ksh", "fish", "ash", "csh", "tcsh", "busybox", "env", "python", "pypy", "perl", "ruby", "lua",
    "php", "node", "tclsh", "Rscript", "timeout", "nice", "flock", "setsid",
)  # fmt: skip
"""How the names of programs begin that run another file, which stands among their arguments."""

LEFT_SECONDS = 0.5
"""Seconds after the end of a probe in which whatever it started must end, too."""

GONE_SECONDS = 3.0
"""Seconds to wait until what was killed is gone."""

_NUMBER = re.compile(rb"\s*([-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)\s*")

_POLL_SECONDS = 0.05
_COUNT_SECONDS = 0.5
_PR_SET_CHILD_SUBREAPER = 36
_NOT_STARTED = 126


class _ProbeError(Exception):
    """Why the probe gives no answer, in words that follow *the probe*."""


class _ReaderGoneError(Exception):
    """Whoever wanted to know is gone."""


def main() -> int:
    """Do one job."""
    if os.getsid(0) != os.getpid():  # in a unit of its own it leads a session already
        os.setsid()  # the guard kills the reader's session, and this process must outlive that to clean up
    end_with_parent(signal.SIGTERM)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    return serve(ProbeJob, run, ProbeEnd)


def run(job: ProbeJob) -> ProbeEnd:
    """Run the probe and say how it ended. When told to end meanwhile, first end what it has started."""
    signal.signal(signal.SIGTERM, _told_to_end)
    try:
        end = _run(job)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # from here on only what is left is ended
    except _ReaderGoneError as error:
        end = ProbeEnd(str(error))
    finally:
        _end_all()
    return end


def _run(job: ProbeJob) -> ProbeEnd:
    """Raises _ReaderGoneError."""
    try:
        program, account = _program(job.run[0]), account_of(job.user)
        _refuse_strange(program, job.run[1:], account.uid if account else os.geteuid())
        code, output = _watch(*_start(program, job.run, account), job.within)
    except _ProbeError as error:
        return ProbeEnd(str(error))
    except NoAccountError as error:
        return ProbeEnd(f"is not run: {error}")
    except OSError as error:
        return ProbeEnd(f"cannot be run ({error.strerror})")
    return ProbeEnd("", code, _number(output))


def _told_to_end(_number: int, _frame: object) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: the clean-up must not be interrupted
    raise _ReaderGoneError("was ended with its reader")


def _program(name: str) -> str:
    """The path of the program. Raises _ProbeError."""
    folders = [""] if "/" in name else [f"{one}/" for one in os.environ.get("PATH", os.defpath).split(":") if one]
    for folder in folders:
        if os.path.isfile(folder + name) and os.access(folder + name, os.X_OK):
            return os.path.abspath(folder + name)
    raise _ProbeError("does not exist, or is not executable")


def _refuse_strange(program: str, arguments: tuple[str, ...], uid: int) -> None:
    """Raises _ProbeError if users other than this one and root can change the program, or a script among its arguments.

    Any other argument is data, which others may well write.
    """
    interprets = os.path.basename(program).startswith(INTERPRETERS)
    files = [path for word in arguments if os.path.isfile(path := os.path.join("/", word))]
    for path in (program, *(file for file in files if interprets or os.access(file, os.X_OK))):
        if found := weakness(path, uid):
            raise _ProbeError(f"is not run: {found.reason}")


def _start(program: str, argv: tuple[str, ...], account: Account | None) -> tuple[int, int]:
    """Start the program in a process group of its own; its number, and where to read its output. Raises OSError."""
    output, end = os.pipe2(os.O_CLOEXEC)
    failed, failure = os.pipe2(os.O_CLOEXEC)
    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    own = os.getpid()
    pid = os.fork()
    if not pid:
        try:  # the child must never return from here
            _become(account, own)
            for given, wanted in ((nowhere, 0), (end, 1), (nowhere, 2)):
                os.dup2(given, wanted)
            os.execve(program, argv, {**os.environ, **(account.variables if account else {})})  # noqa: S606 - the owner's program, without a shell
        except OSError as error:
            os.write(failure, str(error.errno).encode())
        finally:
            os._exit(_NOT_STARTED)
    for descriptor in (end, failure, nowhere):
        os.close(descriptor)
    if number := os.read(failed, PAGE_BYTES):  # empty once the program runs: exec closed the other end
        raise OSError(int(number), os.strerror(int(number)))
    os.close(failed)
    return pid, output


def _become(account: Account | None, parent: int) -> None:
    """Prepare the new process before it becomes the program. Raises OSError."""
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if account is not None:
        os.setgroups(account.groups)
        os.setresgid(account.gid, account.gid, account.gid)
        os.setresuid(account.uid, account.uid, account.uid)
    end_with_parent()  # after the change of user, which resets it
    if os.getppid() != parent:
        os._exit(_NOT_STARTED)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.chdir("/")


class _ProbeOutput:
    """What the probe writes."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd, self._open, self.text = fd, True, b""

    def read(self, wait: float) -> None:
        """Read what is there, waiting at most so long for it. Raises _ProbeError."""
        if not self._open:
            time.sleep(wait)
        elif select.select([self._fd], [], [], wait)[0]:
            data = os.read(self._fd, OUTPUT_BYTES)
            self._open, self.text = bool(data), self.text + data
        if len(self.text) > OUTPUT_BYTES:
            raise _ProbeError(f"was killed: it wrote more than {OUTPUT_BYTES >> 10} kB")


def _watch(pid: int, fd: int, within: float) -> tuple[int, bytes]:
    """Wait for the probe: its exit code (negative: a signal) and its output. Raises _ProbeError."""
    output = _ProbeOutput(fd)
    end = time.monotonic() + within
    count_at = 0.0
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        output.read(_POLL_SECONDS)
        now = time.monotonic()
        if now >= end:
            raise _ProbeError(f"was killed: it did not end in {within:g} s")
        if now >= count_at:
            count_at = now + _COUNT_SECONDS
            if len(_below()) > PROCESSES:
                raise _ProbeError(f"was killed: it started more than {PROCESSES} processes")
    output.read(0.0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    until = time.monotonic() + LEFT_SECONDS
    while _living():
        if time.monotonic() >= until:
            raise _ProbeError("left processes behind, which were killed")
        output.read(_POLL_SECONDS)
    return code, output.text


def _number(output: bytes) -> float | None:
    """The output, if it is one number and nothing else: of `0 waiting, 12 running` a first word would say that all is quiet."""
    found = _NUMBER.fullmatch(output)
    value = float(found[1]) if found else inf
    return value if isfinite(value) else None


def _living() -> set[int]:
    """The processes below this one, once those that have ended are reaped."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return set()
    return _below()


def _below() -> set[int]:
    """Every process that this one, or one of those below it, has started."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                fields = read(f"/proc/{name}/stat", PAGE_BYTES).rpartition(b")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(name))
            except (OSError, ValueError, IndexError):  # it has ended
                continue
    found: set[int] = set()
    waiting = [os.getpid()]
    while waiting:
        for pid in children.get(waiting.pop(), ()):
            if pid not in found:
                found.add(pid)
                waiting.append(pid)
    return found


def _end_all() -> None:
    """Kill all that is left: first stop every process, so that none starts another meanwhile."""
    until = time.monotonic() + GONE_SECONDS
    stopped: set[int] = set()
    while (found := _living()) - stopped and time.monotonic() < until:
        for pid in found - stopped:
            _signal(pid, signal.SIGSTOP)
        stopped |= found
    while (found := _living()) and time.monotonic() < until:
        for pid in found:
            _signal(pid, signal.SIGKILL)
        time.sleep(_POLL_SECONDS / 5.0)


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:  # it has ended
        return


if __name__ == "__main__":
    sys.exit(main())
