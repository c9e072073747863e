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
"""How late a streamed reading may be before the guard asks; the time to answer is shorter by as much."""

STREAM_AGAIN_SECONDS = 60.0
"""How long the guard then asks for each reading before it lets the reader stream again."""

START_WITHIN_SECONDS = 30.0
"""For the first read of a new reader: without persistence mode the driver takes 1 to 3 s per GPU."""

NOT_YET = "the reader has not answered yet"

FAILED = 3
"""Exit code of a reader whose last answer says why only a new process can help."""

HANDOVER = ("counters", "learnt")
"""Parts of an answer that are handed to the next process: objects by device, of which later ones replace earlier ones."""

_HANDOVER = frozenset(HANDOVER)

HANDOVER_KEYS_LIMIT = 1024  # more devices than any machine has

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 5.0, 300.0
"""Backoff between restarts."""

UNREAPED_LIMIT = 3
"""When this many readers survive SIGKILL, no further one is started: it would hang as well."""

DETACHED = "detached on request; to use it again: `costguard attach`"
"""Why nothing is read while a driver is replaced."""


class StreamPlan(NamedTuple):
    """When a reader streams readings, without being asked: from a moment on, every so many seconds.

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


class _Stream:
    """The readings that a reader streams: the number of the next one, and when that is due."""

    __slots__ = ("due", "every", "number", "pairs")

    def __init__(self, number: int, rhythm: StreamPlan) -> None:
        self.number = number
        self.due, self.every, self.pairs, _ = rhythm

    @property
    def said_by(self) -> float:
        """When a line of it comes at the latest."""
        return self.due + self.every if self.pairs else self.due

    @property
    def last(self) -> int:
        """The highest number that its next line may have."""
        return self.number + 1 if self.pairs else self.number

    def fits(self, number: object, *, unsaid: bool) -> bool:
        """Whether this is the number of its next line; ``unsaid``: after a reading that it left out."""
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
        handover: Mapping[str, Any] = MappingProxyType({}),
        detached: bool = False,
        within: float = ANSWER_WITHIN_SECONDS,
    ) -> None:
        self._host = host
        self._program = program
        self._job = job
        self.handover = dict(handover)
        """What it leaves for the next process (`HANDOVER`); a part that changed is another object."""
        self.child: int | None = None
        self.detached = detached
        """Whether a person wants no process to run, until he says otherwise."""
        self.failure = NOT_YET  # why there is no reading, in words
        self.rejected: dict[str, Any] | None = None
        """What the last line said, where it was an answer that was not taken."""
        self.error = ""  # why the last answer names no GPU
        self._asked: tuple[int, float] | None = None  # sequence number and deadline
        self._stream: _Stream | None = None  # while it streams
        self._missed_stream: _Stream | None = None  # the stream of a reading that did not come
        self._stream_from = 0.0  # when it may stream again
        self._answered_once = False
        self._pause = FIRST_PAUSE_SECONDS
        self._start_at = 0.0
        self._sequence = 0
        self._answer_within = START_WITHIN_SECONDS
        self._usual_within = within
        self.restarts = -1

    def ask(
        self,
        now: float,
        *,
        look: bool = False,
        stream: StreamPlan | None = None,
        watch: Watch | None = None,
        anew: bool = False,
        saving: bool = False,
    ) -> None:
        """Ask for a reading, starting the process if need be; `waiting` says whether a tick should wait for it.

        ``look``: with a look at which devices there are, which is otherwise a rare one. ``stream``: how it may stream further ones.
        ``watch``: how long it may leave the answer. ``anew``: instead of a question that it has not answered yet.
        ``saving``: the pre-stop hook works.
        """
        if self._asked is not None and not anew:
            return
        if self.detached:
            self.stop()  # it had the time since the request to take leave of the driver
            self.failure = DETACHED
            return
        if self.child is None and not self._start(now):
            return
        self._sequence += 1
        self._answer_within = self._usual_within if self._answered_once else START_WITHIN_SECONDS
        request = b'{"read":%d,"look":true}' if look else b'{"read":%d,"saving":true}' if saving else b'{"read":%d}'
        if stream is not None and now >= self._stream_from:
            above = b',"above":%r' % stream.above if stream.above < 1.0 else b""
            request = b'{"read":%%d,"then":[%.3f,%r%s]%s}' % (
                stream.due,
                stream.every,
                b",2" if stream.pairs else b"",
                above,
            )
            self._stream = _Stream(self._sequence, stream)
        patience = self._answer_within - (0.0 if self._missed_stream is None else COMES_WITHIN_SECONDS)
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
    def streaming(self) -> bool:
        """Whether the next reading comes without being asked for."""
        return self._stream is not None and self._asked is None

    @property
    def pairs(self) -> bool:
        """Whether it streams, and may leave out every second reading."""
        return self._stream is not None and self._stream.pairs

    def would_cross(self, now: float) -> bool:
        """Whether a reading that nobody asks for is due about now: a question would cross it, and what lies before would be a hole."""
        if self._stream is None:
            return False
        every = self._stream.every
        beside = (now - self._stream.due + every / 2.0) % every - every / 2.0
        return abs(beside) <= min(COMES_WITHIN_SECONDS, every / 4.0)

    def end_stream(self) -> None:
        """Wait for no streamed reading any more; the next question makes the reader stop.

        One that crosses that question is `refused`, and what it holds of work is not lost with it.
        """
        if self._stream is not None and self._asked is None:
            self._sequence = self._stream.last
        self._stream = None

    @property
    def healthy(self) -> bool:
        """Whether the process that runs now has answered, and found GPUs."""
        return self.child is not None and self._answered_once and not self.error

    @property
    def deadline(self) -> float:
        """When the answer under way is late."""
        if self._asked is not None:
            return self._asked[1]
        return self._stream.said_by + COMES_WITHIN_SECONDS if self._stream is not None else float("inf")

    def detach(self) -> None:
        """Let the process take leave of the driver and end, and start none until `attach`."""
        self.detached = True
        self.end_stream()
        if self.child is not None:
            self._host.send(self.child, b'{"detach":true}')

    def attach(self) -> None:
        """The next read may start a process again, which loads whatever library is there now."""
        if self.detached:
            self.stop()
            self.detached, self._asked, self._missed_stream = False, None, None
            self._start_at, self._pause = 0.0, FIRST_PAUSE_SECONDS
            self.failure = NOT_YET

    def line(self, data: bytes, now: float) -> dict[str, Any] | None:
        """Take a line of the process; gives the answer to the read under way, or the one that is due, if it is one."""
        answer, self.rejected = decode.message(data), None
        if answer is None:
            self._lost(now, "malformed answer from the reader")
            return None
        if "last_words" in answer:
            self.error = str(answer["last_words"])[:300]
            return None
        if not _HANDOVER.isdisjoint(answer):
            self._keep_handover(answer)
        self.rejected, late = answer, False
        if "at" in answer:
            if not self._is_due(answer, now):
                return None
        elif self._asked is None or answer.get("read") != self._asked[0] or "same" in answer:
            return None
        else:
            late = now >= self._asked[1]
        self._asked = self._missed_stream = None
        if self._stream is not None:
            self._sequence = max(int(answer["read"]), self._stream.number)  # less than that: of one that was missed
            self._stream.go_on(self._sequence, now)
        self._answered_once = True
        self.error = str(answer.get("error") or "")[:300]
        if late:  # the guard itself was stalled meanwhile: the reading may be as old as that
            self.failure = "the answer came too late"
            return None
        if "senses" in answer:
            self._pause = FIRST_PAUSE_SECONDS
        if "gpus" in answer and any(
            isinstance(gpu, list) and len(gpu) > 1 and gpu[1] is not None for gpu in answer["gpus"]
        ):
            self._pause = FIRST_PAUSE_SECONDS
        self.rejected = None
        return answer

    def _is_due(self, answer: Mapping[str, Any], now: float) -> bool:
        """Whether an answer that nobody asked for is the one that is due, or that was missed, and fresh."""
        at, asked = answer["at"], self._asked is not None
        stream = self._missed_stream if asked or self._stream is None else self._stream
        if stream is None or not stream.fits(answer.get("read"), unsaid="unsaid" in answer):
            return False
        fresh = isinstance(at, int | float) and now - self._usual_within < at <= now + COMES_WITHIN_SECONDS
        if not fresh:  # the guard itself was stalled meanwhile: it asks for another one
            self.end_stream()
        return fresh

    def _keep_handover(self, answer: dict[str, Any]) -> None:
        """Take what the next process needs, also of an answer that nobody waits for any more."""
        for name in HANDOVER:
            given = answer.get(name)
            if given and isinstance(given, dict):
                kept = {**self.handover.get(name, {}), **given}
                self.handover[name] = kept if len(kept) <= HANDOVER_KEYS_LIMIT else given

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

        One that did not come by itself is not killed, but is to be asked: the guard, or the machine, may have been stalled.
        """
        if now < self.deadline:
            return False
        if self._asked is None:
            self._missed_stream, self._stream_from = self._stream, now + STREAM_AGAIN_SECONDS
            self.end_stream()
            return False
        self._lost(now, f"the reader did not answer within {self._answer_within:.0f} s and was killed")
        return True

    def stop(self) -> None:
        """End it for good; its pipe is closed by the kill."""
        self.end_stream()
        if self.child is not None:
            self._host.kill(self.child)
            self.child = None

    def _start(self, now: float) -> bool:
        if now < self._start_at:
            return False
        if self._host.unreaped(self._program) >= UNREAPED_LIMIT:
            self.failure = f"{UNREAPED_LIMIT} readers hang in the driver and cannot be killed; no new one is started"
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
        self.failure = DETACHED if self.detached else why
        self._asked = self._missed_stream = self._stream = None
        if self.child is not None:
            self._host.kill(self.child)
            self.child = None
        self._start_at = now + self._pause
        self._pause = min(LONGEST_PAUSE_SECONDS, self._pause * 2)


class ReaderSide:
    """The guard's side of a reader that runs only where there is something to read."""

    _reader: ReaderProcess | None = None

    @property
    def deadline(self) -> float:
        """When an answer is late, on the boot clock."""
        return self._reader.deadline if self._reader is not None else float("inf")

    @property
    def has_reader(self) -> bool:
        """Whether there is a reader to ask."""
        return self._reader is not None

    def owns(self, child: int) -> bool:
        """Whether this child is the reader."""
        return self._reader is not None and self._reader.child == child

    def stop(self) -> None:
        """End the reader for good."""
        if self._reader is not None:
            self._reader.stop()
            self._reader = None
