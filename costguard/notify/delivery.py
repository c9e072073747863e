"""Deliver one message within one deadline: to the channels of this machine in turn, and meanwhile to all others at once."""

import importlib
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple

from costguard.clocks import boot_clock
from costguard.cloud.access import CloudAccess
from costguard.masking import mask
from costguard.notify import secret_urls
from costguard.notify.delivery_record import DeliveryRecord
from costguard.notify.job import STORED, DeliveryResult
from costguard.notify.message import AbsentError, Deliver, DeliveryError, Message
from costguard.notify.overtaken import Overtaken

if TYPE_CHECKING:
    from costguard.notify.remote import AddressResult
    from costguard.report.job import DrawJob
    from costguard.report.picture import Picture

    Draw = Callable[[float], Picture]

LOCAL_CHANNELS = {
    "terminal": "costguard.notify.terminal",
    "wall": "costguard.notify.wall",
    "task": "costguard.notify.task",
}
"""Each channel of this machine, and its module, whose function ``deliver`` is a `Deliver`."""

OWN_SHARE = 0.75
"""Share of its time that a channel of this machine may use; at the end of all of it the channel is interrupted."""

STORED_SHARE = 0.4
"""Share of the remaining time that the cloud's secret store may take; the rest is for the message."""


class TooLateError(Exception):
    """A channel took longer than its share of the deadline."""


class Delivery(NamedTuple):
    """A message, and what its delivery needs.

    Attributes:
        message: what to deliver.
        settings: the section ``[notify]``.
        seconds: time for the delivery, once the pause is over.
        record: which addresses took it, now and in earlier tries.
        pause: seconds to wait before the message leaves the machine.
        picture: what to draw for services that take a picture.
        access: how to reach the cloud whose secret store has addresses.
        overtaken: set when a later message contradicts this one; it ends the tries.
        since: when the message could have left without the pause, on the boot clock.
    """

    message: Message
    settings: Mapping[str, object]
    seconds: float
    record: DeliveryRecord
    pause: float = 0.0
    picture: "DrawJob | None" = None
    access: CloudAccess | None = None
    overtaken: Overtaken | None = None
    since: float = 0.0


