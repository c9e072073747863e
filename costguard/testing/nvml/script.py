"""Write the file that tells the stand-in library what its GPUs are and do."""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypedDict, Unpack

NA: Final = "na"
"""A value that the driver does not give: the call answers NOT_SUPPORTED."""

Number = float | Literal["na"]
_NEARLY_WRAPPED = 2.0**32 - 1000
_REMEMBERED = 80.0  # seconds of past utilisation: more than the ring ever holds


class Process(NamedTuple):
    """A process with a context; the four numbers are its own utilisation in percent."""

    pid: int
    memory_mib: Number = 512.0
    kind: Literal["compute", "graphics", "mps"] = "compute"
    sm: int = 0
    mem: int = 0
    enc: int = 0
    dec: int = 0


class Values(TypedDict, total=False):
    """What can be set for a GPU. Percent, watts, MiB, millijoules; codes are NVML return codes."""

    util: Number
    memory_util: Number
    encoder: Number
    decoder: Number
    jpeg: Number
    ofa: Number
    memory_used: Number
    memory_total: Number
    power: Number
    limit: Number  # that is enforced
    default_limit: Number  # of the board itself
    energy: Number
    temperature: Number
    clock: Number
    persistence: Number
    mig: Number
    ring: int  # samples that the ring holds (1/6 s each)
    ring_dry: bool  # answer NOT_FOUND while every sample is zero
    ring_type: int  # NVML value type of the samples: 0 double, 1 unsigned int
    lost: bool
    handle: int  # code that opening the GPU answers
    gpm: bool
    name: str
    name_hex: str  # raw bytes, for names that are not text
    uuid: str
    uuid_hex: str
    pci: str
    processes: Sequence[Process]
    gpm_metrics: dict[int, float]
    instances: dict[int, dict[int, float]]  # MIG GPU instances by number, each with its GPM metrics
    counters: dict[int, float]  # NVML field: growth per second (bytes; KiB for NVLink)


class _Gpu:
    def __init__(self, at: float) -> None:
        self.values: dict[str, object] = {"power": 70.0}
        self.history: list[tuple[float, Number]] = [(0.0, 0.0)]
        self.energy = 0.0
        self.energy_at = at
        self.counters: dict[int, tuple[float, float, float]] = {}  # value, when, growth per second

    def rebase(self, at: float) -> None:
        """Forget the past by another clock."""
        self.history = [(0.0, self.history[-1][1])]
        self.energy_at = at
        self.counters = {field: (value, at, rate) for field, (value, _, rate) in self.counters.items()}


class Script:
    """The state of all GPUs. Each method writes the file at once, by atomic replacement.

    Utilisation keeps its past (for the sample ring) and energy goes on growing by the power that was
    set, in real time (unless `stand` is used) and the same for every process that looks.

    ``machine``: gives the seconds since boot as the programs that load the library see them.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        gpus: int = 1,
        *,
        machine: Callable[[], float] | None = None,
        **values: Unpack[Values],
    ) -> None:
        self.path = Path(path)
        self._machine = boottime if machine is None else machine
        self._gpus = [_Gpu(self._machine()) for _ in range(gpus)]
        self._system: dict[str, object] = {}
        self._time: float | None = None  # where its clock stands
        self._faults: list[str] = []
        self.set(**values)

    def set(self, gpu: int | None = None, **values: Unpack[Values]) -> None:
        """Change values of one GPU, or of all."""
        for one in self._gpus if gpu is None else [self._gpus[gpu]]:
            _change(one, dict(values), self.now())
        self.write()

    def add(self, **values: Unpack[Values]) -> None:
        """One GPU more, the last of the list."""
        self._gpus.append(_Gpu(self.now()))
        self.set(len(self._gpus) - 1, **values)

    def system(self, **values: str | int) -> None:
        """Change ``driver``, ``nvml`` (version texts), ``cuda`` (number) or ``count`` (of GPUs, as told)."""
        self._system.update(values)
        self.write()

    def stand(self, at: float) -> None:
        """Let the clock of the script stand at so many seconds since boot, until the next call; else it is the machine's."""
        if self._time is None:  # what was set until now has always been so
            for gpu in self._gpus:
                gpu.rebase(at)
        self._time = self._system["time"] = at
        self.write()

    def now(self) -> float:
        """The clock of the script, in seconds since boot."""
        return self._machine() if self._time is None else self._time

    def burst(self, gpu: int, percent: float, *, ago: float, seconds: float) -> None:
        """Put a past burst of utilisation into the ring: it began ``ago`` seconds before now."""
        history = self._gpus[gpu].history
        start = self.now() - ago
        history += [(start, percent), (start + seconds, history[-1][1])]
        self.write()

    def fail(self, function: str, code: int, *, gpu: int | None = None) -> None:
        """Let a function (``*``: all; named without version suffix) return this NVML code."""
        self._fault("code", function, str(code), gpu)

    def delay(self, function: str, seconds: float, *, gpu: int | None = None) -> None:
        """Let a function take its time."""
        self._fault("latency", function, str(seconds), gpu)

    def cost(self, function: str, seconds: float, *, gpu: int | None = None) -> None:
        """Let a function keep the processor busy for so long."""
        self._fault("cost", function, str(seconds), gpu)

    def hang(
        self, function: str, seconds: float | None = None, *, gpu: int | None = None, uninterruptible: bool = False
    ) -> None:
        """Let a function hang, for ever or for some seconds; ``uninterruptible``: in state D (SIGKILL still works)."""
        if uninterruptible:
            self._fault("hang", function, f"uninterruptible {seconds or ''}", gpu)
        else:
            self._fault("hang", function, "forever" if seconds is None else str(seconds), gpu)

    def heal(self) -> None:
        """Take back every failure, delay, cost and hang."""
        self._faults.clear()
        self.write()

    def environment(self, library: str | os.PathLike[str], log: str | os.PathLike[str] | None = None) -> dict[str, str]:
        """What to add to the environment of a program so that it finds the library and this script."""
        folders = [str(Path(library).parent), os.environ.get("LD_LIBRARY_PATH", "")]
        found = {"LD_LIBRARY_PATH": ":".join(filter(None, folders)), "COSTGUARD_STANDIN_NVML": str(self.path)}
        return found | ({"COSTGUARD_STANDIN_NVML_LOG": str(log)} if log else {})

    def write(self) -> None:
        """Replace the file. Only needed after it was removed."""
        partial = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        partial.write_text(self.text())
        partial.replace(self.path)

    def text(self) -> str:
        """The content of the file."""
        lines = [f"{key} {value}" for key, value in self._system.items()]
        lines.append(f"gpus {len(self._gpus)}")
        for index, gpu in enumerate(self._gpus):
            lines += [f"gpu {index} {line}" for line in _gpu_lines(gpu, self.now())]
        return "\n".join([*lines, *self._faults, ""])

    def _fault(self, kind: str, function: str, value: str, gpu: int | None) -> None:
        self._faults.append(f"{'' if gpu is None else f'gpu {gpu} '}{kind} {function} {value}")
        self.write()


