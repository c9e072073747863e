"""Large tables through pyarrow, an extra: the same cells, the same grouping, several times as fast.

pyarrow refuses rows of another length, as the standard reader does, and gives the few different texts of a column as
numbers without touching every row from Python. Whatever is out of the ordinary (repeated headers, a line that is cut off,
rows out of rhythm, several machines, a wrong cell) is left to the standard reader, whose errors name the line.
"""

import importlib.util
import io
from array import array
from typing import TYPE_CHECKING

from costguard.replay.group import SAMPLE
from costguard.replay.shape import Columns
from costguard.replay.table import Options, Source, Table, cells_of
from costguard.replay.trace import Recording, TraceError

if TYPE_CHECKING:
    import pyarrow as pa

WORTHWHILE = 8 << 20
"""Bytes from which on the library's import is paid back."""

_HEAD = 1 << 17


def available() -> bool:
    """Whether the library is installed."""
    return importlib.util.find_spec("pyarrow") is not None


def worthwhile(source: Source) -> bool:
    """Whether the library is installed and the file large enough."""
    return source.size >= WORTHWHILE and available()


def read_fast(path: str, source: Source, options: Options) -> Recording | None:
    """Read a table; None when it must be read line by line."""
    begun = _begin(source, options)
    if begun is None:
        return None
    table, columns, skipped = begun
    import pyarrow as pa

    try:
        data = _load(path, columns, skipped)
        return _recording(table, columns, data)
    except (pa.ArrowInvalid, ValueError, OSError):
        return None


def _begin(source: Source, options: Options) -> tuple[Table, Columns, int] | None:
    """The table with its columns known, and how many lines are no data; None for what the library cannot read."""
    raw = source.raw
    if not isinstance(raw, io.BufferedReader) or source.size < 2:
        return None
    raw.seek(-1, io.SEEK_END)
    ended = raw.read(1) == b"\n"
    raw.seek(0)
    head = raw.read(_HEAD)
    raw.seek(0)
    if not ended or b"\0" in head or head[:2] in {b"\x1f\x8b", b"\xff\xfe", b"\xfe\xff"}:
        return None
    lines = head.decode("utf-8-sig", "replace").splitlines(keepends=True)[:-1]
    table = Table(source, options)
    try:
        skipped = table.begin(lines)
    except TraceError:
        return None
    columns = table.columns
    if columns is None or columns.machine is not None or columns.engines or skipped >= len(lines):
        return None
    return (table, columns, skipped) if len(cells_of(lines[skipped])) == columns.width else None


def _load(path: str, columns: Columns, skipped: int) -> "pa.Table":
    import pyarrow as pa
    from pyarrow import csv

    few = pa.dictionary(pa.int32(), pa.string())
    types = {f"f{i}": few for i in columns.used} | {f"f{columns.time}": pa.string()}
    return csv.read_csv(
        path,
        read_options=csv.ReadOptions(skip_rows=skipped, autogenerate_column_names=True, block_size=1 << 22),
        convert_options=csv.ConvertOptions(include_columns=list(types), column_types=types, strings_can_be_null=False),
    ).unify_dictionaries()


def _recording(table: Table, columns: Columns, data: "pa.Table") -> Recording | None:
    import pyarrow as pa
    from pyarrow import compute

    rows = data.num_rows
    times = data[f"f{columns.time}"].combine_chunks()
    sample = [cell.strip() for cell in times.slice(0, SAMPLE).to_pylist()]
    texts, numbers = _numbers(data[f"f{columns.load}"])
    codes = [table.number(text.strip()) for text in texts]
    keys, places = _numbers(data[f"f{columns.gpu}"]) if columns.gpu is not None else ([], None)
    first = [keys[place].strip() for place in places[:SAMPLE]] if places is not None else None
    grouper = table.grouper("")
    rhythm = grouper.learn(sample, first)
    count = len(rhythm)
    if rows % count or len(set(keys)) > count:
        return None
    if places is not None and any(set(places[place::count]) != {places[place]} for place in range(count)):
        return None
    first_times, last_times = (
        compute.utf8_trim_whitespace(times.take(pa.array(range(start, rows, count)))) for start in (0, count - 1)
    )
    ends = last_times.to_pylist()
    begins = ends if _same_second(first_times, last_times) else first_times.to_pylist()
    small = len(codes) <= 256 and max(codes) <= 255
    cut: list[bytes | array[int]] = []
    for place in range(count):
        own = numbers[place::count].tolist()
        table_ = bytes(codes).ljust(256, b"\0") if small else b""
        cut.append(bytes(own).translate(table_) if small else array("L", map(codes.__getitem__, own)))
    if not grouper.take(begins, ends, cut):
        return None
    head = [cells_of(line) for line in table.first_lines]
    table.count(rows, list(zip(*[row for row in head if len(row) == columns.width], strict=True)))
    return table.finish()


def _same_second(first: "pa.Array", last: "pa.Array") -> bool:
    """Whether the rows of every tick differ in fractions of a second only, by their texts."""
    from pyarrow import compute

    to_the_second = [compute.utf8_slice_codeunits(times, 0, 19) for times in (first, last)]
    colon = first[0].as_py()[16:17] == ":"
    return colon and compute.all(compute.equal(*to_the_second)).as_py() is True


def _numbers(column: "pa.ChunkedArray") -> "tuple[list[str], memoryview[int]]":
    """The different texts of a column, and for every row the number of its text."""
    joined = column.combine_chunks()
    buffer = memoryview(joined.indices.buffers()[1]).cast("i")
    return joined.dictionary.to_pylist(), buffer[joined.offset : joined.offset + len(joined)]
