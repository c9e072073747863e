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
from costguard.notify.job import LEAVE_NOW, SPARED, UNASKED, DeliveryResult, Draft, TellJob, overtaken_drafts
from costguard.notify.message import Message
from costguard.notify.overtaken import Overtaken
from costguard.notify.processes import found_processes
from costguard.notify.terminal import clean
from costguard.parent import end_with_parent
from costguard.people import with_names
from costguard.process.worker import next_line, serve

if TYPE_CHECKING:
    from costguard.report.job import DrawJob

LEVELS = ("info", "warning", "critical")
"""From the least to the gravest."""

BEGAN = {"done": (("acting", "warning"),)}
"""How a stop ended is told to whoever asked for its beginning and has not got that: kinds of the same incident, and their levels."""


ORPHAN = "the agent that asked for it is gone"


def main() -> int:
    """Deliver one message over every channel."""
    end_with_parent()
    return serve(TellJob, _tell_unless_overtaken, lambda error: DeliveryResult(error=error))


def _tell_unless_overtaken(job: TellJob) -> DeliveryResult:
    """One more line from the guard says that a later message contradicts this one."""
    # it was killed before this process was to end with it: the next one tells the same
    if job.guard and os.getppid() != job.guard:
        return DeliveryResult(error=ORPHAN)
    overtaken = Overtaken(again=job.again)

    def hear() -> None:
        while line := next_line():
            overtaken.set(leaves=line == LEAVE_NOW)

    threading.Thread(target=hear, daemon=True).start()
    return tell(job, overtaken)


def tell(job: TellJob, overtaken: Overtaken) -> DeliveryResult:
    """Compose and deliver a message; when a first try reaches nobody, the text goes to the journal."""
    now = boot_clock()
    # else it was made before, and somebody missed it
    is_new_summary = job.message.kind == "summary" and job.message.title is None
    draft = _summary(job) if is_new_summary else job.message
    if draft is None:
        return DeliveryResult()
    beside = found_processes(draft, job.settings)
    whole = draft._replace(facts={**beside, **draft.facts})
    message = written(whole, str(job.settings.get("hold_url") or ""))
    login.keep(message, _runtime(job))
    takers = _takers(job, message, draft)
    if job.channels and not takers.all and message.kind != "warning":
        return _unasked(message)
    picture = _picture(draft, job.history) if takers.beyond and not job.again else None  # it may be why nobody took it
    record = _record(job, draft, written(whole), takers)
    # each counts from the moment at which the guard began it, however long its process took to begin
    since = job.told if 0.0 < job.told <= now else now
    delivery = Delivery(
        message, job.settings, job.deadline, record, job.pause, picture, job.access, overtaken=overtaken, since=since
    )
    told = deliver(delivery, takers.all)._replace(begun=record.begun if _runtime(job) else 0.0)
    record.ended()
    if record.spared and not (told.reached or told.failed or told.error):
        spared = DeliveryResult({UNASKED: f"{SPARED} ({draft.kind})"}) if takers.asked else _unasked(message)
        return spared._replace(begun=told.begun)
    told = told.among_those_present(draft.kind)
    if told.arrived(takers.beyond):
        if is_new_summary:
            _summarized(draft)
            beside = {"id": message.id, "title": message.title, "body": message.body}
    elif draft.kind != "summary" and not job.again:
        reached_nobody(message, told)
    return told._replace(beside=beside)


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
    """What is written down of the delivery; ``kept``: the text without the link, which holds the machine for whoever reads it."""
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
    """What to draw for a message that leaves the machine."""
    from costguard.notify import pictured

    return pictured.job(draft, history, time.time())


def _summarized(draft: Draft) -> None:
    """A summary that people have is told."""
    from costguard.notify import summary

    summary.told(draft, time.time())


def _names(channel: Mapping[str, object], kind: str) -> bool:
    """Whether a channel asks for this kind by its name."""
    kinds = channel.get("kinds")
    return isinstance(kinds, list | tuple) and kind in kinds


def _missed(job: TellJob, name: str) -> list[Draft]:
    """The earlier messages that this one stands for, of which the channel gets those of their kind."""
    message = job.message
    begun = [message._replace(kind=kind, level=level) for kind, level in BEGAN.get(message.kind, ())]
    return [one for one in (*begun, *overtaken_drafts(message)) if _gets(job, name, one)]


def _before(job: TellJob, name: str) -> list[Draft]:
    """What is still on its way to the channel, and must be read there before."""
    return [one.message for one in job.after if name in one.channels and _gets(job, name, one.message)]


def _gets(job: TellJob, name: str, one: Draft) -> bool:
    """Whether the channel gets another message."""
    takes_back = str(one.facts.get("takes_back") or "")
    return wants(channel_settings(job.settings, name), Message(one.id, one.kind, one.level, "", ""), takes_back)


def _has_takers(job: TellJob) -> Callable[[Draft], bool]:
    """Whether somebody has taken a message, as an earlier worker wrote it down."""
    return lambda draft: bool(DeliveryRecord(_runtime(job), draft, again=True).taken)


def wants(channel: Mapping[str, object], message: Message, takes_back: str = "") -> bool:
    """Whether a channel gets such a message: by its kind where kinds are named, else by its level.

    ``takes_back``: the level of what people were told before, and is not so any more. Who heard that hears this; a hold
    that ends a countdown cancels what was announced, and a later date stands in the place of the warning's.
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


def reached_nobody(message: Message, told: DeliveryResult) -> None:
    """Write the message to standard error, which is the guard's journal, for a later reader."""
    why = "; ".join(f"{name}: {reason}" for name, reason in told.failed.items()) or "no channel is configured"
    only = "; ".join(f"{name}: {whom}" for name, whom in told.reached.items())
    lines = clean(f"message that reached {f'only {only}' if only else 'nobody'} ({why}): {message.text}").splitlines()
    with contextlib.suppress(OSError):  # nobody reads the journal either
        sys.stderr.write("\n  ".join(lines) + "\n")
        sys.stderr.flush()


def written(draft: Draft, hold_url: str = "") -> Message:
    """The message with its text; ``hold_url`` is the owner's link for a hold without a login."""
    if draft.title is not None:
        text = compose.Text(draft.title, draft.body, draft.dry_run)
    else:
        text = compose.compose(
            draft.kind, {"hold_url": link(hold_url, draft), "machine": os.uname().nodename, **draft.facts}
        )
    return Message(draft.id, draft.kind, draft.level, with_names(text.title), with_names(text.body), text.dry_run)


def link(hold_url: str, draft: Draft) -> str:
    """The owner's link for this machine and incident; empty where there is none."""
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
