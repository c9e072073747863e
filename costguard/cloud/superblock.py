"""What an unmounted disk holds, as far as it may be read: nothing, an empty file system, or more.

Sources: kernel documentation ext4 "Super Block", "Block Group Descriptors", "Index Nodes"; mkswap(8) (the signature at the
end of the first page); the NTFS boot sector. Everything else that is not blank counts as content: a file system, a volume
group, an array, a partition table.
"""

import os
import stat
from collections.abc import Callable, Iterator
from typing import Literal

Content = Literal["blank", "empty", "swap", "ntfs", "something", "unreadable"]
Read = Callable[[int, int], bytes]
"""So many bytes at an offset; fewer at the end."""

_EDGE = 1 << 20  # bytes at either end: every known signature lies within
_SAMPLES, _SAMPLE = 64, 1 << 16  # places between the ends, and bytes of each: data without a signature
_EXT, _EXT_MAGIC, _EXT_CLEAN, _EXT_RECOVER, _EXT_ORPHANS = 1024, 0xEF53, 0x1, 0x4, 0x1000
_EXT_64BIT = 0x80
_LOST_AND_FOUND = 1  # the one inode of mkfs beside the reserved ones, and the first of those
_PAGE = 4096


def look(path: str) -> Content:
    """Read a device where content shows, without waiting for one that is busy."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return "unreadable"
    try:
        return _look(lambda size, at: os.pread(fd, size, at), os.lseek(fd, 0, os.SEEK_END))
    except OSError:
        return "unreadable"
    finally:
        os.close(fd)


def _look(read: Read, size: int) -> Content:
    first = read(_EDGE, 0)
    if len(first) < min(size, _EDGE) or not first:
        return "unreadable"
    if not first.strip(b"\0"):
        return "something" if any(part.strip(b"\0") for part in _further(read, size)) else "blank"
    if first[_PAGE - 10 : _PAGE] == b"SWAPSPACE2":
        return "swap"
    if first[3:11] == b"NTFS    ":
        return "ntfs"
    return "empty" if _empty_ext(read, first[_EXT : 2 * _EXT]) else "something"


def _further(read: Read, size: int) -> Iterator[bytes]:
    """The end, what follows the beginning (where partitions begin that a lost table had), and samples between."""
    yield read(_EDGE, max(0, size - _EDGE))
    yield read(_EDGE, _EDGE)
    for number in range(1, _SAMPLES):
        yield read(_SAMPLE, size // _SAMPLES * number)


def _empty_ext(read: Read, block: bytes) -> bool:
    """Whether an ext file system was left clean, with no inode in use but those that mkfs makes."""
    if len(block) < _EXT or _short(block, 56) != _EXT_MAGIC:
        return False
    compatible, incompatible = _long(block, 92), _long(block, 96)
    made = _long(block, 84) - 1 + _LOST_AND_FOUND + bool(compatible & _EXT_ORPHANS)
    clean = bool(_short(block, 58) & _EXT_CLEAN) and not incompatible & _EXT_RECOVER
    return clean and _long(block, 0) - _long(block, 16) == made and _is_folder(read, block, incompatible)


def _is_folder(read: Read, block: bytes, incompatible: int) -> bool:
    """Whether the first inode after the reserved ones is a folder in use, as ``lost+found`` is, and not somebody's one file."""
    unit = 1024 << (_long(block, 24) & 0xF)
    group = read(64, (_long(block, 20) + 1) * unit)  # the first group's descriptor, in the block after this one
    first, size = _long(block, 84), _short(block, 88)
    if len(group) < 64 or size < 128:
        return False
    table = _long(group, 8) | (_long(group, 40) << 32 if incompatible & _EXT_64BIT else 0)
    inode = read(size, table * unit + (first - 1) * size)
    return len(inode) == size and stat.S_ISDIR(_short(inode, 0)) and _short(inode, 26) >= 2


def _short(block: bytes, at: int) -> int:
    return int.from_bytes(block[at : at + 2], "little")


def _long(block: bytes, at: int) -> int:
    return int.from_bytes(block[at : at + 4], "little")
