"""What the last plan of a cloud action proved about a shutdown from inside, for the time when the cloud cannot be asked.

A shutdown is the fall-back for exactly that time, so it rests on what was seen before, in this boot.
"""

import contextlib
import json
import os
from typing import Literal

from costguard.actions import results
from costguard.actions.base import Context
from costguard.files import write_whole
from costguard.plans import Plan

FILE = "shutdown.json"
_SAYS: dict[str, Literal["stops", "terminates"]] = {"shutdown_stops": "stops", "shutdown_terminates": "terminates"}


def keep(plan: Plan, context: Context) -> None:
    """Remember what this plan found out. What cannot be written is not known later, which is the careful side."""
    said = next((_SAYS[finding.code] for finding in plan.findings if finding.code in _SAYS), None)
    if said is None or not context.results:
        return
    data = json.dumps({"boot_id": results.boot_id(context), "says": said})
    with contextlib.suppress(OSError):
        os.makedirs(context.results, mode=0o700, exist_ok=True)
        write_whole(os.path.join(context.results, FILE), data.encode())


def known(context: Context) -> Literal["stops", "terminates", ""]:
    """What was found out in this boot; empty when nothing was."""
    try:
        with open(os.path.join(context.results, FILE), encoding="utf-8") as file:
            found = json.load(file)
        if found["boot_id"] != results.boot_id(context):
            return ""
        return next((said for said in _SAYS.values() if said == found["says"]), "")
    except (OSError, ValueError, KeyError, TypeError):
        return ""
