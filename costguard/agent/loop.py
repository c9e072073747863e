"""The loop: ticks in, decisions out. It has no I/O of its own; everything with an effect is the `Host`'s.

One turn: ask the readers, wait for their answers or their deadline, step the engine, commit, start effects.
"""

import os
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from costguard.agent import task_words
from costguard.agent.circumstances import Circumstances, circumstances_of
from costguard.agent.cloud_side import CloudSide
from costguard.agent.config_checksum import checksum
from costguard.agent.disk import CommitmentWriter
from costguard.agent.gpu_side import GpuSide
from costguard.agent.heartbeat import Heartbeat
from costguard.agent.hooks import HookRunner
from costguard.agent.host_side import HostSide
from costguard.agent.jitter import Jitter, jitter_of
from costguard.agent.journal import Journal, bug
from costguard.agent.leaving import LastWait
from costguard.agent.memory import Memory, SavedParts, plan_basis
from costguard.agent.preflight import Preflight
from costguard.agent.reader import StreamPlan
from costguard.agent.recorder import Recorder
from costguard.agent.reload import Reload
from costguard.agent.report import report
from costguard.agent.requests import Requests
from costguard.agent.summary import SummaryPart
from costguard.agent.tag_settings import changes
from costguard.agent.task import Part
from costguard.agent.workers import Workers
from costguard.engine.effects import Abandon, Answer, Check, Confirm, Effect, Go, Leave, Prepare, Save, Tell
from costguard.engine.events import Began, Event, Leaving, Outcome, Tick
from costguard.engine.machine import Step, step
from costguard.engine.narrate import Sentence
from costguard.engine.observation import Observation, Unknown, Veto
from costguard.engine.obstacles import forbidden
from costguard.engine.policy import Policy
from costguard.engine.pre_stop_hook import hook_works
from costguard.engine.rules import highest_threshold, rules_of
from costguard.engine.state import ACTING, CONFIRMING, WARNING
from costguard.engine.turn import label
from costguard.engine.wording import wording_of
from costguard.host.control import Reply
from costguard.host.files import Start
from costguard.host.ports import Ended, Host, HostEvent, Instant, Line, Request, Signal
from costguard.process.wire import to_line

FIXED_AT_START = ("paths", "environment", "guarded")
"""What a reload leaves as it was at the start of the process."""

CLOCK_SET_WITHIN_SECONDS = 3600.0
LEASE_WAITS = (
    "the clock is not synchronised, so the lease does not count: nothing stops the machine on that date (`timedatectl`)"
)
"""Said when nothing has set the clock this long after the boot."""

BUGS_LIMIT = 10
BUGS_WITHIN_SECONDS = 86400.0
"""After this many bugs in that time the process ends, and the service manager starts another one."""

URGENT = frozenset((WARNING, ACTING, CONFIRMING))
"""Phases in which the guard asks for each reading; in the others the reader may stream."""

HOLE_INTERVALS = 3.0
"""After this many intervals without a tick a new rhythm begins, where the reader may skip every second answer; a hung reader is noticed sooner."""

CALM_INTERVALS = 6.0
"""The next decision must be this many intervals away for the reader to skip every second answer."""

BUSY_TICKS_PER_LOOK = 3
"""While a GPU works, the senses look at every third tick: they decide nothing then, and the work needs the processors."""

EMPTY = Observation((), ())


def policy_from(config: Mapping[str, Any]) -> Policy:
    """The engine's policy out of the effective configuration."""
    fields: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in config["policy"].items()}
    return Policy(**fields)


