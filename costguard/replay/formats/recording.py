"""costguard's own recording: one JSON value a line, packed where the name ends in ``.gz``.

The first line is an object: ``{"costguard_trace": 1, "version": …, "began": date, "interval": seconds}``. An object with
``gpus`` says which GPUs the next lines tell of, in this order. One with ``senses`` says what senses see from then on (``at``, in
seconds since ``began``): a list of ``[sense, words, blocks every stop, cannot see, what would end it]``. Every other line is a list: seconds since ``began``, then
one reading for each GPU: a load from 0 to 1; ``[load, [signs of work], seconds covered]``; a text, the reason why it
is unknown; or null, the same as in the line before. No policy is in it: the same recording serves them all.
"""

import gzip
import json
import math
import os
from array import array
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Any

from costguard import __version__
from costguard.engine.observation import Device, Known, Reading, Unknown, Veto
from costguard.engine.words import several
from costguard.replay.formats.group import NO_ROW
from costguard.replay.formats.source import Progress, Source, chunks, lines_of
from costguard.replay.formats.values import LATEST
from costguard.replay.trace import ReadingCodes, Recording, SeenFrom, Trace, TraceError, steps_of

FORMAT = 1

FLUSH_EVERY = 5.0
"""Seconds of recording after which what was packed goes to the disk."""


class Writer:
    """Writes a recording, line by line. What it wrote is whole after every `flush` and after `close`."""

    def __init__(self, path: str, began: float, interval: float) -> None:
        file = open(path, "xb")  # noqa: SIM115 - closed by close(); an existing file is never overwritten
        self._file: IO[bytes] = file
        self._packed = gzip.GzipFile(fileobj=file, mode="wb", mtime=0) if path.endswith(".gz") else None
        self._devices: tuple[Device, ...] = ()
        self._last: dict[str, object] = {}
        self._vetoes: tuple[Veto, ...] = ()
        self._flushed = -math.inf
        self.ticks = 0
        try:
            self._write({"costguard_trace": FORMAT, "version": __version__, "began": began, "interval": interval})
            self.flush()
        except OSError:
            with suppress(OSError):
                os.unlink(path)  # made just now, and nothing is in it
            raise

    def _write(self, value: object) -> None:
        line = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
        (self._packed or self._file).write(line)

    def meet(self, devices: Sequence[Device]) -> None:
        """The GPUs of the ticks to come, if they are others than before."""
        if tuple(devices) == self._devices:
            return
        self._devices, self._last = tuple(devices), {}
        self._write({"gpus": [{"key": d.key, "index": d.number, "uuid": d.uuid, "name": d.name} for d in devices]})

    def seen(self, after: float, vetoes: tuple[Veto, ...]) -> None:
        """Record what senses see from then on, if that has changed."""
        if vetoes != self._vetoes:
            self._vetoes = vetoes
            rows = [[veto.source, veto.reason, veto.hatch, veto.unknown, veto.lets_go] for veto in vetoes]
            self._write({"at": round(after, 3), "senses": rows})

    def tick(self, after: float, readings: Sequence[Reading]) -> None:
        """Record the readings of the moment ``after`` seconds, in the order of the GPUs."""
        values: list[object] = []
        for device, reading in zip(self._devices, readings, strict=True):
            value = _value(reading)
            values.append(None if self._last.get(device.key) == value else value)
            self._last[device.key] = value
        self._write([round(after, 3), *values])
        self.ticks += 1
        if after - self._flushed >= FLUSH_EVERY:
            self._flushed = after
            self.flush()

    def flush(self) -> None:
        """Give everything to the operating system, so that a killed recorder loses next to nothing."""
        if self._packed is not None:
            self._packed.flush()
        self._file.flush()

    def close(self) -> None:
        """End the file."""
        if self._packed is not None:
            self._packed.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()


def _value(reading: Reading) -> object:
    if isinstance(reading, Unknown):
        return reading.reason
    covers = int(reading.covers * 10) / 10  # never more than was covered
    return [reading.load, list(reading.signs), covers] if reading.signs or covers else reading.load


def looks_like_own(line: str) -> bool:
    """Whether a file begins as a recording of costguard does."""
    return line.lstrip().startswith('{"costguard_trace"')


