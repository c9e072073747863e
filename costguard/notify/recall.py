"""What became of messages whose worker or guard was killed: ``python -m costguard.notify.recall``, from what each delivery wrote down."""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from costguard.notify.delivered import (
    BACK,
    BEGUN,
    DUE,
    ENDED,
    FIRST_TRY,
    FOLDER,
    HAD,
    LEFT,
    OVER,
    record_of,
    rows_of,
    write_row,
)
from costguard.notify.job import IN_DOUBT, NOT_SENT, Draft, RecallJob, Told
from costguard.parent import end_with_parent
from costguard.process.worker import say, serve


def main() -> int:
    """Say what is known of one message, or of each delivery that was cut off."""
    end_with_parent()
    return serve(RecallJob, recall, lambda error: Told(error=error))


def recall(job: RecallJob) -> Told | None:
    """Of the one message that is asked for, or of all, one answer each; whatever is told is over from then on."""
    if job.message is not None:
        path = record_of(job.runtime, job.message)
        found = _deliveries(path, job).get(job.message.id, _Delivery(job.message, job.channels))
        return found.fate(job.why, known=_is_over(path, job.message))
    for told in cut_off(job):
        say(told)
    return None


def cut_off(job: RecallJob) -> Iterator[Told]:
    """What became of each delivery that had begun before this question and has no end; each is said once."""
    for delivery, path in _unended(job):
        message = delivery.message
        if _is_over(path, message):
            beside = {"id": message.id, "kind": message.kind, **message.facts}
            yield delivery.fate(job.why, known=True)._replace(beside=beside)


class _Address(NamedTuple):
    """How far an address is: the last step, and in words whom it reached, or why it did not take the message."""

    step: int
    words: str = ""


TAKEN = -1
"""In the place of a step."""


class _Delivery:
    """One delivery, as it is written down."""

    def __init__(self, message: Draft, channels: tuple[str, ...]) -> None:
        self.message, self._channels = message, channels
        self.ended = False
        self._addresses: dict[tuple[str, int], _Address] = {}

    def step(self, step: int, name: str, number: int, words: str = "") -> None:
        """One more line of it."""
        self._addresses[name, number] = _Address(step, words)

    def fate(self, why: str, *, known: bool) -> Told:
        """What became of it at each channel; ``known``: it could have been written down."""
        told = Told()
        for name in self._channels:
            of_channel = [one for (channel, _), one in sorted(self._addresses.items()) if channel == name]
            took = [one.words for one in of_channel if one.step == TAKEN]
            lost = [words for one in of_channel if (words := _why(one, why))]
            if not of_channel:
                lost = [f"{why}; {NOT_SENT if known else IN_DOUBT}"]
            reached = {**told.reached, **({name: ", ".join(took)} if took else {})}
            failed = {**told.failed, **({name: "; ".join(dict.fromkeys(lost))} if lost else {})}
            told = told._replace(reached=reached, failed=failed)
        return told


def _why(one: _Address, why: str) -> str:
    """Why an address has not got the message, or nobody knows; empty where it has, or was to get nothing."""
    if one.step in {DUE, LEFT}:
        return f"{why}; {NOT_SENT if one.step == DUE else IN_DOUBT}"
    return "" if one.step == TAKEN else one.words


def _unended(job: RecallJob) -> Iterator[tuple[_Delivery, str]]:
    """The deliveries without an end, with their records."""
    folder = os.path.join(job.runtime, FOLDER)
    paths: list[str] = []
    with suppress(OSError):
        paths = sorted(entry.path for entry in os.scandir(folder))
    for path in paths:
        yield from [(one, path) for one in _deliveries(path, job).values() if not one.ended]


def _deliveries(path: str, job: RecallJob) -> dict[str, _Delivery]:
    """The deliveries in one record by the ids of their messages, as far as they had come before the question."""
    found: dict[str, _Delivery] = {}
    for row in rows_of(path):
        with suppress(ValueError, TypeError, KeyError, IndexError):
            name, number, whom, _, moment, *more = row
            if moment >= job.before:
                continue
            if name != FIRST_TRY:
                found[more[0]].step(TAKEN, name, number, whom)
            elif number == BEGUN:
                kind, incident, channels = more
                message = Draft(str(whom), str(kind), facts={"incident": str(incident)} if incident else {})
                found[whom] = _Delivery(message, tuple(str(channel) for channel in channels))
            elif number == ENDED:
                found[whom].ended = True
            elif number in {DUE, LEFT, BACK, OVER, HAD}:
                where, address, *words = more
                found[whom].step(TAKEN if number == HAD else number, where, address, *words)
    return found


def _is_over(path: str, message: Draft) -> bool:
    """Write that nothing more of it comes; whether that could be written."""
    return write_row(path, [FIRST_TRY, ENDED, message.id])


if __name__ == "__main__":
    sys.exit(main())
