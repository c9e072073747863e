"""What `cells`, `group` and `trace` work out cell by cell, for whole columns of pyarrow; equal to the last bit."""

import re
from array import array
from collections.abc import Callable, Sequence

import pyarrow as pa
from pyarrow import compute, csv

from costguard.replay.formats.values import HEAD, CellTimes, scale_of
from costguard.replay.trace import NO_STEPS, SMALL, Codes, Steps, usual

MANY = 1 << 16
"""Beyond this many different texts a table is not looked up one by one."""

LONGEST = 64
"""Characters of a date, with its zone and whatever stands around it."""


def table(lines: bytes, width: int, texts: Sequence[int], few: Sequence[int]) -> pa.Table:
    """Some of the ``width`` columns of whole lines, ``f0`` the first; ``few`` hold few different texts.

    Raises ArrowInvalid for rows of another length. In one thread, so that a process may be forked afterwards.
    """
    types = {f"f{i}": pa.dictionary(pa.int32(), pa.string()) for i in few} | {f"f{i}": pa.string() for i in texts}
    return csv.read_csv(
        pa.BufferReader(lines),
        read_options=csv.ReadOptions(
            column_names=[f"f{i}" for i in range(width)], block_size=len(lines) + 1, use_threads=False
        ),
        parse_options=csv.ParseOptions(ignore_empty_lines=False),
        convert_options=csv.ConvertOptions(include_columns=list(types), column_types=types, strings_can_be_null=False),
    )


class Column:
    """Few different texts, and for every row the number of its own; of several columns, the rows of their texts."""

    def __init__(self, texts: Sequence[tuple[str, ...]], indices: pa.Int32Array) -> None:
        self.texts = texts
        self.indices = indices

    def first(self, count: int) -> list[str]:
        """The texts of the first rows."""
        return [self.texts[number][0] for number in self.indices.slice(0, count).to_pylist()]

    def repeats(self, pattern: Sequence[str]) -> bool:
        """Whether the rows are these texts again and again."""
        numbers = {text: number for number, (text, *_) in enumerate(self.texts)}
        wanted = array("i", [numbers.get(text, -1) for text in pattern]) * (len(self.indices) // len(pattern) + 1)
        return (
            len(numbers) == len(self.texts) and wanted[: len(self.indices)].tobytes() == _ints(self.indices).tobytes()
        )

    def codes(self, numbers: Sequence[int]) -> Codes:
        """For each row, the number that stands for its texts."""
        if len(numbers) <= SMALL and max(numbers, default=0) < SMALL:
            places: bytes = compute.cast(self.indices, pa.uint8()).buffers()[1].to_pybytes()
            return places[: len(self.indices)].translate(bytes(numbers).ljust(SMALL, b"\0"))
        return array("L", map(numbers.__getitem__, _ints(self.indices)))


def _ints(indices: pa.Int32Array) -> "memoryview[int]":
    return memoryview(indices.buffers()[1]).cast("i")[indices.offset : indices.offset + len(indices)]


def column(table: pa.Table, *positions: int) -> Column:
    """One column, or several as one."""
    first, *others = [table[f"f{i}"].combine_chunks() for i in positions]
    texts = [(text.strip(),) for text in first.dictionary.to_pylist()]
    found = Column(texts, first.indices)
    for other in others:
        more = other.dictionary.to_pylist()
        pairs = compute.add(compute.multiply(compute.cast(found.indices, pa.int64()), len(more)), other.indices)
        few = pairs.dictionary_encode()
        both = [divmod(pair, len(more)) for pair in few.dictionary.to_pylist()]
        found = Column([(*found.texts[a], more[b].strip()) for a, b in both], few.indices)
    return found


def texts(table: pa.Table, position: int) -> pa.StringArray:
    """The cells of a column of many different texts."""
    cells = table[f"f{position}"].combine_chunks()
    return compute.utf8_ltrim(cells, characters=" ") if cells[0].as_py()[:1] == " " else cells


def moments(cells: pa.StringArray, known: CellTimes) -> pa.DoubleArray:
    """Dates in seconds since the epoch, as `CellTimes.column` gives them; raises ValueError where it goes by single cells."""
    if not len(cells):
        return pa.array([], pa.float64())
    if ":" not in cells[0].as_py():
        numbers = compute.cast(compute.utf8_trim_whitespace(cells), pa.float64())
        ends = compute.min_max(numbers)
        finite = compute.all(compute.is_finite(numbers)).as_py()
        scale = scale_of(ends["min"].as_py(), ends["max"].as_py()) if finite else 0.0
        if not scale:
            raise ValueError("times of several kinds")
        return numbers if scale == 1.0 else compute.divide(numbers, scale)
    binary = cells.cast(pa.binary())
    heads = compute.binary_slice(binary, 0, HEAD).dictionary_encode()
    tails = compute.binary_slice(binary, HEAD, LONGEST).dictionary_encode()
    for minutes, seconds in known.parts:
        try:
            return compute.add(_looked_up(heads, minutes.__getitem__), _looked_up(tails, seconds.__getitem__))
        except ValueError:
            continue
    raise ValueError("dates of several kinds")


def _looked_up(few: pa.DictionaryArray, look: Callable[[str], float]) -> pa.DoubleArray:
    found = few.dictionary.cast(pa.string())
    values = pa.array(list(map(look, found.to_pylist())), pa.float64()) if len(found) <= MANY else _seconds(found, look)
    return compute.take(values, few.indices)


def _seconds(found: pa.StringArray, look: Callable[[str], float]) -> pa.DoubleArray:
    """Very many different texts of seconds, which end alike: ``05.678901``, ``05.678901Z``."""
    zone = found[0].as_py().lstrip("0123456789.")
    alike = compute.match_substring_regex(found, rf"^[0-5][0-9](\.[0-9]{{1,6}})?{re.escape(zone)}$")
    if compute.all(alike).as_py() is not True:
        raise ValueError("seconds of several kinds")
    numbers = compute.utf8_slice_codeunits(found, 0, -len(zone)) if zone else found
    return compute.add(compute.cast(numbers, pa.float64()), look("00" + zone))


def every(moments: pa.DoubleArray, start: int, count: int) -> bytes:
    """Each of the moments from ``start`` on that is ``count`` after the one before, as the machine writes them."""
    numbers = memoryview(moments.buffers()[1]).cast("d")[moments.offset : moments.offset + len(moments)]
    return numbers[start::count].tobytes()


def numbers(column: "array[float]") -> pa.DoubleArray:
    """The same numbers for the library, at the same place."""
    return pa.Array.from_buffers(pa.float64(), len(column), [None, pa.py_buffer(column)])


def apart(first: pa.DoubleArray, last: pa.DoubleArray) -> tuple[float, float]:
    """The least and the most seconds between two columns, which are not empty."""
    ends = compute.min_max(compute.subtract(last, first))
    return ends["min"].as_py(), ends["max"].as_py()


def in_order(times: pa.DoubleArray) -> bool:
    """Whether each time is later than the one before."""
    return len(times) < 2 or compute.all(compute.less(times[:-1], times[1:])).as_py() is True


def steps_of(times: pa.DoubleArray) -> Steps:
    """The steps of a recording."""
    steps = compute.subtract(times[1:], times[:-1])
    if not len(steps):
        return NO_STEPS
    ends = compute.min_max(steps)
    ahead = steps.filter(compute.greater(steps, 0.0))
    middle = [compute.quantile(ahead, q=0.5, interpolation=side)[0].as_py() for side in ("lower", "higher")]
    return Steps(usual(*middle) if len(ahead) else 0.0, ends["min"].as_py(), ends["max"].as_py())
