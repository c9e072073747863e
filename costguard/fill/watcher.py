"""The launcher's child that looks who is on the GPUs, and tells each look; where the launcher is killed, it ends its trees."""

import os
import sys
import time

from costguard.agent import decode
from costguard.agent.granted import granted
from costguard.agent.reader import ReaderProcess
from costguard.clocks import boot_clock
from costguard.engine.observation import Device, Observation, Reading
from costguard.fill import NAME
from costguard.fill.jobs import FillWatchJob, GpuView, StartedRun, State, View
from costguard.fill.tenants import Tenants, held_by, judge, namespace_trouble
from costguard.host.ports import Ended, Line
from costguard.process.wire import from_line
from costguard.readers.host.processes import Processes
from costguard.readers.host.sense import Moment, SensePaths
from costguard.readers.host.terminals import Terminals
from costguard.readers.nvml.job import NvmlJob
from costguard.tree.ending import end_orphaned
from costguard.tree.members import Followed
from costguard.tree.processes import find
from costguard.tree.speech import Speech
from costguard.tree.watcher_loop import WatcherLoop, serve


class FillWatcher(WatcherLoop):
    """One watcher of all background work."""

    def __init__(self, job: FillWatchJob, words: int) -> None:
        speech = Speech(2, stamped="JOURNAL_STREAM" not in os.environ, name=NAME)
        super().__init__(Followed(job.origin), job.finish, words, speech)
        self._job = job
        self._reader = ReaderProcess(self._machine, "nvml", self._reader_job)
        self._tenants = Tenants(job.look.ignore, self._followed.members)
        self._people = TerminalUsers(job.look.users_for, job.look.ignore_users)
        self._trouble = namespace_trouble()
        self._devices: dict[str, Device] = {}
        self._granted: tuple[str, ...] | None = None
        self._why_none = ""
        self._next = boot_clock()
        self._asked = False
        self._crowded = False  # whether somebody is where our own work is

    def _reader_job(self) -> NvmlJob:
        look = self._job.look
        return NvmlJob(
            sysfs=look.sysfs, devfs=look.devfs, **self._reader.handover, known=self._granted or (), holders=True
        )

    def hear(self, line: bytes) -> None:
        """The launcher says what it started."""
        ran = from_line(StartedRun, line)
        self._followed.marks.add(ran.mark)
        self._followed.folders = {one for one in (*self._followed.folders, ran.folder) if one and os.path.isdir(one)}

    def turn(self) -> float:
        """Ask the reader who is on the GPUs, at each interval."""
        now = boot_clock()
        if self._asked:
            self._reader.late(now)
            if not self._reader.waiting:
                self._blind()
        if now >= self._next:
            self._next += self._job.look.interval * ((now - self._next) // self._job.look.interval + 1.0)
            if not self._asked:
                self._followed.look()
                self._reader.ask(now)
                self._asked = self._reader.waiting
                if not self._asked:
                    self._blind()
        return min(self._next, self._reader.deadline)

    def take(self, event: Line | Ended) -> None:
        """Take a line of the reader, or its end."""
        now = boot_clock()
        if isinstance(event, Line) and event.child == self._reader.child:
            answer = self._reader.line(event.data, now)
            if answer is not None:
                self._asked = False
                self._crowded = False
                self.say(self._view(answer))
                self._act_for_who_stands()
            elif self._asked and not self._reader.waiting:
                self._blind()
        elif isinstance(event, Ended) and event.child == self._reader.child:
            self._reader.ended(event.code, now)
            if self._asked:
                self._blind()

    def _act_for_who_stands(self) -> None:
        """A launcher that is stopped makes room for nobody."""
        launcher = find(self._job.origin.launcher)
        if self._crowded and launcher is not None and launcher.stopped:
            end_orphaned(self._followed, self._job.finish, self._speech.say, "the launcher is stopped")

    def _blind(self) -> None:
        """Nothing can be seen in this look."""
        self._asked = False
        if self._reader.child is None or self._reader.error:
            self.say(View(users=self._people.look(), error=self._reader.error or self._reader.failure))

    def _view(self, answer: dict[str, object]) -> View:
        """An answer of the reader as one look."""
        try:
            keys, readings = decode.readings(answer)
            if "info" in answer:
                self._devices |= {device.key: device for device in decode.devices(answer)}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            return View(users=self._people.look(), error=f"malformed answer from the reader ({error})")
        if answer.get("error"):
            return View(users=self._people.look(), error=str(answer["error"]))
        if not self._granted:
            self._choose(Observation(keys, readings))
        if not self._granted:
            return View(users=self._people.look(), error=self._why_none)
        seen = dict(zip(keys, readings, strict=True))
        self._tenants.look(self._followed.look())
        views = [self._gpu(key, seen[key], answer) for key in self._granted if key in seen]
        return View(tuple(views), self._people.look())

    def _choose(self, seen: Observation) -> None:
        """Which GPUs may be used is fixed from now on. Where it is in doubt which they are, none may."""
        found = granted(seen, list(self._devices.values()), os.environ)
        self._granted = () if found.doubt else found.keys
        self._why_none = found.doubt or found.why

    def _gpu(self, key: str, reading: Reading, answer: dict[str, object]) -> GpuView:
        device = self._devices.get(key) or Device(key)
        state: State = "unknown"
        why = self._trouble
        if not why:
            held = held_by(answer, key)
            state, why = judge(held, reading, self._job.look, self._tenants.known)
            own = any(self._tenants.known(pid).kind == "own" for pid in held.pids or ())
            self._crowded = self._crowded or (state == "taken" and own)
        if state == "free" and self._people.unknown:
            state, why = "unknown", self._people.unknown
        return GpuView(key, device.uuid, -1 if device.number is None else device.number, state, why)


class TerminalUsers:
    """Who is at a terminal of this machine, where that is a reason to yield; ``unknown``: why that cannot be seen."""

    def __init__(self, seconds: float, ignored: tuple[str, ...]) -> None:
        place = SensePaths()
        settings = {"quiet_for": seconds, "users": (), "ignore_users": ignored}
        self._sense = Terminals(settings, place) if seconds else None
        self._processes = Processes(place)
        self.unknown = ""

    def look(self) -> str:
        """Whoever typed lately, and where; empty for nobody."""
        if self._sense is None:
            return ""
        now = Moment(boot_clock(), time.time())
        self._processes.look(now.boot)
        sight = self._sense.look(now, self._processes)
        self.unknown = f"who is at a terminal cannot be seen: {sight.unknown}" if sight.unknown else ""
        return ", ".join(sorted({one.who for one in sight.active})[:3])


def main() -> int:
    """Serve the launcher on standard input and output."""
    return serve(FillWatchJob, FillWatcher)


if __name__ == "__main__":
    sys.exit(main())
