"""The notification worker: ``python -m costguard.notify.worker``, one message, one answer."""

import contextlib
import importlib
import os
import signal
import sys
import time
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import TYPE_CHECKING

from costguard.cloud.access import CloudAccess
from costguard.masking import mask
from costguard.notify import compose, login, secret_urls
from costguard.notify.job import STORED, Draft, TellJob, Told
from costguard.notify.message import Deliver, DeliveryError, Message
from costguard.notify.processes import with_processes
from costguard.notify.terminal import clean
from costguard.people import with_names
from costguard.process.worker import serve
from costguard.programs import die_with_parent

if TYPE_CHECKING:
    from costguard.report.job import DrawJob
    from costguard.report.picture import Picture

    Draw = Callable[[float], Picture]

LOCAL_CHANNELS = {"terminal": "costguard.notify.terminal", "wall": "costguard.notify.wall"}
"""Each channel of this machine, and its module, whose function ``deliver`` is a `Deliver`."""

OWN_SHARE = 0.75
"""The share of its time that a channel may plan with; the rest is slack for a busy machine, before it is interrupted."""

STORED_SHARE = 0.6
"""The share of what is left of the time that the cloud's store may take; the rest is for the message."""

LEVELS = ("info", "warning", "critical")
"""From the least to the gravest."""


class TooLateError(Exception):
    """A channel took longer than its share of the deadline."""


def main() -> int:
    """Deliver one message over every channel."""
    die_with_parent()
    return serve(TellJob, tell, lambda error: Told(error=error))


def tell(job: TellJob) -> Told:
    """Compose and deliver a message; when a first try reaches nobody, the text goes to the journal."""
    draft = job.message
    if draft.kind == "summary":
        from costguard.notify import summary  # it reads the history

        found = summary.due(draft, time.time())
        if found is None:
            return Told()
        draft = found
    message = written(with_processes(draft, job.settings), str(job.settings.get("hold_url") or ""))
    login.keep(message, str(job.settings.get("runtime") or ""))
    channels = [name for name in job.channels if wants(channel_settings(job.settings, name), message)]
    if job.channels and not channels and message.kind != "warning":
        return Told({"no channel": f"takes messages of this kind ({message.kind}, {message.level})"})
    leave = any(channel_settings(job.settings, name) for name in channels)
    picture = _picture(draft, job.history) if leave else None
    reached, failed = deliver(message, channels, job.settings, job.deadline, job.pause, picture, job.access)
    if draft.kind == "summary":
        return _summarized(draft, reached, failed)
    if not reached and not job.message.facts.get("attempts"):
        reached_nobody(message, failed)
    return Told(reached, failed)


def _picture(draft: Draft, history: str) -> "DrawJob | None":
    """What to draw for a message that leaves the machine."""
    from costguard.notify import pictured

    return pictured.job(draft, history, time.time())


def _summarized(draft: Draft, reached: dict[str, str], failed: dict[str, str]) -> Told:
    """A summary that somebody got is told; the next one begins where it ended."""
    from costguard.notify import summary

    if reached:
        summary.keep(str(draft.facts.get("state") or ""))
    return Told(reached, failed)


