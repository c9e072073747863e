"""One agent per directory: a lock that the kernel drops with its holder, however that ends.

The lock file is the agent's alone: a user who can open a file, even for reading, can lock it forever. What clients need
to find the agent is in another file, which every user may read and nothing locks.
"""

import fcntl
import os
import stat
import time

LOCK, SIGN = "guard.lock", "agent"
SHARED = "lock"
"""The lock file of earlier versions, readable by all: it proves an agent only while its holder is one."""

GUARD = (b"-I", b"-S", b"/process/start.py", b"costguard.agent.__main__")
"""How the arguments of a guard's interpreter end (`costguard.process.command_lines`)."""


class TakenError(Exception):
    """A running agent holds the directory; the message names it."""


class HeldError(Exception):
    """A process that is no agent holds the lock; the message names it."""


class UnusableError(Exception):
    """The directory cannot hold a lock; the message says why."""


def acquire(directory: str, state: str, *, private: bool = True, runtime: str = "") -> int:
    """Lock a directory, creating it if it is missing. Returns the descriptor that keeps the lock while it is open.

    ``state`` is shown to those who find the lock taken; ``runtime`` tells clients where the agent's socket is.
    ``private``: refuse a directory that others can write. Raises TakenError, HeldError and UnusableError.
    """
    path = os.path.join(directory, LOCK)
    try:
        prepare(directory, private=private)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError as error:
        raise UnusableError(f"cannot use {directory}: {error.strerror or error}") from error
    try:
        _make_private(fd, path)
        _lock(fd, path, directory)
        _retire(os.path.join(directory, SHARED))
    except BaseException:
        os.close(fd)
        raise
    _sign(directory, state, runtime)
    return fd


def holds(fd: int, directory: str) -> bool:
    """Whether the directory's lock file is still the one that ``fd`` keeps locked."""
    try:
        return os.path.samestat(os.fstat(fd), os.lstat(os.path.join(directory, LOCK)))
    except OSError:
        return False


def prepare(directory: str, *, private: bool = True) -> None:
    """Create the directory. Raises OSError, with ``private`` also for one that another user could have planted."""
    os.makedirs(directory, mode=0o755, exist_ok=True)
    status = os.lstat(directory)
    ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022
    if private and not ours:
        raise PermissionError(f"{directory} must be a directory owned by this user and writable by no one else")


def runtime_of(directory: str) -> str:
    """The runtime directory that the last agent of this state directory signed with; empty when nothing says so."""
    lines = _lines(os.path.join(directory, SIGN))
    return lines[3] if len(lines) > 3 and os.path.isabs(lines[3]) else ""


def _make_private(fd: int, path: str) -> None:
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        raise UnusableError(f"cannot lock {path}: it must be a regular file owned by this user")
    if status.st_mode & 0o077:
        os.fchmod(fd, 0o600)


def _lock(fd: int, path: str, directory: str) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lines = _lines(os.path.join(directory, SIGN))
        if agent := _living(lines):
            raise TakenError(agent) from error
        raise HeldError(
            f"{path} is locked by {_holder(fd)}, which is not a costguard agent: end that process, "
            "because only this lock keeps two agents from acting on one machine"
        ) from error
    except OSError as error:
        raise UnusableError(f"cannot lock {path}: {error.strerror}") from error


def _retire(path: str) -> None:
    """Remove the lock file of an earlier version, unless its agent still runs."""
    lines = _lines(path)
    if len(lines) < 3 or not lines[0].isdigit():
        return  # there is none, or the file is not ours
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        if agent := _living(lines):
            raise TakenError(agent) from None
    finally:
        os.close(fd)
    try:
        os.unlink(path)
    except OSError:
        return  # nothing reads it any more


def _living(lines: list[str]) -> str:
    """Name the agent that wrote these lines; empty when it has ended, or its pid is another process's now."""
    if len(lines) < 3 or not lines[0].isdigit() or not _is_guard(lines[0]):
        return ""
    named = f"pid {lines[0]}, state directory {lines[1]}, started {lines[2]}"
    return f"another costguard agent is already running: {named}; see `costguard status`"


def _is_guard(pid: str) -> bool:
    """Whether this process is a guard of our own user; a look-alike of another user is not."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            arguments = file.read(8192).split(b"\0")
        with open(f"/proc/{pid}/status", "rb") as file:
            users = next(line.split()[1:] for line in file if line.startswith(b"Uid:"))
    except (OSError, StopIteration):
        return False
    given = arguments[1 : 1 + len(GUARD)]
    return set(users) == {b"%d" % os.geteuid()} and list(map(bytes.endswith, given, GUARD)) == [True] * len(GUARD)


def _holder(fd: int) -> str:
    """Who the kernel says has locked this file. Source: proc_locks(5)."""
    file = os.fstat(fd).st_ino
    try:
        with open("/proc/locks", encoding="ascii", errors="replace") as locks:
            for line in locks:
                fields = line.split()
                if len(fields) > 5 and fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == str(file):
                    return f"pid {fields[4]} ({_name(fields[4])})"
    except OSError:
        pass
    return "an unknown process"  # perhaps on another machine, or in another container


def _name(pid: str) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return "".join(c for c in file.read() if c.isprintable())
    except OSError:
        return "exited; a child keeps the file open"


def _lines(path: str) -> list[str]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return []
    try:
        return os.read(fd, 4096).decode("utf-8", "replace").splitlines()
    except OSError:
        return []
    finally:
        os.close(fd)


def _sign(directory: str, state: str, runtime: str) -> None:
    started = time.strftime("%Y-%m-%d %H:%M:%S %z")
    path = os.path.join(directory, SIGN)
    temporary = f"{path}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        fd = os.open(temporary, flags, 0o644)
        try:
            os.fchmod(fd, 0o644)  # whatever the umask: every user's verbs read it
            os.write(fd, f"{os.getpid()}\n{state}\n{started}\n{runtime}\n".encode())
        finally:
            os.close(fd)
        os.rename(temporary, path)
    except OSError:
        return  # a full disk: the lock itself holds
