"""Signs of work of a GPU without GPM: bytes moved over PCIe and NVLink, and the use that single processes make."""

from costguard.readers.nvml.codes import DROPPED, NOT_FOUND, SUCCESS, NvmlError
from costguard.readers.nvml.gpm import NVLINK_FLOOR, PCIE_FLOOR
from costguard.readers.nvml.library import Counters, Handle, Nvml

PROCESS_FLOOR = 2
"""Percent of SMs, memory, encoder or decoder that one process uses, from which that is a sign of work."""

_SHORTEST = 0.1  # seconds: below, a rate would be noise
_LINKS = (138, 139, 140, 141)  # data out, data in, raw out, raw in: KiB over all links
_RAW = {138: 140, 139: 141}  # raw counters hold the protocol too, so they only stand in for missing ones of data
_NAMES = {
    197: "PCIe out", 198: "PCIe in", 138: "NVLink out", 139: "NVLink in", 140: "NVLink out", 141: "NVLink in",
}  # fmt: skip
_ALL = tuple(_NAMES)
_MIB = {field: 1 << 10 if field in _LINKS else 1 << 20 for field in _NAMES}  # what the field counts, per MiB
_PARTS = ("of the SMs", "of the memory bandwidth", "of the encoder", "of the decoder")


class BytesMoved:
    """The byte counters of one GPU, as rates between two reads."""

    def __init__(self, nvml: Nvml, handle: Handle) -> None:
        self._nvml = nvml
        self._handle = handle
        self._numbers = _ALL
        self._fields = self._every = Counters(_ALL, _LINKS)
        self._at = 0.0
        self._last: dict[int, int] = {}
        self.available = True
        """Whether there is a counter left to ask."""
        self.known = False
        """Whether the last read gave any of them."""
        self.still = False
        """Whether all that is known of PCIe and NVLink moved nothing between the last two reads."""

    def read(self, now: float) -> list[str]:
        """What moved since the last read, as signs of work. Raises NvmlError when the driver fails."""
        if now - self._at < _SHORTEST:
            return []
        code, found = self._nvml.counters(self._handle, self._fields)
        self.known = self.still = False
        if code in DROPPED:
            self._keep(())
            return []
        if code != SUCCESS:
            raise NvmlError(code, "GetFieldValues")
        seconds, self._at = now - self._at, now
        before, self._last = self._last, {}
        signs = []
        for field, (own, value, bits) in zip(self._numbers, found, strict=True):
            if own != SUCCESS:
                continue
            self._last[field] = value
            if field in before:
                # modulo: a counter that wrapped went on, one that began anew looks like much, which errs on the safe side
                rate = (value - before[field]) % (1 << bits) / _MIB[field] / seconds
                if rate >= (NVLINK_FLOOR if field in _LINKS else PCIE_FLOOR):
                    signs.append(f"{_NAMES[field]} {rate:.0f} MiB/s")
        self.known = bool(self._last)
        self.still = not signs and not self._last.keys().isdisjoint(before)
        self._keep(tuple(self._wanted([own for own, _, _ in found])))
        return signs

    def ask_again(self) -> None:
        """Perhaps there is by now what was missing."""
        self._keep(_ALL)

    def _wanted(self, codes: list[int]) -> list[int]:
        """What is worth asking again: all but what is not there, and raw counters that are not needed."""
        kept = [field for field, code in zip(self._numbers, codes, strict=True) if code not in DROPPED]
        spare = [raw for data, raw in _RAW.items() if data in kept]
        return [field for field in kept if field not in spare]

    def _keep(self, numbers: tuple[int, ...]) -> None:
        if numbers != self._numbers:
            self._numbers = numbers
            self.available = bool(numbers)
            if numbers:
                self._fields = self._every if numbers == _ALL else Counters(numbers, _LINKS)


class ProcessUse:
    """The use that single processes make of a GPU, as the driver sampled it. Never the only sign: it fails both ways."""

    def __init__(self, nvml: Nvml, handle: Handle) -> None:
        self._nvml = nvml
        self._handle = handle
        self._since = 0
        self.available = True
        """Whether the driver gives it."""

    def ask_again(self) -> None:
        """Perhaps the driver gives by now what it did not."""
        self.available = True

    def read(self) -> list[str]:
        """The busiest process since the last read, as a sign of work. Raises NvmlError when the driver fails."""
        code, rows = self._nvml.process_use(self._handle, self._since)
        if code == NOT_FOUND:
            return []
        if code in DROPPED:
            self.available = False
            return []
        if code != SUCCESS:
            raise NvmlError(code, "GetProcessUtilization")
        best, sign, newest = PROCESS_FLOOR - 1, "", self._since
        for pid, stamp, percents in rows:
            peak = max(percents)
            if peak > 100 or stamp <= self._since:  # garbage was seen in the field; or told before
                continue
            newest = max(newest, stamp)
            if peak > best:
                best, sign = peak, f"process {pid} uses {peak} % {_PARTS[percents.index(peak)]}"
        self._since = newest
        return [sign] if sign else []
