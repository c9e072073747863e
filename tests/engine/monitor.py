"""A second opinion on every step: it sees events and effects only, keeps its own log, and knows the invariants."""

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise

from costguard.engine import Began, Known, Observation, Outcome, Policy, Tick
from costguard.engine.effects import Abandon, Confirm, Effect, Go, Leave, Prepare, Tell
from costguard.engine.observation import Reading
from costguard.engine.policy import MACHINE_ACTIONS, REPEATABLE

EPS = 1e-3
DAY = 86400.0
SETTLED = 30.0  # so long after the end of the pre-stop hook, what it did on the GPUs is over
SILENCE = 300.0  # a message of whose fate nothing was heard for so long counts as not delivered
RUNS_ON = 300.0  # a machine on which the guard runs so long after it was confirmed as ended was not ended
Span = tuple[float, float, bool]


def is_quiet(reading: object, policy: Policy) -> bool:
    """Known, below the threshold, and without a sign of work where signs count."""
    if not isinstance(reading, Known) or not 0.0 <= reading.load < quiet_threshold(policy):
        return False
    return not (reading.signs and ends_machine(policy) and not policy.stop_below_load)


def ends_machine(policy: Policy) -> bool:
    return bool(MACHINE_ACTIONS & {policy.kill_action, *policy.fallback})


def quiet_threshold(policy: Policy) -> float:
    capped = ends_machine(policy) and not policy.stop_below_load
    return min(policy.kill_threshold, 0.2) if capped else policy.kill_threshold


def allowed(policy: Policy) -> float:
    """Loud seconds that a window may hold."""
    return policy.window_share * policy.kill_duration if policy.window_rule == "share" else 0.0


def union(spans: list[tuple[float, float]], start: float, end: float) -> float:
    """Seconds of [start, end] that the spans cover together."""
    total, reached = 0.0, start
    for first, last in sorted(spans):
        begin, stop = max(first, reached), min(last, end)
        if stop > begin:
            total, reached = total + stop - begin, stop
    return total


