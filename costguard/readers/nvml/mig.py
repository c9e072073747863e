"""A GPU that is divided (MIG): the driver gives no use of the whole, but where it has GPM, that of each instance."""

from costguard.readers.nvml.codes import DROPPED, SUCCESS, NvmlError
from costguard.readers.nvml.gpm import Gpm
from costguard.readers.nvml.library import Handle, Nvml

_LOOK_EVERY_SECONDS = 60.0  # seconds between looks at which instances there are

AT_ONCE = 3
"""Instances that are asked in one read, two calls each: in turn, each for all the time since it was asked last."""

_HOLE_SECONDS = 20.0  # seconds between two reads, from which on what lies between them must be covered


class Divided:
    """The instances of one GPU.

    ``share``: of the time between two looks at which there are, after which the second one is due.
    """

    def __init__(self, nvml: Nvml, handle: Handle, share: float = 1.0) -> None:
        self._nvml = nvml
        self._handle = handle
        self._share = share
        self._parts: dict[int, Gpm] = {}
        self._asked: dict[int, float] = {}  # when each was
        self._last = 0.0  # when any was
        self._look_due = 0.0
        self.signs: list[str] = []

    def close(self) -> None:
        """Give the buffers back."""
        for part in self._parts.values():
            part.close()
        self._parts.clear()

    def read(self, now: float, *, whole: bool) -> tuple[float, float, str] | str:
        """Percent of the busiest instance, seconds covered, evidence; or words that say why it is not known.

        ``whole``: no instance may wait for its turn. Raises NvmlError when the driver fails.
        """
        if now >= self._look_due:
            self._look(now)
        self.signs = []
        if not self._parts:
            return "the GPU is divided (MIG) and no instance is visible"
        for number in self._turn(now, whole=whole):
            self._parts[number].read(now)
            self._asked[number] = now
        return self._found(whole=min(self._asked.values()) == now)

    def _turn(self, now: float, *, whole: bool) -> list[int]:
        """Whose turn it is: everybody's while one is not known or after a hole, else that of those who waited longest."""
        hole, self._last = now - self._last > _HOLE_SECONDS, now
        if whole or hole or None in [part.use for part in self._parts.values()]:
            return list(self._parts)
        return sorted(self._parts, key=lambda number: self._asked.get(number, 0.0))[:AT_ONCE]

    def _found(self, *, whole: bool) -> tuple[float, float, str] | str:
        peak, covers, waiting = 0.0, 1e9 if whole else 0.0, ""
        for number, part in self._parts.items():
            if not part.available:
                self._look_due = 0.0
                waiting = f"{part.note or 'the driver has no activity counters (GPM)'}"
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
        self._look_due = now + _LOOK_EVERY_SECONDS * (1.0 if self._look_due else self._share)
        code, numbers = self._nvml.instances(self._handle)
        if code in DROPPED:
            numbers = []
        elif code != SUCCESS:
            raise NvmlError(code, "GetMigDeviceHandleByIndex")
        for number in [number for number in self._parts if number not in numbers or not self._parts[number].available]:
            self._parts.pop(number).close()
            self._asked.pop(number, None)
        for number in numbers:
            if number not in self._parts:
                self._parts[number] = Gpm(self._nvml, self._handle, number)
