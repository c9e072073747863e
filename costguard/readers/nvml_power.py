"""What a GPU draws, from its energy counter, and whether that says that it works."""

from costguard.readers.nvml_codes import DROPPED, SUCCESS, NvmlError
from costguard.readers.nvml_library import Nvml

TYPE_CHECKING = False  # importing typing would cost this process memory for good
if TYPE_CHECKING:
    from costguard.readers.nvml_library import Handle

MARGIN_MW = 10_000
"""Milliwatts above the idle baseline that are noise, on a small board."""

MARGIN_SHARE = 0.03
"""The same as a share of the power limit, for large boards."""

REST_SHARE = 0.2
"""Of the power limit: what a GPU without processes draws at most, while its own idle power was never seen."""

_MARGIN_SECONDS = 60.0  # the energy that may be hidden: the margin for so long, a second or two of full load
_SHORTEST = 0.5  # seconds: the counter moves in steps of up to 0.1 s, so a shorter mean is noise
_ABSURD_MW = 20_000_000  # more than any board draws
_LISTS = ("Compute", "MPSCompute")  # of processes


class Power:
    """What one look at the counter gave: a sign of work or "", seconds proven quiet, words."""

    __slots__ = ("covers", "evidence", "sign")

    def __init__(self, sign: str = "", covers: float = 0.0, evidence: str = "") -> None:
        self.sign = sign
        self.covers = covers
        self.evidence = evidence


