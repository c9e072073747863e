"""Worker that writes one file onto the disk: the guard itself never waits for a disk.

Job: ``{"path":…, "data":{…}}`` on standard input; answer: ``{"saved":true}`` or ``{"failed":"why"}``.
"""

import json
import os
import sys

from costguard.agent.state import replace


def save(job: dict[str, object]) -> str | None:
    """Write the data of a job to its path; words when that failed."""
    path, data = job.get("path"), job.get("data")
    if not isinstance(path, str) or not os.path.isabs(path) or not isinstance(data, dict):
        return "the job names no absolute path or no data"
    try:
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        replace(path, json.dumps(data, separators=(",", ":")).encode() + b"\n", sync=True)
    except OSError as error:
        return f"{path}: {error.strerror or error}"
    return None


def main() -> int:
    """Read the job, write, answer. Exit code 1 when the file was not written."""
    try:
        job = json.loads(sys.stdin.buffer.readline())
        failed = save(job) if isinstance(job, dict) else "the job is not an object"
    except ValueError as error:
        failed = f"the job cannot be read: {error}"
    answer = {"saved": True} if failed is None else {"failed": failed}
    try:
        os.write(1, json.dumps(answer).encode() + b"\n")
    except OSError:
        return 1  # the guard is gone; the file is what counts
    return 0 if failed is None else 1


if __name__ == "__main__":
    sys.exit(main())
