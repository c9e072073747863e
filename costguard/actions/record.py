"""What leaves the machine through the sinks of ``[sink]``: one record before an action may begin, one with its outcome.

The first is sent while the worker waits for its moment, so that nothing stands between the last look at the GPUs and
the request. The machine's tag gets the first alone: to write tags of a machine that is ending may disturb its end.
"""

import os
import time

from costguard import record_address
from costguard.actions.base import Context
from costguard.cloud import tags
from costguard.cloud.api import CloudError
from costguard.engine import time_limits
from costguard.masking import mask
from costguard.plans import Plan, PlanFinding, Result, worst


def announce(decided: Plan, context: Context) -> Plan:
    """Send what is about to be done. A plan that needs the record to survive fails when no sink took it."""
    if not context.live or not decided.may_act or not record_address.configured(context.sink):
        return decided
    from costguard.actions import sink  # HTTP and TLS: here, while there is time, and only for those who send

    record = _record("prepared", context) | {"receipt": dict(decided.receipt)}
    tag = (lambda within: _mark(context, within)) if context.sink.get("tag") is True else None
    fate = sink.deliver(context.sink, record, time_limits.RECORD_SECONDS, tag)
    failed = [f"{one.sink}: {one.trouble}" for one in fate if one.trouble]
    if not failed:
        return decided
    lost = not any(one.sink != "tag" and not one.trouble for one in fate)  # a tag ends with the machine
    text = f"the record of this incident could not be sent ({'; '.join(failed)})"
    verdict = decided.verdict
    if lost and context.action == "terminate":
        text += "; the machine is not terminated without it, and the bill goes on"
        verdict = worst(verdict, "failed")
    hint = "check that this machine reaches the address under [sink]"
    if all(one.sink == "tag" for one in fate if one.trouble):
        hint = "see `costguard doctor`, and `costguard permissions CLOUD --tag` for the right"
    finding = PlanFinding("sink_failed", text, hint)
    return decided._replace(verdict=worst(verdict, "consequences"), findings=(finding, *decided.findings))


def conclude(outcome: Result, context: Context) -> None:
    """Send what became of it, as long as the machine lives; people have heard of it already."""
    if context.live and record_address.configured(context.sink):
        from costguard.actions import sink

        sink.deliver(context.sink, _record("outcome", context) | outcome.as_json, time_limits.RESULT_SECONDS)


def _mark(context: Context, within: float) -> str:
    """Write the tag; a message when it could not be written."""
    try:
        value = tags.incident_value(context.action, context.reason, context.incident, time.time())
        tags.write({tags.INCIDENT: value}, context.access, within, live=context.live)
    except CloudError as error:
        return mask(str(error))
    return ""


def _record(step: str, context: Context) -> dict[str, object]:
    return {
        "product": "costguard",
        "step": step,
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": os.uname().nodename,
        "instance": context.instance,
        "incident": context.incident,
        "attempt": context.attempt,
        "action": context.action,
        "reason": context.reason,
        "sentence": context.sentence,
        "idle_seconds": context.idle_seconds,
        "gpus": list(context.gpus),
    }
