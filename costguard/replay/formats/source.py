"""The bytes and the text of a recording, whatever its packing and its encoding."""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, NamedTuple

from costguard.replay.formats.unpack import Unpacked
from costguard.replay.trace import TraceError

CHUNK, PIECE = 1 << 21, 1 << 18
"""Characters that are read at a time: at first many, from which the rhythm is learnt, then as many as stay in the processor's caches."""

LINE_LIMIT_BYTES = 1 << 20
"""The longest line: a recording of a thousand GPUs has shorter ones, and a line is read into memory as a whole."""

Progress = Callable[[int], None]
"""Called with the number of bytes read so far."""


class Source(NamedTuple):
    """An opened file: its name for people, its bytes, its size (0: unknown)."""

    name: str
    raw: IO[bytes]
    size: int


class _ShortLines(io.RawIOBase):
    """The bytes of a file as they are. Raises TraceError for a line that is too long, before more of it is read."""

    def __init__(self, raw: io.BufferedReader, name: str) -> None:
        super().__init__()
        self._raw, self._name = raw, name
        self._number, self._length = 1, 0

    def readable(self) -> bool:
        """It can be read."""
        return True

    def readinto(self, buffer: "bytearray | memoryview") -> int:  # type: ignore[override]  # as in Unpacked
        """Fill the buffer as far as there is something."""
        read = self._raw.read1(min(len(buffer), LINE_LIMIT_BYTES // 2))
        count = len(read)
        buffer[:count] = read
        end = max(read.rfind(b"\n"), read.rfind(b"\r")) + 1
        self._number += read.count(b"\n")
        self._length = count - end if end else self._length + count
        if self._length > LINE_LIMIT_BYTES:
            message = (
                f"line {self._number} of {self._name} exceeds {LINE_LIMIT_BYTES >> 20} MiB, so this is not a recording"
            )
            raise TraceError(message, "allowed: one reading or one row of a table per line; see docs/replay.md")
        return count


@contextmanager
def text_of(source: Source, *, lines: bool = True) -> Iterator[io.TextIOWrapper]:
    """The text of a file, which stays open afterwards: unpacked where it is gzip, in the encoding its first bytes tell.

    ``lines``: it is read line by line, so none may be very long.
    """
    raw: IO[bytes] = source.raw
    head = raw.peek(4)[:4] if isinstance(raw, io.BufferedReader) else b""
    packed = head[:2] == b"\x1f\x8b"
    if packed:
        raw = io.BufferedReader(Unpacked(raw), CHUNK)
    if lines and isinstance(raw, io.BufferedReader):
        raw = io.BufferedReader(_ShortLines(raw, source.name), CHUNK)
    if packed and isinstance(raw, io.BufferedReader):
        try:
            head = raw.peek(4)[:4]
        except OSError as error:
            raise TraceError(f"cannot unpack {source.name}: {error}", "check it with `gzip -t`") from None
    encoding = "utf-8-sig"
    if head[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        encoding = "utf-16"
    elif len(head) == 4 and head[1] == head[3] == 0 and head[0]:
        encoding = "utf-16-le"
    text = io.TextIOWrapper(raw, encoding=encoding, errors="replace")
    try:
        yield text
    finally:
        text.detach()


def chunks(source: Source, progress: Progress | None) -> Iterator[tuple[str, bool]]:
    """Whole lines in large pieces of text, and whether a piece is the last one."""
    with text_of(source) as text:
        yield from _pieces(source, text, progress)


def lines_of(piece: str) -> list[str]:
    """The lines of a piece, each with its end, which no other character is."""
    return io.StringIO(piece).readlines()


def _pieces(source: Source, text: io.TextIOWrapper, progress: Progress | None) -> Iterator[tuple[str, bool]]:
    waiting = ""
    size = CHUNK
    while True:
        try:
            piece = text.read(size) + text.readline()
        except OSError as error:
            raise TraceError(f"cannot read {source.name}: {error.strerror or error}") from None
        if progress is not None and source.size:
            progress(source.raw.tell())
        if waiting:
            yield waiting, not piece
        if not piece:
            return
        waiting, size = piece, PIECE
