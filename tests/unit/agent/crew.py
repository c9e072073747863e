"""Workers of the guard, driven by hand."""

from collections.abc import Mapping
from types import MappingProxyType

from costguard.agent.circumstances import Circumstances
from costguard.agent.workers import ActionEffect, Workers
from costguard.engine.effects import Tell
from costguard.engine.events import Outcome
from costguard.host.ports import Ended, Line

NOTHING: Mapping[str, object] = MappingProxyType({})


def begin(
    workers: Workers,
    effect: Tell | ActionEffect,
    now: float,
    given: Circumstances = Circumstances(),  # noqa: B008 # a constant: nothing can be changed in it
    facts: Mapping[str, object] = NOTHING,
) -> Outcome | None:
    """Start the worker of any effect."""
    return workers.tell(effect, now, facts) if isinstance(effect, Tell) else workers.start(effect, now, given)


def wrote(workers: Workers, child: int, line: bytes, now: float) -> Outcome | None:
    """A worker wrote a line."""
    return workers.take(Line(child, line), now)


def ended(workers: Workers, child: int, code: int, now: float) -> Outcome | None:
    """A worker ended."""
    return workers.take(Ended(child, code), now)
