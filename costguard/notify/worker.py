"""The notification worker: ``python -m costguard.notify.worker``, one message, one answer.

In: ``{"message":{"id","kind","level","facts":{…}},"channels":[…],"settings":{…},"deadline":seconds}``.
``title``, ``body`` and ``dry_run`` may stand in the message instead of ``facts``; they are sent as they are.
Out: ``{"delivered":["wall"],"reached":{"wall":"2 terminals (pts/0, ttyS0)"},"failed":{"terminal":"why"}}``.
"""

import contextlib
import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from types import FrameType
from typing import Any

from costguard.masking import mask
from costguard.notify import compose
from costguard.notify.message import Deliver, DeliveryError, Message
from costguard.notify.terminal import clean
from costguard.people import with_names
from costguard.programs import die_with_parent

BAD_JOB = 2
"""Exit code for a job that nobody can do."""

CHANNELS = {"terminal": "costguard.notify.terminal", "wall": "costguard.notify.wall"}
"""Each channel's module; it has a function ``deliver``."""

DEFAULT_DEADLINE = 30.0
"""Seconds for all channels together."""


class TooLateError(Exception):
    """A channel took longer than its share of the deadline."""


def main() -> int:
    """Deliver one message over every channel."""
    die_with_parent()
    line = sys.stdin.buffer.readline()
    if not line.strip():
        return 0
    try:
        job = json.loads(line)
        message = parse(job["message"])
        channels = [str(name) for name in job["channels"]]
        settings = dict(job.get("settings") or {})
        deadline = float(job.get("deadline") or DEFAULT_DEADLINE)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        say({"error": f"the job makes no sense: {type(error).__name__}: {mask(str(error))}"})
        return BAD_JOB
    reached, failed = deliver(message, channels, settings, deadline)
    if not reached and not job["message"].get("facts", {}).get("attempts"):
        reached_nobody(message, failed)
    say({"delivered": list(reached), "reached": reached, "failed": failed})
    return 0


def reached_nobody(message: Message, failed: Mapping[str, str]) -> None:
    """Standard error is the journal of the guard: there the text stands for whoever looks later."""
    why = "; ".join(f"{name}: {words}" for name, words in failed.items()) or "no channel is configured"
    lines = clean(f"message that reached nobody ({why}): {message.text}").splitlines()
    with contextlib.suppress(OSError):  # nobody reads the journal either
        sys.stderr.write("\n  ".join(lines) + "\n")
        sys.stderr.flush()


def parse(given: Mapping[str, Any]) -> Message:
    """Read a message and compose its text. Raises KeyError, TypeError or ValueError for one that makes no sense."""
    kind, level = str(given["kind"]), str(given.get("level") or "info")
    if "title" in given:
        text = compose.Text(str(given["title"]), str(given.get("body") or ""), given.get("dry_run") is True)
    else:
        facts = {"machine": os.uname().nodename, **(given.get("facts") or {})}
        text = compose.compose(kind, facts)
    title, body = with_names(text.title), with_names(text.body)
    return Message(str(given.get("id") or ""), kind, level, title, body, text.dry_run)


def deliver(
    message: Message, channels: list[str], settings: Mapping[str, object], deadline: float
) -> tuple[dict[str, str], dict[str, str]]:
    """Try every channel, each with its share of what is left of the deadline; whom each reached, and why others failed."""
    signal.signal(signal.SIGALRM, _too_late)
    end = time.monotonic() + deadline
    reached: dict[str, str] = {}
    failed: dict[str, str] = {}
    for number, name in enumerate(channels):
        share = max(0.05, (end - time.monotonic()) / (len(channels) - number))
        try:
            channel: Deliver = importlib.import_module(CHANNELS[name]).deliver
            signal.setitimer(signal.ITIMER_REAL, share)
            reached[name] = channel(message, {**settings, "seconds": share * 0.9})
        except KeyError:
            failed[name] = f"there is no such channel; known: {', '.join(sorted(CHANNELS))}"
        except DeliveryError as error:
            failed[name] = mask(str(error))
        except TooLateError:
            failed[name] = f"no answer within {share:.0f} s"
        except Exception as error:  # noqa: BLE001 - one broken channel must not keep the others from being tried
            failed[name] = mask(f"{type(error).__name__}: {error}")[:500]
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    return reached, failed


def say(answer: Mapping[str, object]) -> None:
    """Write one line; a guard that is gone reads it no more, and that is no error."""
    data = json.dumps(answer, separators=(",", ":")).encode() + b"\n"
    try:
        while data:
            data = data[os.write(1, data) :]
    except BrokenPipeError:
        return


def _too_late(_number: int, _frame: FrameType | None) -> None:
    raise TooLateError


if __name__ == "__main__":
    sys.exit(main())
