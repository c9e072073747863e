"""The record of a message's delivery: a further try asks only those who have not taken it, also after the guard or a worker died.

One file for each message in the agent's runtime directory, which a worker extends with each channel that takes it. A service that
takes a message in the moment in which its worker is killed is in no file, and gets it again: at least once, never not at all.
"""

import json
import os
import time
from collections.abc import Container, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from types import MappingProxyType
from typing import Any, NamedTuple

from costguard.clocks import boot_clock
from costguard.notify.job import Draft

FOLDER = "delivered"

STEPS = {"accepted": ("acting",), "stopping": ("acting", "accepted")}
"""Messages that only go on with what these said: whoever has read that it begins is told how it ends, and not each step in between."""

EARLIER_SECONDS, TURN_SECONDS, LOOK_SECONDS = 4.0, 2.0, 0.05
"""How long an address is waited for for the answer to an earlier message, how much longer for one that has still to leave, and how
often to look: a mail server may greet late."""

LONGEST_TURN_SECONDS = EARLIER_SECONDS + TURN_SECONDS

BESIDE_SECONDS = 0.2
"""Between two messages at an address that has answered none: each needs a moment to be on the wire."""

FILES_KEPT = 48
"""Messages whose record is kept; older ones belong to stories that are over."""

LONGEST_BYTES = 4 << 20
"""So much of a record is read: a countdown that no channel takes is tried every two minutes, and each try of each address has its lines."""

HERE_AGAIN_SECONDS = 600.0
"""People at a terminal read the same again after so long at the earliest, while a channel beyond the machine takes nothing."""

TRIES_SECONDS = 3600.0
"""What is older belongs to another story: after a loss of its state an agent counts its incidents anew."""

LASTING = frozenset(("summary",))
"""Kinds whose names are never given again: of them everything counts, however old."""

FIRST_TRY = ""
"""In the place of a channel's name, in the line that has the id under which the message was first sent."""

BEGUN, ENDED, ASKED, DONE, DUE, NOT_TAKEN, ALREADY_TAKEN, ABSENT = range(8)
"""Steps, in the place of an address's number: the delivery begins; it has ended; an address is asked now; it is done with, whatever came of
it; it is to be asked; it did not take the message, and may be asked again; it has it from an earlier try; it leads to nobody."""

WHOLE = -1
"""In the place of an address's number: all of a channel."""

SOON_SECONDS = 120.0
"""What is so near is told at a terminal in any case."""


class Taken(NamedTuple):
    """One address of a channel that took a message: whom it reached, the date, and the moment on the boot clock.

    A channel of this machine is its own address 0.
    """

    whom: str
    at: float
    moment: float


class Progress(NamedTuple):
    """How far one delivery is: whether it has ended; when each address was asked; and the addresses that are done with."""

    ended: bool
    left: Mapping[tuple[str, int], float]
    over: AbstractSet[tuple[str, int]]

    def goes_first(self, key: tuple[str, int], since: float, now: float) -> bool:
        """Whether a later message, which could leave ``since`` that moment, still waits for this one at an address."""
        waited = now - since
        over = self.ended or key in self.over or (key[0], WHOLE) in self.over
        if over or waited >= LONGEST_TURN_SECONDS:
            return False
        asked = self.left.get(key)
        return asked is None or now - asked < (EARLIER_SECONDS if waited < EARLIER_SECONDS else BESIDE_SECONDS)


