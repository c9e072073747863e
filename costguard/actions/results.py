"""One small file per attempt: it makes acting happen at most once and outlives the worker."""

import contextlib
import hashlib
import json
import os
import urllib.parse
from typing import NamedTuple, get_args

from costguard.actions.base import Context
from costguard.clocks import boot_clock
from costguard.files import text_of, write_whole
from costguard.plans import Result, Status
from costguard.programs import process_state


class Begun(NamedTuple):
    """Whether this process may execute, and a message when the file could not be written."""

    first: bool
    trouble: str = ""


class Record(NamedTuple):
    """What the file of an attempt says. ``outcome`` is None while, or if, only the start was recorded."""

    pid: int
    start_time: int
    boot_id: str
    age: float  # seconds since the attempt started, suspended time included
    outcome: Result | None

    @property
    def running(self) -> bool:
        """Whether the process that started the attempt is still alive."""
        state, _, start_time = process_state(self.pid)
        return state not in "ZX" and start_time == self.start_time


def path_of(context: Context) -> str:
    """The file of an attempt; any id makes one safe name of its own."""
    name = urllib.parse.quote(context.attempt, safe="")
    if len(name) > 200:  # a file name has at most 255 bytes
        name = hashlib.sha256(context.attempt.encode()).hexdigest()
    return os.path.join(context.results, name + ".json")


def begin(context: Context) -> Begun:
    """Claim the attempt. A file that exists, whatever is in it, means that somebody started it before.

    A file that cannot be written does not stop a stop: the message goes into the outcome.
    """
    if not context.results or not context.attempt:
        return Begun(True, "the attempt has no result file")
    with contextlib.suppress(OSError):  # that there is one, or why there is none, is told by the file
        os.makedirs(context.results, mode=0o700)
    try:
        fd = os.open(path_of(context), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, _start(context))
        finally:
            os.close(fd)
    except FileExistsError:
        return Begun(False)
    except OSError as error:
        return Begun(True, f"the result file could not be written ({error.strerror})")
    return Begun(True)


def finish(context: Context, outcome: Result) -> str:
    """Replace the file with the outcome; a message when that failed."""
    if not context.results or not context.attempt:
        return ""
    started = json.loads(_start(context))
    try:
        write_whole(path_of(context), json.dumps({**started, **outcome.as_json}, separators=(",", ":")).encode())
    except OSError as error:
        return f"the result could not be recorded ({error.strerror})"
    return ""


def read(context: Context) -> Record | None:
    """What is known of an attempt; None when it was never started (or nothing could be written)."""
    try:
        with open(path_of(context), "rb") as file:
            text = file.read()
    except OSError:
        return None
    try:
        data = json.loads(text)
        status: Status | str = data["status"]
        outcome = None
        if status in get_args(Status):
            receipt = {str(name): str(value) for name, value in dict(data.get("receipt") or {}).items()}
            outcome = Result(status, str(data["detail"]), str(data["proof"]), receipt)  # type: ignore[arg-type] # checked above
        age = boot_clock() - float(data["since"])
        return Record(int(data["pid"]), int(data["start_time"]), str(data["boot_id"]), age, outcome)
    except (ValueError, KeyError, TypeError):  # cut short by a full disk or a crash: started, no more is known
        return Record(0, 0, "", 0.0, None)


def boot_id(context: Context) -> str:
    """The kernel's name for this boot; empty when it cannot be read."""
    return text_of(f"{context.host.procfs}/sys/kernel/random/boot_id").strip()


def _start(context: Context) -> bytes:
    pid = os.getpid()
    start = {
        "status": "started",
        "pid": pid,
        "start_time": process_state(pid)[2],
        "boot_id": boot_id(context),
        "since": round(boot_clock(), 3),
        "action": context.action,
    }
    return json.dumps(start, separators=(",", ":")).encode()
