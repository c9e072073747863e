"""Send the request, and say what became of it."""

import datetime as dt
import time
import uuid
from typing import Any

from costguard.cloud.age import is_young
from costguard.cloud.api import CloudError, Ticket, Verb
from costguard.cloud.retry import until
from costguard.cloud.send import EndRequest, Look, send, unchanged
from costguard.plans import Result, Status
from costguard_gcp import errors
from costguard_gcp.facts import Facts
from costguard_gcp.permissions import CALLS
from costguard_gcp.session import CALL_SECONDS, Api

LOOK_SECONDS = 10.0
"""Seconds for asking what the cloud shows."""

_CLOSED = {"TERMINATED", "STOPPED"}
_ENDING = {"STOPPING", "PENDING_STOP", "SUSPENDING", "DEPROVISIONING"}
_SHOWS = _ENDING | _CLOSED | {"SUSPENDED"}
_SKEW_SECONDS = 60.0  # seconds by which this machine's clock may be ahead of Google's
_NAMESPACE = uuid.UUID("6f1f1a3e-5d0b-4a52-9a55-4c1c0a4c6d10")  # of this plug-in's request ids


def request_id(verb: Verb, ticket: Ticket) -> str:
    """The same for every try of an attempt: Google Cloud then carries it out once. Source: ``requestId`` of the API."""
    return str(uuid.uuid5(_NAMESPACE, f"{ticket.incident} {ticket.attempt} {verb}"))


def execute(api: Api, verb: Verb, facts: Facts, ticket: Ticket, *, discard: bool) -> Result:
    """Send the request, and the same one again after troubles that pass. Never a different one."""

    def once(left: float) -> Result:
        operation = _send(api, verb, facts, ticket, discard=discard, timeout=min(left, CALL_SECONDS))
        if not operation.name:
            raise errors.garbage("sending the request", "it names no operation")
        if failure := errors.operation(operation.error.errors):
            raise failure
        date = {"accepted": str(operation.insert_time)}  # by Google's clock, as the dates of stops are
        text = f"accepted: Google Cloud will {CALLS[verb]} this machine (operation {operation.name})"
        return Result("accepted", text, str(operation.name), date)

    def look(within: float) -> Look | None:
        try:
            return seen(str(api.instance(within).status))
        except CloudError as error:
            return seen("DEPROVISIONING") if error.trouble == "gone" else None

    young = is_young(facts.age)
    request = EndRequest("Google Cloud", once, look, request_id(verb, ticket), "same", young=young)
    return send(request, time.monotonic() + ticket.deadline)


def seen(status: str) -> Look:
    """What a status of the machine says of its end."""
    return Look(f"Google Cloud shows {status}", status in _SHOWS, f"state {status}")


def confirm(
    api: Api, verb: Verb, instance: str, recorded: Result | None, since: float = 0.0, within: float = LOOK_SECONDS
) -> Result:
    """What Google Cloud shows of the machine ``instance``; the proof is the name of the operation.

    ``since`` is when the request was accepted, in seconds since the epoch, 0 when unknown: a machine that was
    stopped after it and runs again did what was asked. ``within`` is seconds.
    """
    end = time.monotonic() + within
    try:
        vm = until(min(end, time.monotonic() + LOOK_SECONDS), lambda left: api.instance(min(left, CALL_SECONDS)))
    except CloudError as error:
        if error.trouble == "gone":
            return _shown("done", "closed: Google Cloud no longer knows this machine", recorded)
        return unchanged(recorded, f"the state of this machine cannot be read: {error}")
    if str(vm.id) != instance:
        message = f"closed: Google Cloud no longer knows this machine; another one ({vm.id}) has its name"
        return _shown("done", message, recorded)
    status = str(vm.status)
    if status in _CLOSED or status == "SUSPENDED":
        rest = "; not deleted, so its disks are still billed" if verb == "terminate" else ""
        return _shown(
            "done",
            f"closed: Google Cloud shows {status}{_since(vm, status)}; computing is no longer billed{rest}",
            recorded,
        )
    if status in _ENDING:
        return _shown("pending", f"seen stopping: Google Cloud shows {status}", recorded)
    return _still_there(api, vm, recorded, since, min(CALL_SECONDS, end - time.monotonic()))


def _send(api: Api, verb: Verb, facts: Facts, ticket: Ticket, *, discard: bool, timeout: float) -> Any:
    token = request_id(verb, ticket)
    if facts.group:
        return api.act_in_group(verb, facts.group, ticket, token, timeout)
    return api.act(verb, ticket, token, discard=discard, timeout=timeout)


def _still_there(api: Api, vm: Any, recorded: Result | None, since: float, left: float) -> Result:
    """The machine runs: has the operation failed, has the machine come back, or is it only slow?"""
    shows = f"Google Cloud shows {vm.status}"
    operation = _operation(api, recorded, left)
    failure = errors.operation(operation.error.errors) if operation else None
    if failure:
        status: Status = "failed" if failure.technical else "refused"
        message = (
            f"accepted, but the operation failed: {failure} ({failure.code}); {shows}: the bill goes on; {failure.hint}"
        )
        return _shown(status, message, recorded)
    since = moment(str(operation.insert_time)) if operation else since
    stopped = max(str(vm.last_stop_timestamp), str(vm.last_suspended_timestamp), key=moment)
    if since and moment(stopped) > since - _SKEW_SECONDS:
        message = f"closed: it was stopped at {stopped}, and started again at {vm.last_start_timestamp}; it has been billed again since"
        return _shown("done", message, recorded)
    doing = f", the operation is {_name(operation.status)}" if operation else ""
    return unchanged(recorded, f"{shows}: the bill goes on{doing}")


def _name(status: Any) -> str:
    return str(getattr(status, "name", status))


def _operation(api: Api, recorded: Result | None, timeout: float) -> Any:
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


def _since(vm: Any, status: str) -> str:
    stamp = str(vm.last_suspended_timestamp if status == "SUSPENDED" else vm.last_stop_timestamp)
    return f" since {stamp}" if stamp else ""


def _shown(status: Status, message: str, recorded: Result | None) -> Result:
    return Result(status, message, recorded.proof if recorded else "")
