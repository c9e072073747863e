"""The resident process that sees what the GPUs do not show, driven by the guard line by line (JSON).

First line: `HostJob`. Then each `Question` is answered by a `HostAnswer`: at once, or, with ``every``, by looking every so often
until another thing is seen, or the time that it names comes, so that the guard is not woken for nothing; only then may the answer
name an earlier one. A new question replaces one that waits, and keeps its rhythm if it has one. The process ends with the guard.
"""

import gc
import os
import select
import sys
import time
from collections.abc import Callable

from costguard.clocks import boot_clock
from costguard.parent import end_with_parent
from costguard.process.wire import from_line, to_line
from costguard.readers import pipe
from costguard.readers.host.job import HostAnswer, HostJob
from costguard.readers.host.processes import Processes
from costguard.readers.host.sense import NEVER, WORDS, Activity, Moment, Sense, SensePaths, Sight
from costguard.readers.host.senses import SENSES
from costguard.readers.question import Question

_LINE = 1 << 16  # bytes
_LAST = Activity._fields.index("last")
ACTIVITIES_TOLD = 16
"""Activities of each sense that are told one by one; of further ones only their number."""


def now(*, saving: bool = False) -> Moment:
    """The moment of the call, on both clocks."""
    return Moment(boot_clock(), time.time(), saving)


class ActiveSenses:
    """Every sense that is switched on, and what its last look saw."""

    def __init__(self, job: HostJob, *, asking: bool = True) -> None:
        """``asking``: also those that ask servers and programs, and take more than one look for it."""
        self._place = SensePaths(proc=job.procfs, sys=job.sysfs, dev=job.devfs)
        self._processes = Processes(self._place)
        self._settings = job.senses
        self._senses: dict[str, Sense] = {}
        self._unusable: dict[str, str] = {}
        self._rests: dict[str, float] = {}  # until when a sense need not look, unless a process changes
        self._processes_seen: tuple[int, str] | None = None
        self._waiting: list[Sense] = []  # those that do not rest, and may wait for an answer
        self._wakers: set[str] = set()  # those that may want to see something between two looks
        for name in job.senses:
            self._begin(name)
            if not asking and hasattr(self._senses.get(name), "go_on"):
                del self._senses[name]
        self.sights: dict[str, Sight] = {}

    def _begin(self, name: str) -> None:
        """Make a sense. If that fails, as for a sense without a row, what it would see is unknown."""
        row = next((row for row in SENSES if row.name == name), None)
        try:
            if row is None:
                raise LookupError("this version has no such sense")  # noqa: TRY301 - told as whatever else is wrong with it
            module = f"costguard.readers.host.{row.module}"
            __import__(module)
            self._add(name, getattr(sys.modules[module], row.kind)(self._settings[name], self._place))
        except Exception as error:  # noqa: BLE001 - a bug of one sense: the others go on
            self._unusable[name] = _failure(error)

    def _add(self, name: str, sense: Sense) -> None:
        self._senses[name] = sense
        if hasattr(sense, "wakes"):
            self._wakers.add(name)

    def look(self, moment: Moment) -> bool:
        """Look with all senses; whether anything but the times of activity has changed."""
        self._processes.look(moment.boot)
        before, self._processes_seen = self._processes_seen, (self._processes.edition, self._processes.unknown)
        rested = self._rests if before == self._processes_seen else {}
        self._waiting = []
        changed = False
        for name in list(self._senses):
            if moment.boot >= rested.get(name, 0.0):
                changed |= self._look_with(name, moment)
        for name, why in self._unusable.items():
            changed |= self._take(name, Sight(unknown=why))
        self._processes.forget_arguments()
        return changed

    def _look_with(self, name: str, moment: Moment) -> bool:
        """Look with one sense; whether what it sees has changed."""
        sense = self._senses[name]
        try:
            sight = sense.look(moment, self._processes)
        except Exception as error:  # noqa: BLE001 - a bug of one sense: it begins anew, and the others go on
            del self._senses[name]
            self._begin(name)
            self._rests[name] = 0.0
            return self._take(name, Sight(unknown=_failure(error)))
        rests = self._rests[name] = getattr(sense, "rests_until", 0.0)
        if rests <= moment.boot and hasattr(sense, "filenos"):
            self._waiting.append(sense)
        return self._take(name, sight)

    def _take(self, name: str, sight: Sight) -> bool:
        before = self.sights.get(name)
        self.sights[name] = sight
        return before is None or (sight is not before and _lasting(sight) != _lasting(before))

    def waiting(self) -> dict[int, Callable[[Moment], None]]:
        """What senses wait for between two looks: a descriptor, and what to call when there is something to read."""
        if not self._waiting:
            return {}
        return {fd: sense.go_on for sense in self._waiting for fd in sense.filenos()}  # type: ignore[attr-defined]  # see `Sense`

    @property
    def wakes(self) -> float:
        """When a sense wants to see something between two looks, on the boot clock."""
        return min([self._senses[name].wakes for name in self._wakers if name in self._senses], default=NEVER)  # type: ignore[attr-defined]  # those that have it

    def between(self, moment: Moment) -> None:
        """Call the senses whose time has come."""
        for name in self._wakers & self._senses.keys():
            sense = self._senses[name]
            if sense.wakes <= moment.boot:  # type: ignore[attr-defined]  # these have it
                try:
                    sense.between(moment)  # type: ignore[attr-defined]  # whoever has the one has the other
                except Exception:  # noqa: BLE001 - a bug of one sense: it begins anew, and says so at the next look
                    self._begin(name)

    def told(self) -> dict[str, Sight]:
        """What was seen, as the guard is told of it: no text and no list is long."""
        return {name: _told(sight) for name, sight in self.sights.items()}


