"""The guard's long-lived readers: asked by line, with a deadline, killed and started again.

One rule for all of them: hung means SIGKILL, never wait, readings unknown, restart with backoff.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from costguard.agent import decode
from costguard.agent.task import exit_reason
from costguard.host.ports import ChildHost, SpawnFailed
from costguard.process.wire import to_line

ANSWER_WITHIN_SECONDS = 5.0
"""For one read."""

COMES_WITHIN_SECONDS = 1.0
"""After this a reader is asked that should have answered by itself; its time to answer is shorter by as much."""

ALONE_AGAIN_SECONDS = 60.0
"""For so long it is then asked for each reading."""

START_WITHIN_SECONDS = 30.0
"""For the first read of a new reader: without persistence mode the driver takes 1 to 3 s per GPU."""

NOT_YET = "the reader has not answered yet"

FAILED = 3
"""Exit code of a reader whose last answer says why only a new process can help."""

HANDED = ("counters", "learnt")
"""Parts of an answer that are handed to the next process: objects by device, of which later ones replace earlier ones."""

_HANDED = frozenset(HANDED)

HANDED_KEYS = 1024  # more devices than any machine has

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 5.0, 300.0
"""Backoff between restarts."""

UNREAPED_LIMIT = 3
"""With so many readers that survive SIGKILL no further one is started: it would hang as well."""

DETACHED = "detached on request; to use it again: `costguard attach`"
"""Why nothing is read while a driver is replaced."""


class Rhythm(NamedTuple):
    """When a reader may read without being asked: from a moment on, every so many seconds.

    ``pairs``: of two readings in a row it may leave out one that equals the one before. ``above``: the highest threshold
    with which loads are compared.
    """

    due: float
    every: float
    pairs: bool = False
    above: float = 1.0


class Watch(NamedTuple):
    """How a reader looks before it answers: every so many seconds, until it sees another thing than before, or that moment."""

    every: float
    until: float


class _Course:
    """What a reader answers without being asked: the number of its next reading, and when that is due."""

    __slots__ = ("due", "every", "number", "pairs")

    def __init__(self, number: int, rhythm: Rhythm) -> None:
        self.number = number
        self.due, self.every, self.pairs, _ = rhythm

    @property
    def said_by(self) -> float:
        """When it says something at the latest."""
        return self.due + self.every if self.pairs else self.due

    @property
    def last(self) -> int:
        """The number that what it says next may have at most."""
        return self.number + 1 if self.pairs else self.number

    def fits(self, number: object, *, unsaid: bool) -> bool:
        """Whether this is the number of what comes next; ``unsaid``: after a reading that it did not tell."""
        return number == (self.last if unsaid else self.number)

    def go_on(self, number: int, now: float) -> None:
        self.number = number + 1
        if now >= self.due:
            self.due += self.every * ((now - self.due) // self.every + 1)


class ReaderProcess:
    """One reader process: started with a fresh ``job()``, asked, killed when late, restarted.

    Not a `Task`: it answers many times, also unasked, in lines decoded by hand to save CPU in every tick.
    """

    def __init__(
        self,
        host: ChildHost,
        program: str,
        job: Callable[[], object],
        *,
        handed: Mapping[str, Any] = MappingProxyType({}),
        detached: bool = False,
        within: float = ANSWER_WITHIN_SECONDS,
    ) -> None:
        self._host = host
        self._program = program
        self._job = job
        self.handed = dict(handed)
        """What it leaves for the next process (`HANDED`); a part that changed is another object."""
        self.child: int | None = None
        self.detached = detached
        """Whether a person wants no process to run, until he says otherwise."""
        self.words = NOT_YET
        self.refused: dict[str, Any] | None = None
        """What the last line said, where it was an answer that was not taken."""
        self.error = ""  # why the last answer names no GPU
        self._asked: tuple[int, float] | None = None  # sequence number and deadline
        self._course: _Course | None = None  # while it answers by itself
        self._missed: _Course | None = None  # of an answer that should have come by itself, and did not
        self._alone_from = 0.0  # when it may be left to itself again
        self._answered_once = False
        self._pause = FIRST_PAUSE_SECONDS
        self._start_at = 0.0
        self._sequence = 0
        self._within = START_WITHIN_SECONDS
        self._usually = within
        self.restarts = -1

    def ask(
        self,
        now: float,
        *,
        look: bool = False,
        then: Rhythm | None = None,
        watch: Watch | None = None,
        anew: bool = False,
        saving: bool = False,
    ) -> None:
        """Ask for a reading, starting the process if need be; `waiting` says whether a tick should wait for it.

        ``look``: with a look at which devices there are, which is otherwise a rare one. ``then``: how it may go on by itself.
        ``watch``: how long it may leave the answer. ``anew``: instead of a question that it has not answered yet.
        ``saving``: the pre-stop hook works.
        """
        if self._asked is not None and not anew:
            return
        if self.detached:
            self.stop()  # it had the time since the request to take leave of the driver
            self.words = DETACHED
            return
        if self.child is None and not self._start(now):
            return
        self._sequence += 1
        self._within = self._usually if self._answered_once else START_WITHIN_SECONDS
        request = b'{"read":%d,"look":true}' if look else b'{"read":%d,"saving":true}' if saving else b'{"read":%d}'
        if then is not None and now >= self._alone_from:
            above = b',"above":%r' % then.above if then.above < 1.0 else b""
            request = b'{"read":%%d,"then":[%.3f,%r%s]%s}' % (then.due, then.every, b",2" if then.pairs else b"", above)
            self._course = _Course(self._sequence, then)
        patience = self._within - (0.0 if self._missed is None else COMES_WITHIN_SECONDS)
        if watch is not None:
            request = b'{"read":%%d,"every":%r,"until":%.3f}' % watch
            patience += max(0.0, watch.until - now)
        if self.child is None or not self._host.send(self.child, request % self._sequence):
            self._lost(now, "the reader's input pipe is closed or full")
            return
        self._asked = (self._sequence, now + patience)

    @property
    def waiting(self) -> bool:
        """Whether an answer is due that a tick should wait for.

        For the first answer of a restarted reader none does: it may take long, and that nothing can be read must be
        said in time.
        """
        return self._asked is not None and (self._answered_once or self.restarts == 0)

    @property
    def alone(self) -> bool:
        """Whether the next answer comes without being asked for."""
        return self._course is not None and self._asked is None

    @property
    def pairs(self) -> bool:
        """Whether it may leave every second one unsaid."""
        return self._course is not None and self._course.pairs

    def would_cross(self, now: float) -> bool:
        """Whether a reading that nobody asks for is due about now: a question would cross it, and what lies before would be a hole."""
        if self._course is None:
            return False
        every = self._course.every
        beside = (now - self._course.due + every / 2.0) % every - every / 2.0
        return abs(beside) <= min(COMES_WITHIN_SECONDS, every / 4.0)

    def lapse(self) -> None:
        """Wait for no answer that was not asked for; the next question ends them.

        One that crosses that question is `refused`, and what it holds of work is not lost with it.
        """
        if self._course is not None and self._asked is None:
            self._sequence = self._course.last
        self._course = None

    @property
    def healthy(self) -> bool:
        """Whether the process that runs now has answered, and found GPUs."""
        return self.child is not None and self._answered_once and not self.error

    @property
    def deadline(self) -> float:
        """When the answer under way is late."""
        if self._asked is not None:
            return self._asked[1]
        return self._course.said_by + COMES_WITHIN_SECONDS if self._course is not None else float("inf")

    def detach(self) -> None:
        """Let the process take leave of the driver and end, and start none until `attach`."""
        self.detached = True
        self.lapse()
        if self.child is not None:
            self._host.send(self.child, b'{"detach":true}')

    def attach(self) -> None:
        """The next read may start a process again, which loads whatever library is there now."""
        if self.detached:
            self.stop()
            self.detached, self._asked, self._missed = False, None, None
            self._start_at, self._pause = 0.0, FIRST_PAUSE_SECONDS
            self.words = NOT_YET

    def line(self, data: bytes, now: float) -> dict[str, Any] | None:
        """Take a line of the process; gives the answer to the read under way, or the one that is due, if it is one."""
        answer, self.refused = decode.message(data), None
        if answer is None:
            self._lost(now, "malformed answer from the reader")
            return None
        if "last_words" in answer:
            self.error = str(answer["last_words"])[:300]
            return None
        if not _HANDED.isdisjoint(answer):
            self._keep(answer)
        self.refused, late = answer, False
        if "at" in answer:
            if not self._due(answer, now):
                return None
        elif self._asked is None or answer.get("read") != self._asked[0] or "same" in answer:
            return None
        else:
            late = now >= self._asked[1]
        self._asked = self._missed = None
        if self._course is not None:
            self._sequence = max(int(answer["read"]), self._course.number)  # less than that: of one that was missed
            self._course.go_on(self._sequence, now)
        self._answered_once = True
        self.error = str(answer.get("error") or "")[:300]
        if late:  # the guard itself stood still meanwhile: the reading may be as old as that
            self.words = "the answer came too late"
            return None
        if "senses" in answer:
            self._pause = FIRST_PAUSE_SECONDS
        if "gpus" in answer and any(
            isinstance(gpu, list) and len(gpu) > 1 and gpu[1] is not None for gpu in answer["gpus"]
        ):
            self._pause = FIRST_PAUSE_SECONDS
        self.refused = None
        return answer

    def _due(self, answer: Mapping[str, Any], now: float) -> bool:
        """Whether an answer that nobody asked for is the one that is due, or that was missed, and fresh."""
        course, at = self._course if self._asked is None and self._course is not None else self._missed, answer["at"]
        if course is None or not course.fits(answer.get("read"), unsaid="unsaid" in answer):
            return False
        fresh = isinstance(at, int | float) and now - self._usually < at <= now + COMES_WITHIN_SECONDS
        if not fresh:  # the guard itself stood still meanwhile: it asks for another one
            self.lapse()
        return fresh

    def _keep(self, answer: dict[str, Any]) -> None:
        """Take what the next process needs, also of an answer that nobody waits for any more."""
        for name in HANDED:
            given = answer.get(name)
            if given and isinstance(given, dict):
                kept = {**self.handed.get(name, {}), **given}
                self.handed[name] = kept if len(kept) <= HANDED_KEYS else given

    def ended(self, code: int, now: float) -> None:
        """The process is gone."""
        end = f"the reader ended ({exit_reason(code)})"
        self.child = None
        if not self.error:
            self._lost(now, f"{end}; the journal may say why")
        else:  # the error matters more than how the process ended
            self._lost(now, self.error if code == FAILED else f"{self.error}; {end}")

    def late(self, now: float) -> bool:
        """Kill a reader that is past its deadline; the caller's reading is unknown.

        One that did not come by itself is not killed, but is to be asked: the guard, or the machine, may have stood still.
        """
        if now < self.deadline:
            return False
        if self._asked is None:
            self._missed, self._alone_from = self._course, now + ALONE_AGAIN_SECONDS
            self.lapse()
            return False
        self._lost(now, f"the reader did not answer within {self._within:.0f} s and was killed")
        return True

    def stop(self) -> None:
        """End it for good; its pipe is closed by the kill."""
        self.lapse()
        if self.child is not None:
            self._host.kill(self.child)
            self.child = None

    def _start(self, now: float) -> bool:
        if now < self._start_at:
            return False
        if self._host.unreaped(self._program) >= UNREAPED_LIMIT:
            self.words = f"{UNREAPED_LIMIT} readers hang in the driver and cannot be killed; none is started any more"
            return False
        try:
            self.child = self._host.spawn(self._program, to_line(self._job()))
        except SpawnFailed as error:
            self._lost(now, str(error))
            return False
        self.restarts += 1
        self._answered_once, self.error = False, ""
        return True

    def _lost(self, now: float, why: str) -> None:
        self.words = DETACHED if self.detached else why
        self._asked = self._missed = self._course = None
        if self.child is not None:
            self._host.kill(self.child)
            self.child = None
        self._start_at = now + self._pause
        self._pause = min(LONGEST_PAUSE_SECONDS, self._pause * 2)
