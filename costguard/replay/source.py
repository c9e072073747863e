"""The bytes and the text of a recording, whatever its packing and its encoding."""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, NamedTuple

from costguard.replay.trace import TraceError
from costguard.replay.unpack import Unpacked

CHUNK = 1 << 21
"""Characters that are read at a time."""

Progress = Callable[[int], None]
"""Is told how many bytes have been read."""


class Source(NamedTuple):
    """An opened file: how to call it, its bytes, its size (0: nobody knows)."""

    name: str
    raw: IO[bytes]
    size: int


@contextmanager
def text_of(source: Source) -> Iterator[io.TextIOWrapper]:
    """The text of a file, which stays open afterwards: unpacked where it is gzip, in the encoding its first bytes tell."""
    raw: IO[bytes] = source.raw
    head = raw.peek(4)[:4] if isinstance(raw, io.BufferedReader) else b""
    if head[:2] == b"\x1f\x8b":
        raw = io.BufferedReader(Unpacked(raw), CHUNK)
        try:
            head = raw.peek(4)[:4]
        except OSError as error:
            raise TraceError(
                f"{source.name} cannot be unpacked: {error}", "a packed file is one that `gzip -t` finds sound"
            ) from None
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


def chunks(source: Source, progress: Progress | None) -> Iterator[tuple[list[str], bool]]:
    """Lines in large pieces, and whether a piece is the last one."""
    with text_of(source) as text:
        yield from _pieces(source, text, progress)


def _pieces(source: Source, text: io.TextIOWrapper, progress: Progress | None) -> Iterator[tuple[list[str], bool]]:
    waiting: list[str] | None = None
    while True:
        try:
            lines = text.readlines(CHUNK)
        except OSError as error:
            raise TraceError(f"{source.name} cannot be read: {error.strerror or error}") from None
        if progress is not None and source.size:
            progress(source.raw.tell())
        if waiting is not None:
            yield waiting, not lines
        if not lines:
            return
        waiting = lines
