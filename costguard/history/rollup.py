"""One-minute roll-ups in memory. Part of the guard: no file, no clock, next to no cost per tick."""

from costguard.engine.observation import Known, Observation
from costguard.engine.state import State
from costguard.engine.window import Track
from costguard.history.job import GpuMinute, MachineMinute

MINUTE = 60


class Rollup:
    """Counts every tick, and yields whole minutes."""

    def __init__(self) -> None:
        self._minute = 0
        self._gpus: dict[str, list[float]] = {}  # known, unknown, low, sum of load by seconds, high
        self._machine = [0.0, 0.0, 0.0]
        self._seen = Observation((), ())
        self._tracks: tuple[Track, ...] = ()
        self._held = 0.0  # seconds of the last tick that are not counted yet
        self.gpus: list[GpuMinute] = []
        self.machine: list[MachineMinute] = []

    def tick(self, wall: float, seconds: float, state: State, seen: Observation) -> None:
        """Count the ``seconds`` before the date ``wall`` as what the tick showed."""
        minute = int(wall) // MINUTE * MINUTE
        if minute != self._minute:
            self.close()
            self._minute = minute
        if seen.readings is self._seen.readings and state.tracks is self._tracks:  # most ticks of an idle machine
            self._held += seconds
            return
        self._count()
        self._seen, self._tracks, self._held = seen, state.tracks, seconds

    def _count(self) -> None:
        seconds, self._held = self._held, 0.0
        if not seconds:
            return
        for key, reading in zip(self._seen.gpus, self._seen.readings, strict=True):
            counted = self._gpus.get(key)
            if counted is None:
                counted = self._gpus[key] = [0.0, 0.0, 1.0, 0.0, 0.0]
            if isinstance(reading, Known):
                load = reading.load
                counted[0] += seconds
                counted[3] += load * seconds
                counted[2] = min(counted[2], load)
                counted[4] = max(counted[4], load)
            else:
                counted[1] += seconds
        loud = blind = False
        for track in self._tracks:
            loud = loud or (track.busy and track.unknown_since is None)
            blind = blind or track.unknown_since is not None
        self._machine[0 if loud else 2 if blind or not self._tracks else 1] += seconds

    def redate(self, seconds: float) -> None:
        """The clock was set by ``seconds``: move the waiting rows, which the wrong clock dated."""
        later = round(seconds / MINUTE) * MINUTE
        self._minute += later
        self.gpus = [row._replace(minute=row.minute + later) for row in self.gpus]
        self.machine = [row._replace(minute=row.minute + later) for row in self.machine]

    def close(self) -> None:
        """End the current minute and add it to the rows."""
        self._count()
        for key, (known, unknown, low, load, high) in self._gpus.items():
            read = known > 0.0
            values = (round(low, 4), round(load / known, 4), round(high, 4)) if read else (None, None, None)
            self.gpus.append(GpuMinute(self._minute, key, round(known, 1), round(unknown, 1), *values))
        if any(self._machine):
            works, quiet, unknown = (round(seconds, 1) for seconds in self._machine)
            self.machine.append(MachineMinute(self._minute, works, quiet, unknown))
        self._gpus = {}
        self._machine = [0.0, 0.0, 0.0]
