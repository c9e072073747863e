"""Receipts: what is needed to ask a cloud, from another machine and much later, whether a bill ended.

A receipt is one flat object of texts, without a secret. It stands in messages as one line of JSON.
"""

import datetime as dt
import json
import re
from collections.abc import Mapping

from costguard.cloud.api import Identity

LONGEST_BYTES = 64 << 10
"""Bytes of a file that could be a receipt."""

_WRAPPED = re.compile(r"\r?\n[ \t]*")
"""Where a screen or a mail has broken the line: no text of a receipt has a line break in it."""

NEEDED = ("provider", "cloud", "instance", "action")


def begin(name: str, who: Identity, action: str, incident: str, attempt: str) -> dict[str, str]:
    """The receipt of an attempt that is not yet made; ``name`` is the plug-in's entry point."""
    own = {
        "provider": name,
        "cloud": who.cloud,
        "instance": who.instance,
        "region": who.region,
        "zone": who.zone,
        "type": who.type,
        "action": action,
        "incident": incident,
        "attempt": attempt,
    }
    return {name: str(value) for name, value in {**who.details, **own}.items() if value}


def accepted(receipt: Mapping[str, str], request: str, said: str = "") -> dict[str, str]:
    """The same after the cloud took the request, with its id and the date.

    ``said`` is the date by the cloud's own clock (RFC 3339), where it gave one: it is compared with dates of the cloud
    later, and this machine's clock may be wrong by hours.
    """
    try:
        date = dt.datetime.fromisoformat(said).astimezone(dt.UTC)
    except ValueError:
        date = dt.datetime.now(dt.UTC)
    return {**receipt, "request": request, "accepted": date.strftime("%Y-%m-%dT%H:%M:%SZ")}


def line(receipt: Mapping[str, str]) -> str:
    """One line of JSON; empty for none."""
    return json.dumps(dict(receipt), separators=(",", ":")) if receipt else ""


def parse(text: str) -> dict[str, str]:
    """Read a receipt, also one that stands within the words of a message, or was broken into lines. Raises ValueError."""
    begin_at, end_at = text.find("{"), text.rfind("}")
    if begin_at < 0 or end_at < begin_at or len(text) > LONGEST_BYTES:
        raise ValueError("no receipt in it")
    found = json.loads(_WRAPPED.sub("", text[begin_at : end_at + 1]))
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise ValueError("a receipt is a JSON object of strings")
    if found.get("scheduler") and found.get("task"):
        shown = found.get("show") or f"{found['scheduler']} itself"
        raise ValueError(f"it is for a task, {found['task']}, not for a bill: {shown} shows whether the task has ended")
    missing = [name for name in NEEDED if not found.get(name)]
    if missing:
        raise ValueError(f"it lacks {', '.join(missing)}")
    return found
