"""Send the request, and say what became of it."""

import datetime as dt
import time
import uuid
from typing import Any

from costguard.actions.base import Outcome, Status
from costguard.actions.provider import CloudError, Ticket, Verb
from costguard.actions.retry import until
from costguard_gcp import errors
from costguard_gcp.facts import Facts
from costguard_gcp.plan import GRACE_OF_RIGHTS
from costguard_gcp.session import TIMEOUT, Api

LOOK = 10.0
"""Seconds for asking what the cloud shows."""

_CLOSED = {"TERMINATED", "STOPPED"}
_ENDING = {"STOPPING", "PENDING_STOP", "SUSPENDING", "DEPROVISIONING"}
_SHOWS = _ENDING | _CLOSED | {"SUSPENDED"}
_FOR_A_LOOK = 0.2  # the part of the deadline that is kept for a look after a request whose answer got lost
_SKEW = 60.0  # seconds by which this machine's clock may be ahead of Google's
_NAMESPACE = uuid.UUID("6f1f1a3e-5d0b-4a52-9a55-4c1c0a4c6d10")  # of this plug-in's request ids


def request_id(verb: Verb, ticket: Ticket) -> str:
    """The same for every try of an attempt: Google Cloud then carries it out once. Source: ``requestId`` of the API."""
    return str(uuid.uuid5(_NAMESPACE, f"{ticket.incident} {ticket.attempt} {verb}"))


def execute(api: Api, verb: Verb, facts: Facts, ticket: Ticket, *, discard: bool) -> Outcome:
    """Send the request, and the same one again after troubles that pass. Never a different one.

    Nothing that may have been heard is sent again before a look at the machine.
    """
    lost = trouble = False
    end = time.monotonic() + ticket.deadline * (1 - _FOR_A_LOOK)
    age = facts.young
    shown = ""

    def send(left: float) -> Any:  # noqa: ANN401 - an operation of the SDK
        nonlocal lost, trouble, shown
        shown = _state(api, min(left, LOOK)) if lost or trouble else ""
        if shown in _SHOWS:
            return None  # it was heard before
        try:
            found = _send(api, verb, facts, ticket, discard=discard, timeout=min(end - time.monotonic(), TIMEOUT))
            if not found.name:
                raise errors.garbage("it names no operation")
        except CloudError as error:
            lost = lost or error.code in errors.LOST
            trouble = trouble or error.trouble == "internal" or error.code == errors.FOREIGN
            raise
        failure = errors.operation(found.error.errors)
        if failure:
            raise failure
        return found

    def again(error: CloudError) -> float | None:
        late = error.trouble == "denied" and age is not None and age < GRACE_OF_RIGHTS
        return 0.0 if late else errors.again(error)

    try:
        operation = until(end, send, again)
    except CloudError as error:
        shown = _state(api, ticket.deadline * _FOR_A_LOOK) if lost or trouble else ""
        return (
            _heard(shown, verb, ticket)
            if shown in _SHOWS
            else _failed(error, shown, request_id(verb, ticket), lost=lost)
        )
    if operation is None:
        return _heard(shown, verb, ticket)
    date = {"accepted": str(operation.insert_time)}  # by Google's clock, as the dates of stops are
    return Outcome("accepted", f"accepted by Google Cloud as operation {operation.name}", str(operation.name), date)


def confirm(
    api: Api, verb: Verb, instance: str, recorded: Outcome | None, since: float = 0.0, within: float = LOOK
) -> Outcome:
    """What Google Cloud shows of the machine ``instance``; the proof is the name of the operation.

    ``since`` is when the request was accepted, in seconds since the epoch, 0 when unknown: a machine that was
    stopped after it and runs again did what was asked. ``within`` is seconds.
    """
    end = time.monotonic() + within
    try:
        vm = until(min(end, time.monotonic() + LOOK), lambda left: api.instance(min(left, TIMEOUT)), errors.again)
    except CloudError as error:
        if error.trouble == "gone":
            return _seen("done", "closed: Google Cloud knows this machine no more", recorded)
        return _recorded(recorded, f"what the cloud shows cannot be read: {error}")
    if str(vm.id) != instance:
        words = f"closed: the machine is gone, and its name belongs to another one ({vm.id})"
        return _seen("done", words, recorded)
    status = str(vm.status)
    if status in _CLOSED or status == "SUSPENDED":
        rest = "; it was not deleted, so its disks go on being billed" if verb == "terminate" else ""
        return _seen("done", f"closed: Google Cloud shows {status}{_since(vm, status)}{rest}", recorded)
    if status in _ENDING:
        return _seen("pending", f"seen stopping: Google Cloud shows {status}", recorded)
    return _still_there(api, vm, recorded, since, min(TIMEOUT, end - time.monotonic()))


