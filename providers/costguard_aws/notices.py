"""What EC2 announces to this instance.

Sources: EC2 user guide "Spot Instance interruption notices", "EC2 instance rebalance recommendations",
"View scheduled events"; Auto Scaling user guide "Retrieve the target lifecycle state".
"""

import time
from collections.abc import Callable, Iterator
from typing import cast

from costguard.cloud.api import CloudError, CloudNotice
from costguard_aws.metadata import Imds

_SPOT = ("stop", "terminate", "hibernate")
_EVENTS = {
    "instance-reboot": "reboot",
    "system-reboot": "reboot",
    "system-maintenance": "freeze",
    "instance-stop": "stop",
    "instance-retirement": "stop",
}
_OVER = ("[Completed]", "[Canceled]")


def notices(imds: Imds) -> tuple[CloudNotice, ...]:
    """All announcements. A source in trouble hides no notice of another one; with none at all it raises CloudError."""
    found: list[CloudNotice] = []
    trouble: list[CloudError] = []
    sources: tuple[Callable[[Imds], Iterator[CloudNotice]], ...] = (_spot, _rebalance, _events, _group)
    for source in sources:
        try:
            found += source(imds)
        except CloudError as error:
            trouble.append(error)
    if trouble and not found:
        raise trouble[0]
    return tuple(found)


def _spot(imds: Imds) -> Iterator[CloudNotice]:
    """Two minutes before the interruption; hibernation begins at once."""
    said = _mapping(imds, "meta-data/spot/instance-action")
    if not said:
        return
    action, when = str(said.get("action", "")), str(said.get("time", ""))
    kind = action if action in _SPOT else "terminate"  # an unknown word: expect the worst
    message = f"EC2 interrupts this Spot instance ({action or 'unknown how'}) at {when or 'any moment'}"
    yield CloudNotice(f"spot {action} {when}", kind, moment(when), message)


def _rebalance(imds: Imds) -> Iterator[CloudNotice]:
    """A warning without a date that may come before the interruption notice."""
    said = _mapping(imds, "meta-data/events/recommendations/rebalance")
    if said:
        when = str(said.get("noticeTime", ""))
        message = f"EC2 may soon interrupt this Spot instance: the risk is elevated (announced at {when})"
        yield CloudNotice(f"rebalance {when}", "rebalance", None, message)


def _events(imds: Imds) -> Iterator[CloudNotice]:
    said = imds.json("meta-data/events/maintenance/scheduled")
    for event in said if isinstance(said, list) else ():
        if not isinstance(event, dict):
            continue
        code, text = str(event.get("Code", "")), str(event.get("Description", ""))
        if text.startswith(_OVER) or str(event.get("State", "active")) != "active":
            continue
        begin = str(event.get("NotBefore", ""))
        message = f"EC2 has scheduled {code or 'an event'} not before {begin}: {text}"
        yield CloudNotice(
            str(event.get("EventId") or f"{code} {begin}"), _EVENTS.get(code, "stop"), moment(begin), message
        )


def _group(imds: Imds) -> Iterator[CloudNotice]:
    """The Auto Scaling group is taking this member away."""
    state = (imds.text("meta-data/autoscaling/target-lifecycle-state") or "").strip()
    if state in {"Terminated", "Warmed:Terminated"}:
        yield CloudNotice(f"group {state}", "terminate", None, "the Auto Scaling group terminates this instance now")
    elif state in {"Warmed:Stopped", "Warmed:Hibernated"}:
        kind = "stop" if state == "Warmed:Stopped" else "hibernate"
        yield CloudNotice(
            f"group {state}", kind, None, f"the Auto Scaling group returns this instance to its warm pool ({kind})"
        )


def moment(text: str) -> float | None:
    """Seconds since the epoch of a time as EC2 writes it; None for anything else."""
    import calendar  # here: the process that asks stays, and nothing is announced to most machines

    for form in ("%Y-%m-%dT%H:%M:%SZ", "%d %b %Y %H:%M:%S GMT"):
        try:
            return float(calendar.timegm(time.strptime(text, form)))
        except ValueError:
            continue
    return None


def _mapping(imds: Imds, path: str) -> dict[str, object]:
    found = imds.json(path)
    return cast("dict[str, object]", found) if isinstance(found, dict) else {}
