"""Reads tables: the output of `nvidia-smi --query-gpu=… --format=csv`, and what people made of it."""

import csv
import re
from array import array
from collections.abc import Iterable, Sequence
from itertools import compress, islice, pairwise
from operator import ne
from typing import NamedTuple

from costguard.engine.observation import Device, Known, Reading
from costguard.engine.words import date, several
from costguard.replay.formats.columns import Columns, from_header, guess, is_header, per_cent_of, plain, renamed
from costguard.replay.formats.group import Grouper
from costguard.replay.formats.overlap import DoubtfulRowsError
from costguard.replay.formats.source import Progress, Source, chunks, lines_of
from costguard.replay.formats.values import EARLIEST, CellTimes, Numbers, is_local, load, moment
from costguard.replay.trace import ReadingCodes, Recording, Trace, TraceError

_DIGITS = re.compile(r"[\d.,]+")

ALLOWED = "allowed: rows of nvidia-smi --query-gpu=timestamp,index,utilization.gpu --format=csv"


DELIMITERS = ("\t", ";", ",")
"""What may stand between the cells; a comma comes last, because it may also stand in numbers."""

INDEX_DIGITS = 9
"""A longer number is a name, not an index."""

UNIT_UNCLEAR = "no load is above 1, so it is unclear whether the unit is per cent or a share of 1"
SCALE_HINT = "name the unit: --scale 100 for shares of 1, --scale 1 for per cent"


class Options(NamedTuple):
    """What the user says about a table; None where costguard shall find it out."""

    machine: str | None = None  # the column that tells machines apart
    columns: str | None = None  # names for the columns of a table without header, or OURS=THEIRS for some of one with
    scale: float | None = None  # what makes per cent of a load; None: as its name says, else 1


