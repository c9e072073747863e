"""The loop: ticks in, decisions out. It has no I/O of its own; everything with an effect is the `Host`'s.

One turn: ask the readers, wait for their answers or their deadline, step the engine, commit, start effects.
"""

import os
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from costguard.agent import journal
from costguard.agent.cloud_side import CloudSide
from costguard.agent.digest import digest
from costguard.agent.disk import Disk
from costguard.agent.gpu_side import GpuSide
from costguard.agent.heartbeat import Heartbeat
from costguard.agent.jitter import Jitter, share
from costguard.agent.memory import Memory, Readers, ground
from costguard.agent.preflight import Preflight
from costguard.agent.reader import Rhythm
from costguard.agent.recorder import Recorder
from costguard.agent.reload import Reload
from costguard.agent.report import report
from costguard.agent.requests import Requests, Said
from costguard.agent.tag_settings import changes
from costguard.agent.workers import Circumstances, Workers
from costguard.engine.effects import Abandon, Answer, Check, Confirm, Effect, Go, Leave, Prepare, Save, Tell
from costguard.engine.events import Began, Event, Outcome, Tick
from costguard.engine.machine import Step, step
from costguard.engine.narrate import STARTING, Sentence
from costguard.engine.observation import Observation, Unknown, Veto
from costguard.engine.policy import Policy
from costguard.engine.rules import rules_of
from costguard.engine.state import ACTING, CONFIRMING, WARNING, Core
from costguard.engine.turn import label
from costguard.host.files import Start
from costguard.host.ports import Ended, Host, HostEvent, Instant, Line, Request, Signal
from costguard.process.wire import to_line

LOG_EVERY = 60.0
"""A sentence that differs while the state is the same is logged at most so often, in seconds."""

LEAVE_WITHIN = 2.0
LAST_WORDS = 5.0
"""Seconds that a guard which ends waits for its files, and for messages that are on their way to people."""

KEPT = ("paths", "environment")
"""What a reload leaves as it was at the start of the process."""

BUGS_LIMIT = 10
BUGS_WITHIN = 86400.0
"""So many bugs survived within so many seconds, the process ends and the service manager starts another one."""

URGENT = frozenset((WARNING, ACTING, CONFIRMING))
"""Phases in which each reading is asked for."""

HOLE = 3.0
"""Intervals without a tick after which a new rhythm begins, where every second reading may stay unsaid: one that hangs is noticed within them."""

CALM = 6.0
"""Intervals: so far away the next decision must be for the reader to leave every second reading unsaid."""

EMPTY = Observation((), ())


def policy_from(config: Mapping[str, Any]) -> Policy:
    """The engine's policy out of the effective configuration."""
    fields: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in config["policy"].items()}
    return Policy(**fields)


class Part(Protocol):
    """What the guard does beside watching, by child processes."""

    @property
    def deadline(self) -> float:
        """When `run` must be called next."""

    def owns(self, child: int) -> bool:
        """Whether this child is one of its."""

    def run(self, now: Instant) -> None:
        """Do what is due, end what is late."""

    def take(self, event: Line | Ended, now: Instant) -> None:
        """What its child said, or its end."""


