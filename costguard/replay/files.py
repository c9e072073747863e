"""Open a recording, whatever it is, and read it."""

import gc
import io
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from costguard.replay.own import looks_like_own, read_own
from costguard.replay.source import Progress, Source
from costguard.replay.table import Options, read_table
from costguard.replay.trace import Recording, TraceError

DEFAULTS = Options()

PEEK = 512
"""Bytes that tell what a file is."""

ALLOWED = "allowed: what `costguard record` wrote, or CSV; both may be packed with gzip"

FOREIGN = (
    (b"PK\x03\x04", "a zip archive", "unzip -p {}"),
    (b"\xfd7zXZ", "packed with xz", "xz -dc {}"),
    (b"BZh", "packed with bzip2", "bzip2 -dc {}"),
    (b"\x28\xb5\x2f\xfd", "packed with zstd", "zstd -dc {}"),
    (b"\x1f\x8b", "packed twice with gzip", "gzip -dc {}"),
    (b"7z\xbc\xaf", "a 7z archive", "7z x -so {}"),
    (b"PAR1", "a Parquet file", ""),
    (b"SQLite format 3", "a database", ""),
    (b"\x7fELF", "a program", ""),
)
"""First bytes, what they say, and the command that unpacks it."""


def read(path: str, options: Options = DEFAULTS, reader: str = "auto", progress: Progress | None = None) -> Recording:
    """Read a file, or standard input for ``-``; raises TraceError in words.

    ``reader``: ``standard`` uses the standard library alone, ``fast`` the library of the extra of that name, which must be
    installed; ``auto`` takes it where it is installed and the file is large. The result is the same.
    """
    with _opened(path) as source, uncollected():
        head = _head(source)
        if what := _foreign(head):
            raise TraceError(f"{source.name} is {what}", _unpacking(path, head))
        if looks_like_own(head[:64].decode("utf-8", "replace")):
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
    except FileNotFoundError:
        raise TraceError(
            f"there is no file {path}", "a dash reads standard input; `costguard record` writes a recording"
        ) from None
    except OSError as error:
        raise TraceError(_closed(path, error)) from None
    with file:
        try:
            size = os.fstat(file.fileno()).st_size
            file.peek(1)
        except OSError as error:
            raise TraceError(_closed(path, error)) from None
        yield Source(path, file, size)


def _closed(path: str, error: OSError) -> str:
    if isinstance(error, IsADirectoryError):
        return f"{path} is a folder; allowed: a file, or a dash for standard input"
    if isinstance(error, PermissionError):
        return f"this user may not read {path}"
    return f"{path} cannot be read: {error.strerror}"


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


def _head(source: Source) -> bytes:
    """The first bytes, unpacked, without reading on: a pipe cannot be read twice."""
    head = source.raw.peek(PEEK) if isinstance(source.raw, io.BufferedReader) else b""
    if not head.startswith(b"\x1f\x8b"):
        return head
    import zlib

    try:
        return zlib.decompressobj(31).decompress(head, PEEK)
    except zlib.error:
        return b""  # the reader says what is wrong


def _foreign(head: bytes) -> str:
    """What a file is that is no text; empty for one that may be a recording."""
    for start, what, _ in FOREIGN:
        if head.startswith(start):
            return what
    wide = head[:2] in {b"\xff\xfe", b"\xfe\xff"} or (len(head) > 3 and head[1] == head[3] == 0 and head[0])
    return "no text: there are zero bytes in it" if b"\0" in head and not wide else ""


def _unpacking(path: str, head: bytes) -> str:
    """The command that makes a recording of it, where there is one."""
    command = next((command for start, _, command in FOREIGN if head.startswith(start)), "")
    return f"`{command.format(shlex.quote(path))} | costguard replay -`" if command and path != "-" else ALLOWED
