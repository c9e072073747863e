"""Files of the kernel, and figures as people say them."""

import os

FILE_BYTES = 1 << 16

PAGE_BYTES = 1 << 12
"""More than any short file such as `stat` has; of arguments, as much as anything here reads."""

LAST_BYTES = 3072
"""The kernel returns a table in pages, each without the line that does not fit; a piece shorter than this is the last one."""


def read(path: str, limit: int = FILE_BYTES) -> bytes:
    """The beginning of a file. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return whole(descriptor, limit)
    finally:
        os.close(descriptor)


def whole(descriptor: int, limit: int) -> bytes:
    """The same for a file just opened: the kernel returns a table piece by piece. Raises OSError."""
    found = data = os.read(descriptor, limit)
    while len(data) >= LAST_BYTES and len(found) < limit:
        data = os.read(descriptor, limit - len(found))
        found += data
    return found


def several(count: int, noun: str) -> str:
    """As people say it: "1 terminal", "3 terminals"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def duration(seconds: float) -> str:
    """As people say it: "30 min", "45 s"."""
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= size and seconds % size == 0.0:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def amount(rate: float) -> str:
    """Bytes a second, as people say it: "1 MB/s"."""
    for unit, size in (("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)):
        if rate >= size:
            return f"{rate / size:g} {unit}"
    return f"{rate:g} B/s"


def printable(name: str) -> str:
    """A name that its owner has chosen, without what would change a terminal, or look like a command of costguard's in a chat."""
    return "".join(letter for letter in name if letter.isprintable() and letter != "`")[:32] or "?"
