"""The guard's short-lived workers: every effect becomes a process with a deadline and a reported outcome."""

import json
import os
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from costguard.actions.base import Context
from costguard.actions.job import ActionAnswer, Release
from costguard.agent import task_words
from costguard.agent.circumstances import Circumstances
from costguard.agent.jitter import Jitter
from costguard.agent.recorder import Record
from costguard.agent.task import NOT_IN_TIME, ChildTask, TaskError, exit_reason
from costguard.engine import time_limits
from costguard.engine.attempt import ENDS
from costguard.engine.effects import Check, Confirm, Go, Prepare, Save, Tell
from costguard.engine.events import Outcome
from costguard.engine.words import several
from costguard.host.ports import Ended, Host, Line, SpawnFailed
from costguard.notify.job import (
    AGENT_ENDED,
    DIGEST,
    EXPIRED,
    FOR_DIGEST,
    HELD_BACK,
    IN_DOUBT,
    DeliveryResult,
    Draft,
    Earlier,
    Overtaking,
    RecallJob,
    TellJob,
    access,
    stub_of,
    with_replaced,
)
from costguard.plans import Plan
from costguard.process.wire import plain, to_line

if TYPE_CHECKING:
    from costguard.agent.quota import Quota
    from costguard.agent.redelivery import Redelivery

REACHED_LIMIT = 500
"""Characters of the list of people reached; it is kept in the state."""

RECEIPT_LIMIT = 4096
"""Characters of a receipt; it is kept in the state and sent in messages."""

LAST_WORDS = frozenset(("acting", "unguarded"))
"""Kinds after which the machine, or the guard, may be gone within seconds: they wait for no other message."""

OWED_AFTER_SECONDS = 60.0
"""After the start: a machine that has just booted may have no network yet."""

REMARKS_KEPT = 16
"""Remarks that are remembered as made."""

LATELY_KEPT = 24
"""Messages whose order is remembered."""


FOLLOWED_UP = frozenset(("warning", *ENDS.values(), "failed"))
"""Kinds of messages that the engine itself repeats while nobody took them."""

ActionEffect = Check | Prepare | Confirm | Save
"""Effects that the action worker carries out."""


def status_without_answer(kind: str) -> str:
    """The outcome of a worker that reported none: *unknown* where it may have acted, or was confirming."""
    return "unknown" if kind in {"act", "confirm"} else "failed"


class Worker:
    """One process and what the engine expects of it."""

    def __init__(self, effect: str, kind: str, task: "ChildTask[ActionAnswer] | ChildTask[DeliveryResult]") -> None:
        self.effect = effect
        self.kind = kind  # tell | check | prepare | act | confirm | save
        self.task = task
        self.reported = False
        self.findings: tuple[tuple[str, str, str], ...] = ()
        self.receipt = ""
        self.job: TellJob | None = None  # of a message
        self.written = 0.0  # when its facts were true, on the boot clock
        self.held_back = ""  # why it was held back from the channels beyond this machine
        self.digest = ""  # the digest that has it there
        self.cut_off = False  # the agent is ending: what becomes of the message matters for the history alone
        self.gone_because = ""  # why its worker is gone; set when the recall of its message begins


