"""Find out what became of messages whose worker or guard was killed: ``python -m costguard.notify.recall``.

Each delivery records its progress (`costguard.notify.delivery_record`); the guard records its result in the history. An outcome
that is in the first and not in the second is reported, so that none is lost or reported twice, however often a guard is killed.
"""

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import NamedTuple

from costguard.clocks import boot_clock
from costguard.engine.words import clock, date, several
from costguard.history import FILE, query
from costguard.history.query import Event, HistoryError
from costguard.notify.delivery_record import (
    ABOUT_DELIVERY,
    ABSENT,
    ALREADY_TAKEN,
    ASKED,
    BEGUN,
    DONE,
    DUE,
    ENDED,
    FILES_KEPT,
    FOLDER,
    NOT_TAKEN,
    TRIES_SECONDS,
    record_of,
    rows_of,
    write_row,
)
from costguard.notify.job import DIGEST, IN_DOUBT, NOT_SENT, DeliveryResult, Draft, RecallJob
from costguard.parent import end_with_parent
from costguard.process.worker import say, serve


def main() -> int:
    """Answer one `RecallJob`."""
    end_with_parent()
    return serve(RecallJob, recall, lambda error: DeliveryResult(error=error))


def recall(job: RecallJob) -> DeliveryResult | None:
    """Answer for the one message of the job, or with one line for each that was cut off. What was reported once is marked as ended."""
    if job.message is not None:
        path = record_of(job.runtime, job.message)
        found = _deliveries(path, job).get(job.message.id, _Delivery(job.message, job.channels))
        return found.result(job.why, known=_mark_ended(path, job.message))
    for told in (*(unkept(job) if job.resumed else ()), *owed(job)):
        say(told)
    return None


def unkept(job: RecallJob) -> Iterator[DeliveryResult]:
    """The outcome of each message that the history lacks, as far as it began before this job."""
    kept, seen = _kept(job), set[str]()
    for delivery, path in _all_deliveries(job):
        message = delivery.message
        seen.add(message.id)
        if not kept.has(delivery) and _mark_ended(path, message):
            beside = {"id": message.id, "kind": message.kind, **message.facts}
            text = {} if message.id in kept.told else delivery.text
            yield delivery.result(job.why, known=True)._replace(beside={**beside, **text})
    for event in kept.without_outcome(seen):
        message = Draft(str(event.data.get("effect")), str(event.data.get("name")), facts={"incident": event.incident})
        known = _mark_ended(record_of(job.runtime, message), message) and not _is_older(job, event.wall)
        beside = {"id": message.id, "kind": message.kind, **message.facts}
        yield DeliveryResult(error=f"{job.why}; {NOT_SENT if known else IN_DOUBT}", beside=beside)


NEWEST_EVENTS = 5000
"""Events of the history that are searched: more than any machine has in the hour that matters."""


class _Kept(NamedTuple):
    """What the history knows about messages.

    Attributes:
        readable: whether the history could be read.
        told: the events of messages that the guard decided to send, by id.
        begun: when deliveries with a known outcome began, on the boot clock.
        undated: for outcomes without that moment, the date of the outcome by id of the message.
        with_outcome: ids of all messages with a known outcome.
    """

    readable: bool
    told: Mapping[str, Event] = {}
    begun: frozenset[float] = frozenset()
    undated: Mapping[str, float] = {}
    with_outcome: frozenset[str] = frozenset()

    def has(self, delivery: "_Delivery") -> bool:
        """Whether the outcome of a delivery is known."""
        if not self.readable or delivery.is_old:
            return delivery.ended
        return delivery.begun in self.begun or self.undated.get(delivery.message.id, float("-inf")) >= delivery.date

    def without_outcome(self, seen: set[str]) -> list[Event]:
        """Messages to send whose outcome is unknown; ``seen`` are the ids of those that have a record."""
        return [event for name, event in self.told.items() if name not in self.with_outcome and name not in seen]


def _kept(job: RecallJob) -> _Kept:
    """Read from the history the last hour before the guard that asks."""
    began = time.time() - max(0.0, boot_clock() - job.before)
    try:
        with query.reading(os.path.join(job.history, FILE)) as database:
            found = query.newest(database, ("told", "outcome", "delivery"), NEWEST_EVENTS)
    except HistoryError:
        return _Kept(readable=False)
    recent = [event for event in found if event.wall >= began - TRIES_SECONDS]
    outcomes = [event for event in recent if event.kind != "told"]
    return _Kept(
        readable=True,
        told={str(event.data.get("effect")): event for event in recent if event.kind == "told" and event.wall < began},
        begun=frozenset(at for event in outcomes if isinstance(at := event.data.get("begun"), float)),
        undated={str(event.data.get("effect")): event.wall for event in outcomes if not event.data.get("begun")},
        with_outcome=frozenset(str(event.data.get("effect")) for event in outcomes),
    )


def _is_older(job: RecallJob, wall: float) -> bool:
    """Whether the record of a message with this date may have been deleted, since only the newest are kept."""
    with suppress(OSError):
        dates = [entry.stat().st_mtime for entry in os.scandir(os.path.join(job.runtime, FOLDER))]
        return len(dates) >= FILES_KEPT and wall < min(dates)
    return True


