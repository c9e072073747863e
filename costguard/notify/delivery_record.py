"""The record of a message's delivery: a further try skips the addresses that took it, even after the guard or a worker died.

One file for each message, in the agent's runtime directory; a line is added at every step. A service that takes a message just
as its worker is killed is not recorded, and gets the message again: delivery is at least once.
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
from costguard.notify.job import LATER_CAME_FIRST, SPARED, Draft

FOLDER = "delivered"

EARLIER_KINDS = {"accepted": ("acting",), "stopping": ("acting", "accepted")}
"""Intermediate kinds, and the kinds before them in the same incident. Whoever read one of those is told the outcome, not each step."""

EARLIER_SECONDS = 4.0
"""How long a message waits until an address has answered an earlier one: a mail server may greet late."""

TURN_SECONDS = 2.0
"""How much longer it waits for an earlier message that has not left yet."""

LOOK_SECONDS = 0.05
"""Pause between two looks at the record of the earlier message."""

LONGEST_TURN_SECONDS = EARLIER_SECONDS + TURN_SECONDS

BESIDE_SECONDS = 0.2
"""Distance of two messages at an address that answers nothing, so that they arrive in order."""

FILES_KEPT = 48
"""Records that are kept; older ones belong to incidents that are over."""

LONGEST_BYTES = 4 << 20
"""Bytes of a record that are read. A countdown that no channel takes is tried every two minutes, and each try adds lines for each address."""

SHOW_AGAIN_SECONDS = 600.0
"""Least time before a terminal shows the same message again, while it is retried because channels beyond the machine fail."""

TRIES_SECONDS = 3600.0
"""Older lines are ignored: an agent that lost its state counts incidents anew, so the same name may mean another one."""

LASTING = frozenset(("summary",))
"""Kinds whose ids are never used again, so that lines of any age count."""

ABOUT_DELIVERY = ""
"""In place of a channel's name, in the lines about the delivery itself rather than about an address that took it."""

BEGUN, ENDED, ASKED, DONE, DUE, NOT_TAKEN, ALREADY_TAKEN, ABSENT = range(8)
"""Steps, in place of an address's number. Of the delivery: it begins; it has ended. Of an address: it is being asked; nothing more will be
sent to it; it will be asked; it did not take the message, and may be asked again; it took an earlier try; it leads to nobody."""

ALL_ADDRESSES = -1
"""In place of an address's number: every address of the channel."""

SOON_SECONDS = 120.0
"""An action this near is repeated at a terminal without that pause."""


class Taken(NamedTuple):
    """An address that took a message: whom it reached, the date, and the moment on the boot clock.

    A channel of this machine has the single address 0.
    """

    whom: str
    at: float
    moment: float


class Progress(NamedTuple):
    """How far one delivery is: whether it has ended, when (boot clock) each address was asked, the addresses that get nothing more, and those that took it."""

    ended: bool
    asked_at: Mapping[tuple[str, int], float]
    over: AbstractSet[tuple[str, int]]
    taken: AbstractSet[tuple[str, int]] = frozenset()

    def is_at(self, key: tuple[str, int]) -> bool:
        """Whether an address has this message, or is asked now."""
        return key in self.taken or (key in self.asked_at and key not in self.over)

    def goes_first(self, key: tuple[str, int], since: float, now: float) -> bool:
        """Whether a later message must still wait for this one at an address; ``since``: when it could have left (both on the boot clock)."""
        waited = now - since
        over = self.ended or key in self.over or (key[0], ALL_ADDRESSES) in self.over
        if over or waited >= LONGEST_TURN_SECONDS:
            return False
        asked = self.asked_at.get(key)
        return asked is None or now - asked < (EARLIER_SECONDS if waited < EARLIER_SECONDS else BESIDE_SECONDS)


