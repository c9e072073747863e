"""Large tables through pyarrow, an extra: the same cells, the same grouping, several times as fast.

pyarrow refuses rows of another length, as the standard reader does, and gives the few different texts of a column as
numbers without touching every row from Python. Whatever is out of the ordinary (a header that comes again, rows out of
rhythm or out of order, several machines, a wrong cell) is left to the standard reader, whose errors name the line.
"""

import csv
import importlib.util
import io
import threading
from array import array
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from costguard.replay.formats.columns import Columns
from costguard.replay.formats.group import SAMPLE, Grouper
from costguard.replay.formats.overlap import DoubtfulRowsError
from costguard.replay.formats.source import CHUNK, LINE_LIMIT_BYTES, Progress, Source
from costguard.replay.formats.table import Options, Table, cells_of
from costguard.replay.formats.unpack import Unpacked
from costguard.replay.trace import Codes, Recording, TraceError

if TYPE_CHECKING:
    import pyarrow as pa

WORTHWHILE = 8 << 20
"""Bytes from which on the library's import is paid back."""

PIECE = 1 << 20
"""Bytes that are read at a time: larger pieces cost fresh memory, which takes longer than reading them."""


def available() -> bool:
    """Whether the library is installed."""
    return importlib.util.find_spec("pyarrow") is not None


def worthwhile(source: Source) -> bool:
    """Whether the library is installed and the file large enough."""
    return source.size >= WORTHWHILE and available()


def read_fast(
    source: Source, options: Options, progress: Progress | None = None, sizes: tuple[int, int] = (CHUNK, PIECE)
) -> Recording | None:
    """Read a table; None when it must be read line by line, from the beginning of the file.

    ``sizes``: bytes of the first piece, from which the rhythm is learnt, and of every other one.
    """
    raw = source.raw
    if not isinstance(raw, io.BufferedReader) or not source.size:
        return None
    from pyarrow import ArrowException

    try:
        found = _read(source, options, progress, sizes)
    except (ArrowException, ValueError, OSError, TraceError, DoubtfulRowsError):
        found = None
    if found is None:
        raw.seek(0)
    return found


def _read(source: Source, options: Options, progress: Progress | None, sizes: tuple[int, int]) -> Recording | None:
    table = Table(source, options)
    reading: _PartlyRead | None = None
    try:
        for piece in _pieces(source, progress, sizes):
            if reading is None:
                reading = _begin(table, piece)
                lines = piece[_end_of_line(piece, reading.skipped) :] if reading is not None else b""
            else:
                lines = piece
            if reading is None or not reading.take(lines):
                return None
        return reading.finish() if reading is not None and reading.drain() else None
    finally:
        if reading is not None:
            reading.close()


def _pieces(source: Source, progress: Progress | None, sizes: tuple[int, int]) -> Iterator[bytes]:
    """The bytes of the file, unpacked, in pieces of whole lines; the last one may end without a line end."""
    packed = source.raw.peek(2)[:2] == b"\x1f\x8b" if isinstance(source.raw, io.BufferedReader) else False
    raw = io.BufferedReader(Unpacked(source.raw), PIECE) if packed else source.raw
    rest, (size, then) = b"", sizes
    while read := raw.read(size):
        end = read.rfind(b"\n") + 1
        if end:
            yield rest + read[:end]
            rest = read[end:]
        else:
            rest += read
        if len(rest) > LINE_LIMIT_BYTES:
            raise TraceError("a line is too long")  # the standard reader says which
        size = then
        if progress is not None:
            progress(source.raw.tell())
    if rest:
        yield rest


