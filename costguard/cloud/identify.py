"""Calls of a plug-in, each with a deadline and with one kind of error: which machine this is, and a session with its cloud."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from costguard import extras
from costguard.cloud import hints
from costguard.cloud.api import CloudError, Identity
from costguard.cloud.choose import Chosen, NobodyError
from costguard.cloud.retry import LateError, bounded
from costguard.engine import time_limits
from costguard.masking import mask
from costguard.plans import PlanFinding

LOAD_SECONDS, OPEN_SECONDS = time_limits.LOAD_SECONDS, time_limits.FACTS_SECONDS
"""Seconds to load the plug-in's library, and beside that to identify the machine, log in and gather facts: less than the guard gives a plan, so that it can say what hung."""

T = TypeVar("T")


@contextmanager
def identified(chosen: Chosen, end: float | None = None) -> Iterator[Identity]:
    """Who this machine is; whatever the plug-in raises there, or inside the block, is CloudError or NobodyError.

    ``end`` is a moment of the monotonic clock.
    """
    latest = time.monotonic() + OPEN_SECONDS if end is None else end
    try:
        yield step(chosen, "identify", lambda: chosen.provider.identify(chosen.site), latest)
    except CloudError:
        raise
    except ImportError as error:
        raise NobodyError(_no_sdk(chosen, error)) from error
    except Exception as error:
        text = f"the plug-in for {chosen.provider.name} failed: {type(error).__name__}: {mask(str(error))}"
        hint = "report it with `costguard doctor --json`; until then use another kill_action"
        raise NobodyError(PlanFinding("plugin_failed", f"{text}; the bill would go on", hint), "failed") from error


def step(chosen: Chosen, name: str, call: Callable[[], T], end: float) -> T:
    """One call of the plug-in. Raises CloudError for one that does not come back: a worker that is killed names no cause."""
    began = time.monotonic()
    try:
        return bounded(call, end - began)
    except LateError as error:
        waited = time.monotonic() - began
        text = f"the plug-in for {chosen.provider.name} did not return from `{name}` within {waited:.0f} s"
        hint = f"check the network, {hints.THEN_DOCTOR}; if it lasts, report it"
        raise CloudError("unreachable", text, code="no_answer", hint=hint) from error


def _no_sdk(chosen: Chosen, error: ImportError) -> PlanFinding:
    text = f"the library for {chosen.provider.name} is not installed ({error}); the bill would go on"
    return PlanFinding("sdk_missing", text, extras.command(chosen.name))
