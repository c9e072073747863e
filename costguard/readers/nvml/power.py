"""What a GPU draws, from its energy counter, and whether that says that it works."""

from collections.abc import Callable

from costguard.readers.nvml.codes import DROPPED, SUCCESS, NvmlError
from costguard.readers.nvml.idle_power import IdleLevels, Scene
from costguard.readers.nvml.learnt import ABSURD_MW, BARE, HELD, UNSURE, Learnt
from costguard.readers.nvml.library import Handle, Nvml

_MARGIN_SECONDS = 60.0  # the energy that may be hidden: the margin for so long, a second or two of full load
_SHORTEST = 0.5  # seconds: the counter moves in steps of up to 0.1 s, so a shorter mean is noise
_LISTS = ("Compute", "MPSCompute")  # of processes
_NOISE_MW, _NOISE_SHARE = 5000.0, 0.05  # milliwatts, and share, by which a mean may differ from the one in the words


class Power:
    """What one look at the counter gave: a sign of work or "", seconds proven quiet, words."""

    __slots__ = ("covers", "evidence", "sign", "steady")

    def __init__(self, sign: str = "", covers: float = 0.0, evidence: str = "") -> None:
        self.sign = sign
        self.covers = covers
        self.evidence = evidence
        self.steady = False
        """Whether it says what the look before said, its words included."""


