"""What a GPU counts of its own activity (GPM, Hopper and later): means over the whole time between two reads."""

from costguard.readers.nvml.codes import DROPPED, INVALID_ARGUMENT, NO_PERMISSION, SUCCESS, NvmlError, words
from costguard.readers.nvml.library import Handle, Nvml

SM_FLOOR = 2.0
"""Percent of streaming multiprocessors that had work, from which that is a sign of work."""

UNIT_FLOOR = 1.0
"""The same for the tensor cores and for the bandwidth of the GPU's memory."""

PCIE_FLOOR = 4.0
"""MiB/s over PCIe, one direction, below which there is only talk between driver and GPU."""

NVLINK_FLOOR = 1.0
"""MiB/s over all NVLinks, one direction."""

UNSEEN_SECONDS = 0.0008
"""Of a kernel or a copy that no sample of the driver's ring would show: half a percent of a sixth of a second."""

_MOST_SMS = 256
"""More than any GPU has: a kernel of one block keeps one of them busy. An H100 has 132, its successors up to 160."""

_SM, _TENSOR, _DRAM = 2, 5, 10  # NVML_GPM_METRIC_*
# (metric, name, floor): the first three are percents, the rest MiB/s
_PARTS = (
    (_SM, "SM", SM_FLOOR), (_TENSOR, "tensor", UNIT_FLOOR), (_DRAM, "DRAM", UNIT_FLOOR),
    (20, "PCIe out", PCIE_FLOOR), (21, "PCIe in", PCIE_FLOOR),
    (60, "NVLink in", NVLINK_FLOOR), (61, "NVLink out", NVLINK_FLOOR),
)  # fmt: skip
_PERCENTS = 3
_METRICS = tuple(part[0] for part in _PARTS)
_ENGINES = (*range(30, 38), *range(40, 48), 50, 51)  # NVDEC, NVJPG and OFA of a MIG instance, percent
_SHORTEST = 0.1  # seconds between two samples, by NVIDIA's header
_FULL = 101.0  # percent, with what rounding may add
_ABSURD = 1e8  # MiB/s


class Gpm:
    """The counters of one GPU, or of one MIG ``instance`` of it."""

    def __init__(self, nvml: Nvml, handle: Handle, instance: int | None = None) -> None:
        self._nvml = nvml
        self._handle = handle
        self._instance = instance
        self._metrics = _METRICS if instance is None else _METRICS + _ENGINES
        self._old: Handle = None
        self._new: Handle = None
        self._taken = 0.0  # when the newer sample was; 0: there is none
        self._counted: list[float | None] = []  # by the read before
        self.available = False
        """Whether the GPU has these counters and lets us read them."""
        self.note = ""
        """Why not, where somebody can change that."""
        self.use: float | None = None
        """Percent of the busiest part of a MIG instance; of the SMs for a whole GPU. None: not known (yet)."""
        self.still = False
        """Whether SMs, tensor cores and memory bandwidth are all known, and none shows work."""
        self.idle = False
        """Whether nothing ran at all on a whole GPU, not even what a sample of the ring would show."""
        self.shares: list[float | None] = []
        """Percent of the SMs, the tensor cores and the memory's bandwidth in use; empty: not known (yet)."""
        self.moves = False
        """Whether anything was counted otherwise than before: a board talks a little even at rest, and counters that stand prove nothing."""
        self.calm = False
        """The same as still without the SMs, and with the links: a kernel that only spins keeps SMs busy."""
        self.signs: list[str] = []
        self.words = ""
        self.covers = 0.0
        """Seconds between the two samples."""
        self.ask_again()

    def ask_again(self) -> None:
        """Ask whether the GPU has them, unless it is known that it does."""
        if self.available:
            return
        code, supported = self._nvml.gpm_supported(self._handle)
        if code == SUCCESS and supported:
            self._begin()
        elif code == NO_PERMISSION:
            self._drop(code)

    def close(self) -> None:
        """Give the buffers back."""
        for buffer in (self._old, self._new):
            if buffer is not None:
                self._nvml.gpm_give_back(buffer)
        self._old = self._new = None
        self._taken = 0.0
        self.available = False
        self._forget()

    def read(self, now: float) -> None:
        """Take a sample, and say what happened since the last one. Raises NvmlError when the driver fails."""
        if not self.available or (self._taken and now - self._taken < _SHORTEST):
            return
        self._forget()
        code = self._nvml.gpm_sample(self._handle, self._instance, self._old)
        if code in DROPPED or (code == INVALID_ARGUMENT and self._instance is None):  # invalid: divided, perhaps
            self._drop(code)
            return
        if code != SUCCESS:
            raise NvmlError(code, "GpmSampleGet")
        self._old, self._new = self._new, self._old
        before, self._taken = self._taken, now
        if not before:
            return
        code, values = self._nvml.gpm_metrics(self._old, self._new, self._metrics)
        if code in DROPPED:
            self._drop(code)
        elif code not in (SUCCESS, INVALID_ARGUMENT):  # invalid: the two samples do not belong together
            raise NvmlError(code, "GpmMetricsGet")
        elif code == SUCCESS:
            self._judge(values, now - before)

    def _begin(self) -> None:
        for _ in range(2):
            code, buffer = self._nvml.gpm_buffer()
            if code != SUCCESS:
                self.close()
                return
            self._old, self._new = self._new, buffer
        self.available, self.note = True, ""

    def _drop(self, code: int) -> None:
        self.close()
        if code == NO_PERMISSION:
            self.note = f"activity counters (GPM) unavailable: {words(code)}"

    def _forget(self) -> None:
        self.use = None
        self.still = self.idle = self.calm = self.moves = False
        self.signs, self.shares = [], []
        self.words = ""
        self.covers = 0.0

    def _judge(self, values: list[float | None], covers: float) -> None:
        """Garbage (out of range, not a number) is no value."""
        sound = [
            value if value is not None and 0 <= value <= (_FULL if place < _PERCENTS else _ABSURD) else None
            for place, value in enumerate(values[: len(_PARTS)])
        ]
        said: list[str] = []
        for place, (value, (_, name, floor)) in enumerate(zip(sound, _PARTS, strict=True)):
            percent = place < _PERCENTS
            if value is not None and (percent or value >= floor):
                (self.signs if value >= floor else said).append(f"{name} {value:.0f} {'%' if percent else 'MiB/s'}")
        self.shares = percents = sound[:_PERCENTS]
        self.still = None not in percents and not self.signs
        self.calm = None not in percents and not [sign for sign in self.signs if not sign.startswith("SM ")]
        self.words = ", ".join(said)
        self.covers = covers
        self.moves, self._counted = sound != self._counted, sound
        if self._instance is None:
            self.idle = self.still and self.moves and self._nothing_ran(percents, covers)
        engines = [value for value in values[len(_PARTS) :] if value is not None and value <= _FULL]
        if percents[0] is not None:
            self.use = min(100.0, max(percents[0], *engines) if engines else percents[0])

    @staticmethod
    def _nothing_ran(percents: list[float | None], covers: float) -> bool:
        most = 100.0 * UNSEEN_SECONDS / covers
        sm, *others = percents
        return (
            sm is not None and sm <= most / _MOST_SMS and all(value is not None and value <= most for value in others)
        )