class DeliveryRecord:
    """The record of one message. If its folder cannot be written it stays empty, and every address is asked."""

    def __init__(
        self, runtime: str, draft: Draft, *, again: bool, wanted: Container[str] = (), channels: Sequence[str] = (),
        instead: Mapping[str, Sequence[Draft]] = MappingProxyType({}), after: Mapping[str, Sequence[Draft]] = MappingProxyType({}),
        text: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """Begin, or continue, the record of a message.

        Args:
            runtime: the agent's runtime directory; empty for no record.
            draft: the message.
            again: whether this is a further try, which keeps what earlier tries recorded.
            wanted: channels that name this kind, and get it even if they read an earlier one.
            channels: the channels that get it.
            instead: by channel, the earlier messages that this one replaces there.
            after: by channel, the earlier messages that must arrive there first.
            text: title and body.
        """
        self.runtime = runtime
        self._path = record_of(runtime, draft) if runtime else ""
        self._draft, self._wanted, self._instead, self._after = draft, wanted, instead, after
        self._soon = _seconds(draft) <= SOON_SECONDS
        self.left_out: dict[tuple[str, int], str] = {}
        """Why addresses get nothing of this message: they have one that says enough."""
        self.taken: dict[tuple[str, int], Taken] = self._read(self._path, draft.kind) if again else {}
        """The addresses (channel, number) that took an earlier try."""
        first = self.taken.get((ABOUT_DELIVERY, BEGUN))
        self.taken = {key: taken for key, taken in self.taken.items() if key[0] != ABOUT_DELIVERY}
        self.first_id = first.whom if first is not None else draft.id
        """The id of the first try, by which a service recognizes a repeated alert."""
        if first is None:
            self._begin(anew=not again)
        incident = str(draft.facts.get("incident") or draft.facts.get("overtakes") or "")
        self.begun = boot_clock()
        """When this delivery began, on the boot clock."""
        if self._path:
            row = [ABOUT_DELIVERY, BEGUN, draft.id]
            write_row(self._path, row, draft.kind, incident, list(channels), *text, moment=self.begun)

    @property
    def spared(self) -> set[tuple[str, int]]:
        """The addresses that do not get this message, because they took an earlier one that said enough. Read from the records at each call."""
        if not self._path:
            return set()
        before = [self._taken_of(self._draft._replace(kind=kind)) for kind in EARLIER_KINDS.get(self._draft.kind, ())]
        found = {key for taken in before for key in taken if key[0] not in self._wanted and key[0] not in self._instead}
        for name, earlier in self._instead.items():
            taken = [{key for key in self._taken_of(one) if key[0] == name} for one in earlier]
            found |= set.intersection(*taken) if taken else set()
        return found

    def leave_out(self, name: str, number: int, later: Sequence[Draft]) -> bool:
        """Leave out an address that has an earlier message which said enough, or one of these ``later`` ones. Returns whether it did."""
        key = (name, number)
        if key in self.spared:
            self.left_out[key] = SPARED
        elif self._path and any(self._progress_of(one).is_at(key) for one in later):
            self.left_out[key] = LATER_CAME_FIRST
        return key in self.left_out

    def await_turn(self, name: str, number: int, since: float) -> None:
        """Wait until the earlier messages have arrived at an address or never will, at most `LONGEST_TURN_SECONDS` for all together.

        ``since``: when this message could have left, on the boot clock.
        """
        earlier = self._after.get(name, ()) if self._path else ()
        while any(self._progress_of(one).goes_first((name, number), since, boot_clock()) for one in earlier):
            time.sleep(LOOK_SECONDS)

    @property
    def longest_wait(self) -> float:
        """The longest that `await_turn` waits, in seconds."""
        return LONGEST_TURN_SECONDS if self._after else 0.0

    def due(self, name: str, number: int) -> None:
        """Record that an address will be asked."""
        self._step(DUE, name, number)

    def asked(self, name: str, number: int) -> None:
        """Record that an address is being asked."""
        self._step(ASKED, name, number)

    def not_taken(self, name: str, number: int, why: str) -> None:
        """Record that an address did not take the message, and may be asked again."""
        self._step(NOT_TAKEN, name, number, why)

    def already_taken(self, name: str, number: int, whom: str) -> None:
        """Record that an address took an earlier try."""
        self._step(ALREADY_TAKEN, name, number, whom)

    def done(self, name: str, number: int = ALL_ADDRESSES, why: str = "") -> None:
        """Record that an address, or every one of a channel, gets nothing more; ``why`` it failed, empty if it was not to get it."""
        self._step(DONE, name, number, why)

    def absent(self, name: str, number: int, why: str) -> None:
        """Record that a channel leads to nobody."""
        self._step(ABSENT, name, number, why)

    def ended(self) -> None:
        """Record that the delivery has ended."""
        self._step(ENDED)

    def _step(self, step: int, *more: object) -> None:
        if self._path:
            write_row(self._path, [ABOUT_DELIVERY, step, self._draft.id], *more)

    def _progress_of(self, other: Draft) -> Progress:
        """How far the delivery of another message is, as its record says by now."""
        ended, asked_at, over, taken = (
            False,
            dict[tuple[str, int], float](),
            set[tuple[str, int]](),
            set[tuple[str, int]](),
        )
        for row in rows_of(self._file_of(other)):
            with suppress(ValueError, TypeError, IndexError):
                name, number, whom, _, moment, *more = row
                if name != ABOUT_DELIVERY:
                    taken |= {(name, number)} if more == [other.id] else set()
                elif whom != other.id:
                    continue
                elif number == BEGUN:  # another guard sends it again
                    ended, asked_at, over, taken = False, {}, set(), set()
                elif number == ENDED:
                    ended = True
                elif number == ASKED:
                    asked_at[more[0], more[1]] = float(moment)
                elif number == ALREADY_TAKEN:
                    taken.add((more[0], more[1]))
                elif number in {DONE, ABSENT}:
                    over.add((more[0], more[1]))
        return Progress(ended, asked_at, over | taken, taken)

    def _taken_of(self, earlier: Draft) -> dict[tuple[str, int], Taken]:
        """The addresses that took an earlier message."""
        return {
            key: taken
            for key, taken in self._read(self._file_of(earlier), earlier.kind).items()
            if key[0] != ABOUT_DELIVERY
        }

    def _file_of(self, earlier: Draft) -> str:
        return record_of(self.runtime, earlier)

    def shown_recently(self, name: str, now: float) -> str:
        """Whom a channel of this machine reached too recently to be repeated there; empty if it may be used. ``now``: on the boot clock."""
        found = self.taken.get((name, 0))
        recent = found is not None and not self._soon and 0.0 <= now - found.moment < SHOW_AGAIN_SECONDS
        return found.whom if found is not None and recent else ""

    def keep(self, name: str, number: int, whom: str) -> None:
        """Record that an address took the message. Several threads may call this at once."""
        if self._path:
            write_row(self._path, [name, number, whom], self._draft.id)

    def _begin(self, *, anew: bool) -> None:
        """Prepare the folder and delete the oldest records; ``anew``: also the one that an earlier message of this name left."""
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
                # older versions of costguard recorded the date alone
                moment = float(since[0]) if since else now - (time.time() - float(at))
                if kind in LASTING or 0.0 <= now - moment < TRIES_SECONDS:  # another boot's clock may be ahead
                    key = str(name), int(number)
                    found[key] = (
                        found[key]
                        if key == (ABOUT_DELIVERY, BEGUN) and key in found
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
    """Append a line: three values, the date, the ``moment`` (boot clock; None for now), and ``more``. Returns whether it was written."""
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
    """The file name of a message's record: incident and kind, since further tries of a warning have other ids.

    A countdown that repeats a warning which reached nobody has the record of that warning.
    """
    incident = str(draft.facts.get("incident") or "")
    kind = "warning" if draft.kind == "countdown" and "unreached_tries" in draft.facts else draft.kind
    name = f"{incident}-{kind}" if incident else draft.id
    return "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in name)[:100]


def _seconds(draft: Draft) -> float:
    """Seconds until the action that the message announces; infinite for none."""
    due = draft.facts.get("due_in_seconds")
    return float(due) if isinstance(due, int | float) else float("inf")