class PowerMeter:
    """Mean power between reads, against the lowest mean seen at zero load in the same state.

    The states are: with compute contexts, without, unknown; a context alone raises power by tens of
    watts. A mean lowers a baseline only when its interval lay entirely within one state.
    """

    def __init__(self, nvml: Nvml, handle: "Handle", old_counter: tuple[float, int] | None) -> None:
        self._nvml = nvml
        self._handle = handle
        self._before_restart = old_counter
        self._energy = True  # whether the driver gives it
        self._momentary = True
        self._kinds: tuple[str, ...] = _LISTS
        self._state_since = 0.0
        self._looked = -1.0
        self._lowest: dict[bool | None, float] = {}
        self.margin = float(MARGIN_MW)
        """Milliwatts that are noise on this board."""
        self._limit = 0
        self._last = Power()
        self.mean: float | None = None
        """Milliwatts between the last two reads of the counter; None without one."""
        self.anchor: tuple[float, int] | None = None
        """The last reading of the counter: seconds since boot, millijoules."""
        self.contexts: int | None = None
        """Compute contexts at the last look, those behind an MPS server included; None: unknown."""
        self.nobody = False
        """Whether both lists, compute and MPS, were there and empty."""
        self.at_rest = False
        """Whether the last mean (not: a moment) was that of a GPU without processes: at its baseline, or low."""
        code, limit = nvml.power_limit(handle)
        if code == SUCCESS and 0 < limit < _ABSURD_MW:
            self.margin = max(self.margin, MARGIN_SHARE * limit)
            self._limit = limit

    def holders(self) -> str:
        """How many compute contexts were seen at the last look, in words."""
        if self.contexts is None:
            return ""
        return f"{self.contexts} compute process{'' if self.contexts == 1 else 'es'}"

    def near_idle(self, mean: float, share: float) -> bool:
        """Whether a mean is at most a share of the limit above the lowest one with processes, which is known."""
        lowest = self._lowest.get(True)
        return lowest is not None and mean <= lowest + max(self.margin, share * self._limit)

    def ask_again(self) -> None:
        """Perhaps the driver gives by now what it did not."""
        self._energy = self._momentary = True
        self._kinds = _LISTS

    def look(self, now: float) -> None:
        """Count the contexts."""
        self._looked = now
        state = self._state()
        total: int | None = None
        answers = 0
        for kind in self._kinds:
            code, number = self._nvml.processes(kind, self._handle)
            if code in DROPPED:
                self._kinds = tuple(one for one in self._kinds if one != kind) if kind != "Compute" else ()
            if code == SUCCESS:
                total = (total or 0) + number
                answers += 1
            elif kind == "Compute":
                break  # without the main list, the other one tells nothing
        self.contexts = total
        self.nobody = total == 0 and answers == 2
        if state is not self._state() or not self._state_since:
            self._state_since = now

    def read(self, now: float, *, quiet: bool, ring: bool) -> Power:
        """Look at the counter. ``quiet``: the load was zero since the last read; ``ring``: samples prove it.

        Raises NvmlError when the driver fails, rather than lacks, the call.
        """
        if not self._energy:
            return self._by_moment(now, quiet)
        code, energy = self._nvml.energy(self._handle)
        if code in DROPPED:
            self._energy = False
            return self._by_moment(now, quiet)
        if code != SUCCESS:
            raise NvmlError(code, "GetTotalEnergyConsumption")
        if self.anchor is None:
            self.anchor = (now, energy)
            self._last = self._bridge(now, energy) if quiet and ring else Power()
            return self._last
        since, before = self.anchor
        if now - since < _SHORTEST:
            return self._last
        self.anchor = (now, energy)
        mean = (energy - before) / (now - since)
        self.at_rest, self.mean = False, None
        if not 0 <= mean <= _ABSURD_MW:  # the driver was loaded again, or garbage: no statement
            self._last = Power()
            return self._last
        self.mean = mean
        self._last = self._judge(mean, since, now, quiet=quiet)
        return self._last

    def _by_moment(self, now: float, quiet: bool) -> Power:
        """Without a counter: the power of this moment, which covers nothing."""
        self.at_rest, self.mean = False, None
        if not self._momentary:
            return Power()
        code, power = self._nvml.power(self._handle)
        if code in DROPPED or (code == SUCCESS and power > _ABSURD_MW):
            self._momentary = False
            return Power()
        if code != SUCCESS:
            raise NvmlError(code, "GetPowerUsage")
        return self._judge(power, now, now, quiet=quiet)

    def _judge(self, mean: float, since: float, now: float, *, quiet: bool) -> Power:
        evidence = f"mean {mean / 1000:.0f} W"
        bare = self._lowest.get(False)
        low = bare + self.margin if bare is not None else REST_SHARE * self._limit
        self.at_rest = since < now and self.contexts == 0 and 0 < mean <= low
        lowest = self._lowest.get(self._state())
        surprising = lowest is None or mean < lowest or mean > lowest + self.margin
        if surprising and self._looked != now:
            self.look(now)
            lowest = self._lowest.get(self._state())
        if lowest is not None and mean > lowest + self.margin:
            return Power(f"power {(mean - lowest) / 1000:.0f} W above idle", 0.0, evidence)
        if quiet and since >= self._state_since and (lowest is None or mean < lowest):
            self._lowest[self._state()] = mean
        proven = lowest is not None and self._hides_nothing(mean - lowest, now - since)
        return Power("", now - since if proven else 0.0, evidence)

    def _hides_nothing(self, excess: float, seconds: float) -> bool:
        """A mean proves a short time quiet; over a long one the same mean could hide minutes of work."""
        return excess * seconds <= self.margin * _MARGIN_SECONDS

    def _bridge(self, now: float, energy: int) -> Power:
        """After a restart: did the gap use more than this GPU, quiet by its whole ring of samples, draws now?"""
        if self._before_restart is None:
            return Power()
        since, before = self._before_restart
        if now - since < _SHORTEST or energy < before:
            return Power()
        code, idle = self._nvml.power(self._handle)
        mean = (energy - before) / (now - since)
        idle = min(idle, _ABSURD_MW)
        if code == SUCCESS and mean <= idle + self.margin and self._hides_nothing(mean - idle, now - since):
            return Power("", now - since, f"mean {mean / 1000:.0f} W since before the restart")
        return Power()

    def _state(self) -> bool | None:
        return None if self.contexts is None else self.contexts > 0
