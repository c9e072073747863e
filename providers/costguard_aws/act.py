"""The request itself, and what became of it.

The three requests to EC2 are idempotent, so the same one may be sent again when nobody can say whether it
arrived; the group's own termination is not (it lowers the desired capacity), so it is sent once.
"""

import datetime as dt
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from costguard.actions.base import Outcome
from costguard.actions.provider import CloudError, Ticket, Verb
from costguard.actions.retry import LEAST, pauses
from costguard_aws import described, standby
from costguard_aws.errors import CallError, again, senseless
from costguard_aws.facts import Facts
from costguard_aws.plan import plan
from costguard_aws.session import Session
from costguard_aws.vetoes import ENDING, YOUNG, ends_already, leaves_group, stands_by

CLOSED = frozenset(("stopped", "terminated"))
_LOOK_SECONDS, _LOOK_AT_LEAST = 4.0, 1.0  # seconds for the look after a failure; the least also after the deadline
_FOR_A_LOOK = 0.2  # the part of the deadline, at most, that is kept for that look
_FOR_THE_STOP = (
    20.0  # seconds of the deadline, at most, that are kept for the stop after a group's member is in standby
)
_SKEW = 60.0  # seconds between this machine's clock and EC2's


class Request(NamedTuple):
    """One call. ``repeatable``: the same one a second time changes nothing more."""

    service: str
    operation: str
    parameters: Mapping[str, object]
    repeatable: bool = True


def request_for(verb: Verb, facts: Facts, settings: Mapping[str, object]) -> Request:
    """The call that carries out a verb on this instance."""
    me = facts.identity.instance
    if leaves_group(facts, settings):
        parameters = {"InstanceId": me, "ShouldDecrementDesiredCapacity": True}
        return Request("autoscaling", "TerminateInstanceInAutoScalingGroup", parameters, repeatable=False)
    if verb == "terminate":
        return Request("ec2", "TerminateInstances", {"InstanceIds": [me]})
    more = {"Hibernate": True} if verb == "hibernate" else {}
    return Request("ec2", "StopInstances", {"InstanceIds": [me], **more})


def execute(session: Session, verb: Verb, facts: Facts, settings: Mapping[str, object], ticket: Ticket) -> Outcome:
    """Send it until it is accepted, refused, or the ticket's deadline is over."""
    began = time.monotonic()
    decided = plan(verb, facts, settings)
    if not decided.may_act:
        return Outcome("refused", f"the plan does not allow it: {decided.findings[0].text}")
    if facts.instance is not None and ends_already(facts):  # whether it does end is for `confirm` to say
        state = facts.instance.state
        return Outcome("accepted", f"seen stopping: EC2 says {state}, so nothing was sent", f"state {state}")
    session.stamp(ticket)
    last = began + ticket.deadline
    facts = facts._replace(verb=verb)
    if not stands_by(facts, settings):
        return _ended(session, verb, facts, settings, began, last)
    stuck = standby.enter(session, facts, last - min(_FOR_THE_STOP, ticket.deadline / 2))
    if stuck is not None:
        return stuck
    outcome = _ended(session, verb, facts, settings, began, last)
    return outcome._replace(detail=f"{outcome.detail}; {standby.held(facts, outcome.status)}")


def _ended(
    session: Session, verb: Verb, facts: Facts, settings: Mapping[str, object], began: float, last: float
) -> Outcome:
    """The request that ends this instance, sent until the moment ``last``."""
    request = request_for(verb, facts, settings)
    end = last - min(_LOOK_SECONDS, (last - time.monotonic()) * _FOR_A_LOOK)
    doubt = False
    for pause in pauses():
        try:
            answer = session.send(request.service, request.operation, end - time.monotonic(), **request.parameters)
            return _accepted(request, answer)
        except CloudError as error:
            tried = _after(session, request, facts, error, began, last)
        if not tried.again or time.monotonic() + pause + LEAST >= end:
            return _settled(session, facts, tried.outcome) if doubt and not tried.doubt else tried.outcome
        doubt = doubt or tried.doubt
        time.sleep(pause)
    raise AssertionError  # the pauses never end


class _Tried(NamedTuple):
    """What one failed try means. ``again``: the same request may be sent once more; ``doubt``: it may have had its effect."""

    outcome: Outcome
    again: bool = False
    doubt: bool = False


def _after(session: Session, request: Request, facts: Facts, error: CloudError, began: float, last: float) -> _Tried:
    words = f"{error}; {error.hint}" if error.hint else str(error)
    now = time.monotonic()
    look = max(_LOOK_AT_LEAST, min(_LOOK_SECONDS, last - now))
    if isinstance(error, CallError) and error.unanswered:
        found = _state(session, facts.identity.instance, look)
        return _unanswered(request, found, words, silent=error.code == "no_answer")
    if error.trouble == "denied":
        young = facts.uptime is not None and facts.uptime + now - began < YOUNG
        return _Tried(Outcome("refused", words), again=young)
    if error.technical:
        return _Tried(Outcome("failed", f"nothing was accepted: {words}"), again=again(error) is not None)
    found = _state(session, facts.identity.instance, look)
    if found and found.state in ENDING:  # somebody else, or an earlier try, has ended it
        text = f"seen stopping: EC2 says {found.state} ({words})"
        return _Tried(Outcome("accepted", text, f"state {found.state}"))
    return _Tried(Outcome("refused", words))


