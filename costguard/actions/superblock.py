"""What a disk that nobody has mounted shows of its content, where it may be read: nothing, an empty file system, or more.

Sources: kernel documentation ext4 "Super Block"; mkswap(8) (the signature at the end of the first page); the NTFS boot
sector. Everything else that is not blank counts as content: a file system, a volume group, an array, a partition table.
"""

import os
import struct
from typing import Literal

Content = Literal["blank", "empty", "swap", "ntfs", "something", "unreadable"]

_EDGE = 1 << 20  # bytes at either end: every known signature lies within
_EXT, _EXT_MAGIC, _EXT_CLEAN, _EXT_RECOVER, _EXT_ORPHANS = 1024, 0xEF53, 0x1, 0x4, 0x1000
_LOST_AND_FOUND = 1  # the one inode of mkfs beside the reserved ones
_PAGE = 4096


def look(path: str) -> Content:
    """Read both ends of a device, without waiting for one that is busy."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return "unreadable"
    try:
        size = os.lseek(fd, 0, os.SEEK_END)
        first = os.pread(fd, _EDGE, 0)
        last = os.pread(fd, _EDGE, max(0, size - _EDGE))
    except OSError:
        return "unreadable"
    finally:
        os.close(fd)
    if len(first) < min(size, _EDGE) or not first:
        return "unreadable"
    return _content(first, last)


def _content(first: bytes, last: bytes) -> Content:
    if not first.strip(b"\0") and not last.strip(b"\0"):
        return "blank"
    if first[_PAGE - 10 : _PAGE] == b"SWAPSPACE2":
        return "swap"
    if first[3:11] == b"NTFS    ":
        return "ntfs"
    return "empty" if _empty_ext(first[_EXT : 2 * _EXT]) else "something"


def _empty_ext(block: bytes) -> bool:
    """Whether an ext file system was left clean, with no inode in use but those that mkfs makes."""
    if len(block) < _EXT or struct.unpack_from("<H", block, 56)[0] != _EXT_MAGIC:
        return False
    (inodes,), (free,) = struct.unpack_from("<I", block, 0), struct.unpack_from("<I", block, 16)
    (state,), (reserved,) = struct.unpack_from("<H", block, 58), struct.unpack_from("<I", block, 84)
    compatible, incompatible = struct.unpack_from("<II", block, 92)
    made = reserved - 1 + _LOST_AND_FOUND + bool(compatible & _EXT_ORPHANS)
    clean = bool(state & _EXT_CLEAN) and not incompatible & _EXT_RECOVER
    return clean and inodes - free == made
