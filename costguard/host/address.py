"""Unix sockets at any path: the kernel takes no socket path of more than 107 bytes."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

PATH_BYTES = 107
"""Longest path; ``sun_path`` of unix(7) holds 108 bytes with the terminating zero."""


@contextmanager
def address(path: str) -> Iterator[str]:
    """An address for the socket at ``path`` that works inside the context, however long the path is. Raises OSError."""
    if len(os.fsencode(path)) <= PATH_BYTES:
        yield path
        return
    folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{os.path.basename(path)}"
    finally:
        os.close(folder)
