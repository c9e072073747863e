"""One GPU: from NVML's answers to a reading with evidence, or unknown with a reason."""

from operator import sub

from costguard.readers.nvml_library import (
    ENGINES,
    FUNCTION_NOT_FOUND,
    NO_PERMISSION,
    NOT_FOUND,
    NOT_SUPPORTED,
    SUCCESS,
    Nvml,
    NvmlError,
)
from costguard.readers.nvml_power import PowerMeter

TYPE_CHECKING = False  # importing typing would cost this process memory for good
if TYPE_CHECKING:
    from collections.abc import Callable

    from costguard.readers.nvml_library import Handle

RING_SECONDS = 16.0
"""How far back the driver's ring of samples surely reaches."""

_HOLE = 1_500_000  # microseconds between two samples of an unbroken ring; the slowest product samples each second
_BUSY = 95  # percent of GPU use from which the other engines need not be asked
_LOOK_EVERY = 60.0  # seconds between looks at memory and processes, which cost the driver more
_LOST_CAPABILITY = (NOT_SUPPORTED, FUNCTION_NOT_FOUND)
_DROPPED = (NOT_SUPPORTED, FUNCTION_NOT_FOUND, NO_PERMISSION)

Reading = tuple[float, list[str], float, str]
"""Load 0 to 1, signs of work, seconds covered, evidence."""


class UnreadableError(Exception):
    """The answers make no sense, or no activity signal is left; the words say which."""


class Gpu:
    """A GPU that the driver opened for us. Raises UnreadableError or NvmlError when it is corrupt."""

    def __init__(self, nvml: Nvml, handle: "Handle", old_counter: tuple[float, int] | None = None) -> None:
        self._nvml = nvml
        self._handle = handle
        self._unsupported: set[str] = set()
        self._since = 0  # newest sample of the ring that was seen
        self._ring_read = 0.0  # when
        self._look_due = 0.0
        self._memory = ""
        self.meter = PowerMeter(nvml, handle, old_counter)
        self.index = self._value("GetIndex", nvml.index(handle))
        self.name = _text("name", nvml.name, handle)
        self.uuid = _text("UUID", nvml.uuid, handle)

    def read(self, now: float) -> Reading:
        """One reading at ``now`` (seconds since boot, suspended time included).

        Raises NvmlError or UnreadableError: the reading is unknown, and the next one reads the same
        samples again, so that nothing that they show is lost.
        """
        place = self._since, self._ring_read
        try:
            return self._read(now)
        except Exception:
            self._since, self._ring_read = place
            raise

    def _read(self, now: float) -> Reading:
        percent, ring_covers, evidence = self._gpu_use(now)
        if percent < _BUSY:
            engine, name = self._engine_use()
            if engine > percent:
                percent, evidence = engine, f"{name} {engine} %"
        if now >= self._look_due:
            self._look(now)
        power = self.meter.read(now, quiet=percent == 0, ring=ring_covers > 0)
        signs = [power.sign] if power.sign else []
        covers = max(ring_covers, power.covers)
        notes = [evidence, power.evidence, self.meter.holders(), self._memory]
        return percent / 100, signs, covers, ", ".join(filter(None, notes))

    def _gpu_use(self, now: float) -> tuple[float, float, str]:
        """Highest GPU use since the last read, seconds that it covers without a hole, evidence."""
        if "samples" in self._unsupported:
            return self._momentary(0.0)
        code, stamps, values = self._nvml.samples(self._handle, self._since)
        if code in _DROPPED:
            self._unsupported.add("samples")
            return self._momentary(0.0)
        if code not in (SUCCESS, NOT_FOUND):
            raise NvmlError(code, "GetSamples")
        if stamps and stamps[0] <= self._since:  # a driver that ignores the time we gave
            fresh = next((i for i, stamp in enumerate(stamps) if stamp > self._since), len(stamps))
            stamps, values = stamps[fresh:], values[fresh:]
        before, self._ring_read = self._ring_read, now
        if not stamps:  # the ring ran dry: nothing ran, if the driver can still say so
            return self._momentary(min(now - before, RING_SECONDS) if before else 0.0)
        peak = max(values)
        if not (min(values) >= 0 and peak <= 100 and sum(values) >= 0):  # the sum finds "not a number"
            raise UnreadableError(f"corrupt answer: GPU use of {peak} % in the samples")
        covers = self._unbroken(stamps, now - before if before else 0.0)
        self._since = stamps[-1]
        return peak, covers, f"GPU peak {peak:g} % in {len(values)} samples"

    def _unbroken(self, stamps: list[int], gap: float) -> float:
        """Seconds back to the last hole; the whole ``gap`` since the last read when there is none."""
        start = stamps[0]
        if max(map(sub, stamps[1:], stamps), default=0) > _HOLE:
            start = next(new for new, old in zip(stamps[:0:-1], stamps[-2::-1], strict=True) if new - old > _HOLE)
            return (stamps[-1] - start) / 1e6
        if self._since and start - self._since <= _HOLE:
            return gap
        return min((stamps[-1] - start) / 1e6, gap or RING_SECONDS)

    def _momentary(self, covers: float) -> tuple[float, float, str]:
        code, percent = self._nvml.rates(self._handle)
        if code in _LOST_CAPABILITY:
            self._unsupported.discard("samples")  # ask both again: unknown now, but perhaps not for ever
            divided = self._nvml.mig(self._handle) == (SUCCESS, 1)
            why = "the GPU is divided (MIG) and the driver" if divided else "the driver"
            raise UnreadableError(f"{why} gives no GPU use (NVML {code}, GetUtilizationRates)")
        percent = self._value("GetUtilizationRates", (code, percent))
        return _percent("GPU use", percent), covers, f"GPU {percent} % now"

    def _engine_use(self) -> tuple[int, str]:
        """The busiest of the engines that GPU use does not count, and its name."""
        best, name = 0, ""
        for number, engine in enumerate(ENGINES):
            if engine in self._unsupported:
                continue
            code, percent = self._nvml.engine(number, self._handle)
            if code in _LOST_CAPABILITY:
                self._unsupported.add(engine)
                continue
            if _percent(engine, self._value(engine, (code, percent))) > best:
                best, name = percent, engine
        return best, name

    def _look(self, now: float) -> None:
        """Processes and memory: words for people, and which power baseline applies."""
        self._look_due = now + _LOOK_EVERY
        self.meter.look(now)
        code, used = self._nvml.memory_used(self._handle)
        self._memory = f"{used >> 20} MiB in use" if code == SUCCESS else ""

    @staticmethod
    def _value(function: str, answer: tuple[int, int]) -> int:
        code, value = answer
        if code != SUCCESS:
            raise NvmlError(code, function)
        return value


def _percent(what: str, value: int) -> int:
    if value > 100:
        raise UnreadableError(f"corrupt answer: {what} of {value} %")
    return value


def _text(what: str, ask: "Callable[[Handle], tuple[int, str]]", handle: "Handle") -> str:
    """A name that is not text betrays a driver whose other answers are garbage too; one that is missing does not."""
    try:
        code, text = ask(handle)
    except UnicodeDecodeError as error:
        code, text = SUCCESS, error.object[:16].hex() + "\0"
    if code != SUCCESS:
        return ""
    if not text.isprintable():
        raise UnreadableError(f"corrupt answer: the GPU's {what} is not text ({text.rstrip(chr(0))[:40]!a})")
    return text
