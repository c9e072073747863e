"""Short-lived worker: reads and checks the configuration for a reload, so that the guard stays small.

One JSON line in: {"arguments": {…}, "environment": {…}}. One out: {"effective": {…}} or {"errors": ["…", …]}.
"""

import json
import sys

from costguard.config import load_effective
from costguard.config.load import ConfigurationError


def answer(line: str) -> dict[str, object]:
    """The answer to one job line; what cannot be read as a job is an error too, never an empty configuration."""
    try:
        job = json.loads(line)
        arguments, environment = dict(job["arguments"]), dict(job["environment"])
    except (ValueError, KeyError, TypeError) as error:
        return {"errors": [f"the request to read the configuration was malformed ({error!r})"]}
    try:
        return {"effective": load_effective(arguments, environment)}
    except ConfigurationError as error:
        return {"errors": error.problems}


def main() -> None:
    """Answer the one line on standard input; nothing at end of file."""
    line = sys.stdin.readline()
    if not line:
        return
    try:
        print(json.dumps(answer(line), ensure_ascii=False, separators=(",", ":")), flush=True)
    except BrokenPipeError:
        sys.stderr.close()  # the guard is gone; nobody wants the answer, nor a complaint at exit


if __name__ == "__main__":
    main()
