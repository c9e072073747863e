"""Scheduled events: the cloud takes this machine away, or interrupts it.

Source: Azure documentation "Scheduled Events for Linux VMs": the first call switches the feature on, which then
also delays restarts that a user asks for, so the owner has to want it (``[cloud.azure] scheduled_events``); that
call may take two minutes, so it is made beside everything else.
"""

from collections.abc import Mapping
from typing import Any

from costguard.cloud.api import CloudError, CloudNotice, Site
from costguard_azure import metadata

FIRST_SECONDS = 150.0
"""Seconds for the call that switches the feature on."""
GLANCE_SECONDS = 2.0
"""Seconds in which its answer is waited for: where the feature is on already it comes at once."""

_KINDS = {"Reboot": "reboot", "Redeploy": "reboot", "Freeze": "freeze", "Terminate": "terminate"}
_WORDS = {
    "Preempt": "Azure reclaims this Spot machine",
    "Reboot": "Azure reboots this machine",
    "Redeploy": "Azure moves this machine to other hardware: it reboots, and its local disk is emptied",
    "Freeze": "Azure freezes this machine for some seconds",
    "Terminate": "Azure is about to delete this machine",
}


def notices(site: Site) -> tuple[CloudNotice, ...]:
    """What is announced for this machine.

    Raises CloudError, also when the events are off: nobody announces anything through a service out of reach.
    """
    if site.settings.get("scheduled_events") is not True:
        metadata.compute(site)
        return ()
    events = [event for event in _events(site).get("Events") or () if isinstance(event, dict)]
    if not events:
        return ()
    me = metadata.compute(site)
    name = str(me.get("name") or "").lower()
    kind = "terminate" if me.get("evictionPolicy") == "Delete" else "stop"
    mine = [event for event in events if name in {str(each).lower() for each in event.get("Resources") or ()}]
    return tuple(_notice(event, kind) for event in mine)


class _FirstCall:
    """The call that may take minutes, in a thread of its own: nobody waits for it, and it ends with the process."""

    def __init__(self, site: Site) -> None:
        self._found: dict[str, Any] | None = None
        self._error: CloudError | None = None
        import threading  # here and below: the process that asks stays, and most machines have no such events

        self._thread = threading.Thread(target=self._ask, args=(site,), daemon=True)
        self._thread.start()

    def answer(self) -> dict[str, Any] | None:
        """The events; None while there is no answer yet. Raises CloudError."""
        self._thread.join(GLANCE_SECONDS)
        if self._error is not None:
            raise self._error
        return self._found

    def _ask(self, site: Site) -> None:
        try:
            self._found = metadata.events(site, FIRST_SECONDS)
        except CloudError as error:
            self._error = _never() if error.code == "timeout" else error


_first: dict[str, _FirstCall] = {}  # by the address of the service
_on: set[str] = set()  # the addresses that have answered


def _events(site: Site) -> Mapping[str, Any]:
    """Empty while the first call is on its way. Raises CloudError, also when it is never answered; then it is made anew."""
    where = metadata.endpoint(site)
    if where in _on:
        try:
            return metadata.events(site)
        except CloudError:
            _on.discard(where)  # it may have been switched off, as after a day in which nobody asked
            raise
    call = _first.pop(where, None) or _FirstCall(site)
    found = call.answer()
    if found is None:
        _first[where] = call
        return {}
    _on.add(where)
    return found


def _never() -> CloudError:
    text = f"scheduled events did not answer their first call within {FIRST_SECONDS:.0f} s: Azure may reclaim this machine without notice"
    hint = "costguard tries again; if this lasts, check the firewall, or set cloud.azure.scheduled_events = false"
    return CloudError("unreachable", text, code="timeout", hint=hint)


def _notice(event: Mapping[str, Any], preempted: str) -> CloudNotice:
    """One event; a Spot machine that is taken back is deallocated or deleted, as its owner chose."""
    sort = str(event.get("EventType") or "")
    message = _WORDS.get(sort, f"Azure announces {sort or 'an event without a name'}")
    said = str(event.get("Description") or "").strip()
    return CloudNotice(
        id=str(event.get("EventId") or ""),
        kind=preempted if sort == "Preempt" else _KINDS.get(sort, "reboot"),
        at=_moment(event.get("NotBefore")),
        words=f"{message} ({said})" if said else message,
    )


def _moment(text: object) -> float | None:
    """``Mon, 19 Sep 2016 18:29:47 GMT``; empty once the event has begun."""
    if not text:
        return None
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(str(text)).timestamp()
    except (ValueError, TypeError, IndexError):
        return None