class DeliveryRecord:
    """The record of one message. Without a folder that can be written it knows nothing, and everything is sent."""

    def __init__(
        self, runtime: str, draft: Draft, *, again: bool, wanted: Container[str] = (), channels: Sequence[str] = (),
        instead: Mapping[str, Sequence[Draft]] = MappingProxyType({}), after: Mapping[str, Sequence[Draft]] = MappingProxyType({}),
        text: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """``wanted``: channels that asked for just this kind. ``instead``: by channel, earlier messages in whose place it gets this.

        ``after``: by channel, those on their way which it must have before. ``channels``: to which it goes. ``text``: its
        title and its body.
        """
        self.runtime = runtime
        self._path = record_of(runtime, draft) if runtime else ""
        self._draft, self._wanted, self._instead, self._after = draft, wanted, instead, after
        self._soon = _seconds(draft) <= SOON_SECONDS
        self.taken: dict[tuple[str, int], Taken] = self._read(self._path, draft.kind) if again else {}
        """By channel and number of the address; filled by earlier tries of the same message."""
        first = self.taken.get((FIRST_TRY, BEGUN))
        self.taken = {key: taken for key, taken in self.taken.items() if key[0] != FIRST_TRY}
        self.first_id = first.whom if first is not None else draft.id
        """The id of the first try, by which a service knows a further one."""
        if first is None:
            self._begin(anew=not again)
        incident = str(draft.facts.get("incident") or draft.facts.get("overtakes") or "")
        self.begun = boot_clock()
        """When this delivery began, on the boot clock."""
        if self._path:
            row = [FIRST_TRY, BEGUN, draft.id]
            write_row(self._path, row, draft.kind, incident, list(channels), *text, moment=self.begun)

    @property
    def spared(self) -> set[tuple[str, int]]:
        """Who gets nothing of this, by the same names, because an earlier message said enough, as far as is known by now."""
        if not self._path:
            return set()
        before = [self._taken_of(self._draft._replace(kind=kind)) for kind in STEPS.get(self._draft.kind, ())]
        found = {key for taken in before for key in taken if key[0] not in self._wanted and key[0] not in self._instead}
        for name, earlier in self._instead.items():
            taken = [{key for key in self._taken_of(one) if key[0] == name} for one in earlier]
            found |= set.intersection(*taken) if taken else set()
        return found

    def await_turn(self, name: str, number: int, since: float) -> None:
        """Wait until an address has what it must have before, or will never get it; for all of that together no longer than for one.

        ``since``: when it could have left, on the boot clock. Where nothing answers, each still leaves after those before it.
        """
        earlier = self._after.get(name, ()) if self._path else ()
        while any(self._progress_of(one).goes_first((name, number), since, boot_clock()) for one in earlier):
            time.sleep(LOOK_SECONDS)

    @property
    def longest_wait(self) -> float:
        """The longest that an address waits for its turn, in seconds."""
        return LONGEST_TURN_SECONDS if self._after else 0.0

    def due(self, name: str, number: int) -> None:
        """An address is to be asked."""
        self._step(DUE, name, number)

    def asked(self, name: str, number: int) -> None:
        """An address is asked from now on."""
        self._step(ASKED, name, number)

    def not_taken(self, name: str, number: int, why: str) -> None:
        """An address has not taken it, and is perhaps asked again."""
        self._step(NOT_TAKEN, name, number, why)

    def already_taken(self, name: str, number: int, whom: str) -> None:
        """An address has it from an earlier try."""
        self._step(ALREADY_TAKEN, name, number, whom)

    def done(self, name: str, number: int = WHOLE, why: str = "") -> None:
        """Nothing more of this comes to an address, or to any of a channel; ``why`` is empty where none was to come."""
        self._step(DONE, name, number, why)

    def absent(self, name: str, number: int, why: str) -> None:
        """A channel leads to nobody."""
        self._step(ABSENT, name, number, why)

    def ended(self) -> None:
        """The delivery is over, whatever came of it."""
        self._step(ENDED)

    def _step(self, step: int, *more: object) -> None:
        if self._path:
            write_row(self._path, [FIRST_TRY, step, self._draft.id], *more)

    def _progress_of(self, earlier: Draft) -> Progress:
        """How far the delivery of an earlier message is; one that is still to begin has come nowhere."""
        ended, left, over = False, dict[tuple[str, int], float](), set[tuple[str, int]]()
        for row in rows_of(self._file_of(earlier)):
            with suppress(ValueError, TypeError, IndexError):
                name, number, whom, _, moment, *more = row
                if name != FIRST_TRY:
                    over |= {(name, number)} if more == [earlier.id] else set()
                elif whom != earlier.id:
                    continue
                elif number == BEGUN:  # told again by another guard
                    ended, left, over = False, {}, set()
                elif number == ENDED:
                    ended = True
                elif number == ASKED:
                    left[more[0], more[1]] = float(moment)
                elif number in {DONE, ALREADY_TAKEN, ABSENT}:
                    over.add((more[0], more[1]))
        return Progress(ended, left, over)

    def _taken_of(self, earlier: Draft) -> dict[tuple[str, int], Taken]:
        """Who has taken an earlier message."""
        return {
            key: taken for key, taken in self._read(self._file_of(earlier), earlier.kind).items() if key[0] != FIRST_TRY
        }

    def _file_of(self, earlier: Draft) -> str:
        return record_of(self.runtime, earlier)

    def here(self, name: str, now: float) -> str:
        """Whom a channel of this machine has reached so recently that it is left in peace; empty where nobody."""
        found = self.taken.get((name, 0))
        recent = found is not None and not self._soon and 0.0 <= now - found.moment < HERE_AGAIN_SECONDS
        return found.whom if found is not None and recent else ""

    def keep(self, name: str, number: int, whom: str) -> None:
        """An address has taken it; threads may say so at the same time."""
        if self._path:
            write_row(self._path, [name, number, whom], self._draft.id)

    def _begin(self, *, anew: bool) -> None:
        """Write down the id of this try; ``anew``: forget what an earlier message of this name has reached, and the oldest ones."""
        if not self._path:
            return
        folder = os.path.dirname(self._path)
        with suppress(OSError):
            os.makedirs(folder, mode=0o700, exist_ok=True)
            if anew:
                with suppress(FileNotFoundError):
                    os.unlink(self._path)
            kept = sorted(
                (entry.stat().st_mtime, entry.path) for entry in os.scandir(folder) if entry.path != self._path
            )
            for _, path in kept[: max(0, len(kept) - FILES_KEPT + 1)]:
                os.unlink(path)

    @staticmethod
    def _read(path: str, kind: str) -> dict[tuple[str, int], Taken]:
        found: dict[tuple[str, int], Taken] = {}
        now = boot_clock()
        for row in rows_of(path):
            with suppress(ValueError, TypeError):
                name, number, whom, at, *since = row
                # an older version of costguard knew the date alone
                moment = float(since[0]) if since else now - (time.time() - float(at))
                if kind in LASTING or 0.0 <= now - moment < TRIES_SECONDS:  # another boot's clock may be ahead
                    key = str(name), int(number)
                    found[key] = (
                        found[key]
                        if key == (FIRST_TRY, BEGUN) and key in found
                        else Taken(str(whom), float(at), moment)
                    )
        return found


def rows_of(path: str) -> list[Any]:
    """The lines of a record, each as it was written; none where there is no record."""
    rows: list[Any] = []
    with suppress(OSError), open(path, "rb") as file:
        for line in file.read(LONGEST_BYTES).splitlines():
            with suppress(ValueError, RecursionError):  # a worker may have been killed while it wrote
                rows.append(json.loads(line))
    return rows


def write_row(path: str, row: Sequence[object], *more: object, moment: float | None = None) -> bool:
    """One more line, with date and moment (now) after its first three values; whether it is written."""
    line = json.dumps([*row, time.time(), boot_clock() if moment is None else moment, *more]) + "\n"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        return False
    try:
        return os.write(descriptor, line.encode()) == len(line.encode())
    except OSError:
        return False
    finally:
        os.close(descriptor)


def record_of(runtime: str, draft: Draft) -> str:
    """The path of the record of a message."""
    return os.path.join(runtime, FOLDER, _name(draft))


def _name(draft: Draft) -> str:
    """The file of a message: further tries of a warning have other ids, and the same incident.

    A warning of which nobody has heard is told as a reminder.
    """
    incident = str(draft.facts.get("incident") or "")
    kind = "warning" if draft.kind == "countdown" and "unreached_tries" in draft.facts else draft.kind
    name = f"{incident}-{kind}" if incident else draft.id
    return "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in name)[:100]


def _seconds(draft: Draft) -> float:
    """Until what it announces."""
    due = draft.facts.get("due_in_seconds")
    return float(due) if isinstance(due, int | float) else float("inf")
