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
PERCENT_NAMES = ("dcgm_fi_dev_gpu_util", "utilization.gpu")
"""Columns with loads in per cent, as their exporters document them."""
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
_SHARE = re.compile(r"\d+(\.\d+)?")


class Columns(NamedTuple):
    """Positions in a row; ``gpu`` and ``machine`` may be missing. ``engines`` are further loads beside the GPU's own."""

    width: int
    time: int
    load: int
    engines: tuple[int, ...] = ()
    gpu: int | None = None
    gpu_name: str = ""  # how the column of the GPU is called
    uuid: int | None = None
    bus: int | None = None
    name: int | None = None
    machine: int | None = None
    unit: str = ""  # of the load, as far as its name says: per cent | share

    @property
    def used(self) -> tuple[int, ...]:
        """Every position that is read for each row."""
        extra = tuple(i for i in (self.gpu, self.machine) if i is not None)
        return (self.time, self.load, *self.engines, *extra)


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


def from_header(cells: Sequence[str], machine: str | None) -> Columns:
    """Find the columns by their names. Raises ValueError."""
    names = [plain(cell) for cell in cells]
    time = _first(names, TIME_NAMES)
    load = _first(names, LOAD_NAMES)
    if time is None:
        raise ValueError(f"no time column; allowed: {', '.join(TIME_NAMES)}")
    if load is None:
        raise ValueError("no column with the GPU load; allowed: " + ", ".join(LOAD_NAMES))
    if machine is not None and plain(machine) not in names:
        raise ValueError(f"no column {machine!r}; allowed: {', '.join(names)}")
    gpu = _first(names, GPU_NAMES)
    return Columns(
        width=len(names),
        time=time,
        load=load,
        engines=tuple(names.index(name) for name in ENGINE_NAMES if name in names),
        gpu=gpu,
        gpu_name=names[gpu] if gpu is not None else "",
        uuid=_first(names, ("uuid", "gpu_uuid")),
        bus=_first(names, ("pci.bus_id", "gpu_bus_id")),
        name=_first(names, ("name", "gpu_name", "modelname")),
        machine=names.index(plain(machine)) if machine is not None else _first(names, MACHINE_NAMES),
        unit=unit_of(cells[load]),
    )


def renamed(cells: Sequence[str], names: str) -> list[str]:
    """A header with some names replaced by ours: ``timestamp=when,utilization.gpu=busy``. Raises ValueError."""
    own = [plain(cell) for cell in cells]
    found = list(cells)
    for pair in names.split(","):
        ours, equals, theirs = (part.strip() for part in pair.partition("="))
        if not equals or plain(theirs) not in own:
            raise ValueError(f"{pair.strip()!r} renames no column; the file has: {', '.join(own)}")
        found[own.index(plain(theirs))] = ours
    return found


def unit_of(cell: str) -> str:
    """The unit in a column's name; most have none."""
    name = plain(cell)
    if name in SHARE_NAMES:
        return "share"
    return "per cent" if name in PERCENT_NAMES or "%" in cell or "pct" in name or "percent" in name else ""


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
    time = next((i for i, cell in enumerate(first) if _is_time(cell, moment)), None)
    if time is None:
        raise ValueError("no header, and no time in the first row (a date, or seconds since the epoch)")
    later = range(time + 1, len(first))
    load = next((i for i in later if first[i].endswith("%")), None)
    if load is None:
        numbers = [i for i in later if _SHARE.fullmatch(first[i])]
        if len(numbers) == 1:
            load = numbers[0]
        elif len(numbers) == 2 and _WHOLE.fullmatch(first[numbers[0]]):
            load = numbers[1]
        else:
            raise ValueError(
                "no header and no percent sign, so it is unclear which number is the load; name the columns, e.g. "
                "--columns timestamp,index,utilization.gpu (`-` skips a column)"
            )
    uuid = next((i for i, cell in enumerate(first) if cell.startswith(("GPU-", "MIG-"))), None)
    bus = next((i for i, cell in enumerate(first) if i != time and _PCI.fullmatch(cell)), None)
    index = next(
        (i for i in range(len(first)) if i not in {time, load} and i < load and _WHOLE.fullmatch(first[i])), None
    )
    gpu = next((i for i in (index, uuid, bus) if i is not None), None)
    kinds = {index: "index", uuid: "uuid", bus: "pci.bus_id"}
    found = Columns(len(first), time, load, (), gpu, kinds[gpu] if gpu is not None else "", uuid, bus)
    note = f"no header: column {time + 1} is read as the time, column {load + 1} as utilization.gpu"
    return found, note + (f", column {gpu + 1} as {found.gpu_name}" if gpu is not None else "")


def _is_time(cell: str, moment: Callable[[str], float]) -> bool:
    try:
        moment(cell)
    except ValueError:
        return False
    return True
