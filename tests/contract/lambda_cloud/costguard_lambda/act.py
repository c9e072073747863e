"""The request, and what became of it. A terminated instance stays in the list for a while, then the API knows it no more."""

import time

from costguard.cloud.api import CloudError, Ticket
from costguard.cloud.send import EndRequest, Look, send, unchanged
from costguard.plans import Result

from .facts import ENDS
from .session import Session

LOOK_SECONDS = 10.0
"""Seconds for asking what the cloud shows."""

_CLOSED = frozenset(("terminated", "preempted"))


def execute(session: Session, instance: str, ticket: Ticket) -> Result:
    """A second request for an instance that ends is refused, so the same one may be sent again after a look."""

    def once(left: float) -> Result:
        status = str(session.terminate(instance, left).get("status", ""))
        return Result("accepted", f"accepted: Lambda Cloud shows {status or 'no state'}", f"instance {instance}")

    def look(within: float) -> Look | None:
        try:
            return seen(str(session.instance(instance, time.monotonic() + within)["status"]))
        except CloudError as error:
            return seen("terminated") if error.trouble == "gone" else None

    session.stamp(ticket)
    return send(EndRequest("Lambda Cloud", once, look), time.monotonic() + ticket.deadline)


def seen(status: str) -> Look:
    """What a status of the instance says of its end."""
    return Look(f"Lambda Cloud shows {status}", status in ENDS, f"status {status}")


def confirm(session: Session, instance: str, recorded: Result | None, within: float = LOOK_SECONDS) -> Result:
    """What Lambda Cloud shows now. Raises CloudError."""
    proof = recorded.proof if recorded else ""
    try:
        status = str(session.instance(instance, time.monotonic() + min(within, LOOK_SECONDS))["status"])
    except CloudError as error:
        if error.trouble != "gone":
            raise
        return Result("done", "closed: Lambda Cloud no longer knows this instance", proof)
    if status in _CLOSED:
        return Result("done", f"closed: Lambda Cloud shows {status}", proof)
    if status in ENDS:
        return Result("pending", f"seen stopping: Lambda Cloud shows {status}", proof)
    return unchanged(recorded, f"Lambda Cloud shows {status}: the bill goes on")
