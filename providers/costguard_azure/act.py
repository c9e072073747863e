"""Ending the bill, and proving it. No poller of the SDK is used: see `arm.send`."""

import re
import time
import uuid
from typing import Any

from costguard.cloud import errors
from costguard.cloud.api import CloudError, Ticket, Verb
from costguard.cloud.send import EndRequest, Look, send, unchanged
from costguard.plans import Result
from costguard_azure import arm
from costguard_azure.facts import Facts
from costguard_azure.session import AGENT, READ_SECONDS, Session

POLL_SECONDS = 10.0
"""Seconds between two looks at a machine that may not see itself yet. ``settings["confirm_interval"]`` replaces it."""
LOOK_SECONDS = 20.0
"""Seconds for one answer to the question what became of the machine, after troubles that pass included."""
GONE = frozenset(("ResourceNotFound", "ResourceGroupNotFound", "NotFound"))
"""404 that says that the machine does not exist; a subscription or a type that nobody finds says nothing of it."""
SETTLES_SECONDS = 10.0
"""Seconds after a lost answer in which a machine that was heard shows it; then the request is sent again."""
_LEAST_LOOK_SECONDS = 1.0  # seconds for a look at a machine, also after the deadline
_ENDED, _ENDING = frozenset(("deallocated",)), frozenset(("stopping", "deallocating"))
_NAMESPACE = uuid.UUID("5f0b9d1c-6f0e-4f0a-9d39-0d8f2c0c7a11")


def request_id(attempt: str) -> str:
    """The ``x-ms-client-request-id`` of an attempt: the same for each try, and found in the activity log."""
    return str(uuid.uuid5(_NAMESPACE, attempt))


def execute(session: Session, verb: Verb, facts: Facts, ticket: Ticket) -> Result:
    """Send the request; the same one again after a technical failure, within the ticket's deadline.

    Azure carries a repeated request out twice, but this machine still runs when it asks: a deallocation of it can only
    end what is still billed.
    """
    number, last = request_id(ticket.attempt), time.monotonic() + ticket.deadline
    session.reconnect()

    def once(left: float) -> Result:
        proof = _send(session, verb, ticket, left) or number
        text = f"accepted: Azure will {_words(verb)} (request {proof}, client request {number})"
        return Result("accepted", text, proof)

    def look(within: float) -> Look | None:
        return _look(session, verb, within)

    return send(EndRequest("Azure", once, look, number, settles=SETTLES_SECONDS, young=facts.young), last)


def _send(session: Session, verb: Verb, ticket: Ticket, left: float) -> str:
    """One try; Azure's own id of the request. Raises CloudError."""
    doing, end, proof = f"asking Azure to {_words(verb)}", time.monotonic() + left, ""

    def answered(response: Any) -> None:
        """Raises CloudError for an answer that is not Azure's: the SDK takes any 200 for an acceptance."""
        nonlocal proof
        status, headers = response.http_response.status_code, response.http_response.headers
        proof = headers.get("x-ms-request-id") or ""
        page = "html" in str(headers.get("Content-Type") or "")
        if status < 300 and (page or not (proof or status == 202)):  # Azure numbers each of its answers
            raise errors.malformed("Azure", doing, "a web page" if page else "it lacks Azure's request id")

    _token(session, left)
    left = max(0.1, end - time.monotonic())
    limits = {"connection_timeout": min(READ_SECONDS, left), "read_timeout": min(READ_SECONDS, left)}
    agent = f"{AGENT} ({re.sub(r'[^A-Za-z0-9._:-]', '_', ticket.attempt)})"
    ids = {"request_id": request_id(ticket.attempt), "user_agent": agent, "user_agent_overwrite": True}
    session.once(doing, lambda: arm.send(session, verb, answered, **limits, **ids), left)
    return proof


def _token(session: Session, left: float) -> None:
    """A token that is good for this request, before it: while there is none nothing can have been heard."""
    try:
        session.once("getting a token", session.credential.get_token, left)
    except CloudError as error:
        error.sent = "no"
        raise


def _look(session: Session, verb: Verb, within: float) -> Look | None:
    """One look at what shows that a request was heard; None when nobody could look."""
    limits = {"connection_timeout": within, "read_timeout": within}
    try:
        view = session.once("reading the machine's state", lambda: arm.instance_view(session, **limits), within)
    except CloudError as error:
        return (
            Look("Azure no longer knows this machine", ends=True)
            if error.code in GONE and verb == "terminate"
            else None
        )
    if view.provisioning == "deleting":
        return Look("Azure shows deleting", ends=True)
    return seen(view.power)


def seen(power: str) -> Look:
    """What a power state of the machine says of its end."""
    return Look(f"Azure shows {power or 'no power state'}", power in {"deallocating", *_ENDED}, f"power {power}")


def confirm(session: Session, verb: Verb, ticket: Ticket, recorded: Result | None) -> Result:
    """What the cloud shows now, at its first answer, in the words of the three grades; the caller asks again.

    This machine ends while it asks: a wait for the end would never be reported.
    """
    end = time.monotonic() + max(_LEAST_LOOK_SECONDS, min(ticket.deadline, LOOK_SECONDS))
    doing = "checking what happened to the machine"
    try:
        view = session.ask(end, doing, lambda: arm.instance_view(session))
    except CloudError as error:
        if error.code in GONE:
            return Result("done", "closed: Azure no longer knows this machine", recorded.proof if recorded else "")
        return unchanged(recorded, str(error))
    return shown(view, verb, recorded)


def shown(view: arm.View, verb: str, recorded: Result | None) -> Result:
    """What an instance view proves; what was recorded, with more words, where it proves nothing."""
    power, proof = view.power or "no power state", recorded.proof if recorded else ""
    if view.power in _ENDED and verb != "terminate":
        slept = " and hibernated" if view.hibernation == "hibernated" else ""
        return Result("done", f"closed: Azure shows deallocated{slept}; computing is no longer billed", proof)
    if view.power in _ENDED:
        text = "seen stopping: deallocated, so computing is not billed; not deleted yet"
        return Result("pending", text, proof)
    if view.power in _ENDING or view.provisioning == "deleting":
        shows = power if view.power in _ENDING else view.provisioning
        return Result("pending", f"seen stopping: Azure shows {shows}", proof)
    if view.power == "stopped":
        text = "Azure shows stopped, but still allocated and billed in full; run `az vm deallocate --ids VM`"
        return unchanged(recorded, text)
    failed = f" ({view.provisioning})" if view.provisioning.startswith("failed") else ""
    return unchanged(recorded, f"Azure shows {power}{failed}: the bill goes on")


def _words(verb: Verb) -> str:
    return {"stop": "deallocate", "hibernate": "hibernate", "terminate": "delete"}[verb] + " this machine"
