"""What a Prometheus server answers to ``/api/v1/query_range``, as JSON: one series for each GPU and metric.

Label and metric names are those of NVIDIA's DCGM exporter and of nvidia_gpu_exporter.
"""

import json
from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from costguard.engine.observation import Device, Known, Reading
from costguard.replay.formats.columns import ENGINE_NAMES, LOAD_NAMES, per_cent_of, plain, unit_of
from costguard.replay.formats.group import NO_ROW
from costguard.replay.formats.source import Progress, Source, text_of
from costguard.replay.formats.table import SCALE_HINT, UNIT_UNCLEAR, Options, doubtful_unit
from costguard.replay.formats.values import load, since_epoch
from costguard.replay.trace import ReadingCodes, Recording, Trace, TraceError, steps_of

LONGEST_CHARACTERS = 1 << 27
"""A longer answer is refused, because JSON is read whole."""

BEGINNING_CHARACTERS = 1 << 18
"""How far into the file the results must begin: another file is not read to its end."""

REMARKS, REMARK_CHARACTERS = 5, 300
"""How many warnings of a server are told, and how many characters of each."""

MACHINE_LABELS = ("Hostname", "hostname", "node", "host", "instance", "machine", "pod")
GPU_LABELS = ("UUID", "uuid", "gpu_uuid", "gpu", "minor_number", "index", "device")
NUMBER_LABELS = ("gpu", "index", "minor_number")
NAME_LABELS = ("modelName", "name", "gpu_name")

HINT = "allowed: the JSON answer of /api/v1/query_range, for example to DCGM_FI_DEV_GPU_UTIL; see docs/replay.md."


class _Series(NamedTuple):
    """One metric of one GPU: its readings by the date in seconds since the epoch."""

    machine: str
    device: Device
    metric: str
    readings: dict[float, Reading]


def read_answer(source: Source, options: Options, progress: Progress | None = None) -> Recording:
    """Read an answer. Raises TraceError."""
    with text_of(source, lines=False) as text:
        content = text.read(BEGINNING_CHARACTERS)
        if '"result"' not in content:  # it stands before all values
            raise TraceError(f"{source.name} is not an answer of a Prometheus server: it has no data.result", HINT)
        content += text.read(LONGEST_CHARACTERS + 1 - BEGINNING_CHARACTERS)
    if len(content) > LONGEST_CHARACTERS:
        message = f"{source.name} is larger than {LONGEST_CHARACTERS >> 20} MB"
        raise TraceError(message, "query a shorter time or a larger step")
    if progress is not None:
        progress(source.size)
    try:
        answer = json.loads(content)
        found = [series for series in answer["data"]["result"] if isinstance(series["values"], list)]
        notes = list(_said(answer))
        wanted = list(_wanted(found, notes))
        metrics = [plain(str(each["metric"].get("__name__", ""))) for each in wanted]
        scales = per_cent_of([unit_of(metric) for metric in metrics], options.scale)
        series = [_series(*each, options.machine) for each in zip(wanted, metrics, scales, strict=True)]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        why = str(error) if isinstance(error, ValueError) else "it has no data.result with series of values"
        raise TraceError(f"{source.name} is not an answer of a Prometheus server: {why}", HINT) from None
    if not any(one.readings for one in series):
        raise TraceError(f"{source.name} has no samples", HINT)
    _refuse_doubtful_unit(source, options, series)
    if not options.machine:
        series = list(_under_one_name(series, notes))
    machines = dict.fromkeys(each.machine for each in series)
    traces = tuple(_trace(name, [each for each in series if each.machine == name]) for name in machines)
    return Recording(traces, sum(len(each.readings) for each in series), tuple(notes))


def _said(answer: Mapping[str, Any]) -> Iterator[str]:
    """What the server says of its answer: a GPU that is missing from a partial one shows in nothing else."""
    if answer.get("isPartial") is True:  # VictoriaMetrics
        yield "the server says that its answer is partial: GPUs, or times of them, may be missing"
    for key, verb in (("warnings", "warns of"), ("infos", "notes on")):
        given = answer.get(key) or []
        texts = [" ".join(str(text).split()) for text in (given if isinstance(given, list) else [given])]
        yield from (f"the server {verb} its answer: {text[:REMARK_CHARACTERS]}" for text in texts[:REMARKS])
        if more := len(texts[REMARKS:]):
            yield f"the server {verb} its answer {more} times more"


