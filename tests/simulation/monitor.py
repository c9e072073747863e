"""An onlooker who knows the truth: it watches what the guard does and says, and compares.

It shares nothing with the engine but the policy's fields. Times are true seconds (`World.now`).
"""

import json
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from costguard.agent import journal
from costguard.agent.ports import Instant
from costguard.agent.state import COMMITMENTS
from costguard.testing.simhost import Phase, Watch

if TYPE_CHECKING:
    from tests.simulation.story import Story

MACHINE = frozenset({"stop", "terminate", "hibernate", "shutdown", "reboot"})
CLOUD = frozenset({"stop", "terminate", "hibernate"})
BLINK = 6.0
"""Seconds by which work may have begun before a request goes out: a reader may take 5 s to answer."""

KINDS = {words: kind for kind, words in journal.TOLD.items()}
"""Messages by the words that their lines in the journal begin with."""

LATCHED = frozenset(("DONE", "FAILED"))  # people were told, and it stays so
STOP_KINDS = frozenset(
    ("warning", "would_act", "acting", "cannot", "failed", "unknown_alarm", "reminder", "next_action", "accepted",
     "done", "outcome_unknown")
)  # fmt: skip
WISH_ENDS = frozenset(
    ("cancelled", "came_back", "failed", "cannot", "would_act", "done", "accepted", "outcome_unknown", "closed",
     "state_lost")
)  # fmt: skip
WISH_WITHIN = 5400.0
"""Seconds in which a stop by hand must have been tried, or given up aloud: one attempt that is lost takes 70 minutes."""

DAY = 86400.0
NEVER = float("inf")


class Violation(BaseException):  # the guard survives every Exception, and must not survive this
    """The guard broke a rule."""


