"""The owner's programs at the steps of an incident: one after the other, and none of them changes a decision."""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from costguard.actions.base import Context, HookStep
from costguard.actions.job import ActionAnswer
from costguard.agent.circumstances import Circumstances
from costguard.agent.task import NOT_IN_TIME, Part, TaskError
from costguard.engine import time_limits
from costguard.engine.state import ACTING, CONFIRMING, DONE, FAILED, WARNING, WATCHING, Core, Incident
from costguard.host.ports import UNWATCHED, Ended, Host, Instant, Line, Report, SpawnFailed
from costguard.process.wire import MalformedError, build, plain

STEPS: tuple[HookStep, ...] = ("armed", "warning", "cancelled", "undo", "post_boot")
"""All but `pre_stop`, which the action worker runs."""

WAITING_LIMIT = 8
"""Steps that wait; with more the oldest is left out."""

TAKES_BACK: tuple[HookStep, ...] = ("cancelled", "undo")
"""They run by the settings under which their countdown began, also where the machine has become a dry run since."""

NOTICE = "notice"
"""Name of the cloud's announcement among what has begun: there is one at most."""

STILL_DRAINED = (
    "what pre_stop drained may still be drained; undo it by hand (`costguard history` shows the hook's output)"
)
"""Said to people when an undo has failed: else nobody looks."""


class Occasion(NamedTuple):
    """A step that was reached, and what belongs to it. ``name`` makes it run at most once. ``again``: its process was lost once.

    ``hooks``: the section of the configuration by which it runs.
    """

    step: HookStep
    name: str
    hooks: Mapping[str, Any] = {}
    incident: str = ""
    reason: str = ""
    given: Circumstances = Circumstances()
    again: bool = False


class KeptHooks(NamedTuple):
    """What the next guard goes on with. ``begun``: the settings under which an open countdown or notice began, by its name."""

    left: tuple[Occasion, ...] = ()
    begun: Mapping[str, Mapping[str, Any]] = {}


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
        core: Core,
        kept: object = None,
    ) -> None:
        """``tell`` says something to people, once under each name. ``core``: what the guard begins with.

        ``kept``: what an earlier guard of this boot had to run, each once for its occasion.
        """
        super().__init__(host, "act", ActionAnswer, report)
        self._record, self._tell = record, tell
        self._waiting: deque[Occasion] = deque(maxlen=WAITING_LIMIT)
        self._running: Occasion | None = None
        self._begun: dict[str, Mapping[str, Any]] = {}
        self._settings: Mapping[str, Any] = {}
        self.adopt(config)
        try:
            left, begun = build(KeptHooks, kept)
        except MalformedError:
            self._keep_begun(None, core)  # lost: the best guess is this configuration
        else:
            self._begun = dict(begun)
            for one in left:
                self._add(one)

    def adopt(self, config: Mapping[str, Any]) -> None:
        """Work under this configuration; what began under the one before is taken back by that one."""
        self._config, before = config, self._settings
        live = config["policy"]["mode"] == "live"
        self._settings = (config.get("hooks") or {}) if live else {}
        for step in STEPS:
            if before.get(step) and not self._settings.get(step):
                self._report(f"hooks.{step}", UNWATCHED)

    @property
    def kept(self) -> object:
        """What runs, what waits and what may have to be taken back, for the next guard."""
        left = tuple(one for one in (self._running, *self._waiting) if one is not None)
        return plain(KeptHooks(left, self._begun))

    def booted(self, boot_id: str, given: Circumstances) -> None:
        """The guard begins: in a boot that no guard has seen, as far as is remembered in it."""
        self._add(Occasion("post_boot", boot_id, self._settings, given=given))

    def note(self, before: Core, core: Core, circumstances: Callable[[], Circumstances]) -> None:
        """See which steps a change of the engine's state has reached."""
        if not self._begun and not any(self._settings.get(step) for step in STEPS):
            return
        given = circumstances()
        if before.signals.armed_at is None and core.signals.armed_at is not None:
            self._add(Occasion("armed", core.boot_id, self._settings, given=given))
        if before.notice.due is not None and core.notice.due is None:
            self._add(self._undo_of_notice(before.notice.due, given))
        if before.incident is not None:
            self._note_end(before.incident, before, core, given)
        if core.incident is not None and core.phase == WARNING and _another(before, core):
            self._add(_of("warning", core.incident, self._settings, given))
        self._keep_begun(before, core)

    def _undo_of_notice(self, due: float, given: Circumstances) -> Occasion:
        hooks = self._begun.get(NOTICE, {})
        hooks = hooks if hooks.get("pre_stop") else {}
        return Occasion("undo", f"notice-{due:.0f}", hooks, reason="interruption", given=given)

    def _note_end(self, earlier: Incident, before: Core, core: Core, given: Circumstances) -> None:
        """Take back what the countdown, or the action, of this incident did not bring to its end."""
        hooks = self._begun.get(earlier.id, {})
        replaced = _another(before, core)  # the next countdown may begin in the same step
        if before.phase == WARNING and (core.phase == WATCHING or replaced):
            for step in TAKES_BACK:
                self._add(_of(step, earlier, hooks, given))
        elif replaced or core.phase == before.phase:
            return
        elif before.phase in {ACTING, CONFIRMING} and core.phase == WATCHING and core.fresh_start == "resume":
            self._add(_of("post_boot", earlier, self._settings, given))
        elif core.phase == FAILED or (core.phase == DONE and core.ending.done in {"cannot", "unknown"}):
            self._add(_of("undo", earlier, hooks, given))

    def _keep_begun(self, before: Core | None, core: Core) -> None:
        """Keep the settings of what is open, each as it was when that began."""
        begun: dict[str, Mapping[str, Any]] = {}
        if core.notice.due is not None:
            goes_on = before is not None and before.notice.due is not None
            begun[NOTICE] = self._begun.get(NOTICE, {}) if goes_on else self._settings
        if core.incident is not None:
            goes_on = before is not None and not _another(before, core)
            begun[core.incident.id] = self._begun.get(core.incident.id, {}) if goes_on else self._settings
        self._begun = {name: hooks for name, hooks in begun.items() if any(hooks.get(step) for step in TAKES_BACK)}

    def _add(self, occasion: Occasion) -> None:
        if occasion.hooks.get(occasion.step) and (self._settings or occasion.step in TAKES_BACK):
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
        within = float(one.hooks.get("timeout") or time_limits.HOOK_SECONDS)
        job = Context.of(self._config, str(self._config["policy"]["kill_action"]))._replace(
            **{**one.given._asdict(), "reason": one.reason}, job="hook", step=one.step, attempt=one.name, incident=one.incident,
            hook=one.hooks, mode="live", deadline=within,
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


def _of(step: HookStep, incident: Incident, hooks: Mapping[str, Any], given: Circumstances) -> Occasion:
    return Occasion(step, incident.id, hooks, incident.id, incident.reason, given)


def _another(before: Core, core: Core) -> bool:
    return core.incident is not None and (before.incident is None or before.incident.id != core.incident.id)