def _change(gpu: _Gpu, values: dict[str, object], at: float) -> None:
    if "util" in values:
        util = values.pop("util")
        assert util == NA or isinstance(util, int | float)
        gpu.history = [*gpu.history[-60:], (at, util)]
    power = gpu.values["power"]
    if isinstance(power, int | float):
        gpu.energy += (at - gpu.energy_at) * power * 1000
    gpu.energy_at = at
    energy = values.pop("energy", None)
    if energy == NA:
        gpu.values["energy"] = NA
    elif isinstance(energy, int | float):
        gpu.energy = energy
        gpu.values.pop("energy", None)
    rates = values.pop("counters", None)
    if isinstance(rates, dict):
        old = {field: value + (at - since) * rate for field, (value, since, rate) in gpu.counters.items()}
        gpu.counters = {field: (old.get(field, _NEARLY_WRAPPED), at, rate) for field, rate in rates.items()}
    gpu.values.update(values)


def _gpu_lines(gpu: _Gpu, at: float) -> list[str]:
    old = at - _REMEMBERED
    past = [index for index, (since, _) in enumerate(gpu.history) if since <= old]
    gpu.history = gpu.history[past[-1] if past else 0 :]
    first, *later = gpu.history
    lines = [f"util {first[1]}", *(f"util {value} {since:.6f}" for since, value in later)]
    if "energy" not in gpu.values:
        lines.append(f"energy {gpu.energy:.0f} {gpu.energy_at:.6f}")
    for field, (count, since, rate) in gpu.counters.items():
        lines.append(f"counter {field} {count:.0f} {since:.6f} {rate}")
    for key, value in gpu.values.items():
        if key == "processes":
            assert isinstance(value, Sequence)
            lines += ["process " + " ".join(map(str, process)) for process in value]
        elif key == "gpm_metrics":
            assert isinstance(value, dict)
            lines += [f"gpm_metric {metric} {number}" for metric, number in value.items()]
        elif key == "instances":
            assert isinstance(value, dict)
            for instance, metrics in value.items():
                lines.append(f"instance {instance}")
                lines += [f"instance {instance} {metric} {number}" for metric, number in metrics.items()]
        else:
            lines.append(f"{key} {int(value) if isinstance(value, bool) else value}")
    return lines


def boottime() -> float:
    """Seconds since boot, suspended time included: the stand-in's clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def write_sysfs(root: str | os.PathLike[str], devices: Sequence[str], *, driver: str | None = "nvidia") -> Path:
    """Make or extend a tree like /sys with NVIDIA display devices at these PCI addresses; return its root."""
    pci = Path(root) / "bus" / "pci"
    (pci / "devices").mkdir(parents=True, exist_ok=True)
    for address in devices:
        device = pci / "devices" / address
        device.mkdir()
        (device / "vendor").write_text("0x10de\n")
        (device / "class").write_text("0x030200\n")
        if driver:
            (pci / "drivers" / driver).mkdir(parents=True, exist_ok=True)
            (device / "driver").symlink_to(Path("../../drivers") / driver)
            (pci / "drivers" / driver / address).symlink_to(Path("../../devices") / address)
    return Path(root)