def owed(job: RecallJob) -> Iterator[DeliveryResult]:
    """Digests that were never sent because the guard ended, rebuilt from the messages that were held back for them."""
    events: list[Event] = []
    with suppress(HistoryError), query.reading(os.path.join(job.history, FILE)) as database:
        events = query.newest(database, ("told", "outcome", "delivery"), NEWEST_EVENTS)
    names = {str(event.data.get("effect")): event.message_kind for event in events if event.message_kind}
    sent = {*job.digests, *(str(event.data.get("effect")) for event in events if event.kind == "delivery")}
    held: dict[str, list[Event]] = {}
    for event in events:
        beside = event.data.get("beside")
        digest = str(beside.get(DIGEST) or "") if isinstance(beside, Mapping) else ""
        if digest and digest not in sent and job.instance in {"", event.instance}:
            held.setdefault(digest, []).append(event)
    for digest, of_digest in held.items():
        kinds = Counter(names.get(str(event.data.get("effect"))) or "message" for event in of_digest)
        listed = ", ".join(f"{count} × {kind}" for kind, count in kinds.items())
        first, last = of_digest[0].wall, of_digest[-1].wall
        span = f"from {date(first)} to {clock(last, first)}" if date(first) != date(last) else f"at {date(first)}"
        held_back = f"{several(len(of_digest), 'message')} held back {span}, before costguard was started again"
        text = f"{held_back}: {listed}; `costguard history` has them"
        yield DeliveryResult(beside={"id": digest, DIGEST: text})


class _Address(NamedTuple):
    """The last step at one address (a step of the record, or `TAKEN`), and whom it reached, or why it did not take the message."""

    step: int
    words: str = ""


TAKEN = -1
"""A step that only this module has: the address took the message."""


class _Delivery:
    """One delivery, read from its record. ``begun``: when, on the boot clock; ``date``: the same as a date; ``text``: its title and body."""

    def __init__(
        self, message: Draft, channels: tuple[str, ...], begun: float = 0.0, date: float = 0.0, text: Mapping[str, str] = MappingProxyType({})
    ) -> None:  # fmt: skip
        self.message, self._channels, self.begun, self.date, self.text = message, channels, begun, date, text
        self.ended = False
        self._addresses: dict[tuple[str, int], _Address] = {}

    def step(self, step: int, name: str, number: int, words: str = "") -> None:
        """Take in one more line of the record."""
        self._addresses[name, number] = _Address(step, words)

    @property
    def is_old(self) -> bool:
        """Whether it is more than an hour old, or of another boot (whose clock may be ahead): the part of the history that was read lacks it."""
        return not 0.0 <= boot_clock() - self.begun < TRIES_SECONDS

    def result(self, why: str, *, known: bool) -> DeliveryResult:
        """What became of the message at each channel; without ``known``, an address without a line may have been asked all the same."""
        told = DeliveryResult(begun=self.begun)
        for name in self._channels:
            of_channel = [one for (channel, _), one in sorted(self._addresses.items()) if channel == name]
            took = [one.words for one in of_channel if one.step == TAKEN]
            nobody = [one.words for one in of_channel if one.step == ABSENT]
            lost = [words for one in of_channel if one.step != ABSENT and (words := _why(one, why))]
            if not of_channel:
                lost = [f"{why}; {NOT_SENT if known else IN_DOUBT}"]
            reached = {**told.reached, **({name: ", ".join(took)} if took else {})}
            failed = {**told.failed, **({name: "; ".join(dict.fromkeys(lost))} if lost else {})}
            absent = {**told.absent, **({name: nobody[0]} if nobody else {})}
            told = told._replace(reached=reached, failed=failed, absent=absent)
        return told.among_those_present(self.message.kind)


def _why(one: _Address, why: str) -> str:
    """Why an address did not get the message, or may not have; empty if it did, or was not to get it."""
    if one.step in {DUE, ASKED}:
        return f"{why}; {NOT_SENT if one.step == DUE else IN_DOUBT}"
    return "" if one.step == TAKEN else one.words


def _all_deliveries(job: RecallJob) -> Iterator[tuple[_Delivery, str]]:
    """The last delivery of each message, with its record."""
    folder = os.path.join(job.runtime, FOLDER)
    paths: list[str] = []
    with suppress(OSError):
        paths = sorted(entry.path for entry in os.scandir(folder))
    for path in paths:
        yield from [(one, path) for one in _deliveries(path, job).values()]


def _deliveries(path: str, job: RecallJob) -> dict[str, _Delivery]:
    """The deliveries in one record, by id of the message; lines from the moment ``job.before`` on are ignored."""
    found: dict[str, _Delivery] = {}
    for row in rows_of(path):
        with suppress(ValueError, TypeError, KeyError, IndexError):
            name, number, whom, date, moment, *more = row
            if moment >= job.before:
                continue
            if name != ABOUT_DELIVERY:
                found[more[0]].step(TAKEN, name, number, whom)
            elif number == BEGUN:
                kind, incident, channels, *text = more
                message = Draft(str(whom), str(kind), facts={"incident": str(incident)} if incident else {})
                named = dict(zip(("title", "body"), map(str, text), strict=False))
                found[whom] = _Delivery(message, tuple(str(channel) for channel in channels), moment, date, named)
            elif number == ENDED:
                found[whom].ended = True
            elif number in {DUE, ASKED, NOT_TAKEN, DONE, ALREADY_TAKEN, ABSENT}:
                where, address, *words = more
                found[whom].step(TAKEN if number == ALREADY_TAKEN else number, where, address, *words)
    return found


def _mark_ended(path: str, message: Draft) -> bool:
    """Mark a delivery as ended in its record; returns whether that could be written."""
    return write_row(path, [ABOUT_DELIVERY, ENDED, message.id])


if __name__ == "__main__":
    sys.exit(main())
