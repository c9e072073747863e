"""The launcher's child that looks at the GPUs and judges them; where the launcher is killed, it ends the tree.

It is started anew when it dies. A new one begins with an empty window, so a verdict can only come later for it.
"""

import os
import sys
from collections.abc import Mapping

from costguard.agent.gpu_side import GpuSide
from costguard.agent.granted import Granted, granted
from costguard.agent.reader import NOT_YET
from costguard.clocks import boot_clock
from costguard.engine import Device, Known, Observation, Tick, Unknown
from costguard.engine.rules import rules_of
from costguard.engine.words import spell
from costguard.host.poller import READ, Poller
from costguard.host.ports import Ended, HostEvent, Instant, Line
from costguard.process.wire import from_line, to_line
from costguard.tree.decision import Decision, called, policy_of
from costguard.tree.ending import end_orphaned
from costguard.tree.jobs import Launched, WatchJob, Word
from costguard.tree.machine import Pulse, ReaderPorts, first_line
from costguard.tree.members import Followed, put_on, watcher_mark
from costguard.tree.processes import named, send
from costguard.tree.speech import Speech, fill_standard

FOLLOW_SECONDS = 1.0
"""Between two looks at the tree."""

CONFIRM_SECONDS = 0.25
"""From the reading that ends an idle window to the one that must show the same: longer than the driver takes for a sample."""

LONGEST_NAP_SECONDS = 0.5
"""The end of the reader is seen within that time."""

_LINE = 1 << 20
_ROUNDING_SECONDS = 1e-3


