"""Gzip as a recorder leaves it: a file that is still being written may end anywhere, which is no error."""

import io
import zlib
from typing import IO

PACKED_BYTES = 1 << 17
UNPACKED_BYTES = 1 << 21
"""Read and unpacked at a time: a piece may unpack to a thousand times its size."""


class Unpacked(io.RawIOBase):
    """The unpacked bytes of a gzip file of one or more members. Raises OSError for what is none."""

    def __init__(self, packed: IO[bytes]) -> None:
        super().__init__()
        self._packed = packed
        self._member = zlib.decompressobj(wbits=31)
        self._ready = memoryview(b"")
        self._begun = False  # something was unpacked

    def readable(self) -> bool:
        """It can be read."""
        return True

    def readinto(self, buffer: "bytearray | memoryview") -> int:  # type: ignore[override]  # the base names no type that mypy can slice
        """Fill the buffer as far as there is something; 0 at the end."""
        while not self._ready:
            piece = self._member.unconsumed_tail or self._member.unused_data or self._packed.read(PACKED_BYTES)
            if not piece:
                if not self._begun:
                    raise OSError("it is damaged, or cut off before its first row")
                return 0
            if self._member.eof:
                self._member = zlib.decompressobj(wbits=31)
            try:
                self._ready = memoryview(self._member.decompress(piece, UNPACKED_BYTES))
            except zlib.error as error:
                raise OSError("it is damaged, or not a gzip file despite its first bytes") from error
        self._begun = True
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count
