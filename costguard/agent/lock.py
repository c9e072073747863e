"""One agent per directory: a lock that the kernel drops with its holder, however that ends."""

import fcntl
import os
import stat
import time

NAME = "lock"


class TakenError(Exception):
    """Another agent holds the directory; the words name it."""


class UnusableError(Exception):
    """The directory cannot hold a lock; the words say why."""


def acquire(directory: str, state: str, *, private: bool = True, runtime: str = "") -> int:
    """Lock a directory, making it when it is missing; the descriptor keeps the lock while it is open.

    ``state`` is told to whoever finds the lock taken, ``runtime`` to whoever looks for the agent's socket. ``private``: refuse a directory that others can write.
    Raises TakenError and UnusableError.
    """
    path = os.path.join(directory, NAME)
    try:
        prepare(directory, private=private)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise UnusableError(f"cannot use {directory}: {error.strerror or error}") from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        words = holder(fd)
        os.close(fd)
        raise TakenError(f"another costguard agent already runs: {words}; see `costguard status`") from error
    except OSError as error:
        os.close(fd)
        raise UnusableError(f"cannot lock {path}: {error.strerror}") from error
    _sign(fd, state, runtime)
    return fd


def holds(fd: int, directory: str) -> bool:
    """Whether the directory's lock file is still the one that ``fd`` keeps locked."""
    try:
        return os.path.samestat(os.fstat(fd), os.lstat(os.path.join(directory, NAME)))
    except OSError:
        return False


def prepare(directory: str, *, private: bool = True) -> None:
    """Make the directory; raises OSError. ``private``: also for one that others could have laid for us."""
    os.makedirs(directory, mode=0o755, exist_ok=True)
    status = os.lstat(directory)
    ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022
    if private and not ours:
        raise PermissionError(f"{directory} must be a directory that belongs to and is writable by this user alone")


def holder(fd: int) -> str:
    """Who signed the lock file, in words."""
    lines = os.pread(fd, 4096, 0).decode("utf-8", "replace").splitlines()
    if len(lines) < 3:
        return "it has not written its number"
    return f"pid {lines[0]}, state directory {lines[1]}, started {lines[2]}"


def runtime_of(directory: str) -> str:
    """The runtime directory that the last agent of this state directory signed with; empty when nothing says so."""
    try:
        fd = os.open(os.path.join(directory, NAME), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ""
    try:
        lines = os.read(fd, 4096).decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    finally:
        os.close(fd)
    return lines[3] if len(lines) > 3 and os.path.isabs(lines[3]) else ""


def _sign(fd: int, state: str, runtime: str) -> None:
    started = time.strftime("%Y-%m-%d %H:%M:%S %z")
    try:
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n{state}\n{started}\n{runtime}\n".encode(), 0)
    except OSError:
        return  # a full disk: the lock itself holds
