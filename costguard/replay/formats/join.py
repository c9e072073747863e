"""Several files of one machine, such as a log that is rotated each day, become one recording."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from costguard.engine.observation import Device, Reading
from costguard.engine.words import several
from costguard.replay.formats.group import NO_ROW, Grouper
from costguard.replay.formats.overlap import ROWS, DoubtfulRowsError, day_and_time
from costguard.replay.formats.values import CellTimes
from costguard.replay.trace import ReadingCodes, SeenFrom, Trace, TraceError

NAMELESS_NOTE = (
    "{} no machine and no UUID of a GPU, so each counts as a machine of its own: work that came back in the next file of a "
    "rotated log is missed. To read such files as one recording: `cat FILE… | costguard replay -`"
)

NOT_THERE = -1
"""The number of no reading."""

OVERLAP_HINT = "read them one by one, or leave one out"


class FileTrace(NamedTuple):
    """What one file says of one machine; ``trace.name`` is empty where it does not name it."""

    path: str
    trace: Trace

    @property
    def uuids(self) -> set[str]:
        """The GPUs of the machine, as far as the file tells their UUIDs."""
        return {device.uuid for device in self.trace.devices if device.uuid}


def by_machine(parts: Sequence[FileTrace], *, by_name: bool) -> list[list[FileTrace]]:
    """The parts of each machine, in the order of time: those that name it alike, or the same GPUs.

    ``by_name``: by names alone, because somebody said where they stand.
    """
    groups: list[list[FileTrace]] = []
    of_name: dict[str, list[list[FileTrace]]] = {}
    of_gpu: dict[str, list[FileTrace]] = {}
    for part in parts:
        found = next((of_gpu[uuid] for uuid in part.uuids if uuid in of_gpu and not by_name), None)
        if found is None and part.trace.name:
            found = next((group for group in of_name.get(part.trace.name, []) if not _other_gpus(group, part)), None)
        if found is None:
            groups.append(found := [])
        found.append(part)
        of_gpu.update(dict.fromkeys(part.uuids, found))
        if part.trace.name and not any(group is found for group in of_name.setdefault(part.trace.name, [])):
            of_name[part.trace.name].append(found)
    return [sorted(group, key=lambda part: part.trace.times[:1].tolist()) for group in groups]


def _other_gpus(group: Sequence[FileTrace], part: FileTrace) -> bool:
    """Whether both name their GPUs, and none is the same: two machines of one name."""
    known = set(chain.from_iterable(one.uuids for one in group))
    return bool(known and part.uuids) and known.isdisjoint(part.uuids)


def notes_on(parts: Sequence[FileTrace], groups: Sequence[Sequence[FileTrace]]) -> Iterator[str]:
    """What had to be assumed."""
    joined = [group for group in groups if len(group) > 1]
    if joined:
        files, machines = sum(map(len, joined)), several(len(joined), "machine")
        yield f"{files} files are of {machines}, by name or GPUs: each machine's files are read as one recording, in order of time"
    nameless = [part for part in parts if not part.trace.name and not part.uuids]
    if len(nameless) > 1:
        yield NAMELESS_NOTE.format(f"{len(nameless)} files name")


def one_trace(parts: Sequence[FileTrace], name: str) -> Trace:
    """The parts of a machine, in the order of time, as one recording. Raises TraceError where two say something else of one time."""
    parts = [part for part in parts if part.trace.times] or parts[:1]
    if len(parts) == 1:
        return parts[0].trace._replace(name=name)
    _refuse_two_truths(parts)
    devices = _devices(parts)
    palette = ReadingCodes()
    palette.number(NO_ROW)
    grouper = Grouper(name, palette, CellTimes())
    times: list[float] = []
    keys: list[str] = []
    codes: list[int] = []
    for part in parts:
        own = [devices[device.uuid or device.key].key for device in part.trace.devices]
        for at, gpu, code in _rows(part.trace, palette):
            times.append(at)
            keys.append(own[gpu])
            codes.append(code)
    by_key = {device.key: device for device in devices.values()}
    try:
        grouper.feed_dated(times, keys, codes, local=False)
        grouper.complete()
        whole = grouper.finish([by_key[key] for key in grouper.keys])
    except DoubtfulRowsError as error:
        raise TraceError(f"{', '.join(part.path for part in parts)}: {error}", error.hint) from None
    steps = whole.steps._replace(usual=whole.interval or parts[0].trace.interval)
    return whole._replace(vetoes=tuple(_vetoes(parts)), steps=steps)


def _devices(parts: Sequence[FileTrace]) -> dict[str, Device]:
    """The GPUs, by their UUID or else their key; the first file that has one names it."""
    found: dict[str, Device] = {}
    for device in chain.from_iterable(part.trace.devices for part in parts):
        found.setdefault(device.uuid or device.key, device)
    return found


def _rows(trace: Trace, palette: ReadingCodes) -> Iterator[tuple[float, int, int]]:
    """The rows that the file had: their date, the position of their GPU, and the number of their reading."""
    numbers = [NOT_THERE if reading == NO_ROW else palette.number(reading) for reading in trace.readings]
    columns = [[numbers[code] for code in codes] for codes in trace.codes]
    for at, row in zip(trace.times, zip(*columns, strict=True), strict=True):
        yield from ((at, gpu, code) for gpu, code in enumerate(row) if code != NOT_THERE)
    yield from ((at, gpu, palette.number(reading)) for at, gpu, reading in trace.unfinished)


def _vetoes(parts: Sequence[FileTrace]) -> Iterator[SeenFrom]:
    """What senses saw; what was seen at the end of one file says nothing about the next one."""
    for place, part in enumerate(parts):
        if place and parts[place - 1].trace.vetoes:
            yield SeenFrom(part.trace.times[0], ())
        yield from part.trace.vetoes


def _refuse_two_truths(parts: Sequence[FileTrace]) -> None:
    for place, later in enumerate(parts):
        for earlier in parts[:place]:
            begin, end = later.trace.times[0], min(earlier.trace.times[-1], later.trace.times[-1])
            if begin <= end and _strange(earlier.trace, later.trace, begin, end) >= ROWS:
                raise TraceError(
                    f"{earlier.path} and {later.path} both cover {later.trace.name or 'the same GPUs'} from {day_and_time(begin)} to "
                    f"{day_and_time(end)}, with different loads",
                    OVERLAP_HINT,
                )


def _strange(one: Trace, other: Trace, begin: float, end: float) -> int:
    """How many readings of a GPU between two dates only one of two recordings has."""
    count = 0
    for device in one.devices:
        same = [
            gpu for gpu, found in enumerate(other.devices) if (found.uuid or found.key) == (device.uuid or device.key)
        ]
        for gpu in same:
            count += len(_between(one, one.devices.index(device), begin, end) ^ _between(other, gpu, begin, end))
    return count


def _between(trace: Trace, gpu: int, begin: float, end: float) -> set[tuple[float, Reading]]:
    first, last = bisect_left(trace.times, begin), bisect_right(trace.times, end)
    readings = [trace.readings[code] for code in trace.codes[gpu][first:last]]
    return {(at, reading) for at, reading in zip(trace.times[first:last], readings, strict=True) if reading != NO_ROW}