def _unanswered(request: Request, found: described.Instance | None, words: str, *, silent: bool) -> _Tried:
    """The request may have had its effect: what EC2 shows decides."""
    if found is not None and found.state in ENDING:
        return _Tried(_seen_ending(found))
    if found is None or not request.repeatable:
        return _Tried(Outcome("unknown", f"{words}; whether it was accepted cannot be said"), doubt=True)
    outcome = Outcome("unknown" if silent else "failed", f"{words}; EC2 still says {found.state}")
    return _Tried(outcome, again=True, doubt=True)


def _settled(session: Session, facts: Facts, outcome: Outcome) -> Outcome:
    """The last word when an earlier try may have had its effect: nobody says *failed* then."""
    found = _state(session, facts.identity.instance, _LOOK_AT_LEAST)
    if found is not None and found.state in ENDING:
        return _seen_ending(found)
    if outcome.status != "failed":
        return outcome
    text = f"{outcome.detail}; an earlier request had no answer, so whether it was accepted cannot be said"
    return Outcome("unknown", text)


def _seen_ending(found: described.Instance) -> Outcome:
    text = f"accepted, though no answer came: seen stopping, EC2 says {found.state}"
    return Outcome("accepted", text, f"state {found.state}")


def _state(session: Session, instance: str, within: float) -> described.Instance | None:
    """One look; None when there is no answer."""
    try:
        return described.instance(session.send("ec2", "DescribeInstances", within, InstanceIds=[instance]), instance)
    except CloudError:
        return None


def _accepted(request: Request, answer: Mapping[str, Any]) -> Outcome:
    """Raises CallError for an answer that names no change: a proxy's page is no acceptance."""
    metadata = answer.get("ResponseMetadata") or {}
    number, date = str(metadata.get("RequestId", "")), str((metadata.get("HTTPHeaders") or {}).get("date", ""))
    changes = answer.get("StoppingInstances") or answer.get("TerminatingInstances") or ()
    if not changes and not answer.get("Activity"):
        raise senseless(f"{request.service}:{request.operation}")
    states = [str((change.get("CurrentState") or {}).get("Name", "")) for change in changes]
    says = f", EC2 says {states[0]}" if states and states[0] else ""
    by_ec2 = {"accepted": moment} if (moment := _rfc3339(date)) else {}
    return Outcome("accepted", f"accepted: {request.operation}{says} (request {number})", number, by_ec2)


def _rfc3339(date: str) -> str:
    """The date of an answer, which is by EC2's clock as ``LaunchTime`` is; empty for none."""
    try:
        return parsedate_to_datetime(date).isoformat()
    except ValueError:
        return ""


def confirm(session: Session, instance: str, verb: Verb, recorded: Outcome | None, within: float) -> Outcome:
    """What EC2 says of this machine now; with nothing better, what was recorded. Raises CloudError when it cannot be asked."""
    proof = recorded.proof if recorded else ""
    end = time.monotonic() + within
    try:
        found = described.instance(session.look("ec2", "DescribeInstances", end, InstanceIds=[instance]), instance)
    except CloudError as error:
        if error.trouble != "gone":
            raise
        found = None
    if found is None:  # but something asks from here: other credentials, or an API that lags behind
        return _recorded(recorded, "EC2 names no such instance under these credentials")
    if found.state in CLOSED:
        return Outcome("done", closed(found), proof)
    if found.state in ENDING:
        billed = "; computing is billed until its memory is saved" if verb == "hibernate" else ""
        return Outcome("pending", f"seen stopping: EC2 says {found.state}{billed}", proof)
    accepted = recorded.receipt.get("accepted", "") if recorded else ""
    if started_again(found, accepted):
        return Outcome("done", came_back(found), proof)
    return _recorded(recorded, f"EC2 says {found.state}: the bill goes on")


def started_again(found: described.Instance, accepted: str) -> bool:
    """Whether a running instance was started after a request that was accepted at ``accepted`` (RFC 3339).

    Each start sets LaunchTime, a reboot does not. The two clocks may differ a little.
    """
    try:
        request = dt.datetime.fromisoformat(accepted).timestamp()
    except ValueError:
        return False
    return found.state in {"pending", "running"} and found.launched is not None and found.launched > request + _SKEW


def came_back(found: described.Instance) -> str:
    """The words for an instance that was ended and runs again."""
    since = dt.datetime.fromtimestamp(found.launched or 0.0, dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"closed: it was stopped, and started again at {since}; since then it is billed anew"


def closed(found: described.Instance) -> str:
    """The words of the last grade, with EC2's own reason and date."""
    why = f" ({found.transition})" if found.transition else ""
    return f"closed: EC2 says {found.state}{why}; computing is no longer billed"


def _recorded(recorded: Outcome | None, seen: str) -> Outcome:
    if recorded is None:
        return Outcome("unknown", f"nothing is recorded of this attempt, and {seen}")
    return recorded._replace(detail=f"{recorded.detail}; {seen}")
