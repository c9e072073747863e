"""The worker that sends one sign of life: ``python -m costguard.actions.beat``.

In: ``{"settings":{…},"record":{…},"deadline":seconds}``, the settings of ``[heartbeat]``; with
``"tag":{"providers":[…],"cloud":{…},"host":{…}}`` and ``"mode":"live"`` it is written into the machine's tag as well.
Out: ``{"sent":true}`` or ``{"failed":"why"}``.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from costguard.actions import sink
from costguard.masking import mask
from costguard.programs import die_with_parent

BAD_JOB = 2
"""Exit code for a job that nobody can do."""


def main() -> int:
    """Send it."""
    die_with_parent()
    try:
        job = json.loads(sys.stdin.buffer.readline())
        settings = {name: job["settings"].get(name) for name in ("url", "method", "token_file")}
        found = sink.deliver(settings, job["record"], float(job["deadline"]), _tag(job))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        _say({"failed": f"the job makes no sense: {type(error).__name__}: {mask(str(error))}"})
        return BAD_JOB
    troubles = [each.trouble for each in found if each.trouble]
    _say({"failed": "; ".join(troubles)} if troubles or not found else {"sent": True})
    return 0


def _tag(job: Mapping[str, Any]) -> Callable[[float], str] | None:
    """What writes the tag; None when this beat has none. The plug-ins are loaded for it alone."""
    given, record = job.get("tag"), job["record"]
    if given is None:
        return None
    if job.get("mode") != "live":
        return lambda _: "in a dry run the machine's tag is not written"
    from costguard.actions import marks
    from costguard.actions.base import Host
    from costguard.actions.provider import CloudError

    place = marks.Place(given["providers"], given["cloud"], Host.of(given.get("host") or {}))
    tags = {marks.HEARTBEAT: marks.heartbeat(str(record["state"]), float(record["at"]))}

    def write(within: float) -> str:
        try:
            marks.write(tags, place, within, live=True)
        except CloudError as error:
            return f"the machine's tag could not be written: {mask(str(error))}"
        return ""

    return write


def _say(message: dict[str, object]) -> None:
    try:
        os.write(1, json.dumps(message, separators=(",", ":")).encode() + b"\n")
    except BrokenPipeError:
        return


if __name__ == "__main__":
    sys.exit(main())