class PowerMeter:
    """Mean power between reads, against the idle power in the same state.

    A mean lowers a level only when its interval lay entirely within one state.
    """

    _last: Power  # what was told, where there is an anchor

    def __init__(
        self, nvml: Nvml, handle: Handle, old_counter: tuple[float, int] | None = None, learnt: Learnt | None = None
    ) -> None:
        self._nvml = nvml
        self._handle = handle
        self._before_restart = old_counter
        self._energy = True  # whether the driver gives it
        self._momentary = True
        self._kinds: tuple[str, ...] = _LISTS
        self._state_since = 0.0
        self._looked = -1.0
        self._surprise = (False, False, False)  # how the last mean surprised: no level, below it, above it
        self._band: tuple[float, float, float] | None = None  # lowest and highest mean that say nothing new; the level
        self._quiet: tuple[float, float] | None = (
            None  # lowest and highest power that neither teach nor show anything, beside a band
        )
        self.mean: float | None = None
        """Milliwatts since the last read, or at this moment where there is no counter; None: not known."""
        self.anchor: tuple[float, int] | None = None
        """The last reading of the counter: seconds since boot, millijoules."""
        self.contexts: int | None = None
        """Compute contexts at the last look, those behind an MPS server included; None: unknown."""
        self.nobody = False
        """Whether both lists, compute and MPS, were there and empty."""
        self.waits = False
        """Whether the last power was so low that at most a context waits."""
        self.measured = False
        """Whether it was a mean, and not that of a moment."""
        self.limit = _limit(nvml, handle)
        """Milliwatts that the board may draw; 0: not known."""
        self.levels = IdleLevels(self.limit, Learnt() if learnt is None else learnt)

    def holders(self) -> str:
        """How many compute contexts were seen at the last look, in words."""
        if self.contexts is None:
            return ""
        return f"{self.contexts} compute process{'' if self.contexts == 1 else 'es'}"

    def ask_again(self) -> None:
        """Perhaps the driver gives by now what it did not."""
        self._energy = self._momentary = True
        self._kinds = _LISTS

    def look(self, now: float) -> None:
        """Count the contexts."""
        self._looked = now
        state, before = self._state(), (self.contexts, self.nobody)
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
        if before != (total, self.nobody):
            self._band = None
        if state != self._state() or not self._state_since:
            self._state_since = now

    def read(self, now: float, *, quiet: bool, ring: bool, scene: Callable[[], Scene | None] | None = None) -> Power:
        """Look at the counter. ``quiet``: the load was zero since the last read; ``ring``: samples prove it.

        ``scene``: gives memory in use and contexts while nothing but the power could show work. Raises NvmlError
        when the driver fails, rather than lacks, the call.
        """
        if not self._energy:
            return self._by_moment(now, quiet, scene)
        code, energy = self._nvml.energy(self._handle)
        if code in DROPPED:
            self._energy = False
            return self._by_moment(now, quiet, scene)
        if code != SUCCESS:
            raise NvmlError(code, "GetTotalEnergyConsumption")
        if self.anchor is None:
            self.anchor = (now, energy)
            self._last = self._bridge(now, energy, proven=quiet and ring)
            return self._last
        since, before = self.anchor
        if now - since < _SHORTEST:
            return self._last
        if quiet and self.still(now, energy):  # as most looks: nothing to judge or to learn
            return self._last
        self.anchor = (now, energy)
        mean = (energy - before) / (now - since)
        self._last, self._band = self._take(mean, since, now, quiet, scene), None
        if quiet and self.waits and not self._last.sign:
            self._band = self._calm(mean)
        return self._last

    def still(self, now: float, energy: int) -> bool:
        """Whether the counter says, and proves, after a quiet time what it did before; it is taken then, and else left."""
        if self._band is None or self.anchor is None:
            return False
        lowest, highest, level = self._band
        since, before = self.anchor
        seconds = now - since
        if seconds < _SHORTEST or not lowest <= (mean := (energy - before) / seconds) <= highest:
            return False
        if not self._hides_nothing(mean - level, seconds):
            return False
        self.anchor, self.mean, last = (now, energy), mean, self._last
        last.covers, last.steady = seconds, True
        return True

    def rests(self, now: float) -> bool:
        """The same, by asking the counter."""
        code, energy = self._nvml.energy(self._handle)
        return code == SUCCESS and self.still(now, energy)

    def still_now(self) -> bool:
        """Whether the power of this moment is that of a quiet GPU, as the last mean was; the counter, which costs the driver more, goes on.

        It wavers more than a mean: anything counts as alike that would neither be a sign nor lower the idle power.
        """
        if self._band is None or self._quiet is None or not (self._energy and self._momentary):
            return False
        lowest, highest = self._quiet
        code, power = self._nvml.power(self._handle)
        return code == SUCCESS and lowest <= power <= highest

    def goes_on(self, now: float, mean: float | None, share: float) -> bool:
        """Whether a GPU at work draws what it did, but for a share; the counter is taken then, and else left."""
        if mean is None or self.anchor is None or not self._energy:
            return False
        since, before = self.anchor
        code, energy = self._nvml.energy(self._handle)
        if code != SUCCESS or now - since < _SHORTEST:
            return False
        found = (energy - before) / (now - since)
        if not abs(found - mean) <= share * mean:
            return False
        self.anchor, self.mean, self._band = (now, energy), found, None
        return True

    def _calm(self, mean: float) -> tuple[float, float, float] | None:
        """Around the mean that was just told."""
        limits, noise = self.levels.calm(self._state()), max(_NOISE_MW, _NOISE_SHARE * mean)
        if limits is None:
            return None
        low, high, level = limits
        self._quiet = low, high
        return max(low, mean - noise), min(high, mean + noise), level

    def _by_moment(self, now: float, quiet: bool, scene: Callable[[], Scene | None] | None) -> Power:
        """Without a counter: the power of this moment, which covers nothing."""
        self.waits, self.measured, self.mean, self._band = False, False, None, None
        if not self._momentary:
            return Power()
        code, power = self._nvml.power(self._handle)
        if code in DROPPED or (code == SUCCESS and power > ABSURD_MW):
            self._momentary = False
            return Power()
        if code != SUCCESS:
            raise NvmlError(code, "GetPowerUsage")
        return self._take(power, now, now, quiet, scene)

    def _take(
        self, mean: float, since: float, now: float, quiet: bool, scene: Callable[[], Scene | None] | None
    ) -> Power:
        """A power as evidence; one that no board draws (the driver was loaded again, a counter stands) says nothing."""
        self.mean, self.measured, self.waits = None, since < now, False
        if not 0 < mean <= ABSURD_MW:
            self.levels.forget()
            return Power()
        self.mean = mean
        found = self._judge(mean, since, now, quiet, scene)
        self.waits = self.levels.waits(mean)
        return found

    def _judge(
        self, mean: float, since: float, now: float, quiet: bool, give: Callable[[], Scene | None] | None
    ) -> Power:
        evidence, levels = f"mean {mean / 1000:.0f} W", self.levels
        surprise = self._surprises(mean)
        # at work the same surprise is none: what the rare looks find is enough to name it
        if True in surprise and self._looked != now and (quiet or surprise != self._surprise):
            self.look(now)
            surprise = self._surprises(mean)
        self._surprise, state = surprise, self._state()
        level = levels.level(state)
        if mean > levels.highest(state):
            scene = give() if give is not None else None
            if scene is not None and levels.rises(now, mean, state, (self.contexts, scene[1])):
                return Power("", 0.0, evidence)
            if scene is None:
                levels.forget()
            return Power(levels.words(mean, state), 0.0, evidence)
        levels.forget()
        if quiet and since >= self._state_since:
            levels.learn(state, mean, now - since)
        proven = level is not None and self._hides_nothing(mean - level, now - since)
        return Power("", now - since if proven else 0.0, evidence)

    def _surprises(self, mean: float) -> tuple[bool, bool, bool]:
        state = self._state()
        level = self.levels.level(state)
        return level is None, level is not None and mean < level, mean > self.levels.highest(state)

    def _hides_nothing(self, excess: float, seconds: float) -> bool:
        """A mean proves a short time quiet; over a long one the same mean could hide minutes of work.

        One that is too low proves no more: the counter began anew (a driver was loaded), with work in what is left.
        """
        return abs(excess) * seconds <= self.levels.margin * _MARGIN_SECONDS

    def _bridge(self, now: float, energy: int, *, proven: bool) -> Power:
        """After a restart: what did the GPU use in the gap, against what this one draws when idle?

        ``proven``: its whole ring of samples is quiet, and so may the gap be.
        """
        if self._before_restart is None:
            return Power()
        since, before = self._before_restart
        if now - since < _SHORTEST or energy <= before:
            return Power()
        mean, state = (energy - before) / (now - since), self._state()
        words = f"mean {mean / 1000:.0f} W since before the restart"
        if self.levels.highest(state) < mean <= ABSURD_MW:  # else a reader that never reads twice would see no power
            return Power(self.levels.words(mean, state), 0.0, words)
        code, moment = self._nvml.power(self._handle)
        if not proven or code != SUCCESS or not 0 < moment <= self.levels.highest(state):
            return Power()
        level = self.levels.level(state)
        idle = moment if level is None else min(moment, level)
        if mean <= idle + self.levels.margin and self._hides_nothing(mean - idle, now - since):
            return Power("", now - since, words)
        return Power()

    def _state(self) -> str:
        return UNSURE if self.contexts is None else HELD if self.contexts else BARE


def _limit(nvml: Nvml, handle: Handle) -> int:
    """The board's own power limit: an owner may lower the one that is enforced, and its idle power stays what it is."""
    found = [limit for code, limit in nvml.power_limits(handle) if code == SUCCESS and limit < ABSURD_MW]
    return max(found, default=0)
