"""Sends a message again to a channel that did not take it, while it is still true.

What nobody took of a countdown or its end is the engine's own matter: it counts as not told, and is repeated to all.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from costguard.agent.task import NEVER, NOT_IN_TIME, ChildTask, TaskError
from costguard.engine import time_limits
from costguard.engine.words import several
from costguard.host.ports import Ended, Host, Instant, Line, SpawnFailed
from costguard.notify.job import EXPIRED, HOLDS, DeliveryResult, Draft, Overtaking, TellJob, stub_of
from costguard.process.wire import to_line

if TYPE_CHECKING:
    from costguard.agent.recorder import Record

PAUSE_SECONDS, PAUSE_LONGEST_SECONDS = 60.0, 900.0
QUEUE_LIMIT = 20
"""Messages that wait; with more the oldest is given up."""

SAVED_LIMIT = 6
"""How many messages the saved state keeps, the latest."""


class Pending(NamedTuple):
    """A message that waits for its next try, how often it was tried, and when it was written (boot clock)."""

    job: TellJob
    tries: int
    at: float
    written: float


ABOUT = {
    **dict.fromkeys(("unknown_alarm", "unknown_recovered"), "unknown"),
    **dict.fromkeys(("preflight_refused", "preflight_passed"), "plan"),
    **dict.fromkeys(("deadline_ahead", "deadline_extended", "deadline_passed"), "deadline"),
}
"""What messages beside those of holds and incidents are about: of the same subject only the last one is true."""

COUNTDOWN = frozenset(("warning", "countdown", "unguarded", "cancelled", "came_back", *HOLDS))
"""Messages about whether a stop comes: a hold says it anew, and says nothing of what became of a request."""

PROGRESS_KINDS = frozenset(("acting", "accepted", "stopping", "asking", "next_action", "cannot", "reminder"))
"""Messages about how it stands with an incident: not so any more once there is another one."""

FINAL_KINDS = frozenset(("would_act", "done", "closed", "outcome_unknown"))
"""What an incident has come to: only the same one can come to something else, so a later one does not stand for it."""

EXIT_KINDS = frozenset(("acting", "done"))
"""Messages that say that costguard itself exits, where that was the action."""

FAILED = "failed"
"""Holds until a later try has a result; the warning of that try says nothing about the failure."""

INDEPENDENT_KINDS = frozenset(
    ("armed", "finding", "weak_sign", "kept_up", "notes", "notice", "state_lost", "summary", "test")
)
"""Messages that no other one makes untrue, and that make none so."""


def overtakes(later: Draft, earlier: Draft) -> bool:
    """Whether an earlier message would be false, or out of order, once people have the later one."""
    if {later.kind, earlier.kind} & INDEPENDENT_KINDS:
        return False
    if later.kind in ABOUT or earlier.kind in ABOUT:
        return ABOUT.get(later.kind) == ABOUT.get(earlier.kind)
    if later.kind in HOLDS:
        return earlier.kind in COUNTDOWN
    if incident_of(later) == incident_of(earlier) != "":
        return True
    if later.kind == "closed" or earlier.kind in FINAL_KINDS:  # the first is found out of an incident that was over
        return False
    return earlier.kind != FAILED or later.kind in FINAL_KINDS | {FAILED, "cannot"}


def comes_before(earlier: Draft, later: Draft) -> bool:
    """Whether people must read the one before the other where both are on their way."""
    if {later.kind, earlier.kind} & INDEPENDENT_KINDS:
        return False
    story = _story_of(later)
    return (story != "" and story == _story_of(earlier)) or overtakes(later, earlier)


def _story_of(message: Draft) -> str:
    """The incident of which a message is, or which it overtakes."""
    return str(message.facts.get("incident") or message.facts.get("overtakes") or "")


def _was_tried(name: str, answer: DeliveryResult) -> bool:
    """Whether a channel that did not take a message was tried at all: one that wants to be left alone was perhaps not, which costs it no try."""
    return name in answer.answered or name not in answer.waits


def incident_of(message: Draft) -> str:
    """The incident of which a message is; empty for none."""
    return str(message.facts.get("incident") or "")


def brought_up_to_date(message: Draft, written: float, now: Instant) -> Draft | None:
    """The message as it is true now: how long until what it announces; None once that moment is over.

    By the clock of the boot since it was ``written``, whatever became of the date meanwhile. Only a lease is a date that somebody named.
    """
    seconds, due = message.facts.get("due_in_seconds"), message.facts.get("due_wall")
    if not isinstance(seconds, int | float):
        return message
    left = seconds - (now.boot - written)
    by_date = message.kind == "deadline_ahead" and message.facts.get("limit") == "lease"
    if by_date and isinstance(due, float) and now.synced is not False:
        left = due - now.wall
    if left <= 0.0:
        return None
    date = {"due_wall": now.wall + left} if due is not None else {}
    return message._replace(facts={**message.facts, "due_in_seconds": left, "wall": now.wall, **date})


class Kept(NamedTuple):
    """What another guard of this boot may send again: a message, to which channels, how often it was tried, and when it was written.

    ``written``: on the boot clock; None of an older version of costguard, for: just now.
    """

    message: Draft
    channels: tuple[str, ...]
    tries: int
    written: float | None = None


class Redelivery:
    """The messages that wait, of which one at a time is sent. ``attempts``: tries for each in all; ``holds``: whether one is still true."""

    def __init__(
        self, host: Host, record: "Record | None" = None, holds: Callable[[TellJob], bool] = lambda _job: True
    ) -> None:
        self._host, self._record, self._holds = host, record, holds
        self._task = ChildTask(host, "notify", DeliveryResult)
        self._queue: list[Pending] = []
        self._sending: Pending | None = None
        self._in_place_of: deque[str] = deque(maxlen=QUEUE_LIMIT)  # messages that have overtaken others
        self.attempts = 3

    def retry(self, job: TellJob, answer: DeliveryResult, now: float, tries: int = 1, *, written: float) -> None:
        """Queue a message for the channels that did not take it, with backoff; a minor one is dropped.

        ``written``: when its facts were so, on the boot clock.
        """
        beyond = job.settings.get("channels")  # a terminal is gone with whoever sat there
        known = beyond if isinstance(beyond, Mapping) else {}
        lost = tuple(name for name in job.channels if name in answer.failed and name in known)
        if lost and tries == 1:
            self._say(f"not delivered: {'; '.join(f'{name}: {answer.failed[name]}' for name in lost)}", job)
        if not lost or self._is_minor(job) or not self._holds(job):
            return
        tried = [name for name in lost if _was_tried(name, answer)]
        if tried and tries >= self.attempts:
            over = f"given up after {several(tries, 'try', 'tries')}: {answer.failed[tried[0]]}"
            self._say(f"{', '.join(tried)}: {over}", job)
            lost = tuple([name for name in lost if name not in tried])
        pause = min(PAUSE_SECONDS * 2.0 ** (tries - 1), PAUSE_LONGEST_SECONDS)
        by_pause: dict[tuple[float, int], list[str]] = {}  # who asked for a longer one holds up nobody else
        for name in lost:
            wait, made = (
                (max(pause, answer.waits.get(name, 0.0)), tries) if name in tried else (answer.waits[name], tries - 1)
            )
            by_pause.setdefault((wait, made), []).append(name)
        for (longer, made), names in sorted(by_pause.items()):
            further = job._replace(channels=tuple(names), again=True, pause=0.0, after=())
            self._queue = [*self._queue, Pending(further, made, now + longer, written)][-QUEUE_LIMIT:]

    @property
    def kept(self) -> list[Kept]:
        """What is still to be sent again, for `resume` after a restart: the latest of it."""
        sending = [self._sending] if self._sending is not None else []
        left = [*self._queue, *sending][-SAVED_LIMIT:]
        return [Kept(one.job.message, one.job.channels, one.tries, one.written) for one in left]

    def resume(self, kept: Sequence[Kept], job: Callable[[Draft, tuple[str, ...]], TellJob], now: float) -> None:
        """Send what an earlier guard of this boot still had to: whoever has taken it is spared."""
        for one in kept:
            further, written = job(one.message, one.channels)._replace(again=True), one.written
            waiting = Pending(further, one.tries, now + PAUSE_SECONDS, now if written is None else written)
            if one.message.kind in EXIT_KINDS and one.message.facts.get("action") == "end_process":
                self._let_go(waiting, "not sent again: costguard restarted")
            else:
                self._queue.append(waiting)

    def send(
        self, message: Draft, channels: tuple[str, ...], job: Callable[[Draft, tuple[str, ...]], TellJob], now: float
    ) -> None:
        """Send a message that is not the engine's, from ``now`` on, as often as any other.

        Whoever took it from a guard that was killed then is spared.
        """
        self._queue = [*self._queue, Pending(job(message, channels)._replace(again=True), 0, now, now)][-QUEUE_LIMIT:]

    def _is_minor(self, job: TellJob) -> bool:
        """Whether a message gets only one try: mere information, of no incident, that takes nothing back and overtook nothing."""
        facts, message = job.message.facts, job.message
        counts = (
            facts.get("incident")
            or facts.get("takes_back")
            or message.id in self._in_place_of
            or message.kind in {"summary", "notes"}
        )
        return message.level == "info" and not counts

    def overtake(self, by: Draft) -> list[Draft]:
        """Drop the messages that a later one contradicts; it takes their place. Returns them."""
        late = [one for one in self._queue if overtakes(by, one.job.message)]
        found = [one.job.message for one in late]
        if self._sending is not None and overtakes(by, self._sending.job.message):
            self._task.send(to_line(Overtaking(later=stub_of(by))))
            self._in_place_of.append(by.id)
            found.append(self._sending.job.message)
        for one in late:
            self._let_go(one, f"not sent again: overtaken by {by.kind}")
        if late:
            self._queue = [one for one in self._queue if one not in late]
            self._in_place_of.append(by.id)
        return found

    @property
    def deadline(self) -> float:
        """When `run` must be called next."""
        if self._task.running:
            return self._task.deadline
        return min([one.at for one in self._queue], default=NEVER)

    def owns(self, child: int) -> bool:
        """Whether this child sends a message again."""
        return self._task.owns(child)

    def run(self, now: float) -> None:
        """Send what is due; end what is late."""
        if self._task.late(now):
            self._failed(NOT_IN_TIME, now)
        ripe = next((one for one in self._queue if one.at <= now), None)
        if ripe is None or self._task.running:
            return
        self._queue.remove(ripe)
        message = brought_up_to_date(ripe.job.message, ripe.written, self._host.clock()._replace(boot=now))
        if message is None:
            self._let_go(ripe, EXPIRED)
            return
        self._sending = ripe = ripe._replace(job=ripe.job._replace(message=message), written=now)
        try:
            self._task.start(ripe.job, now + time_limits.TELL.killed)
        except SpawnFailed as error:
            self._failed(str(error), now)

    def stop(self) -> None:
        """The guard ends: the next one of this boot has in `kept` what is on its way, too."""
        self._task.stop()

    @property
    def sending(self) -> TellJob | None:
        """What is on its way now."""
        return self._sending.job if self._sending is not None else None

    def take(self, event: Line | Ended, now: float) -> None:
        """What came of it."""
        try:
            answer = self._task.only_answer(event)
        except TaskError as error:
            self._failed(str(error), now)
            return
        sent, self._sending = self._sending, None
        assert sent is not None  # it is what the task was started for
        self._keep(sent, answer)
        if answer.reached and not answer.failed and sent.tries:
            self._say(f"{', '.join(answer.reached)}: arrived on try {sent.tries + 1}", sent.job)
        self.retry(sent.job, answer, now, sent.tries + 1, written=sent.written)

    def _failed(self, message: str, now: float) -> None:
        sent, self._sending = self._sending, None
        if sent is not None:
            answer = DeliveryResult(failed=dict.fromkeys(sent.job.channels, message))
            self._keep(sent, answer)
            self.retry(sent.job, answer, now, sent.tries + 1, written=sent.written)

    def _keep(self, sent: Pending, answer: DeliveryResult) -> None:
        if self._record is not None and (answer.reached or any(_was_tried(name, answer) for name in answer.failed)):
            self._record(sent.job.message, answer, sent.tries + 1)

    def _let_go(self, waiting: Pending, why: str) -> None:
        """A message is not sent again: the journal says so, and the history for each channel that lacks it."""
        self._say(f"{', '.join(waiting.job.channels)}: {why}", waiting.job)
        if self._record is not None:
            answer = DeliveryResult(failed=dict.fromkeys(waiting.job.channels, why))
            self._record(waiting.job.message, answer, waiting.tries + 1)

    def _say(self, message: str, job: TellJob) -> None:
        self._host.say(f"message {job.message.id} ({job.message.kind}): {message}")
