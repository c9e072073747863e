"""A GPU that is divided (MIG): the driver gives no use of the whole, but where it has GPM, that of each instance."""

from costguard.readers.nvml_codes import DROPPED, SUCCESS, NvmlError
from costguard.readers.nvml_gpm import Gpm
from costguard.readers.nvml_library import Nvml

TYPE_CHECKING = False  # importing typing would cost this process memory for good
if TYPE_CHECKING:
    from costguard.readers.nvml_library import Handle

_LOOK_EVERY = 60.0  # seconds between looks at which instances there are


class Divided:
    """The instances of one GPU. Two calls for each of them and tick."""

    def __init__(self, nvml: Nvml, handle: "Handle") -> None:
        self._nvml = nvml
        self._handle = handle
        self._parts: dict[int, Gpm] = {}
        self._look_due = 0.0
        self.signs: list[str] = []

    def close(self) -> None:
        """Give the buffers back."""
        for part in self._parts.values():
            part.close()
        self._parts.clear()

    def read(self, now: float) -> "tuple[float, float, str] | str":
        """Percent of the busiest instance, seconds covered, evidence; or words that say why it is not known.

        Raises NvmlError when the driver fails.
        """
        if now >= self._look_due:
            self._look(now)
        self.signs = []
        if not self._parts:
            return "the GPU is divided (MIG) and no instance can be seen"
        peak, covers, waiting = 0.0, 1e9, ""
        for number, part in self._parts.items():
            part.read(now)
            if not part.available:
                self._look_due = 0.0
                waiting = f"{part.note or 'the driver gives no activity counters (GPM)'}"
            elif part.use is None:
                waiting = waiting or f"instance {number} is being measured"
            else:
                peak, covers = max(peak, part.use), min(covers, part.covers)
            self.signs += [f"instance {number}: {sign}" for sign in part.signs]
        if waiting:
            return f"the GPU is divided (MIG): {waiting}"
        count = len(self._parts)
        return peak, covers, f"busiest of {count} MIG instance{'' if count == 1 else 's'} {peak:.0f} %"

    def _look(self, now: float) -> None:
        self._look_due = now + _LOOK_EVERY
        code, numbers = self._nvml.instances(self._handle)
        if code in DROPPED:
            numbers = []
        elif code != SUCCESS:
            raise NvmlError(code, "GetMigDeviceHandleByIndex")
        for number in [number for number in self._parts if number not in numbers or not self._parts[number].available]:
            self._parts.pop(number).close()
        for number in numbers:
            if number not in self._parts:
                self._parts[number] = Gpm(self._nvml, self._handle, number)
