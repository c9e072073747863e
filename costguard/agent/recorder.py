"""Records history: rows gather in memory, and a short-lived process writes them.

The loop never waits for the disk, and no failure here changes a decision: rows are kept and retried, the oldest are
dropped when there are too many, and both are reported.
"""

import functools
import json
import os
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from costguard.agent import journal
from costguard.agent.hooks import Occasion
from costguard.agent.keepers import Keepers
from costguard.agent.task import Part, TaskError
from costguard.engine.effects import Abandon, Answer, Check, Confirm, Effect, Go, Leave, Prepare, Save, Tell
from costguard.engine.events import AskExtend, AskHold, AskRelease, Devices, Event, Outcome
from costguard.engine.machine import Step
from costguard.engine.observation import Observation
from costguard.engine.state import DONE, FAILED, Core, Hold, Incident
from costguard.engine.turn import label
from costguard.history import BY, FILE, UNTOLD_HOLD, USERS
from costguard.history.job import Batch, EventRow
from costguard.history.rollup import Rollup
from costguard.host.files import Start
from costguard.host.ports import Ended, Host, Instant, Line, Report, SpawnFailed
from costguard.notify.job import DeliveryResult, Draft
from costguard.process.worker import Done

FLUSH_EVERY_SECONDS = 3600.0
"""Between writes while nothing happens: each costs a process. An event is written at once, with all rows that wait."""

FLUSH_ASKED_SECONDS = 60.0
"""The same when a user wants to read the history."""

PAUSE_SECONDS = 1.0
"""Between the starts of two writers, so that what happens together is written together."""

CLOCK_SET_SECONDS = 60.0
"""When the date jumps by more, waiting rows are dated again."""

WRITTEN_WITHIN_SECONDS = 30.0
FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS = 30.0, 600.0
ROWS_KEPT = 2400
"""Rows of minutes that wait in memory, at most (about 0.4 MB): four hours of eight GPUs."""

EVENTS_KEPT = 200
"""Events that wait in memory: of the guard, and as many of users' requests. Neither pushes out the other."""

BATCH_ROWS = 500
BATCH_BYTES = 24 << 10  # of events in one batch
EVENT_BYTES = 12 << 10  # of one event; a larger one loses its details
CHANNEL_CHARACTERS = 300  # of what one channel said
EFFECTS_KEPT = 64  # whose outcome may still come

Beside = Callable[[], Mapping[str, Any]]
"""What every message gets beside the engine's own facts, *sentence* and *readings* among it."""

NAMES = "devices"
"""Kind of the event that says what people call each GPU: it can wait for what happens."""

NOTES, SUMMARY = "notes", "summary"
"""The kinds of what the agent says of itself, and of what the machine did."""

Record = Callable[[Draft, DeliveryResult, int], None]
"""Keeps what became of a message: at which of its tries."""


class _QueuedEvent(NamedTuple):
    """An event that waits to be written: its place in the order of all, and its row."""

    number: int
    row: EventRow


