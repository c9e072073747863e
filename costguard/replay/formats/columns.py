"""Finds the columns of a table: by its header, or by what its cells look like.

Only the time and the load of the engines count. Memory and temperature are no evidence of work, nor is power without
knowing what the GPU draws at rest; such columns are skipped.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

TIME_NAMES = ("timestamp", "time", "ts", "ts_utc", "t", "datetime", "date", "epoch", "unix_time", "unixtime")
LOAD_NAMES = (
    "utilization.gpu", "utilization_gpu", "utilizationgpu", "gpu_utilization", "gpu_util", "gpu_util_pct", "gpu_util_percent",
    "utilization", "util", "gpu_usage", "gpu_load", "load", "max_gpu_util_floor_pct", "gpu%", "gpu_percent",
    "dcgm_fi_dev_gpu_util", "nvidia_smi_utilization_gpu_ratio", "dcgm_fi_prof_gr_engine_active",
)  # fmt: skip
SHARE_NAMES = ("nvidia_smi_utilization_gpu_ratio", "dcgm_fi_prof_gr_engine_active")
"""Columns with loads from 0 to 1, as their exporters document them."""
PERCENT_NAMES = ("dcgm_fi_dev_gpu_util", "dcgm_fi_dev_enc_util", "dcgm_fi_dev_dec_util")
"""Columns with loads in per cent, as their exporters document them."""
PER_CENT_OF = {"": 1.0, "per cent": 1.0, "share": 100.0}
"""What makes per cent of a load, by its unit."""
ENGINE_NAMES = (
    "utilization.encoder", "utilization.decoder", "utilization.jpeg", "utilization.ofa",
    "dcgm_fi_dev_enc_util", "dcgm_fi_dev_dec_util",
)  # fmt: skip
GPU_NAMES = (
    "index",
    "gpu_id",
    "gpu_index",
    "gpuid",
    "uuid",
    "gpu_uuid",
    "pci.bus_id",
    "gpu_bus_id",
    "gpu_uid",
    "gpu",
    "id",
    "device",
)
MACHINE_NAMES = ("machine", "exported_instance", "session", "node", "host", "hostname", "instance", "pod")

_PCI = re.compile(r"(?i)([0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_WHOLE = re.compile(r"\d{1,3}")
_SHARE = re.compile(r"\d+([.,]\d+)?")


class LoadColumn(NamedTuple):
    """A column of loads: its position in a row, and its unit as far as its name says."""

    position: int
    unit: str = ""  # per cent | share
    engine: bool = False  # a further engine beside the GPU's own load


class Columns(NamedTuple):
    """Positions in a row; ``gpu`` and ``machine`` may be missing. Of ``loads`` those of engines are the last."""

    width: int
    time: int
    loads: tuple[LoadColumn, ...]
    gpu: int | None = None
    gpu_name: str = ""  # how the column of the GPU is called
    uuid: int | None = None
    bus: int | None = None
    name: int | None = None
    machine: int | None = None

    @property
    def own(self) -> tuple[LoadColumn, ...]:
        """The columns with the GPU's own load; those of further engines left out."""
        return tuple(column for column in self.loads if not column.engine)

    @property
    def load_positions(self) -> tuple[int, ...]:
        """Where the loads stand."""
        return tuple(column.position for column in self.loads)


def plain(cell: str) -> str:
    """A column's name without unit, case and blanks: ``utilization.gpu [%]`` is ``utilization.gpu``."""
    name = cell.strip()
    if name.endswith(("]", ")")):
        before = max(name.rfind("]", 0, -1), name.rfind(")", 0, -1)) + 1
        begins = [place for place in (name.find("[", before), name.find("(", before)) if place >= 0]
        name = name[: min(begins, default=len(name))].rstrip()
    return name.lower().replace(" ", "_")


def is_header(cells: Sequence[str]) -> bool:
    """Whether a row names columns: at least one is known, and none is a number."""
    names = [plain(cell) for cell in cells]
    known = {*TIME_NAMES, *LOAD_NAMES, *GPU_NAMES, *ENGINE_NAMES}
    return any(name in known for name in names) and not any(re.fullmatch(r"[\d.]+", name) for name in names)


def from_header(cells: Sequence[str], machine: str | None, written: Sequence[str] = ()) -> Columns:
    """Find the columns by their names. Raises ValueError.

    ``written``: the header that the file has where ``cells`` are names that somebody gave; the units in it count.
    """
    names = [plain(cell) for cell in cells]
    time = _first(names, TIME_NAMES)
    loads = tuple(
        LoadColumn(
            place,
            unit_of(written[place] if place < len(written) else "") or unit_of(cells[place]),
            known is ENGINE_NAMES,
        )
        for known in (LOAD_NAMES, ENGINE_NAMES)
        for name in known
        for place in range(len(names))
        if names[place] == name
    )
    if time is None:
        raise ValueError(f"no time column; allowed: {', '.join(TIME_NAMES)}")
    if not loads or loads[0].engine:
        raise ValueError("no column with the GPU load; allowed: " + ", ".join(LOAD_NAMES))
    if machine is not None and plain(machine) not in names:
        raise ValueError(f"no column {machine!r}; allowed: {', '.join(names)}")
    gpu = _first(names, GPU_NAMES)
    found = Columns(
        width=len(names),
        time=time,
        loads=loads,
        gpu=gpu,
        gpu_name=names[gpu] if gpu is not None else "",
        uuid=_first(names, ("uuid", "gpu_uuid")),
        bus=_first(names, ("pci.bus_id", "gpu_bus_id")),
        name=_first(names, ("name", "gpu_name", "modelname")),
        machine=names.index(plain(machine)) if machine is not None else _first(names, MACHINE_NAMES),
    )
    _refuse_a_name_that_stands_twice(names, found)
    return found


