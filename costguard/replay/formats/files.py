"""Open a recording, whatever it is, and read it."""

import gc
import hashlib
import io
import os
import re
import shlex
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from costguard import extras
from costguard.engine.words import several
from costguard.files import NoFileError, open_file
from costguard.replay.formats import parquet
from costguard.replay.formats.join import FileTrace, by_machine, notes_on, one_trace
from costguard.replay.formats.prometheus import read_answer
from costguard.replay.formats.recording import looks_like_own, read_own
from costguard.replay.formats.source import Progress, Source
from costguard.replay.formats.table import Options, read_table
from costguard.replay.trace import Recording, Trace, TraceError

DEFAULTS = Options()

PEEK = 512
"""Bytes that tell what a file is."""

ALLOWED = (
    "allowed: what `costguard record` wrote, CSV, Parquet, or the answer of a Prometheus server; see docs/replay.md"
)

SUFFIXES = (".csv", ".json", ".jsonl", ".log", ".parquet", ".tsv", ".txt")
"""Suffixes of the files of a folder that are recordings; each may be packed: ``.csv.gz``."""

OPENED = re.compile(r"/dev/stdin|(?:/dev/fd|/proc/self/fd)/(\d{1,9})")
"""Names of files that this process has open already: another process writes there, so reading ends."""

FOREIGN = (
    (b"PK\x03\x04", "a zip archive", "unzip -p {}"),
    (b"\xfd7zXZ", "packed with xz", "xz -dc {}"),
    (b"BZh", "packed with bzip2", "bzip2 -dc {}"),
    (b"\x28\xb5\x2f\xfd", "packed with zstd", "zstd -dc {}"),
    (b"\x1f\x8b", "packed twice with gzip", "gzip -dc {}"),
    (b"7z\xbc\xaf", "a 7z archive", "7z x -so {}"),
    (b"SQLite format 3", "a database", ""),
    (b"\x7fELF", "a program", ""),
)
"""First bytes, the kind of file, and the command that unpacks it."""


def read(path: str, options: Options = DEFAULTS, reader: str = "auto", progress: Progress | None = None) -> Recording:
    """Read a file, or standard input for ``-``. Raises TraceError.

    ``reader``: ``standard`` uses the standard library alone, ``fast`` pyarrow, which must be installed, ``auto`` pyarrow
    where it is installed and the file is large. The result is the same.
    """
    with _opened(path) as source, uncollected():
        head = _head(source)
        if head.startswith(parquet.MAGIC):
            return read_table(parquet.as_table(source), options, progress)
        if what := _foreign(head):
            raise TraceError(f"{source.name} is not a recording: it is {what}", _unpacking(path, head))
        if looks_like_own(head[:64].decode("utf-8", "replace")):
            return read_own(source, progress)
        sign = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
        if sign == b"{" or (sign == b"[" and path.lower().removesuffix(".gz").endswith(".json")):
            return read_answer(source, options, progress)
        if reader != "standard" and path != "-":
            from costguard.replay.formats import arrow

            if reader == "fast" and not arrow.available():
                raise TraceError("the fast reader is not installed", extras.install(extras.FAST))
            if reader == "fast" or arrow.worthwhile(source):
                found = arrow.read_fast(source, options, progress)
                if found is not None:
                    return found
        return read_table(source, options, progress)


def read_all(
    paths: Sequence[str], options: Options = DEFAULTS, reader: str = "auto", progress: Progress | None = None
) -> Recording:
    """Read several files, and those in folders; what several of them say of one machine is one recording. Raises TraceError."""
    files, notes = _listed(paths)
    files = _each_once(files, notes)
    if len(files) == 1:
        found = read(files[0], options, reader, progress)
        return found._replace(notes=(*notes, *found.notes))
    parts: list[FileTrace] = []
    whole_of: dict[bytes, str] = {}
    rows = done = 0
    for path in files:
        found = read(path, options, reader, partial(_add, progress, done) if progress else None)
        done += size_of(path)
        if (copy_of := whole_of.setdefault(_content(found, path), path)) != path:
            notes.append(f"{path} has the same content as {copy_of}; it counts once")
            continue
        rows += found.rows
        parts += [FileTrace(path, trace) for trace in found.traces]
        notes += [f"{path}: {note}" for note in found.notes]
    groups = by_machine(parts, by_name=bool(options.machine))
    return Recording(tuple(_of_machines(groups)), rows, (*notes, *notes_on(parts, groups)))


def _of_machines(groups: Sequence[Sequence[FileTrace]]) -> Iterator[Trace]:
    """The recording of each machine, every one with a name of its own."""
    taken: set[str] = set()
    for group in groups:
        path = group[0].path
        named = next((part.trace.name for part in group if part.trace.name), os.path.basename(path))
        name = f"{named} ({path})" if named in taken else named
        taken.add(name)
        yield one_trace(group, name)


