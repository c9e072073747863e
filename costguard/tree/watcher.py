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
from costguard.host.ports import Ended, Instant, Line, Unwatched
from costguard.process.wire import from_line
from costguard.tree.decision import Decision, called, policy_of
from costguard.tree.jobs import Launched, WatcherReport, WatchJob
from costguard.tree.members import Followed
from costguard.tree.processes import named, send
from costguard.tree.speech import Speech
from costguard.tree.watcher_loop import WatcherLoop, serve

FOLLOW_SECONDS = 1.0
"""Between two looks at the tree."""

CONFIRM_SECONDS = 0.25
"""From the reading that ends an idle window to the one that must show the same: longer than the driver takes for a sample."""

_ROUNDING_SECONDS = 1e-3


class Watcher(WatcherLoop):
    """One watcher of one command's tree."""

    def __init__(self, job: WatchJob, words: int) -> None:
        followed = Followed(job.origin, marks=[job.mark], folders=[job.group] if job.group else [])
        super().__init__(followed, job.finish, words, Speech(2, stamped=job.debug), debug=job.debug)
        self._job = job
        self._decision = Decision()
        places = {"host": {"sysfs": job.sysfs, "devfs": job.devfs}}
        self._gpus = GpuSide(self._machine, places, self._decision.state, {}, self._trouble, detached=False)
        self._devices: dict[str, Device] = {}
        self._granted: Granted | None = None
        self._blocked = ""  # why nothing can be judged, however well the GPUs can be read
        self._said = WatcherReport("idle")  # the last word to the launcher about being able to judge
        self._told_other: set[tuple[int, int]] = set()
        self._launched: float | None = None
        self._reading = False
        self._next_look = 0.0
        self._rules = rules_of(policy_of(job.judgement, Granted(()), 0.0, 0.0))
        self._next_beat = boot_clock()  # the first reading finds out which GPUs there are, and judges nothing
        self._beat = 0.0
        self._started = self._aligned = self._counts = False

    def hear(self, line: bytes) -> None:
        """The launcher says when it began."""
        self._launched = from_line(Launched, line).at
        if self._started:
            self._go_on(boot_clock())

    def take(self, event: Line | Ended) -> None:
        """Take a line of the reader, or its end."""
        now = self._machine.clock()
        if isinstance(event, Line) and event.child == self._gpus.reader.child:
            answered = self._gpus.line(event.data, now.boot)
            if not self._gpus.reader.waiting and (self._reading or answered):
                self._tick(now)
        elif isinstance(event, Ended) and event.child == self._gpus.reader.child:
            self._gpus.reader.ended(event.code, now.boot)
            if self._reading:
                self._tick(now)

    def _trouble(self, _subject: str, message: str | Unwatched | None) -> None:
        """The reader's side says what is wrong as a whole; here each tick looks for that itself."""

    def turn(self) -> float:
        """Follow the tree, and ask for a reading at each beat."""
        now = self._machine.clock()
        if now.boot >= self._next_look:
            self._next_look = now.boot + FOLLOW_SECONDS
            self._follow()
        if self._reading:
            self._gpus.reader.late(now.boot)
            if not self._gpus.reader.waiting:
                self._tick(now)
        if now.boot >= self._next_beat:
            self._ask(now)
        return min(self._next_beat, self._next_look, self._gpus.reader.deadline)

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
            self.say(WatcherReport("idle", self._decision.because(self._job.judgement, seen, self._devices)))

    def _choose(self, seen: Observation) -> None:
        """Which GPUs the command may use is fixed from now on."""
        self._granted = granted(seen, list(self._devices.values()), os.environ)
        self._blocked = self._granted.why
        if self._granted.doubt and self._job.judgement.aggregate == "any":
            self._blocked = self._granted.doubt
        elif self._granted.doubt:
            self._speech.say(f"every GPU is watched: {self._granted.doubt}")

    def _tell_state(self, seen: Observation, *, answered: bool) -> None:
        """Tell the launcher once whether anything can be judged, and when that changes."""
        readable = any(isinstance(reading, Known) for reading in seen.readings)
        why = self._blocked
        if not why and not readable:
            why = self._gpus.reader.error or _unknown(seen, self._devices) or self._gpus.reader.failure
            if not answered and why == NOT_YET:
                return
        word = WatcherReport("unguarded", why) if why else WatcherReport("guarded", self._watched())
        if self._said.kind not in (word.kind, "guarded"):  # later holes are the engine's to tell
            self._said = word
            self.say(word)

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

    def _follow(self) -> None:
        """Follow the tree, and report at once the processes that this user cannot end."""
        for process in self._followed.look():
            if os.geteuid() != 0 and process.key not in self._told_other and send(process, 0) == "refused":
                self._told_other.add(process.key)
                self._speech.say(f"{named([process])} now belongs to another user: costguard cannot end it for you")


def _unknown(seen: Observation, devices: Mapping[str, Device]) -> str:
    """Why a GPU cannot be read; empty when each can."""
    for key, reading in zip(seen.gpus, seen.readings, strict=True):
        if isinstance(reading, Unknown):
            return f"{called(key, dict(devices))} cannot be read: {reading.reason}"
    return ""


def main() -> int:
    """Serve the launcher on standard input and output."""
    return serve(WatchJob, Watcher)


if __name__ == "__main__":
    sys.exit(main())
