"""The request itself, and what became of it.

The three requests to EC2 are idempotent, so the same one may be sent again when nobody can say whether it
arrived; the group's own termination is not (it lowers the desired capacity), so it is sent once.
"""

import datetime as dt
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from costguard.cloud.age import is_young
from costguard.cloud.api import CloudError, Ticket, Verb
from costguard.cloud.send import EndRequest, Look, send, unchanged, unsent
from costguard.plans import Result
from costguard_aws import described, standby
from costguard_aws.errors import senseless
from costguard_aws.facts import Facts
from costguard_aws.rules import plan
from costguard_aws.rules_vetoes import ENDING, leaves_group, stands_by
from costguard_aws.session import Session

CLOSED = frozenset(("stopped", "terminated"))
_FOR_THE_STOP_SECONDS = 20.0  # seconds of the deadline, at most, kept for the stop after a group's member is in standby
_SKEW_SECONDS = 60.0  # seconds between this machine's clock and EC2's


class Call(NamedTuple):
    """One call. ``repeatable``: the same one a second time changes nothing more."""

    service: str
    operation: str
    parameters: Mapping[str, object]
    repeatable: bool = True


def call_for(verb: Verb, facts: Facts, settings: Mapping[str, object]) -> Call:
    """The call that carries out a verb on this instance."""
    me = facts.identity.instance
    if leaves_group(facts, settings):
        parameters = {"InstanceId": me, "ShouldDecrementDesiredCapacity": True}
        return Call("autoscaling", "TerminateInstanceInAutoScalingGroup", parameters, repeatable=False)
    if verb == "terminate":
        return Call("ec2", "TerminateInstances", {"InstanceIds": [me]})
    more = {"Hibernate": True} if verb == "hibernate" else {}
    return Call("ec2", "StopInstances", {"InstanceIds": [me], **more})


def execute(session: Session, verb: Verb, facts: Facts, settings: Mapping[str, object], ticket: Ticket) -> Result:
    """Send it until it is accepted, refused, or the ticket's deadline is over."""
    last = time.monotonic() + ticket.deadline
    settled = unsent(plan(verb, facts, settings), _seen(facts.instance) if facts.instance else None)
    if settled is not None:
        return settled
    session.stamp(ticket)
    facts = facts._replace(verb=verb)
    if not stands_by(facts, settings):
        return _ended(session, verb, facts, settings, last)
    stuck = standby.enter(session, facts, last - min(_FOR_THE_STOP_SECONDS, ticket.deadline / 2))
    if stuck is not None:
        return stuck
    outcome = _ended(session, verb, facts, settings, last)
    return outcome._replace(detail=f"{outcome.detail}; {standby.held(facts, outcome.status)}")


def _ended(session: Session, verb: Verb, facts: Facts, settings: Mapping[str, object], last: float) -> Result:
    """The request that ends this instance, sent until the moment ``last``."""
    call, me = call_for(verb, facts, settings), facts.identity.instance

    def once(left: float) -> Result:
        return _accepted(call, session.send(call.service, call.operation, left, **call.parameters))

    def look(within: float) -> Look | None:
        try:
            found = described.instance(session.send("ec2", "DescribeInstances", within, InstanceIds=[me]), me)
        except CloudError:
            return None
        return _seen(found) if found else None

    young = is_young(facts.uptime)
    return send(EndRequest("EC2", once, look, repeat="seen" if call.repeatable else "never", young=young), last)


def _seen(found: described.Instance) -> Look:
    ends = found.state in ENDING
    return Look(f"EC2 shows {found.state}", ends, f"state {found.state}")


def _accepted(call: Call, answer: Mapping[str, Any]) -> Result:
    """Raises CloudError for an answer that names no change: a proxy's page is no acceptance."""
    metadata = answer.get("ResponseMetadata") or {}
    number, date = str(metadata.get("RequestId", "")), str((metadata.get("HTTPHeaders") or {}).get("date", ""))
    changes = answer.get("StoppingInstances") or answer.get("TerminatingInstances") or ()
    if not changes and not answer.get("Activity"):
        raise senseless(f"{call.service}:{call.operation}")
    states = [str((change.get("CurrentState") or {}).get("Name", "")) for change in changes]
    shows = f", EC2 shows {states[0]}" if states and states[0] else ""
    by_ec2 = {"accepted": moment} if (moment := _rfc3339(date)) else {}
    return Result("accepted", f"accepted: {call.operation}{shows} (request {number})", number, by_ec2)


def _rfc3339(date: str) -> str:
    """The date of an answer, which is by EC2's clock as ``LaunchTime`` is; empty for none."""
    try:
        return parsedate_to_datetime(date).isoformat()
    except ValueError:
        return ""


def confirm(session: Session, instance: str, verb: Verb, recorded: Result | None, within: float) -> Result:
    """What EC2 shows of this machine now; with nothing better, what was recorded. Raises CloudError when it cannot be asked."""
    found = find(session, instance, time.monotonic() + within)
    if found is None:  # but something asks from here: other credentials, or an API that lags behind
        return unchanged(recorded, "EC2 shows no such instance under these credentials")
    accepted, proof = (recorded.receipt.get("accepted", ""), recorded.proof) if recorded else ("", "")
    shows = shown(found, verb, accepted, proof)
    return shows or unchanged(recorded, f"EC2 shows {found.state}: the bill goes on")


def find(session: Session, instance: str, end: float | None = None) -> described.Instance | None:
    """The instance; None when EC2 does not know it under these credentials. Raises CloudError when EC2 cannot be asked."""
    try:
        return described.instance(session.look("ec2", "DescribeInstances", end, InstanceIds=[instance]), instance)
    except CloudError as error:
        if error.trouble != "gone":
            raise
        return None


def shown(found: described.Instance, verb: str, accepted: str, proof: str = "") -> Result | None:
    """What a state proves after a request that was accepted at ``accepted`` (RFC 3339); None while the instance runs on."""
    if found.state in CLOSED:
        why = f" ({found.transition})" if found.transition else ""
        return Result("done", f"closed: EC2 shows {found.state}{why}; computing is no longer billed", proof)
    if found.state in ENDING:
        billed = "; computing is billed until its memory is saved" if verb == "hibernate" else ""
        return Result("pending", f"seen stopping: EC2 shows {found.state}{billed}", proof)
    if not started_again(found, accepted):
        return None
    since = dt.datetime.fromtimestamp(found.launched or 0.0, dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    text = f"closed: it was stopped, and started again at {since}; it has been billed again since"
    return Result("done", text, proof)


def started_again(found: described.Instance, accepted: str) -> bool:
    """Whether a running instance was started after a request that was accepted at ``accepted`` (RFC 3339).

    Each start sets LaunchTime, a reboot does not. The two clocks may differ a little.
    """
    try:
        request = dt.datetime.fromisoformat(accepted).timestamp()
    except ValueError:
        return False
    return (
        found.state in {"pending", "running"}
        and found.launched is not None
        and found.launched > request + _SKEW_SECONDS
    )
