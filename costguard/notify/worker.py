"""The notification worker: ``python -m costguard.notify.worker``, one message, one answer."""

import contextlib
import os
import sys
import time
import urllib.parse
from collections.abc import Mapping
from typing import TYPE_CHECKING

from costguard.notify import compose, login
from costguard.notify.delivered import Delivered
from costguard.notify.delivery import Delivery, channel_settings, deliver
from costguard.notify.job import UNASKED, Draft, TellJob, Told
from costguard.notify.message import Message
from costguard.notify.processes import found_processes
from costguard.notify.terminal import clean
from costguard.people import with_names
from costguard.process.worker import serve
from costguard.programs import die_with_parent

if TYPE_CHECKING:
    from costguard.report.job import DrawJob

LEVELS = ("info", "warning", "critical")
"""From the least to the gravest."""


def main() -> int:
    """Deliver one message over every channel."""
    die_with_parent()
    return serve(TellJob, tell, lambda error: Told(error=error))


def tell(job: TellJob) -> Told:
    """Compose and deliver a message; when a first try reaches nobody, the text goes to the journal."""
    draft = job.message
    made_here = draft.kind == "summary" and draft.title is None  # else it was made before, and somebody missed it
    if made_here:
        from costguard.notify import summary  # it reads the history

        found = summary.due(draft, time.time())
        if found is None:
            return Told()
        draft = found._replace(id=f"summary-{found.facts.get('since') or ''}")  # the same at each try
    beside = found_processes(draft, job.settings)
    message = written(draft._replace(facts={**beside, **draft.facts}), str(job.settings.get("hold_url") or ""))
    login.keep(message, str(job.settings.get("runtime") or ""))
    takes_back = str(draft.facts.get("takes_back") or "")
    channels = [name for name in job.channels if wants(channel_settings(job.settings, name), message, takes_back)]
    if job.channels and not channels and message.kind != "warning":
        return Told({UNASKED: f"nobody asked for messages of this kind ({message.kind}, {message.level})"})
    leave = any(channel_settings(job.settings, name) for name in channels)
    picture = _picture(draft, job.history) if leave and not job.again else None  # it may be why nobody took it before
    record = Delivered(str(job.settings.get("runtime") or ""), draft, again=job.again or draft.kind == "summary")
    delivery = Delivery(message, job.settings, job.deadline, record, job.pause, picture, job.access, job.waits)
    told = deliver(delivery, channels)
    beyond = [name for name in channels if channel_settings(job.settings, name)]
    if told.arrived(beyond):
        if made_here:
            _summarized(draft)
            beside = {"id": message.id, "title": message.title, "body": message.body}
    elif draft.kind != "summary" and not job.again:
        reached_nobody(message, told)
    return told._replace(beside=beside)


def _picture(draft: Draft, history: str) -> "DrawJob | None":
    """What to draw for a message that leaves the machine."""
    from costguard.notify import pictured

    return pictured.job(draft, history, time.time())


def _summarized(draft: Draft) -> None:
    """A summary that people have is told."""
    from costguard.notify import summary

    summary.told(draft, time.time())


def wants(channel: Mapping[str, object], message: Message, takes_back: str = "") -> bool:
    """Whether a channel gets such a message: by its kind where kinds are named, else by its level.

    ``takes_back``: the level of what people were told before, and is not so any more. Who heard that hears this; and a hold
    that ends a countdown cancels what was announced.
    """
    kinds = channel.get("kinds")
    if isinstance(kinds, list | tuple) and kinds:
        cancels = message.kind == "held" and bool(takes_back)
        return message.kind in {*kinds, "test"} or (cancels and "cancelled" in kinds)
    lowest = channel.get("level")
    if message.level not in LEVELS or lowest not in LEVELS:
        return True  # rather once too often
    level = max(message.level, takes_back if takes_back in LEVELS else "info", key=LEVELS.index)
    return LEVELS.index(level) >= LEVELS.index(str(lowest))


def reached_nobody(message: Message, told: Told) -> None:
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