class Loop:
    """One agent on one host. ``run`` returns the exit code."""

    _next_tick: float  # from the begin of `run` on, as the next one
    _now: float  # the boot clock when it was read last, at the begin of a turn

    def __init__(self, host: Host, config: dict[str, Any], boot: Start) -> None:
        self.host = host
        self.config = config
        self.boot = boot
        self.configured = policy_from(config)
        self.workers = Workers(host, config, Jitter(boot.instance, attended=boot.attended))
        self.disk = Disk(host, config["paths"]["state"], boot.instance, self._trouble)
        self.history = Recorder(host, config["paths"]["state"], boot, self._trouble)
        self.troubles: dict[str, str] = {}  # what is wrong with the guard itself, by subject
        self.cloud = CloudSide(host, config, boot.instance, self._trouble)
        self.heartbeat = Heartbeat(host, config, share(boot.instance), self._trouble)
        self._hatch = (Veto("kernel parameter", boot.hatch, hatch=True),) if boot.hatch else ()
        self.seen = EMPTY
        self._requests = Requests(self)
        self.exit_code: int | None = None
        self.last_wall = host.clock().wall  # date of the last tick
        self._reading = False
        self._calm = False  # whether the last tick found the next decision far away
        self._due_at: float | None = None  # when something is due beside reader and tick; None: to be worked out
        self._logged: tuple[tuple[str, ...], float] = (("",), 0.0)
        self._logged_of: Core | None = None  # whose sentence is the logged one; another one at the least change
        self.preflight = Preflight()
        self._bugs: list[float] = []  # when each was survived
        self._arrived: deque[HostEvent] = deque()
        self._events: deque[Event] = deque()
        self._effects: deque[Effect] = deque()
        self._saving: set[str] = set()  # pre-stop hooks that run because of an announcement
        now = host.clock()
        self.memory = Memory(host, self.disk, config, self.configured, now.boot, self._trouble)
        found = self.memory.restore(boot, now.boot, self._remember)
        self.ruled = self.policy = self.cloud.milder(self.configured)
        # how the engine begins again, before all
        self._begin = deque(Began(now.boot, why, found.proven) for why in found.again)
        self._last = Step(found.state, (), Sentence(found.state, rules_of(self.policy), now.wall))
        self.eyes = GpuSide(host, config, found.state, found.handed, self._trouble, detached=found.detached)
        self._reload = Reload(host, self._trouble, self._adopt)
        self._parts: tuple[Part, ...] = (self.history, self.disk, self._reload, self.heartbeat)

    def _remember(self, tags: dict[str, Any]) -> Policy:
        self.cloud.remember(tags)
        return self.cloud.milder(self.configured)

    @property
    def last(self) -> Step:
        """The last step of the engine."""
        return self._last

    def ask(self, event: Event) -> None:
        """A wish of a person, for the engine to grant or refuse."""
        self._step(event)

    def status(self, *, private: bool = False) -> dict[str, Any]:
        """The decision, and how the agent itself is; ``private``: with a digest of all settings, for administrators."""
        wall = self.host.clock().wall
        decision = report(self.last, self.seen, self.policy, self.last_wall, self.eyes.found)
        agent = {
            "pid": os.getpid(),
            "version": self.config.get("version", ""),
            "state_dir": self.config["paths"]["state"],
            "runtime_dir": self.config["paths"]["runtime"],
            "source": self.config.get("source"),
            "origin": self.config.get("origin") or self.config.get("source") or "the built-in defaults",
            "instance": self.boot.instance,
            "interval": self.policy.interval,
            "cloud": {**self.cloud.facts, **self.cloud.told},
            "place": {"host": self.config["host"], "cloud": self.config.get("cloud", {})},
            "configured": self.configured._asdict(),
            "milder": changes(self.configured, self.ruled),
            "reader_restarts": max(0, self.eyes.reader.restarts),
            "reader": "answers" if self.eyes.reader.healthy else self.eyes.reader.error or self.eyes.reader.words,
            "unreaped": self.host.unreaped("nvml"),
            "troubles": dict(self.troubles),
            "ticked": self.last_wall,
            "now": wall,
        }
        if private:
            agent["digest"] = digest(self.config)
        return {**decision, "agent": agent}

    def flush(self) -> bool:
        """Have the history written; whether something is still under way."""
        return self.history.flush(self.host.clock().boot)

    def run(self) -> int:
        """Watch until told to end."""
        now = self.host.clock()
        for note in self.boot.notes:
            self.host.say(f"<4>{note}")
        self._next_tick = self._now = now.boot
        self.host.service("READY=1")
        while self.exit_code is None:
            try:
                while self._arrived:
                    self._handle(self._arrived.popleft())
                if self.exit_code is None:
                    self._arrived.extend(self._timers())
            except Exception as error:  # noqa: BLE001 - the loop's boundary: a bug must neither stop work nor the watch
                self._survive(error)
        self._leave()
        return self.exit_code

    # -- time ------------------------------------------------------------------------------------------------

    def _until(self) -> float:
        if self._due_at is None:
            parts = [part.deadline for part in self._parts]
            self._due_at = min(self.workers.deadline, self.cloud.deadline, *parts)
        reader = self.eyes.reader
        soonest = min(self._due_at, reader.deadline)
        return soonest if self._reading or reader.alone else min(soonest, self._next_tick)

    def _timers(self) -> Sequence[HostEvent]:
        """Do what is due, then wait for what comes."""
        self._heed_rhythm()
        until = self._until()
        waits = self._begin or (self._reading and not self.eyes.reader.waiting)  # what a bug left is behind a begin
        if waits or self._now >= until:
            self._due()
            self._due_at = None
            self._heed_rhythm()
            until = self._until()
        if self.exit_code is not None:
            return ()
        events = self.host.wait(until)
        if not events:
            self._now = self.host.clock().boot
        return events

    def _heed_rhythm(self) -> None:
        """The reader may come by itself while no countdown runs; else each reading is asked for, and closer.

        It may leave every second reading unsaid while the engine decides nothing in between.
        """
        reader = self.eyes.reader
        if not reader.alone:
            return
        core = self._last.state.core
        soon = core.unchanged_until < reader.deadline if reader.pairs else self._calm and not self.cloud.asks
        if soon or core.phase in URGENT or reader.every != self.policy.interval:
            reader.lapse()

    def _rhythm(self) -> Rhythm | None:
        """How the reader may come by itself after this question; what lies in the past is left out at both ends."""
        interval = self.policy.interval
        if self._last.state.core.phase in URGENT:
            return None
        return Rhythm(self._next_tick + interval, interval, self._calm and not self.cloud.asks)

    def _due(self) -> None:
        instant = self.host.clock()
        now = instant.boot
        while self._begin:
            self._step(self._begin.popleft()._replace(at=now))
        for outcome in self.workers.late(now):
            self._take(outcome)
        while (waited := self.workers.ripe(now)) is not None:
            self._take(self.workers.start(waited, now, self._circumstances()))
        self.cloud.run(instant)
        for part in self._parts:
            part.run(instant)
        reader = self.eyes.reader
        reader.late(now)  # also an answer that no tick waits for: the first of a new process
        if not self._reading and not reader.alone and now >= self._next_tick:
            self.cloud.ask(now)
            # what appears on the bus while a countdown runs must be seen before anything is released
            self.eyes.ask(now, look=self._last.state.core.phase in URGENT, then=self._rhythm())
            self._reading = reader.waiting
            if not self._reading:
                self._tick(self.host.clock())
        elif self._reading and not reader.waiting:
            self._tick(self.host.clock())

    def _tick(self, now: Instant) -> None:
        self._reading = False
        interval, before = self.policy.interval, self.seen
        if self.eyes.reader.alone and self.cloud.asks:  # else it was asked when the reader was
            self.cloud.ask(now.boot)
            self._due_at = None
        self.seen, devices = self.eyes.observe(now.boot, rules_of(self.policy))
        stood = self.eyes.stood
        if stood is not None:
            self._stood(stood, now, before)
        late = now.boot - self._next_tick
        if late >= (HOLE if self._calm else 1.0) * interval:  # after a hole (a suspend, a stall) begin a new rhythm
            self._next_tick = now.boot + interval
        elif late >= 0.0:  # an answer that no tick waited for comes between two beats
            self._next_tick += interval * (late // interval + 1.0)
        if devices is not None:
            self._step(devices)
        if vetoes := self._hatch + self.cloud.vetoes(now.boot):
            self.seen = self.seen._replace(vetoes=vetoes)
        self._step(Tick(now.boot, self.seen, now.wall, now.boot - now.mono, now.synced, stood))
        self._calm = self._last.state.core.unchanged_until > now.boot + CALM * interval
        if self.eyes.found:
            for finding in self.eyes.findings(now.boot):
                self._step(finding)
        self._beat(now.boot, now.wall)
        self.history.tick(now, self._last, self.seen, interval)
        self.host.service(f"WATCHDOG=1\nSTATUS={self._last.sentence}" if self._log(now.boot) else "WATCHDOG=1")
        self.last_wall = now.wall
        if self.memory.commit_due(now.boot):
            self._due_at = None
            self.memory.commit(self._last.state, now)

    def _stood(self, at: float, now: Instant, seen: Observation) -> None:
        """Count the tick that the reader left unsaid at that second, for it saw what was seen before."""
        ago = now.boot - at
        then = Instant(at, now.mono - ago, now.wall - ago, now.synced)
        self.history.tick(then, self._last, seen, self.policy.interval)

    def _beat(self, at: float, wall: float) -> None:
        """A sign of life, while every reader answers."""
        if not self.heartbeat.due(at):
            return
        self._due_at = None
        answering = self.eyes.answered and "nvml" not in self.troubles and "cloud" not in self.troubles
        facts = {"kind": "heartbeat", "instance": self.boot.instance, "state": self._last.sentence.word, "at": wall}
        self.heartbeat.tick(at, answering=answering, facts=facts)

    # -- the engine ------------------------------------------------------------------------------------------

    def _step(self, event: Event) -> None:
        """Step the engine and start what it asks for; what comes of that at once is its next event, not this one.

        After a bug the rest is still queued, and is done with the next event.
        """
        self._events.append(event)
        self._work()

    def _work(self) -> None:
        while self._effects or self._events:
            if self._effects:
                self._start(self._effects.popleft())
            else:
                self._advance(self._events.popleft())

    def _advance(self, event: Event) -> None:
        """One step of the engine, and the commit of what it remembers."""
        before = self._last.state.core
        self._last = step(self._last.state, event, self.policy)
        self._effects.extend(self._last.effects)
        core = self._last.state.core
        if core is not before:
            self._due_at = None
            self.history.note(event, before, self._last, self.host.clock().wall, self._readings)
        if isinstance(event, Outcome) and (found := self.preflight.heard(event, before)):
            self._events.append(found)
        if not self.memory.still(before, self._last.state, self.eyes.reader.handed.get("learnt")):
            self.memory.follow(before, self._last.state, self._readers(), told=isinstance(event, Outcome))

    def _readers(self) -> Readers:
        return Readers(dict(self.eyes.reader.handed), self.eyes.reader.detached, self.cloud.heard)

    def _start(self, effect: Effect) -> None:
        at = self.host.clock().boot
        outcome: Outcome | None = None
        match effect:
            case Tell():
                self.host.say(_PRIORITY[effect.level] + journal.line(effect, str(self._last.sentence)))
                self._logged = (self._last.sentence.key, at)
                seen = {"sentence": str(self._last.sentence), "readings": self._readings()}
                outcome = self.workers.tell(effect, at, {**seen, **self.cloud.told})
            case Check() | Prepare():
                outcome = self.workers.submit(effect, at, self._circumstances())
            case Confirm():
                outcome = self.workers.start(effect, at, self._circumstances())
            case Save():
                if self.config.get("hooks", {}).get("pre_stop"):
                    self._saving.add(effect.id)
                    outcome = self.workers.start(effect, at, self._circumstances())
            case Go():
                outcome = self.workers.go(effect, at)
            case Abandon():
                self.workers.abandon(effect.id)
            case Leave():
                self.exit_code = effect.code
            case Answer():
                lost = self.troubles.get("commitments")
                words = (
                    f"{effect.message}; NOT stored, so a restart of costguard loses it: {lost}"
                    if lost
                    else effect.message
                )
                self.host.answer(effect.client, to_line(Said(effect.done, words)))
        if outcome is not None:
            self._hear(outcome)

    def _circumstances(self) -> Circumstances:
        state, core = self._last.state, self._last.state.core
        quiet = [0.0 if state.tracks[i].busy else state.at - state.tracks[i].since for i in core.selection.judged]
        idle = (max if rules_of(self.policy).judges_any else min)(quiet, default=0.0)
        reason = core.incident.reason if core.incident else ""
        gpus = tuple([state.gpus[i] for i in core.selection.judged])
        return Circumstances(reason, str(self._last.sentence), idle, gpus, core.instance)

    def _readings(self) -> list[list[object]]:
        core = self._last.state.core
        return [
            [
                label(core, key),
                getattr(reading, "load", None),
                "; ".join(
                    filter(
                        None,
                        (self.eyes.note(key), reading.reason if isinstance(reading, Unknown) else reading.evidence),
                    )
                ),
            ]
            for key, reading in zip(self.seen.gpus, self.seen.readings, strict=True)
        ]

    # -- what happens ----------------------------------------------------------------------------------------

    def _handle(self, event: HostEvent) -> None:
        instant = self.host.clock()
        now = self._now = instant.boot
        if type(event) is Line and event.child == self.eyes.reader.child:
            answer = self.eyes.line(event.data, now)
            # the first answer of a new reader, which no tick waited for, reaches back over the hole: not to be lost
            if not self.eyes.reader.waiting and (self._reading or answer):
                self._tick(instant)
            return
        self._due_at = None
        match event:
            case Line() | Ended():
                self._child(event, instant)
            case Request():
                if failed := self._requests.serve(event):
                    self._trouble("request", failed)
            case Signal():
                self._signal(event.name)

    def _child(self, event: Line | Ended, now: Instant) -> None:
        """What a child said that is not the reader's answer, or its end."""
        if isinstance(event, Ended) and event.child == self.eyes.reader.child:
            self.eyes.reader.ended(event.code, now.boot)
        elif self.cloud.owns(event.child):
            for said in self.cloud.take(event, now):
                self._step(said)
            self._heed()
        elif self.workers.owns(event.child):
            self._take(self.workers.take(event, now.boot))
            self.cloud.learn(self.workers.price)
            self._price()
        else:
            for part in self._parts:
                if part.owns(event.child):
                    part.take(event, now)

    def _take(self, outcome: Outcome | None) -> None:
        if outcome is not None:
            self._hear(outcome)
            self._work()

    def _hear(self, outcome: Outcome) -> None:
        """Queue what became of an effect."""
        if outcome.effect in self._saving:
            self._saving.discard(outcome.effect)
            self._trouble("hook", outcome.detail if outcome.status == "failed" else None)
        self._events.append(outcome)

    def _signal(self, name: str) -> None:
        if name == "HUP":
            self.reload()
        else:
            self.exit_code = 0

    def reload(self) -> str:
        """Have the configuration checked; words for whoever asked."""
        return self._reload.begin(self.config)

    def _adopt(self, effective: dict[str, Any]) -> None:
        """Work under another configuration from now on."""
        before = self.config
        self.config = {**effective, **{name: before[name] for name in KEPT if name in before}}
        self.configured = policy_from(effective)
        self.workers.config = self.config
        for part in (self.cloud, self.heartbeat, self.eyes):
            part.adopt(self.config)
        known, self.memory.ground = self.memory.ground, ground(self.config)
        self._rule(self.cloud.milder(self.configured), "reload", proven=known == self.memory.ground)

    def _heed(self) -> None:
        """What the cloud said: its price, and settings that tags make milder."""
        ruled = self.cloud.milder(self.configured)
        if ruled != self.ruled:
            self.host.say("<5>tags of the machine change settings: a full window and warning under them")
            self._rule(ruled, "tags")
        self._price()

    def _price(self) -> None:
        """Count with the best price that is known; what is saved, and compared at a restart, stays without."""
        priced = self.cloud.priced(self.ruled)
        if priced != self.policy:  # else the same object stays, and what was worked out from it
            self.policy = priced

    def _rule(self, policy: Policy, why: str, *, proven: bool = True) -> None:
        """Go on under this policy, as after a reload; ``proven``: plans rest on nothing else than before."""
        self.ruled = self.policy = policy
        self.memory.adopt(policy)
        self.workers.abandon_all("check")  # under the rules of before: the engine asks anew for what still counts
        self._step(Began(self.host.clock().boot, why, proven))

    def drive(self, *, attach: bool) -> str:
        """Take up the driver again, or let go of it so that it can be exchanged; words for whoever asked."""
        if attach == (not self.eyes.reader.detached):
            return "the driver was not let go" if attach else "the driver is let go already"
        if attach:
            self.eyes.attach()
        else:
            self.eyes.reader.detach()
        self.memory.save(self._last.state, self._readers())
        return (
            "the driver is taken up again"
            if attach
            else "the driver is let go; no GPU can be read until `costguard attach`"
        )

    def _trouble(self, subject: str, words: str | None) -> None:
        """Say once that something of the guard itself fails, and once that it works again."""
        before = self.troubles.get(subject)
        if words and words != before:
            self.troubles[subject] = words
            self.host.say(f"<3>{words}")
        elif not words and before:
            del self.troubles[subject]
            self.host.say(f"<5>{journal.again(subject)}")

    def _log(self, at: float) -> bool:
        """Log the sentence when it is another one; True when it was logged."""
        sentence, state = self._last.sentence, self._last.state
        key, logged_at = self._logged
        if state.core is self._logged_of and (key[0] != STARTING or sentence.word == STARTING):
            return False  # as most ticks: nothing but the time is new, and only a start is over by itself
        self._logged_of = state.core if sentence.key == key else None
        if sentence.key == key or (sentence.key[0] == key[0] and at - logged_at < LOG_EVERY):
            return False
        self._logged = (sentence.key, at)
        self.host.say(f"<6>{sentence}")
        return True

    # -- beginning and end -----------------------------------------------------------------------------------

    def _survive(self, error: Exception) -> None:
        """A bug: told. What waits to act is ended, and the engine begins again: a stop can only come later by that."""
        now = self.host.clock()
        self._trouble("bug", journal.bug(error))
        self._bugs = [at for at in self._bugs if now.boot - at < BUGS_WITHIN] + [now.boot]
        if len(self._bugs) >= BUGS_LIMIT:
            self.host.save(b"{}")  # should the state be what the bug needs, the next process begins without it
            raise error
        self.workers.abandon_all("prepare")  # the others cannot act, and the engine waits for what they find
        self._begin.append(Began(now.boot, "reload"))
        self._next_tick = now.boot + self.policy.interval

    def _leave(self) -> None:
        """A clean end: what is remembered is saved, what waits is let go, what acts finishes by itself."""
        self.host.service("STOPPING=1")
        now = self.host.clock()
        self.memory.save(self._last.state, self._readers())
        self.memory.commit(self._last.state, now)
        self.eyes.reader.stop()
        self.cloud.stop()
        self.workers.abandon_all("prepare", "check", "confirm")
        self._reload.abandon()
        self.heartbeat.stop()
        self.history.close(now)
        hurry = False
        while not hurry and (until := self._worth_waiting(now.boot)):
            for event in self.host.wait(until):
                if isinstance(event, Line | Ended):
                    self._handle(event)
                hurry = hurry or isinstance(event, Signal)  # asked a second time
            self.history.run(now)
        self.workers.abandon_all("tell", "prepare", "check", "confirm")  # what came in meanwhile may have begun some
        self.host.say("<5>stopped; nothing watches this machine now")

    def _worth_waiting(self, since: float) -> float:
        """Until when what is under way gets its time; 0 when there is nothing, or the time is over."""
        limits = [LEAVE_WITHIN] if self.disk.pending or self.history.pending else []
        limits += [LAST_WORDS] if self.workers.telling else []
        until = since + max(limits, default=0.0)
        return until if until > self.host.clock().boot else 0.0


_PRIORITY = {"info": "<5>", "warning": "<4>", "critical": "<2>"}