class Recorder(Part[Done]):
    """Gathers rows and has them written. ``report`` gets the subject *history*."""

    def __init__(self, host: Host, state_dir: str, boot: Start, report: Report) -> None:
        super().__init__(host, "history", Done, report)
        self._path = os.path.join(state_dir, FILE)
        self._instance = boot.instance
        now = host.clock()
        self._name = f"{boot.boot_id[:8]}-{now.boot:.2f}"  # of this process, among all that ever write to the file
        self._rollup = Rollup()
        self.keepers = Keepers(functools.partial(self._add, ""))
        self._last_tick: float | None = None
        self._epoch = now.wall - now.boot  # the date of the boot, by the clock of the rows that wait
        self._events: deque[_QueuedEvent] = deque()
        self._user_events: deque[_QueuedEvent] = deque()  # what users did, and the messages about it
        self._count = 0
        self._incidents: dict[str, str] = {}  # effect id -> incident
        self._user_incidents: dict[str, str] = {}
        self._dropped = 0
        self._batch: Batch | None = None  # being written, and retried until it is
        self._number = 0
        self._due = now.boot + FLUSH_EVERY_SECONDS
        self._writer_started = 0.0
        self._not_before = 0.0
        self._retry = FIRST_RETRY_SECONDS
        self._failing = self._closing = False

    # -- what is recorded ------------------------------------------------------------------------------------

    def tick(self, now: Instant, step: Step, seen: Observation, interval: float) -> None:
        """Count the time since the last tick; after a hole only an interval of it."""
        since = now.boot - self._last_tick if self._last_tick is not None else 0.0
        self._last_tick = now.boot
        shift = now.wall - now.boot - self._epoch
        self._epoch += shift  # which includes the drift of the clock
        if abs(shift) >= CLOCK_SET_SECONDS:
            self._rollup.redate(shift)
        if since > 0.0:
            self._rollup.tick(now.wall, since if since <= 3.0 * interval + 5.0 else interval, step.state, seen)

    def note(self, event: Event, before: Core, step: Step, wall: float, beside: Beside) -> None:
        """Keep what an auditor needs of one step of the engine. A bug here is reported, and the step goes on."""
        try:
            self._note(event, before, step, wall, beside)
        except (TypeError, ValueError, AttributeError, LookupError) as error:
            self._report("history", journal.bug(error, "history: "))

    def delivery(self, draft: Draft, answer: DeliveryResult, tries: int = 1) -> None:
        """Keep what became of a message that the engine waits for no more: sent again, or not its own."""
        row = {
            "name": draft.kind,
            "effect": draft.id,
            "reached": answer.reached,
            "failed": answer.failed,
            "answered": answer.answered,
            "tries": tries,
        }
        if answer.begun:
            row["begun"] = answer.begun
        if text := {
            name: answer.beside[name] for name in ("title", "body") if draft.kind != SUMMARY and name in answer.beside
        }:
            row |= text  # the record of a guard that was killed lacks it
        if draft.kind == NOTES:  # a remark of the agent's own, of which nothing else tells
            row["text"] = draft.facts.get("text")
        wall, facts = self._host.clock().wall, draft.facts
        incident = str(facts.get("incident") or facts.get("overtakes") or "")  # where the message itself stands
        self._add(incident, wall, "delivery", {**row, "error": answer.error})

    def hook(self, occasion: Occasion, status: str, detail: str) -> None:
        """Keep how a program of the owner ended."""
        row = {"step": occasion.step, "status": status, "detail": detail}
        self._add(occasion.incident, self._host.clock().wall, "hook", row)

    def _note(self, event: Event, before: Core, step: Step, wall: float, beside: Beside) -> None:
        core = step.state.core
        now, was = core.incident, before.incident
        incident = now.id if now else was.id if was else ""
        if isinstance(event, Outcome):
            self._outcome(event, before, now, wall)
        if isinstance(event, Devices):  # a machine that always works changes no phase
            self._add("", wall, NAMES, {"gpus": {device.key: label(core, device.key) for device in event.devices}})
        by_user = isinstance(event, AskHold | AskExtend | AskRelease)
        if isinstance(event, AskRelease) and _released(before, core):
            self._add(incident, wall, "released", {"owner": event.owner}, by_user=True)
        told = any(isinstance(effect, Tell) for effect in step.effects)
        if isinstance(event, AskHold) and not told and (hold := _granted(before, core)):
            untold = {"owner": hold.owner, "hold": hold.reason, "hold_until_wall": hold.wall}  # as the message has them
            self._add(incident, wall, UNTOLD_HOLD, untold, by_user=True)
        if core.phase != before.phase or (now and now.id) != (was and was.id):
            self._add(incident, wall, "phase", _phase(before, step))
        for effect in step.effects:
            self._effect(effect, incident, wall, beside, by_user=by_user)

    def _outcome(self, event: Outcome, before: Core, now: Incident | None, wall: float) -> None:
        by_user, was = event.effect in self._user_incidents, before.incident
        incident = (self._user_incidents if by_user else self._incidents).get(event.effect)
        if incident is None:
            return
        answer = {"status": event.status, "detail": event.detail, "proof": event.proof}
        data: dict[str, object] = {"effect": event.effect, **answer, "findings": event.findings}
        if event.answered:
            data["answered"] = dict(event.answered)
        if event.reached or event.failed:  # each by its channel: what a server says may look like another one's line
            data["reached"] = {name: whom[:CHANNEL_CHARACTERS] for name, whom in event.reached}
            data["failed"] = {name: why[:CHANNEL_CHARACTERS] for name, why in event.failed}
        if event.beside:
            data["beside"] = dict(event.beside)
        if event.begun:
            data["begun"] = event.begun
        if was and event.effect == was.announcement.effect and now and before.phase not in {DONE, FAILED}:
            data |= {"tries": was.announcement.attempts, "unreached": now.announcement.exhausted}
        self._add(incident, wall, "outcome", data, by_user=by_user)

    def _effect(self, effect: Effect, incident: str, wall: float, beside: Beside, *, by_user: bool) -> None:
        by_user = by_user and isinstance(effect, Tell)
        match effect:
            case Tell():
                # as its further tries are kept: the step that ends an incident may tell of something else, too
                incident = str(effect.facts.get("incident") or effect.facts.get("overtakes") or "")
                told = {"effect": effect.id, "name": effect.kind, "facts": {**beside(), **effect.facts}}
                self._add(incident, wall, "told", told, by_user=by_user)
            case Go():  # the last readings before the request
                known = {name: beside()[name] for name in ("sentence", "readings")}
                self._add(incident, wall, "go", {"effect": effect.id, "action": effect.action, **known})
            case Prepare() | Confirm():
                kind = type(effect).__name__.lower()
                self._add(incident, wall, kind, {"effect": effect.id, "action": effect.action})
            case Abandon():
                self._add(incident, wall, "abandon", {"effect": effect.id})
                return
            case Check() | Save() | Leave() | Answer():  # what matters of these is an event, or a phase
                return
        incidents = self._user_incidents if by_user else self._incidents
        incidents[effect.id] = incident
        if len(incidents) > EFFECTS_KEPT:
            del incidents[next(iter(incidents))]

    def _add(self, incident: str, wall: float, kind: str, data: Mapping[str, Any], *, by_user: bool = False) -> None:
        by = {BY: USERS} if by_user else {}
        text = json.dumps({**by, **data}, separators=(",", ":"), default=str)
        if len(text) > EVENT_BYTES:
            facts = data.get("facts", data)
            short = {name: facts.get(name) for name in ("sentence", "action", "reason", "owner", "mode")}
            known = {name: data.get(name) for name in ("name", "effect", "begun")}
            cut = {**by, **known, "facts": short, "cut": True}
            text = json.dumps(cut, separators=(",", ":"))
        queue = self._user_events if by_user else self._events
        if len(queue) >= EVENTS_KEPT:
            queue.popleft()
            self._dropped += 1
        self._count += 1
        queue.append(_QueuedEvent(self._count, EventRow(incident, wall, kind, text)))
        self._due = self._due if kind == NAMES else 0.0

    # -- how it is written -----------------------------------------------------------------------------------

    @property
    def deadline(self) -> float:
        """When `run` must be called next."""
        return self._task.deadline if self._task.running else max(self._due, self._not_before)

    @property
    def pending(self) -> bool:
        """Whether something is still to be written, and can be."""
        return self._task.running or (not self._failing and self._due == 0.0)

    def close(self, now: Instant) -> None:
        """Write everything now, without pauses: the guard ends."""
        self._closing = True
        self.keepers.close(now)
        self._rollup.close()
        self._due = self._not_before = 0.0
        self.run(now)

    def flush(self, at: float) -> bool:
        """Write soon what waits, for a user who reads. Whether something is still to be written, and can be."""
        recent = at - self._writer_started < FLUSH_ASKED_SECONDS
        if not self._task.running and not recent and (self._rollup.gpus or self._rollup.machine):
            self._due = 0.0
        return self.pending

    def run(self, now: Instant) -> None:
        """Start a writer when it is time, end one that hangs."""
        if self._task.late(now.boot):
            self._failed(now, self._hangs)
        elif not self._task.running and now.boot >= self.deadline:
            self._write(now)

    @property
    def _hangs(self) -> str:
        return f"the disk with {self._path} does not respond"

    def _write(self, now: Instant) -> None:
        self._bound()
        if self._batch is None:
            self._batch = self._make_batch(now)
        if self._batch is None:
            self._due = now.boot + FLUSH_EVERY_SECONDS
            return
        if self._task.hung:  # each further writer would hang beside it
            self._failed(now, self._hangs)
            return
        try:
            self._task.start(self._batch, now.boot + WRITTEN_WITHIN_SECONDS)
        except SpawnFailed as error:
            self._failed(now, str(error))
            return
        self._writer_started = now.boot
        self._not_before = 0.0 if self._closing else now.boot + PAUSE_SECONDS

    def take(self, event: Line | Ended, now: Instant) -> None:
        """Report whether the writer wrote the batch; go on at its end."""
        try:
            answer = self._task.answer(event)
        except TaskError as error:
            self._failed(now, f"the writer failed: {error}")
            return
        if answer is None:
            self._written(now)
            return
        for note in answer.notes:
            self._host.say(f"<4>{note}")
        if answer.error:
            self._failed(now, answer.error)

    def _written(self, now: Instant) -> None:
        self._batch, self._retry, self._failing = None, FIRST_RETRY_SECONDS, False
        gpus = len(self._rollup.gpus)
        more = self._events or self._user_events or gpus > BATCH_ROWS or (self._closing and gpus)
        self._due = 0.0 if more else now.boot + FLUSH_EVERY_SECONDS
        self._report("history", None)

    def _failed(self, now: Instant, why: str) -> None:
        self._task.stop()
        if not self._failing:  # reported once, even if it fails in another way each time
            self._failing = True
            self._report("history", f"history is not written: {why}")
        self._not_before = now.boot + self._retry
        self._retry = min(LONGEST_RETRY_SECONDS, self._retry * 2.0)

    def _bound(self) -> None:
        for rows in (self._rollup.gpus, self._rollup.machine):
            over = len(rows) - ROWS_KEPT
            if over > 0:
                del rows[:over]
                self._dropped += over

    def _next_events(self) -> list[EventRow]:
        """The guard's events before those of users as far as the batch has room, in the order in which they happened."""
        events: list[_QueuedEvent] = []
        size = 0
        for queue in (self._events, self._user_events):
            while queue and size + len(queue[0].row.data) <= BATCH_BYTES:
                events.append(queue.popleft())
                size += len(events[-1].row.data)
        return [event.row for event in sorted(events)]

    def _make_batch(self, now: Instant) -> Batch | None:
        rollup = self._rollup
        gpus, machine = rollup.gpus[:BATCH_ROWS], rollup.machine[:BATCH_ROWS]
        events = self._next_events()
        if self._dropped:
            events.append(EventRow("", now.wall, "lost", json.dumps({"rows": self._dropped})))
            self._dropped = 0
        if not (gpus or machine or events):
            return None
        del rollup.gpus[:BATCH_ROWS], rollup.machine[:BATCH_ROWS]
        self._number += 1
        name, dated = f"{self._name}-{self._number}", now.synced is not False
        return Batch(self._path, name, self._instance, now.wall, dated, tuple(gpus), tuple(machine), tuple(events))


def _released(before: Core, core: Core) -> bool:
    """Whether a release changed anything: one that was refused, or found no hold, is not recorded."""
    held = (before.people.holds, before.ledger.stops, before.phase)
    return held != (core.people.holds, core.ledger.stops, core.phase)


def _granted(before: Core, core: Core) -> Hold | None:
    """The hold that a user got."""
    return next((hold for hold in core.people.holds if hold not in before.people.holds), None)


def _phase(before: Core, step: Step) -> dict[str, object]:
    core = step.state.core
    now = core.incident or before.incident
    plan = next((plan for plan in core.plans.verdicts if now is not None and plan.action == now.action), None)
    return {
        "from": before.phase,
        "to": core.phase,
        "done": core.ending.done,
        "reason": now.reason if now else "",
        "owner": now.owner if now else "",
        "action": now.action if now else "",
        "detail": now.detail if now else "",
        "proof": now.proof if now else "",
        "gpus": {key: label(core, key) for key in step.state.gpus},
        "plan": [plan.verdict, plan.findings] if plan else None,
        "sentence": str(step.sentence),
    }
