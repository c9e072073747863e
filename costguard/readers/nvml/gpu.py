"""One GPU: from NVML's answers to a reading with evidence, or unknown with a reason."""

from collections.abc import Callable
from operator import sub
from typing import TYPE_CHECKING

from costguard.readers.nvml import ghost, hung
from costguard.readers.nvml.codes import ABSENT, DROPPED, NOT_FOUND, SUCCESS, NvmlError
from costguard.readers.nvml.ghost import Ghost
from costguard.readers.nvml.gpm import Gpm
from costguard.readers.nvml.hung import Hung
from costguard.readers.nvml.idle_power import Scene
from costguard.readers.nvml.learnt import Learnt
from costguard.readers.nvml.library import ENGINES, Engines, Handle, Nvml
from costguard.readers.nvml.mig import Divided
from costguard.readers.nvml.power import Power, PowerMeter
from costguard.readers.nvml.traffic import BytesMoved, ProcessUse

if TYPE_CHECKING:
    from costguard.readers.nvml.contexts import Contexts, Held

RING_SECONDS = 14.0
"""How far back the driver's ring of samples surely reaches: 71 samples, one each 0.2 s, on an H100 with driver 580; others have more."""

_HOLE_MICROSECONDS = (
    1_500_000  # microseconds between two samples of an unbroken ring; the slowest product samples each second
)
_BUSY_PERCENT = 95  # percent of GPU use from which nothing else need be asked
_LOOK_EVERY_SECONDS = 60.0  # between looks at memory and processes, which cost the driver more, and at what was missing
_PROOF_EVERY_SECONDS = 300.0  # between two reads of ring and energy of a GPU whose activity counters prove rest
_MEMORY_LIMIT_BYTES = 1 << 48  # bytes; more is garbage
_ALIKE_SECONDS = 0.15  # seconds by which readings that are the same may differ in what they cover
_LATE = 1.5  # by which factor, where both reach back to the reading before them without a hole: ticks are late at times

_AT_WORK_PERCENT = (
    20.0  # percent of load above which signs of work add nothing: it is above every threshold that heeds them
)
_WORDS_EVERY_SECONDS = 300.0  # seconds after which what is said of a GPU at work is said anew
_LIKE_LOAD = 0.05  # of load by which a GPU at work may differ from what was told, where nobody tells such loads apart
_LIKE_MEMORY = 0.1  # share by which the memory in use may differ from that in the words of a GPU at work
_LIKE_POWER = 0.1  # share by which the mean power of a GPU at work may differ from the one in its words
_LIKE_SHARES = 5.0  # percent of SMs, tensor cores and bandwidth by which a GPU at work may differ from when it was told

_NO_USE = (0.0, 0.0)
_IDLE = (SUCCESS, 0)
_SAMPLED, _DRY, _NOW = "GPU peak %g %% in %d sample%s", "no GPU use sampled", "GPU %d %% now"
_ENGINES = tuple(range(len(ENGINES)))

Reading = tuple[float, list[str], float, str]
"""Load 0 to 1, signs of work, seconds covered, evidence."""

Use = str | tuple[str, float, int]
"""What is said of the GPU use: words, or how to make them."""


class UnreadableError(Exception):
    """The answers make no sense, or no activity signal is left; the words say which."""


class IdleReading:
    """A reading at rest, and of what its words were made. ``plain``: of a GPU whose use comes from its own ring of samples."""

    __slots__ = ("activity", "evidence", "least", "memory", "most", "plain", "reading")

    def __init__(self, reading: Reading, evidence: Use, activity: str, memory: int | None, *, plain: bool) -> None:
        self.reading, self.evidence, self.activity, self.memory = reading, evidence, activity, memory
        self.plain, self.least, self.most = plain, reading[2] / _LATE, min(reading[2] * _LATE, RING_SECONDS)


