"""The worker that writes history: ``python -m costguard.history.writer``, one batch, one answer."""

import os
import sqlite3
import sys

from costguard.history import store
from costguard.history.job import Batch
from costguard.process.worker import Done, serve


def save(batch: Batch) -> Done:
    """Write a batch; notes say when a new file was begun."""
    if not os.path.isabs(batch.path):
        return Done(f"{batch.path} is not an absolute path")
    try:
        return Done("", tuple(store.save(batch)))
    except OSError as error:
        return Done(f"{batch.path}: {error.strerror or error}")
    except sqlite3.Error as error:
        return Done(f"{batch.path}: {error}")


def main() -> int:
    """Do one job."""
    return serve(Batch, save, Done)


if __name__ == "__main__":
    sys.exit(main())
