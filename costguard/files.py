"""Opening what somebody named: a file and nothing else, and never a wait for one that nobody writes."""

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
    """What is there can be opened, but holds no end of its own; ``strerror`` says what it is."""


def open_file(path: str) -> BufferedReader:
    """Open a regular file for reading; raises OSError, and NoFileError for a pipe, a socket or a device.

    It is looked at before it is opened: to open a pipe may wait for ever, and to open a device may do something.
    """
    _refuse_other(os.stat(path), path)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # should it be exchanged meanwhile
    try:
        _refuse_other(os.fstat(descriptor), path)
        return BufferedReader(FileIO(descriptor))
    except BaseException:
        os.close(descriptor)
        raise


def _refuse_other(status: os.stat_result, path: str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if stat.S_ISCHR(status.st_mode) and status.st_rdev == NULL:
        return
    for kind, words in _KINDS:
        if kind(status.st_mode):
            raise NoFileError(errno.EINVAL, f"it is {words}", path)
