"""Ending the bill, and proving it. No poller of the SDK is used: see `arm.send`."""

import re
import time
import uuid
from typing import Any

from costguard.actions.base import Outcome
from costguard.actions.provider import Ticket, Verb
from costguard_azure import arm, retry
from costguard_azure.errors import FOREIGN, GARBAGE, NOT_ARM, ArmError
from costguard_azure.facts import Facts
from costguard_azure.session import AGENT, READ, Session

POLL = 10.0
"""Seconds between two looks at a machine that may not see itself yet. ``settings["confirm_interval"]`` replaces it."""
LOOK = 20.0
"""Seconds for one answer to the question what became of the machine, after troubles that pass included."""
GONE = frozenset(("ResourceNotFound", "ResourceGroupNotFound", "NotFound"))
"""404 that says that the machine does not exist; a subscription or a type that nobody finds says nothing of it."""
SETTLES = 10.0
"""Seconds after a lost answer in which a machine that was heard shows it; then the request is sent again."""
_LAST_LOOK = 5.0  # seconds for the one look after an answer was lost, beyond the deadline when need be
_FOR_A_LOOK = 0.2  # the part of the deadline, at most, that is kept for it
_LEAST = 1.0  # seconds for a look at a machine, also after the deadline
_ENDED, _ENDING = frozenset(("deallocated",)), frozenset(("stopping", "deallocating"))
_NAMESPACE = uuid.UUID("5f0b9d1c-6f0e-4f0a-9d39-0d8f2c0c7a11")


def request_id(attempt: str) -> str:
    """The ``x-ms-client-request-id`` of an attempt: the same for each try, and found in the activity log."""
    return str(uuid.uuid5(_NAMESPACE, attempt))


def execute(session: Session, verb: Verb, facts: Facts, ticket: Ticket) -> Outcome:
    """Send the request; the same one again after a technical failure, within the ticket's deadline.

    Nothing that may have been heard is sent again before a look at the machine. Azure carries a repeated request
    out twice, but this machine still runs when it asks: a deallocation of it can only end what is still billed.
    """
    end = time.monotonic() + ticket.deadline - min(_LAST_LOOK, ticket.deadline * _FOR_A_LOOK)
    session.reconnect()
    attempt = _Attempt(session, verb, ticket, end)

    def may(error: ArmError) -> bool:
        return retry.again(error) or error is attempt.lost or (error.trouble == "denied" and facts.young)

    client_id = request_id(ticket.attempt)
    try:
        retry.until(end, attempt, session.credential.forget, may)
    except ArmError as error:
        seen = attempt.shown if error is attempt.lost else attempt.look()
        if not attempt.maybe:  # what stands between refused, and hides the machine as well
            seen = seen or ""
        return _after(error, client_id, seen)
    proof = attempt.proof or client_id
    if attempt.shown:
        return Outcome("accepted", f"accepted: {attempt.trouble}, but the cloud shows {attempt.shown}", proof)
    return Outcome(
        "accepted", f"accepted: Azure will {_words(verb)} (request {proof}, client request {client_id})", proof
    )


class _Attempt:
    """One try, and what is known of the ones before.

    ``maybe``: one may have been heard although its answer says otherwise, or never came. ``lost``: the error of one
    that nobody answered. ``foreign``: somebody on the way refused one. ``shown``: what the machine shows of it, in words; None when nobody could look.
    """

    def __init__(self, session: Session, verb: Verb, ticket: Ticket, end: float) -> None:
        self._session, self._verb, self._ticket, self._end = session, verb, ticket, end
        self.doing = f"asking Azure to {_words(verb)}"
        self.maybe = self.foreign = False
        self.lost: ArmError | None = None
        self.shown: str | None = ""
        self.trouble = ""
        self.proof = ""

    def __call__(self, _left: float) -> None:
        """Send, unless the machine shows that it was heard before. Raises ArmError."""
        self.shown = self.look()
        if self.shown:
            return
        if self.lost and self.shown is None:
            raise self.lost  # nobody could look since: it is not sent again
        try:
            self._send()
        except ArmError as error:
            self._note(error)
            if not self.shown:
                raise

    def look(self) -> str | None:
        """What the machine shows of a try that may have been heard; empty where there was none."""
        return _seen(self._session, self._verb) if self.maybe or self.foreign else ""

    def _send(self) -> None:
        self._token()
        left = max(0.1, self._end - time.monotonic())
        agent = f"{AGENT} ({re.sub(r'[^A-Za-z0-9._:-]', '_', self._ticket.attempt)})"
        limits = {"connection_timeout": min(READ, left), "read_timeout": min(READ, left)}
        ids = {"request_id": request_id(self._ticket.attempt), "user_agent": agent, "user_agent_overwrite": True}
        retry.once(self.doing, lambda: arm.send(self._session, self._verb, self._answered, **limits, **ids), left)

    def _token(self) -> None:
        """A token that is good for this request, before it: while there is none nothing can have been heard."""
        try:
            retry.once("getting a token", self._session.credential.get_token, self._end - time.monotonic())
        except ArmError as error:
            error.sent = False
            raise

    def _answered(self, response: Any) -> None:  # noqa: ANN401 - an SDK object
        """Raises ArmError for an answer that is not Azure's: the SDK takes any 200 for an acceptance."""
        status, headers = response.http_response.status_code, response.http_response.headers
        number = headers.get("x-ms-request-id") or ""
        page = "html" in str(headers.get("Content-Type") or "")
        if status < 300 and (page or not (number or status == 202)):  # Azure numbers each of its answers
            what = "a page" if page else "something without Azure's request id"
            raise ArmError("internal", f"{self.doing}: {what} answered ({NOT_ARM})", code=GARBAGE, sent=True)
        self.proof = number

    def _note(self, error: ArmError) -> None:
        self.trouble = f"the answer was lost ({error})"
        self.maybe = self.maybe or error.sent
        self.foreign = self.foreign or error.code == FOREIGN
        if error.sent and not error.status:
            self.lost, error.retry_after = error, SETTLES
            self.shown = self.look()


