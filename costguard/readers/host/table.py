"""A file of the kernel that each look reads. It stays open, because finding and opening it costs more than reading it.

Reading it from its beginning makes the kernel write it anew. Source: Linux, fs/seq_file.c (seq_read_iter) and fs/kernfs/file.c.
"""

import os

from costguard.readers.host.text import FILE_BYTES, LAST_BYTES, whole

PIECE = 8192
"""Bytes asked for at once; the kernel returns a page at most."""


class FirstReadable:
    """The first of these files that can be read."""

    def __init__(self, *paths: str, limit: int = FILE_BYTES) -> None:
        self._paths, self._limit = paths, limit
        self._open: int | None = None

    def read(self) -> bytes:
        """The file as it is now. Raises OSError."""
        if self._open is not None:
            try:
                data = os.pread(self._open, min(PIECE, self._limit), 0)
                if data:
                    return data if len(data) < LAST_BYTES else self._rest(self._open, data)
            except OSError:  # what it described is gone; perhaps there is a new one
                pass
            self.close()
        return self._begin()

    def close(self) -> None:
        """Close the file; the next read opens it again."""
        if self._open is not None:
            os.close(self._open)
            self._open = None

    def _rest(self, descriptor: int, found: bytes) -> bytes:
        data = found
        while len(data) >= LAST_BYTES and len(found) < self._limit:
            data = os.pread(descriptor, min(PIECE, self._limit - len(found)), len(found))
            found += data
        return found

    def _begin(self) -> bytes:
        """Open and read it. Raises OSError."""
        for path in self._paths:
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                if path is self._paths[-1]:
                    raise
                continue
            break
        keeps = False
        try:
            data = whole(descriptor, self._limit)
            keeps = _is_kernels(descriptor) and bool(data)
        finally:
            if not keeps:
                os.close(descriptor)
        if keeps:
            self._open = descriptor
        return data

    def __del__(self) -> None:
        self.close()


def _is_kernels(descriptor: int) -> bool:
    """Whether the kernel makes the content as it is read; any other file may be replaced by one of the same name."""
    return os.fstat(descriptor).st_blocks == 0
