"""Standby: how a member of an Auto Scaling group is stopped without the group replacing it.

Sources: Auto Scaling API reference "EnterStandby" (only while the group stays at or above its minimum; the state is
reached some time after the answer); Auto Scaling user guide "Temporarily remove instances from your Auto Scaling group"
(no health checks in standby, so a stopped instance stays; only a member in service may enter).
"""

import time
from typing import NamedTuple

from costguard.cloud.age import is_young
from costguard.cloud.api import CloudError
from costguard.cloud.retry import pauses
from costguard.plans import Result, Status
from costguard_aws import described
from costguard_aws.facts import Facts
from costguard_aws.rules_vetoes import ENTERING, IN_SERVICE, STANDBY, bring_back, exit_standby
from costguard_aws.session import Session

_LONGEST_PAUSE_SECONDS = 2.0  # seconds between two looks
_LOOK_SECONDS = 5.0  # for one look


class _Seen(NamedTuple):
    """What is known so far: the last state, the last trouble, and whether the request was or may have been heard.

    ``vetoed``: the last trouble was a refusal, which no fall-back follows.
    """

    state: str = ""
    message: str = ""
    accepted: bool = False
    doubt: bool = False
    vetoed: bool = False


def enter(session: Session, facts: Facts, end: float) -> Result | None:
    """Put this member into standby, and wait until it is there. ``end`` is a moment of the monotonic clock.

    None once it is: only then may it be stopped. Else what became of it; nothing was stopped then. A crash leaves
    nothing half done that this does not take up again: the state is looked at before each request, and a member
    that has left the service is refused a second time, so the group never shrinks twice. `costguard.cloud.send` does
    not fit: there an accepted request is the end, here the state that it leads to is awaited.
    """
    seen = _Seen()
    for pause in pauses(_LONGEST_PAUSE_SECONDS):
        asked = False
        try:
            seen = seen._replace(state=_state(session, facts, end))
            if seen.state == STANDBY:
                return None
            if seen.state not in {IN_SERVICE, ENTERING}:
                return Result("refused", f"nothing was stopped: the group shows this member as {seen.state or 'gone'}")
            if seen.state == IN_SERVICE and not seen.accepted:
                asked = True
                _send(session, facts, end)
                seen = seen._replace(accepted=True)
        except CloudError as error:
            seen = _noted(seen, error, asked=asked)
            if not (_passes(error, facts) or seen.doubt or seen.accepted):
                return Result("failed" if error.technical else "refused", f"nothing was stopped: {seen.message}")
        if time.monotonic() + pause >= end:
            return _late(seen, facts)
        time.sleep(pause)
    raise AssertionError  # the pauses never end


def held(facts: Facts, status: Status) -> str:
    """Words for a member in standby after a request to stop it that ended as ``status``, with the way back."""
    name = facts.group.name if facts.group else ""
    if status == "accepted":
        return f"it is in standby in the Auto Scaling group {name}; to bring it back: {bring_back(facts)}"
    if status == "unknown":
        return f"unless it stops, {_runs_on(facts)}"
    return f"so it was not stopped: {_runs_on(facts)}"


def _runs_on(facts: Facts) -> str:
    """A member that is out of service and was not stopped costs as before, and the group misses it."""
    name = facts.group.name if facts.group else ""
    return (
        f"it runs in standby and is billed, and the Auto Scaling group {name} is one smaller; "
        f"to put it back: {exit_standby(facts)}"
    )


def _state(session: Session, facts: Facts, end: float) -> str:
    within = min(end, time.monotonic() + _LOOK_SECONDS)
    me = facts.identity.instance
    found = described.membership(
        session.look("autoscaling", "DescribeAutoScalingInstances", within, InstanceIds=[me]), me
    )
    return found.state if found else ""


def _send(session: Session, facts: Facts, end: float) -> None:
    session.send(
        "autoscaling",
        "EnterStandby",
        end - time.monotonic(),
        InstanceIds=[facts.identity.instance],
        AutoScalingGroupName=facts.group.name if facts.group else "",
        ShouldDecrementDesiredCapacity=True,
    )


def _noted(seen: _Seen, error: CloudError, *, asked: bool) -> _Seen:
    message = f"{error}; {error.hint}" if error.hint else str(error)
    doubt = asked and error.in_doubt  # a mere question has no effect
    return seen._replace(state="", message=message, doubt=seen.doubt or doubt, vetoed=not error.technical)


def _passes(error: CloudError, facts: Facts) -> bool:
    young = is_young(facts.uptime)
    return error.retry_after is not None or (error.trouble == "denied" and young)


def _late(seen: _Seen, facts: Facts) -> Result:
    """The time is over. *Failed* only where it is known what the group did; the next attempt goes on from there."""
    name = facts.group.name if facts.group else ""
    why = f" ({seen.message})" if seen.message else ""
    if seen.state == ENTERING or seen.accepted:
        text = f"nothing was stopped: the Auto Scaling group {name} is still putting this member into standby{why}"
        return Result("failed", f"{text}; the next attempt goes on from there; until then {_runs_on(facts)}")
    if seen.doubt and seen.state != IN_SERVICE:
        text = f"nothing was stopped; unknown whether the group {name} has put this member into standby{why}; if so, {_runs_on(facts)}"
        return Result("unknown", text)
    return Result("refused" if seen.vetoed else "failed", f"nothing was accepted{why}")