class Workers:
    """Starts workers for effects, and turns their answers, exits and timeouts into outcomes."""

    def __init__(
        self, host: Host, config: Mapping[str, Any], jitter: Jitter, record: Record | None = None, boot_id: str = "", instance: str = ""
    ) -> None:  # fmt: skip
        self._host, self._jitter, self._record, self._boot, self._instance = host, jitter, record, boot_id[:8], instance
        self.config = config
        self._delayed: dict[str, tuple[float, Check | Prepare]] = {}  # by effect id: when to start it
        self._running: list[Worker] = []
        self._quota: Quota | None = None  # made, and loaded, with the first message that leaves the machine
        # the last messages in order; of their facts only the incident
        self._lately: deque[Draft] = deque(maxlen=LATELY_KEPT)
        self._remarked: list[str] = []  # topics of remarks that were made
        self._redelivery: Redelivery | None = None  # made, and loaded, when a channel has failed
        self._recall: ChildTask[DeliveryResult] = ChildTask(host, "recall", DeliveryResult)
        self.price: Mapping[str, object] = {}
        """This machine's price, from the last plan that asked the cloud for it."""

    @property
    def kept(self) -> object:
        """How many messages were sent, and which are still to be sent again, for `resume` after a restart; None for nothing."""
        counted = self._quota.counted._asdict() if self._quota is not None else None
        waiting = [plain(one) for one in self._redelivery.kept] if self._redelivery is not None else []
        kept = {"counted": counted, "waiting": waiting, "remarked": self._remarked}
        return kept if any(kept.values()) else None

    def resume(self, saved: object, now: float) -> None:
        """Go on with what an earlier guard of this boot ``kept``; a part that cannot be read is left out.

        What became of its messages that were on their way is found out for the history.
        """
        if isinstance(saved, dict):
            self._load(saved, now)
        self._look_back(now, resumed=True)

    def begin(self, now: float) -> None:
        """Begin without anything that an earlier guard kept: the history may have a digest that none lived to send."""
        if self._beyond:
            self._look_back(now, resumed=False)

    def _look_back(self, now: float, *, resumed: bool) -> None:
        paths = self.config["paths"]
        waiting = [one.message.id for one in self._redelivery.kept] if self._redelivery is not None else []
        owned = (*waiting, self._quota.digest_id(self._boot)) if self._quota is not None else tuple(waiting)
        job = RecallJob(
            paths["runtime"], AGENT_ENDED, now, history=str(paths.get("state") or ""),
            resumed=resumed, digests=owned, instance=self._instance,
        )  # fmt: skip
        with suppress(SpawnFailed):
            self._recall.start(job, now + time_limits.RECALL.killed)

    def _load(self, saved: Mapping[str, Any], now: float) -> None:
        from costguard.agent.quota import Counted, Quota
        from costguard.agent.redelivery import Kept
        from costguard.process.wire import MalformedError, build

        with suppress(MalformedError, ValueError, TypeError):
            self._quota = Quota(build(Counted, saved["counted"])) if saved.get("counted") else None
        with suppress(MalformedError, ValueError, TypeError):
            waiting = [build(Kept, one) for one in saved.get("waiting", ())]
            if waiting:
                self._redeliverer().resume(waiting, self.message, now)
        remarked = saved.get("remarked")
        self._remarked = [str(topic) for topic in remarked][-REMARKS_KEPT:] if isinstance(remarked, list) else []

    def submit(self, effect: Check | Prepare, now: float, given: Circumstances) -> Outcome | None:
        """Start the worker of an effect now, or with jitter where a whole fleet would ask its cloud at once.

        Checks run one after another, in the order of the actions: a guest's shutdown as a fallback relies on what the
        cloud's plan has shown.
        """
        for key, (_, older) in list(self._delayed.items()):
            if type(older) is type(effect) and older.action == effect.action:  # superseded by this one
                del self._delayed[key]
        at = self._jitter.due_at(effect, now, self.config, given.reason)
        if isinstance(effect, Check):
            at = max([at, *(due for due, other in self._delayed.values() if isinstance(other, Check))])
        if at <= now and not self._waits_its_turn(effect):
            return self.start(effect, now, given)
        self._delayed[effect.id] = (at, effect)
        return None

    def take_due(self, now: float) -> Check | Prepare | None:
        """Take a delayed effect that is to be started now."""
        due = ((key, effect) for key, (at, effect) in self._delayed.items() if at <= now)
        key = next((key for key, effect in due if not self._waits_its_turn(effect)), None)
        return None if key is None else self._delayed.pop(key)[1]

    def _waits_its_turn(self, effect: Check | Prepare) -> bool:
        """Whether it is a check while another one is under way."""
        return isinstance(effect, Check) and any(
            worker.kind == "check" and not worker.reported for worker in self._running
        )

    def start(self, effect: ActionEffect, now: float, given: Circumstances) -> Outcome | None:
        """Start the worker of an effect. Returns its outcome if that fails."""
        hook = self.config.get("hooks", {})
        saving = float(hook.get("timeout") or time_limits.HOOK_SECONDS) if hook.get("pre_stop") else 0.0
        kind, within, context = self._context(effect, given, saving)
        worker = Worker(effect.id, kind, ChildTask(self._host, "act", ActionAnswer))
        return self._run(worker, context, now, within)

    def tell(self, effect: Tell, now: float, facts: Mapping[str, object]) -> Outcome | None:
        """Start the worker that sends a message; ``facts`` are added to the effect's own. Returns its outcome if that fails."""
        draft = Draft(effect.id, effect.kind, effect.level, {**facts, **effect.facts})
        if effect.facts.get("told_again"):
            from costguard.agent.redelivery import brought_up_to_date

            still = brought_up_to_date(draft, _told_at(effect, now), self._host.clock()._replace(boot=now))
            if still is None:
                return Outcome(now, effect.id, "failed", EXPIRED)
            draft = still
        incident = str(draft.facts.get("incident") or draft.facts.get("overtakes") or "")
        job = self.message(draft)._replace(pause=self._jitter.before_message(effect, self.config))
        why = digest = ""
        if (
            effect.facts.get("attempts")
            or effect.facts.get("told_again")
            or (effect.kind == "countdown" and effect.facts.get("unreached_tries"))
        ):
            job = job._replace(again=True)  # spares those who took an earlier try
        if (beyond := self._beyond) and (why := self._held_back(effect, now)):
            digest = self._quota.digest_id(self._boot) if self._quota is not None and why == FOR_DIGEST else ""
            job = job._replace(channels=tuple(name for name in job.channels if name not in beyond))
            if not job.channels:
                return Outcome(now, effect.id, "delivered", proof=why, beside=_owed_digest(digest))
        if draft.kind not in LAST_WORDS and (before := self._before(draft)):
            job = job._replace(after=before, since=now)
        if not why:  # a message that stays on the machine replaces nothing for those beyond it
            self._lately.append(draft._replace(facts={"incident": incident}))
            late = self._overtake(draft, leaves=not job.pause)
            job = job._replace(message=with_replaced(draft, late))
        worker = Worker(effect.id, "tell", ChildTask(self._host, "notify", DeliveryResult))
        worker.job, worker.held_back, worker.digest, worker.written = job, why, digest, now
        outcome = self._run(worker, job, now, time_limits.TELL.killed)
        if outcome is not None:
            self._send_again(job, DeliveryResult(failed=dict.fromkeys(job.channels, outcome.detail)), now, now)
        return outcome

    def _overtake(self, by: Draft, *, leaves: bool) -> list[Draft]:
        """Stop trying earlier messages that this one, which ``leaves`` at once, contradicts. Returns them, the first one first."""
        telling = [worker for worker in self._running if worker.job is not None and not worker.reported]
        late = self._redelivery.overtake(by) if self._redelivery is not None else []
        if telling:
            from costguard.agent.redelivery import overtakes

            for worker in telling:
                if worker.job is not None and overtakes(by, worker.job.message):
                    worker.task.send(to_line(Overtaking(leaves, stub_of(by))))
                    late.append(worker.job.message)
        return late

    def _before(self, draft: Draft) -> tuple[Earlier, ...]:
        """Messages on their way that people must read first: each address waits for those that it lacks."""
        telling = [one.job for one in self._running if one.job is not None and not one.reported]
        if self._redelivery is not None and (again := self._redelivery.sending) is not None:
            telling.append(again)
        if not telling:
            return ()
        from costguard.agent.redelivery import comes_before

        return tuple(
            [Earlier(stub_of(one.message), one.channels) for one in telling if comes_before(one.message, draft)]
        )

    def message(self, draft: Draft, only: tuple[str, ...] = ()) -> TellJob:
        """A message over every channel, of this machine and beyond it, or over ``only`` some."""
        settings, host = self.config.get("notify", {}), self.config.get("host", {})
        places = {name: host[name] for name in ("procfs", "devfs") if name in host}
        places["runtime"] = self.config["paths"]["runtime"]
        channels = only or (
            *settings.get("local", ()),
            *self._task_channel(draft, places),
            *settings.get("channels", ()),
        )
        history = str(self.config.get("paths", {}).get("state") or "")
        return TellJob(
            draft, channels, {**settings, **places}, time_limits.DELIVERY_SECONDS, 0.0, history, access(self.config),
            guard=os.getpid(),
        )  # fmt: skip

    def _task_channel(self, draft: Draft, places: dict[str, Any]) -> tuple[str, ...]:
        """The channel in the guarded task itself, where its owner looks."""
        if not self.config.get("guarded"):
            return ()
        concerns = draft.facts.get("mode") == "live" and draft.facts.get("incident")
        places |= task_words.for_channel(self.config)
        tells = concerns and self.config.get("guarded", {}).get("tells")
        return ("task",) if tells and "task" not in self.config["notify"].get("local", ()) else ()

    @property
    def _beyond(self) -> Mapping[str, object]:
        """The channels beyond this machine."""
        channels: Mapping[str, object] = self.config.get("notify", {}).get("channels") or {}
        return channels

    def _held_back(self, effect: Tell, now: float) -> str:
        """Why a message does not leave the machine now; empty when it does."""
        if self._quota is None:
            from costguard.agent.quota import Quota

            self._quota = Quota()
        # a message that takes something back goes where the first one went, whatever the mode is by now
        in_dry_run = effect.facts.get("announced_dry") is True
        live = effect.facts.get("announced_live") is True or (effect.facts.get("mode") == "live" and not in_dry_run)
        few = self.config.get("notify", {}).get("dry_run") == "few" and not live
        if few and not self._quota.admit_dry_run(effect.kind, now, str(effect.facts.get("incident") or "")):
            return f"{HELD_BACK}the summary: in dry run one message a day says what would have been done"
        # one that a guard which was killed had on its way was counted by that one
        counted = effect.facts.get("takes_back") or effect.facts.get("told_again")
        return "" if counted or self._quota.admit(effect.kind, effect.level, now) else FOR_DIGEST

    def remark(self, topic: str, text: str, facts: Mapping[str, object], now: float) -> bool:
        """Tell people, over every channel, what the agent has to say of itself; once in a boot, until it is `settled`. Whether it is news."""
        if topic in self._remarked:
            return False
        self._remarked = [*self._remarked, topic][-REMARKS_KEPT:]
        name = f"{self._boot}-remark-{topic}-{now // 3600.0:.0f}"  # whoever got it within the hour is spared, however often the remark is made anew
        job = self.message(Draft(name, "notes", "warning", {**facts, "text": text}))
        # a fleet that finds the same must not write at the same second; what waits here outlives a guard that is killed
        leaves_at = now + self._jitter.before_message(Tell("", "notes", "warning", {}), self.config)
        self._redeliverer().send(job.message, job.channels, self.message, leaves_at)
        return True

    def settled(self, topic: str) -> None:
        """The remark is no longer true, so it may be made again."""
        if topic in self._remarked:
            self._remarked = [one for one in self._remarked if one != topic]

    def _digest(self, now: float) -> None:
        """What was left out of the last hour, as one message to the channels beyond this machine."""
        if self._quota is None or now < self._quota.deadline:
            return
        name, number = self._quota.digest_id(self._boot), sum(self._quota.counted.left_out.values())
        left_out = self._quota.take_digest(now)
        text = f"{several(number, 'message')} held back in the last hour: {left_out}; `costguard history` has them"
        self._send_digest(name, text, now)

    def _send_digest(self, name: str, text: str, now: float) -> None:
        if channels := tuple(self._beyond):
            self._redeliverer().send(Draft(name, "notes", facts={"text": text}), channels, self.message, now)

    def _run(self, worker: Worker, job: NamedTuple, now: float, within: float) -> Outcome | None:
        try:
            worker.task.start(job, now + within)
        except SpawnFailed as error:
            return Outcome(now, worker.effect, status_without_answer(worker.kind), str(error))
        self._running.append(worker)
        return None

    def go(self, effect: Go, now: float, given: Circumstances) -> Outcome | None:
        """Let a waiting worker act, under the circumstances of this moment. Returns its outcome if it is gone."""
        for worker in self._running:
            if worker.effect == effect.id:
                worker.kind = "act"
                worker.task.deadline = now + time_limits.act(self._action_time(effect.action)).killed
                if worker.task.send(to_line(Release(True, given.sentence, given.idle_seconds))):
                    return None
                self._drop(worker)
                break
        return Outcome(now, effect.id, "failed", "the prepared worker was gone when it was needed")

    def abandon(self, effect_id: str) -> None:
        """Kill a waiting worker, which has done nothing."""
        self._delayed.pop(effect_id, None)
        for worker in list(self._running):
            if worker.effect == effect_id and worker.kind != "act":
                self._drop(worker)

    def cut_off(self, now: float) -> bool:
        """End messages that are still on their way, and record what became of them as far as known. Whether there were any."""
        unheard = [worker for worker in self._running if worker.kind == "tell" and not worker.reported]
        for worker in unheard:
            worker.cut_off = True
            if not self._ask_recall(worker, now, AGENT_ENDED):
                self._drop(worker)
                self._lost(worker, now, AGENT_ENDED)
        return bool(unheard)

    @property
    def telling(self) -> bool:
        """Whether a message is on its way to people."""
        return any(worker.kind == "tell" and not worker.reported for worker in self._running)

    def _recalled(self, event: Line | Ended, now: float) -> None:
        """Record what is known of one message whose worker is gone; send a digest that an earlier guard owes."""
        with suppress(TaskError):
            answer = self._recall.answer(event)
            if answer is None or not (name := str(answer.beside.get("id") or "")):
                return
            if text := answer.beside.get(DIGEST):
                self._send_digest(name, str(text), now + OWED_AFTER_SECONDS)
                return
            message = Draft(
                name, str(answer.beside.get("kind")), facts={"incident": str(answer.beside.get("incident") or "")}
            )
            if self._record is not None:
                self._record(message, answer, 1)

    def abandon_all(self, *kinds: str) -> None:
        """Kill every worker of these kinds, but none that acts: it finishes and records its result."""
        kind_of = {Check: "check", Prepare: "prepare"}
        self._delayed = {key: entry for key, entry in self._delayed.items() if kind_of[type(entry[1])] not in kinds}
        for worker in list(self._running):
            if worker.kind in kinds and worker.kind != "act":
                self._drop(worker)
        if "tell" in kinds and self._redelivery is not None:
            self._redelivery.stop()

    def take(self, event: Line | Ended, now: float) -> Outcome | None:
        """The outcome in a worker's line, or of one that ended without reporting any."""
        if self._recall.owns(event.child):
            self._recalled(event, now)
            return None
        worker = next((worker for worker in self._running if worker.task.owns(event.child)), None)
        if worker is None:
            if self._redelivery is not None and self._redelivery.owns(event.child):
                self._redelivery.take(event, now)
            return None
        if isinstance(event, Ended):
            self._running.remove(worker)
            ended = f"its process exited without a result ({exit_reason(event.code)})"
            return None if worker.reported else self._lost(worker, now, ended)
        if worker.reported:
            return None
        try:
            answer = worker.task.answer(event)
        except TaskError as error:  # the worker is not killed: it may be acting
            worker.reported = True
            return self._lost(worker, now, str(error))
        assert answer is not None  # a line has one
        return (
            self._delivery_result(worker, answer, now)
            if isinstance(answer, DeliveryResult)
            else self._action_result(worker, answer, now)
        )

    def late(self, now: float) -> list[Outcome]:
        """Kill what is past its deadline."""
        self._digest(now)
        if self._redelivery is not None:
            self._redelivery.run(now)
        self._recall.late(now)
        late = [worker for worker in self._running if worker.task.late(now)]
        self._running = [worker for worker in self._running if worker.task.running]
        lost = [self._lost(worker, now, NOT_IN_TIME) for worker in late if not worker.reported]
        return [outcome for outcome in lost if outcome is not None]

    @property
    def deadline(self) -> float:
        """When the next worker is late, or has to be started."""
        starts = [at for at, effect in self._delayed.values() if not self._waits_its_turn(effect)]
        starts.append(self._recall.deadline)
        starts += [part.deadline for part in (self._redelivery, self._quota) if part is not None]
        return min([worker.task.deadline for worker in self._running] + starts, default=float("inf"))

    def owns(self, child: int) -> bool:
        """Whether this child is a worker."""
        again = self._redelivery is not None and self._redelivery.owns(child)
        return again or self._recall.owns(child) or any(worker.task.owns(child) for worker in self._running)

    def _drop(self, worker: Worker) -> None:
        worker.task.stop()
        self._running.remove(worker)

    def _ask_recall(self, worker: Worker, now: float, why: str) -> bool:
        """Start a recall of what became of a message whose worker is gone, once for each. Returns whether it runs."""
        if worker.job is None or worker.gone_because:
            return False
        job = RecallJob(self.config["paths"]["runtime"], why, now, worker.job.message, worker.job.channels)
        worker.task.stop()
        worker.gone_because, worker.task = why, ChildTask(self._host, "recall", DeliveryResult)
        try:
            worker.task.start(job, now + time_limits.RECALL.killed)
        except SpawnFailed:
            return False
        worker.reported = False
        self._running = [*(one for one in self._running if one is not worker), worker]
        return True

    def _lost(self, worker: Worker, now: float, why: str) -> Outcome | None:
        """The outcome of a worker that is gone; None while the record of its message is asked."""
        if self._ask_recall(worker, now, why):
            return None
        why = worker.gone_because or why
        outcome = Outcome(now, worker.effect, status_without_answer(worker.kind), f"the worker failed: {why}")
        if worker.job is None:
            return outcome
        failed = dict.fromkeys(worker.job.channels, f"{why}; {IN_DOUBT}")
        if worker.cut_off or not worker.effect:
            self._record_delivery(worker.job, DeliveryResult(failed=failed))
        if worker.cut_off:
            return None
        self._send_again(worker.job, DeliveryResult(failed=failed), now, worker.written)
        detail, beside = f"{outcome.detail}; {IN_DOUBT}", _owed_digest(worker.digest)
        return outcome._replace(detail=detail, failed=tuple(failed.items()), beside=beside)

    def _action_time(self, action: str) -> float:
        settings = self.config.get("actions", {}).get(action, {})
        return float(settings.get("timeout") or time_limits.ACTION_SECONDS)

    def _context(self, effect: ActionEffect, given: Circumstances, saving: float) -> tuple[str, float, Context]:
        """The kind of worker, the seconds after which it is killed, and its job."""
        action = effect.action
        base = Context.of(self.config, action)._replace(attempt=effect.id, **given._asdict())
        match effect:
            case Check():
                return "check", time_limits.CHECK.killed, base._replace(job="plan", deadline=time_limits.FACTS_SECONDS)
            case Prepare():
                own = base._replace(job="act", incident=effect.incident, deadline=self._action_time(action))
                return "prepare", time_limits.prepare(saving).killed, own
            case Confirm():
                own = base._replace(job="confirm", incident=effect.incident, attempt=effect.attempt)
                return "confirm", time_limits.CONFIRM.killed, own._replace(deadline=time_limits.CONFIRM_SECONDS)
            case Save():
                within = min(saving, max(1.0, effect.seconds))
                return "save", time_limits.save(saving).killed, base._replace(job="hook", deadline=within)

    def _delivery_result(self, worker: Worker, answer: DeliveryResult, now: float) -> Outcome | None:
        worker.reported = True
        # the engine did not ask for it, or has no more use for it: nobody else records what became of it
        if worker.job is not None and (worker.cut_off or not worker.effect):
            self._record_delivery(worker.job, answer)
        if worker.cut_off:
            return None
        if answer.failed and worker.job is not None:
            self._send_again(worker.job, answer, now, worker.written)
        reached = "; ".join(f"{name}: {whom}" if whom else name for name, whom in answer.reached.items())
        failed = "; ".join(
            [f"{name}: {why}" for name, why in answer.failed.items()] + [answer.error] * bool(answer.error)
        )
        if worker.held_back and not answer.reached:  # a message held back on purpose has failed nobody
            beside = _owed_digest(worker.digest)
            return Outcome(now, worker.effect, "delivered", proof=worker.held_back, beside=beside, begun=answer.begun)
        status = "delivered" if answer.arrived(self._beyond) else "failed"
        outcome = Outcome(now, worker.effect, status, failed, proof=reached[:REACHED_LIMIT])
        return outcome._replace(
            answered=tuple(answer.answered.items()),
            reached=tuple(answer.reached.items()),
            failed=tuple(answer.failed.items()),
            beside=(*answer.beside.items(), *_owed_digest(worker.digest)),
            begun=answer.begun,
        )

    def _record_delivery(self, job: TellJob, answer: DeliveryResult) -> None:
        if self._record is not None:
            self._record(job.message, answer, 1)

    def _send_again(self, job: TellJob, answer: DeliveryResult, now: float, written: float) -> None:
        """Retry channels beyond this machine that did not take it; a terminal is gone with whoever sat there.

        A message that nobody took, and that the engine follows up, the engine itself sends to all again.
        """
        unheard = job.message.kind == "countdown" and "unreached_tries" in job.message.facts
        by_engine = job.message.kind in FOLLOWED_UP or unheard
        if not answer.arrived(self._beyond) and by_engine:
            return
        beyond = {name: why for name, why in answer.failed.items() if name in self._beyond}
        self._redeliverer().retry(job, answer._replace(failed=beyond), now, written=written)

    def repeat(self, draft: Draft, answer: DeliveryResult) -> None:
        """Send a message that is not the engine's again, to the channels that did not take it."""
        job = self.message(draft, tuple(answer.failed))
        now = self._host.clock().boot
        self._redeliverer().retry(job, answer, now, written=now)

    def _redeliverer(self) -> "Redelivery":
        if self._redelivery is None:
            from costguard.agent.redelivery import Redelivery

            self._redelivery = Redelivery(self._host, self._record, self._still_true)
        self._redelivery.attempts = int(self.config["notify"].get("attempts") or 3)
        return self._redelivery

    def _still_true(self, job: TellJob) -> bool:
        """Whether no later message contradicts it."""
        from costguard.agent.redelivery import overtakes

        told = list(self._lately)
        place = next((number for number, draft in enumerate(told) if draft.id == job.message.id), len(told))
        return not any(overtakes(later, job.message) for later in told[place + 1 :])

    def _action_result(self, worker: Worker, answer: ActionAnswer, now: float) -> Outcome | None:
        if answer.saving:
            return Outcome(now, worker.effect, "saving")
        if answer.plan is not None:
            return self._planned(worker, answer.plan, now)
        if answer.ready and worker.kind == "prepare":
            worker.task.deadline = now + time_limits.READY_KILLED_SECONDS
            return Outcome(now, worker.effect, "ready", findings=worker.findings, receipt=worker.receipt)
        if (outcome := answer.outcome) is not None:
            worker.reported = True
            receipt = _line(outcome.receipt)
            return Outcome(now, worker.effect, outcome.status, outcome.detail, proof=outcome.proof, receipt=receipt)
        if answer.error:
            worker.reported = True
            return Outcome(now, worker.effect, status_without_answer(worker.kind), answer.error)
        return None

    def _planned(self, worker: Worker, plan: Plan, now: float) -> Outcome | None:
        worker.findings = tuple([(finding.code, finding.text, finding.hint) for finding in plan.findings])
        worker.receipt = _line(plan.receipt)
        self.price = plan.price or self.price
        if worker.kind not in {"check", "prepare"} or (worker.kind == "prepare" and plan.may_act):
            return None
        worker.reported = True
        detail = "; ".join(finding.text for finding in plan.findings)
        return Outcome(now, worker.effect, plan.verdict, detail, worker.findings)


def _owed_digest(digest: str) -> tuple[tuple[str, object], ...]:
    """Beside what became of a message: the digest for which it was held back, if it was."""
    return ((DIGEST, digest),) if digest else ()


def _told_at(effect: Tell, now: float) -> float:
    """When a message was first told, on the boot clock."""
    at = effect.facts.get("told_at")
    return float(at) if isinstance(at, int | float) else now


def _line(receipt: Mapping[str, str]) -> str:
    """A receipt as one line for messages; empty for none, and for one that exceeds the limit."""
    text = json.dumps(receipt, separators=(",", ":")) if receipt else ""
    return text if len(text) <= RECEIPT_LIMIT else ""