def _begin(table: Table, piece: bytes) -> "_PartlyRead | None":
    """Learn the columns; None for what the library cannot read."""
    if b"\0" in piece or piece[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        return None
    head = piece[: _end_of_line(piece, SAMPLE)].decode("utf-8-sig")
    lines = io.StringIO(head, newline=None).readlines()
    skipped = table.begin(lines)
    columns = table.columns
    if columns is None or columns.machine is not None or table.delimiter != "," or skipped >= len(lines):
        return None
    if len(cells_of(lines[skipped])) != columns.width:
        return None
    header = piece[_end_of_line(piece, skipped - 1) : _end_of_line(piece, skipped)] if table.has_header else b""
    return _PartlyRead(table, columns, lines[skipped:], skipped, header)


def _end_of_line(piece: bytes, number: int) -> int:
    """Where the line of this number ends."""
    end = 0
    for _ in range(number):
        end = piece.find(b"\n", end) + 1
        if not end:
            return len(piece)
    return end


class _PartlyRead:
    """Whole ticks in one rhythm, piece by piece."""

    def __init__(self, table: Table, columns: Columns, lines: list[str], skipped: int, header: bytes) -> None:
        self.skipped = skipped  # lines that are no data
        self._table = table
        self._columns = columns
        self._lines = lines
        self._header = header
        self._grouper: Grouper = table.grouper("")
        self._rhythm: list[str] = []
        self._rows = 0
        self._codes: list[Codes] = []
        self._first = array("d")  # when each tick began, and when it ended
        self._last = array("d")
        self._latest: list[str] = []  # times of the last rows, of which some may begin a tick that does not end
        self._ahead: _Ahead | None = None

    def take(self, lines: bytes) -> bool:
        """More lines; False when they are out of the ordinary."""
        if not lines.endswith(b"\n"):
            return self.drain() and self._cut_off(lines.decode())
        if self._header and self._header in lines:  # a loop that calls nvidia-smi again and again
            kept = (b"\n" + lines).replace(b"\n" + self._header, b"\n")[1:]
            self.skipped += (len(lines) - len(kept)) // len(self._header)
            lines = kept
        if not lines:
            return True
        found = self._columns
        few = (*found.load_positions, *(() if found.gpu is None else (found.gpu,)))
        return self._next(_Ahead(lines, found.width, (found.time,), few))

    def drain(self) -> bool:
        """Take in what is still being parsed."""
        return self._next(None)

    def close(self) -> None:
        """Leave no thread behind: the process may be forked later."""
        if self._ahead is not None:
            self._ahead.join()

    def _next(self, ahead: "_Ahead | None") -> bool:
        before, self._ahead = self._ahead, ahead
        return before is None or self._rows_of(before.result())

    def _cut_off(self, line: str) -> bool:
        """Leave out the last line, if nobody can doubt that it is not whole."""
        if line.strip():
            self._table.note_cut(self.skipped + self._rows + 1)
        return len(cells_of(line)) < self._columns.width

    def _rows_of(self, table: "pa.Table") -> bool:
        from costguard.replay.formats import arrow_values

        found = self._columns
        times = arrow_values.texts(table, found.time)
        gpus = arrow_values.column(table, found.gpu) if found.gpu is not None else None
        if not self._rhythm:
            sample = times.slice(0, SAMPLE).to_pylist()
            self._rhythm = self._grouper.learn(sample, gpus.first(SAMPLE) if gpus is not None else None)
        count = len(self._rhythm)
        place = self._rows % count
        if gpus is not None and not gpus.repeats([*self._rhythm[place:], *self._rhythm[:place]]):
            return False
        # of every row: a wrong one is an error of the file
        moments = arrow_values.moments(times, self._grouper.moments)
        self._last.frombytes(arrow_values.every(moments, count - 1 - place, count))
        if count > 1:
            self._first.frombytes(arrow_values.every(moments, -place % count, count))
            self._latest = [*self._latest, *times.slice(max(0, len(times) - count)).to_pylist()][-count:]
        loads = arrow_values.column(table, *found.load_positions)
        self._codes.append(loads.codes([self._table.number(*cells) for cells in loads.texts]))
        self._rows += len(times)
        return True

    def finish(self) -> Recording | None:
        """Everything that was read; None when its ticks are not in order after all."""
        from costguard.replay.formats import arrow_values

        times, count = arrow_values.numbers(self._last), len(self._rhythm)
        ticks = len(times)
        if not ticks or not arrow_values.in_order(times) or not self._ends_well(self._last[-1], self._rows % count):
            return None
        if count > 1:
            least, most = arrow_values.apart(arrow_values.numbers(self._first[:ticks]), times)
            if least < 0 or most >= self._grouper.spread:
                return None
        codes = _joined(self._codes)
        cut = [codes[place : ticks * count : count] for place in range(count)]
        self._grouper.settle(self._last, cut, arrow_values.steps_of(times), self._unfinished(codes[ticks * count :]))
        head = [row for row in csv.reader(self._lines, skipinitialspace=True) if len(row) == self._columns.width]
        self._table.count(self._rows, list(zip(*head, strict=True)))
        return self._table.finish()

    def _unfinished(self, codes: Codes) -> list[tuple[float, int, int]]:
        """The rows after the last whole tick."""
        moments = self._grouper.moments.column(self._latest[-len(codes) :]) if codes else []
        return [(moments[-1], place, code) for place, code in enumerate(codes)]

    def _ends_well(self, before: float, left: int) -> bool:
        """Whether the ``left`` rows after the last whole tick are one that was being written, and can be dropped."""
        moments = self._grouper.moments.column(self._latest[-left:]) if left else [before]
        return moments[-1] >= before and all(0 <= at - moments[0] < self._grouper.spread for at in moments)


class _Ahead(threading.Thread):
    """Parses one piece while the one before it is worked on: the library leaves the interpreter alone meanwhile."""

    def __init__(self, lines: bytes, width: int, texts: Sequence[int], few: Sequence[int]) -> None:
        super().__init__(daemon=True)
        self._given = (lines, width, texts, few)
        self._table: pa.Table | None = None
        self._failed: Exception | None = None
        self.start()

    def run(self) -> None:
        """Parse it."""
        from costguard.replay.formats import arrow_values

        try:
            self._table = arrow_values.table(*self._given)
        except Exception as error:  # noqa: BLE001 - raised again where it is waited for
            self._failed = error

    def result(self) -> "pa.Table":
        """Wait for it. Raises what went wrong."""
        self.join()
        if self._failed is not None:
            raise self._failed
        return self._table


def _joined(pieces: list[Codes]) -> Codes:
    """One column of several; bytes while they all are."""
    if all(isinstance(piece, bytes) for piece in pieces):
        return b"".join(piece for piece in pieces if isinstance(piece, bytes))
    found = array("L")
    for piece in pieces:
        found.extend(piece)
    return found
