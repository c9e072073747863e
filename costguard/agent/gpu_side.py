"""The guard's side of the nvml reader: its answers as observations and events of the engine.

Nothing here decides. What the reader needs to go on where its predecessor ended (counters, what it learnt, the GPUs
that were known) goes into its next job, and into the saved state.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from costguard.agent import decode
from costguard.agent.reader import HANDOVER, NOT_YET, ReaderProcess, StreamPlan
from costguard.engine.events import Devices, Finding
from costguard.engine.observation import Device, Known, Observation, Reading, Unknown
from costguard.engine.rules import Rules
from costguard.engine.state import State
from costguard.engine.tracks import is_busy
from costguard.host.ports import ChildHost, Report
from costguard.process.wire import MalformedError, build, plain
from costguard.readers.nvml.job import NvmlJob

if TYPE_CHECKING:
    from costguard.agent.task_gpus import TaskGpus

FIND_EVERY_SECONDS = 86400.0
"""Between two messages about one finding of one GPU; a restarted guard may repeat it sooner."""

GATHER_SECONDS = 60.0
"""How long to wait for further GPUs with the same finding: one job on eight of them is one message."""

NOTES = {"ghost": "ghost load: no process behind it", "suspect_hung": "the job may be hung"}
"""Findings about a GPU in a few words."""

SAY_EVERY_SECONDS = 60.0
"""Between two lines of the journal about one GPU that cannot be read."""

TEXTS_TOLD = 3
"""Different texts in the message about one finding of several GPUs."""

NONSENSE = (KeyError, TypeError, ValueError, AttributeError)
"""What reading a malformed answer may raise."""

NOT_LISTED = "not listed any more"

SIGNS_KEPT = 16  # more kinds than there are

_NO_ANSWER = object(), Observation((), ())


class ToldFinding(NamedTuple):
    """That people heard of a finding about a GPU, and when, in seconds since boot."""

    gpu: str
    code: str
    at: float


class GpuSide:
    """One reader of GPUs and its answers. ``report`` gets the subject *nvml*."""

    def __init__(
        self,
        host: ChildHost,
        config: Mapping[str, Any],
        state: State,
        handover: Mapping[str, Any],
        report: Report,
        *,
        detached: bool,
        told: object = None,
    ) -> None:
        """``told``: what `findings_told` of an earlier guard of this boot was."""
        self._host, self._report = host, report
        self._known = state.gpus
        self._devices = {device.key: device for device in state.core.selection.devices}
        self._told_at = dict(_read_told(told))  # when a finding of a GPU was told
        self._gathered_since: dict[str, float] = {}  # findings that are about to be told, by their code
        self.findings_by_gpu: dict[str, tuple[str, str]] = {}
        """The finding about each GPU that has one now: its code and text."""
        # why a GPU cannot be read, as the journal has it, and since when
        self._logged: dict[str, tuple[str, float]] = {}
        self._answer: dict[str, Any] | None = None
        # the last answer that was whole: its number and content
        self._last_full: tuple[object, Observation] = _NO_ANSWER
        self._work: dict[str, Known] = {}  # by GPU: work seen in rejected answers
        self._unseen: dict[str, str] = {}  # by GPU: why rejected answers could not read it
        self._observed = 0.0  # when the last observation was made
        self.skipped_at: float | None = None
        """When the reader last took a reading equal to its previous answer, and did not report it; None for none."""
        self._new_devices: dict[str, Device] = {}  # devices named in rejected answers
        self._place: Mapping[str, Any] = config.get("host", {})
        self.task = self._task_of(config)
        left = {name: handover[name] for name in HANDOVER if isinstance(handover.get(name), dict)}
        self.reader = self._start(left, detached=detached)

    def adopt(self, config: Mapping[str, Any]) -> None:
        """Work under this configuration: a new reader, should it have to look elsewhere."""
        if (self.task is None) != (config["policy"].get("scope") != "task"):
            self.task = self._task_of(config)
        place = config.get("host", {})
        if place != self._place:
            self._place = place
            self.reader.stop()
            self._last_full = _NO_ANSWER  # the next one numbers its answers anew
            self.reader = self._start(self.reader.handover, detached=self.reader.detached)

    def _task_of(self, config: Mapping[str, Any]) -> "TaskGpus | None":
        """The scope of a guard that guards a task; None for the machine."""
        if config.get("policy", {}).get("scope") != "task":  # a watcher of one command has no policy here
            return None
        from costguard.agent.task_gpus import TaskGpus  # here: most agents guard a machine

        return TaskGpus(os.environ, self._report)

    def _start(self, handover: Mapping[str, Any], *, detached: bool) -> ReaderProcess:
        return ReaderProcess(self._host, "nvml", self._job, handover=handover, detached=detached)

    def _job(self) -> NvmlJob:
        places = {name: self._place[name] for name in ("sysfs", "devfs", "background_is_idle") if name in self._place}
        return NvmlJob(**places, **self.reader.handover, known=self._known)

    def attach(self) -> None:
        """Take up the driver again. It may be another one: its counters begin anew, and it need not have every engine."""
        learnt = self.reader.handover.get("learnt", {})
        kept = {
            key: {n: v for n, v in one.items() if n != "engines"}
            for key, one in learnt.items()
            if isinstance(one, dict)
        }
        self.reader.handover |= {"learnt": kept, "counters": {}}
        self.reader.attach()

    @property
    def answered(self) -> bool:
        """Whether the reader that runs answered since it was last asked, and found GPUs, readable or not."""
        return self._answer is not None and self.reader.healthy

    def ask(self, now: float, *, look: bool, stream: StreamPlan | None = None) -> None:
        """Ask for a reading; ``look`` and ``stream`` as in `ReaderProcess.ask`."""
        self._answer = None
        self.reader.ask(now, look=look, stream=stream)

    def line(self, data: bytes, now: float) -> bool:
        """What the reader wrote; True when that was an answer."""
        answer = self.reader.line(data, now)
        if self.reader.rejected is not None:
            self._overhear(self.reader.rejected)
        if answer is not None and "same" in answer and answer["same"] != self._last_full[0]:
            self.reader.end_stream()  # the answer that it goes back to was not taken: it must say it again
            return False
        self._answer = answer or self._answer
        return answer is not None

    def _overhear(self, answer: dict[str, Any]) -> None:
        """Keep what no later answer says again, for a reader tells only what is since its last one: work, holes, devices."""
        try:
            gpus, seen = decode.readings(answer) if "gpus" in answer else ((), ())
            if "same" in answer and answer["same"] == self._last_full[0]:
                gpus, seen = self._last_full[1].gpus, self._last_full[1].readings
            if "info" in answer:
                self._new_devices |= {device.key: device for device in decode.devices(answer)}
        except NONSENSE:
            return
        for gpu, reading in zip(gpus, seen, strict=True):
            if type(reading) is Known and (reading.load or reading.signs) and gpu in self._known:
                self._work[gpu] = _both(reading, self._work.get(gpu, reading))
            elif type(reading) is Unknown and gpu in self._known:
                self._unseen[gpu] = reading.reason
        if "gpus" in answer:
            self._unseen |= dict.fromkeys([gpu for gpu in self._known if gpu not in gpus], NOT_LISTED)

    def _with_overheard(self, found: Observation, now: float, rules: Rules) -> Observation:
        """Add what was overheard to an observation. A hole ends by evidence that reaches over it; work is told once.

        Also of a GPU that cannot be read now: a deadline would else take it for one that was quiet when it was lost. What is
        no work under these rules waits for a reading, for unknown stays unknown.
        """
        holes, self._unseen = self._unseen, {}
        seen = [
            Unknown(holes[gpu]) if gpu in holes and self._hides(reading, now, rules) else reading
            for gpu, reading in zip(found.gpus, found.readings, strict=True)
        ]
        seen = [
            _both(reading, self._work.pop(gpu)) if self._tells(gpu, reading, rules) else reading
            for gpu, reading in zip(found.gpus, seen, strict=True)
        ]
        return found._replace(readings=tuple(seen))

    def _hides(self, reading: Reading, now: float, rules: Rules) -> bool:
        """Whether a hole before this reading makes it unknown: work that is seen now is work all the same."""
        return type(reading) is Known and reading.covers < now - self._observed and not is_busy(reading, rules)

    def _tells(self, gpu: str, reading: Reading, rules: Rules) -> bool:
        work = self._work.get(gpu)
        return work is not None and (type(reading) is Known or is_busy(work, rules))

    def observe(self, now: float, rules: Rules) -> tuple[Observation, Devices | None]:
        """The answer as an observation, and the devices when they are others than before."""
        found, changed = self._observe(now)
        if self._work or self._unseen:
            found = self._with_overheard(found, now, rules)
        self._observed = now
        return (found if self.task is None else self.task.narrow(found, self._devices)), changed

    def _observe(self, now: float) -> tuple[Observation, Devices | None]:
        answer, changed = self._answer, None
        self.skipped_at = self._unsaid(answer, now)
        if answer is None:
            return self._all_unknown(), None
        if "same" in answer:
            return self._last_full[1], None
        self._last_full = _NO_ANSWER
        try:
            gpus, seen = decode.readings(answer)
            if "info" in answer or self._new_devices:
                changed = self._learn_devices(
                    (*self._new_devices.values(), *(decode.devices(answer) if "info" in answer else ())), now
                )
                self._new_devices = {}
        except NONSENSE as error:
            self.reader.failure = f"malformed answer from the reader ({error})"
            self._answer = None
            return self._all_unknown(), None
        self.findings_by_gpu = decode.findings(answer)
        if self.reader.error:
            self._report("nvml", f"no GPU can be read: {self.reader.error}")
        elif not seen or Known in map(type, seen):  # a new reader that is as blind as the last one mends nothing
            self._report("nvml", None)
        self._log_unreadable(gpus, seen, now)
        if gpus != self._known:
            missing = tuple(key for key in self._known if key not in gpus)
            extra: tuple[Reading, ...] = tuple([Unknown(NOT_LISTED)] * len(missing))
            gpus, seen = gpus + missing, seen + extra
            self._known = gpus
        found = Observation(gpus, seen)
        self._last_full = answer.get("read"), found
        return found, changed

    def _unsaid(self, answer: Mapping[str, Any] | None, now: float) -> float | None:
        """The second of a reading before this answer that was as the last one, where the guard knows which that was."""
        unsaid = answer.get("unsaid") if answer is not None else None
        if not isinstance(unsaid, list) or len(unsaid) != 2 or unsaid[0] != self._last_full[0]:
            return None
        at = unsaid[1]
        return at if type(at) is float and self._observed < at < now else None

    def _all_unknown(self) -> Observation:
        self.findings_by_gpu = {}
        if not self.reader.detached and (self.reader.failure != NOT_YET or not self._known):
            self._report("nvml", f"no GPU can be read: {self.reader.failure}")
        return Observation(self._known, tuple([Unknown(self.reader.failure)] * len(self._known)))

    def _log_unreadable(self, gpus: tuple[str, ...], seen: tuple[Reading, ...], now: float) -> None:
        """Name in the journal which GPU cannot be read and why, and that it can be again; each at most once a minute."""
        if self.reader.error or (not self._logged and Unknown not in map(type, seen)):
            return  # told of all of them at once; or all is well, as ever
        for key, reading in zip(gpus, seen, strict=True):
            why = reading.reason if isinstance(reading, Unknown) else ""
            told, at = self._logged.get(key, ("", -SAY_EVERY_SECONDS))
            if why == told or (why and now - at < SAY_EVERY_SECONDS):
                continue
            self._logged[key] = why, now
            device = self._devices.get(key)
            name = key if device is None or device.number is None else f"GPU {device.number}"
            self._host.say(f"<4>{name} cannot be read: {why}" if why else f"<5>{name} can be read again")

    def _learn_devices(self, devices: tuple[Device, ...], now: float) -> Devices | None:
        before = dict(self._devices)
        self._devices.update({device.key: device for device in devices})
        return Devices(now, tuple(self._devices.values())) if self._devices != before else None

    def findings(self, now: float) -> list[Finding]:
        """What is found out about GPUs, of each once and then at most daily; of several at about the same time together."""
        fresh: dict[str, dict[str, str]] = {}  # by code: what is said of which GPU
        for gpu, (code, words) in sorted(self.findings_by_gpu.items()):
            told = self._told_at.get((gpu, code))
            if self._concerns(gpu) and (told is None or now - told >= FIND_EVERY_SECONDS):
                fresh.setdefault(code, {})[gpu] = words
        self._gathered_since = {code: self._gathered_since.get(code, now) for code in fresh}
        ready = [code for code, since in self._gathered_since.items() if now - since >= GATHER_SECONDS]
        self._told_at |= {(gpu, code): now for code in ready for gpu in fresh[code]}
        texts = {code: "; ".join(list(dict.fromkeys(fresh[code].values()))[:TEXTS_TOLD]) for code in ready}
        return [Finding(now, tuple(fresh[code]), code, text) for code, text in texts.items()]

    @property
    def findings_told(self) -> object:
        """When each finding was told last, for the next guard; None for none."""
        return [plain(ToldFinding(gpu, code, at)) for (gpu, code), at in self._told_at.items()] or None

    def _concerns(self, gpu: str) -> bool:
        return gpu in self._known and (self.task is None or gpu in (self.task.keys or ()))

    def note(self, gpu: str) -> str:
        """The finding about a GPU in a few words, to stand beside its reading."""
        code = self.findings_by_gpu.get(gpu, ("", ""))[0]
        return NOTES.get(code, code.replace("_", " "))


def _read_told(kept: object) -> Iterator[tuple[tuple[str, str], float]]:
    for one in kept if isinstance(kept, list) else ():
        with suppress(MalformedError):
            told = build(ToldFinding, one)
            yield (told.gpu, told.code), told.at


def _both(now: Reading, before: Known) -> Known:
    """A reading that also tells of the work seen before it, in the words of that one where it adds any."""
    if type(now) is not Known:
        return before._replace(covers=0.0)  # when that was, and what is since then, nobody knows
    signs = tuple(dict.fromkeys(now.signs + before.signs))[:SIGNS_KEPT]
    if now.load >= before.load and signs == now.signs:
        return now
    return now._replace(load=max(now.load, before.load), signs=signs, evidence=before.evidence)