class BusyReading:
    """A reading of a GPU at work, when it was told, and of what its words were made.

    ``plain``: of a GPU whose load is the ``peak`` of its own ring of samples, and which cannot be suspected of anything;
    ``shares``: of SMs, tensor cores and bandwidth when it was last seen in full, where they are counted.
    """

    __slots__ = ("at", "findings", "mean", "memory", "peak", "plain", "reading", "shares")

    def __init__(
        self, reading: Reading, at: float, mean: float | None, memory: int | None, findings: list[tuple[str, str]]
    ) -> None:
        self.reading, self.at, self.mean, self.memory, self.findings = reading, at, mean, memory, findings
        self.peak, self.plain = 0.0, False
        self.shares: list[float | None] = []


class Gpu:
    """A GPU that the driver opened for us. Raises UnreadableError or NvmlError when it is corrupt."""

    def __init__(
        self,
        nvml: Nvml,
        handle: Handle,
        old_counter: tuple[float, int] | None = None,
        learnt: Learnt | None = None,
        share: float = 1.0,
    ) -> None:
        """``share``: of the time between two rare looks after which the second one is due; not all GPUs have theirs at once."""
        self._nvml = nvml
        self._handle = handle
        self._unsupported: set[str] = set()
        self._learnt = learnt = Learnt() if learnt is None else learnt
        self._since = 0  # newest sample of the ring that was seen
        self._ring_read = 0.0  # when
        self._before = 0.0  # when the ring was read before that
        self._share = share
        self._look_due = 0.0
        self._proof_due = 0.0  # when ring and energy are read although the activity counters prove rest
        self._again_due = 0.0  # when to ask again for what was missing
        self._engines_idle: list[tuple[int, int]] | None = None  # what those answer that are there, at rest
        self._engine_calls: Engines | None = None  # which ask those; None: not known
        self._calm: IdleReading | None = None  # the last reading, when it was one at rest
        self._work: BusyReading | None = None  # the same of one at work
        self._memory: int | None = None  # bytes in use; None: unknown
        self._use = (0.0, 0.0)  # percent, lowest and highest of the samples since the last read
        self._ghost = Ghost()
        self._hung = Hung(learnt)
        self._power_of_hung = False  # whether the power was that of a job which may hang at the last read
        self.findings: list[tuple[str, str]] = []
        """What people should know beside the reading: a code and words."""
        self._signs: list[str] = []  # seen since the last answer
        self._traffic_next = True
        self._divided: Divided | None = None
        self._contexts: Contexts | None = None
        self._above = 1.0  # load from which on small differences decide nothing
        self._whole = True  # whether this read asks every instance
        self._whole_due = 0.0  # when to ask again whether it still is, should its instances stay unknown
        self.meter = PowerMeter(nvml, handle, old_counter, learnt)
        code, index = nvml.index(handle)
        if code not in (SUCCESS, *DROPPED):
            raise NvmlError(code, "GetIndex")
        self.index: int | None = index
        self.name = _text("name", nvml.name, handle)
        self.uuid = _text("UUID", nvml.uuid, handle)
        self._traffic = BytesMoved(nvml, handle)
        self._users = ProcessUse(nvml, handle)
        self._gpm = Gpm(nvml, handle)

    def close(self) -> None:
        """Give back what the library lent."""
        self._gpm.close()
        self._undivide()

    def holders(self) -> "Held":
        """Which processes hold it, and which used it since this was asked last; where that is not known, why."""
        if self._contexts is None:
            from costguard.readers.nvml.contexts import Contexts  # what a guard never asks costs it nothing

            self._contexts = Contexts(self._nvml, self._handle)
        return self._contexts.read()

    def sensors(self) -> tuple[int | None, float | None]:
        """Degrees Celsius and watts, as they are now; None for what is not given."""
        code, degrees = self._nvml.temperature(self._handle)
        power_code, milliwatts = self._nvml.power(self._handle)
        return degrees if code == SUCCESS else None, milliwatts / 1000 if power_code == SUCCESS else None

    def unchanged(self, now: float, above: float = 1.0) -> bool:
        """Whether `read` would give the last reading again: found in few steps, for most ticks need no more.

        False: it may be otherwise, and `read` has to look at the same time. Nothing that was asked here is lost to it.
        """
        self._above = above
        try:
            if self._calm is not None:
                return self._still_idle(now, self._calm)
            return self._work is not None and self._still_busy(now, self._work)
        except NvmlError:  # it fails again, and is told, or it does not
            return False

    def _still_idle(self, now: float, calm: IdleReading) -> bool:
        gpm, calls, since = self._gpm, self._engine_calls, self._since
        if calls is None or not calm.plain or not calm.least <= now - self._ring_read <= calm.most:
            return False
        if gpm.available:
            gpm.read(now)
            if gpm.signs or gpm.words != calm.activity:
                return False
            if gpm.idle and now < self._proof_due:
                return self._idle_by_counters(now, calm)
        newest = self._nvml.samples_at_rest(self._handle, since, calls, gpm.still)
        # samples came, or stayed away, unlike before
        if newest is None or (newest > since) is (type(calm.evidence) is str):
            return False
        # where samples cover the time, the power of this moment is enough between two rare looks
        rests = newest > since and now < min(self._look_due, self._again_due) and self.meter.still_now()
        if not gpm.available:
            self._other_signs(now)
        if self._looks_other(now, calm) or not (rests or self.meter.rests(now)):
            return False
        self._since, self._ring_read = newest, now
        self._ring_was_read(now)
        return True

    def _looks_other(self, now: float, calm: IdleReading) -> bool:
        """Look where that is due; whether anything is unlike before."""
        if now >= self._look_due:
            self._look(now)
        if now >= self._again_due:
            self._ask_again(now)
        return bool(self._signs) or self._engine_calls is None or self._memory != calm.memory

    def _idle_by_counters(self, now: float, calm: IdleReading) -> bool:
        """Where the activity counters prove the time since the last read quiet: they cost the driver a tenth of its ring or energy."""
        nvml, handle = self._nvml, self._handle
        if self._looks_other(now, calm) or nvml.rates(handle) != _IDLE:
            return False
        calls = self._engine_calls
        if calls is None or not nvml.engines_below(handle, calls, 0.0) or not self.meter.still_now():
            return False
        self._pass_over(now)
        return True

    def _ring_was_read(self, now: float) -> None:
        """For a while it need not be, where activity is counted."""
        if now >= self._proof_due:
            self._proof_due = self._next(now, self._proof_due, _PROOF_EVERY_SECONDS)

    def _pass_over(self, now: float) -> None:
        """What the ring has of the time up to now is as good as read."""
        if self._since:
            self._since += int((now - self._ring_read) * 1e6)
        self._ring_read = now

    def _still_busy(self, now: float, work: BusyReading) -> bool:
        """At so much load that nothing else is heeded, with so much power that nothing seems to hang."""
        gpm, gap = self._gpm, now - self._ring_read
        if not work.plain or now - work.at >= _WORDS_EVERY_SECONDS or now >= min(self._look_due, self._again_due):
            return False
        if gpm.available:
            gpm.read(now)
            self._signs = []  # above this load nobody heeds them
            if gap <= RING_SECONDS and self._reaches_alike(gap, work) and self._same_activity(work):
                self._pass_over(now)
                return True
        code, stamps, values = self._nvml.samples(self._handle, self._since)
        if code != SUCCESS or not stamps or not self._since < stamps[0] <= stamps[-1]:
            return False
        peak = max(values)
        if peak != work.peak and not self._alike_load(peak, work):
            return False
        if not (min(values) >= 0 and peak <= 100 and sum(values) >= 0):  # as `_gpu_use` looks for garbage
            return False
        if self._unbroken(stamps, gap) < gap or not self._reaches_alike(gap, work):
            return False
        if not self._engines_below(work) or not self.meter.goes_on(now, work.mean, _LIKE_POWER):
            return False
        self._since, self._ring_read, work.shares = stamps[-1], now, gpm.shares
        return True

    def _same_activity(self, work: BusyReading) -> bool:
        """Whether as much of the GPU was in use as when it was told: no peak is below the mean of busy SMs."""
        busy, (code, percent) = self._gpm.use, self._nvml.rates(self._handle)
        return (
            busy is not None
            and self._gpm.moves
            and code == SUCCESS
            and percent <= 100  # else it is garbage, and told
            and busy > max(100.0 * self._above, _AT_WORK_PERCENT)
            and len(work.shares) == len(self._gpm.shares)
            and all(_within(new, told, _LIKE_SHARES) for new, told in zip(self._gpm.shares, work.shares, strict=True))
            and self._engines_below(work)
        )

    def _engines_below(self, work: BusyReading) -> bool:
        """Whether no engine, which the GPU use does not count, was used for more than that."""
        if work.peak >= _BUSY_PERCENT:
            return True
        calls = self._engine_calls
        return calls is not None and self._nvml.engines_below(self._handle, calls, work.peak)

    @staticmethod
    def _reaches_alike(gap: float, work: BusyReading) -> bool:
        reach = work.reading[2]
        return reach <= gap * _LATE and gap <= reach * _LATE

    def read(self, now: float, *, again: bool = False, whole: bool = False, above: float = 1.0) -> Reading:
        """One reading at ``now`` (seconds since boot, suspended time included).

        ``again``: where this one would differ from the last in small numbers of its evidence alone, the last is given
        again, the same object. ``whole``: nothing may wait for its turn. ``above``: the load from which on small differences
        of it are such numbers, too. Raises NvmlError or UnreadableError: the reading
        is unknown, and the next one reads the same samples again and tells the same signs, so that nothing is lost.
        """
        place, self._whole, self._before = (self._since, self._ring_read), whole, self._ring_read
        self._above = above
        try:
            reading = self._read(now, again=again)
        except Exception:
            self._since, self._ring_read = place
            self._calm = self._work = None
            self._ghost.forget()
            self._hung.forget()
            self.findings = []
            raise
        self._signs = []
        return reading

    def _read(self, now: float, *, again: bool) -> Reading:
        percent, ring_covers, evidence, other, suspected = self._load(now)
        if suspected or now >= self._look_due:
            self._look(now)
        if now >= self._again_due:
            self._ask_again(now)
        quiet = percent == 0 and not self._signs
        power = self._power(now, quiet=quiet, ring=ring_covers > 0)
        covers = max(ring_covers, min(power.covers, now - self._before))  # the energy may be asked rarely
        calm = self._calm if again and quiet and power.steady else None
        if calm is not None and self._same_rest(calm, covers, evidence):
            return calm.reading
        alike = suspected and other == 0 and self._nothing_behind()
        if self._ghost.see(now, ring_covers, self._use, alike=alike):
            self.findings = [("ghost", ghost.words(percent))]
            percent, covers, evidence = 0.0, ring_covers, f"{_said(evidence)}, but no process behind it"
        else:
            self._signs += [power.sign] if power.sign else []
            hung = self._hangs(now, ring_covers, calm=other == 0)
            self.findings = [("suspect_hung", hung)] if hung else []
        signs = list(dict.fromkeys(self._signs))
        if again and self._work is not None and self._same_work(self._work, now, percent, signs, covers):
            self._work.shares = self._gpm.shares
            return self._work.reading
        reading = percent / 100, signs, covers, self._words(evidence, power.evidence)
        self._remember(reading, evidence, percent, other, now, quiet=quiet)
        return reading

    def _load(self, now: float) -> tuple[float, float, Use, int, bool]:
        """Percent of load, seconds that its samples cover, evidence, percent of the busiest other engine, and whether it looks like a ghost.

        What is asked beside the GPU's own use depends on that: above `_BUSY_PERCENT` nothing else can be higher.
        """
        if self._gpm.available and self._divided is None:
            self._gpm.read(now)
            self._signs += self._gpm.signs
        self._use = _NO_USE
        percent, covers, evidence = self._gpu_use(now)
        suspected, other = self._suspected(), 0
        doubtful = suspected or self._power_of_hung
        if percent < _BUSY_PERCENT or doubtful:
            other, name = self._engine_use()
            if other > percent:
                percent, evidence = other, f"{name} {other} %"
            if not self._gpm.available and (percent <= _AT_WORK_PERCENT or doubtful):
                self._other_signs(now)
        return percent, covers, evidence, other, suspected

    def _remember(self, reading: Reading, use: Use, percent: float, other: int, now: float, *, quiet: bool) -> None:
        """Keep that by which the next reading may be found to be the same; ``other``: percent of the busiest other engine."""
        plain = self._divided is None and "samples" not in self._unsupported
        self._calm = IdleReading(reading, use, self._gpm.words, self._memory, plain=plain) if quiet else None
        self._work = None
        if (plain or self._divided is not None) and (percent or reading[1]):
            self._work = work = BusyReading(reading, now, self.meter.mean, self._memory, self.findings)
            known = plain and bool(self.meter.contexts) and self.meter.measured and not self.findings
            work.peak, work.shares = self._use[1], self._gpm.shares
            work.plain = known and not self._power_of_hung and percent == work.peak > max(other, _AT_WORK_PERCENT)

    def _power(self, now: float, *, quiet: bool, ring: bool) -> Power:
        contexts = self.meter.contexts
        power = self.meter.read(now, quiet=quiet, ring=ring, scene=self._scene if quiet else None)
        if self.meter.contexts != contexts:  # people read both in one line
            self._look_at_memory()
        return power

    def _words(self, use: Use, power: str) -> str:
        activity = self._gpm.words if self._divided is None else ""
        memory = "" if self._memory is None else f"{self._memory >> 20} MiB in use"
        notes = (_said(use), activity, power, self.meter.holders(), memory, self._gpm.note)
        return ", ".join(filter(None, notes))

    def _same_rest(self, calm: IdleReading, covers: float, evidence: Use) -> bool:
        """At rest, with a power that says nothing new: whether nothing else does."""
        told = calm.reading[2]
        return (
            (self._unbroken_alike(covers, told) or -_ALIKE_SECONDS <= covers - told <= _ALIKE_SECONDS)
            and (evidence == calm.evidence or (type(evidence) is tuple and evidence[:2] == calm.evidence[:2]))
            and self._gpm.words == calm.activity
            and self._memory == calm.memory
        )

    def _unbroken_alike(self, covers: float, told: float) -> bool:
        """Whether both reach back to the reading before them, over about the same time."""
        return covers >= self._ring_read - self._before and told <= covers * _LATE and covers <= told * _LATE

    def _same_work(self, work: BusyReading, now: float, percent: float, signs: list[str], covers: float) -> bool:
        """Whether a GPU at work is as it was told: the same load for all that decide, and nothing else that anybody heeds is new."""
        load, told, reach, _ = work.reading
        mean, before = self.meter.mean, work.mean
        return (
            (percent / 100 == load or self._alike_load(percent, work))
            and now - work.at < _WORDS_EVERY_SECONDS
            and self._unbroken_alike(covers, reach)
            and (percent > _AT_WORK_PERCENT or _kinds(signs) == _kinds(told))
            and self.findings == work.findings
            and _near(self._memory, work.memory, _LIKE_MEMORY)
            and _near(mean, before, _LIKE_POWER)
        )

    def _alike_load(self, percent: float, work: BusyReading) -> bool:
        """Whether this load, and the one that was told, are above whatever anybody compares them with, and near each other."""
        load, told = percent / 100, work.reading[0]
        return min(load, told) > max(self._above, _AT_WORK_PERCENT / 100) and abs(load - told) <= _LIKE_LOAD + 1e-9

    def _hangs(self, now: float, covers: float, *, calm: bool) -> str:
        """Words when the job looks as if it hung; "" also where too little of that is known."""
        meter, less = self.meter, False
        if meter.mean is not None and meter.contexts is not None:
            less = self._hung.off_baseline(meter.mean, meter.contexts, meter.levels.margin)
        self._power_of_hung = less or (meter.waits and bool(meter.contexts))
        if meter.mean is None or self._divided is not None:
            self._hung.forget()
            return ""
        if self._gpm.available:
            calm, still = calm and self._gpm.calm, ", memory and links idle"
        else:
            calm = calm and meter.waits and (self._traffic.still or not self._traffic.known)
            still = ", links idle" if self._traffic.known else ""
        alike = calm and self._power_of_hung and self._use[0] >= hung.USE_PERCENT
        sm = self._gpm.use or 0.0
        if not self._hung.see(now, covers, meter.mean, sm, meter.levels.margin, alike=alike):
            return ""
        return hung.words(less=less, still=still)

    def _scene(self) -> Scene | None:
        """Contexts and memory in use where nothing but the power could show work, so that it may be the idle power."""
        meter = self.meter
        still = self._gpm.still if self._gpm.available else meter.nobody and self._empty()
        return (meter.contexts, self._memory) if still and self._divided is None else None

    def _suspected(self) -> bool:
        """Use that is high and flat, and by the last look nobody there to make it: worth a closer look."""
        low, high = self._use
        return low >= ghost.USE_PERCENT and high - low <= ghost.FLAT_PERCENT and self.meter.nobody and self._empty()

    def _empty(self) -> bool:
        return self._memory is not None and self._memory < ghost.MEMORY_BYTES

    def _nothing_behind(self) -> bool:
        """After a fresh look: no process of any kind, no memory, low power, no other sign. False if any of it is unknown."""
        if self._signs or not (self.meter.nobody and self._empty() and self.meter.measured and self.meter.waits):
            return False
        if self._gpm.available and not self._gpm.still:
            return False
        return self._nvml.processes("Graphics", self._handle) == (SUCCESS, 0)

    def _other_signs(self, now: float) -> None:
        """Without GPM: bytes moved and use by process, in turn, since both reach back to when they were asked last."""
        if self._traffic.available and (self._traffic_next or not self._users.available):
            self._signs += self._traffic.read(now)
        elif self._users.available and self.meter.contexts != 0:
            self._signs += self._users.read()
        self._traffic_next = not self._traffic_next

    def _gpu_use(self, now: float) -> tuple[float, float, Use]:
        """Highest GPU use since the last read, seconds that it covers without a hole, evidence."""
        if self._divided is not None:
            return self._parts(now, self._divided)
        if "samples" in self._unsupported:
            return self._momentary(now, 0.0)
        code, stamps, values = self._nvml.samples(self._handle, self._since)
        if code in DROPPED:
            self._unsupported.add("samples")
            return self._momentary(now, 0.0)
        if code not in (SUCCESS, NOT_FOUND):
            raise NvmlError(code, "GetSamples")
        if stamps and stamps[0] > stamps[-1]:  # the newest first
            stamps.reverse()
            values.reverse()
        if stamps and stamps[0] <= self._since:  # a driver that ignores the time we gave
            fresh = next((i for i, stamp in enumerate(stamps) if stamp > self._since), len(stamps))
            stamps, values = stamps[fresh:], values[fresh:]
        before, self._ring_read = self._ring_read, now
        self._ring_was_read(now)
        if not stamps:  # the ring ran dry: nothing ran, if the driver can still say so
            covers = min(now - before, RING_SECONDS) if before else 0.0
            if self._gpm.still:
                return 0, covers, _DRY
            return self._momentary(now, covers)
        peak = 0.0
        if any(values):
            peak = max(values)
            if not (min(values) >= 0 and peak <= 100 and sum(values) >= 0):  # the sum finds "not a number"
                raise UnreadableError(f"corrupt answer: GPU use of {peak} % in the samples")
            self._use = (min(values), peak)
        covers = self._unbroken(stamps, now - before if before else 0.0)
        self._since = stamps[-1]
        return peak, covers, (_SAMPLED, peak, len(values))

    def _unbroken(self, stamps: list[int], gap: float) -> float:
        """Seconds back to the last hole; the whole ``gap`` since the last read when there is none."""
        start = stamps[0]
        if max(map(sub, stamps[1:], stamps), default=0) > _HOLE_MICROSECONDS:
            start = next(
                new for new, old in zip(stamps[:0:-1], stamps[-2::-1], strict=True) if new - old > _HOLE_MICROSECONDS
            )
            return (stamps[-1] - start) / 1e6
        if self._since and start - self._since <= _HOLE_MICROSECONDS:
            return gap
        return min((stamps[-1] - start) / 1e6, gap or RING_SECONDS)

    def _momentary(self, now: float, covers: float) -> tuple[float, float, str]:
        code, percent = self._nvml.rates(self._handle)
        if code in ABSENT:
            self._unsupported.discard("samples")  # ask both again: unknown now, but perhaps not for ever
            if self._nvml.mig(self._handle) == (SUCCESS, 1):
                self._divided = Divided(self._nvml, self._handle, self._share)
                self._whole_due = now + _LOOK_EVERY_SECONDS
                return self._parts(now, self._divided)
            raise UnreadableError(f"the driver reports no GPU utilisation (NVML {code}, GetUtilizationRates)")
        percent = self._value("GetUtilizationRates", (code, percent))
        return _percent("GPU use", percent), covers, _NOW % percent

    def _parts(self, now: float, divided: Divided) -> tuple[float, float, str]:
        """The same for a divided GPU."""
        try:
            found = divided.read(now, whole=self._whole)
        except NvmlError:
            self._undivide()  # perhaps it is whole again: ask from the beginning
            raise
        self._signs += divided.signs
        if isinstance(found, str):
            if now >= self._whole_due:
                self._undivide()
            raise UnreadableError(found)
        return found

    def _undivide(self) -> None:
        if self._divided is not None:
            self._divided.close()
            self._divided = None
            self._miss_nothing()

    def _engine_use(self) -> tuple[int, str]:
        """The busiest of the engines that GPU use does not count, and its name."""
        if self._divided is not None:
            return 0, ""
        asked = _ENGINES
        if self._unsupported:
            asked = tuple([number for number in _ENGINES if ENGINES[number] not in self._unsupported])
        found = self._nvml.engines(self._handle, asked)
        if found == self._engines_idle:
            return 0, ""
        best, name = 0, ""
        for number, (code, percent) in zip(asked, found, strict=True):
            engine = ENGINES[number]
            if code in ABSENT and engine not in self._learnt.engines:  # one that was there does not go away: it fails
                self._unsupported.add(engine)
                continue
            if engine not in self._learnt.engines:
                self._learnt.engines.add(engine)
                self._learnt.fresh = True
            if _percent(engine, self._value(engine, (code, percent))) > best:
                best, name = percent, engine
        there = [number for number in asked if ENGINES[number] not in self._unsupported]
        self._engines_idle, self._engine_calls = [(SUCCESS, 0)] * len(there), self._nvml.engine_calls(there)
        return best, name

    def _look(self, now: float) -> None:
        """Processes and memory: words for people, and which power baseline applies."""
        if now >= self._look_due:
            self._look_due = self._next(now, self._look_due)
        self.meter.look(now)
        self._look_at_memory()

    def _look_at_memory(self) -> None:
        code, used = self._nvml.memory_used(self._handle)
        self._memory = used if code == SUCCESS and used < _MEMORY_LIMIT_BYTES else None

    def _ask_again(self, now: float) -> None:
        """What was missing may be there by now: a driver that fails for a while may say *not supported*, too."""
        if self._again_due:
            self._miss_nothing()
            for part in (self.meter, self._traffic, self._users, self._gpm):
                part.ask_again()
        self._again_due = self._next(now, self._again_due)

    def _miss_nothing(self) -> None:
        if self._unsupported:
            self._unsupported.clear()
            self._engines_idle = self._engine_calls = None

    def _next(self, now: float, due: float, every: float = _LOOK_EVERY_SECONDS) -> float:
        """When something rare is due again: in a rhythm of this GPU's own."""
        return now + every - (now - due) % every if due else now + every * self._share

    @staticmethod
    def _value(function: str, answer: tuple[int, int]) -> int:
        code, value = answer
        if code != SUCCESS:
            raise NvmlError(code, function)
        return value


def _said(use: Use) -> str:
    return use if isinstance(use, str) else use[0] % (*use[1:], "" if use[2] == 1 else "s")


def _kinds(signs: list[str]) -> set[str]:
    """What shows work, without how much of it."""
    return {sign.rpartition(": ")[2].partition(" ")[0] for sign in signs}


def _within(new: float | None, told: float | None, most: float) -> bool:
    """Whether two numbers differ by this at most; what is not known is like itself alone."""
    return new == told or (new is not None and told is not None and abs(new - told) <= most)


def _near(new: float | None, told: float | None, share: float) -> bool:
    """Whether two numbers differ by no more than this share of what was told; what is not known is like itself alone."""
    return new == told or (new is not None and told is not None and abs(new - told) <= share * told)


def _percent(what: str, value: int) -> int:
    if value > 100:
        raise UnreadableError(f"corrupt answer: {what} of {value} %")
    return value


def _text(what: str, ask: Callable[[Handle], tuple[int, str]], handle: Handle) -> str:
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
