"""The resident process that reads the GPUs, driven by the guard line by line (JSON).

First line: `NvmlJob`, with ``counters`` as ``{key:[seconds since boot, millijoules]}``. Then

- ``{"read":n}`` is answered by ``{"read":n,"gpus":[[key,load|null,[signs],covers,words],…],"counters":{…}}``,
  with ``"findings":[[key,code,words],…]`` while there is something that people should know about a GPU,
  ``"info":{key:{"index","uuid","name"}}`` and ``"learnt":{key:{…}}`` when that changed, and ``"error"``, ``"hardware"`` when no GPU
  could be read because the driver or its library failed;
- ``{"read":n,"look":true}`` is answered in the same way, after a look at which GPUs there are, and with no instance of a
  divided GPU left for a later read;
- ``{"read":n,"then":[at,every]}`` likewise, and then unasked, under the numbers after that, at the second ``at`` of the boot
  clock and each ``every`` seconds after it, until the next line comes. Such an answer has ``"at"``, the second at which it was
  read, and is just ``{"same":m,"read":n,"at":seconds}`` where it says what the last whole one, that with the number m, said, but
  for small numbers in its words, and for signs of work beside a load that is work; with the ``"counters"`` of all GPUs every two minutes, and a whole one every ten, at least.
  ``"then":[at,every,2]``: of two such short answers in a row the first is left out, and whatever is said next has ``"unsaid":[m,seconds]``.
  With ``"above":load`` loads above that one which differ by 0.05 at most are small numbers, too;
  A job with ``holders`` is for who asks for each reading: each answer then has ``"holders":{key:[pids|null,pids|null,words]}``, who
  has a context there and who used the GPU since the last answer, or null and why that is not known; one
  with ``sensors`` likewise ``"sensors":{key:[degrees Celsius|null,watts|null]}``;
- ``{"detach":true}`` lets go of the driver, so that it can be unloaded, and ends the process.

Every GPU of the PCI bus or of the driver is in each answer, readable or not. Exit codes: 0 the guard is gone or said so;
3 the driver or its library failed altogether, said in the last answer: only a fresh process can do better.
"""

import gc
import os
import select
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from costguard.clocks import boot_clock
from costguard.parent import end_with_parent
from costguard.process.lean_json import decode, encode
from costguard.readers import pipe
from costguard.readers.nvml.codes import (
    DRIVER_NOT_LOADED,
    FUNCTION_NOT_FOUND,
    GPU_IS_LOST,
    NO_PERMISSION,
    NOT_FOUND,
    NOT_SUPPORTED,
    RESET_REQUIRED,
    SUCCESS,
    UNINITIALIZED,
    LibraryMissingError,
    NvmlError,
)
from costguard.readers.nvml.gpu import Gpu, Reading, UnreadableError
from costguard.readers.nvml.job import NvmlJob
from costguard.readers.nvml.learnt import Learnt
from costguard.readers.nvml.library import Handle, Nvml
from costguard.readers.nvml.lookup import find, listed, place
from costguard.readers.nvml.pci import Bus

if TYPE_CHECKING:
    from costguard.readers.nvml.contexts import Held
    from costguard.readers.nvml.fillers import Fillers

EXIT_FAILED = 3

_LINE_BYTES = 65536
_RESCAN_SECONDS = 60.0  # seconds between looks at which GPUs there are
_BLIND_READS_LIMIT = 3  # reads without any GPU, after which a fresh process is the better try
_REOPEN_AFTER = (3, 6, 12)  # failed reads after which a GPU gets a fresh handle, and every 30th: opening may be slow
_DELIVERY_SECONDS = 0.1  # seconds that an answer may take to become a tick; less than a sample of the ring
_REASON_CHARACTERS = 240  # characters
_WHOLE_EVERY_SECONDS = 600.0  # seconds after which an answer tells everything again
_COUNTERS_EVERY_SECONDS = (
    120.0  # seconds after which an answer holds the counters, which a guard that begins anew bridges its gap with
)
_STREAM_SECONDS = (0.05, 3600.0)  # seconds between two answers that nobody asked for, at least and at most
_NAP_SECONDS = 0.05  # seconds asleep that two readings of the clocks cannot make by themselves
_GROUPS = 2  # of GPUs, by the moment at which what is rare is done
_NUMBER_LIMIT = 1 << 64  # what no counter and no clock reaches
# Not cured by a fresh process: the GPU cannot, may not, or needs a reset.
_LASTING = (NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND, GPU_IS_LOST, RESET_REQUIRED)


