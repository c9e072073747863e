"""The owner's programs at the steps of an incident: one after the other, and none of them changes a decision."""

from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from costguard.actions.base import Context, HookStep
from costguard.actions.job import ActionAnswer
from costguard.agent.circumstances import Circumstances
from costguard.agent.task import NOT_IN_TIME, Part, TaskError
from costguard.engine import time_limits
from costguard.engine.state import ACTING, CONFIRMING, DONE, FAILED, WARNING, WATCHING, Core
from costguard.host.ports import Ended, Host, Instant, Line, Report, SpawnFailed
from costguard.process.wire import MalformedError, build, plain

STEPS: tuple[HookStep, ...] = ("armed", "warning", "cancelled", "undo", "post_boot")
"""All but `pre_stop`, which the action worker runs."""

WAITING_LIMIT = 8
"""Steps that wait; with more the oldest is left out."""


STILL_DRAINED = (
    "what pre_stop drained may still be drained; undo it by hand (`costguard history` shows the hook's output)"
)
"""Said to people when an undo has failed: else nobody looks."""


class Occasion(NamedTuple):
    """A step that was reached, and what belongs to it. ``name`` makes it run at most once. ``again``: its process was lost once."""

    step: HookStep
    name: str
    incident: str = ""
    reason: str = ""
    given: Circumstances = Circumstances()
    again: bool = False


Record = Callable[[Occasion, str, str], None]
"""Keeps how a program ended: its status, and its words."""


class HookRunner(Part[ActionAnswer]):
    """Runs the programs of ``[hooks]`` in live mode. ``report`` gets the subject *hook*."""

    def __init__(
        self,
        host: Host,
        config: Mapping[str, Any],
        report: Report,
        record: Record,
        tell: Callable[[str, str], None],
        kept: object = None,
    ) -> None:
        """``tell`` says something to people, once under each name. ``kept``: what an earlier guard of this boot had to run, each once for its occasion."""
        super().__init__(host, "act", ActionAnswer, report)
        self._record, self._tell = record, tell
        self._waiting: deque[Occasion] = deque(maxlen=WAITING_LIMIT)
        self._running: Occasion | None = None
        self.adopt(config)
        for one in kept if isinstance(kept, list) else ():
            with suppress(MalformedError, ValueError, TypeError):
                self._add(build(Occasion, one))

    def adopt(self, config: Mapping[str, Any]) -> None:
        """Work under this configuration."""
        self._config = config
        self._settings: Mapping[str, Any] = config.get("hooks") or {}
        self._live = config["policy"]["mode"] == "live"

    @property
    def kept(self) -> object:
        """What runs and what waits, for the next guard; None for nothing."""
        left = [plain(one) for one in (self._running, *self._waiting) if one is not None]
        return left or None

    def booted(self, boot_id: str, given: Circumstances) -> None:
        """The guard begins: in a boot that no guard has seen, as far as is remembered in it."""
        self._add(Occasion("post_boot", boot_id, given=given))

    def note(self, before: Core, core: Core, circumstances: Callable[[], Circumstances]) -> None:
        """See which steps a change of the engine's state has reached."""
        if not self._live or not any(self._settings.get(step) for step in STEPS):
            return
        incident, earlier, given = core.incident, before.incident, circumstances()
        if before.signals.armed_at is None and core.signals.armed_at is not None:
            self._add(Occasion("armed", core.boot_id, given=given))
        another = incident is not None and (earlier is None or earlier.id != incident.id)
        replaced = another and before.phase == WARNING  # the next countdown may begin in the same step
        cancelled = before.phase == WARNING and (core.phase == WATCHING or replaced)
        if cancelled and earlier is not None:
            self._add(Occasion("cancelled", earlier.id, earlier.id, earlier.reason, given))
            self._add(Occasion("undo", earlier.id, earlier.id, earlier.reason, given))
        if core.phase == WARNING and incident is not None and another:
            self._add(Occasion("warning", incident.id, incident.id, incident.reason, given))
        if before.notice.due is not None and core.notice.due is None and self._settings.get("pre_stop"):
            self._add(Occasion("undo", f"notice-{before.notice.due:.0f}", reason="interruption", given=given))
        if earlier is None or core.phase == before.phase:
            return
        if before.phase in {ACTING, CONFIRMING} and core.phase == WATCHING and core.fresh_start == "resume":
            self._add(Occasion("post_boot", earlier.id, earlier.id, earlier.reason, given))
        stays = core.phase == FAILED or (core.phase == DONE and core.ending.done in {"cannot", "unknown"})
        if stays and not cancelled:
            self._add(Occasion("undo", earlier.id, earlier.id, earlier.reason, given))

    def _add(self, occasion: Occasion) -> None:
        if self._live and self._settings.get(occasion.step):
            self._waiting.append(occasion)

    @property
    def deadline(self) -> float:
        """When `run` must be called next."""
        return 0.0 if self._waiting and not self._task.running else self._task.deadline

    def run(self, now: Instant) -> None:
        """Start what is due; end what is late."""
        if self._task.late(now.boot):
            self._ended("failed", NOT_IN_TIME)
        if not self._waiting or self._task.running:
            return
        self._running = one = self._waiting.popleft()
        within = float(self._settings.get("timeout") or time_limits.HOOK_SECONDS)
        job = Context.of(self._config, str(self._config["policy"]["kill_action"]))._replace(
            **{**one.given._asdict(), "reason": one.reason}, job="hook", step=one.step, attempt=one.name, incident=one.incident,
            deadline=within,
        )  # fmt: skip
        try:
            self._task.start(job, now.boot + time_limits.save(within).killed)
        except SpawnFailed as error:
            self._ended("failed", str(error))

    def take(self, event: Line | Ended, _now: Instant) -> None:
        """Keep how it ended."""
        try:
            answer = self._task.only_answer(event)
        except TaskError as error:
            one = self._running
            again = one is not None and one.step == "undo" and not one.again  # what was drained may still be
            self._ended("failed", str(error), for_good=not again)
            if one is not None and again:
                self._waiting.appendleft(one._replace(again=True))
            return
        outcome = answer.outcome
        if outcome is None:
            self._ended("failed", answer.error or "no outcome")
        else:
            self._ended(outcome.status, outcome.detail)

    def stop(self) -> None:
        """Kill one that runs; the others never begin."""
        self._waiting.clear()
        self._task.stop()

    def _ended(self, status: str, detail: str, *, for_good: bool = True) -> None:
        one, self._running = self._running, None
        if one is None:
            return
        self._record(one, status, detail)
        self._report(f"hooks.{one.step}", f"hooks.{one.step}: {detail}" if status == "failed" else None)
        if one.step == "undo" and status == "failed" and for_good:
            self._tell(f"undo-{one.name}", f"the machine goes on, but {detail}: {STILL_DRAINED}")
