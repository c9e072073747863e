"""The notification worker: ``python -m costguard.notify.worker``, one message, one answer."""

import contextlib
import importlib
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from types import FrameType

from costguard.masking import mask
from costguard.notify import compose
from costguard.notify.job import Draft, TellJob, Told
from costguard.notify.message import Deliver, DeliveryError, Message
from costguard.notify.terminal import clean
from costguard.people import with_names
from costguard.process.worker import serve
from costguard.programs import die_with_parent

CHANNELS = {"terminal": "costguard.notify.terminal", "wall": "costguard.notify.wall"}
"""Each channel's module; its function ``deliver`` is a `Deliver`."""

OWN_SHARE = 0.75
"""The share of its time that a channel may plan with; the rest is slack for a busy machine, before it is interrupted."""


class TooLateError(Exception):
    """A channel took longer than its share of the deadline."""


def main() -> int:
    """Deliver one message over every channel."""
    die_with_parent()
    return serve(TellJob, tell, lambda error: Told(error=error))


def tell(job: TellJob) -> Told:
    """Compose and deliver a message; when a first try reaches nobody, the text goes to the journal."""
    message = written(job.message)
    reached, failed = deliver(message, job.channels, job.settings, job.deadline)
    if not reached and not job.message.facts.get("attempts"):
        reached_nobody(message, failed)
    return Told(reached, failed)


def reached_nobody(message: Message, failed: Mapping[str, str]) -> None:
    """Write the message to standard error, which is the guard's journal, for a later reader."""
    why = "; ".join(f"{name}: {reason}" for name, reason in failed.items()) or "no channel is configured"
    lines = clean(f"message that reached nobody ({why}): {message.text}").splitlines()
    with contextlib.suppress(OSError):  # nobody reads the journal either
        sys.stderr.write("\n  ".join(lines) + "\n")
        sys.stderr.flush()


def written(draft: Draft) -> Message:
    """The message with its text."""
    if draft.title is not None:
        text = compose.Text(draft.title, draft.body, draft.dry_run)
    else:
        text = compose.compose(draft.kind, {"machine": os.uname().nodename, **draft.facts})
    return Message(draft.id, draft.kind, draft.level, with_names(text.title), with_names(text.body), text.dry_run)


def deliver(
    message: Message, channels: Sequence[str], settings: Mapping[str, object], deadline: float
) -> tuple[dict[str, str], dict[str, str]]:
    """Try every channel, each with its share of the time left; returns who was reached, and why others failed."""
    signal.signal(signal.SIGALRM, _too_late)
    end = time.monotonic() + deadline
    reached: dict[str, str] = {}
    failed: dict[str, str] = {}
    for number, name in enumerate(channels):
        share = max(0.05, (end - time.monotonic()) / (len(channels) - number))
        try:
            channel: Deliver = importlib.import_module(CHANNELS[name]).deliver
            signal.setitimer(signal.ITIMER_REAL, share)
            reached[name] = channel(message, {**settings, "seconds": share * OWN_SHARE})
        except KeyError:
            failed[name] = f"no such channel; allowed: {', '.join(sorted(CHANNELS))}"
        except DeliveryError as error:
            failed[name] = mask(str(error))
        except TooLateError:
            failed[name] = f"no answer within {share:.0f} s"
        except Exception as error:  # noqa: BLE001 - one broken channel must not keep the others from being tried
            failed[name] = mask(f"{type(error).__name__}: {error}")[:500]
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    return reached, failed


def _too_late(_number: int, _frame: FrameType | None) -> None:
    raise TooLateError


if __name__ == "__main__":
    sys.exit(main())