def _each_once(files: Sequence[str], notes: list[str]) -> list[str]:
    """The files without those that are another one under a further name."""
    found: dict[tuple[int, int] | str, str] = {}
    for path in files:
        state = os.stat(path) if os.path.isfile(path) else None
        first = found.setdefault((state.st_dev, state.st_ino) if state else f"{len(found)}", path)
        if first is not path:
            notes.append(f"{path} is the same file as {first}, and is read once")
    return list(found.values())


def _content(found: Recording, path: str) -> bytes:
    """The same for a file that says the same; that all is at rest all the time, many machines may say at one time."""
    if all(len(set(codes)) < 2 for trace in found.traces for codes in trace.codes):
        return path.encode()
    content = hashlib.sha256()
    for trace in found.traces:
        content.update(repr((trace.name, trace.devices, trace.readings)).encode())
        content.update(trace.times)
        for codes in trace.codes:
            content.update(codes)
    return content.digest()


def size_of(path: str) -> int:
    """The bytes of a file, or of all files of a folder; 0 where it is unknown."""
    if os.path.isdir(path):
        return sum(entry.stat().st_size for entry in os.scandir(path) if entry.is_file())
    return os.path.getsize(path) if os.path.isfile(path) else 0


def _add(progress: Progress, before: int, count: int) -> None:
    progress(before + count)


def _listed(paths: Sequence[str]) -> tuple[list[str], list[str]]:
    """The files, with those in folders, and notes on skipped ones."""
    files: list[str] = []
    notes: list[str] = []
    for path in paths:
        if not os.path.isdir(path):
            files.append(path)
            continue
        try:
            every = sorted(entry.path for entry in os.scandir(path) if entry.is_file())
        except OSError as error:
            raise TraceError(f"cannot read the folder {path}: {error.strerror}", ALLOWED) from None
        recordings = [name for name in every if name.lower().removesuffix(".gz").endswith(SUFFIXES)]
        if not recordings:
            raise TraceError(f"no recording in the folder {path}", f"allowed: files that end in {', '.join(SUFFIXES)}")
        files += recordings
        if passed := len(every) - len(recordings):
            do = "does" if passed == 1 else "do"
            notes.append(f"{path}: skipped {several(passed, 'file')} that {do} not end in {', '.join(SUFFIXES)}")
    return files, notes


@contextmanager
def _opened(path: str) -> Iterator[Source]:
    if path == "-":
        yield Source("standard input", io.BufferedReader(io.FileIO(sys.stdin.fileno(), closefd=False)), 0)
        return
    if (number := _descriptor(path)) is not None:
        yield Source(path, io.BufferedReader(io.FileIO(number, closefd=False)), 0)
        return
    try:
        file = open_file(path)
    except NoFileError as error:
        message = f"{path} is not a regular file: {error.strerror}"
        raise TraceError(message, f"to read a pipe: `cat {shlex.quote(path)} | costguard replay -`") from None
    except ValueError:
        message = f"{path!r} is not a valid path"
        raise TraceError(message, "allowed: a file, a folder, or `-` for standard input") from None
    except FileNotFoundError:
        raise TraceError(f"no file {path}", "record one with `costguard record`, or read `-`, standard input") from None
    except OSError as error:
        raise TraceError(_closed(path, error)) from None
    with file:
        try:
            size = os.fstat(file.fileno()).st_size
            file.peek(1)
        except OSError as error:
            raise TraceError(_closed(path, error)) from None
        yield Source(path, file, size)


def _descriptor(path: str) -> int | None:
    """The open pipe behind a name of the shell, ``<(command)`` or /dev/stdin; None for any other path."""
    named = OPENED.fullmatch(path)
    number = int(named[1] or 0) if named else 0
    try:
        piped = named is not None and not stat.S_ISREG(os.fstat(number).st_mode)
    except (OSError, OverflowError):
        return None
    return number if piped else None


def _closed(path: str, error: OSError) -> str:
    if isinstance(error, IsADirectoryError):
        return f"{path} is a folder; allowed: a file, or `-` for standard input"
    if isinstance(error, PermissionError):
        return f"no permission to read {path}"
    return f"cannot read {path}: {error.strerror}"


@contextmanager
def uncollected() -> Iterator[None]:
    """Switch the garbage collector off: millions of rows make no cycles, and looking for some takes half of the time."""
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
    """The kind of a file that cannot be a recording; empty for one that may be."""
    for start, what, _ in FOREIGN:
        if head.startswith(start):
            return what
    wide = head[:2] in {b"\xff\xfe", b"\xfe\xff"} or (len(head) > 3 and head[1] == head[3] == 0 and head[0])
    return "a binary file (it has zero bytes)" if b"\0" in head and not wide else ""


def _unpacking(path: str, head: bytes) -> str:
    """The command that unpacks a recording from this file, if there is one."""
    command = next((command for start, _, command in FOREIGN if head.startswith(start)), "")
    return f"`{command.format(shlex.quote(path))} | costguard replay -`" if command and path != "-" else ALLOWED
