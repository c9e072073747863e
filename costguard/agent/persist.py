"""Worker that writes one file to the disk: the guard itself never waits for a disk."""

import os
import sys
from typing import NamedTuple

from costguard.host.files import replace
from costguard.process.worker import Done, serve


class PersistJob(NamedTuple):
    """A file to write: its absolute path and its text."""

    path: str
    text: str


def save(job: PersistJob) -> Done:
    """Write the file."""
    if not os.path.isabs(job.path):
        return Done(f"{job.path} is not an absolute path")
    try:
        os.makedirs(os.path.dirname(job.path), mode=0o755, exist_ok=True)
        replace(job.path, job.text.encode(), sync=True)
    except OSError as error:
        return Done(f"cannot write {job.path}: {error.strerror or error}")
    return Done("")


def main() -> int:
    """Do one job."""
    return serve(PersistJob, save, Done)


if __name__ == "__main__":
    sys.exit(main())