def read_own(source: Source, progress: Progress | None = None) -> Recording:
    """Read a recording of costguard; raises TraceError that names the line."""
    reader = _Parser(source)
    for piece, last in chunks(source, progress):
        lines = lines_of(piece)
        for position, line in enumerate(lines):
            reader.line(line, last=last and position == len(lines) - 1)
    return reader.finish()


class _Parser:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._number = 0
        self._began = self._interval = 0.0
        self._known = False
        self._palette = ReadingCodes()
        self._devices: dict[str, Device] = {}
        self._places: list[int] = []
        self._times: array[float] = array("d")
        self._columns: list[array[int]] = []
        self._last: dict[int, int] = {}
        self._notes: list[str] = []
        self._seen: list[SeenFrom] = []

    def line(self, line: str, *, last: bool) -> None:
        """One line of the file."""
        self._number += 1
        try:
            value = json.loads(line)
            if isinstance(value, list):
                self._tick(value)
            else:
                self._facts(value)
        except (ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
            if last and not line.endswith("\n"):
                self._notes.append(f"line {self._number} is cut off and was skipped")
                return
            message = f"{self._source.name}:{self._number}: not a line of a costguard recording ({error})"
            raise TraceError(message, "the format is in docs/replay.md.") from None

    def _facts(self, value: dict[str, Any]) -> None:
        if "costguard_trace" in value:
            if value["costguard_trace"] != FORMAT:
                raise ValueError(f"format {value['costguard_trace']!r}; this costguard reads {FORMAT}")
            self._began, self._interval, self._known = float(value["began"]), float(value["interval"]), True
            return
        if "senses" in value:
            self._seen.append(SeenFrom(self._began + float(value["at"]), tuple(map(_veto, value["senses"]))))
            return
        missing = self._palette.number(NO_ROW)
        self._places, self._last = [], {}
        for gpu in value["gpus"]:
            key = str(gpu["key"])
            if key not in self._devices:
                self._columns.append(array("L", [missing] * len(self._times)))
            self._devices[key] = Device(key, gpu.get("index"), str(gpu.get("uuid") or ""), str(gpu.get("name") or ""))
            self._places.append(list(self._devices).index(key))

    def _tick(self, value: list[Any]) -> None:
        if not self._known:
            raise ValueError("its first line is missing")
        at = self._began + float(value[0])
        if not 0.0 <= at < LATEST:
            raise ValueError(f"{value[0]!r} is not a time")
        if len(value) != len(self._places) + 1:
            raise ValueError(f"{several(len(value) - 1, 'reading')} for {several(len(self._places), 'GPU')}")
        if self._times and at < self._times[-1]:
            raise ValueError("time runs backwards")
        now: dict[int, int] = {}
        for place, reading in zip(self._places, value[1:], strict=True):
            now[place] = self._last[place] if reading is None else self._palette.number(_reading(reading))
        missing = self._palette.number(NO_ROW)
        for place, column in enumerate(self._columns):
            column.append(now.get(place, missing))
        self._last = now
        self._times.append(at)

    def finish(self) -> Recording:
        """The one machine of the file."""
        if not self._times or not self._columns:
            raise TraceError(f"{self._source.name} has no readings of a GPU")
        steps = steps_of(self._times)
        trace = Trace(
            "",
            tuple(self._devices.values()),
            self._times,
            tuple(self._palette.pack(column.tolist()) for column in self._columns),
            tuple(self._palette.readings),
            steps._replace(usual=steps.usual or self._interval),
            tuple(self._seen),
        )
        return Recording((trace,), len(self._times) * len(self._columns), tuple(self._notes))


def _veto(row: Any) -> Veto:  # noqa: ANN401 - a JSON value, judged here
    source, reason, hatch, unknown, lets_go = row
    return Veto(str(source), str(reason), hatch is True, sense=True, lets_go=str(lets_go), unknown=unknown is True)


def _reading(value: Any) -> Reading:  # noqa: ANN401 - a JSON value, judged here
    if isinstance(value, str):
        return Unknown(value)
    load, signs, covers = value if isinstance(value, list) else (value, (), 0.0)
    if isinstance(load, bool) or not 0.0 <= load <= 1.0 or not covers >= 0.0:
        raise ValueError(f"{value!r} is not a reading")
    return Known(float(load), tuple(str(sign) for sign in signs), float(covers))