def _send(api: Api, verb: Verb, facts: Facts, ticket: Ticket, *, discard: bool, timeout: float) -> Any:  # noqa: ANN401 - as above
    token = request_id(verb, ticket)
    if facts.group:
        return api.act_in_group(verb, facts.group, ticket, token, timeout)
    return api.act(verb, ticket, token, discard=discard, timeout=timeout)


def _failed(error: CloudError, shown: str, token: str, *, lost: bool) -> Outcome:
    """No acceptance was seen, and the machine does not show one, so there is no proof. ``shown`` is empty where nobody could look."""
    words = f"{error} ({error.code})" if error.code else str(error)
    hint = f"; {error.hint}" if error.hint else ""
    if not error.technical and (shown or not lost):  # a deleted machine loses the right to ask for itself
        return Outcome("refused", f"{words}{hint}")
    if lost:
        shows = f"Google Cloud shows {shown}" if shown else "the machine's state cannot be read either"
        return Outcome("unknown", f"sent as request {token}, but no answer came; {shows}: {words}{hint}")
    return Outcome("failed", f"nothing was accepted: {words}{hint}")


def _heard(shown: str, verb: Verb, ticket: Ticket) -> Outcome:
    """No answer said so, but the machine does. The proof is the request's own id, which the audit log has."""
    proof = request_id(verb, ticket)
    return Outcome("accepted", f"accepted: no good answer came, but Google Cloud shows {shown}", proof)


def _state(api: Api, timeout: float) -> str:
    try:
        return str(api.instance(timeout).status)
    except CloudError as error:
        return "DEPROVISIONING" if error.trouble == "gone" else ""


def _still_there(api: Api, vm: Any, recorded: Outcome | None, since: float, left: float) -> Outcome:  # noqa: ANN401 - as above
    """The machine runs: has the operation failed, has the machine come back, or is it only slow?"""
    shows = f"Google Cloud shows {vm.status}"
    operation = _operation(api, recorded, left)
    failure = errors.operation(operation.error.errors) if operation else None
    if failure:
        status: Status = "failed" if failure.technical else "refused"
        words = f"accepted, but the operation failed: {failure} ({failure.code}); {shows}; {failure.hint}"
        return _seen(status, words, recorded)
    since = moment(str(operation.insert_time)) if operation else since
    stopped = max(str(vm.last_stop_timestamp), str(vm.last_suspended_timestamp), key=moment)
    if since and moment(stopped) > since - _SKEW:
        words = f"closed: stopped at {stopped}, started again at {vm.last_start_timestamp}"
        return _seen("done", words, recorded)
    return _recorded(recorded, f"{shows}, the operation is {_name(operation.status)}" if operation else shows)


def _name(status: Any) -> str:  # noqa: ANN401 - an enumeration of the SDK; a word that it does not know yet stays one
    return str(getattr(status, "name", status))


def _operation(api: Api, recorded: Outcome | None, timeout: float) -> Any:  # noqa: ANN401 - a message of the SDK
    """The recorded operation; None where the role does not show it, which is the usual case."""
    if recorded is None or recorded.status not in {"accepted", "pending"} or not recorded.proof:
        return None
    try:
        return api.operation(recorded.proof, timeout)
    except CloudError:
        return None


def moment(text: str) -> float:
    """Seconds since the epoch of an RFC 3339 text; 0 for none."""
    try:
        return dt.datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0


def _since(vm: Any, status: str) -> str:  # noqa: ANN401 - as above
    stamp = str(vm.last_suspended_timestamp if status == "SUSPENDED" else vm.last_stop_timestamp)
    return f" since {stamp}" if stamp else ""


def _seen(status: Status, words: str, recorded: Outcome | None) -> Outcome:
    return Outcome(status, words, recorded.proof if recorded else "")


def _recorded(recorded: Outcome | None, shows: str) -> Outcome:
    if recorded is None:
        return Outcome("unknown", f"nothing is recorded of this attempt; {shows}")
    return recorded._replace(detail=f"{recorded.detail}; {shows}")
