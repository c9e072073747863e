"""Scheduled events: the cloud takes this machine away, or interrupts it.

Source: Azure documentation "Scheduled Events for Linux VMs": the first call switches the feature on, which then
also delays restarts that a user asks for, so the owner has to want it (``[cloud] scheduled_events``).
"""

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from costguard.actions.provider import Notice, Site
from costguard_azure import metadata

_KINDS = {"Reboot": "reboot", "Redeploy": "reboot", "Freeze": "freeze", "Terminate": "terminate"}
_WORDS = {
    "Preempt": "Azure takes this Spot machine back",
    "Reboot": "Azure reboots this machine",
    "Redeploy": "Azure moves this machine to other hardware: it reboots, and its local disk is emptied",
    "Freeze": "Azure freezes this machine for some seconds",
    "Terminate": "this machine is about to be deleted",
}


def notices(site: Site) -> tuple[Notice, ...]:
    """What is announced for this machine.

    Raises CloudError, also when the events are off: nobody announces anything through a service out of reach.
    """
    if site.settings.get("scheduled_events") is not True:
        metadata.compute(site)
        return ()
    events = [event for event in metadata.events(site).get("Events") or () if isinstance(event, dict)]
    if not events:
        return ()
    me = metadata.compute(site)
    name = str(me.get("name") or "").lower()
    kind = "terminate" if me.get("evictionPolicy") == "Delete" else "stop"
    mine = [event for event in events if name in {str(each).lower() for each in event.get("Resources") or ()}]
    return tuple(_notice(event, kind) for event in mine)


def _notice(event: Mapping[str, Any], preempted: str) -> Notice:
    """One event; a Spot machine that is taken back is deallocated or deleted, as its owner chose."""
    sort = str(event.get("EventType") or "")
    words = _WORDS.get(sort, f"Azure announces {sort or 'something without a name'}")
    said = str(event.get("Description") or "").strip()
    return Notice(
        id=str(event.get("EventId") or ""),
        kind=preempted if sort == "Preempt" else _KINDS.get(sort, "reboot"),
        at=_moment(event.get("NotBefore")),
        words=f"{words} ({said})" if said else words,
    )


def _moment(text: object) -> float | None:
    """``Mon, 19 Sep 2016 18:29:47 GMT``; empty once the event has begun."""
    try:
        return parsedate_to_datetime(str(text)).timestamp()
    except (ValueError, TypeError, IndexError):
        return None
