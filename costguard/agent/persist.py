"""Worker that writes one file onto the disk: the guard itself never waits for a disk."""

import os
import sys
from typing import NamedTuple

from costguard.host.files import replace
from costguard.process.worker import Done, serve


class PersistJob(NamedTuple):
    """The text of a file, and its absolute path."""

    path: str
    text: str


def save(job: PersistJob) -> Done:
    """Write it."""
    if not os.path.isabs(job.path):
        return Done(f"{job.path} is no absolute path")
    try:
        os.makedirs(os.path.dirname(job.path), mode=0o755, exist_ok=True)
        replace(job.path, job.text.encode(), sync=True)
    except OSError as error:
        return Done(f"{job.path}: {error.strerror or error}")
    return Done("")


def main() -> int:
    """Do one job."""
    return serve(PersistJob, save, Done)


if __name__ == "__main__":
    sys.exit(main())