def channel_settings(settings: Mapping[str, object], name: str) -> Mapping[str, object]:
    """The settings in ``[notify.channels.NAME]``; none for a channel of this machine."""
    channels = settings.get("channels")
    found = channels.get(name) if isinstance(channels, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def deliver(one: Delivery, channels: Sequence[str]) -> DeliveryResult:
    """Try every channel. One with several addresses may be both among those reached and among those that failed."""
    end = time.monotonic() + one.seconds
    here = [name for name in channels if not channel_settings(one.settings, name)]
    beyond = {name: channel_settings(one.settings, name) for name in channels if name not in here}
    if not beyond:
        return _here(one, here, end)
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(_beyond, one, beyond, end)
        return _together(_here(one, here, end), sending.result())


def _together(*parts: DeliveryResult) -> DeliveryResult:
    """Merge the results of the parts of a delivery."""
    whole = DeliveryResult()
    for part in parts:
        whole = DeliveryResult(
            {**whole.reached, **part.reached},
            {**whole.failed, **part.failed},
            whole.error or part.error,
            {**whole.answered, **part.answered},
            {**whole.waits, **part.waits},
            absent={**whole.absent, **part.absent},
        )
    return whole


def _beyond(one: Delivery, channels: Mapping[str, Mapping[str, object]], end: float) -> DeliveryResult:
    """Send to the addresses of each channel; one that fails does not affect the others."""
    if one.picture is None:
        return _sent(one, channels, end, None)
    from costguard.notify.pictured import Drawing

    with Drawing(one.picture, one.message.kind) as drawing:
        if one.overtaken is not None:
            one.overtaken.on_set(drawing.give_up)
        return _sent(one, channels, end, drawing.wait)


def _sent(
    one: Delivery, channels: Mapping[str, Mapping[str, object]], end: float, draw: "Draw | None"
) -> DeliveryResult:
    urls: dict[str, list[str]] = {}
    unread: dict[str, str] = {}
    stored: dict[str, list[str]] = {}
    for name, channel in channels.items():
        reference = str(channel.get("urls", ""))
        if reference.startswith(STORED):
            stored.setdefault(reference, []).append(name)
            continue
        try:
            urls[name] = secret_urls.read(reference, os.environ)
        except DeliveryError as error:
            unread[name] = mask(str(error))
            one.record.done(name, why=unread[name])
    if urls or stored:
        paused = (one.overtaken or Overtaken()).pause(one.pause)
        one, end = one._replace(since=one.since + paused), end + paused
    with ThreadPoolExecutor(1 + len(stored)) as pool:  # a store that hangs holds up nobody else
        asked = [pool.submit(_of_store, one, reference, names, end, draw) for reference, names in stored.items()]
        return _together(DeliveryResult(failed=unread), _to(one, urls, end, draw), *(part.result() for part in asked))


def _of_store(one: Delivery, reference: str, names: Sequence[str], end: float, draw: "Draw | None") -> DeliveryResult:
    """Send to the channels whose addresses are in one secret of the cloud, which is read once."""
    try:
        urls = secret_urls.read_stored(reference, one.access, (end - time.monotonic()) * STORED_SHARE)
    except DeliveryError as error:
        why = str(error)
    except Exception as error:  # noqa: BLE001 - foreign code, and what it says may hold the secret
        why = f"the cloud plug-in failed: {type(error).__name__}"
    else:
        return _to(one, dict.fromkeys(names, urls), end, draw)
    for name in names:
        one.record.done(name, why=why)
    return DeliveryResult(failed=dict.fromkeys(names, why))


def _to(one: Delivery, urls: Mapping[str, list[str]], end: float, draw: "Draw | None") -> DeliveryResult:
    if not urls:
        return DeliveryResult()
    try:
        begun = time.monotonic()
        from costguard.notify import remote  # 33 MB, for those who have such channels

        remote.load()
        end += time.monotonic() - begun  # a busy machine takes long for that, which is no fault of a service
        outcomes = remote.deliver(
            one.message, urls, end, draw, record=one.record, since=one.since, overtaken=one.overtaken or Overtaken()
        )
    except Exception as error:  # noqa: BLE001 - a broken library must not keep the channels of this machine from being tried
        why = mask(f"apprise cannot be used: {type(error).__name__}: {error}")[:300]
        return DeliveryResult(failed=dict.fromkeys(urls, f"{why} (reinstall costguard in its environment)"))
    return _together(*(_of_channel(name, sent) for name, sent in outcomes.items()))


def _of_channel(name: str, sent: "Sequence[AddressResult]") -> DeliveryResult:
    """The result of one channel, from those of its addresses."""
    notes = [one.note for one in sent if one.note and not one.trouble]
    took = [one.service for one in sent if not one.trouble]
    lost = [
        f"{one.service}{f', address {number}' if len(sent) > 1 else ''}: {one.trouble}"
        + (f" ({one.hint})" if one.hint else "")
        for number, one in enumerate(sent, start=1)
        if one.trouble
    ]
    dates = [one.at for one in sent if one.at is not None]
    wait = max(0.0, max(one.until for one in sent) - boot_clock())  # other addresses took some of that time
    return DeliveryResult(
        {name: ", ".join(took) + (f" ({'; '.join(dict.fromkeys(notes))})" if notes else "")} if took else {},
        {name: "; ".join(lost)} if lost else {},
        answered={name: max(dates)} if dates else {},
        waits={name: wait} if wait else {},
    )


def _here(one: Delivery, channels: Sequence[str], end: float) -> DeliveryResult:
    """Try the channels of this machine, each with its share of what is left of the time."""
    reached: dict[str, str] = {}
    failed: dict[str, str] = {}
    absent: dict[str, str] = {}
    answered: dict[str, float] = {}
    signal.signal(signal.SIGALRM, _too_late)
    for number, name in enumerate(channels):
        begun = time.monotonic()
        one.record.await_turn(name, 0, one.since)
        end += time.monotonic() - begun
        if one.record.leave_out(name, 0, one.overtaken.later if one.overtaken is not None else ()):
            one.record.done(name, 0)
            continue
        if whom := one.record.shown_recently(name, boot_clock()):
            one.record.already_taken(name, 0, whom)
            reached[name] = whom
            continue
        share = max(0.05, (end - time.monotonic()) / (len(channels) - number))
        one.record.asked(name, 0)
        try:
            channel: Deliver = importlib.import_module(LOCAL_CHANNELS[name]).deliver
            signal.setitimer(signal.ITIMER_REAL, share)
            reached[name] = channel(one.message, {**one.settings, "seconds": share * OWN_SHARE})
        except KeyError:
            failed[name] = f"no such channel; allowed: {', '.join(sorted(LOCAL_CHANNELS))}"
        except AbsentError as error:
            absent[name] = mask(str(error))
        except DeliveryError as error:
            failed[name] = mask(str(error))
        except TooLateError:
            failed[name] = f"no answer within {share:.0f} s"
        except Exception as error:  # noqa: BLE001 - one broken channel must not keep the others from being tried
            failed[name] = mask(f"{type(error).__name__}: {error}")[:500]
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        answered[name] = time.time()
        if name in reached:
            one.record.keep(name, 0, reached[name])
        elif name in absent:
            one.record.absent(name, 0, absent[name])
        else:
            one.record.done(name, 0, failed[name])
    return DeliveryResult(reached, failed, answered=answered, absent=absent)


def _too_late(_number: int, _frame: FrameType | None) -> None:
    raise TooLateError
