"""Who has taken a message already: a further try of it asks only the others, also where the guard or a worker died in between.

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
from typing import NamedTuple

from costguard.clocks import boot_clock
from costguard.notify.job import Draft

FOLDER = "delivered"

STEPS = {"accepted": ("acting",), "stopping": ("acting", "accepted")}
"""Messages that only go on with what these said: whoever has read that it begins is told how it ends, and not each step in between."""

EARLIER_SECONDS, LOOK_SECONDS = 4.0, 0.1
"""How long a step in between waits for the answers to what it goes on with, and how often it looks: a mail server may greet late."""

FILES_KEPT = 48
"""Messages of which this is known; more belong to stories that are over."""

LONGEST_BYTES = 64 << 10

HERE_AGAIN_SECONDS = 600.0
"""People at a terminal read the same again after so long at the earliest, while a channel beyond the machine takes nothing."""

TRIES_SECONDS = 3600.0
"""What is older belongs to another story: after a loss of its state an agent counts its incidents anew."""

LASTING = frozenset(("summary",))
"""Kinds whose names are never given again: of them everything counts, however old."""

FIRST_TRY = ""
"""In the place of a channel's name, in the line that has the id under which the message was first sent."""

ENDED = 1
"""In the place of an address's number, in the line that says that the delivery is over."""

SOON_SECONDS = 120.0
"""What is so near is told at a terminal in any case."""


class Taken(NamedTuple):
    """One address of a channel that took a message: whom it reached, the date, and the moment on the boot clock.

    A channel of this machine is its own address 0.
    """

    whom: str
    at: float
    moment: float


class Delivered:
    """The record of one message. Without a folder that can be written nothing is known, and everything is sent."""

    def __init__(
        self, runtime: str, draft: Draft, *, again: bool, wanted: Container[str] = (),
        instead: Mapping[str, Sequence[Draft]] = MappingProxyType({}), after: Mapping[str, Sequence[Draft]] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        """``wanted``: channels that asked for just this kind. ``instead``: by channel, earlier messages in whose place it gets this.

        ``after``: by channel, those on their way which it must have before.
        """
        self._path = os.path.join(runtime, FOLDER, _name(draft)) if runtime else ""
        self._draft, self._wanted, self._instead, self._after = draft, wanted, instead, after
        self._soon = _seconds(draft) <= SOON_SECONDS
        self.taken: dict[tuple[str, int], Taken] = self._read(self._path, draft.kind) if again else {}
        """By channel and number of the address; filled by earlier tries of the same message."""
        first, _ = self.taken.pop((FIRST_TRY, 0), None), self.taken.pop((FIRST_TRY, ENDED), None)
        self.first_id = first.whom if first is not None else draft.id
        """The id of the first try, by which a service knows a further one."""
        if first is None:
            self._begin(anew=not again)

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

    def await_earlier(self, keys: AbstractSet[tuple[str, int]], seconds: float) -> None:
        """Wait, so long at most, until these have taken what comes before a step in between; for any other message not at all."""
        keys = {key for key in keys if key[0] not in self._wanted}
        end = time.monotonic() + seconds
        while self._draft.kind in STEPS and not keys <= self.spared and time.monotonic() < end:
            time.sleep(LOOK_SECONDS)

    def await_order(self, name: str, number: int, seconds: float) -> None:
        """Wait, so long at most, until an address has what it must have before, or nobody tries to bring it that any more."""
        end = time.monotonic() + seconds
        for earlier in self._after.get(name, ()) if self._path else ():
            while not self._is_past(earlier, (name, number)) and time.monotonic() < end:
                time.sleep(LOOK_SECONDS)

    def _is_past(self, earlier: Draft, key: tuple[str, int]) -> bool:
        """Whether an address has an earlier message, or its delivery is over."""
        found = self._file_of(earlier)
        over = found.get((FIRST_TRY, ENDED))
        return key in found or (over is not None and over.whom == earlier.id)

    def ended(self) -> None:
        """The delivery is over, whatever came of it."""
        self.keep(FIRST_TRY, ENDED, self._draft.id)

    def _taken_of(self, earlier: Draft) -> dict[tuple[str, int], Taken]:
        """Who has taken an earlier message."""
        return {key: taken for key, taken in self._file_of(earlier).items() if key[0] != FIRST_TRY}

    def _file_of(self, earlier: Draft) -> dict[tuple[str, int], Taken]:
        return self._read(os.path.join(os.path.dirname(self._path), _name(earlier)), earlier.kind)

    def here(self, name: str, now: float) -> str:
        """Whom a channel of this machine has reached so recently that it is left in peace; empty where nobody."""
        found = self.taken.get((name, 0))
        recent = found is not None and not self._soon and 0.0 <= now - found.moment < HERE_AGAIN_SECONDS
        return found.whom if found is not None and recent else ""

    def keep(self, name: str, number: int, whom: str) -> None:
        """An address has taken it; threads may say so at the same time."""
        if not self._path:
            return
        line = json.dumps([name, number, whom, time.time(), boot_clock()]) + "\n"
        with suppress(OSError):
            descriptor = os.open(
                self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
            )
            try:
                os.write(descriptor, line.encode())
            finally:
                os.close(descriptor)

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
        self.keep(FIRST_TRY, 0, self._draft.id)

    @staticmethod
    def _read(path: str, kind: str) -> dict[tuple[str, int], Taken]:
        found: dict[tuple[str, int], Taken] = {}
        now = boot_clock()
        try:
            with open(path, "rb") as file:
                lines = file.read(LONGEST_BYTES).splitlines()
        except OSError:
            return found
        for line in lines:
            with suppress(ValueError, TypeError, RecursionError):  # a worker may have been killed while it wrote
                name, number, whom, at, *since = json.loads(line)
                # an older version of costguard knew the date alone
                moment = float(since[0]) if since else now - (time.time() - float(at))
                if kind in LASTING or 0.0 <= now - moment < TRIES_SECONDS:  # another boot's clock may be ahead
                    found[str(name), int(number)] = Taken(str(whom), float(at), moment)
        return found


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
