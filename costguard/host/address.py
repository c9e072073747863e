"""The name of a socket for the kernel, which takes no path of more than 107 bytes."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

LONGEST = 107
"""Bytes; ``sun_path`` of unix(7) holds 108 with the end."""


@contextmanager
def address(path: str) -> Iterator[str]:
    """A name under which the socket at ``path`` can be bound and reached now, however long the path is; raises OSError."""
    if len(os.fsencode(path)) <= LONGEST:
        yield path
        return
    folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{os.path.basename(path)}"
    finally:
        os.close(folder)