def _refuse_a_name_that_stands_twice(names: Sequence[str], found: Columns) -> None:
    places = (found.time, *found.load_positions, found.gpu, found.machine)
    twice = next((names[place] for place in places if place is not None and names.count(names[place]) > 1), None)
    if twice is not None:
        once = ",".join("-" if name in names[:place] else name for place, name in enumerate(names))
        raise ValueError(f"the column {twice!r} appears twice; say which one counts (`-` skips one): --columns {once}")


def renamed(cells: Sequence[str], names: str) -> list[str]:
    """A header with some names replaced by ours: ``timestamp=when,utilization.gpu=busy``. Raises ValueError."""
    own = [plain(cell) for cell in cells]
    found = list(cells)
    for pair in names.split(","):
        ours, equals, theirs = (part.strip() for part in pair.partition("="))
        if not equals or plain(theirs) not in own:
            raise ValueError(f"{pair.strip()!r} renames no column; the file has: {', '.join(own)}")
        if own.count(plain(theirs)) > 1:
            raise ValueError(f"the column {plain(theirs)!r} appears twice; name every column, without `=`")
        found[own.index(plain(theirs))] = ours
    return found


def unit_of(cell: str) -> str:
    """The unit in a column's name; most have none."""
    name = plain(cell)
    if name in SHARE_NAMES:
        return "share"
    return "per cent" if name in PERCENT_NAMES or "%" in cell or "pct" in name or "percent" in name else ""


def per_cent_of(units: Sequence[str], asked: float | None) -> list[float]:
    """What makes per cent of the loads of columns with these units.

    ``asked`` is what the user says: of those whose unit is unknown, or, where there are none of these, of all.
    """
    named = all(units)
    return [PER_CENT_OF[unit] if asked is None or (unit and not named) else asked for unit in units]


def _first(names: Sequence[str], wanted: Sequence[str]) -> int | None:
    return next((names.index(name) for name in wanted if name in names), None)


def guess(rows: Sequence[Sequence[str]], moment: Callable[[str], float]) -> tuple[Columns, str]:
    """Guess the columns of a table without header; with a note of what was assumed. Raises ValueError.

    The first column that reads as a date or as seconds since the epoch is the time. After it, the first cell with a
    percent sign is the load (`nvidia-smi` writes it before that of the memory); with no percent sign at all, the only
    further column of numbers is, or the second of two when the first one is a small whole number (the index). What looks like a
    UUID, a PCI address or, before the load, a small whole number tells the GPUs apart.
    """
    first = [cell.strip() for cell in rows[0]]
    time = _first_that(first, lambda cell: _is_time(cell, moment))
    if time is None:
        raise ValueError("no header, and no time in the first row (a date, or seconds since the epoch)")
    load = _guess_load(first, time)
    before_load = [cell if place not in {time, load} and place < load else "" for place, cell in enumerate(first)]
    index = _first_that(before_load, _WHOLE.fullmatch)
    uuid = _first_that(first, lambda cell: cell.startswith(("GPU-", "MIG-")))
    bus = _first_that([cell if place != time else "" for place, cell in enumerate(first)], _PCI.fullmatch)
    keys = ((index, "index"), (uuid, "uuid"), (bus, "pci.bus_id"))
    gpu, name = next(((place, name) for place, name in keys if place is not None), (None, ""))
    note = f"no header: column {time + 1} is read as the time, column {load + 1} as utilization.gpu"
    note += f", column {gpu + 1} as {name}" if gpu is not None else ""
    return Columns(len(first), time, (LoadColumn(load),), gpu, name, uuid, bus), note


def _first_that(cells: Sequence[str], fits: Callable[[str], object]) -> int | None:
    return next((place for place, cell in enumerate(cells) if fits(cell)), None)


def _guess_load(cells: Sequence[str], time: int) -> int:
    """The position of the load in a row, behind that of the time. Raises ValueError where that is unclear."""
    later = range(time + 1, len(cells))
    with_sign = next((place for place in later if cells[place].endswith("%")), None)
    if with_sign is not None:
        return with_sign
    numbers = [place for place in later if _SHARE.fullmatch(cells[place])]
    if len(numbers) == 1 or (len(numbers) == 2 and _WHOLE.fullmatch(cells[numbers[0]])):
        return numbers[-1]
    raise ValueError(
        "no header and no percent sign, so it is unclear which number is the load; name the columns, e.g. "
        "--columns timestamp,index,utilization.gpu (`-` skips a column)"
    )


def _is_time(cell: str, moment: Callable[[str], float]) -> bool:
    try:
        moment(cell)
    except ValueError:
        return False
    return True