class Table:
    """One table in the making."""

    def __init__(self, source: Source, options: Options) -> None:
        self.source = source
        self.options = options
        self.notes: list[str] = []
        self.rows = 0
        self.delimiter = ","
        self._columns: Columns | None = None
        self._header: list[str] = []
        self._header_line = ""
        self._shape: list[str] = []
        self._before = 0  # lines before this chunk
        self._palette = ReadingCodes()
        self._moments = CellTimes()
        self._numbers = Numbers(self._palette)
        self._groupers: dict[str, Grouper] = {}
        self._facts: dict[tuple[str, str], Sequence[str]] = {}

    @property
    def has_header(self) -> bool:
        """Whether the first line with something in it names the columns."""
        return bool(self._header_line)

    @property
    def columns(self) -> Columns | None:
        """What each column means, once it is known."""
        return self._columns

    # -- reading ---------------------------------------------------------------------------------------------

    def take(self, piece: str, *, last: bool) -> None:
        """A piece of the file: whole lines."""
        if self._columns is None:
            lines = lines_of(piece)
            skipped = self.begin(lines)
            self._before += skipped
            piece = "".join(lines[skipped:])
        if not piece:
            return
        try:
            self.take_columns(*self._split(piece, last=last))
        except ValueError:
            self._find_bad_time(lines_of(piece))
            raise
        self._before += piece.count("\n")

    def begin(self, lines: list[str]) -> int:
        """Learn the columns from the first lines; gives how many of them are used up."""
        count = next((i for i, line in enumerate(lines) if line.strip()), len(lines))
        if count == len(lines):
            return count
        self.delimiter = delimiter_of(lines[count], self.options.columns or "")
        cells = self._cells(lines[count])
        try:
            names = self.options.columns or ""
            if names and "=" not in names:
                self._header = [name.strip() for name in names.split(",")]
                written = cells if is_header(cells) else []
                self._columns = from_header(self._header, self.options.machine, written)
                if written:
                    self._header_line, count = lines[count], count + 1
            elif names or is_header(cells):
                self._header, self._header_line = cells, lines[count]
                self._columns = from_header(renamed(cells, names) if names else cells, self.options.machine, cells)
                count += 1
            else:
                self._columns, note = guess([cells], moment)
                self.notes.append(note)
        except ValueError as error:
            raise self._error(count + 1, str(error), lines[count]) from None
        found = self._columns
        self._numbers.scales = per_cent_of([column.unit for column in found.loads], self.options.scale)
        self._numbers.own = len(found.own)
        if self._numbers.own > 1:
            names = ", ".join(repr(plain(self._header[column.position])) for column in found.own)
            self.notes.append(f"the columns {names} are loads of the same GPU: the highest counts")
        if found.machine is not None and not self.options.machine:
            self.notes.append(f"the column {plain(self._header[found.machine])!r} is read as the machine")
        return count

    def _split(self, piece: str, *, last: bool) -> Sequence[Sequence[str]]:
        """The cells, column by column; line by line where something is odd."""
        found = self._columns
        assert found is not None  # take() saw to it
        if last and not piece.endswith("\n"):
            return self._carefully(lines_of(piece), found, last=True)
        kept = piece
        if self._header_line and self._header_line in piece:
            kept = ("\n" + piece).replace("\n" + self._header_line, "\n")[1:]
        try:
            columns: Sequence[Sequence[str]] = _plain_columns(kept, found.width, self.delimiter)
            if not columns:
                lines = lines_of(kept)
                rows = list(csv.reader(lines, delimiter=self.delimiter, skipinitialspace=True))
                columns = list(zip(*rows, strict=True)) if len(rows) == len(lines) else ()
            if len(columns) == found.width:
                first, *others = [columns[i] for i in found.load_positions]
                for cells in set(zip(first, *others, strict=True)) if others else ((cell,) for cell in set(first)):
                    self.number(*cells)
                return columns
        except (ValueError, csv.Error):
            pass
        return self._carefully(lines_of(piece), found, last=last)

    def _carefully(self, lines: list[str], found: Columns, *, last: bool) -> Sequence[Sequence[str]]:
        """Each line for itself: empty ones and headers are left out, what is wrong is named with its line."""
        good: list[list[str]] = []
        for number, line in enumerate(lines, self._before + 1):
            cells = self._cells(line)
            end = last and number == self._before + len(lines)
            if not line.strip() or (self._header and cells == [cell.strip() for cell in self._header]):
                continue
            if end and self._is_cut(line, cells, good, found):
                self.note_cut(number)
                continue
            try:
                self._check(number, line, cells, found)
            except TraceError:
                if not end or line.endswith("\n") or not (good or self.rows):
                    raise
                self.note_cut(number)
                continue
            good.append(cells)
        return list(zip(*good, strict=True)) if good else [()] * found.width

    def note_cut(self, number: int) -> None:
        """Note a last line that was still being written."""
        self.notes.append(f"line {number} is cut off and was skipped")

    def _is_cut(self, line: str, cells: list[str], good: list[list[str]], found: Columns) -> bool:
        if line.endswith("\n") and len(cells) == found.width:
            return False
        if len(cells) < found.width:
            return True
        pattern = self._shape or ([_shape(cell) for cell in good[-1]] if good else [])
        return bool(pattern) and [_shape(cell) for cell in cells] != pattern

    def _check(self, number: int, line: str, cells: list[str], found: Columns) -> None:
        if len(cells) != found.width:
            raise self._error(number, f"{several(len(cells), 'column')} instead of {found.width}", line)
        try:
            moment(cells[found.time])
            for position, scale in zip(found.load_positions, self._numbers.scales, strict=True):
                load(cells[position], scale)
        except ValueError as error:
            raise self._error(number, str(error), line) from None

    def _error(self, number: int, message: str, line: str) -> TraceError:
        shown = "".join(c if c.isprintable() else "·" for c in line.strip())
        shown = shown if len(shown) <= 80 else shown[:77] + "…"
        return TraceError(f"{self.source.name}:{number}: {message}; read: {shown!r}", f"{ALLOWED}; see docs/replay.md.")

    def _cells(self, line: str) -> list[str]:
        return cells_of(line, self.delimiter)

    def _doubtful(self, error: DoubtfulRowsError) -> TraceError:
        return TraceError(f"{self.source.name}: {error}", error.hint)

    # -- grouping --------------------------------------------------------------------------------------------

    def take_columns(self, *columns: Sequence[str]) -> None:
        """Rows as columns of cells."""
        found = self._columns
        if found is None or not columns or not columns[0]:
            return
        self.count(len(columns[0]), columns)
        codes = self._codes(columns, found)
        gpus = _bare(columns[found.gpu]) if found.gpu is not None else None
        machines = columns[found.machine] if found.machine is not None else None
        try:
            self._hand_out(columns[found.time], gpus, codes, machines)
        except DoubtfulRowsError as error:
            raise self._doubtful(error) from None

    def count(self, rows: int, columns: Sequence[Sequence[str]]) -> None:
        """So many rows were read; ``columns`` holds them, or the first of them, for the names of the GPUs."""
        self.rows += rows
        if not self._shape:
            self._shape = [_shape(column[-1]) for column in columns]
        self._remember(columns)

    def number(self, *cells: str) -> int:
        """The number of a row's loads; raises ValueError in words."""
        return self._numbers.several(*cells) if len(cells) > 1 else self._numbers[cells[0]]

    def _codes(self, columns: Sequence[Sequence[str]], found: Columns) -> "array[int]":
        numbers = self._numbers
        if len(found.loads) == 1:
            return array("L", map(numbers.__getitem__, columns[found.loads[0].position]))
        return array("L", map(numbers.several, *[columns[i] for i in found.load_positions]))

    def _hand_out(
        self, times: Sequence[str], gpus: Sequence[str] | None, codes: "array[int]", machines: Sequence[str] | None
    ) -> None:
        if machines is None:
            self.grouper("").feed(times, gpus, codes)
            return
        moments, local = array("d", self._moments.column(times)), is_local(times[0])
        changes = compress(range(1, len(machines)), map(ne, islice(machines, 1, None), machines))
        for start, end in pairwise([0, *changes, len(machines)]):
            of_gpus = gpus[start:end] if gpus else None
            self.grouper(machines[start].strip()).feed_dated(moments[start:end], of_gpus, codes[start:end], local=local)

    def grouper(self, name: str) -> Grouper:
        """Who collects the rows of one machine."""
        found = self._groupers.get(name)
        if found is None:
            found = self._groupers[name] = Grouper(name, self._palette, self._moments)
        return found

    def _find_bad_time(self, lines: list[str]) -> None:
        """Name the first line whose time is none."""
        found = self._columns
        assert found is not None  # take() saw to it
        for number, line in enumerate(lines, self._before + 1):
            cells = self._cells(line)
            if not line.strip() or (self._header and cells == [cell.strip() for cell in self._header]):
                continue
            try:
                moment(cells[found.time])
            except ValueError as error:
                raise self._error(number, str(error), line) from None

    def _remember(self, columns: Sequence[Sequence[str]]) -> None:
        """The first row of every GPU, for its name and UUID."""
        found = self._columns
        if found is None or found.gpu is None:
            return
        machines = columns[found.machine] if found.machine is not None else None
        gpus = _bare(columns[found.gpu])
        for key in set(gpus):
            if machines is None and ("", key) not in self._facts:
                row = gpus.index(key)
                self._facts["", key] = [column[row] for column in columns]

    # -- the end ---------------------------------------------------------------------------------------------

    def finish(self) -> Recording:
        """Everything that was read."""
        if not self.rows:
            raise TraceError(f"{self.source.name} has no rows", f"{ALLOWED}; see docs/replay.md.")
        traces = []
        for grouper in self._groupers.values():
            try:
                grouper.complete()
                devices = [self._device(grouper.name, key, place) for key, place in grouper.keys.items()]
                traces.append(grouper.finish(devices))
            except DoubtfulRowsError as error:
                raise self._doubtful(error) from None
        odd = [grouper.name for grouper in self._groupers.values() if not grouper.sorted]
        if odd:
            of = f" of {len(odd)} machines" if len(self._groupers) > 1 else ""
            self.notes.append(f"the rows{of} were out of order and have been sorted by time")
        self._refuse_doubtful_unit()
        self._judge_dates(traces)
        return Recording(tuple(traces), self.rows, tuple(self.notes))

    def _judge_dates(self, traces: Sequence[Trace]) -> None:
        """Times that begin with the recording have no date; beside dates they are those of a clock that was not set."""
        first, last = min(trace.times[0] for trace in traces), max(trace.times[-1] for trace in traces)
        if first >= EARLIEST:
            return
        if last >= EARLIEST:
            text = f"{self.source.name}: the times jump from {first:.15g} s to {date(last)}: the clock was set during the recording"
            raise TraceError(text, "remove the rows from before it was set, or give them dates")
        self.notes.append(
            "the times are read as seconds since the recording began: the dates that are shown mean nothing"
        )

    def _refuse_doubtful_unit(self) -> None:
        """Refuse loads that never exceed 1 and are not all 0: they may be shares of 1 as well as per cent."""
        if self.options.scale is not None or self._columns is None:
            return
        for place, column in enumerate(self._columns.own):
            cells = self._numbers.cells_of(place) if not column.unit else set()
            if doubtful_unit(map(load, cells)) and not any("%" in cell for cell in cells):
                raise TraceError(f"{self.source.name}: {UNIT_UNCLEAR}", SCALE_HINT)

    def _device(self, machine: str, key: str, place: int) -> Device:
        found = self._columns
        assert found is not None  # finish() is called after rows were read
        if found.gpu is None:
            return Device(key, place)
        row = self._facts.get((machine, key), ())
        name = row[found.name].strip() if found.name is not None and row else ""
        uuid = row[found.uuid].strip() if found.uuid is not None and row else ""
        bus = row[found.bus].strip().lower() if found.bus is not None and row else ""
        number = int(key) if key.isdecimal() and len(key) <= INDEX_DIGITS else place
        return Device(bus or uuid or (f"gpu{key}" if key.isdecimal() else key), number, uuid, name)