def _after(error: ArmError, client_id: str, seen: str | None) -> Outcome:
    """What to make of an error: a veto, a technical failure, or a request that may have been heard.

    Only what was accepted has a proof.
    """
    hint = f"; {error.hint}" if error.hint else ""
    if seen:
        text = f"accepted: the answer was lost ({error}), but the cloud shows {seen}"
        return Outcome("accepted", text, client_id)
    if not error.technical:
        return Outcome("refused", f"{error}{hint}")
    if seen is None or (error.sent and not error.status):
        shows = "the machine could not be looked at" if seen is None else "the machine does not show it"
        text = f"{error}; nobody can say whether Azure took the request (client request {client_id}): {shows}{hint}"
        return Outcome("unknown", text)
    return Outcome("failed", f"{error}{hint}")


def _seen(session: Session, verb: Verb) -> str | None:
    """One look after an answer was lost: words for what shows that the request was heard.

    Empty when nothing does, None when nobody could look.
    """
    limits = {"connection_timeout": _LAST_LOOK, "read_timeout": _LAST_LOOK}
    try:
        view = retry.once("looking whether it was heard", lambda: arm.instance_view(session, **limits), _LAST_LOOK)
    except ArmError as error:
        return "that it is gone" if error.code in GONE and verb == "terminate" else None
    if view.provisioning == "deleting":
        return "that it is being deleted"
    return f"it as {view.power}" if view.power in {"deallocating", *_ENDED} else ""


def confirm(session: Session, verb: Verb, ticket: Ticket, recorded: Outcome | None) -> Outcome:
    """What the cloud shows now, at its first answer, in the words of the three grades; who asks asks again.

    This machine ends while it asks: what waited here for the end would never be told.
    """
    known = recorded or Outcome("unknown", "nothing is recorded of this attempt")
    end = time.monotonic() + max(_LEAST, min(ticket.deadline, LOOK))
    doing = "asking what became of the machine"
    try:
        view = retry.ask(end, doing, lambda: arm.instance_view(session), session.credential.forget)
    except ArmError as error:
        if error.code in GONE:
            return Outcome("done", "closed: the machine does not exist any more", known.proof)
        return known._replace(detail=f"{known.detail}; {error}")
    return shown(view, verb, known)


def shown(view: arm.View, verb: str, known: Outcome) -> Outcome:
    """What an instance view proves; ``known`` with more words where it proves nothing."""
    power = view.power or "without a power state"
    if view.power in _ENDED and verb != "terminate":
        slept = " and hibernated" if view.hibernation == "hibernated" else ""
        return Outcome("done", f"closed: the cloud shows the machine as deallocated{slept}", known.proof)
    if view.power in _ENDED:
        text = "seen stopping: the machine is deallocated, so computing is not billed; it is not deleted yet"
        return Outcome("pending", text, known.proof)
    if view.power in _ENDING or view.provisioning == "deleting":
        text = (
            f"seen stopping: the cloud shows the machine as {view.provisioning if view.power not in _ENDING else power}"
        )
        return Outcome("pending", text, known.proof)
    if view.power == "stopped":
        text = "the cloud shows the machine as stopped but allocated, billed in full; run `az vm deallocate --ids VM`"
        return known._replace(detail=f"{known.detail}; {text}")
    failed = f" ({view.provisioning})" if view.provisioning.startswith("failed") else ""
    return known._replace(detail=f"{known.detail}; the cloud shows the machine as {power}{failed}")


def _words(verb: Verb) -> str:
    return {"stop": "deallocate", "hibernate": "hibernate and deallocate", "terminate": "delete"}[
        verb
    ] + " this machine"