class Loop:
    """One agent on one host. ``run`` returns the exit code."""

    _next_tick: float  # set by `run`, as the next one
    _now: float  # the boot clock as last read, at the beginning of a turn

    def __init__(self, host: Host, config: dict[str, Any], boot: Start) -> None:
        self.host = host
        self.config = config
        self.boot = boot
        self.journal = Journal(host)
        self.configured = policy_from(config)
        self.disk = CommitmentWriter(host, config["paths"]["state"], boot.instance, self.journal.trouble)
        self.history = Recorder(host, config["paths"]["state"], boot, self.journal.trouble)
        jitter = Jitter(boot.instance, attended=boot.attended)
        self.workers = Workers(host, config, jitter, self.history.delivery, boot.boot_id, boot.instance)
        self.cloud = CloudSide(host, config, boot.instance, self.journal.trouble)
        self.host_side = HostSide(host, config, self.journal.trouble)
        self.journal.trouble("channels", self.config.get("unaddressed"))
        self.heartbeat = Heartbeat(host, config, jitter_of(boot.instance), self.journal.trouble)
        self._escape_hatch = (Veto("kernel parameter", boot.hatch, hatch=True),) if boot.hatch else ()
        self.seen = EMPTY
        self._requests = Requests(self)
        self.exit_code: int | None = None
        self.last_wall = host.clock().wall  # date of the last tick
        self._reading = False
        self._stream_policy: Policy | None = None  # the policy that the reader's stream was planned under
        self._calm = False  # whether the next decision was far away at the last tick
        self._due_at: float | None = None  # when the next thing besides reader and tick is due; None: to be computed
        self.preflight = Preflight()
        self._bugs: list[float] = []  # when each survived bug was
        self._arrived: deque[HostEvent] = deque()
        self._events: deque[Event] = deque()
        self._effects: deque[Effect] = deque()
        self._saving: set[str] = set()  # pre-stop hooks that run because of a cloud notice
        self.memory = Memory(host, self.disk, config, self.configured, host.clock().boot, self.journal.trouble)
        self._restore()
        self._reload = Reload(host, self.journal.trouble, self._adopt)
        self.summary = SummaryPart(
            host, config, jitter_of(boot.instance), self.journal.trouble,
            write=self.workers.message, record=self.history.delivery, facts=self._message_facts, flush=self.flush,
            repeat=self.workers.repeat,
        )  # fmt: skip
        self._parts: tuple[Part[Any], ...] = (
            self.history,
            self.disk,
            self._reload,
            self.heartbeat,
            self.summary,
            self.hooks,
        )

    def _restore(self) -> None:
        """Go on where an earlier process of this boot ended, or begin afresh."""
        host, config, boot, now = self.host, self.config, self.boot, self.host.clock()
        saved = self.memory.restore(boot, now.boot, self._remember)
        parts = saved.parts
        if saved.fresh_starts:
            self.workers.resume(parts.told, now.boot)
        else:
            self.workers.begin(now.boot)
        self.relaxed = self.policy = self.cloud.relaxed(self.configured)
        # the first events of the engine, before any other
        self._fresh_starts = deque(Began(now.boot, why, saved.proven) for why in saved.fresh_starts)
        self._last = Step(saved.state, (), Sentence(saved.state, rules_of(self.policy), now.wall))
        self.gpu_side = GpuSide(
            host,
            config,
            saved.state,
            parts.handover,
            self.journal.trouble,
            detached=parts.detached,
            told=parts.found,
        )
        self.hooks = HookRunner(
            host, config, self.journal.trouble, self.history.hook, self._remark, saved.state.core, parts.hooks
        )
        if not saved.fresh_starts:
            self.hooks.booted(boot.boot_id, Circumstances(instance=boot.instance))

    def _remember(self, tags: object) -> Policy:
        self.cloud.remember(tags)
        return self.cloud.relaxed(self.configured)

    @property
    def last(self) -> Step:
        """The last step of the engine."""
        return self._last

    def ask(self, event: Event) -> None:
        """Hand a request to the engine, which answers it."""
        self._step(event)

    def status(self, *, private: bool = False) -> dict[str, Any]:
        """The decision, and the agent itself; ``private``: with a digest of all settings, for administrators."""
        wall = self.host.clock().wall
        decision = report(self.last, self.seen, self.policy, self.last_wall, self.gpu_side.findings_by_gpu)
        agent = {
            "pid": os.getpid(),
            "version": self.config.get("version", ""),
            "state_dir": self.config["paths"]["state"],
            "runtime_dir": self.config["paths"]["runtime"],
            "source": self.config.get("source"),
            "origin": self.config.get("origin") or self.config.get("source") or "the built-in defaults",
            "instance": self.boot.instance,
            "task": task_words.in_status(self.config),
            "interval": self.policy.interval,
            "cloud": {**self.cloud.facts, **self.cloud.message_facts},
            "place": {"host": self.config["host"], "cloud": self.config.get("cloud", {})},
            "configured": self.configured._asdict(),
            "milder": changes(self.configured, self.relaxed),
            "reader_restarts": max(0, self.gpu_side.reader.restarts),
            "reader": "answers"
            if self.gpu_side.reader.healthy
            else self.gpu_side.reader.error or self.gpu_side.reader.failure,
            "unreaped": self.host.unreaped("nvml"),
            "senses": self.host_side.status(self.host.clock().boot, wall),
            "troubles": dict(self.journal.troubles),
            "ticked": self.last_wall,
            "now": wall,
            "zone": os.environ.get("TZ", ""),
        }
        if private:
            agent["digest"] = checksum(self.config)
        return {**decision, "agent": agent}

    def start_options(self) -> dict[str, Any]:
        """The options, and the variables of the environment, with which it was started; a reload reads them again."""
        return {"arguments": self.config.get("arguments", {}), "environment": self.config.get("environment", {})}

    def flush(self) -> bool:
        """Have the history written; whether something is still to be written."""
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
            self._due_at = min(self.workers.deadline, self.cloud.deadline, self.host_side.deadline, *parts)
        reader = self.gpu_side.reader
        soonest = min(self._due_at, reader.deadline)
        return soonest if self._reading or reader.streaming else min(soonest, self._next_tick)

    def _timers(self) -> Sequence[HostEvent]:
        """Do what is due, then wait for what comes."""
        self._end_stream_in_time()
        until = self._until()
        # after a bug: begin again, then finish the tick that it cut off
        overdue = self._fresh_starts or (self._reading and not self._awaited)
        if overdue or self._now >= until:
            self._do_what_is_due()
            self._due_at = None
            self._end_stream_in_time()
            until = self._until()
        if self.exit_code is not None:
            return ()
        events = self.host.wait(until)
        if not events:
            self._now = self.host.clock().boot
        return events

    @property
    def _awaited(self) -> bool:
        """Whether a reader still owes the answer that a tick waits for."""
        return self.gpu_side.reader.waiting or (self._reading and self.host_side.waiting)

    def _ask_host(self, now: float) -> None:
        """Ask the senses; while no decision is near they answer only when what they see changes."""
        core = self._last.state.core
        calm = self._calm and core.phase not in URGENT
        works = core.signals.work is not None and core.signals.work.busy and core.signals.unknown_since is None
        every = self.policy.interval * (BUSY_TICKS_PER_LOOK if works else 1)
        due = self.host_side.deadline
        saving = hook_works(core, now)
        self.host_side.ask(now, every, calm=calm and not saving, saving=saving)
        if self.host_side.deadline != due:
            self._due_at = None

    def _end_stream_in_time(self) -> None:
        """End the reader's stream where a countdown runs, or a decision is near: then each reading is asked for.

        The stream may skip every second reading while the engine decides nothing in between.
        """
        reader = self.gpu_side.reader
        if not reader.streaming:
            return
        core = self._last.state.core
        soon = core.unchanged_until < reader.deadline if reader.pairs else self._calm and not self.cloud.has_reader
        if soon or core.phase in URGENT or self._stream_policy is not self.policy:
            reader.end_stream()

    def _stream_plan(self) -> StreamPlan | None:
        """How the reader may stream after this question; either end skips moments in the past."""
        interval = self.policy.interval
        if self._last.state.core.phase in URGENT:
            return None
        self._stream_policy = self.policy
        pairs, above = self._calm and not self.cloud.has_reader, highest_threshold(rules_of(self.policy))
        return StreamPlan(self._next_tick + interval, interval, pairs, above)

    def _do_what_is_due(self) -> None:
        instant = self.host.clock()
        now = instant.boot
        while self._fresh_starts:
            self._step(self._fresh_starts.popleft()._replace(at=now))
        for outcome in self.workers.late(now):
            self._take(outcome)
        while (waited := self.workers.take_due(now)) is not None:
            self._take(self.workers.start(waited, now, self._circumstances()))
        self.cloud.run(instant)
        self.host_side.run(now)
        for part in self._parts:
            part.run(instant)
        reader = self.gpu_side.reader
        reader.late(now)  # also an answer that no tick waits for: the first of a new process
        if not self._reading and not reader.streaming and now >= self._next_tick:
            self.cloud.ask(now)
            self._ask_host(now)
            # what appears on the bus while a countdown runs must be seen before anything is released
            self.gpu_side.ask(now, look=self._last.state.core.phase in URGENT, stream=self._stream_plan())
            self._reading = True
            self._reading = self._awaited
            if not self._reading:
                self._tick(self.host.clock())
        elif self._reading and not self._awaited:
            self._tick(self.host.clock())

    def _tick(self, now: Instant) -> None:
        self._reading = False
        interval, before = self.policy.interval, self.seen
        streaming = self.gpu_side.reader.streaming  # else the others were asked together with the reader
        if streaming and self.cloud.has_reader:
            self.cloud.ask(now.boot)
            self._due_at = None
        self.seen, devices = self.gpu_side.observe(now.boot, rules_of(self.policy))
        skipped_at = self.gpu_side.skipped_at
        if skipped_at is not None:
            self._count_skipped(skipped_at, now, before)
        late = now.boot - self._next_tick
        if late >= (HOLE_INTERVALS if self._calm else 1.0) * interval:  # a suspend, a stall: begin a new rhythm
            self._next_tick = now.boot + interval
        elif late >= 0.0:  # an answer that no tick waited for comes between two beats
            self._next_tick += interval * (late // interval + 1.0)
        if devices is not None:
            self._step(devices)
        vetoes, quiet = self._escape_hatch + self.cloud.vetoes(now.boot) + self.host_side.vetoes, self.host_side.quiet
        if vetoes or quiet is not None:
            self.seen = self.seen._replace(vetoes=vetoes, quiet_host=quiet)
        self._step(Tick(now.boot, self.seen, now.wall, now.boot - now.mono, now.synced, skipped_at))
        if self.policy.lease_until is not None:
            self._heed_lease(now)
        self._calm = self._last.state.core.unchanged_until > now.boot + CALM_INTERVALS * interval
        if streaming:
            self._ask_host(now.boot)
        if self.gpu_side.findings_by_gpu:
            for finding in self.gpu_side.findings(now.boot):
                self._step(finding)
        self._beat(now.boot, now.wall)
        self.history.tick(now, self._last, self.seen, interval)
        self.history.keepers.look(now, self._last.state, rules_of(self.policy), self.host_side)
        self.host.service(
            f"WATCHDOG=1\nSTATUS={self._last.sentence}" if self.journal.log(self._last, now.boot) else "WATCHDOG=1"
        )
        self.last_wall = now.wall
        if self.memory.commit_due(now.boot):
            self._due_at = None
            self.memory.commit(self._last.state, now)

    def _heed_lease(self, now: Instant) -> None:
        """Say once that a lease does not count: whoever relies on its date would learn that from the bill."""
        waits = now.synced is False and now.boot >= CLOCK_SET_WITHIN_SECONDS
        if waits:
            self._remark("clock", LEASE_WAITS)
        else:
            self.workers.settled("clock")
        self.journal.trouble("clock", LEASE_WAITS if waits else None)

    def _remark(self, topic: str, text: str) -> None:
        """Tell people, once, what the agent has to say of itself."""
        if self.workers.remark(topic, text, self._message_facts(), self.host.clock().boot):
            self._due_at = None
            self.memory.save(self._last.state, self._of_parts())

    def _count_skipped(self, at: float, now: Instant, seen: Observation) -> None:
        """Count the tick that the reader skipped at that moment: it saw the same as before."""
        ago = now.boot - at
        then = Instant(at, now.mono - ago, now.wall - ago, now.synced)
        self.history.tick(then, self._last, seen, self.policy.interval)

    def _beat(self, at: float, wall: float) -> None:
        """A sign of life, while every reader answers."""
        if not self.heartbeat.due(at):
            return
        self._due_at = None
        answering = self.gpu_side.answered and self.journal.troubles.keys().isdisjoint(("cloud", "host"))
        facts = {"kind": "heartbeat", "instance": self.boot.instance, "state": self._last.sentence.word, "at": wall}
        self.heartbeat.tick(at, answering=answering, facts=facts)

    # -- the engine ------------------------------------------------------------------------------------------

    def _step(self, event: Event) -> None:
        """Step the engine and start what it asks for; an outcome that is there at once becomes the next event.

        After a bug the rest stays queued until the next event.
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
            instant = self.host.clock()
            self.history.note(event, before, self._last, instant.wall, lambda: self._facts(instant.boot))
            self.hooks.note(before, core, self._circumstances)
        if isinstance(event, Outcome) and (finding := self.preflight.finding(event, before)):
            self._events.append(finding)
        if not self.memory.nothing_to_save(before, self._last.state, self.gpu_side.reader.handover.get("learnt")):
            self.memory.save_changes(before, self._last.state, self._of_parts(), outcome=isinstance(event, Outcome))

    def _of_parts(self) -> SavedParts:
        reader = self.gpu_side.reader
        return SavedParts(
            **reader.handover, detached=reader.detached, tags=self.cloud.memory, told=self.workers.kept,
            hooks=self.hooks.kept, found=self.gpu_side.findings_told,
        )  # fmt: skip

    def _start(self, effect: Effect) -> None:
        at = self.host.clock().boot
        outcome: Outcome | None = None
        match effect:
            case Tell():
                self.journal.tell(effect, self._last.sentence, at)
                outcome = self.workers.tell(effect, at, self._facts(at))
            case Check() | Prepare():
                outcome = self.workers.submit(effect, at, self._circumstances())
            case Confirm():
                outcome = self.workers.start(effect, at, self._circumstances())
            case Save():
                if self.config.get("hooks", {}).get("pre_stop"):
                    self._saving.add(effect.id)
                    outcome = self.workers.start(effect, at, self._circumstances())
            case Go():
                outcome = self.workers.go(effect, at, self._circumstances())
            case Abandon():
                self.workers.abandon(effect.id)
            case Leave():
                self.exit_code = effect.code
            case Answer():
                message, trouble = effect.message, self.journal.troubles.get("commitments")
                if trouble:
                    message += f"; NOT saved, so a restart of costguard loses it: {trouble}"
                self.host.answer(effect.client, to_line(Reply(effect.done, message)))
        if outcome is not None:
            self._hear(outcome)

    def _circumstances(self) -> Circumstances:
        task = self.gpu_side.task
        return circumstances_of(self._last, rules_of(self.policy), task.other_gpus if task is not None else None)

    def _facts(self, at: float) -> dict[str, Any]:
        """What every message gets beside the engine's own facts."""
        facts = {"sentence": str(self._last.sentence), "readings": self._readings(), **self.cloud.message_facts}
        facts["idle_seconds"] = self._circumstances().idle_seconds
        seen = {"keeps": self.host_side.words(at), "lately": self.host_side.lately(at)}
        return {
            **facts,
            **task_words.in_messages(self.config),
            **{name: words for name, words in seen.items() if words},
        }

    def _readings(self) -> list[list[object]]:
        """Label, load (None: unknown) and text of each GPU, for messages and records."""
        core, rows = self._last.state.core, []
        for key, reading in zip(self.seen.gpus, self.seen.readings, strict=True):
            evidence = reading.reason if isinstance(reading, Unknown) else reading.evidence
            text = "; ".join(filter(None, (self.gpu_side.note(key), evidence)))
            rows.append([label(core, key), getattr(reading, "load", None), text])
        return rows

    # -- what happens ----------------------------------------------------------------------------------------

    def _handle(self, event: HostEvent) -> None:
        instant = self.host.clock()
        now = self._now = instant.boot
        if type(event) is Line and event.child == self.gpu_side.reader.child:
            answer = self.gpu_side.line(event.data, now)
            # the first answer of a new reader, which no tick waited for, covers the gap: it must not be lost
            # after a late answer, first read what else came while the guard was stalled: it may show work
            if not self._awaited and (answer or (self._reading and not self._more_readings())):
                self._tick(instant)
            return
        self._due_at = None
        match event:
            case Line() | Ended():
                self._child(event, instant)
            case Request():
                if failure := self._requests.serve(event):
                    self.journal.trouble("request", failure)
            case Signal():
                self._signal(event.name)

    def _more_readings(self) -> bool:
        """Whether more lines of the GPU reader wait to be handled."""
        child = self.gpu_side.reader.child
        return any(isinstance(event, Line) and event.child == child for event in self._arrived)

    def _child(self, event: Line | Ended, now: Instant) -> None:
        """Hand a child's line, or its end, to the part that owns the child."""
        if isinstance(event, Ended) and event.child == self.gpu_side.reader.child:
            self.gpu_side.reader.ended(event.code, now.boot)
        elif self.cloud.owns(event.child):
            for cloud_event in self.cloud.take(event, now):
                self._step(cloud_event)
            self._apply_cloud_settings()
        elif self.host_side.owns(event.child):
            before, reader = self.host_side.vetoes, self.gpu_side.reader
            self.host_side.take(event, now.boot)
            if self.host_side.vetoes is not before and reader.streaming and not reader.would_cross(now.boot):
                reader.end_stream()  # then the next tick comes in time, even where that reader would skip it
            if self._reading and not self._awaited and not self._more_readings():
                self._tick(now)
            elif self._calm and not self._reading and self.host_side.needs_asking:  # the next tick may skip a beat
                self._ask_host(now.boot)
        elif self.workers.owns(event.child):
            self._take(self.workers.take(event, now.boot))
            self.cloud.learn_price(self.workers.price)
            self._apply_price()
        else:
            for part in self._parts:
                if part.owns(event.child):
                    part.take(event, now)

    def _take(self, outcome: Outcome | None) -> None:
        if outcome is not None:
            self._hear(outcome)
            self._work()

    def _hear(self, outcome: Outcome) -> None:
        """Queue the outcome of an effect."""
        if outcome.effect in self._saving:
            self._saving.discard(outcome.effect)
            self.journal.trouble("hooks.pre_stop", outcome.detail if outcome.status == "failed" else None)
        self._events.append(outcome)

    def _signal(self, name: str) -> None:
        if name == "HUP":
            self.reload()
        else:
            self.exit_code = 0

    def reload(self) -> str:
        """Have the configuration checked. Returns a message for the user."""
        return self._reload.begin(self.config)

    def _adopt(self, effective: dict[str, Any]) -> None:
        """Work under another configuration from now on."""
        before = self.config
        self.config = {**effective, **{name: before[name] for name in FIXED_AT_START if name in before}}
        self.configured = policy_from(effective)
        self.workers.config = self.config
        for part in (self.cloud, self.host_side, self.heartbeat, self.summary, self.hooks, self.gpu_side):
            part.adopt(self.config)
        self.journal.trouble("channels", self.config.get("unaddressed"))
        before_basis, self.memory.plan_basis = self.memory.plan_basis, plan_basis(self.config)
        same_basis, policy = before_basis == self.memory.plan_basis, self.cloud.relaxed(self.configured)
        if same_basis and policy == self.relaxed and checksum(self.config) == checksum(before):
            self._begin_again("unchanged")
        else:
            self._change_policy(policy, "reload", proven=same_basis)

    def _message_facts(self) -> dict[str, Any]:
        """Of this machine or task, for messages that the engine does not write."""
        policy, core = self.policy, self._last.state.core
        own = {"instance": core.instance, "price_per_hour": policy.price_per_hour, "currency": policy.currency}
        own |= {"saving_limit": policy.saving_limit, "forbidden": forbidden(core, rules_of(policy))}
        return {**own, **self.cloud.message_facts, **task_words.in_messages(self.config)}

    def _apply_cloud_settings(self) -> None:
        """Apply the price and the relaxed settings from instance tags; a changed policy starts a new window."""
        relaxed = self.cloud.relaxed(self.configured)
        if relaxed != self.relaxed:
            self.host.say("<5>instance tags changed the settings: window and warning start over")
            self._change_policy(relaxed, "tags")
        self._apply_price()

    def _apply_price(self) -> None:
        """Use the best known price; the policy that is saved, and compared after a restart, has none."""
        priced = self.cloud.priced(self.relaxed)
        if priced != self.policy:  # else keep the same object, and what is cached for it
            self.policy = priced

    def _change_policy(self, policy: Policy, why: str, *, proven: bool = True) -> None:
        """Go on under this policy, as after a reload; ``proven``: the basis of the plans is unchanged."""
        self.relaxed = self.policy = policy
        self.memory.adopt(policy)
        self._begin_again(why, proven=proven)

    def _begin_again(self, why: str, *, proven: bool = True) -> None:
        # under the old rules: the engine asks again for those that still count
        self.workers.abandon_all("check")
        self._step(Began(self.host.clock().boot, why, proven))

    def switch_driver(self, *, attach: bool) -> str:
        """Attach to the GPU driver, or detach from it so that it can be replaced. Returns a message for the user."""
        if attach == (not self.gpu_side.reader.detached):
            return (
                "nothing to do: the GPU driver is already attached" if attach else "the GPU driver is already detached"
            )
        if attach:
            self.gpu_side.attach()
        else:
            self.gpu_side.reader.detach()
        self.memory.save(self._last.state, self._of_parts())
        return "GPU driver attached" if attach else "GPU driver detached; no GPU can be read until `costguard attach`"

    # -- beginning and end -----------------------------------------------------------------------------------

    def _survive(self, error: Exception) -> None:
        """Report a bug, end what waits to act, and begin the engine again: that can only delay a stop."""
        now = self.host.clock()
        self.journal.trouble("bug", bug(error))
        self._bugs = [at for at in self._bugs if now.boot - at < BUGS_WITHIN_SECONDS] + [now.boot]
        if len(self._bugs) >= BUGS_LIMIT:
            self.host.save(b"{}")  # if the state causes the bug, the next process begins without it
            raise error
        self.workers.abandon_all("prepare")  # the others cannot act, and the engine waits for their answers
        self._fresh_starts.append(Began(now.boot, "error"))
        self._next_tick = now.boot + self.policy.interval

    def _leave(self) -> None:
        """End cleanly: save the state, end what waits; what acts finishes by itself."""
        self.host.service("STOPPING=1")
        now = self.host.clock()
        self._step(Leaving(now.boot))
        self.memory.save(self._last.state, self._of_parts())
        self.memory.commit(self._last.state, now)
        self.gpu_side.reader.stop()
        self.cloud.stop()
        self.host_side.stop()
        self.workers.abandon_all("prepare", "check", "confirm")
        for part in (self._reload, self.heartbeat, self.summary, self.hooks):
            part.stop()
        self.history.close(now)
        LastWait(self.host, self.disk, self.history, self.workers, self._handle).run()
        self.workers.abandon_all("tell", "prepare", "check", "confirm")  # events during the wait may have started some
        guarded = wording_of(self.policy.kill_action, in_task=bool(self.config.get("guarded"))).guarded
        self.host.say(f"<5>stopped; this {guarded.noun} is no longer guarded")
