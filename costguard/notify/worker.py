"""The notification worker: ``python -m costguard.notify.worker``, one message, one answer."""

import contextlib
import os
import sys
import threading
import time
import urllib.parse
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from costguard.clocks import boot_clock
from costguard.notify import compose, login
from costguard.notify.delivery import Delivery, channel_settings, deliver
from costguard.notify.delivery_record import DeliveryRecord
from costguard.notify.job import (
    LATER_CAME_FIRST,
    LEFT_OUT,
    SPARED,
    UNASKED,
    DeliveryResult,
    Draft,
    Overtaking,
    TellJob,
    replaced_drafts,
)
from costguard.notify.message import Message
from costguard.notify.overtaken import Overtaken
from costguard.notify.processes import found_processes
from costguard.notify.terminal import clean
from costguard.parent import end_with_parent
from costguard.people import with_names
from costguard.process.wire import from_line
from costguard.process.worker import next_line, serve

if TYPE_CHECKING:
    from costguard.report.job import DrawJob

LEVELS = ("info", "warning", "critical")
"""Levels of messages, the lowest first."""

BEGAN = {"done": (("acting", "warning"),)}
"""Kind of an outcome: the kinds (with their levels) that announced its beginning. A channel that missed those gets the outcome instead."""

ORPHAN = "the agent that asked for it is gone"


def main() -> int:
    """Deliver one message over every channel."""
    end_with_parent()
    return serve(TellJob, _tell_unless_overtaken, lambda error: DeliveryResult(error=error))


def _tell_unless_overtaken(job: TellJob) -> DeliveryResult:
    """Deliver the message, and listen for further lines from the guard: a later message contradicts this one."""
    # the guard was killed before `end_with_parent` took effect; the next guard sends the same message
    if job.guard and os.getppid() != job.guard:
        return DeliveryResult(error=ORPHAN)
    overtaken = Overtaken(again=job.again)

    def listen() -> None:
        while line := next_line():
            overtaking = from_line(Overtaking, line)
            overtaken.set(overtaking.later, leaves=overtaking.leave)

    threading.Thread(target=listen, daemon=True).start()
    return tell(job, overtaken)


def tell(job: TellJob, overtaken: Overtaken) -> DeliveryResult:
    """Compose and deliver a message; when a first try reaches nobody, the text goes to the journal."""
    now = boot_clock()
    draft = _summary(job) if _is_new_summary(job) else job.message
    if draft is None:
        return DeliveryResult()
    processes = found_processes(draft, job.settings)
    whole = draft._replace(facts={**processes, **draft.facts})
    message = written(whole, str(job.settings.get("hold_url") or ""))
    login.keep(message, _runtime(job))
    takers = _takers(job, message, draft)
    if job.channels and not takers.all and message.kind != "warning":
        return _unasked(message)
    record = _record(job, draft, written(whole), takers)
    result = deliver(_delivery(job, draft, message, record, takers, overtaken, now), takers.all)
    record.ended()
    result = result._replace(begun=record.begun if _runtime(job) else 0.0)
    left_out = {name: why for (name, _), why in record.left_out.items() if not result.tells_of(name)}
    if left_out and not (result.reached or result.failed or result.error):
        return _nothing_sent(message, left_out, takers)._replace(begun=result.begun)
    result = result.among_those_present(draft.kind)
    if result.arrived(takers.beyond) and _is_new_summary(job):
        _summarized(draft)
        return result._replace(beside={"id": message.id, "title": message.title, "body": message.body})
    if not result.arrived(takers.beyond) and draft.kind != "summary" and not job.again:
        log_undelivered(message, result)
    return result._replace(beside={**processes, LEFT_OUT: left_out} if left_out else processes)


def _is_new_summary(job: TellJob) -> bool:
    """Whether a summary is to be composed; one with a title was by an earlier worker, and a channel missed it."""
    return job.message.kind == "summary" and job.message.title is None


def _delivery(
    job: TellJob, draft: Draft, message: Message, record: DeliveryRecord, takers: "_Takers", overtaken: Overtaken, now: float
) -> Delivery:  # fmt: skip
    # a further try goes without its picture, which may be why the first one failed
    picture = _picture(draft, job.history) if takers.beyond and not job.again else None
    # time counts from when the guard began the message, however long this process took to start
    since = job.since if 0.0 < job.since <= now else now
    return Delivery(
        message, job.settings, job.deadline, record, job.pause, picture, job.access, overtaken=overtaken, since=since
    )


def _nothing_sent(message: Message, left_out: Mapping[str, str], takers: "_Takers") -> DeliveryResult:
    """The result of a message that no channel needed any more."""
    why = LATER_CAME_FIRST if LATER_CAME_FIRST in left_out.values() else SPARED
    return DeliveryResult({UNASKED: f"{why} ({message.kind})"}) if takers.asked else _unasked(message)


class _Takers(NamedTuple):
    """The channels that get a message: those that ``asked`` for it, and those that get it ``instead`` of earlier ones.

    ``all`` of them are in the order of the configuration; ``beyond``: those that leave this machine.
    """

    asked: frozenset[str]
    instead: Mapping[str, list[Draft]]
    all: list[str]
    beyond: list[str]


def _takers(job: TellJob, message: Message, draft: Draft) -> _Takers:
    takes_back = str(draft.facts.get("takes_back") or "")
    settings = {name: channel_settings(job.settings, name) for name in job.channels}
    asked = frozenset(name for name in settings if wants(settings[name], message, takes_back))
    instead = {name: rows for name in settings if name not in asked and (rows := _missed(job, name))}
    takers = [name for name in job.channels if name in asked or name in instead]
    return _Takers(asked, instead, takers, [name for name in takers if settings[name]])