def _wanted(found: Sequence[Mapping[str, Any]], notes: list[str]) -> Iterator[Mapping[str, Any]]:
    """The series of loads; those of other metrics are skipped, with a note."""
    known = {*LOAD_NAMES, *ENGINE_NAMES, ""}
    names = [plain(str(each["metric"].get("__name__", ""))) for each in found]
    others = sorted({name for name in names if name not in known})
    if others and len(others) == len(set(names)):
        raise ValueError(
            f"no GPU load among its metrics ({', '.join(others)}); known: {', '.join(sorted(known - {''}))}"
        )
    if others:
        notes.append(f"metrics that are not a GPU load were skipped: {', '.join(others)}")
    yield from (each for each, name in zip(found, names, strict=True) if name in known)


def _series(given: Mapping[str, Any], metric: str, scale: float, machine: str | None) -> _Series:
    labels = {str(name): str(value) for name, value in given["metric"].items()}
    readings = {since_epoch(float(at)): load(str(value), scale) for at, value in given["values"]}
    wanted = (machine,) if machine else MACHINE_LABELS
    key = _label(labels, GPU_LABELS) or "gpu0"
    number = _label(labels, NUMBER_LABELS)
    device = Device(
        f"gpu{key}" if key.isdecimal() else key,
        int(number) if number.isdecimal() else None,
        _label(labels, ("UUID", "uuid", "gpu_uuid")),
        _label(labels, NAME_LABELS),
    )
    return _Series(_label(labels, wanted), device, metric, readings)


def _under_one_name(series: Sequence[_Series], notes: list[str]) -> Iterator[_Series]:
    """A GPU that changes the name of its machine stays one: an exporter's address, or its pod, is another one after each start."""
    name_of: dict[str, str] = {}  # a machine's name, to the one that counts
    machine_of: dict[str, str] = {}  # a GPU's UUID, to that of its machine
    for each in series:
        known = machine_of.get(each.device.uuid, each.machine) if each.device.uuid else each.machine
        counts = name_of.setdefault(each.machine, known)
        if each.device.uuid:
            machine_of.setdefault(each.device.uuid, counts)
    others = sorted({each.machine for each in series if name_of[each.machine] != each.machine})
    if others:
        notes.append(f"{', '.join(others)} name GPUs of another machine, by their UUIDs, and are read as that one")
    yield from (each._replace(machine=name_of[each.machine]) for each in series)


def _label(labels: Mapping[str, str], wanted: Sequence[str]) -> str:
    return next((labels[name] for name in wanted if name in labels), "")


def _refuse_doubtful_unit(source: Source, options: Options, series: Sequence[_Series]) -> None:
    if options.scale is not None:
        return
    for metric in {each.metric for each in series if not unit_of(each.metric) and each.metric not in ENGINE_NAMES}:
        if doubtful_unit(chain.from_iterable(each.readings.values() for each in series if each.metric == metric)):
            raise TraceError(f"{source.name}: {UNIT_UNCLEAR}", SCALE_HINT)


def _trace(name: str, series: Sequence[_Series]) -> Trace:
    """One machine: every GPU at every time that any of them has."""
    devices = list({each.device.key: each.device for each in reversed(series)}.values())[::-1]
    times = array("d", sorted({at for each in series for at in each.readings}))
    palette = ReadingCodes()
    columns = []
    for place, device in enumerate(devices):
        of_gpu = [each for each in series if each.device.key == device.key]
        columns.append(palette.pack([palette.number(_at(at, of_gpu)) for at in times]))
        if device.number is None:
            devices[place] = device._replace(number=place)
    return Trace(name, tuple(devices), times, tuple(columns), tuple(palette.readings), steps_of(times))


def _at(at: float, metrics: Sequence[_Series]) -> Reading:
    """The highest load of a GPU's engines at one time; unknown where its own is."""
    own = [each.readings[at] for each in metrics if at in each.readings and each.metric not in ENGINE_NAMES]
    if not any(isinstance(reading, Known) for reading in own):
        return own[0] if own else NO_ROW
    every = [each.readings[at] for each in metrics if at in each.readings]
    return max((reading for reading in every if isinstance(reading, Known)), key=lambda known: known.load)
