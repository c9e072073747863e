"""The worker that writes history: ``python -m costguard.history.writer``, one batch, one answer.

In: ``{"path","batch":id,"instance","wall","dated":bool,"gpus":[[minute,gpu,known,unknown,low,mean,high],…],
"machine":[[minute,works,quiet,unknown],…],"events":[[incident,wall,kind,"json"],…]}``.
Out: ``{"saved":number of rows,"notes":[…]}`` or ``{"failed":"why"}``, then exit code 1.
"""

import json
import os
import sqlite3
import sys
from collections.abc import Mapping
from typing import Any

from costguard.history import store


def save(batch: Mapping[str, Any]) -> dict[str, object]:
    """Write a batch; the answer for the guard."""
    path = batch.get("path")
    if not isinstance(path, str) or not os.path.isabs(path):
        return {"failed": "history: the job names no absolute path"}
    try:
        notes = store.save(path, batch)
    except OSError as error:
        return {"failed": f"history is not written: {path}: {error.strerror or error}"}
    except sqlite3.Error as error:
        return {"failed": f"history is not written: {path}: {error}"}
    except (KeyError, TypeError, ValueError) as error:
        return {"failed": f"history: the job makes no sense ({type(error).__name__}: {error})"}
    return {"saved": sum(len(batch[name]) for name in ("gpus", "machine", "events")), "notes": notes}


def main() -> int:
    """Read the job, write, answer."""
    line = sys.stdin.buffer.readline()
    if not line.strip():
        return 0
    try:
        batch = json.loads(line)
    except ValueError as error:
        batch = {}
        answer: dict[str, object] = {"failed": f"history: the job cannot be read: {error}"}
    else:
        answer = save(batch if isinstance(batch, dict) else {})
    try:
        os.write(1, json.dumps(answer, separators=(",", ":")).encode() + b"\n")
    except OSError:
        return 1  # the guard is gone; the file is what counts
    return 1 if "failed" in answer else 0


if __name__ == "__main__":
    sys.exit(main())
