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
"""Each channel's module; it has a function ``deliver``."""


OWN_SHARE = 0.75
"""Of its time that a channel may plan with; the rest is for a machine that is busy, before it is interrupted."""


class TooLateError(Exception):
    """A channel took longer than its share of the deadline."""


def main() -> int:
    """Deliver one message over every channel."""
    die_with_parent()
    return serve(TellJob, tell, lambda error: Told(error=error))


def tell(job: TellJob) -> Told:
    """Compose it and deliver it; a warning's first try that reaches nobody is left in the journal."""
    message = written(job.message)
    reached, failed = deliver(message, job.channels, job.settings, job.deadline)
    if not reached and not job.message.facts.get("attempts"):
        reached_nobody(message, failed)
    return Told(reached, failed)


def reached_nobody(message: Message, failed: Mapping[str, str]) -> None:
    """Standard error is the journal of the guard: there the text stands for whoever looks later."""
    why = "; ".join(f"{name}: {words}" for name, words in failed.items()) or "no channel is configured"
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
            reached[name] = channel(message, {**settings, "seconds": share * OWN_SHARE})
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


def _too_late(_number: int, _frame: FrameType | None) -> None:
    raise TooLateError


if __name__ == "__main__":
    sys.exit(main())