class Monitor:
    """Raises AssertionError, naming the invariant, when a step breaks one."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.boot_id = ""
        self.at = 0.0
        self.started = 0.0  # boot or resume
        self.suspended: float | None = None
        self.expected: list[str] = []
        self.names: dict[str, set[str]] = {}
        self.spans: dict[str, list[Span]] = {}
        self.known_until: dict[str, float | None] = {}
        self.seen_before: dict[str, bool] = {}
        self.carried = 0.0  # quiet seconds of earlier boots
        self.observation = Observation((), ())
        self.held_until = -1.0
        self.noticed_until = -1.0
        self.told: dict[str, str] = {}  # effect -> incident
        self.tells: Counter[str] = Counter()
        self.told_at: dict[str, float] = {}  # incident -> its last warning
        self.warned: dict[str, float] = {}
        self.reasons: dict[str, str] = {}
        self.ready: set[str] = set()
        self.prepared: dict[str, Prepare] = {}
        self.hooks: dict[str, list[float]] = {}  # incident -> when its hook began, and was last able to work
        self.gone: dict[str, Go] = {}
        self.answered: dict[str, str] = {}  # attempt -> its last word
        self.ended: dict[str, float] = {}  # attempt that ended the machine, they say -> since when
        self.disproved = False  # this guard ran on after such a word
        self.stops: list[tuple[float, str]] = []  # (date, attempt) of own machine stops with no work since
        self.loud_since: float | None = None
        self.unknown_since: float | None = None
        self.alarms: list[float] = []
        self.told_before_sleep = 0  # alarms of which nobody has heard the end
        self.earlier = 0  # so many of them were told under another policy
        self.delivered_kinds: Counter[str] = Counter()

    # what happened in the world

    def boot(self, boot_id: str, policy: Policy, carried: float) -> None:
        keep_stops = self.stops
        self.__init__(policy)  # type: ignore[misc]  # a boot forgets everything but this
        self.boot_id, self.carried, self.stops = boot_id, carried, keep_stops

    def forget_windows(self) -> None:
        """Reload or resume: a full window is needed again."""
        self.spans, self.known_until, self.seen_before, self.carried = {}, {}, {}, 0.0

    def before(self, event: object) -> None:
        """Take note of an event before the engine's answer to it is judged."""
        if isinstance(event, Tick):
            self._tick(event)
        elif isinstance(event, Outcome):
            self._outcome(event)
        elif isinstance(event, Began):
            if event.why == "unchanged":
                return
            self.seen_before = {}  # a momentary value says nothing about the time before it
            for span in self.hooks.values():
                span[1] = min(span[1], event.at)  # it died with the guard
            if event.why != "restart":
                self.forget_windows()
                self.earlier = len(self.alarms)

    def _tick(self, tick: Tick) -> None:
        policy, seen = self.policy, tick.observation
        if self.suspended is not None and tick.suspended - self.suspended >= 2.0:
            self.forget_windows()
            self.at = tick.at - policy.interval
            self.told_before_sleep += len(self.alarms)
            self.started, self.unknown_since, self.alarms, self.noticed_until = tick.at, None, [], -1.0
            self.ended, self.disproved = {}, False
        self.suspended = tick.suspended
        self.expected.extend(key for key in seen.gpus if key not in self.expected)
        readings = dict(zip(seen.gpus, seen.readings, strict=True))
        if any(start <= tick.at and self.at < end + SETTLED for start, end in self.hooks.values()):
            readings = {key: self._without_hook(key, reading) for key, reading in readings.items()}
        for key in self.expected:
            self._read(key, readings.get(key), tick.at)
        self._note_work(tick, readings)
        unknown = any(not isinstance(readings.get(key), Known) for key in self.judged()) or not self.expected
        if not unknown:
            self.unknown_since = None
        elif self.unknown_since is None:
            self.unknown_since = self.at or tick.at - policy.interval
        self.at, self.observation = tick.at, seen
        for attempt in [attempt for attempt, since in self.ended.items() if tick.at - since >= RUNS_ON]:
            del self.ended[attempt]
            self.disproved = True
            self.confirmed(attempt, "failed")

    def _without_hook(self, key: str, reading: Reading) -> Reading:
        """What the pre-stop hook does itself on a GPU that was quiet is not work."""
        was_quiet = self.seen_before.get(key) and not self.spans[key][-1][2]
        return reading._replace(load=0.0, signs=()) if isinstance(reading, Known) and was_quiet else reading

    def _read(self, key: str, reading: object, at: float) -> None:
        if isinstance(reading, Known):
            until = self.known_until.get(key)
            usual = 1.5 * self.policy.interval if self.seen_before.get(key) else 0.0
            bridged = until is not None and at - until <= max(usual, reading.covers) + 1e-9
            start = until if bridged and until is not None else at - max(self.policy.interval, reading.covers)
            self.spans.setdefault(key, []).append((start, at, not is_quiet(reading, self.policy)))
            self.known_until[key] = at
        self.seen_before[key] = isinstance(reading, Known)

    def _note_work(self, tick: Tick, readings: Mapping[str, object]) -> None:
        """A minute of uninterrupted work, or work enough to arm, forgives earlier stops."""
        loud = any(isinstance(r, Known) and not is_quiet(r, self.policy) for r in readings.values())
        above = any(isinstance(r, Known) and r.load > self.policy.arm_threshold for r in readings.values())
        if not loud and not above:
            self.loud_since = None
            return
        if self.loud_since is None:
            self.loud_since = tick.at - 1.5 * self.policy.interval
        if tick.at - self.loud_since >= min(60.0, self.policy.arm_duration or 60.0):
            self.stops = []

    def _outcome(self, event: Outcome) -> None:
        if event.effect in self.told:
            incident = self.told[event.effect]
            if event.status == "delivered" or self.tells[incident] >= self.policy.warn_attempts:
                self.warned.setdefault(incident, event.at)
        if event.effect in self.prepared:
            self._prepared(self.prepared[event.effect], event)
        if event.effect in self.gone:
            self.answered[event.effect] = event.status
            self._has_ended(event.effect, event.status, event.at)
            if event.status in {"failed", "refused"}:
                self.stops = [stop for stop in self.stops if stop[1] != event.effect]

    def _prepared(self, effect: Prepare, event: Outcome) -> None:
        if event.status == "ready":
            self.ready.add(effect.id)
        if event.status == "saving":
            self.hooks.setdefault(effect.incident, [event.at, event.at + 180.0])
        elif effect.incident in self.hooks:
            span = self.hooks[effect.incident]
            span[1] = min(span[1], event.at)

    def confirmed(self, attempt: str, status: str) -> None:
        """What the world said about an attempt, afterwards; a word that was wrong once says nothing any more."""
        doubted = self.disproved and self.gone[attempt].action in MACHINE_ACTIONS
        status = "accepted" if status == "done" and doubted else status
        self.answered[attempt] = status
        self._has_ended(attempt, status, self.at)
        if status in {"failed", "refused", "accepted", "pending"}:
            self.stops = [stop for stop in self.stops if stop[1] != attempt]

    def _has_ended(self, attempt: str, status: str, at: float) -> None:
        if status == "done" and self.gone[attempt].action in MACHINE_ACTIONS:
            self.ended[attempt] = at

    # what the engine wants

    def after(self, event: object, effects: tuple[Effect, ...], wall: float) -> None:
        """Judge the effects of one step."""
        told = [effect.facts for effect in effects if isinstance(effect, Tell) and "incident" in effect.facts]
        self.reasons.update((str(facts["incident"]), str(facts["reason"])) for facts in told)
        for effect in effects:
            if isinstance(effect, Tell):
                self._tell(event, effect, effects)
            elif isinstance(effect, Prepare):
                assert effect.id not in self.prepared, "I4: an attempt id twice"
                assert effect.id.startswith(self.boot_id[:8]), "I4: an id without the boot id"
                self.prepared[effect.id] = effect
            elif isinstance(effect, Abandon):
                assert effect.id not in self.gone, "I3: abandoned after it was released"
                self.ready.discard(effect.id)
            elif isinstance(effect, Go):
                self._go(event, effect, effects, wall)
            elif isinstance(effect, Leave):
                self._acts(event, "end_process", effects)
            elif isinstance(effect, Confirm):
                assert effect.attempt in self.gone, "I4: asks about an attempt that never was released"
        if isinstance(event, Tick):
            self._never_silent()

    def _tell(self, event: object, tell: Tell, effects: tuple[Effect, ...]) -> None:
        incident = str(tell.facts.get("incident", ""))
        self.delivered_kinds[tell.kind] += 1
        if tell.kind == "warning":
            self.told[tell.id] = incident
            self.tells[incident] += 1
            self.told_at[incident] = self.at
            self.warned.pop(incident, None)  # a new warning begins the countdown anew
            if self.policy.grace <= 0:
                self.warned[incident] = self.at
        if tell.kind == "would_act":
            self._acts(event, str(tell.facts["action"]), effects, incident)
        if tell.kind == "unknown_alarm":
            self.alarms.append(self.at)
        if tell.kind == "unknown_recovered":
            self.alarms, self.told_before_sleep = [], 0

    def _go(self, event: object, go: Go, effects: tuple[Effect, ...], wall: float) -> None:
        assert self.policy.mode == "live", "mode: a dry run released a worker"
        assert go.id in self.ready, "I3: the worker was not ready and waiting"
        assert go.id not in self.gone, "I4: released twice"
        same = [old for old in self.gone.values() if (old.incident, old.action) == (go.incident, go.action)]
        repeats = go.action in REPEATABLE and all(self.answered.get(old.id) == "failed" for old in same)
        assert not same or repeats, "I4: one incident acts once, unless certainly nothing was accepted"
        open_ends = [old for old in self.gone.values() if old.incident == go.incident]
        for old in open_ends:
            assert self.answered.get(old.id) in {"failed", "accepted", "pending"}, (
                "I4: acts again after an unknown outcome"
            )
        self.gone[go.id] = go
        self._acts(event, go.action, effects, go.incident)
        if go.action in MACHINE_ACTIONS and self.reasons[go.incident] != "person":
            recent = [stop for stop in self.stops if wall - stop[0] < DAY - 1 and not self._same(stop, go)]
            assert len(recent) < 2, "I9: a third stop within a day without work in between"
            self.stops.append((wall, go.id))

    def _same(self, stop: tuple[float, str], go: Go) -> bool:
        old = self.gone.get(stop[1])
        return old is not None and old.incident == go.incident

    def _acts(self, event: object, action: str, effects: tuple[Effect, ...], incident: str = "") -> None:
        """A Go, a Leave or a *would*: everything that must be true at this moment."""
        assert isinstance(event, Tick), "I3: acts outside a tick"
        policy = self.policy
        if not incident:
            incident = next(str(e.facts["incident"]) for e in effects if isinstance(e, Tell) and "incident" in e.facts)
        reason = self.reasons[incident]
        assert not policy.admin_hold, "I3: acts against the administrator's hold"
        if reason == "person":
            return
        assert event.at >= self.held_until - EPS, "I3: acts while held"
        assert event.at > self.noticed_until, "I3: acts although the cloud takes the machine"
        given_up = self.told_at.get(incident, event.at) + SILENCE
        if self.tells[incident] >= policy.warn_attempts and event.at >= given_up:
            self.warned.setdefault(incident, given_up)
        assert incident in self.warned, "I2: acts without a warning that was delivered or exhausted"
        assert event.at >= self.warned[incident] + policy.grace - EPS, "I2: acts before the grace is over"
        if ends_machine(policy):
            assert event.at >= self.started + policy.boot_grace - EPS, "I9: acts within boot_grace"
        if reason in {"idle", "unused"}:
            bound = policy.kept_at_most
            over = bound is not None and self.quiet_for() >= bound
            assert not [v for v in self.observation.vetoes if v.hatch or not (over and v.sense)], (
                "I3: acts against a veto"
            )
            self._quiet_enough(reason, event)
        if reason == "unknown":
            assert policy.unknown_stop_after is not None, "unknown is never idle unless it was opted in"
            assert event.observation.quiet_host, "I3: acts on unknown while the host is not quiet"

    def judged(self) -> list[str]:
        """GPUs that must be quiet."""
        if ends_machine(self.policy) or not self.policy.gpu_devices:
            return self.expected
        return [key for key in self.expected if self.names.get(key, {key}) & set(self.policy.gpu_devices)]

    def _quiet_enough(self, reason: str, tick: Tick) -> None:
        policy, judged = self.policy, self.judged()
        assert judged, "I1: acts without a GPU"
        everywhere = set().union(*(self.names.get(key, {key}) for key in self.expected))
        assert set(policy.gpu_devices) <= everywhere, "I1: acts although a chosen GPU is not there"
        window = policy.kill_duration if reason == "idle" else (policy.unused_after or 0.0) - self.carried
        readings = dict(zip(tick.observation.gpus, tick.observation.readings, strict=True))
        by_mean = policy.aggregate == "mean" and not ends_machine(policy)
        if by_mean:
            loads = [r.load for key in judged if isinstance(r := readings.get(key), Known)]
            assert len(loads) == len(judged), "I3: acts on a mean of which a part is unknown"
            assert sum(loads) / len(loads) < policy.kill_threshold, "I3: acts while the mean is not low"
            return
        fine = [is_quiet(readings.get(key), policy) and self._clear(key, tick.at, window) for key in judged]
        enough = any(fine) if policy.aggregate == "any" and not ends_machine(policy) and reason == "idle" else all(fine)
        assert enough, f"I1: acts for {reason} although a window is not clear: {dict(zip(judged, fine, strict=True))}"

    def _clear(self, key: str, at: float, window: float) -> bool:
        spans = [span for span in self.spans.get(key, ()) if span[1] > at - window]
        known = union([(a, b) for a, b, _ in spans], at - window, at)
        loud = union([(a, b) for a, b, loud in spans if loud], at - window, at)
        return known >= window - EPS and loud <= allowed(self.policy) + EPS

    def quiet_for(self) -> float:
        """Seconds for which every expected GPU has been known and quiet, plus what earlier boots brought."""
        if not self.expected:
            return 0.0
        return self.at - max(self._quiet_since(key) for key in self.expected) + self.carried

    def _quiet_since(self, key: str) -> float:
        since = self.at
        for start, end, loud in reversed(self.spans.get(key, [])):
            if loud or end < since - EPS:
                break
            since = min(since, start)
        return since

    def _never_silent(self) -> None:
        """I6: continuous unknown is told at 1, 2, 4 ... times the alarm, at most daily."""
        if self.unknown_since is None:
            return
        first = self.policy.unknown_alarm
        assert self.at < self.unknown_since + first + EPS or self.alarms, "I6: unknown too long and nobody was told"
        for early, late in pairwise(self.alarms[self.earlier :]):
            assert late - early >= min(first, DAY) - EPS, "I6: told again too soon"
        if self.alarms:
            waited = self.at - max(self.alarms[-1], self.unknown_since)
            doublings = len(self.alarms) + self.told_before_sleep - 1
            assert waited < min(DAY, first * 2.0**doublings) + EPS, "I6: not told again in time"
