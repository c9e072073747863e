"""The worker that sends one sign of life: ``python -m costguard.actions.beat``.

In: ``{"settings":{…},"record":{…},"deadline":seconds}``, the settings of ``[heartbeat]``.
Out: ``{"sent":true}`` or ``{"failed":"why"}``.
"""

import json
import os
import sys

from costguard.actions import sink
from costguard.programs import die_with_parent

BAD_JOB = 2
"""Exit code for a job that nobody can do."""


def main() -> int:
    """Send it."""
    die_with_parent()
    try:
        job = json.loads(sys.stdin.buffer.readline())
        settings = {name: job["settings"].get(name) for name in ("url", "method", "token_file")}
        found = sink.deliver(settings, job["record"], float(job["deadline"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        _say({"failed": f"the job makes no sense: {type(error).__name__}: {error}"})
        return BAD_JOB
    troubles = [each.trouble for each in found if each.trouble]
    _say({"failed": "; ".join(troubles)} if troubles or not found else {"sent": True})
    return 0


def _say(message: dict[str, object]) -> None:
    try:
        os.write(1, json.dumps(message, separators=(",", ":")).encode() + b"\n")
    except BrokenPipeError:
        return


if __name__ == "__main__":
    sys.exit(main())
