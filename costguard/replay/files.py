"""Open a recording, whatever it is, and read it."""

import gc
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from costguard.replay.own import looks_like_own, read_own
from costguard.replay.source import Progress, Source, text_of
from costguard.replay.table import Options, read_table
from costguard.replay.trace import Recording, TraceError

DEFAULTS = Options()


def read(path: str, options: Options = DEFAULTS, reader: str = "auto", progress: Progress | None = None) -> Recording:
    """Read a file, or standard input for ``-``; raises TraceError in words.

    ``reader``: ``standard`` uses the standard library alone, ``fast`` the library of the extra of that name, which must be
    installed; ``auto`` takes it where it is installed and the file is large. The result is the same.
    """
    with _opened(path) as source, uncollected():
        first = _first_line(source)
        if looks_like_own(first):
            return read_own(source, progress)
        if reader != "standard" and path != "-":
            from costguard.replay import fast

            if reader == "fast" and not fast.available():
                raise TraceError("the fast reader is not installed", "pip install 'costguard-agent[fast]'")
            if reader == "fast" or fast.worthwhile(source):
                found = fast.read_fast(source, options, progress)
                if found is not None:
                    return found
        return read_table(source, options, progress)


@contextmanager
def _opened(path: str) -> Iterator[Source]:
    if path == "-":
        yield Source("standard input", io.BufferedReader(io.FileIO(sys.stdin.fileno(), closefd=False)), 0)
        return
    try:
        file = open(path, "rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror}") from None
    with file:
        try:
            size = os.fstat(file.fileno()).st_size
            file.peek(1)
        except OSError as error:
            raise TraceError(f"{path} cannot be read: {error.strerror}") from None
        yield Source(path, file, size)


@contextmanager
def uncollected() -> Iterator[None]:
    """Without the collector of cycles: millions of rows make none, and looking for them takes half of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _first_line(source: Source) -> str:
    """The first characters, without reading on: a pipe cannot be read twice."""
    raw = source.raw
    head = raw.peek(64) if isinstance(raw, io.BufferedReader) else b""
    if head[:2] != b"\x1f\x8b":
        return head[:64].decode("utf-8", "replace")
    if source.size == 0:
        return _unpacked(head)
    try:
        with text_of(source) as text:
            start = text.read(64)
    except OSError:
        start = ""  # the reader says what is wrong
    raw.seek(0)
    return start


def _unpacked(head: bytes) -> str:
    import zlib

    try:
        return zlib.decompressobj(31).decompress(head, 64).decode("utf-8", "replace")
    except zlib.error:
        return ""