class Monitor(Watch):
    """Rules I1 to I9 and liveness, on the truth."""

    def __init__(self, story: "Story") -> None:
        self.story = story
        self.counts: Counter[str] = Counter()
        self.began = -20.0  # boot or resume
        self.ticks: list[float] = []
        self.requested = -NEVER  # an own stop
        self.seen_at = -NEVER  # every GPU was readable
        self.warned: dict[str, list[float]] = {}  # incident -> deliveries
        self.tried: dict[str, list[float]] = {}  # incident -> attempts to tell
        self.attempts: dict[tuple[str, str], str] = {}  # incident and action -> its last attempt
        self.acted_ids: set[str] = set()
        self.stops: list[float] = []
        self.dates: dict[float, float] = {}  # of own requests, by the guard's clock
        self.jumped = -NEVER
        self.holds: dict[int, float] = {}  # user -> until when
        self.asked: dict[int, tuple[str, int]] = {}  # client -> what, and who
        self.wish: float | None = None  # when a person asked for the stop that is under way
        self.hatch_since = NEVER  # the guard was told of the tag `costguard = off`, and of no end of it
        self._dateless: dict[str, float] = {}  # notices without a date, and when this guard was told of each
        self.taken: list[
            tuple[float, float]
        ] = []  # when the guard was told that the cloud takes the machine, and when it does
        self.disturbed = 0.0  # a stop had to wait for this: long work, boot, resume, reload, lost state, hold
        self.touched = 0.0  # anything at all, also a burst
        self.said_stop = self.alarmed = -NEVER
        self.served_at = 0.0
        self.phase_since: tuple[str, str, float] = ("", "", 0.0)
        self.worked = False  # long enough to be armed by it, since boot or resume
        self._work_began: float | None = None
        self._load_began: float | None = None
        self._cursor = 0.0
        self._last_phase = "WATCHING"

    # -- the truth -------------------------------------------------------------------------------------------

    def _fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = self.story.config["policy"]
        return fields

    def _threshold(self) -> float:
        fields = self._fields()
        careful = self._ends_machine() and not fields["stop_below_load"]
        threshold = float(fields["kill_threshold"])
        return min(threshold, 0.2) if careful else threshold

    def _ends_machine(self) -> bool:
        fields = self._fields()
        return bool(MACHINE & {fields["kill_action"], *fields["fallback"]})

    def busy(self, phase: Phase) -> bool:
        """Whether the machine truly works, by what the policy calls work."""
        fields = self._fields()
        loads = [phase.load_of(i) for i in range(len(self.story.machine.keys))]
        if not self._ends_machine():
            if fields["aggregate"] == "mean":
                return sum(loads) / len(loads) >= self._threshold()
            return max(loads) >= self._threshold()
        return max(loads) >= self._threshold() or (bool(phase.signs) and not fields["stop_below_load"])

    def work_between(self, since: float, until: float) -> float:
        """Seconds of true work."""
        history = self.story.machine.history(since, self.story.world.now)
        return sum(min(end, until) - start for start, end, phase in history if start < until and self.busy(phase))

    def arms(self, phase: Phase) -> bool:
        """Whether its load, signs apart, counts for arming."""
        loads = [phase.load_of(i) for i in range(len(self.story.machine.keys))]
        load = sum(loads) / len(loads) if self._fields()["aggregate"] == "mean" else max(loads)
        return bool(load > self._fields()["arm_threshold"])

    def tolerance(self) -> float:
        """Seconds of work that the window may hold."""
        fields = self._fields()
        return fields["window_share"] * fields["kill_duration"] if fields["window_rule"] == "share" else 0.0

    # -- what happens to the machine -------------------------------------------------------------------------

    def booted(self) -> None:
        """A new boot."""
        self.began = self.story.world.boot_zero
        self.worked = False
        self.hatch_since = NEVER
        self.taken.clear()
        self.forget_lost()
        # what a hold has left is bounded by the policy of this boot
        latest = self.story.world.now + self._fields()["hold_max"]
        self.holds = {uid: min(until, latest) for uid, until in self.holds.items()}
        self._keep_wish()
        self.disturb()

    def went_off(self) -> None:
        """The machine is off; by the guard's request, if that was just now."""
        if self.story.world.now - self.requested < 120.0:
            self.stops.append(self.requested)

    def suspending(self) -> None:
        """The machine falls asleep."""
        self.suspended_at = self.story.world.now

    def resumed(self) -> None:
        """The machine wakes up. A nap of a few seconds is none."""
        now = self.story.world.now
        self.began = now
        self.worked = False
        stalled = self.served_at
        self.disturb()
        self.served_at = max(now, stalled)

    def disturb(self) -> None:
        """From here on a stop needs its whole time again."""
        self.served_at = self._cursor = self.story.world.now
        self.disturbed = self.touched = max(self.story.world.now, self.held_until)
        self._load_began = self._work_began = None

    def stalled(self, seconds: float) -> None:
        """The guard will not run for a while: it cannot tell, and its windows may begin anew."""
        self.served_at = self.story.world.now + seconds
        self.touched = max(self.served_at, self.held_until)
        self.phase_since = (*self.phase_since[:2], self.served_at)
        if self.story.phase not in LATCHED:
            self.disturbed = self.touched

    def wall_jumped(self) -> None:
        """The date was set."""
        self.jumped = self.story.world.now

    def guard_began(self) -> None:
        """A guard starts; unless its predecessor's state is there, it starts afresh."""
        for kind, uid in self.asked.values():
            if kind == "release":  # done, and the guard died before it could say so
                self._released(uid)
        self.asked.clear()
        self._keep_wish()
        self._dateless.clear()
        before = self.disturbed
        self.phase_since = (*self.phase_since[:2], self.story.world.now)
        afresh = self.story.world.start().state is None
        if afresh:
            self.worked = False
            self.hatch_since = NEVER
            self.taken.clear()
            self.forget_lost()
        self.disturb()
        if afresh:
            self.alarmed = -NEVER
        elif self.story.phase in LATCHED:  # what is latched stays so
            self.disturbed = before

    @property
    def held_until(self) -> float:
        """Until when somebody's hold lasts."""
        return max(self.holds.values(), default=-NEVER)

    def _released(self, uid: int) -> None:
        """A user ended the own hold, or root everything."""
        if uid != 0:
            self.holds.pop(uid, None)
            return
        self.holds.clear()
        self.stops.clear()
        self.disturb()

    def _keep_wish(self) -> None:
        """A stop by hand that the next guard finds must be ended aloud by it; one that was not saved is lost."""
        start = self.story.world.start()
        found: dict[str, Any] = {}
        for content in (start.commitments, start.state):
            try:
                saved = json.loads(content) if content else {}
            except ValueError:
                continue
            found = saved.get("incident") or saved.get("engine", {}).get("core", {}).get("incident") or {}
        if found.get("reason") != "person":
            self.wish = None
        elif self.wish is not None:
            self.wish = self.story.world.now

    def forget_lost(self) -> None:
        """What neither directory holds any more is lost, and nobody can be blamed."""
        start = self.story.world.start()
        try:
            kept = json.loads(start.commitments) if start.commitments else {}
        except ValueError:
            kept = {}
        if not kept.get("holds") or self.jumped > self.held_until - 3 * DAY:
            self.holds.clear()  # or its end is a date now, and the date was set
        dates = kept.get("stops", ())  # what was not written before the machine went off is lost
        self.stops = [stop for stop in self.stops if any(abs(date - self.dates.get(stop, 0.0)) < 5.0 for date in dates)]

    # -- what the guard says ---------------------------------------------------------------------------------

    def said(self, now: Instant, line: str) -> None:
        """A line of the journal: the attempt to tell counts, delivered or not."""
        self.story.note(line)
        if "BUG in costguard" in line:
            raise Violation(line)
        if "the configuration was reloaded" in line:
            assert self.story.world.configuration is not None
            self.worked = self.worked and self._fields()["arm_duration"] is not None
            self.story.config = self.story.world.configuration
            self.hatch_since = NEVER  # it may look elsewhere now
            self.disturb()
        if "tags of the machine change settings" in line:
            self.worked = self.worked and self._fields()["arm_duration"] is not None
            self.disturb()
        begin = line[3:].split(":", 1)[0]
        kind = "" if line.startswith("<6>") else KINDS.get(begin, begin)  # <6>: a sentence, no message
        if kind in WISH_ENDS:
            self.wish = None
        if kind in STOP_KINDS:
            self.said_stop = self.story.world.now
            self.counts[kind] += 1
        if kind == "unknown_alarm":
            self.alarmed = self.story.world.now
        if kind == "warning":
            core = self.story.core()
            assert core.incident is not None
            self.tried.setdefault(core.incident.id, []).append(self.story.world.now)

    def message(self, now: Instant, message: dict[str, Any], delivered: bool) -> None:
        """A message was or was not delivered."""
        self.story.note(f"message {message['kind']} {'delivered' if delivered else 'NOT delivered'}")
        if message["kind"] == "warning" and delivered:
            self.warned.setdefault(message["facts"]["incident"], []).append(self.story.world.now)

    def answered(self, now: Instant, client: int, answer: bytes) -> None:
        """A hold that was granted holds."""
        said = json.loads(answer)
        kind, uid = self.asked.pop(client, ("", 0))
        self.story.note(f"answer: {answer[:160].decode()}")
        if kind == "hold" and said.get("done"):
            seconds = float(said["words"].split("held for ")[1].split(" s")[0])
            self.holds[uid] = max(self.holds.get(uid, -NEVER), self.story.world.now + seconds)
            self.touched = self.held_until
            if self.story.phase not in LATCHED:  # what is latched stays so
                self.disturbed = self.held_until
        elif kind == "release" and said.get("done"):
            self._released(uid)
        elif kind == "stop" and said.get("done") and self._fields()["mode"] == "live":
            self.wish = self.story.world.now
            self.disturb()

    def announced(self, now: Instant, answer: dict[str, Any]) -> None:
        """The cloud reader told the guard of tags and notices."""
        at = self.story.world.now
        if answer["asks"] is not None:
            off = any("off" in str(words) for words, _ in answer["asks"])
            self.hatch_since = min(self.hatch_since, at) if off else NEVER
            if answer["asks"]:
                self._waits(at)
        for name, kind, due_in, _ in answer["notices"]:
            soon = self._dateless.setdefault(name, at) + 30.0 - at if due_in is None else due_in
            if kind != "rebalance" and soon <= 900.0:
                self.taken.append((at, at + soon))
                self._waits(max(at, at + soon + 700.0))
        self.taken = [entry for entry in self.taken if at - entry[1] < 60.0]

    def _waits(self, until: float) -> None:
        """Something keeps every stop back until then; what was requested goes on, and what is latched stays so."""
        self.touched = max(self.touched, until)
        if self.story.phase in {"WATCHING", "WARNING"}:
            self.disturbed = max(self.disturbed, until)

    def ticked(self, now: Instant, gpus: list[list[object]]) -> None:
        """The reader answered. A guard that is killed before the end of the tick has perhaps saved what it saw."""
        self.ticks.append(self.story.world.now)
        if len(gpus) == len(self.story.machine.keys) and all(gpu[1] is not None for gpu in gpus):
            self.seen_at = self.story.world.now

    def served(self, now: Instant, message: str) -> None:
        """A tick is over."""
        if not message.startswith("WATCHDOG"):
            return
        at = self.story.world.now
        self.ticks.append(at)
        if len(self.ticks) > 800:
            del self.ticks[:400]
        self._follow_truth(at)
        late = at - self.served_at
        if late > self._fields()["interval"] + 40.0:
            raise Violation(f"liveness: no tick for {late:.0f} s")
        self.served_at = at
        self._leaks(at)
        self._silence(at)
        if self.wish is not None and at - self.wish > WISH_WITHIN:
            raise Violation(f"a stop by hand was neither tried nor given up aloud for {at - self.wish:.0f} s")

    def _follow_truth(self, at: float) -> None:
        """Carry what is derived from the truth up to now."""
        cursor, self._cursor = self._cursor, at
        fields = self._fields()
        for start, end, phase in self.story.machine.history(cursor, at):
            if self.busy(phase):
                self.touched = max(self.touched, end)
                if at - self.seen_at > 30.0:  # nobody could see it
                    self._work_began = None
                    continue
                self._work_began = start if self._work_began is None else self._work_began
                if end - self._work_began > max(120.0, 1.5 * self.tolerance()):
                    self.disturbed = max(self.disturbed, end)
                if end - self._work_began + 2.0 * fields["interval"] >= 60.0:  # seen by the ticks at both of its ends
                    self.stops.clear()
            else:
                self._work_began = None
            if self.arms(phase) and not phase.unknown:
                self._load_began = start if self._load_began is None else self._load_began
                if end - self._load_began > (fields["arm_duration"] or 0.0) + 3 * fields["interval"]:
                    self.worked = True
            else:
                self._load_began = None

    def _leaks(self, at: float) -> None:
        core = self.story.core()
        fields = self._fields()
        incident = core.incident.id if core.incident is not None else ""
        if (core.phase, incident) != self.phase_since[:2]:
            self.phase_since = (core.phase, incident, at)
            self.counts[f"entered {core.phase}"] += 1
        limit = {
            "WARNING": 2 * fields["grace"] + fields["boot_grace"] + 1500.0,
            "ACTING": 1000.0,
            "CONFIRMING": 2700.0,
        }.get(core.phase, NEVER)
        since = max(self.phase_since[2], self.disturbed if core.phase == "WARNING" else 0.0)
        if at - since > limit:
            raise Violation(f"leak: {core.phase} of {incident} for {at - since:.0f} s")
        host = self.story.host
        if len(host.children) > 12:
            raise Violation(f"{len(host.children)} children at once")
        if len(self.story.world.runtime.get("state.json", b"")) > 65536:
            raise Violation("the state file grows without bound")

    def _silence(self, at: float) -> None:
        fields = self._fields()
        if fields["admin_hold"] or fields["aggregate"] == "any":
            return
        core = self.story.core()
        if core.holds:
            self.touched = at
            self.disturbed = self.disturbed if core.phase in LATCHED else at
        if core.phase == "DONE" and core.incident is not None and core.incident.reason == "deadline":
            return  # it stays so, whatever the GPUs do
        told_after = self.alarmed - self.seen_at
        if told_after > 0 and at - self.seen_at < min(2.0 * told_after, told_after + DAY) + 900.0:
            self.touched = at  # people know that it is blind, and hear of it again after twice as long
            return
        armed = self.worked or fields["arm_duration"] is None
        window = fields["kill_duration"] if armed else fields["unused_after"]
        if window is None:
            return
        if self.story.config.get("cloud", {}).get("tag_settings"):
            window += 7200.0  # a tag may have made it longer
        limit = window + fields["grace"] + fields["boot_grace"] + fields["unknown_alarm"] + 2700.0
        if at - self.touched > limit and self.said_stop < self.disturbed:
            raise Violation(f"silence: nothing stopped or said although quiet for {at - self.touched:.0f} s")

    # -- what the guard does ---------------------------------------------------------------------------------

    def released(self, now: Instant, job: dict[str, Any]) -> None:
        """The request goes out: every rule must hold at this moment."""
        at = self.story.world.now
        self.story.note(f"GO {job['action']} ({job['reason']}) for {job['incident']}")
        action, incident, reason = job["action"], job["incident"], job["reason"]
        fields = self._fields()
        self.counts[f"go {action}"] += 1
        if fields["mode"] != "live" or job["mode"] != "live":
            raise Violation("a dry run released a worker")
        again = any(entry[0] == incident for entry in self.attempts)  # a fall-back, or a request that certainly failed
        before = self.story.world.results.get(self.attempts.get((incident, action), ""), {})
        if (incident, action) in self.attempts and (action not in CLOUD or before.get("status") != "failed"):
            raise Violation(f"I4: {action} twice in {incident}, and the first time it was {before}")
        self.attempts[incident, action] = job["attempt"]
        if reason == "person":
            self._check_wish(at, fields)
            return
        if at < self.held_until or fields["admin_hold"]:
            raise Violation(f"I8: acts during a hold that lasts {self.held_until - at:.0f} s more")
        known = at - 2 * fields["interval"] - 60.0  # it had the time to hear and to save that
        if self.hatch_since < known:
            raise Violation(f"it acts against a tag that it was told of {at - self.hatch_since:.0f} s ago")
        if any(told < known and at < due for told, due in self.taken):
            raise Violation("it acts although the cloud is about to take the machine")
        self._check_quiet(at, reason)
        self._check_warning(at, incident)
        if action in MACHINE:
            if at - self.began < fields["boot_grace"] - 1e-6:
                raise Violation(f"I9: acts {at - self.began:.0f} s after boot or resume")
            recent = [stop for stop in self.stops if at - stop < DAY]
            if not again and len(recent) >= 2 and self.jumped < recent[-2]:
                raise Violation("I9: a third stop within a day and no work in between")
            self.requested = at
            self.dates[at] = now.wall

    def _check_wish(self, at: float, fields: dict[str, Any]) -> None:
        """A person's stop: it heeds neither work nor holds, and does not outlive a guard that was away."""
        if fields["admin_hold"]:
            raise Violation("a person's stop acts against the administrator")
        if self.wish is None:
            raise Violation("a stop by hand that nobody asked for, or that was taken back")
        ticks = [self.wish, *(tick for tick in self.ticks if tick > self.wish), at]
        hole = max(b - a for a, b in pairwise(ticks))
        if hole > max(60.0, 1.5 * fields["interval"]) + fields["interval"] + BLINK:
            raise Violation(f"a stop by hand acts although nobody watched for {hole:.0f} s since it was asked for")

    def _check_quiet(self, at: float, reason: str) -> None:
        fields = self._fields()
        if reason == "deadline":
            seen = self.seen_at  # what broke unseen is unknown, and a deadline goes by unknown
            if (
                not fields["stop_busy"]
                and at - seen < fields["kill_duration"]
                and self.work_between(seen - 1, seen) > 0
            ):
                raise Violation("a deadline stopped work")
            return
        window = fields["kill_duration"] if reason == "idle" else fields["unused_after"]
        since = max(at - window, self.began) if reason == "unused" else at - window
        if fields["aggregate"] == "any" and not self._ends_machine():
            return  # one quiet GPU is enough
        worked = self.work_between(since, at - BLINK)
        if worked > self.tolerance() + 1e-6:
            raise Violation(f"I1: {worked:.0f} s of work in the window before a stop for {reason}")
        if self.work_between(at - BLINK - 1, at - BLINK) > 0:
            raise Violation("I3: it acts although work goes on")
        if reason == "idle" and at - window < self.began:
            raise Violation("I1: the window began before the boot or resume")

    def _check_warning(self, at: float, incident: str) -> None:
        grace = self._fields()["grace"]
        delivered = [told for told in self.warned.get(incident, ()) if told <= at - grace + 1e-6]
        tried = self.tried.get(incident, [])
        if delivered:
            warned = max(delivered)  # after a hole people are warned anew, and that countdown counts
        elif len(tried) >= 3 and tried[-1] <= at - grace:
            warned = tried[-1]
        else:
            raise Violation(f"I2: acts without a warning {grace:.0f} s before")
        interval = self._fields()["interval"]
        ticks = [warned, *(tick for tick in self.ticks if tick > warned), at]
        hole = max(b - a for a, b in pairwise(ticks))
        if hole > max(60.0, 1.5 * interval) + interval + BLINK:  # the last tick before a crash is not seen here
            raise Violation(f"I7: it acts on a warning although it saw nothing for {hole:.0f} s of the countdown")

    def turned(self, now: Instant, until: float) -> None:
        """The loop waits: a phase that began just now is seen here."""
        phase = self.story.phase
        if phase != self._last_phase:
            self._last_phase = phase
            self.story.entered(phase)

    def acted(self, now: Instant, job: dict[str, Any]) -> None:
        """An action was carried out, for good."""
        self.story.note(f"ACTED {job['action']}")
        self.counts[f"acted {job['action']}"] += 1
        if job["attempt"] in self.acted_ids:
            raise Violation(f"I4: attempt {job['attempt']} was carried out twice")
        self.acted_ids.add(job["attempt"])

    def stored(self, now: Instant, data: dict[str, Any]) -> None:
        """The commitments are on the disk."""
        if COMMITMENTS not in self.story.world.disk:
            raise Violation("the commitments vanished")