class _Slot:
    """The place of one expected GPU, readable or not."""

    __slots__ = ("code", "failures", "gpu", "learnt", "reading", "reason", "row")

    def __init__(self, reason: str = "not asked yet", learnt: object = None) -> None:
        self.gpu: Gpu | None = None
        self.reason = reason
        self.code = 0  # NVML's, of the last failure
        self.failures = 0
        self.learnt = Learnt(learnt)
        self.reading: Reading | None = None  # that was told last
        self.row: list[Any] = []  # as which it was told

    def close(self) -> None:
        """Forget the opened GPU."""
        if self.gpu is not None:
            self.gpu.close()
            self.gpu = None

    def holders(self) -> "Held":
        """Who holds this GPU."""
        if self.gpu is None:
            return None, None, self.reason
        try:
            return self.gpu.holders()
        except Exception as error:  # noqa: BLE001 # as for its reading
            return None, None, str(error)[:_REASON_CHARACTERS]

    def failed(self, error: Exception) -> None:
        self.code = error.code if isinstance(error, NvmlError) else 0
        told = isinstance(error, NvmlError | UnreadableError)
        self.reason = (str(error) if told else f"reading failed: {type(error).__name__}: {error}")[:_REASON_CHARACTERS]


class Reader:
    """All GPUs of the machine through one library that is initialised once."""

    _driver: bool  # whether something proves that there is a driver
    _count: int  # GPUs in the driver's list at the last look, where there is a library

    def __init__(
        self,
        sysfs: str = "/sys",
        devfs: str = "/dev",
        counters: object = None,
        known: Sequence[str] = (),
        learnt: object = None,
        clock: Callable[[], float] | None = None,
        *,
        holders: bool = False,
        sensors: bool = False,
        background_is_idle: bool = False,
    ) -> None:
        """``clock``: gives the seconds since boot, suspended time included; the machine's where there is none.

        ``holders``: also say which processes hold each GPU; ``sensors``: also how warm it is, and what it draws.
        ``background_is_idle``: leave out what only background work of `costguard fill` does.
        """
        self._fillers = _fillers() if background_is_idle else None
        self._holders, self._sensors = holders, sensors
        self._clock = boot_clock if clock is None else clock
        self._bus = Bus(sysfs, devfs)
        self._counters = _counters(counters)
        self._learnt: dict[str, object] = learnt if isinstance(learnt, dict) else {}
        self._slots = {key: self._slot(key) for key in (*known, *self._counters)}
        self._nvml: Nvml | None = None
        self._error = ""
        self._info_due = True
        self._scan_due = 0.0
        self._whole_due = self._counted_due = 0.0
        self._blind = 0  # reads in a row that failed for every GPU in a way that a fresh process may cure
        self.told = 0
        """The number of the last answer that says everything."""
        self.unsaid: tuple[int, float] | None = None
        """When it saw once more what the answer with that number says, and has told nobody yet."""
        self.above = 1.0
        """The load above which nobody compares one with anything, so that small differences say nothing."""
        self.failed = False
        """Whether only a fresh process can do better."""
        self._begin()

    def _slot(self, key: str) -> _Slot:
        return _Slot(learnt=self._learnt.get(key))

    def _begin(self) -> None:
        """Load, initialise and open everything. What fails is told by the next `read`."""
        try:
            self._nvml, self._count = _start()
            self._driver = True  # one that lists nothing may have failed to, as without memory
        except LibraryMissingError as error:
            self._error, self._driver = str(error), error.broken
        except NvmlError as error:
            self._error, self._driver = str(error), error.code != DRIVER_NOT_LOADED
        self.failed = bool(self._error)
        self._look_at_bus(self._clock())
        if not self.failed:
            self._list()

    def detach(self) -> None:
        """Let go of the driver, as the last thing."""
        if self._nvml is not None:
            for slot in self._slots.values():
                slot.close()
            self._nvml.shutdown()

    def read(self, number: object, now: float, *, look: bool = False) -> dict[str, object]:
        """One answer."""
        if look or now >= self._scan_due:
            self._look(now)
        return self._answer(number, self._rows(now, again=False, whole=look)[0], now)

    def news(self, number: object, now: float) -> dict[str, object] | None:
        """One answer; None where it would say what the last one said."""
        if now >= self._scan_due:
            self._look(now)
        again = now < self._whole_due and not self._info_due
        rows, news = self._rows(now, again=again, whole=False)
        return self._answer(number, rows, now) if news or not again else None

    def counted(self, now: float) -> dict[str, tuple[float, int]] | None:
        """The counters, where they have not been told for long."""
        if now < self._counted_due:
            return None
        self._counted_due = now + _COUNTERS_EVERY_SECONDS
        return self._energy()

    def _answer(self, number: object, rows: list[list[Any]], now: float) -> dict[str, object]:
        self.told = number if isinstance(number, int) else 0
        self._whole_due, self._counted_due = now + _WHOLE_EVERY_SECONDS, now + _COUNTERS_EVERY_SECONDS
        answer: dict[str, object] = {"read": number, "gpus": rows, "counters": self._energy()}
        if self.unsaid is not None:
            answer["unsaid"], self.unsaid = self.unsaid, None
        if self._holders:
            answer["holders"] = {key: slot.holders() for key, slot in self._slots.items()}
        if self._sensors:
            answer["sensors"] = {key: slot.gpu.sensors() for key, slot in self._slots.items() if slot.gpu is not None}
        findings = [
            (key, code, words)
            for key, slot in self._slots.items()
            if slot.gpu is not None and slot.gpu.findings
            for code, words in slot.gpu.findings
        ]
        if findings:
            answer["findings"] = findings
        learnt = {key: news for key, slot in self._slots.items() if (news := slot.learnt.news()) is not None}
        if learnt:
            answer["learnt"] = learnt
        if self._info_due:
            answer["info"] = self.info()
            self._info_due = False
        if self._error or not rows:
            answer["error"] = self._error or "the driver lists no GPU"
            found = self._bus.hardware()
            answer["hardware"] = None if self._driver and not found else found
        return answer

    def _rows(self, now: float, *, again: bool, whole: bool) -> tuple[list[list[Any]], bool]:
        """What every GPU shows, and whether that is news."""
        if self._error:
            return [[key, None, [], 0, self._error] for key in self._slots], True
        slots = self._slots
        again = again and self._fillers is None  # who is on a GPU may change where its load does not
        if again:  # most reads end here
            awake = [slot for slot in slots.values() if slot.gpu is None or not slot.gpu.unchanged(now, self.above)]
            if not awake:
                return [], False
        rows = [
            slot.row if again and slot not in awake else self._row(key, slot, now, again=again, whole=whole)
            for key, slot in slots.items()
        ]
        self._judge()
        late, news = self._clock() - now + _DELIVERY_SECONDS, False
        for slot, row in zip(self._slots.values(), rows, strict=True):
            if row is not slot.row:
                row[3] = round(row[3] + late, 2) if row[3] else 0
                slot.row, news = row, True
        return rows, news

    def _row(self, key: str, slot: _Slot, now: float, *, again: bool, whole: bool) -> list[Any]:
        if slot.failures in _REOPEN_AFTER or (slot.failures and slot.failures % 30 == 0):
            self._reopen(key, slot)
        if slot.gpu is not None:
            try:
                reading = slot.gpu.read(now, again=again, whole=whole, above=self.above)
            # Whatever a sick driver makes of one GPU must not cost the readings of the others.
            except Exception as error:  # noqa: BLE001 # becomes an unknown reading with its reason
                slot.failed(error)
            else:
                slot.failures = slot.code = 0
                if reading is slot.reading:
                    return slot.row
                slot.reading = reading
                load, signs, covers, evidence = reading
                row = [key, round(load, 4), signs, covers, evidence]
                return row if self._fillers is None else self._fillers.judged(row, slot.holders(), now)
        slot.failures += 1
        slot.reading = None
        return [key, None, [], 0, slot.reason]

    def _judge(self) -> None:
        """Is a fresh process the only hope?"""
        codes = [slot.code for slot in self._slots.values()]
        hopeless = bool(codes) and all(code and code not in _LASTING for code in codes)
        self._blind = self._blind + 1 if hopeless else 0
        self.failed = self._blind >= _BLIND_READS_LIMIT or UNINITIALIZED in codes
        if self.failed:
            self._error = next(slot.reason for slot in self._slots.values() if slot.code)

    def _look(self, now: float) -> None:
        """Which GPUs should be there: of the bus, of the driver, and those that ever were."""
        changed = self._look_at_bus(now)
        if self._nvml is None:
            return
        code, count = self._nvml.count()
        if code == SUCCESS and (changed or count != self._count):
            self._count = count
            self._list()

    def _look_at_bus(self, now: float) -> bool:
        self._scan_due = now + _RESCAN_SECONDS
        if not self._bus.look():
            return False
        for key in self._bus.expected:
            if key not in self._slots:
                self._slots[key] = self._slot(key)
        for key in self._bus.elsewhere:
            if (slot := self._slots.pop(key, None)) is not None:
                slot.close()
        return True

    def _list(self) -> None:
        """Open what is not open. By number first: that finds GPUs that are on no PCI bus."""
        assert self._nvml is not None
        refused = []
        for index, code, key, handle in listed(self._nvml, self._count, self._bus.expected, self._slots):
            if code != SUCCESS:
                refused.append((index, code))
                continue
            if key not in self._slots:
                self._slots[key] = self._slot(key)
            if self._slots[key].gpu is None:
                self._open(self._slots[key], key, handle, index)
        for key, slot in self._slots.items():
            if slot.gpu is None:
                self._reopen(key, slot)
        for index, code in refused[: max(0, self._count - len(self._slots))]:
            self._slots[place(index)] = slot = _Slot()
            slot.failed(NvmlError(code, "GetHandleByIndex"))
        self._slots = dict(sorted(self._slots.items()))
        self._info_due = True

    def _reopen(self, key: str, slot: _Slot) -> None:
        """Try a fresh handle."""
        if self._nvml is None:
            return
        code, handle = find(self._nvml, key, self._count)
        if code == SUCCESS:
            self._open(slot, key, handle)
        elif slot.gpu is None:
            slot.failed(NvmlError(code, "GetHandle", "not listed by the driver" if code == NOT_FOUND else ""))
        self._info_due = True

    def _open(self, slot: _Slot, key: str, handle: Handle, index: int | None = None) -> None:
        assert self._nvml is not None
        self._keep_counters()
        slot.close()
        try:
            slot.gpu = Gpu(self._nvml, handle, self._counters.get(key), slot.learnt, self._share(key))
        except Exception as error:  # noqa: BLE001 # one sick GPU must not cost the readings of the others
            slot.failed(error)
        else:
            if slot.gpu.index is None:
                slot.gpu.index = index

    def _share(self, key: str) -> float:
        """When within a minute what is rare is done for this GPU: never for all of them at once, nor in every tick."""
        return (list(self._slots).index(key) % _GROUPS + 1) / _GROUPS

    def _keep_counters(self) -> None:
        for key, slot in self._slots.items():
            if slot.gpu is not None and slot.gpu.meter.anchor:
                self._counters[key] = slot.gpu.meter.anchor

    def _energy(self) -> dict[str, tuple[float, int]]:
        self._keep_counters()
        return self._counters

    def info(self) -> dict[str, dict[str, object]]:
        """The index, UUID and name of every GPU that could be opened."""
        gpus = {key: slot.gpu for key, slot in self._slots.items() if slot.gpu is not None}
        return {key: {"index": gpu.index, "uuid": gpu.uuid, "name": gpu.name} for key, gpu in gpus.items()}