def _lasting(sight: Sight) -> tuple[object, ...]:
    """What makes one sight differ from another: all but the time of the last sign."""
    return (sight.unknown, sight.seen, [(one[:_LAST], one[_LAST + 1 :]) for one in sight.active])


def _told(sight: Sight) -> Sight:
    if not sight.active and len(sight.unknown) + len(sight.seen) <= WORDS:  # as most are
        return sight
    told = [
        Activity(one.who[:WORDS], one.what[:WORDS], one.since, one.last, one.lets_go[:WORDS], one.user[:WORDS])
        for one in sight.active[:ACTIVITIES_TOLD]
    ]
    if others := sight.active[ACTIVITIES_TOLD:]:
        last = max(others, key=lambda one: one.last)
        told.append(Activity(f"{len(others)} more", "are active", last.since, last.last, last.lets_go[:WORDS]))
    return Sight(tuple(told), sight.unknown[:WORDS], sight.seen[:WORDS])


def _failure(error: Exception) -> str:
    """Which error it was and where, without its message, which may quote what belongs to others."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f" in {os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}" if trace else ""
    return f"it failed ({type(error).__name__}{where})"


class Questions:
    """The guard's lines."""

    def __init__(self, source: int) -> None:
        self._source = source
        self._rest = b""
        self._others: set[int] = set()
        self._poll = select.poll()
        self._poll.register(source, select.POLLIN)

    def first(self) -> bytes:
        """The job; empty at the end of the input."""
        line = None
        while line is None:
            line = self.next(None, {})
        return line

    def next(self, seconds: float | None, others: dict[int, Callable[[Moment], None]]) -> bytes | None:
        """The next line, empty at the end; None when none came in time. Meanwhile ``others`` are heard."""
        if b"\n" not in self._rest:
            if others or self._others:
                self._wait_for(set(others))
            found = self._poll.poll(None if seconds is None else max(0.0, seconds * 1000.0))
            if not found:
                return None
            ready = [fd for fd, _ in found]
            for call in {others[fd] for fd in ready if fd in others}:
                call(now())
            if self._source not in ready:
                return None
            data = os.read(self._source, _LINE)
            if not data or len(self._rest) > _LINE:
                return b""
            self._rest += data
            if b"\n" not in self._rest:
                return None
        line, _, self._rest = self._rest.partition(b"\n")
        return line + b"\n"

    def _wait_for(self, others: set[int]) -> None:
        """Register each descriptor anew: its number may belong to another file by now."""
        for fd in self._others - others:
            self._poll.unregister(fd)
        for fd in others:
            self._poll.register(fd, select.POLLIN)
        self._others = others


def serve(senses: ActiveSenses, questions: Questions, write: Callable[[bytes], None]) -> None:
    """Answer until the end of the input."""
    asked: Question | None = None  # the question that is not answered yet
    due = 0.0
    planned = 0.0  # the next look in the old rhythm, which a new question keeps if it leaves enough time
    saving = False
    whole = 0  # the number of the last whole answer
    seen: dict[str, Sight] | None = None  # what had been seen then
    while True:
        moment = now(saving=saving)
        if asked is not None and moment.boot >= due:
            changed = senses.look(moment)
            due += asked.every
            planned = due
            if changed or asked.every <= 0.0 or due > asked.until:
                if asked.every <= 0.0 or senses.sights != seen:
                    write(to_line(HostAnswer(asked.read, senses.told())) + b"\n")
                    whole, seen = asked.read, senses.sights.copy()
                else:
                    write(to_line(HostAnswer(asked.read, whole)) + b"\n")
                asked = None
            elif due <= moment.boot:  # the process was stopped: missed looks are not made up for
                due = moment.boot + asked.every
        wakes = senses.wakes
        left = min(NEVER if asked is None else due, wakes) - moment.boot
        line = questions.next(None if left == NEVER else left, senses.waiting())
        if line is None:
            if wakes != NEVER:
                senses.between(now())
            continue
        if not line:
            return
        asked = from_line(Question, line)
        due, saving = now().boot, asked.saving
        if asked.every > 0.0 and due < planned <= due + asked.every:
            due = planned


def main() -> int:
    """Serve on standard input and output."""
    end_with_parent()
    questions = Questions(0)
    try:
        job = questions.first()
        if job:
            senses = ActiveSenses(from_line(HostJob, job))
            gc.freeze()  # what is loaded by now stays: the collector need not go through it again
            serve(senses, questions, pipe.write)
    except (BrokenPipeError, ValueError, KeyError, TypeError):  # the guard is gone, or what it writes is damaged
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
