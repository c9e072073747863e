"""The request itself, and what became of it. `costguard.cloud.send` repeats it, looks, and decides."""

import time

from costguard.cloud.age import is_young
from costguard.cloud.api import CloudError, Ticket, Verb
from costguard.cloud.send import EndRequest, Look, send, unchanged
from costguard.plans import Result

from .facts import Facts, seen
from .session import CALL_SECONDS, Session

ENDED = {"stop": "stopped", "terminate": "gone", "hibernate": "asleep"}


def execute(session: Session, verb: Verb, facts: Facts, ticket: Ticket) -> Result:
    """Say how one try is made, how one look, and whether the same request may be sent twice."""

    def once(left: float) -> Result:
        number = session.act(verb, ticket.attempt, left)
        return Result("accepted", f"accepted: Skeleton Cloud will {verb} it (request {number})", number)

    def look(within: float) -> Look | None:
        try:
            return seen(str(session.machine(within)["status"]))
        except CloudError as error:
            return seen("gone") if error.trouble == "gone" else None

    request = EndRequest("Skeleton Cloud", once, look, repeat="seen", young=is_young(facts.uptime))
    return send(request, time.monotonic() + ticket.deadline)


def confirm(session: Session, verb: str, recorded: Result | None, within: float = CALL_SECONDS) -> Result:
    """What the cloud shows now: *done* only where it shows that the bill ended. Raises CloudError."""
    proof = recorded.proof if recorded else ""
    try:
        status = str(session.look(time.monotonic() + min(within, CALL_SECONDS))["status"])
    except CloudError as error:
        if error.trouble != "gone":
            raise
        return Result("done", "closed: Skeleton Cloud no longer knows this machine", proof)
    if status == ENDED[verb]:
        return Result("done", f"closed: Skeleton Cloud shows {status}", proof)
    if seen(status).ends:
        return Result("pending", f"seen stopping: Skeleton Cloud shows {status}", proof)
    return unchanged(recorded, f"Skeleton Cloud shows {status}: the bill goes on")