def _fillers() -> "Fillers":
    from costguard.readers.nvml.fillers import Fillers  # what a guard does not ask for costs it nothing

    return Fillers()


def _counters(saved: object) -> dict[str, tuple[float, int]]:
    """Those of an earlier reader; what looks wrong is left out."""
    found = {}
    for key, one in saved.items() if isinstance(saved, dict) else ():
        if isinstance(one, list) and len(one) == 2 and all(type(value) in (int, float) for value in one):
            at, energy = one
            if -_NUMBER_LIMIT < at < _NUMBER_LIMIT and 0 <= energy < _NUMBER_LIMIT:
                found[str(key)] = (float(at), int(energy))
    return found


def _start() -> tuple[Nvml, int]:
    """The library, initialised, and its number of GPUs."""
    nvml = Nvml()
    code, count = nvml.count()
    if code != SUCCESS:
        raise NvmlError(code, "GetCount")
    return nvml, count


def asleep() -> float:
    """Seconds that the machine has been suspended in this boot."""
    return boot_clock() - time.monotonic()


class Schedule:
    """When readings are due that nobody asks for, and their numbers; ``pairs``: of two short answers in a row the first is left out."""

    __slots__ = ("_asleep", "_slept", "due", "every", "number", "pairs")

    def __init__(
        self,
        number: int,
        due: float,
        every: float,
        now: float,
        *,
        pairs: bool = False,
        asleep: Callable[[], float] = asleep,
    ) -> None:
        self.number, self.due, self.every, self.pairs = number, due, every, pairs
        self._asleep, self._slept = asleep, asleep()
        self.go_on(now)

    def awake(self) -> bool:
        """Whether the machine has not slept since this was asked last: two naps are two, and the guard is to see each."""
        slept = self._asleep()
        nap, self._slept = slept - self._slept, slept
        return nap < _NAP_SECONDS

    def go_on(self, now: float) -> None:
        """To the next one; what was missed is left out."""
        self.number += 1
        if (late := now - self.due) >= 0:
            self.due += self.every * (late // self.every + 1)


def _schedule_of(request: dict[str, object], now: float, asleep: Callable[[], float] = asleep) -> Schedule | None:
    """What is wanted after the answer to this request."""
    number, then = request.get("read"), request.get("then")
    if not isinstance(number, int) or not isinstance(then, list) or len(then) not in (2, 3):
        return None
    due, every = then[:2]
    if type(due) not in (int, float) or type(every) not in (int, float):
        return None
    if not (abs(due) < _NUMBER_LIMIT and _STREAM_SECONDS[0] <= every <= _STREAM_SECONDS[1]):
        return None
    return Schedule(number, due, every, now, pairs=then[2:] == [2], asleep=asleep)


def _above(request: dict[str, object]) -> float:
    above = request.get("above")
    return above if type(above) is float and 0.0 <= above <= 1.0 else 1.0


def _answer(reader: Reader, request: dict[str, object], now: float) -> dict[str, object] | None:
    if "read" in request:
        return reader.read(request["read"], now, look=bool(request.get("look")))
    if request.get("detach"):
        reader.detach()
        return {"detached": True}
    return None


def _answer_unasked(reader: Reader, schedule: Schedule, lines: "Lines", now: float) -> None:
    """Answer without having been asked, or leave it for the next time."""
    number, unsaid = schedule.number, reader.unsaid
    answer = reader.news(number, now)
    if answer is not None:
        lines.write({**answer, "at": now})
    elif schedule.pairs and unsaid is None and schedule.awake():
        reader.unsaid = reader.told, now
    elif (counters := reader.counted(now)) is not None:
        more = {} if unsaid is None else {"unsaid": unsaid}
        lines.write({"same": reader.told, "read": number, "at": now, "counters": counters, **more})
        reader.unsaid = None
    elif unsaid is None:
        lines.send(b'{"same":%d,"read":%d,"at":%.3f}' % (reader.told, number, now))
    else:
        lines.send(b'{"same":%d,"read":%d,"at":%.3f,"unsaid":[%d,%.3f]}' % (reader.told, number, now, *unsaid))
        reader.unsaid = None


def serve(lines: "Lines", clock: Callable[[], float] = boot_clock, asleep: Callable[[], float] = asleep) -> int:
    """Answer until the guard is gone or the driver has failed; the exit code."""
    line = lines.next()
    if line is None:
        return 0
    job = NvmlJob.of(line)
    reader = Reader(
        job.sysfs,
        job.devfs,
        job.counters,
        job.known,
        job.learnt,
        clock,
        holders=job.holders,
        sensors=job.sensors,
        background_is_idle=job.background_is_idle,
    )
    gc.collect()
    gc.freeze()  # what is here to stay is not looked through again
    schedule: Schedule | None = None
    while (request := lines.next(None if schedule is None else schedule.due)) is not None:
        if schedule is not None and not request:
            _answer_unasked(reader, schedule, lines, clock())
            schedule.go_on(clock())
        else:
            if (answer := _answer(reader, request, clock())) is not None:
                lines.write(answer)
            schedule = _schedule_of(request, clock(), asleep)
            reader.above = _above(request)
        if "detach" in request:
            return 0
        if reader.failed and (schedule is not None or "read" in request):
            return EXIT_FAILED
    return 0


class Lines:
    """JSON objects, one per line, on two descriptors."""

    def __init__(self, source: int = 0, target: int = 1) -> None:
        self._source = source
        self._target = target
        self._rest = b""
        self._poll = select.poll()
        self._poll.register(source, select.POLLIN)

    def next(self, until: float | None = None) -> dict[str, object] | None:
        """The next object; an empty one when none came before the boot clock reads ``until``.

        None at the end, and for a line that is too long or no JSON: the guard is not itself.
        """
        while b"\n" not in self._rest:
            if until is not None and not self._comes(until):
                return {}
            data = os.read(self._source, _LINE_BYTES)
            if not data or len(self._rest) > _LINE_BYTES:
                return None
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            found = decode(line)
        except ValueError:
            return None
        return found if isinstance(found, dict) else None

    def _comes(self, until: float) -> bool:
        """Whether there is something to read before that moment."""
        while (left := until - boot_clock()) > 0:
            if self._poll.poll(left * 1000):
                return True
        return False

    def write(self, answer: dict[str, object]) -> None:
        """Write it all. Raises BrokenPipeError."""
        self.send(encode(answer).encode())

    def send(self, data: bytes) -> None:
        """The same for what is encoded already."""
        pipe.write(data + b"\n", self._target)


def main() -> int:
    """Serve on stdin and stdout; end with the guard, even in the middle of a call that hangs."""
    end_with_parent()
    answers = os.dup(1)
    os.dup2(2, 1)  # whatever the driver's library prints is no answer
    try:
        return serve(Lines(target=answers))
    except BrokenPipeError:
        return 0
    finally:
        os.dup2(answers, 1)  # for last words


if __name__ == "__main__":
    sys.exit(main())