def _record(job: TellJob, draft: Draft, kept: Message, takers: _Takers) -> DeliveryRecord:
    """The record of this delivery; ``kept`` is the message without the hold link, with which any reader could hold the machine."""
    return DeliveryRecord(
        _runtime(job),
        draft,
        again=job.again or draft.kind == "summary",
        wanted=[name for name in takers.all if _names(channel_settings(job.settings, name), draft.kind)],
        channels=takers.all,
        instead=takers.instead,
        after={name: _before(job, name) for name in takers.all} if job.after else {},
        text=(kept.title, kept.body),
    )


def _runtime(job: TellJob) -> str:
    return str(job.settings.get("runtime") or "")


def _unasked(message: Message) -> DeliveryResult:
    return DeliveryResult({UNASKED: f"nobody asked for messages of this kind ({message.kind}, {message.level})"})


def _summary(job: TellJob) -> Draft | None:
    """The summary that is due now; None for none."""
    from costguard.notify import summary  # it reads the history

    found = summary.due(job.message, time.time())
    if found is None:
        return None
    return summary.begun(found._replace(id=summary.name_of(found, time.time())), _has_takers(job))


def _picture(draft: Draft, history: str) -> "DrawJob | None":
    """The picture to draw for a message that leaves the machine; None for a kind without one."""
    from costguard.notify import pictured

    return pictured.job(draft, history, time.time())


def _summarized(draft: Draft) -> None:
    """Record that people have this summary: the next one begins where it ends."""
    from costguard.notify import summary

    summary.told(draft, time.time())


def _names(channel: Mapping[str, object], kind: str) -> bool:
    """Whether the setting ``kinds`` of a channel names this kind."""
    kinds = channel.get("kinds")
    return isinstance(kinds, list | tuple) and kind in kinds


def _missed(job: TellJob, name: str) -> list[Draft]:
    """The earlier messages that this one replaces, as far as the channel wants messages of their kind and level."""
    message = job.message
    begun = [message._replace(kind=kind, level=level) for kind, level in BEGAN.get(message.kind, ())]
    return [one for one in (*begun, *replaced_drafts(message)) if _gets(job, name, one)]


def _before(job: TellJob, name: str) -> list[Draft]:
    """The earlier messages that are still on their way to the channel, and must arrive there first."""
    return [one.message for one in job.after if name in one.channels and _gets(job, name, one.message)]


def _gets(job: TellJob, name: str, one: Draft) -> bool:
    """Whether the channel wants this message, by its kind and level."""
    takes_back = str(one.facts.get("takes_back") or "")
    return wants(channel_settings(job.settings, name), Message(one.id, one.kind, one.level, "", ""), takes_back)


def _has_takers(job: TellJob) -> Callable[[Draft], bool]:
    """A function that says whether any channel took a message, by the record of an earlier worker."""
    return lambda draft: bool(DeliveryRecord(_runtime(job), draft, again=True).taken)


def wants(channel: Mapping[str, object], message: Message, takes_back: str = "") -> bool:
    """Whether a channel wants a message: by its kind if the channel names kinds, else by its level.

    ``takes_back`` is the level of the earlier message that this one corrects, empty for none. A channel that wanted the
    earlier one wants this one: a hold that ends a countdown then counts as ``cancelled``, a new date as a ``warning``.
    """
    kinds = channel.get("kinds")
    if isinstance(kinds, list | tuple) and kinds:
        as_kind = {"held": "cancelled", "countdown": "warning"}.get(message.kind) if takes_back else None
        return message.kind in {*kinds, "test"} or as_kind in kinds
    lowest = channel.get("level")
    if message.level not in LEVELS or lowest not in LEVELS:
        return True  # rather once too often
    level = max(message.level, takes_back if takes_back in LEVELS else "info", key=LEVELS.index)
    return LEVELS.index(level) >= LEVELS.index(str(lowest))


def log_undelivered(message: Message, result: DeliveryResult) -> None:
    """Write a message that was not delivered to standard error, which is the guard's journal."""
    why = "; ".join(f"{name}: {reason}" for name, reason in result.failed.items()) or "no channel is configured"
    only = "; ".join(f"{name}: {whom}" for name, whom in result.reached.items())
    lines = clean(f"message that reached {f'only {only}' if only else 'nobody'} ({why}): {message.text}").splitlines()
    with contextlib.suppress(OSError):  # standard error is closed, too
        sys.stderr.write("\n  ".join(lines) + "\n")
        sys.stderr.flush()


def written(draft: Draft, hold_url: str = "") -> Message:
    """Compose the message; ``hold_url`` is the owner's template of a link that holds the machine without a login, empty for none."""
    if draft.title is not None:
        text = compose.Text(draft.title, draft.body, draft.dry_run)
    else:
        text = compose.compose(
            draft.kind, {"hold_url": link(hold_url, draft), "machine": os.uname().nodename, **draft.facts}
        )
    return Message(draft.id, draft.kind, draft.level, with_names(text.title), with_names(text.body), text.dry_run)


def link(hold_url: str, draft: Draft) -> str:
    """Fill the owner's template with this instance, machine and incident; an empty template stays empty."""
    names = {
        "instance": str(draft.facts.get("instance") or "").rpartition(":")[2],  # as the cloud's own commands take it
        "machine": os.uname().nodename,
        "incident": draft.facts.get("incident"),
    }
    for name, value in names.items():
        hold_url = hold_url.replace(f"{{{name}}}", urllib.parse.quote(str(value or "unknown"), safe=""))
    return hold_url


if __name__ == "__main__":
    sys.exit(main())
