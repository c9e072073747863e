"""The machine's own tags, which show from outside what happens on it.

costguard writes these two and heeds neither: tags that keep a machine up have other names
(`costguard.readers.cloud.tags`). A container that does not stand for its host writes nothing.
"""

import os
import time
from collections.abc import Mapping

from costguard.cloud import container
from costguard.cloud.access import CloudAccess
from costguard.cloud.api import CloudError, capabilities
from costguard.cloud.choose import NobodyError, choose
from costguard.cloud.identify import identified
from costguard.cloud.retry import LateError, bounded
from costguard.engine import time_limits
from costguard.masking import mask
from costguard.plans import Plan, PlanFinding, worst

INCIDENT = "costguard-incident"
HEARTBEAT = "costguard-heartbeat"

CHECK_SECONDS = time_limits.TAGS_SECONDS
"""For the question whether the right is there."""

_GRANT = (
    "grant the right that `costguard permissions CLOUD --tag` prints, or switch `tag` off under [sink] and [heartbeat]"
)


def incident_value(action: str, reason: str, incident: str, at: float) -> str:
    """What is about to be done, short enough for the clouds that take the least; the id comes last, and may be cut."""
    return " ".join((_date(at), action, reason or "unknown", incident or "none"))


def heartbeat_value(state: str, at: float) -> str:
    """When the guard last saw everything, and what it makes of it."""
    return f"{_date(at)} {state}"


def write(tags: Mapping[str, str], access: CloudAccess, within: float, *, live: bool) -> None:
    """Log in and write, within so many seconds; unless ``live`` only ask whether it may. Raises CloudError."""
    end = time.monotonic() + within
    try:
        bounded(lambda: _write(tags, access, end, live=live), within)
    except LateError as error:
        raise CloudError(
            "unreachable", f"the cloud gave {error}", code="late", hint="see `costguard doctor`"
        ) from error


def _write(tags: Mapping[str, str], access: CloudAccess, end: float, *, live: bool) -> None:
    found = container.evidence(access.host.procfs, os.environ)
    for refused in container.refusals(found, stands_for_host=access.host.stands_for_host):
        raise CloudError("refused", refused.text, code=refused.code, hint=refused.hint)
    try:
        chosen = choose(access)
        if not capabilities(chosen.provider).tags:
            message = f"machines of {chosen.provider.name} have no tags"
            raise CloudError("refused", message, code="no_tags", hint="switch `tag` off under [sink] and [heartbeat]")
        with identified(chosen) as who:
            chosen.provider.open(chosen.site, who).mark(tags, end - time.monotonic(), dry=not live)
    except NobodyError as error:
        raise CloudError("refused", str(error), code=error.finding.code, hint=error.finding.hint) from error


def check(decided: Plan, access: CloudAccess, sink: Mapping[str, object], heartbeat: Mapping[str, object]) -> Plan:
    """The plan, with a finding where a tag that its section switches on could not be written. Nothing is written."""
    sections = ((INCIDENT, sink), (HEARTBEAT, heartbeat))
    wanted = {name: "-" for name, section in sections if section.get("tag") is True}
    if not wanted:
        return decided
    try:
        write(wanted, access, CHECK_SECONDS, live=False)
    except CloudError as error:
        finding = _unwritable(error, " and ".join(wanted))
        return decided._replace(verdict=worst(decided.verdict, "consequences"), findings=(*decided.findings, finding))
    return decided


def _unwritable(error: CloudError, names: str) -> PlanFinding:
    message = mask(str(error))
    if error.technical:
        text = f"unknown: whether this machine may write its tags {names} ({message})"
        return PlanFinding("tag_unknown", text, error.hint or "see `costguard doctor`")
    text = f"this machine cannot write its tags {names}: {message}"
    return PlanFinding("tag_denied", text, _GRANT if error.trouble == "denied" else error.hint or _GRANT)


def _date(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