class Watcher:
    """One watcher; ``lines`` are those that its launcher wrote, ``words`` is where its own go."""

    def __init__(self, job: WatchJob, words: int, speech: Speech) -> None:
        self._job, self._words, self._speech = job, words, speech
        self._poller = Poller()
        self._machine = ReaderPorts(self._poller, speech, debug=job.debug)
        self._decision = Decision()
        places = {"host": {"sysfs": job.sysfs, "devfs": job.devfs}}
        self._gpus = GpuSide(self._machine, places, self._decision.state, {}, self._trouble, detached=False)
        self._pulse = Pulse(words)
        self._followed = Followed(job.origin, marks=[job.mark], folders=[job.group] if job.group else [])
        self._devices: dict[str, Device] = {}
        self._granted: Granted | None = None
        self._blocked = ""  # why nothing can be judged, however well the GPUs can be read
        self._said = Word("idle")  # the last word to the launcher about being able to judge
        self._told_other: set[tuple[int, int]] = set()
        self._launched: float | None = None
        self._reading = False
        self._next_look = 0.0
        self._rules = rules_of(policy_of(job.judgement, Granted(()), 0.0, 0.0))
        self._next_beat = boot_clock()  # the first reading finds out which GPUs there are, and judges nothing
        self._beat = 0.0
        self._started = self._aligned = self._counts = False
        self._input = b""
        self._gone = False  # whether the launcher is

    def run(self) -> int:
        """Watch until the launcher ends this process, or has ended itself."""
        os.set_blocking(0, False)
        os.set_blocking(self._words, False)  # a launcher that stands still reads nothing
        self._poller.add(0, READ, self._heard)
        while not self._gone:
            now = self._machine.clock()
            self._pulse.beat(now.mono)
            self._turn(now)
            events: list[HostEvent] = []
            due = min(self._next_beat, self._next_look, self._gpus.reader.deadline)
            self._poller.poll(min(max(0.0, due - boot_clock()), LONGEST_NAP_SECONDS), events)
            self._machine.reap(events)
            for event in events:
                self._take(event)
        self._end_tree()
        return 0

    # -- what comes ------------------------------------------------------------------------------------------

    def _heard(self, fd: int, _events: list[HostEvent]) -> None:
        """The launcher says when it began; the end of the pipe is the end of the launcher."""
        try:
            data = os.read(fd, _LINE)
        except BlockingIOError:
            return
        self._gone = not data
        self._input += data
        while b"\n" in self._input:
            line, _, self._input = self._input.partition(b"\n")
            self._launched = from_line(Launched, line).at
            if self._started:
                self._go_on(boot_clock())

    def _take(self, event: HostEvent) -> None:
        now = self._machine.clock()
        if isinstance(event, Line) and event.child == self._gpus.reader.child:
            answered = self._gpus.line(event.data, now.boot)
            if not self._gpus.reader.waiting and (self._reading or answered):
                self._tick(now)
        elif isinstance(event, Ended) and event.child == self._gpus.reader.child:
            self._gpus.reader.ended(event.code, now.boot)
            if self._reading:
                self._tick(now)

    def _trouble(self, _subject: str, message: str | None) -> None:
        """The reader's side says what is wrong as a whole; here each tick looks for that itself."""

    # -- what is due -----------------------------------------------------------------------------------------

    def _turn(self, now: Instant) -> None:
        if now.boot >= self._next_look:
            self._next_look = now.boot + FOLLOW_SECONDS
            self._follow()
        if self._reading:
            self._gpus.reader.late(now.boot)
            if not self._gpus.reader.waiting:
                self._tick(now)
        if now.boot >= self._next_beat:
            self._ask(now)

    def _ask(self, now: Instant) -> None:
        """At a beat: ask for a reading, unless one is under way (a driver starts slowly) or this process stood still."""
        beat, counts = self._next_beat, self._aligned
        self._started = True
        self._go_on(now.boot)
        self._show_delay(beat)
        if self._reading or (counts and now.boot - beat > self._job.judgement.interval / 2):
            return
        self._beat, self._counts = beat, counts
        self._gpus.ask(now.boot, look=self._decision.urgent)
        self._reading = self._gpus.reader.waiting
        if not self._reading:
            self._tick(now)

    def _go_on(self, now: float) -> None:
        """To the next beat after the launch, also in a watcher that was started later."""
        every = self._job.judgement.interval
        self._aligned = self._launched is not None
        start = now if self._launched is None else self._launched
        self._next_beat = start + every * ((now - start) // every + 1.0)

    def _tick(self, now: Instant) -> None:
        self._reading = False
        answered = self._gpus.answered
        seen, met = self._gpus.observe(now.boot, self._rules)
        if met is not None:
            self._devices = {device.key: device for device in met.devices}
        if self._granted is None and answered and seen.gpus:
            self._choose(seen)
        self._tell_state(seen, answered=answered)
        if not self._counts or self._granted is None or self._blocked or self._launched is None:
            return
        if not self._decision.begun:
            self._decision.begin(policy_of(self._job.judgement, self._granted, self._launched, self._beat))
        self._show(seen)
        self._judge(seen, now)

    def _judge(self, seen: Observation, now: Instant) -> None:
        at = max(self._beat, self._decision.state.at)
        idle, told = self._decision.take(Tick(at, seen, now.wall, now.boot - now.mono, now.synced))
        for tell in told:
            if tell.kind.startswith("unknown") and tell.kind != "unknown_recovered":
                self._speech.say(f"{_unknown(seen, self._devices)}; what is unknown is never idle")
        if self._decision.urgent:
            self._next_beat = min(self._next_beat, now.boot + CONFIRM_SECONDS)
        if idle:
            self._say(Word("idle", self._decision.because(self._job.judgement, seen, self._devices)))

    def _choose(self, seen: Observation) -> None:
        """Which GPUs the command may use is fixed from now on."""
        self._granted = granted(seen, list(self._devices.values()), os.environ)
        self._blocked = self._granted.why
        if self._granted.doubt and self._job.judgement.aggregate == "any":
            self._blocked = self._granted.doubt
        elif self._granted.doubt:
            self._speech.say(f"every GPU is watched: {self._granted.doubt}")

    # -- what is told ----------------------------------------------------------------------------------------

    def _tell_state(self, seen: Observation, *, answered: bool) -> None:
        """Tell the launcher once whether anything can be judged, and when that changes."""
        readable = any(isinstance(reading, Known) for reading in seen.readings)
        why = self._blocked
        if not why and not readable:
            why = self._gpus.reader.error or _unknown(seen, self._devices) or self._gpus.reader.words
            if not answered and why == NOT_YET:
                return
        word = Word("unguarded", why) if why else Word("guarded", self._watched())
        if self._said.kind not in (word.kind, "guarded"):  # later holes are the engine's to tell
            self._said = word
            self._say(word)

    def _watched(self) -> str:
        keys = self._granted.keys if self._granted is not None else ()
        return ", ".join([called(key, self._devices) for key in keys])

    def _delay_left(self, beat: float) -> float:
        return self._job.judgement.delay - (beat - self._launched) if self._launched is not None else 0.0

    def _show_delay(self, beat: float) -> None:
        """For those who look closely: when the first reading counts."""
        left = self._delay_left(beat)
        if self._job.debug and self._aligned and left > _ROUNDING_SECONDS and self._launched != beat:
            self._speech.say(f"delay: {spell(round(left, 3))} left")

    def _show(self, seen: Observation) -> None:
        """Each reading that counts, for those who look closely."""
        granted_keys = self._granted.keys if self._granted is not None else ()
        if not self._job.debug or self._decision.urgent or self._delay_left(self._beat) > _ROUNDING_SECONDS:
            return
        for key, reading in zip(seen.gpus, seen.readings, strict=True):
            if key in granted_keys:
                text = f"{reading.load:.0%}" if isinstance(reading, Known) else f"unknown: {reading.reason}"
                self._speech.say(f"{called(key, self._devices)} {text}")

    def _say(self, word: Word) -> None:
        data = to_line(word) + b"\n"
        try:
            os.write(self._words, data)
        except OSError:
            return  # the launcher is gone, which the other pipe tells

    # -- the tree --------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        """Follow the tree, and tell at once of whom this user could not end."""
        for process in self._followed.look():
            if os.geteuid() != 0 and process.key not in self._told_other and send(process, 0) == "refused":
                self._told_other.add(process.key)
                self._speech.say(f"{named([process])} now belongs to another user: costguard cannot end it for you")

    def _end_tree(self) -> None:
        """The launcher was killed: nobody else can end what it started."""
        end_orphaned(self._followed, self._job.finish, self._speech.say)
        self._machine.close()


def _unknown(seen: Observation, devices: Mapping[str, Device]) -> str:
    """Why a GPU cannot be read; empty when each can."""
    for key, reading in zip(seen.gpus, seen.readings, strict=True):
        if isinstance(reading, Unknown):
            return f"{called(key, dict(devices))} cannot be read: {reading.reason}"
    return ""


def main() -> int:
    """Serve the launcher on standard input and output."""
    os.closerange(3, 1 << 20)  # the caller's files are the command's and the launcher's
    fill_standard(inheritable=True)
    line = first_line()
    if not line:
        return 0
    job = from_line(WatchJob, line)
    put_on(watcher_mark(job.origin.launcher, job.origin.born))
    words = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)
    return Watcher(job, words, Speech(2, stamped=job.debug)).run()


if __name__ == "__main__":
    sys.exit(main())
