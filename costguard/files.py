"""Read files: those that people name, never waiting for a pipe or a device, and those of the system; and write one whole."""

import errno
import os
import stat
from io import BufferedReader, FileIO

NULL = os.makedev(1, 3)
"""The device /dev/null, which reads as an empty file. Source: devices.txt of the kernel."""

_KINDS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a block device"),
)


class NoFileError(OSError):
    """The path is a pipe, a socket or a device; ``strerror`` says which."""


def open_file(path: str) -> BufferedReader:
    """Open a regular file for reading; raises OSError, and NoFileError for a pipe, a socket or a device.

    It is checked before it is opened: opening a pipe may wait for ever, and opening a device may have an effect.
    """
    _refuse_other(os.stat(path), path)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # in case it was replaced meanwhile
    try:
        _refuse_other(os.fstat(descriptor), path)
        return BufferedReader(FileIO(descriptor))
    except BaseException:
        os.close(descriptor)
        raise


def is_closed(path: str) -> bool:
    """Whether this user may not look for a file, or into it."""
    try:
        open_file(path).close()
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def _refuse_other(status: os.stat_result, path: str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if stat.S_ISCHR(status.st_mode) and status.st_rdev == NULL:
        return
    for kind, name in _KINDS:
        if kind(status.st_mode):
            raise NoFileError(errno.EINVAL, f"it is {name}", path)


def write_whole(path: str, data: bytes, mode: int = 0o600) -> None:
    """Write a file whole or not at all, without fsync: a hung disk must not hold a stop. A link is replaced, never followed. Raises OSError."""
    partial = f"{path}.{os.urandom(4).hex()}.new"
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(partial, path)
    finally:
        try:  # noqa: SIM105 - contextlib is not loaded in every process that stays
            os.unlink(partial)
        except OSError:  # it has its new name, but after an error or Ctrl-C
            pass


def text_of(path: str, limit: int = 8192) -> str:
    """The beginning of a file of the system, at most ``limit`` characters; empty when it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(limit)
    except OSError:
        return ""


def names_in(folder: str) -> list[str]:
    """The names in a folder, sorted; none when it cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def is_gone(path: str) -> bool:
    """Whether it certainly does not exist: what this user may not look at may be there."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False