def _plain_columns(text: str, width: int, delimiter: str) -> list[list[str]]:
    """The cells of whole lines, as the csv module gives them, in half of its time; empty where it may give others."""
    if not text.endswith("\n") or '"' in text:
        return []
    if " " in text:
        text = text.replace(delimiter + " ", delimiter)
        if delimiter + " " in text or "\n " in text or text[0] == " ":
            return []
    apart = text.replace("\n", f"{delimiter}\n{delimiter}")
    cells, lines = apart.split(delimiter), (len(apart) - len(text)) // 2
    row = width + 1  # with the end of its line, by which one that has more or fewer cells is seen
    if len(cells) != lines * row + 1 or cells[width::row].count("\n") != lines:
        return []
    return [cells[place:-1:row] for place in range(width)]


def _bare(names: Sequence[str]) -> Sequence[str]:
    """Names without the blanks around them, or one GPU would be two; they are few, so most columns are not copied."""
    return names if all(name == name.strip() for name in set(names)) else [name.strip() for name in names]


def cells_of(line: str, delimiter: str = ",") -> list[str]:
    """The cells of one line, without the blanks around them."""
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])]
    except csv.Error:
        return [line.strip()]


def delimiter_of(line: str, names: str) -> str:
    """What stands between the cells of a table, as its first line shows; ``names`` are those that the user gives to the columns."""
    given = names.split(",") if names else []
    for delimiter in DELIMITERS:
        cells = cells_of(line, delimiter)
        if "=" in names:
            theirs = {plain(pair.partition("=")[2]) for pair in given}
            fits = theirs <= set(map(plain, cells))
        elif names:
            fits = len(cells) == len(given)
        else:
            fits = is_header(cells) or _guessed(cells)
        if fits:
            return delimiter
    return ","


def _guessed(cells: Sequence[str]) -> bool:
    try:
        guess([cells], moment)
    except ValueError:
        return False
    return True


def doubtful_unit(readings: Iterable[Reading]) -> bool:
    """Whether loads that were read as per cent may be shares of 1: none is above 1, and some are above 0."""
    return 0.0 < max((reading.load for reading in readings if isinstance(reading, Known)), default=0.0) <= 0.01


def _shape(cell: str) -> str:
    return _DIGITS.sub("0", cell.strip())


def read_table(source: Source, options: Options, progress: Progress | None = None) -> Recording:
    """Read a table with the standard library; raises TraceError that names the line."""
    table = Table(source, options)
    for piece, last in chunks(source, progress):
        table.take(piece, last=last)
    return table.finish()