def channel_settings(settings: Mapping[str, object], name: str) -> Mapping[str, object]:
    """Those of ``[notify.channels.NAME]``; none for a channel of this machine."""
    channels = settings.get("channels")
    found = channels.get(name) if isinstance(channels, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def wants(channel: Mapping[str, object], message: Message) -> bool:
    """Whether a channel gets such a message: by its kind where kinds are named, else by its level."""
    kinds = channel.get("kinds")
    if isinstance(kinds, list | tuple) and kinds:
        return message.kind in {*kinds, "test"}
    lowest = channel.get("level")
    if message.level not in LEVELS or lowest not in LEVELS:
        return True  # rather once too often
    return LEVELS.index(message.level) >= LEVELS.index(str(lowest))


def reached_nobody(message: Message, failed: Mapping[str, str]) -> None:
    """Write the message to standard error, which is the guard's journal, for a later reader."""
    why = "; ".join(f"{name}: {reason}" for name, reason in failed.items()) or "no channel is configured"
    lines = clean(f"message that reached nobody ({why}): {message.text}").splitlines()
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


def deliver(
    message: Message,
    channels: Sequence[str],
    settings: Mapping[str, object],
    deadline: float,
    pause: float = 0.0,
    picture: "DrawJob | None" = None,
    access: CloudAccess | None = None,
) -> tuple[dict[str, str], dict[str, str]]:
    """Try every channel within the deadline: those beyond this machine all at once, beside those on it, one after the other.

    Gives whom each reached, and why others failed; a channel with several addresses may be in both. After ``pause``
    seconds the message leaves the machine. ``picture`` is drawn beside all that, for those who take one. ``access`` leads to
    the cloud whose store has addresses.
    """
    end = time.monotonic() + deadline
    here = [name for name in channels if not channel_settings(settings, name)]
    beyond = {name: channel_settings(settings, name) for name in channels if name not in here}
    reached: dict[str, str] = {}
    failed: dict[str, str] = {}
    if beyond:
        with ThreadPoolExecutor(1) as pool:
            sending = pool.submit(_beyond, message, beyond, end - deadline * (1.0 - OWN_SHARE), pause, picture, access)
            _here(message, here, settings, end, reached, failed)
            far, lost = sending.result()
        return reached | far, failed | lost
    _here(message, here, settings, end, reached, failed)
    return reached, failed


def _beyond(
    message: Message,
    channels: Mapping[str, Mapping[str, object]],
    end: float,
    pause: float,
    picture: "DrawJob | None",
    access: CloudAccess | None,
) -> tuple[dict[str, str], dict[str, str]]:
    """Send to the addresses of each channel; what fails there is one of them, and costs the others nothing."""
    if picture is None:
        return _sent(message, channels, end, pause, None, access)
    from costguard.notify.pictured import Drawing

    with Drawing(picture, message.kind) as drawing:
        return _sent(message, channels, end, pause, drawing.wait, access)


def _sent(
    message: Message,
    channels: Mapping[str, Mapping[str, object]],
    end: float,
    pause: float,
    draw: "Draw | None",
    access: CloudAccess | None,
) -> tuple[dict[str, str], dict[str, str]]:
    references = {name: str(channel.get("urls", "")) for name, channel in channels.items()}
    urls: dict[str, list[str]] = {}
    reached: dict[str, str] = {}
    failed: dict[str, str] = {}
    stored: dict[str, list[str]] = {}
    for name, reference in references.items():
        if reference.startswith(STORED):
            stored.setdefault(reference, []).append(name)
            continue
        try:
            urls[name] = secret_urls.read(reference, os.environ)
        except DeliveryError as error:
            failed[name] = mask(str(error))
    time.sleep(max(0.0, min(pause, (end - time.monotonic()) / 2.0)) if urls or stored else 0.0)
    with ThreadPoolExecutor(1 + len(stored)) as pool:  # a store that hangs holds up nobody else
        asked = [pool.submit(_of_store, message, one, names, end, draw, access) for one, names in stored.items()]
        parts = [_to(message, urls, end, draw), *(one.result() for one in asked)]
    for took, lost in parts:
        reached |= took
        failed |= lost
    return reached, failed


def _of_store(
    message: Message, reference: str, names: Sequence[str], end: float, draw: "Draw | None", access: CloudAccess | None
) -> tuple[dict[str, str], dict[str, str]]:
    """The same for the channels whose addresses are one secret of the cloud, which is read once."""
    try:
        urls = secret_urls.read_stored(reference, access, (end - time.monotonic()) * STORED_SHARE)
    except DeliveryError as error:
        return {}, dict.fromkeys(names, str(error))
    except Exception as error:  # noqa: BLE001 - foreign code, and what it says may hold the secret
        return {}, dict.fromkeys(names, f"the cloud plug-in failed: {type(error).__name__}")
    return _to(message, dict.fromkeys(names, urls), end, draw)


def _to(
    message: Message, urls: Mapping[str, list[str]], end: float, draw: "Draw | None"
) -> tuple[dict[str, str], dict[str, str]]:
    reached: dict[str, str] = {}
    failed: dict[str, str] = {}
    if not urls:
        return reached, failed
    try:
        from costguard.notify import remote  # 33 MB, for those who have such channels

        outcomes = remote.deliver(message, urls, end, draw)
    except Exception as error:  # noqa: BLE001 - a broken library must not keep the channels of this machine from being tried
        why = mask(f"apprise cannot be used: {type(error).__name__}: {error}")[:300]
        return reached, failed | dict.fromkeys(urls, f"{why} (reinstall costguard in its environment)")
    for name, sent in outcomes.items():
        notes = [one.note for one in sent if one.note and not one.trouble]
        if took := [one.service for one in sent if not one.trouble]:
            reached[name] = ", ".join(took) + (f" ({'; '.join(dict.fromkeys(notes))})" if notes else "")
        if lost := [one for one in sent if one.trouble]:
            failed[name] = "; ".join(
                f"{one.service}: {one.trouble}" + (f" ({one.hint})" if one.hint else "") for one in lost
            )
    return reached, failed


def _here(
    message: Message,
    channels: Sequence[str],
    settings: Mapping[str, object],
    end: float,
    reached: dict[str, str],
    failed: dict[str, str],
) -> None:
    """Try the channels of this machine, each with its share of what is left of the time."""
    signal.signal(signal.SIGALRM, _too_late)
    for number, name in enumerate(channels):
        share = max(0.05, (end - time.monotonic()) / (len(channels) - number))
        try:
            channel: Deliver = importlib.import_module(LOCAL_CHANNELS[name]).deliver
            signal.setitimer(signal.ITIMER_REAL, share)
            reached[name] = channel(message, {**settings, "seconds": share * OWN_SHARE})
        except KeyError:
            failed[name] = f"no such channel; allowed: {', '.join(sorted(LOCAL_CHANNELS))}"
        except DeliveryError as error:
            failed[name] = mask(str(error))
        except TooLateError:
            failed[name] = f"no answer within {share:.0f} s"
        except Exception as error:  # noqa: BLE001 - one broken channel must not keep the others from being tried
            failed[name] = mask(f"{type(error).__name__}: {error}")[:500]
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


def _too_late(_number: int, _frame: FrameType | None) -> None:
    raise TooLateError


if __name__ == "__main__":
    sys.exit(main())
